// How long this thread has spent loading and linking kernel modules: what a first call takes that no later one does.
#pragma once
#include <cstdint>

namespace xpu_ops::runtime {

int64_t module_load_ns();

}  // namespace xpu_ops::runtime
