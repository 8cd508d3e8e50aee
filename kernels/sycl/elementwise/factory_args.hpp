// Launch structs of the factories.
#pragma once
#include "kernels/ops/problem/factory.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

struct SequenceArgs : ops::SequenceProblem {
  uint32_t n;      // elements of this launch
  uint32_t first;  // index of the first one
  uint32_t last;   // index of the last element of the whole sequence
  uint32_t once;   // 1: see whole_or_part
};

struct TriangleArgs : ops::TriangleProblem {
  Divider cols, rows;
  uint32_t n;
};

using TriangleIndexArgs = ops::TriangleIndexProblem;  // one work-group per row

struct ComplexArgs : ops::ComplexProblem { uint32_t n; };

struct RepeatArgs : ops::RepeatProblem {
  uint32_t chunk;  // results of one item
};

}  // namespace xpu_ops
