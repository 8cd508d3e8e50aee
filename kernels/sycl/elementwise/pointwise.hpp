// Device template of every pointwise kernel: rows, of which a dense tensor is one. A functor generated from a manifest
// row carries the expression, the operand types and the result types.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/fours.hpp"
#include "kernels/sycl/elementwise/pointwise_args.hpp"
#include "kernels/sycl/math/integer_division.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu {

using xpu_ops::kByteVector;
using xpu_ops::PointwiseArgs;
using xpu_ops::Value;

// Typed access to a Value: the compute type decides which member the host filled.
template <class M> inline M value_as(const Value& v) { return static_cast<M>(v.i64); }
template <> inline float value_as<float>(const Value& v) { return v.f32; }
template <> inline bf16 value_as<bf16>(const Value& v) { return v.f32; }
template <> inline double value_as<double>(const Value& v) { return v.f64; }
template <> inline bool value_as<bool>(const Value& v) { return v.i64 != 0; }
template <> inline cplx<float> value_as<cplx<float>>(const Value& v) { return {v.c64[0], v.c64[1]}; }
template <> inline cplx<double> value_as<cplx<double>>(const Value& v) { return {v.c128[0], v.c128[1]}; }

template <class M, class T> inline M widen(T v) {
  if constexpr (is_complex_v<M>)
    return M(v);
  else
    return static_cast<M>(v);
}
template <class T, class M> inline T narrow(M v) {
  if constexpr (is_complex_v<T>)
    return T(v);
  else if constexpr (sizeof(T) == sizeof(bool) && __is_same(T, bool))
    return v != M(0);
  else
    return static_cast<T>(v);
}

// A generated functor, always inline as well, reads and writes through an access object:
//   in<I, T, M>()      input I, stored as T, converted to M
//   hold<I, T, M>()    before the first element of a row: the value of an input I that is not read by element
//   scalar<I, M>()     scalar argument I
//   out<I, T>(value)   stores to output I
struct AccessBase {
  const PointwiseArgs& p;
  template <int I, class M> M scalar() const { return value_as<M>(p.s[I]); }
};

// An element in memory. A complex one is read and written as one number: its two floats apart would be gathers.
template <class T> inline constexpr bool is_pair_v = is_complex_v<T> && sizeof(T) <= sizeof(uint64_t);
template <class T> XPU_INLINE T element_at(const char* x, size_t i) {
  if constexpr (is_pair_v<T>) {
    using Part = OneOf<real_t<T>>;
    const OneOf<T> both = reinterpret_cast<const OneOf<T>*>(x)[i];
    return T(sycl::bit_cast<real_t<T>>(static_cast<Part>(both)),
             sycl::bit_cast<real_t<T>>(static_cast<Part>(both >> 8 * sizeof(Part))));
  } else {
    return reinterpret_cast<const T*>(x)[i];
  }
}
template <class T> XPU_INLINE void store_at(const char* x, size_t i, T v) {
  if constexpr (is_pair_v<T>) {
    using Both = OneOf<T>;
    const Both low = sycl::bit_cast<OneOf<real_t<T>>>(v.re), high = sycl::bit_cast<OneOf<real_t<T>>>(v.im);
    reinterpret_cast<Both*>(const_cast<char*>(x))[i] = low | high << 4 * sizeof(Both);
  } else {
    reinterpret_cast<T*>(const_cast<char*>(x))[i] = v;
  }
}

// How an input is read is decided by selection, not by branches: a branch that is the same for all items still costs
// the CPU device three times what the loads and the selection cost. So every load must be of memory that exists. The
// selection is one of bits, since `?:` between vectors by a condition of the whole loop is a branch again with AVX2,
// which has no masks: an addition had six per eight floats.
template <class M> XPU_INLINE auto bits_of(M v) {
  if constexpr (__is_same(M, bool))
    return static_cast<uint8_t>(v);
  else
    return sycl::bit_cast<OneOf<M>>(v);
}

// By input: a mask of all bits where it is read by element; the bits of its value for the row where it is not, else
// none.
template <int Inputs> struct HeldValues {
  int32_t mask[Inputs];
  uint32_t bits[Inputs][2];  // a complex number has two
  uint64_t wide_bits[Inputs]
                    [2];  // of doubles and 64-bit integers: a vector of what becomes 32 bits later is wide first
  // `row`: of the operand's first element, `number`: of an immediate one. By masks, too: a short row is little else.
  template <int I, class M> void hold(uint8_t mode, M row, M number, int part = 0) {
    using xpu_ops::kBroadcast, xpu_ops::kElement, xpu_ops::kImmediate;
    static_assert(kElement == 0 && kBroadcast == 1 && kImmediate == 2);
    if constexpr (is_complex_v<M>) {
      hold<I>(mode, row.re, number.re);
      hold<I>(mode, row.im, number.im, 1);
    } else {
      using Bits = decltype(bits_of(row));
      const int32_t own = -(mode >> 1), same = -(mode & 1);
      const Bits held = static_cast<Bits>((bits_of(row) & static_cast<Bits>(int64_t{same})) |
                                          (bits_of(number) & static_cast<Bits>(int64_t{own})));
      mask[I] = ~(own | same);
      if constexpr (sizeof(M) == sizeof(uint64_t))
        wide_bits[I][part] = held;
      else
        bits[I][part] = held;
    }
  }
  template <int I, class M> M chosen(M each, int part = 0) const {
    if constexpr (is_complex_v<M>) {
      return M{chosen<I>(each.re), chosen<I>(each.im, 1)};
    } else if constexpr (__is_same(M, bool)) {
      return (each & (mask[I] != 0)) | (bits[I][0] != 0);
    } else if constexpr (sizeof(M) == sizeof(uint64_t)) {
      return sycl::bit_cast<M>((bits_of(each) & static_cast<uint64_t>(int64_t{mask[I]})) | wide_bits[I][part]);
    } else {
      using Bits = OneOf<M>;
      const Bits own = bits_of(each) & static_cast<Bits>(mask[I]);
      return sycl::bit_cast<M>(static_cast<Bits>(own | static_cast<Bits>(bits[I][part])));
    }
  }
};

template <int Operands>
struct RowAccess : AccessBase {
  uint32_t outs;
  size_t c;                   // 64 bits: the loads must be seen to be of neighbours
  const char* one[Operands];  // the operand at the start of the row
  const char* vec[Operands];  // where a value for each column can be read: the operand itself or a stand-in
  HeldValues<Operands> same;
  template <int I, class T, class M> void hold() {
    constexpr int kNumber = I < xpu_ops::kPointwiseImmediates ? I : 0;  // others are never immediate
    same.template hold<I>(p.mode[I], widen<M>(element_at<T>(one[outs + I], 0)), value_as<M>(p.imm[kNumber]));
  }
  template <int I, class T, class M> M in() const {
    return same.template chosen<I>(widen<M>(element_at<T>(vec[outs + I], c)));
  }
  template <int I, class T, class V> void out(V v) const { store_at<T>(vec[I], c, narrow<T>(v)); }
};

// Always inline, here and below: a function that is not takes the address of the arguments, and the CPU device then
// copies them for every item and reads memory by gathers: 25x, from four operands on.
template <int FIRST, int LAST, int Operands>
[[gnu::always_inline]] inline uint32_t add_offsets(const PointwiseArgs& p, uint32_t i, uint32_t (&off)[Operands]) {
#pragma unroll
  for (int d = FIRST; d < LAST; ++d) {
    uint32_t q = xpu_ops::div(i, p.dims[d]);
    uint32_t r = i - q * p.dims[d].d;
    i = q;
#pragma unroll
    for (int k = 0; k < Operands; ++k) off[k] += r * p.strides[d][k];
  }
  return i;
}

// Calls f(one, c0, c1, lane, lanes) for the rows and columns of this work-group, with every operand at the start of the
// row. 2-D: a work-group walks several rows, its items side by side, so that short rows do not cost a work-group each
// and what is the same for a row is computed once. Divisions only where a run of the first dimension begins. A loop to
// a number of dimensions known when it runs is an index into the arguments that is not a constant, which the CPU device
// pays for; unused dimensions of size 1 cost less.
template <int Operands, class Fn> [[gnu::always_inline]] inline void for_rows(const PointwiseArgs& p, Fn f) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t c0 = it.get_group(1) * size_t{p.columns}, c1 = c0 + p.columns < p.n ? c0 + p.columns : p.n;
  const uint32_t begin = it.get_group(0) * p.group, end = begin + p.group < p.rows ? begin + p.group : p.rows;
  for (uint32_t row = begin; row < end;) {
    const uint32_t run = xpu_ops::div(row, p.dims[0]), first = row - run * p.dims[0].d;
    const uint32_t rest = p.dims[0].d - first, count = rest < end - row ? rest : end - row;
    uint32_t off[Operands] = {};
    const uint32_t outer = add_offsets<1, 2>(p, run, off);
    if (p.ndim > 2) add_offsets<2, xpu_ops::kPointwiseRowDims>(p, outer, off);
    for (uint32_t i = first; i < first + count; ++i) {
      const char* one[Operands];
#pragma unroll
      for (int k = 0; k < Operands; ++k) one[k] = static_cast<const char*>(p.ptr[k]) + (off[k] + i * p.strides[0][k]);
      f(one, c0, c1, it.get_local_id(1), it.get_local_range(1));
    }
    row += count;
  }
}

// The row whose operands start at `one`.
template <class F, int Operands>
[[gnu::always_inline]] inline RowAccess<Operands> row_access(const PointwiseArgs& p,
                                                             const char* const (&one)[Operands]) {
  RowAccess<Operands> x{{p}, F::kOut, 0, {}, {}, {}};
#pragma unroll
  for (int k = 0; k < Operands; ++k) {
    x.vec[k] = x.one[k] = one[k];
    if (k < F::kOut) continue;
#pragma unroll
    for (int j = 0; j < Operands; ++j) x.vec[k] = p.stand_in[k] == j ? one[j] : x.vec[k];
  }
  F::hold(x);
  return x;
}

template <class F> inline void pointwise_rows(const PointwiseArgs& p) {
  constexpr int operands = F::kOut + F::kIn;
  for_rows<operands>(p, [&](const char* const(&one)[operands], size_t c0, size_t c1, size_t lane, size_t lanes)
                            __attribute__((always_inline)) {
                              RowAccess<operands> x = row_access<F>(p, one);
                              // As for_columns, but a row without a rest skips the masked step, which costs one of
                              // sixteen elements half of its time.
                              size_t k = c0;
                              for (; k + lanes <= c1; k += lanes) {
                                x.c = k + lane;
                                F::run(x);
                              }
                              if (k == c1) return;
                              x.c = k + lane;
                              if (x.c < c1) F::run(x);
                            });
}

}  // namespace xpu
