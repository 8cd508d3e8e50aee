// From kernel name to the module that holds it. codegen writes the table; sorted by name.
#pragma once
#include <cstddef>

#include "kernels/runtime/module.hpp"

namespace xpu_ops::runtime {

struct KernelIndexEntry {
  const char* name;
  const char* module;
};
extern const KernelIndexEntry kKernelIndex[];
extern const size_t kKernelIndexSize;

// The kernels for operands that step through memory, by those for rows of the same expressions; the last rows are null.
struct StepKernels {
  const KernelTable* rows;
  const KernelTable* steps;
};
extern const StepKernels kStepKernels[];

}  // namespace xpu_ops::runtime
