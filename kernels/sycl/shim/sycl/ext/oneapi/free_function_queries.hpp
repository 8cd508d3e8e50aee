#include "kernels/sycl/shim/xpu_shim.hpp"
