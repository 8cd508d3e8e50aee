// Collectives on their way, of all groups of the process: what the interpreter's end has to wait for.
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <optional>

namespace xpu_ops::distributed {

class ProcessGroupXCCL;
class XcclWork;

// Held by the threads that start and complete a work; let go after their last touch of what may be Python's.
using Ticket = std::shared_ptr<void>;
Ticket outstanding(c10::weak_intrusive_ptr<ProcessGroupXCCL> group, c10::weak_intrusive_ptr<XcclWork> work,
                   std::chrono::milliseconds timeout);

// Without the GIL. Returns when no ticket is held. After `limit`, by default the longest timeout among them, the groups
// of those that are left are aborted; their works and tensors stay for ever, since an engine may still use them.
void settle(std::optional<std::chrono::milliseconds> limit);

}  // namespace xpu_ops::distributed
