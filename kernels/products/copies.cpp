#include "kernels/products/copies.hpp"

#include <optional>
#include <utility>

#include "kernels/ops/copy.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::products {
namespace {

// Whether each element of its memory is one of the view's, once.
bool fills_memory(const View& v) {
  int order[kViewDims], n = 0;
  for (int d = 0; d < v.ndim; ++d) {
    if (v.dims[d] == 1) continue;
    int i = n++;
    for (; i > 0 && v.strides[order[i - 1]] > v.strides[d]; --i) order[i] = order[i - 1];
    order[i] = d;
  }
  int64_t next = 1;
  for (int i = 0; i < n; ++i) {
    if (v.strides[order[i]] != next) return false;
    next *= v.dims[order[i]];
  }
  return true;
}

// As at::infer_dense_strides.
void order_strides(View& v) {
  int order[kViewDims];
  for (int i = 0; i < v.ndim; ++i) order[i] = v.ndim - 1 - i;
  const auto compare = [&](int a, int b) {
    const int64_t s = v.strides[a], t = v.strides[b];
    if (s == 0 || t == 0) return 0;
    if (s != t) return s < t ? -1 : 1;
    return v.dims[a] > v.dims[b] ? 1 : 0;
  };
  for (int i = 1; i < v.ndim; ++i)
    for (int to = i, from = i - 1; from >= 0; --from) {
      const int c = compare(order[from], order[to]);
      if (c < 0) break;
      if (c > 0) std::swap(order[from], order[to]), to = from;
    }
  int64_t next = 1;
  for (int i = 0; i < v.ndim; ++i) v.strides[order[i]] = std::exchange(next, next * v.dims[order[i]]);
}

size_t bytes_of(const View& v) { return v.numel() * dtype_size(v.type); }

void move(runtime::Queue& queue, const View& dst, const View& src) {
  ops::CopyShape s;
  s.ndim = dst.ndim;
  for (int d = 0; d < s.ndim; ++d) s.size[d] = dst.dims[d], s.dst[d] = dst.strides[d], s.src[d] = src.strides[d];
  ops::copy(queue, dst.data, src.data, dtype_size(dst.type), s);
}

}  // namespace

void set_dense(View& v) {
  int64_t next = 1;
  for (int d = v.ndim - 1; d >= 0; --d) v.strides[d] = std::exchange(next, next * v.dims[d]);
}

bool same_layout(const View& a, const View& b) {
  for (int d = 0; d < a.ndim; ++d)
    if (a.dims[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

View view_of(const Operand& t) {
  View v;
  v.data = t.data;
  v.type = t.type;
  if (t.batched) v.push(t.batch, t.batch_stride);
  v.push(t.rows, t.row_stride);
  v.push(t.cols, t.col_stride);
  return v;
}

View like(const View& t, DType type) {
  View v = t;
  v.data = nullptr;
  v.type = type;
  if (!fills_memory(t)) order_strides(v);
  return v;
}

Operand like(const Operand& t, DType type) {
  const View v = like(view_of(t), type);
  Operand o = t;
  o.data = nullptr;
  o.type = type;
  if (t.batched) o.batch_stride = v.strides[0];
  o.row_stride = v.strides[v.ndim - 2];
  o.col_stride = v.strides[v.ndim - 1];
  return o;
}

Operand row_major(const Operand& t, DType type) {
  Operand o = t;
  o.data = nullptr;
  o.type = type;
  o.batch_stride = t.batched ? t.rows * t.cols : 0;
  o.row_stride = t.cols;
  o.col_stride = 1;
  return o;
}

void convert(runtime::Queue& queue, const View& dst, const View& src) {
  if (dst.type == src.type) return move(queue, dst, src);
  // A cast runs over memory, so both sides fill theirs in one layout; a strided move comes before or after it, wherever
  // elements are narrower.
  const bool filled_dst = fills_memory(dst), filled_src = fills_memory(src);
  View from = src, to = dst;
  std::optional<runtime::Scratch> moved, cast;
  const auto as = [](const View& layout, DType type) {
    View v = layout;
    v.type = type;
    if (!fills_memory(v)) set_dense(v);
    return v;
  };
  if (!(filled_dst && filled_src && same_layout(dst, src))) {
    const bool move_first = filled_dst && (!filled_src || dtype_size(src.type) <= dtype_size(dst.type));
    if (move_first || !filled_src) {
      from = as(move_first ? dst : src, src.type);
      from.data = moved.emplace(bytes_of(from)).get();
      move(queue, from, src);
    }
    if (!move_first) {
      to = as(from, dst.type);
      to.data = cast.emplace(bytes_of(to)).get();
    }
  }
  ops::cast(queue, to.data, to.type, from.data, from.type, dst.numel(), 0);
  if (to.data != dst.data) move(queue, dst, to);
}

void convert(runtime::Queue& queue, const Operand& dst, const Operand& src) {
  convert(queue, view_of(dst), view_of(src));
}

}  // namespace xpu_ops::products
