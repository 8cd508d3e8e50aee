// LSTM and GRU cells: rows are the batch, items the hidden units. Sums and activations in the compute type.
#pragma once
#include "math.hpp"
#include "rnn_args.hpp"

namespace xpu {

using xpu_ops::RnnCellArgs;

// Row `row` of a dense matrix with `parts` parts of p.hidden columns.
template <class T> inline const T* rnn_row(const void* data, const RnnCellArgs& p, int64_t row, int64_t parts) {
  return static_cast<const T*>(data) + row * parts * p.hidden;
}
template <class T> inline T* rnn_row(void* data, const RnnCellArgs& p, int64_t row, int64_t parts) {
  return static_cast<T*>(data) + row * parts * p.hidden;
}
// Element j of part `part`.
template <class T> inline opmath_t<T> rnn_at(const T* row, const RnnCellArgs& p, uint32_t part, uint32_t j) {
  return static_cast<opmath_t<T>>((row + static_cast<int64_t>(part) * p.hidden)[j]);
}
template <class T> inline void rnn_set(T* row, const RnnCellArgs& p, uint32_t part, uint32_t j, opmath_t<T> value) {
  (row + static_cast<int64_t>(part) * p.hidden)[j] = T(value);
}
template <class T> inline opmath_t<T> rnn_bias(const void* bias, const RnnCellArgs& p, uint32_t part, uint32_t j) {
  return bias ? rnn_at(static_cast<const T*>(bias), p, part, j) : opmath_t<T>(0);
}

template <class T> void lstm_cell(const RnnCellArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t row = item.get_group(0), j = item.get_global_id(1);
  if (j >= p.hidden) return;
  const T *input = rnn_row<T>(p.input_gates, p, row, 4), *hidden = rnn_row<T>(p.hidden_gates, p, row, 4);
  M gate[4];
#pragma unroll
  for (uint32_t part = 0; part < 4; ++part)
    gate[part] = rnn_at(input, p, part, j) + rnn_at(hidden, p, part, j) + rnn_bias<T>(p.input_bias, p, part, j) +
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

template <class T> void lstm_cell_backward(const RnnCellArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t row = item.get_group(0), j = item.get_global_id(1);
  if (j >= p.hidden) return;
  const T* kept = rnn_row<T>(p.saved, p, row, 4);
  M i = rnn_at(kept, p, 0, j), f = rnn_at(kept, p, 1, j), g = rnn_at(kept, p, 2, j), o = rnn_at(kept, p, 3, j);
  M gh = p.grad_hy ? static_cast<M>(rnn_row<T>(p.grad_hy, p, row, 1)[j]) : M(0);
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

template <class T> void gru_cell(const RnnCellArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t row = item.get_group(0), j = item.get_global_id(1);
  if (j >= p.hidden) return;
  const T *input = rnn_row<T>(p.input_gates, p, row, 3), *hidden = rnn_row<T>(p.hidden_gates, p, row, 3);
  M in[3], hid[3];
#pragma unroll
  for (uint32_t part = 0; part < 3; ++part) {
    in[part] = rnn_at(input, p, part, j) + rnn_bias<T>(p.input_bias, p, part, j);
    hid[part] = rnn_at(hidden, p, part, j) + rnn_bias<T>(p.hidden_bias, p, part, j);
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

template <class T> void gru_cell_backward(const RnnCellArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t row = item.get_group(0), j = item.get_global_id(1);
  if (j >= p.hidden) return;
  const T* kept = rnn_row<T>(p.saved, p, row, 5);
  M r = rnn_at(kept, p, 0, j), z = rnn_at(kept, p, 1, j), n = rnn_at(kept, p, 2, j), hx = rnn_at(kept, p, 3, j);
  M g = static_cast<M>(rnn_row<T>(p.grad_hy, p, row, 1)[j]);
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

}  // namespace xpu
