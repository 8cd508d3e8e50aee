// Threads for what users attach to futures. A callback may itself wait for a collective (PowerSGD does): it must not
// occupy the thread that starts collectives, nor one of the engine.
#pragma once
#include <functional>

namespace xpu_ops::distributed {

// The task, which throws nothing, begins at once: on an idle thread, or on a new one.
void run_apart(std::function<void()> task);

}  // namespace xpu_ops::distributed
