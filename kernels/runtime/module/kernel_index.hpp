// From kernel name to the module that holds it. codegen writes the table; sorted by name.
#pragma once
#include <cstddef>

#include "kernels/runtime/module/module.hpp"

namespace xpu_ops::runtime {

struct KernelIndexEntry {
  const char* name;
  const char* module;
};
extern const KernelIndexEntry kKernelIndex[];
extern const size_t kKernelIndexSize;

}  // namespace xpu_ops::runtime
