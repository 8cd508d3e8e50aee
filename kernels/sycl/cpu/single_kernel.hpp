// Kernels whose work-groups are one item, for a CPU device.
#pragma once
#include "kernels/sycl/core/device.hpp"

// The CPU device compiles it as it stands, and not a second time with several items as a vector.
#define XPU_KERNEL_SINGLE_1                                                   \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>)) \
      SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::work_group_size<1>)) void
#define XPU_KERNEL_SINGLE_2                                                   \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<2>)) \
      SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::work_group_size<1, 1>)) void
