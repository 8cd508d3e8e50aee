// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011), counter based: the result depends on the counter alone and so on no
// launch shape. The counter is (offset, element, round); a launch moves the generator's offset on by one counter.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

struct Random4 { uint32_t v[4]; };

inline Random4 philox(uint64_t seed, uint64_t offset, uint32_t element, uint32_t round) {
  uint32_t c0 = static_cast<uint32_t>(offset), c1 = static_cast<uint32_t>(offset >> 32), c2 = element, c3 = round;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    uint64_t a = static_cast<uint64_t>(c0) * 0xD2511F53u, b = static_cast<uint64_t>(c2) * 0xCD9E8D57u;
    uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b), c3 = static_cast<uint32_t>(a), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

struct PhiloxKey { uint64_t seed, offset; };
// The numbers of a launch. One in a graph finds seed and offset at `state`, where each replay puts them, and has its
// own place behind that offset. `unit`: steps of the state per counter.
template <class Args> inline PhiloxKey philox_key(const Args& p, uint64_t unit) {
  if (p.state) return {p.state[0], p.state[1] / unit + p.offset};
  return {p.seed, p.offset};
}
// Counter `element` of a launch. Drawn in both branches: a seed that either of them gives is no constant of the CPU
// device's loop over items, which would then make the keys of the ten rounds anew for each vector, a quarter more time.
template <class Args> inline Random4 philox_of(const Args& p, uint32_t element) {
  if (p.state) {
    const PhiloxKey key = philox_key(p, 4);
    return philox(key.seed, key.offset, element, 0);
  }
  return philox(p.seed, p.offset, element, 0);
}

// [0, 1) with 24 bits, the most that a float holds at even spacing.
inline float uniform24(uint32_t x) { return static_cast<float>(x >> 8) * 0x1p-24f; }
// (0, 1] down to 2^-33: for logarithms.
inline float uniform_open(uint32_t x) { return static_cast<float>(x) * 0x1p-32f + 0x1p-33f; }
inline double uniform53(uint32_t hi, uint32_t lo) {
  return static_cast<double>(hi) * 0x1p-32 + static_cast<double>(lo >> 11) * 0x1p-53;
}
inline double uniform53_open(uint32_t hi, uint32_t lo) { return uniform53(hi, lo) + 0x1p-54; }

struct NormalPair { float a, b; };
// Box and Muller 1958.
inline NormalPair normal_pair(uint32_t x, uint32_t y) {
  float r = sycl::sqrt(-2.0f * sycl::log(uniform_open(x))), angle = 2.0f * uniform24(y);
  return {r * sycl::cospi(angle), r * sycl::sinpi(angle)};
}

// A stream of numbers for one element, for methods that reject.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t offset, uint32_t element) : seed_(seed), offset_(offset), element_(element) {}
  uint32_t next() {
    if (left_ == 0) {
      buffer_ = philox(seed_, offset_, element_, round_++);
      left_ = 4;
    }
    --left_;
    return left_ == 3 ? buffer_.v[0] : left_ == 2 ? buffer_.v[1] : left_ == 1 ? buffer_.v[2] : buffer_.v[3];
  }
  float uniform() { return uniform_open(next()); }
  float normal() {
    uint32_t x = next(), y = next();
    return normal_pair(x, y).a;
  }

 private:
  uint64_t seed_, offset_;
  uint32_t element_, round_ = 0, left_ = 0;
  Random4 buffer_{};
};

}  // namespace xpu
