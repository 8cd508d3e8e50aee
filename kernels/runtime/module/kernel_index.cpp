#include "kernels/runtime/module/kernel_index.hpp"

namespace xpu_ops::runtime {

// Overridden by the generated table; lets the library link where codegen has written none. In a unit of its own so that
// nothing folds the size.
[[gnu::weak]] extern const KernelIndexEntry kKernelIndex[1] = {{nullptr, nullptr}};
[[gnu::weak]] extern const size_t kKernelIndexSize = 0;

}  // namespace xpu_ops::runtime
