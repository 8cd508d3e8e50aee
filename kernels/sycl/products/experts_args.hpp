// Launch arguments of layers of experts; shared by host and device.
#pragma once
#include "kernels/ops/problem/experts.hpp"

namespace xpu_ops {

constexpr uint32_t kMostExperts = 1024;  // that an item keeps scores or counts of
constexpr uint32_t kMostChosen = 64;     // of a token

struct ChooseArgs : ops::ChooseProblem { uint32_t each = 1; };  // tokens of an item
struct AlignArgs : ops::AlignProblem {};
struct SpreadArgs : ops::SpreadProblem { uint32_t at_once = 0; };  // the item that ranks moves the rows, too
struct SumArgs : ops::SumProblem { uint32_t chunk = 0; };          // columns of a work-group
struct PairArgs : ops::PairProblem { uint32_t chunk = 0; };        // columns of a work-group

}  // namespace xpu_ops
