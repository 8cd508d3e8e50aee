// Launch structs of the random kernels. 64-bit parameters are kept as bits: a double in the struct would make every
// kernel need fp64.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/device_error_args.hpp"

namespace xpu_ops {

// Elements a work-item's four (or two, for 64-bit floats) values lie apart. Part of what a seed means: not a tuning
// knob.
constexpr uint32_t kRandomStride = 1024;

struct RandomArgs {
  void* dst;
  uint64_t seed, offset;
  const uint64_t* state;  // of a graph, else null: see philox_key
  uint32_t n;
  float a, b;         // parameters of the distribution
  uint64_t a64, b64;  // the same as bits of doubles
  uint64_t range;     // random_: values are base + [0, range); 0 means 2^64
  int64_t base;
};

// Elementwise kernels that read parameters from memory.
struct RandomFromArgs {
  void* dst;
  void* dst2;
  const void *x, *y;
  DeviceError* error;  // of bernoulli_: a value that is no probability, reported as the registered text `message`
  int64_t message;
  uint64_t seed, offset;
  const uint64_t* state;  // of a graph, else null: see philox_key
  uint32_t n;
  float a, b;
};

// Draws with replacement: row r of `cumulative` has `categories` running sums that end in its total.
struct MultinomialArgs {
  void* dst;
  const void* cumulative;
  uint64_t seed, offset;
  const uint64_t* state;  // of a graph, else null: see philox_key
  uint32_t n, samples, categories;
};

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
