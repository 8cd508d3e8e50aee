// Factories: sequences, triangles, complex numbers from parts.
#pragma once
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/elementwise/factory_args.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu {

using xpu_ops::ComplexArgs;
using xpu_ops::RepeatArgs;
using xpu_ops::SequenceArgs;
using xpu_ops::TriangleArgs;
using xpu_ops::TriangleIndexArgs;

// base + step * i with base and step of two floats each: an exact product by fma, sums with their errors (Dekker 1971).
// Right to the last bit of a float while i < 2^24.
inline float affine(float base_hi, float base_lo, float step_hi, float step_lo, float i) {
  float p = step_hi * i, e = sycl::fma(step_hi, i, -p) + step_lo * i;
  float s = base_hi + p, b = s - base_hi, err = (base_hi - (s - b)) + (p - b);
  return s + (err + e + base_lo);
}
inline float affine_index(float base_hi, float base_lo, float step_hi, float step_lo, uint32_t i) {
  if (i < (1u << 24)) return affine(base_hi, base_lo, step_hi, step_lo, static_cast<float>(i));
  // Beyond 2^24 the index itself is split: step * high part first, at float precision.
  float high = static_cast<float>(i & 0xff000000u), low = static_cast<float>(i & 0x00ffffffu);
  float p = step_hi * high, e = sycl::fma(step_hi, high, -p) + step_lo * high;
  float s = base_hi + p, b = s - base_hi, err = (base_hi - (s - b)) + (p - b);
  return affine(s, err + e + base_lo, step_hi, step_lo, low);
}

inline double f64(uint64_t bits) { return sycl::bit_cast<double>(bits); }

// dst[i] = value(i) for the elements of a launch. 64-bit addresses and full groups without masks: see groups.hpp.
template <class T, class F>
XPU_INLINE void sequence(const SequenceArgs& p, F value) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t local = item.get_local_range(0), base = item.get_group(0) * local, lane = item.get_local_id(0);
  T* dst = static_cast<T*>(p.dst) + (p.first + base);
  const uint32_t i = p.first + static_cast<uint32_t>(base) + static_cast<uint32_t>(lane);
  whole_or_part(base + local <= p.n, base + lane < p.n, p.once,
                [&]() __attribute__((always_inline)) { dst[lane] = value(i); });
}

template <class T>
void arange(const SequenceArgs& p) {
  if constexpr (is_same_v<T, double>) {
    sequence<T>(p, [&](uint32_t i) __attribute__((always_inline)) {
      return f64(p.start64) + f64(p.step64) * static_cast<double>(i);
    });
  } else if constexpr (is_same_v<opmath_t<T>, float>) {
    if (p.last < (1u << 24))
      sequence<T>(p, [&](uint32_t i) __attribute__((always_inline)) {
        return T(affine(p.start_hi, p.start_lo, p.step_hi, p.step_lo, static_cast<float>(i)));
      });
    else
      sequence<T>(p, [&](uint32_t i) __attribute__((always_inline)) {
        return T(affine_index(p.start_hi, p.start_lo, p.step_hi, p.step_lo, i));
      });
  } else {
    sequence<T>(p, [&](uint32_t i) __attribute__((always_inline)) {
      return static_cast<T>(p.start + p.step * static_cast<int64_t>(i));
    });
  }
}

// Element i of a linspace, in the type the elements are computed in. Integers are computed in double, as on CPU.
template <class T>
XPU_INLINE auto linspace_value(const SequenceArgs& p, uint32_t i) {
  const bool from_end = i >= p.half_n;
  if constexpr (is_same_v<T, cplx<float>>) {
    float k = from_end ? -static_cast<float>(p.last - i) : static_cast<float>(i);
    float re = from_end ? p.end_hi : p.start_hi, im = from_end ? p.end_im : p.start_im;
    return cplx<float>(sycl::fma(p.step_hi, k, re), sycl::fma(p.step_im, k, im));
  } else if constexpr (is_same_v<T, cplx<double>>) {
    double k = from_end ? -static_cast<double>(p.last - i) : static_cast<double>(i);
    double re = from_end ? f64(p.end64) : f64(p.start64), im = from_end ? f64(p.end_im64) : f64(p.start_im64);
    return cplx<double>(sycl::fma(f64(p.step64), k, re), sycl::fma(f64(p.step_im64), k, im));
  } else if constexpr (is_same_v<opmath_t<T>, float>) {
    // One of the two by selection; sums of negated numbers are the negated sums.
    const uint32_t k = from_end ? p.last - i : i;
    const float sign = from_end ? -1.0f : 1.0f, hi = sign * p.step_hi, lo = sign * p.step_lo;
    const float base = from_end ? float(p.end_hi) : float(p.start_hi),
                rest = from_end ? float(p.end_lo) : float(p.start_lo);
    return p.last < (1u << 24) ? affine(base, rest, hi, lo, static_cast<float>(k))
                               : affine_index(base, rest, hi, lo, k);
  } else {
    return from_end ? f64(p.end64) - f64(p.step64) * static_cast<double>(p.last - i)
                    : f64(p.start64) + f64(p.step64) * static_cast<double>(i);
  }
}

template <class T>
void linspace(const SequenceArgs& p) {
  sequence<T>(p, [&](uint32_t i) __attribute__((always_inline)) { return convert<T>(linspace_value<T>(p, i)); });
}

template <class T>
void logspace(const SequenceArgs& p) {
  uint32_t k = global_id();
  if (k >= p.n) return;
  uint32_t i = p.first + k;
  T* dst = static_cast<T*>(p.dst);
  auto e = linspace_value<T>(p, i);
  if constexpr (is_complex_v<T>) {
    // base^(a + bi) = base^a (cos(b ln base) + i sin(b ln base)) for a real base.
    using R = real_t<T>;
    R base = is_same_v<R, double> ? R(f64(p.base64)) : R(p.base);
    R angle = e.im * sycl::log(base), size = sycl::pow(base, e.re);
    dst[i] = T(size * sycl::cos(angle), size * sycl::sin(angle));
  } else if constexpr (is_same_v<opmath_t<T>, float>) {
    dst[i] = T(sycl::pow(p.base, e));
  } else {
    dst[i] = convert<T>(sycl::pow(f64(p.base64), e));
  }
}

// Integers need fp64, so these go into modules of their own.
template <class T> void linspace_integral(const SequenceArgs& p) { linspace<T>(p); }
template <class T> void logspace_integral(const SequenceArgs& p) { logspace<T>(p); }

template <class T, bool UPPER>
void triangle(const TriangleArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  uint32_t q = xpu_ops::div(i, p.cols), col = i - q * p.cols.d, row = q - xpu_ops::div(q, p.rows) * p.rows.d;
  int32_t d = static_cast<int32_t>(col) - static_cast<int32_t>(row);
  bool keep = UPPER ? d >= p.diagonal : d <= p.diagonal;
  T v = static_cast<const T*>(p.src)[i];
  static_cast<T*>(p.dst)[i] = keep ? v : T{};
}

template <class T, bool UPPER>
void triangle_indices(const TriangleIndexArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  int64_t row = p.first_row + static_cast<int64_t>(it.get_group(0));
  int64_t before, begin, end;  // entries of earlier rows; columns of this row
  if constexpr (UPPER) {
    begin = row + p.offset < 0 ? 0 : row + p.offset;
    end = p.cols;
    // Rows with row + offset <= 0 are full; the others lose one more each.
    int64_t full = p.offset < 0 ? (row < -p.offset ? row : -p.offset) : 0, rest = row - full;
    int64_t first = full + p.offset < 0 ? 0 : full + p.offset;
    before = full * p.cols + rest * (p.cols - first) - rest * (rest - 1) / 2;
  } else {
    begin = 0;
    end = row + p.offset + 1 < p.cols ? row + p.offset + 1 : p.cols;
    // Earlier rows grow by one each until they are full.
    int64_t r0 = p.first_row, len0 = r0 + p.offset + 1, grow = p.cols - len0;
    grow = grow < 0 ? 0 : grow;
    int64_t k = row - r0, growing = k < grow ? k : grow;
    before = growing * len0 + growing * (growing - 1) / 2 + (k - growing) * p.cols;
  }
  T *rows = static_cast<T*>(p.dst) + before, *cols = rows + p.n;
  const size_t count = end > begin ? end - begin : 0;
  for_columns(0, count, it.get_local_id(0), it.get_local_range(0), [&](size_t c) {
    rows[c] = static_cast<T>(row);
    cols[c] = static_cast<T>(begin + static_cast<int64_t>(c));
  });
}

template <class T>
void complex_of(const ComplexArgs& p) {
  uint32_t i = global_id();
  if (i < p.n) static_cast<cplx<T>*>(p.dst)[i] = cplx<T>(static_cast<const T*>(p.a)[i], static_cast<const T*>(p.b)[i]);
}

template <class T>
void polar_of(const ComplexArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  using M = opmath_t<T>;
  const M r = static_cast<const T*>(p.a)[i], angle = static_cast<const T*>(p.b)[i];
  static_cast<cplx<T>*>(p.dst)[i] = cplx<T>(T(r * sycl::cos(angle)), T(r * sycl::sin(angle)));
}

// An item has some neighbouring results: it searches the first of them and walks to the others.
template <class T>
void repeat_indices(const RepeatArgs& p) {
  uint32_t i = global_id() * p.chunk;
  if (i >= p.n) return;
  const uint32_t end = p.n - i < p.chunk ? p.n : i + p.chunk;
  const int64_t* cumulative = static_cast<const int64_t*>(p.cumulative);
  uint32_t low = 0, size = p.count;
  while (size > 0) {
    uint32_t half_size = size / 2;
    bool right = cumulative[low + half_size] <= static_cast<int64_t>(i);
    low = right ? low + half_size + 1 : low;
    size = right ? size - half_size - 1 : half_size;
  }
  for (; i < end; ++i) {
    while (low < p.count && cumulative[low] <= static_cast<int64_t>(i)) ++low;
    static_cast<T*>(p.dst)[i] = static_cast<T>(low);
  }
}

}  // namespace xpu
