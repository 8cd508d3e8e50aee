// Problems of random numbers; no type of the device, no torch. 64-bit parameters are kept as bits: a double in the
// struct would make every kernel need fp64.
#pragma once
#include <cstdint>

namespace xpu_ops {

struct DeviceError;

namespace ops {

struct RandomProblem {
  void* dst;
  uint64_t seed, offset;
  const uint64_t* state;  // of a graph, else null: see philox_key
  uint32_t n;
  float a, b;         // parameters of the distribution
  uint64_t a64, b64;  // the same as bits of doubles
  uint64_t range;     // random_: values are base + [0, range); 0 means 2^64
  int64_t base;
};

// Of elementwise kernels that read parameters from memory.
struct RandomFromProblem {
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
struct MultinomialProblem {
  void* dst;
  const void* cumulative;
  uint64_t seed, offset;
  const uint64_t* state;  // of a graph, else null: see philox_key
  uint32_t n, samples, categories;
};

// Draws of keys, pairs of seed and offset side by side: `chunks` counters per key give its `per_key` values. An item is
// a counter; a launch has those from `first` on.
struct KeyDrawProblem {
  void* dst;
  const uint64_t* keys;
  uint64_t first, items, chunks, per_key;
  float a, b;         // a + b * x
  uint64_t a64, b64;  // the same as bits of doubles
};

// A key of each of `keys` for each split, or of one split the key that `data` steps on give, which may lie at `from`.
struct KeyDeriveProblem {
  uint64_t* out;
  const uint64_t *in, *from;
  uint64_t first, items, keys, data;
};

}  // namespace ops
}  // namespace xpu_ops
