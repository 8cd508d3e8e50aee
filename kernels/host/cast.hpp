// Casts on the calling thread, by the device's conversion functions.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/sycl/elementwise/copy_args.hpp"

namespace xpu_ops::host {

using Cast = void (*)(const CopyArgs&);

// nullptr where only the device converts between the two types.
Cast cast(DType to, DType from);

}  // namespace xpu_ops::host
