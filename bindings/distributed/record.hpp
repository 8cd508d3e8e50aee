// Collectives in torch.profiler and in execution traces: the events and names of ProcessGroupNCCL.
#pragma once
#include <cstdint>
#include <string>
#include <tuple>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace xpu_ops::distributed {

// The unique name and the description of a group.
using GroupName = std::tuple<std::string, std::string>;

// The engine has carried a collective of so many tensors since `begin` (runtime::detail::profile_clock; 0: no profile
// ran), and ends it on this thread.
void record_carried(c10d::OpType type, size_t results, int device, int64_t begin);

}  // namespace xpu_ops::distributed
