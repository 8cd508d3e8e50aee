// libxpu_ops_mkl.so and libxpu_ops_mkl_queue.so: whether they can be used, and their functions.
#pragma once
#include <string>

#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

// Whether the library and oneMKL's own libraries are there. Nothing is loaded. XPU_OPS_MKL=0 makes it false.
bool installed() noexcept;
// Each loads its library on first use. Throws Error{runtime} if it does not load.
const Table& table();
QueuePlan& queue_plan();
// "" where it is installed, else the reason.
std::string missing();

}  // namespace xpu_ops::mkl
