// Arguments of binary search, membership and binning; shared by host and device.
#pragma once
#include "kernels/ops/problem/search.hpp"

namespace xpu_ops {

// Nothing is planned.
using SearchArgs = plan::SearchProblem;
using IsinArgs = plan::IsinProblem;
using BinArgs = plan::BinProblem;

// Each item a share of the values, in a table of its own.
struct BinCountArgs : plan::BinCountProblem {
  int64_t* counts;  // tables x bins
  uint32_t tables;
};

}  // namespace xpu_ops
