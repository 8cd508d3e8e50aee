// Arguments of fractional max pooling; shared by host and device. Unpooling itself is a column_assign.
#pragma once
#include "kernels/ops/problem/unpool.hpp"

namespace xpu_ops {

using FractionalArgs = ops::FractionalProblem;  // nothing is planned

}  // namespace xpu_ops
