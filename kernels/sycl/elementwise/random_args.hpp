// Launch structs of the random kernels.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/random.hpp"
#include "kernels/sycl/core/device_error_args.hpp"

namespace xpu_ops {

// Elements a work-item's four (or two, for 64-bit floats) values lie apart. Part of what a seed means: not a tuning
// knob.
constexpr uint32_t kRandomStride = 1024;

// Nothing is planned.
using RandomArgs = ops::RandomProblem;
using RandomFromArgs = ops::RandomFromProblem;
using MultinomialArgs = ops::MultinomialProblem;
using KeyDrawArgs = ops::KeyDrawProblem;
using KeyDeriveArgs = ops::KeyDeriveProblem;

// randperm. Upper half of a key: the bucket; lower half: a place in it.
struct ShuffleArgs {
  int64_t* dst;
  const uint64_t* keys;
  uint32_t* order;   // [n]
  uint32_t* counts;  // [chunks, 2^bits]
  uint32_t n, bits;
  uint32_t chunks, chunk;  // parts that are counted and moved by one item each
};

}  // namespace xpu_ops
