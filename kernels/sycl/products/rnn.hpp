// LSTM and GRU cells: rows are the batch, items the hidden units. Sums and activations in the compute type.
#pragma once
#include "kernels/sycl/math/math.hpp"
#include "kernels/sycl/products/rnn_args.hpp"

namespace xpu {

using xpu_ops::kRnnBackwardRows;
using xpu_ops::kRnnForwardRows;
using xpu_ops::RnnCellArgs;
using xpu_ops::RnnStepArgs;

// Row `row` of a dense matrix with `parts` parts of p.hidden columns.
template <class T> inline const T* rnn_row(const void* data, const RnnCellArgs& p, int64_t row, int64_t parts) {
  return static_cast<const T*>(data) + row * parts * p.hidden;
}
template <class T> inline T* rnn_row(void* data, const RnnCellArgs& p, int64_t row, int64_t parts) {
  return static_cast<T*>(data) + row * parts * p.hidden;
}
// Element j of part `part`.
template <class T> inline opmath_t<T> rnn_at(const T* row, const RnnCellArgs& p, uint32_t part, int64_t j) {
  return static_cast<opmath_t<T>>((row + static_cast<int64_t>(part) * p.hidden)[j]);
}
template <class T> inline void rnn_set(T* row, const RnnCellArgs& p, uint32_t part, int64_t j, opmath_t<T> value) {
  (row + static_cast<int64_t>(part) * p.hidden)[j] = T(value);
}
template <class T> inline opmath_t<T> rnn_bias(const void* bias, const RnnCellArgs& p, uint32_t part, int64_t j) {
  return bias ? rnn_at(static_cast<const T*>(bias), p, part, j) : opmath_t<T>(0);
}

// One unit of one row; `hidden` are the products with the hidden state.
template <class T> inline void lstm_unit(const RnnCellArgs& p, uint32_t row, int64_t j,
                                         const opmath_t<T> (&hidden)[4]) {
  using M = opmath_t<T>;
  const T* input = rnn_row<T>(p.input_gates, p, row, 4);
  M gate[4];
#pragma unroll
  for (uint32_t part = 0; part < 4; ++part)
    gate[part] = rnn_at(input, p, part, j) + hidden[part] + rnn_bias<T>(p.input_bias, p, part, j) +
                 rnn_bias<T>(p.hidden_bias, p, part, j);
  M i = sigmoid(gate[0]), f = sigmoid(gate[1]), g = sycl::tanh(gate[2]), o = sigmoid(gate[3]);
  M c = f * static_cast<M>(rnn_row<T>(p.state, p, row, 1)[j]) + i * g;
  rnn_row<T>(p.hy, p, row, 1)[j] = T(o * sycl::tanh(c));
  rnn_row<T>(p.cy, p, row, 1)[j] = T(c);
  T* kept = rnn_row<T>(p.workspace, p, row, 4);
  rnn_set(kept, p, 0, j, i);
  rnn_set(kept, p, 1, j, f);
  rnn_set(kept, p, 2, j, g);
  rnn_set(kept, p, 3, j, o);
}

template <class T> void lstm_cell(const RnnCellArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t row = item.get_group(0);
  const int64_t j = item.get_global_id(1);  // of 64 bits: 32 make gathers of its loads
  if (j >= p.hidden) return;
  opmath_t<T> hidden[4];
#pragma unroll
  for (uint32_t part = 0; part < 4; ++part) hidden[part] = rnn_at(rnn_row<T>(p.hidden_gates, p, row, 4), p, part, j);
  lstm_unit<T>(p, row, j, hidden);
}

// `more` is what the gradient of the hidden state has beside p.grad_hy.
template <class T>
inline void lstm_unit_backward(const RnnCellArgs& p, uint32_t row, int64_t j, opmath_t<T> more) {
  using M = opmath_t<T>;
  const T* kept = rnn_row<T>(p.saved, p, row, 4);
  M i = rnn_at(kept, p, 0, j), f = rnn_at(kept, p, 1, j), g = rnn_at(kept, p, 2, j), o = rnn_at(kept, p, 3, j);
  M gh = more + (p.grad_hy ? static_cast<M>(rnn_row<T>(p.grad_hy, p, row, 1)[j]) : M(0));
  M gc = p.grad_cy ? static_cast<M>(rnn_row<T>(p.grad_cy, p, row, 1)[j]) : M(0);
  M c = sycl::tanh(static_cast<M>(rnn_row<T>(p.new_state, p, row, 1)[j]));
  gc += gh * o * (M(1) - c * c);
  M cx = static_cast<M>(rnn_row<T>(p.state, p, row, 1)[j]);
  T* out = rnn_row<T>(p.grad_input_gates, p, row, 4);
  rnn_set(out, p, 0, j, gc * g * (M(1) - i) * i);
  rnn_set(out, p, 1, j, gc * cx * (M(1) - f) * f);
  rnn_set(out, p, 2, j, gc * i * (M(1) - g * g));
  rnn_set(out, p, 3, j, gh * c * (M(1) - o) * o);
  rnn_row<T>(p.grad_state, p, row, 1)[j] = T(gc * f);
}

template <class T> void lstm_cell_backward(const RnnCellArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t row = item.get_group(0);
  const int64_t j = item.get_global_id(1);  // of 64 bits: 32 make gathers of its loads
  if (j >= p.hidden) return;
  lstm_unit_backward<T>(p, row, j, opmath_t<T>(0));
}

template <class T> inline void gru_unit(const RnnCellArgs& p, uint32_t row, int64_t j, const opmath_t<T> (&hidden)[3]) {
  using M = opmath_t<T>;
  const T* input = rnn_row<T>(p.input_gates, p, row, 3);
  M in[3], hid[3];
#pragma unroll
  for (uint32_t part = 0; part < 3; ++part) {
    in[part] = rnn_at(input, p, part, j) + rnn_bias<T>(p.input_bias, p, part, j);
    hid[part] = hidden[part] + rnn_bias<T>(p.hidden_bias, p, part, j);
  }
  M hx = static_cast<M>(rnn_row<T>(p.state, p, row, 1)[j]);
  M r = sigmoid(in[0] + hid[0]), z = sigmoid(in[1] + hid[1]), n = sycl::tanh(in[2] + r * hid[2]);
  rnn_row<T>(p.hy, p, row, 1)[j] = T(n + z * (hx - n));
  T* kept = rnn_row<T>(p.workspace, p, row, 5);
  rnn_set(kept, p, 0, j, r);
  rnn_set(kept, p, 1, j, z);
  rnn_set(kept, p, 2, j, n);
  rnn_set(kept, p, 3, j, hx);
  rnn_set(kept, p, 4, j, hid[2]);
}

template <class T> void gru_cell(const RnnCellArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t row = item.get_group(0);
  const int64_t j = item.get_global_id(1);  // of 64 bits: 32 make gathers of its loads
  if (j >= p.hidden) return;
  opmath_t<T> hidden[3];
#pragma unroll
  for (uint32_t part = 0; part < 3; ++part) hidden[part] = rnn_at(rnn_row<T>(p.hidden_gates, p, row, 3), p, part, j);
  gru_unit<T>(p, row, j, hidden);
}

template <class T>
inline void gru_unit_backward(const RnnCellArgs& p, uint32_t row, int64_t j, opmath_t<T> more) {
  using M = opmath_t<T>;
  const T* kept = rnn_row<T>(p.saved, p, row, 5);
  M r = rnn_at(kept, p, 0, j), z = rnn_at(kept, p, 1, j), n = rnn_at(kept, p, 2, j), hx = rnn_at(kept, p, 3, j);
  M g = more + (p.grad_hy ? static_cast<M>(rnn_row<T>(p.grad_hy, p, row, 1)[j]) : M(0)) +
        (p.grad_cy ? static_cast<M>(rnn_row<T>(p.grad_cy, p, row, 1)[j]) : M(0));
  M gz = g * (hx - n) * (M(1) - z) * z, gn = g * (M(1) - z) * (M(1) - n * n);
  M gr = gn * rnn_at(kept, p, 4, j) * (M(1) - r) * r;
  T *in = rnn_row<T>(p.grad_input_gates, p, row, 3), *hidden = rnn_row<T>(p.grad_hidden_gates, p, row, 3);
  rnn_set(in, p, 0, j, gr);
  rnn_set(in, p, 1, j, gz);
  rnn_set(in, p, 2, j, gn);
  rnn_set(hidden, p, 0, j, gr);
  rnn_set(hidden, p, 1, j, gz);
  rnn_set(hidden, p, 2, j, gn * r);
  rnn_row<T>(p.grad_state, p, row, 1)[j] = T(g * z);
}

template <class T> void gru_cell_backward(const RnnCellArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t row = item.get_group(0);
  const int64_t j = item.get_global_id(1);  // of 64 bits: 32 make gathers of its loads
  if (j >= p.hidden) return;
  gru_unit_backward<T>(p, row, j, opmath_t<T>(0));
}

// ---- steps of layers

// How many rows and parts are summed at once: 16 sums of 16 lanes stay in the registers of AVX-512, 4 in those of AVX2.
struct WideSums {
  static constexpr uint32_t kForwardRows = kRnnForwardRows, kParts = 4, kBackwardRows = kRnnBackwardRows;
};
struct NarrowSums { static constexpr uint32_t kForwardRows = 4, kParts = 1, kBackwardRows = 4; };

// out[r][part] = sum over k of left[first + r][k] * weight[k][part][lane], some parts of all. Rows past the last repeat
// it, so that no load is masked.
template <class T, uint32_t ALL, uint32_t ROWS, uint32_t PARTS>
[[clang::always_inline]] inline void rnn_sums(const RnnStepArgs& p, int64_t inner, const T* weight, uint32_t first,
                                              int64_t lane, opmath_t<T> (&out)[ROWS][PARTS]) {
  using M = opmath_t<T>;
  const T* left[ROWS];
#pragma unroll
  for (uint32_t r = 0; r < ROWS; ++r) {
    left[r] = static_cast<const T*>(p.left) + (first + r < p.batch ? first + r : p.batch - 1) * inner;
#pragma unroll
    for (uint32_t part = 0; part < PARTS; ++part) out[r][part] = M(0);
  }
  for (int64_t k = 0; k < inner; ++k) {
    M column[PARTS];
#pragma unroll
    for (uint32_t part = 0; part < PARTS; ++part) column[part] = static_cast<M>((weight + (k * ALL + part) * 16)[lane]);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; ++r) {
      const M x = static_cast<M>(left[r][k]);
#pragma unroll
      for (uint32_t part = 0; part < PARTS; ++part) out[r][part] += x * column[part];
    }
  }
}

// All parts of ROWS rows, `STEP` rows and `TOGETHER` parts at once.
template <class T, uint32_t STEP, uint32_t TOGETHER, uint32_t ROWS, uint32_t PARTS>
[[clang::always_inline]] inline void rnn_product(const RnnStepArgs& p, int64_t inner, int64_t block, uint32_t first,
                                                 int64_t lane, opmath_t<T> (&out)[ROWS][PARTS]) {
  static_assert(ROWS % STEP == 0 && PARTS % TOGETHER == 0);
  const T* weight = static_cast<const T*>(p.weight) + block * inner * (PARTS * 16);
#pragma unroll
  for (uint32_t r0 = 0; r0 < ROWS; r0 += STEP)
#pragma unroll
    for (uint32_t part0 = 0; part0 < PARTS; part0 += TOGETHER) {
      opmath_t<T> sums[STEP][TOGETHER];
      rnn_sums<T, PARTS>(p, inner, weight + part0 * 16, first + r0, lane, sums);
#pragma unroll
      for (uint32_t r = 0; r < STEP; ++r)
#pragma unroll
        for (uint32_t part = 0; part < TOGETHER; ++part) out[r0 + r][part0 + part] = sums[r][part];
    }
}

template <class T, uint32_t PARTS, class S> inline void rnn_step(const RnnStepArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const int64_t block = item.get_group(0);
  const uint32_t first = item.get_group(1) * kRnnForwardRows;
  const int64_t lane = item.get_local_id(1), j = block * 16 + lane;
  opmath_t<T> products[kRnnForwardRows][PARTS];
  constexpr uint32_t kTogether = S::kParts < PARTS ? S::kParts : PARTS;
  rnn_product<T, S::kForwardRows, kTogether>(p, p.cell.hidden, block, first, lane, products);
#pragma unroll
  for (uint32_t r = 0; r < kRnnForwardRows; ++r) {
    if (first + r >= p.batch) continue;
    if constexpr (PARTS == 4)
      lstm_unit<T>(p.cell, first + r, j, products[r]);
    else
      gru_unit<T>(p.cell, first + r, j, products[r]);
  }
}

template <class T, uint32_t PARTS, class S> inline void rnn_step_backward(const RnnStepArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const int64_t block = item.get_group(0);
  const uint32_t first = item.get_group(1) * kRnnBackwardRows;
  const int64_t lane = item.get_local_id(1), j = block * 16 + lane;
  opmath_t<T> products[kRnnBackwardRows][1];
  rnn_product<T, S::kBackwardRows, 1>(p, int64_t(PARTS) * p.cell.hidden, block, first, lane, products);
#pragma unroll
  for (uint32_t r = 0; r < kRnnBackwardRows; ++r) {
    if (first + r >= p.batch) continue;
    if constexpr (PARTS == 4)
      lstm_unit_backward<T>(p.cell, first + r, j, products[r][0]);
    else
      gru_unit_backward<T>(p.cell, first + r, j, products[r][0]);
  }
}

template <class T, class S> void lstm_step(const RnnStepArgs& p) { rnn_step<T, 4, S>(p); }
template <class T, class S> void gru_step(const RnnStepArgs& p) { rnn_step<T, 3, S>(p); }
template <class T, class S> void lstm_step_backward(const RnnStepArgs& p) { rnn_step_backward<T, 4, S>(p); }
template <class T, class S> void gru_step_backward(const RnnStepArgs& p) { rnn_step_backward<T, 3, S>(p); }

}  // namespace xpu
