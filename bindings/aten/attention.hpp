// One call of attention on the host: operands as oneDNN and the kernels read them, and how its scores are cut into
// tiles.
#pragma once
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <utility>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/attention.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::aten {

using ops::AttentionMask;

inline ops::AttentionShape shape_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3), causal};
}

// Which keys each query sees: none behind it. Sizes may be symbols.
inline at::Tensor causal_mask(const c10::SymInt& queries, const c10::SymInt& keys, const at::TensorOptions& options) {
  return at::ones_symint({queries, keys}, options.dtype(at::kBool)).tril();
}

// As oneDNN reads it: rows of neighbouring elements that do not overlap.
inline at::Tensor plain_rows(const at::Tensor& t, at::ScalarType type) {
  const at::Tensor c = t.to(type);
  const bool rows = (c.stride(3) == 1 || c.size(3) == 1) && (c.stride(2) >= c.size(3) || c.size(2) == 1);
  return rows ? c : c.contiguous();
}

// The same of an operand that is multiplied with keys or values, of which one may be expanded, not both.
inline at::Tensor own_rows(const at::Tensor& t, at::ScalarType type) {
  const bool expanded = (t.stride(0) == 0 && t.size(0) > 1) || (t.stride(1) == 0 && t.size(1) > 1);
  return plain_rows(expanded ? t.contiguous() : t, type);
}

// A new [batch, heads, length, dim] tensor, heads inside where `like` has them there.
inline at::Tensor new_like(const at::Tensor& like, int64_t dim, at::ScalarType type) {
  const int64_t b = like.size(0), h = like.size(1), n = like.size(2);
  if (like.stride(1) < like.stride(2)) return new_empty({b, n, h, dim}, type).transpose(1, 2);
  return new_empty({b, h, n, dim}, type);
}

// `t` with the strides that upstream's meta function promises (alloc_with_matching_layout, empty_like): the order of
// those of `like`. torch.compile relies on them.
inline at::Tensor laid_out_as(const at::Tensor& like, const at::Tensor& t) {
  const bool dense = like.sizes() == t.sizes() && like.is_non_overlapping_and_dense();
  const auto strides = dense ? like.strides().vec() : at::infer_dense_strides(t.sizes(), like.strides());
  bool same = true;
  for (int64_t d = 0; d < t.dim(); ++d) same = same && (t.size(d) == 1 || t.stride(d) == strides[d]);
  return same ? t : at::empty_strided(t.sizes(), strides, t.options()).copy_(t);
}

// Part of a [batch, heads, length, dim] tensor as one operand of a batched product.
struct Part { int64_t batch0, batches, head0, heads, head_step, row0, rows; };

inline View part_of(const at::Tensor& t, const Part& p, bool transposed = false) {
  View v;
  const int64_t at = p.batch0 * t.stride(0) + p.head0 * t.stride(1) + p.row0 * t.stride(2);
  v.data = static_cast<char*>(const_cast<void*>(t.const_data_ptr())) + at * static_cast<int64_t>(t.itemsize());
  v.type = dtype_of(t);
  v.push(p.batches, t.stride(0));
  v.push(p.heads, t.stride(1) * p.head_step);
  if (transposed) {
    v.push(t.size(3), t.stride(3));
    v.push(p.rows, t.stride(2));
  } else {
    v.push(p.rows, t.stride(2));
    v.push(t.size(3), t.stride(3));
  }
  return v;
}

// [batches, heads, rows, cols] of scratch memory.
inline View scratch_view(void* data, DType type, const Part& p, int64_t cols, bool transposed = false) {
  View v;
  v.data = data;
  v.type = type;
  v.push(p.batches, p.heads * p.rows * cols);
  v.push(p.heads, p.rows * cols);
  v.push(transposed ? cols : p.rows, transposed ? 1 : cols);
  v.push(transposed ? p.rows : cols, transposed ? cols : 1);
  return v;
}

// One call: operands in the type that is computed in, and how its scores are cut into tiles.
class Attention {
 public:
  Attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& mask,
            bool causal, std::optional<double> scale, double dropout, at::ScalarType type)
      : type(type),
        q(own_rows(query, type)),
        k(plain_rows(key, type)),
        v(plain_rows(value, type)),
        drop(dropout != 0.0),
        shape(shape_of(query, key, value, causal)),
        blocks(type == at::kFloat && ops::plan_attention_blocks_serve(shape, drop, current_policy())),
        amx(type == at::kBFloat16 && ops::plan_attention_amx_serves(shape, drop, current_policy())),
        tiles_(ops::plan_attention_tiles(shape, current_policy())) {
    problem.heads = static_cast<uint32_t>(q.size(1));
    problem.nq = static_cast<uint32_t>(q.size(2));
    problem.head_step = problem.heads / static_cast<uint32_t>(shape.kv_heads);
    problem.causal = causal;
    problem.scale = static_cast<float>(scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3)))));
    problem.keep = static_cast<float>(1.0 - dropout);
    problem.keep_scale = dropout == 1.0 ? 0.0f : static_cast<float>(1.0 / (1.0 - dropout));
    if (mask.defined()) {
      kind = mask.scalar_type() == at::kBool ? AttentionMask::boolean : AttentionMask::additive;
      mask_ = kind == AttentionMask::boolean ? mask : mask.to(at::kFloat);
      std::vector<int64_t> sizes = mask_.sizes().vec();
      if (sizes.empty()) sizes.push_back(1);
      sizes.back() = k.size(2);
      mask_ = mask_.expand(sizes);
      if (mask_.stride(-1) != 1 && k.size(2) != 1) mask_ = mask_.contiguous();
      mask_ = mask_.expand({q.size(0), q.size(1), q.size(2), k.size(2)});
      problem.mask = mask_.const_data_ptr();
      for (int d = 0; d < 3; ++d) problem.mask_stride[d] = mask_.stride(d);
    }
  }

  // For one query of each head: heads that share keys and values go into one tile. Returns how many share them.
  uint32_t join_groups() {
    const uint32_t group = std::exchange(problem.head_step, 1);
    shape.kv_heads = problem.heads;
    tiles_ = ops::plan_attention_tiles(shape, current_policy());
    return group;
  }

  int64_t tile_elements() const { return tiles_.elements(shape.keys); }

  // Calls f(queries, keys) for every tile, queries of one key head after another; stops where f returns false.
  template <class F>
  bool for_tiles(F f) {
    const int64_t batch = shape.batch, nq = shape.queries, nk = shape.keys, group = problem.head_step;
    const int64_t kv_heads = shape.kv_heads, step = tiles_.causal_step;
    for (int64_t b = 0; b < batch; b += tiles_.batches)
      for (int64_t h = 0; h < kv_heads; h += tiles_.heads)
        for (int64_t g = 0; g < group; ++g)
          for (int64_t i = 0; i < nq; i += tiles_.rows) {
            const int64_t nb = std::min(tiles_.batches, batch - b), nh = std::min(tiles_.heads, kv_heads - h);
            const int64_t rows = std::min(tiles_.rows, nq - i);
            const int64_t cols = shape.causal ? std::min(nk, (i + rows + step - 1) / step * step) : nk;
            problem.planes = static_cast<uint32_t>(nb * nh);
            problem.rows = static_cast<uint32_t>(rows);
            problem.cols = static_cast<uint32_t>(cols);
            problem.batch0 = static_cast<uint32_t>(b);
            problem.head0 = static_cast<uint32_t>(h);
            problem.tile_heads = static_cast<uint32_t>(nh);
            problem.head_offset = static_cast<uint32_t>(g);
            problem.query0 = static_cast<uint32_t>(i);
            if (!f(Part{b, nb, h * group + g, nh, group, i, rows}, Part{b, nb, h, nh, 1, 0, cols})) return false;
          }
    return true;
  }

  runtime::Queue& queue = runtime::current_queue();
  at::ScalarType type;
  at::Tensor q, k, v;
  ops::AttentionProblem problem;
  AttentionMask kind = AttentionMask::none;
  bool drop;
  ops::AttentionShape shape;
  bool blocks, amx;  // the kernels of whole blocks take it

 private:
  ops::AttentionTiles tiles_;
  at::Tensor mask_;
};

}  // namespace xpu_ops::aten
