// Attention of packed sequences (torch.nn.attention.varlen). Where torch's flash attention counts windows from the last
// query and the last key, so does this.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/varlen.hpp"

namespace xpu_ops::aten {

// Of the family attention.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_fused_attention_overrideable(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const std::optional<at::Tensor>& attn_bias,
                                                 double dropout_p, bool is_causal, bool return_debug_mask,
                                                 std::optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_fused_attention_overrideable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out,
    const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k, int64_t max_q, int64_t max_k,
    double dropout_p, bool is_causal, const at::Tensor& philox_seed, const at::Tensor& philox_offset,
    std::optional<double> scale);

namespace {

// Keys from `left` before a query to `right` after it; negative: without bound.
struct KeyWindow {
  int64_t left, right;
  KeyWindow(bool causal, std::optional<int64_t> left, std::optional<int64_t> right)
      : left(left.value_or(-1)), right(causal ? 0 : right.value_or(-1)) {}
};

// The queries that see any key at all, and which keys.
struct Seen {
  int64_t first, count;
  bool causal;
  at::Tensor mask;  // undefined: all keys, or those of `causal`
};

Seen seen(int64_t queries, int64_t keys, const KeyWindow& w, const at::Tensor& like) {
  const int64_t shift = keys - queries;
  const int64_t first = w.right < 0 ? 0 : std::clamp<int64_t>(-(shift + w.right), 0, queries);
  const int64_t last = w.left < 0 ? queries : std::clamp<int64_t>(keys + w.left - shift, first, queries);
  Seen s{first, keys ? last - first : 0, false, {}};
  if (s.count == 0 || (w.left < 0 && w.right < 0)) return s;
  s.causal = w.left < 0 && first + shift + w.right == 0;
  if (s.causal) return s;
  const auto options = like.options().dtype(at::kLong);
  const at::Tensor at = at::arange(first + shift, first + shift + s.count, options).unsqueeze(1);
  const at::Tensor key = at::arange(keys, options);
  if (w.right >= 0) s.mask = key.le(at + w.right);
  if (w.left >= 0) s.mask = s.mask.defined() ? s.mask.logical_and(key.ge(at - w.left)) : key.ge(at - w.left);
  return s;
}

// (length, heads, dim) as attention takes it.
at::Tensor heads_first(const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(0); }

std::vector<int64_t> on_host(const at::Tensor& t, const char* name, int64_t at_least) {
  TORCH_CHECK(t.dim() == 1 && t.numel() >= at_least, "varlen attention: expected ", name, " of at least ", at_least,
              " numbers in one dimension, got shape ", t.sizes());
  const at::Tensor host = t.to(at::kCPU, at::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

struct Packed {
  std::vector<int64_t> q, k;  // where each sequence begins, and where the last one ends
  size_t count() const { return q.size() - 1; }
  int64_t queries(size_t i) const { return q[i + 1] - q[i]; }
  int64_t keys(size_t i) const { return k[i + 1] - k[i]; }
};

void check_begins(const std::vector<int64_t>& begins, int64_t total, const char* name) {
  TORCH_CHECK(begins.front() >= 0 && std::is_sorted(begins.begin(), begins.end()) && begins.back() <= total,
              "varlen attention: ", name, " has to rise from 0 or more to at most ", total);
}

void check_packed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t dims) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == dims && v.dim() == dims,
              "varlen attention: expected (length, heads, dim) of query, key and value, got ", q.sizes(), ", ",
              k.sizes(), " and ", v.sizes());
}

Packed packed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cum_q, const at::Tensor& cum_k) {
  Packed p{on_host(cum_q, "cum_seq_q", 1), on_host(cum_k, "cum_seq_k", 1)};
  TORCH_CHECK(p.q.size() == p.k.size(), "varlen attention: cum_seq_q and cum_seq_k need as many numbers, got ",
              p.q.size(), " and ", p.k.size());
  check_begins(p.q, q.size(0), "cum_seq_q");
  check_begins(p.k, k.size(0), "cum_seq_k");
  return p;
}

// The keys or values of each sequence.
class Keys {
 public:
  Keys(const at::Tensor& pool, const Packed& packed, const MaybeTensor& block_table) : pool_(pool), packed_(packed) {
    if (is_given(block_table)) table_ = *block_table;
  }
  at::Tensor of(size_t i, int64_t length) const {
    const auto item = static_cast<int64_t>(i);
    if (!table_.defined()) return pool_.narrow(0, packed_.k[i], length);
    const int64_t pages = (length + pool_.size(1) - 1) / pool_.size(1);
    return pool_.index_select(0, table_.select(0, item).narrow(0, 0, pages)).flatten(0, 1).narrow(0, 0, length);
  }

 private:
  const at::Tensor& pool_;
  const Packed& packed_;
  at::Tensor table_;
};

struct Call {
  std::optional<double> scale;
  KeyWindow window;
  int64_t max_q;
};

// out and sums are (batch, heads, queries, dim) and (batch, heads, queries).
void attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Call& call, const at::Tensor& out,
            const at::Tensor& sums) {
  const Seen s = seen(q.size(2), k.size(2), call.window, q);
  if (s.count < q.size(2)) {
    out.zero_();
    sums.fill_(std::numeric_limits<float>::infinity());
  }
  if (s.count == 0 || q.numel() == 0) return;
  const auto result = aten::_scaled_dot_product_fused_attention_overrideable(q.narrow(2, s.first, s.count), k, v,
                                                                             s.mask, 0.0, s.causal, false, call.scale);
  out.narrow(2, s.first, s.count).copy_(std::get<0>(result));
  sums.narrow(2, s.first, s.count).copy_(std::get<1>(result));
}

// One query per sequence, which sees all keys but those left of its window: a kernel reads the lengths, no host does.
bool one_query_each(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& cum_q,
                    const MaybeTensor& used, const MaybeTensor& blocks, const Call& call) {
  const auto words = [](const at::Tensor& t) { return t.scalar_type() == at::kInt && t.stride(-1) == 1; };
  const auto pool = [&](const at::Tensor& t) {
    return t.dim() == 4 && t.stride(3) == 1 && t.scalar_type() == q.scalar_type() && t.size(3) == q.size(2);
  };
  return call.max_q == 1 && is_given(blocks) && is_given(used) && pool(k) && pool(v) && k.sizes() == v.sizes() &&
         q.stride(2) == 1 && k.size(1) > 0 && k.size(2) > 0 && q.size(1) % k.size(2) == 0 && cum_q.dim() == 1 &&
         cum_q.numel() > 1 && words(cum_q) && used->dim() == 1 && used->numel() >= cum_q.numel() - 1 && words(*used) &&
         blocks->dim() == 2 && blocks->size(0) == cum_q.numel() - 1 && words(*blocks) &&
         ops::plan_paged_serves(q.size(2), dtype_of(q), current_policy());
}

at::Tensor attend_pages(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& cum_q, const at::Tensor& used, const at::Tensor& blocks, const Call& call) {
  const at::Tensor sums = new_empty({q.size(1), q.size(0)}, at::kFloat);
  if (q.numel() == 0) return sums;
  const at::Tensor to = out.stride(2) == 1 ? out : new_empty(out.sizes(), out.scalar_type());
  ops::PagedProblem problem;
  problem.q = q.const_data_ptr();
  problem.k = k.const_data_ptr();
  problem.v = v.const_data_ptr();
  problem.out = to.mutable_data_ptr();
  problem.sums = sums.mutable_data_ptr<float>();
  problem.begins = cum_q.const_data_ptr<int32_t>();
  problem.lengths = used.const_data_ptr<int32_t>();
  problem.table = blocks.const_data_ptr<int32_t>();
  problem.table_stride = blocks.stride(0);
  for (int64_t i = 0; i < 2; ++i) problem.q_stride[i] = q.stride(i), problem.out_stride[i] = to.stride(i);
  for (int64_t i = 0; i < 3; ++i) problem.k_stride[i] = k.stride(i), problem.v_stride[i] = v.stride(i);
  problem.pages = k.size(0);
  problem.sequences = static_cast<uint32_t>(blocks.size(0));
  problem.queries = static_cast<uint32_t>(q.size(0));
  problem.columns = static_cast<uint32_t>(blocks.size(1));
  problem.page = static_cast<uint32_t>(k.size(1));
  problem.heads = static_cast<uint32_t>(q.size(1));
  problem.dim = static_cast<uint32_t>(q.size(2));
  problem.group = static_cast<uint32_t>(q.size(1) / k.size(2));
  problem.left = static_cast<int32_t>(std::min<int64_t>(call.window.left, INT32_MAX));
  problem.scale = static_cast<float>(call.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(2)))));
  ops::paged_attention(runtime::current_queue(), dtype_of(q), problem);
  if (!to.is_same(out)) out.copy_(to);
  return sums;
}

at::Tensor forward(const at::Tensor& out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const MaybeTensor& cum_q, const MaybeTensor& cum_k, double dropout, const Call& call,
                   const MaybeTensor& seqused, const MaybeTensor& alibi, const MaybeTensor& blocks) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0.0, "varlen attention on xpu has no dropout, got dropout_p = ", dropout);
  TORCH_CHECK_NOT_IMPLEMENTED(!is_given(alibi), "varlen attention on xpu does not take alibi_slopes");
  if (!is_given(cum_q)) {
    TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && !is_given(seqused) && !is_given(blocks),
                "_flash_attention_forward: without cum_seq_q, expected (batch, length, heads, dim) and no seqused_k or "
                "block_table");
    const at::Tensor sums = new_empty({query.size(0), query.size(2), query.size(1)}, at::kFloat);
    attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), call, out.transpose(1, 2), sums);
    return sums;
  }
  check_packed(query, key, value, is_given(blocks) ? 4 : 3);
  if (one_query_each(query, key, value, *cum_q, seqused, blocks, call))
    return attend_pages(out, query, key, value, *cum_q, *seqused, *blocks, call);
  TORCH_CHECK(is_given(cum_k) || (is_given(blocks) && is_given(seqused)),
              "varlen attention: needs cum_seq_k, or block_table with seqused_k");
  Packed p;
  if (is_given(blocks)) {
    p.q = on_host(*cum_q, "cum_seq_q", 1);
    check_begins(p.q, query.size(0), "cum_seq_q");
    TORCH_CHECK(is_given(seqused) && blocks->dim() == 2 && blocks->size(0) == static_cast<int64_t>(p.count()) &&
                    key.size(1) > 0 && key.size(1) == value.size(1),
                "varlen attention: a block_table needs seqused_k and a row of pages for each of the ", p.count(),
                " sequences");
  } else {
    p = packed(query, key, *cum_q, *cum_k);
  }
  const std::vector<int64_t> used =
      is_given(seqused) ? on_host(*seqused, "seqused_k", static_cast<int64_t>(p.count())) : std::vector<int64_t>();
  const Keys keys(key, p, blocks), values(value, p, blocks);
  const at::Tensor sums = at::full({query.size(1), query.size(0)}, std::numeric_limits<float>::infinity(),
                                   query.options().dtype(at::kFloat));
  for (size_t i = 0; i < p.count(); ++i) {
    if (p.queries(i) == 0) continue;
    const int64_t length = used.empty() ? p.keys(i) : used[i];
    TORCH_CHECK(length >= 0 && (is_given(blocks) || length <= p.keys(i)), "varlen attention: seqused_k is ", length,
                " of a sequence of ", is_given(blocks) ? 0 : p.keys(i), " keys");
    const auto rows = [&](const at::Tensor& t) { return heads_first(t.narrow(0, p.q[i], p.queries(i))); };
    attend(rows(query), heads_first(keys.of(i, length)), heads_first(values.of(i, length)), call, rows(out),
           sums.narrow(1, p.q[i], p.queries(i)).unsqueeze(0));
  }
  return sums;
}

struct PackedGradients { at::Tensor q, k, v; };

// Into zeros.
void attend_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& out, const at::Tensor& sums, const Call& call, const PackedGradients& to) {
  const Seen s = seen(q.size(2), k.size(2), call.window, q);
  if (s.count == 0 || q.numel() == 0) return;
  const auto rows = [&](const at::Tensor& t) { return t.narrow(2, s.first, s.count); };
  const auto result = aten::_scaled_dot_product_fused_attention_overrideable_backward(
      rows(grad), rows(q), k, v, s.mask, {true, true, true, false}, rows(out), rows(sums).contiguous(), {}, {}, 0, 0,
      0.0, s.causal, {}, {}, call.scale);
  rows(to.q).copy_(std::get<0>(result));
  to.k.copy_(std::get<1>(result));
  to.v.copy_(std::get<2>(result));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _flash_attention_forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const MaybeTensor& cum_seq_q,
    const MaybeTensor& cum_seq_k, int64_t max_q, int64_t, double dropout_p, bool is_causal, bool,
    std::optional<double> scale, std::optional<int64_t> window_size_left, std::optional<int64_t> window_size_right,
    const MaybeTensor& seqused_k, const MaybeTensor& alibi_slopes, const MaybeTensor& block_table,
    std::optional<int64_t>) {
  const at::Tensor out = at::empty_like(query);
  const at::Tensor sums = forward(out, query, key, value, cum_seq_q, cum_seq_k, dropout_p,
                                  {scale, KeyWindow(is_causal, window_size_left, window_size_right), max_q}, seqused_k,
                                  alibi_slopes, block_table);
  return {out, sums, at::zeros({2}, query.options().dtype(at::kUInt64)),
          at::zeros({}, query.options().dtype(at::kUInt64)), at::empty({0}, query.options())};
}

at::Tensor _flash_attention_forward_no_dropout_inplace(
    at::Tensor& out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const MaybeTensor& cum_seq_q, const MaybeTensor& cum_seq_k, int64_t max_q, int64_t, double dropout_p,
    bool is_causal, bool, std::optional<double> scale, std::optional<int64_t> window_size_left,
    std::optional<int64_t> window_size_right, const MaybeTensor& seqused_k, const MaybeTensor& alibi_slopes,
    const MaybeTensor& block_table, std::optional<int64_t>) {
  TORCH_CHECK(out.sizes() == query.sizes(), "varlen attention: expected out of shape ", query.sizes(), ", got ",
              out.sizes());
  return forward(out, query, key, value, cum_seq_q, cum_seq_k, dropout_p,
                 {scale, KeyWindow(is_causal, window_size_left, window_size_right), max_q}, seqused_k, alibi_slopes,
                 block_table);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _flash_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t, int64_t, double dropout_p, bool is_causal, const at::Tensor&, const at::Tensor&,
    std::optional<double> scale, std::optional<int64_t> window_size_left, std::optional<int64_t> window_size_right) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout_p == 0.0, "varlen attention on xpu has no dropout, got dropout_p = ", dropout_p);
  const Call call{scale, KeyWindow(is_causal, window_size_left, window_size_right), 0};
  const PackedGradients to{at::zeros_like(query), at::zeros_like(key), at::zeros_like(value)};
  if (!cum_seq_q.defined()) {
    const auto turned = [](const at::Tensor& t) { return t.transpose(1, 2); };
    attend_backward(turned(grad_out), turned(query), turned(key), turned(value), turned(out), logsumexp, call,
                    {turned(to.q), turned(to.k), turned(to.v)});
    return {to.q, to.k, to.v};
  }
  check_packed(query, key, value, 3);
  const Packed p = packed(query, key, cum_seq_q, cum_seq_k);
  for (size_t i = 0; i < p.count(); ++i) {
    const auto rows = [&](const at::Tensor& t) { return heads_first(t.narrow(0, p.q[i], p.queries(i))); };
    const auto lines = [&](const at::Tensor& t) { return heads_first(t.narrow(0, p.k[i], p.keys(i))); };
    if (p.queries(i) == 0 || p.keys(i) == 0) continue;
    attend_backward(rows(grad_out), rows(query), lines(key), lines(value), rows(out),
                    logsumexp.narrow(1, p.q[i], p.queries(i)).unsqueeze(0), call,
                    {rows(to.q), lines(to.k), lines(to.v)});
  }
  return {to.q, to.k, to.v};
}

// ---- keys and values into their pages

namespace {

void check_places(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& slots) {
  TORCH_CHECK(slots.dim() == 1 && slots.scalar_type() == at::kLong, "expected a vector of int64 slots");
  const at::Tensor* pairs[][2] = {{&keys, &key}, {&values, &value}};
  for (const auto& [cache, rows] : pairs) {
    TORCH_CHECK(rows->dim() >= 2 && rows->dim() <= 4 && cache->dim() == rows->dim() + 1 &&
                    cache->sizes().slice(2) == rows->sizes().slice(1) && rows->size(0) == slots.size(0),
                "expected caches (pages, page, ...) and rows (tokens, ...) that fit, got ", cache->sizes(), " and ",
                rows->sizes(), " for ", slots.size(0), " slots");
    TORCH_CHECK(cache->scalar_type() == rows->scalar_type() && keys.element_size() == cache->element_size(),
                "expected rows of the caches' type, got ", rows->scalar_type(), " for ", cache->scalar_type());
  }
  TORCH_CHECK(keys.size(0) == values.size(0) && keys.size(1) == values.size(1),
              "expected two caches of as many pages, got ", keys.sizes(), " and ", values.sizes());
}

ops::PlacePart place_part(const at::Tensor& cache, const at::Tensor& rows) {
  ops::PlacePart part;
  part.src = rows.const_data_ptr();
  part.dst = cache.mutable_data_ptr();
  part.src_stride[0] = rows.stride(0);
  part.dst_stride[0] = cache.stride(0);
  part.dst_stride[1] = cache.stride(1);
  int at = 2;  // the last dimension there is, of those that are joined
  for (int64_t i = rows.dim() - 1; i > 0; --i) {
    const int64_t size = rows.size(i), from = rows.stride(i), to = cache.stride(i + 1);
    const bool first = part.size[at] == 1;
    if (size == 1) continue;
    if (!first && (part.src_stride[at + 1] * part.size[at] != from || part.dst_stride[at + 2] * part.size[at] != to))
      --at;
    else if (!first) {
      part.size[at] *= static_cast<uint32_t>(size);
      continue;
    }
    part.size[at] = static_cast<uint32_t>(size);
    part.src_stride[at + 1] = from;
    part.dst_stride[at + 2] = to;
  }
  return part;
}

}  // namespace

void _place_rows(at::Tensor& keys, at::Tensor& values, const at::Tensor& key, const at::Tensor& value,
                 const at::Tensor& slots) {
  check_places(keys, values, key, value, slots);
  TORCH_CHECK_NOT_IMPLEMENTED(slots.numel() < INT32_MAX &&
                                  keys.numel() / std::max<int64_t>(keys.size(0), 1) < INT32_MAX &&
                                  values.numel() / std::max<int64_t>(values.size(0), 1) < INT32_MAX,
                              "pages of 2^31 and more elements are not supported");
  TORCH_CHECK_NOT_IMPLEMENTED(keys.element_size() <= 8, "elements of ", keys.element_size(),
                              " bytes are not supported");
  mark_written(keys);
  mark_written(values);
  if (slots.numel() == 0 || (key.numel() == 0 && value.numel() == 0)) return;
  const at::Tensor places = slots.contiguous();
  ops::PlaceProblem problem;
  problem.part[0] = place_part(keys, key);
  problem.part[1] = place_part(values, value);
  if (key.numel() == 0) problem.part[0].size[0] = 0;
  if (value.numel() == 0) problem.part[1].size[0] = 0;
  problem.slots = places.const_data_ptr<int64_t>();
  problem.pages = keys.size(0);
  problem.page = std::max<int64_t>(keys.size(1), 1);
  problem.tokens = static_cast<uint32_t>(slots.numel());
  ops::place_rows(runtime::current_queue(), keys.element_size(), problem);
}

void _place_rows_composite(at::Tensor& keys, at::Tensor& values, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& slots) {
  check_places(keys, values, key, value, slots);
  const at::Tensor with_place = slots.ge(0).nonzero().squeeze(1), chosen = slots.index_select(0, with_place);
  const at::Tensor page = chosen.floor_divide(keys.size(1)), place = chosen.remainder(keys.size(1));
  keys.index_put_({page, place}, key.index_select(0, with_place));
  values.index_put_({page, place}, value.index_select(0, with_place));
}

}  // namespace xpu_ops::aten
