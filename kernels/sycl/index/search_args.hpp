// Arguments of binary search, membership and binning; shared by host and device.
#pragma once
#include "kernels/ops/problem/search.hpp"

namespace xpu_ops {

// Nothing is planned.
using SearchArgs = ops::SearchProblem;
using IsinArgs = ops::IsinProblem;
using BinArgs = ops::BinProblem;

// Each item a share of the values, in a table of its own.
struct BinCountArgs : ops::BinCountProblem {
  int64_t* counts;  // tables x bins
  uint32_t tables;
};

}  // namespace xpu_ops
