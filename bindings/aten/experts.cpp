// Layers of experts: which ones take a token, how their rows lie, and the sum of what they make.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <numeric>

#include "bindings/aten/core/tensor.hpp"
#include "gen/aten/experts_ops.hpp"
#include "kernels/ops/experts.hpp"

namespace xpu_ops::aten {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool fits(int64_t n) { return n < INT32_MAX; }

bool is_number(const at::Tensor& t) { return t.scalar_type() == at::kInt || t.scalar_type() == at::kLong; }
bool is_value(const at::Tensor& t) { return is_single_or_half(t.scalar_type()); }
bool is_dense(const at::Tensor& t, at::ScalarType type) { return t.is_contiguous() && t.scalar_type() == type; }
bool serves(int64_t experts, int64_t count = 0) {
  return fits(experts) && ops::plan_experts_serve(static_cast<uint32_t>(experts), static_cast<uint32_t>(count));
}

// Whole numbers as int32 or int64 side by side, which a kernel reads.
at::Tensor read_numbers(const at::Tensor& t) { return is_number(t) ? t.contiguous() : t.to(at::kLong).contiguous(); }
ops::Numbers numbers_in(const at::Tensor& t) {
  return {const_cast<void*>(t.const_data_ptr()), static_cast<uint32_t>(t.element_size())};
}
ops::Numbers numbers_out(const at::Tensor& t) {
  return {t.mutable_data_ptr(), static_cast<uint32_t>(t.element_size())};
}

void changed(std::initializer_list<const at::Tensor*> list) {
  for (const at::Tensor* t : list) mark_written(*t);
}

// int32 numbers of experts here; an empty map knows none. `map` keeps what is read.
template <class Problem> void set_map(Problem& p, const MaybeTensor& given_map, at::Tensor& map) {
  if (!is_given(given_map)) return;
  map = given_map->to(at::kInt).contiguous();
  p.mapped = static_cast<uint32_t>(map.numel());
  static const int32_t none = -1;
  p.map = map.numel() ? map.const_data_ptr<int32_t>() : &none;
}

// ---- the best experts

ops::Scoring scoring_of(std::string_view name) {
  if (name == "softmax") return ops::Scoring::softmax;
  if (name == "sigmoid") return ops::Scoring::sigmoid;
  if (name == "softplus_sqrt") return ops::Scoring::softplus_sqrt;
  TORCH_CHECK_VALUE(name == "none", "expected softmax, sigmoid, softplus_sqrt or none, got ", name);
  return ops::Scoring::none;
}

void check_choice(const at::Tensor& weights, const at::Tensor& ids, const at::Tensor& sources, const at::Tensor& scores,
                  const MaybeTensor& bias, const MaybeTensor& padding, int64_t groups, int64_t kept) {
  TORCH_CHECK(weights.dim() == 2 && scores.dim() == 2 && scores.size(0) == weights.size(0) &&
                  ids.sizes() == weights.sizes() && (!sources.numel() || sources.sizes() == weights.sizes()),
              "expected scores of ", weights.size(0), " tokens and as many experts as weights, got ", scores.sizes(),
              " for ", weights.sizes(), " and ", ids.sizes());
  const int64_t experts = scores.size(1);
  TORCH_CHECK(weights.size(1) <= experts, weights.size(1), " experts of a token are more than the ", experts,
              " there are");
  TORCH_CHECK(!is_given(bias) || bias->numel() == experts, "expected a bias of ", experts, ", got ",
              is_given(bias) ? bias->numel() : 0);
  TORCH_CHECK(!is_given(padding) || (padding->numel() == scores.size(0) && padding->scalar_type() == at::kBool),
              "expected a bool for each token");
  TORCH_CHECK(groups >= 0 && (groups == 0 || experts % groups == 0), groups, " groups do not divide ", experts,
              " experts");
  TORCH_CHECK(groups == 0 || (kept > 0 && kept <= groups), "expected 1 to ", groups, " groups to keep, got ", kept);
}

// Of equals the first; topk promises no order.
std::tuple<at::Tensor, at::Tensor> best(const at::Tensor& scores, int64_t count) {
  const auto [values, at] = scores.sort(true, -1, true);
  return {values.narrow(-1, 0, count), at.narrow(-1, 0, count)};
}

at::Tensor scored(const at::Tensor& scores, ops::Scoring scoring) {
  switch (scoring) {
    case ops::Scoring::softmax: return scores.softmax(-1, at::kFloat);
    case ops::Scoring::sigmoid: return scores.sigmoid();
    case ops::Scoring::softplus_sqrt: return at::softplus(scores.to(at::kFloat)).sqrt();
    default: return scores;
  }
}

}  // namespace

void _choose_experts_composite(at::Tensor& weights, at::Tensor& ids, at::Tensor& sources, const at::Tensor& scores,
                               std::string_view scoring, bool renormalize, const MaybeTensor& bias, double factor,
                               const MaybeTensor& padding, int64_t groups, int64_t kept) {
  const ops::Scoring by = scoring_of(scoring);
  check_choice(weights, ids, sources, scores, bias, padding, groups, kept);
  const int64_t tokens = weights.size(0), count = weights.size(1);
  const at::Tensor typed = scored(scores, by), score = typed.to(at::kFloat);
  at::Tensor biased = score, there;
  if (groups > 0) {
    biased = (is_given(bias) ? typed + bias->to(typed.scalar_type()) : typed).to(at::kFloat);
    const at::Tensor parts = biased.view({tokens, groups, scores.size(1) / groups});
    const at::Tensor two = std::get<0>(best(parts, std::min<int64_t>(2, parts.size(2))));
    const at::Tensor sums = two.sum(-1).to(typed.scalar_type()).to(at::kFloat);
    const auto [top, at] = best(sums, kept);
    there = top.select(1, kept - 1).ne(-kInfinity).unsqueeze(1);
    const at::Tensor mask = at::zeros_like(sums, at::kBool).scatter(1, at, true);
    biased = parts.masked_fill(mask.logical_not().unsqueeze(-1), -kInfinity).flatten(1);
  } else if (is_given(bias)) {
    biased = score + bias->to(at::kFloat);
  }
  at::Tensor chosen = std::get<1>(best(biased, count));
  if (there.defined()) chosen = at::where(there, chosen, at::arange(count, chosen.options()));
  at::Tensor share = score.gather(1, chosen);
  if (renormalize) {
    const at::Tensor sum = share.sum(-1, true);
    share = share * ((groups > 0 ? sum + 1e-20 : sum.masked_fill(sum.le(0), 1.0)).reciprocal() * factor);
  } else if (factor != 1.0) {
    share = share * factor;
  }
  if (there.defined()) share = at::where(there, share, 1.0 / static_cast<double>(std::max<int64_t>(count, 1)));
  if (is_given(padding)) {
    share = share.masked_fill(padding->view({tokens, 1}), 0.0);
    chosen = chosen.masked_fill(padding->view({tokens, 1}), -1);
  }
  weights.copy_(share);
  ids.copy_(chosen);
  if (sources.numel()) sources.copy_(at::arange(tokens * count, chosen.options()).view({count, tokens}).t());
}

void _choose_experts(at::Tensor& weights, at::Tensor& ids, at::Tensor& sources, const at::Tensor& scores,
                     std::string_view scoring, bool renormalize, const MaybeTensor& bias, double factor,
                     const MaybeTensor& padding, int64_t groups, int64_t kept) {
  const ops::Scoring by = scoring_of(scoring);
  check_choice(weights, ids, sources, scores, bias, padding, groups, kept);
  const bool whole = !sources.numel() || (is_number(sources) && sources.is_contiguous());
  if (!is_dense(weights, at::kFloat) || !is_number(ids) || !ids.is_contiguous() || !whole || !is_value(scores) ||
      !serves(scores.size(1), weights.size(1)) || !fits(weights.numel()))
    return _choose_experts_composite(weights, ids, sources, scores, scoring, renormalize, bias, factor, padding, groups,
                                     kept);
  changed({&weights, &ids, &sources});
  if (weights.numel() == 0) return;
  const at::Tensor rows = has_dense_rows(scores) ? scores : scores.contiguous();
  const at::Tensor more = is_given(bias) ? bias->to(at::kFloat).contiguous() : at::Tensor();
  const at::Tensor none = is_given(padding) ? padding->contiguous() : at::Tensor();
  ops::ChooseProblem p;
  p.scores = rows.const_data_ptr();
  p.score_row = rows.stride(0);
  if (more.defined()) p.bias = more.const_data_ptr<float>();
  if (none.defined()) p.padding = static_cast<const uint8_t*>(none.const_data_ptr());
  p.weights = weights.mutable_data_ptr<float>();
  p.ids = numbers_out(ids);
  if (sources.numel()) p.sources = numbers_out(sources);
  p.tokens = static_cast<uint32_t>(weights.size(0));
  p.experts = static_cast<uint32_t>(scores.size(1));
  p.count = static_cast<uint32_t>(weights.size(1));
  p.groups = static_cast<uint32_t>(std::max<int64_t>(groups, 1));
  p.kept = static_cast<uint32_t>(kept);
  p.grouped = groups > 0;
  p.scoring = by;
  p.renormalize = renormalize;
  p.factor = static_cast<float>(factor);
  ops::choose_experts(runtime::current_queue(), dtype_of(rows), p);
}

// ---- how tokens lie

namespace {

void check_blocks(const at::Tensor& total, int64_t experts, int64_t block) {
  TORCH_CHECK(block > 0, "block_size must be above zero, got ", block);
  TORCH_CHECK(experts >= 0 && total.numel() == 1, "expected one number for the total, and no experts below 0");
}

// The expert of each choice, `experts` where it is none of this device.
at::Tensor keys_of(const at::Tensor& ids, int64_t experts, const MaybeTensor& map, bool by_map) {
  at::Tensor key = ids.to(at::kLong).flatten();
  at::Tensor known = key.ge(0);
  if (is_given(map) && map->numel() == 0) {
    known = at::zeros_like(known);
  } else if (is_given(map)) {
    const at::Tensor here = map->to(at::kLong).flatten().index_select(0, key.clamp(0, map->numel() - 1));
    known = known.logical_and(here.ge(0));
    if (by_map) key = here;
  }
  return at::where(known.logical_and(key.lt(experts)), key, experts);
}

at::Tensor counts_of(const at::Tensor& key, int64_t experts) {
  return at::zeros({experts + 1}, key.options()).scatter_add(0, key, at::ones_like(key));
}

}  // namespace

void _align_experts_composite(at::Tensor& sorted, at::Tensor& expert_ids, at::Tensor& total, const at::Tensor& ids,
                              int64_t experts, int64_t block, const MaybeTensor& map, int64_t empty) {
  check_blocks(total, experts, block);
  if (experts == 0) {
    sorted.fill_(ids.numel());
    expert_ids.fill_(empty);
    total.zero_();
    return;
  }
  const at::Tensor key = keys_of(ids, experts, map, false), counts = counts_of(key, experts);
  const at::Tensor padded = (counts.narrow(0, 0, experts) + (block - 1)).floor_divide(block) * block;
  const at::Tensor ends = padded.cumsum(0);
  const at::Tensor begins = at::pad(ends - padded, {0, 1}, "constant", static_cast<double>(sorted.numel()));
  const at::Tensor order = std::get<1>(key.sort(true, 0, false)), by_key = key.index_select(0, order);
  const at::Tensor rank = at::arange(key.numel(), key.options()) - (counts.cumsum(0) - counts).index_select(0, by_key);
  const at::Tensor place = (begins.index_select(0, by_key) + rank).clamp_max(sorted.numel());
  const at::Tensor room = at::full({sorted.numel() + 1}, key.numel(), key.options()).scatter(0, place, order);
  sorted.copy_(room.narrow(0, 0, sorted.numel()).view_as(sorted));
  const at::Tensor from = at::arange(expert_ids.numel(), key.options()) * block;
  at::Tensor expert = at::searchsorted(ends, from, false, true).clamp_max(experts - 1);
  if (is_given(map)) expert = map->to(at::kLong).flatten().index_select(0, expert.clamp_max(map->numel() - 1));
  expert_ids.copy_(at::where(from.lt(ends.select(0, -1)), expert, empty).view_as(expert_ids));
  total.copy_(ends.narrow(0, experts - 1, 1).view_as(total));
}

void _align_experts(at::Tensor& sorted, at::Tensor& expert_ids, at::Tensor& total, const at::Tensor& ids,
                    int64_t experts, int64_t block, const MaybeTensor& map, int64_t empty) {
  check_blocks(total, experts, block);
  if (!is_dense(sorted, at::kInt) || !is_dense(expert_ids, at::kInt) || !is_dense(total, at::kInt) ||
      !serves(experts) || !fits(ids.numel() + experts * block) || !fits(sorted.numel()) || !fits(block))
    return _align_experts_composite(sorted, expert_ids, total, ids, experts, block, map, empty);
  changed({&sorted, &expert_ids, &total});
  const at::Tensor choices = read_numbers(ids);
  at::Tensor names;
  ops::AlignProblem p;
  p.ids = numbers_in(choices);
  set_map(p, map, names);
  p.sorted = sorted.mutable_data_ptr<int32_t>();
  p.expert_ids = expert_ids.mutable_data_ptr<int32_t>();
  p.total = total.mutable_data_ptr<int32_t>();
  p.choices = static_cast<uint32_t>(choices.numel());
  p.experts = static_cast<uint32_t>(experts);
  p.block = static_cast<uint32_t>(block);
  p.places = static_cast<uint32_t>(sorted.numel());
  p.blocks = static_cast<uint32_t>(expert_ids.numel());
  p.empty = static_cast<int32_t>(empty);
  ops::align_experts(runtime::current_queue(), p);
}

namespace {

void check_spread(const at::Tensor& out, const at::Tensor& out_scales, const at::Tensor& places, const at::Tensor& x,
                  const MaybeTensor& scales, const at::Tensor& ids) {
  TORCH_CHECK(ids.dim() == 2 && x.dim() == 2 && x.size(0) == ids.size(0), "expected ", ids.size(0), " rows, got ",
              x.sizes());
  TORCH_CHECK(places.numel() == ids.numel(), "expected ", ids.numel(), " places, got ", places.numel());
  TORCH_CHECK(
      out.dim() == 2 && out.size(0) >= ids.numel() && out.size(1) == x.size(1) && out.scalar_type() == x.scalar_type(),
      "expected room for ", ids.numel(), " rows like ", x.sizes(), " of ", x.scalar_type(), ", got ", out.sizes(),
      " of ", out.scalar_type());
  if (is_given(scales) && out_scales.numel())
    TORCH_CHECK(scales->dim() == 2 && scales->size(0) == x.size(0) && out_scales.dim() == 2 &&
                    out_scales.size(0) >= ids.numel() && out_scales.size(1) == scales->size(1) &&
                    out_scales.scalar_type() == scales->scalar_type(),
                "expected room for the scales of ", ids.numel(), " rows, got ", out_scales.sizes(), " for ",
                scales->sizes());
}

bool movable(const at::Tensor& t) { return has_dense_rows(t) && fits(t.size(1)) && t.element_size() <= 8; }

// In the widest units that divide rows and the way from one to the next.
ops::SpreadPart spread_part(const at::Tensor& out, const at::Tensor& x) {
  const int64_t size = x.element_size();
  const auto address = [](const void* p) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % 8); };
  int64_t unit = 8;
  for (const int64_t n : {x.size(1) * size, x.stride(0) * size, out.stride(0) * size, address(x.const_data_ptr()),
                          address(out.const_data_ptr())})
    unit = std::gcd(unit, n);
  ops::SpreadPart part;
  part.src = x.const_data_ptr();
  part.dst = out.mutable_data_ptr();
  part.src_row = x.stride(0) * size / unit;
  part.dst_row = out.stride(0) * size / unit;
  part.size = static_cast<uint32_t>(x.size(1) * size / unit);
  part.bytes = static_cast<uint32_t>(unit);
  return part;
}

}  // namespace

void _spread_rows_composite(at::Tensor& out, at::Tensor& out_scales, at::Tensor& counts, at::Tensor& places,
                            const at::Tensor& x, const MaybeTensor& scales, const at::Tensor& ids,
                            const MaybeTensor& map) {
  check_spread(out, out_scales, places, x, scales, ids);
  const int64_t experts = counts.numel();
  const at::Tensor key = keys_of(ids, experts, map, true), here = key.lt(experts);
  const at::Tensor order = std::get<1>(key.sort(true, 0, false));
  const at::Tensor rank = at::empty_like(order).scatter(0, order, at::arange(order.numel(), order.options()));
  places.copy_(at::where(here, rank, -1).view_as(places));
  counts.copy_(counts_of(key, experts).narrow(0, 0, experts).view_as(counts));
  const at::Tensor source = order.floor_divide(ids.size(1)), there = here.index_select(0, order);
  const auto bytes = [](const at::Tensor& t) { return t.element_size() == 1 ? t.view(at::kByte) : t; };
  const auto move = [&](const at::Tensor& from, const at::Tensor& to) {
    const at::Tensor room = bytes(to).narrow(0, 0, source.numel());
    room.copy_(at::where(there.unsqueeze(1), bytes(from).index_select(0, source), room));
  };
  move(x, out);
  if (is_given(scales) && out_scales.numel()) move(*scales, out_scales);
}

void _spread_rows(at::Tensor& out, at::Tensor& out_scales, at::Tensor& counts, at::Tensor& places, const at::Tensor& x,
                  const MaybeTensor& scales, const at::Tensor& ids, const MaybeTensor& map) {
  check_spread(out, out_scales, places, x, scales, ids);
  const bool scaled = is_given(scales) && out_scales.numel();
  if (!is_dense(counts, at::kInt) || !is_dense(places, at::kInt) || !movable(x) || !movable(out) ||
      (scaled && (!movable(*scales) || !movable(out_scales))) || !fits(ids.numel()) || !serves(counts.numel()))
    return _spread_rows_composite(out, out_scales, counts, places, x, scales, ids, map);
  changed({&out, &counts, &places});
  if (scaled) changed({&out_scales});
  const at::Tensor choices = read_numbers(ids);
  at::Tensor local;
  ops::SpreadProblem p;
  p.ids = numbers_in(choices);
  set_map(p, map, local);
  p.counts = counts.mutable_data_ptr<int32_t>();
  p.places = places.mutable_data_ptr<int32_t>();
  p.part[0] = spread_part(out, x);
  if (scaled) p.part[1] = spread_part(out_scales, *scales);
  p.tokens = static_cast<uint32_t>(ids.size(0));
  p.count = static_cast<uint32_t>(ids.size(1));
  p.experts = static_cast<uint32_t>(counts.numel());
  ops::spread_rows(runtime::current_queue(), p);
}

// ---- the sum

namespace {

void check_sum(const at::Tensor& out, const at::Tensor& rows, const MaybeTensor& places, const MaybeTensor& weights,
               const MaybeTensor& ids) {
  TORCH_CHECK(out.dim() == 2 && out.scalar_type() == rows.scalar_type(), "expected an output of ", rows.scalar_type(),
              " and two dimensions, got ", out.scalar_type(), " of ", out.sizes());
  const bool placed = is_given(places);
  TORCH_CHECK(rows.dim() == (placed ? 2 : 3) && rows.size(-1) == out.size(1) &&
                  (placed ? places->dim() == 2 && places->size(0) == out.size(0) : rows.size(0) == out.size(0)),
              "expected rows for an output of ", out.sizes(), ", got ", rows.sizes());
  const at::IntArrayRef each = placed ? places->sizes() : rows.sizes().slice(0, 2);
  for (const MaybeTensor* t : {&weights, &ids})
    TORCH_CHECK(!is_given(*t) || (*t)->sizes() == each, "expected a weight and an expert for each of ", each);
}

}  // namespace

void _sum_experts_composite(at::Tensor& out, const at::Tensor& rows, const MaybeTensor& places,
                            const MaybeTensor& weights, const MaybeTensor& ids, const MaybeTensor& map) {
  check_sum(out, rows, places, weights, ids);
  at::Tensor picked = rows, there;
  if (is_given(places)) {
    there = places->ge(0);
    picked = rows.index_select(0, places->clamp_min(0).flatten().to(at::kLong))
                 .view({places->size(0), places->size(1), rows.size(1)});
  }
  if (is_given(ids)) {
    at::Tensor known = ids->ge(0);
    if (is_given(map))
      known = known.logical_and(map->to(at::kLong)
                                    .flatten()
                                    .index_select(0, ids->flatten().to(at::kLong).clamp(0, map->numel() - 1))
                                    .ge(0)
                                    .view_as(known));
    there = there.defined() ? there.logical_and(known) : known;
  }
  picked = picked.to(at::toOpMathType(rows.scalar_type()));
  if (there.defined()) picked = at::where(there.unsqueeze(-1), picked, 0.0);
  if (is_given(weights)) picked = picked * weights->to(picked.scalar_type()).unsqueeze(-1);
  out.copy_(picked.sum(1));
}

void _sum_experts(at::Tensor& out, const at::Tensor& rows, const MaybeTensor& places, const MaybeTensor& weights,
                  const MaybeTensor& ids, const MaybeTensor& map) {
  check_sum(out, rows, places, weights, ids);
  const int64_t count = is_given(places) ? places->size(1) : rows.size(1);
  if (!is_value(rows) || !has_dense_rows(rows) || !has_dense_rows(out) || count > 64 || !fits(out.size(0) * count) ||
      !fits(out.size(1)) || (rows.dim() == 3 && rows.stride(0) != rows.stride(1) * rows.size(1)))
    return _sum_experts_composite(out, rows, places, weights, ids, map);
  changed({&out});
  if (out.numel() == 0) return;
  ops::SumProblem p;
  at::Tensor place, weight, expert, local;
  p.rows = rows.const_data_ptr();
  p.out = out.mutable_data_ptr();
  if (is_given(places)) p.places = (place = places->to(at::kInt).contiguous()).const_data_ptr<int32_t>();
  if (is_given(weights)) p.weights = (weight = weights->to(at::kFloat).contiguous()).const_data_ptr<float>();
  if (is_given(ids)) p.ids = numbers_in(expert = read_numbers(*ids));
  set_map(p, map, local);
  p.src_row = rows.stride(-2);
  p.dst_row = out.stride(0);
  p.tokens = static_cast<uint32_t>(out.size(0));
  p.count = static_cast<uint32_t>(count);
  p.columns = static_cast<uint32_t>(out.size(1));
  ops::sum_experts(runtime::current_queue(), dtype_of(rows), p);
}

// ---- gates beside what they multiply

namespace {

void check_pairs(const at::Tensor& out, const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 2 && out.dim() == 2 && x.size(0) == out.size(0) && x.size(1) == 2 * out.size(1) &&
                  x.scalar_type() == out.scalar_type(),
              "expected pairs for an output of ", out.sizes(), " of ", out.scalar_type(), ", got ", x.sizes(), " of ",
              x.scalar_type());
}

}  // namespace

void _swiglu_pairs_composite(at::Tensor& out, const at::Tensor& x, double alpha, double limit) {
  check_pairs(out, x);
  const at::Tensor wide = x.to(at::toOpMathType(x.scalar_type())).unflatten(1, {out.size(1), 2});
  const at::Tensor gate = wide.select(2, 0).clamp_max(limit), up = wide.select(2, 1).clamp(-limit, limit);
  out.copy_((gate * alpha).sigmoid() * gate * (up + 1));
}

void _swiglu_pairs(at::Tensor& out, const at::Tensor& x, double alpha, double limit) {
  check_pairs(out, x);
  if (!is_value(x) || !has_dense_rows(x) || !has_dense_rows(out) || !fits(x.size(0)) || !fits(x.size(1)) ||
      (x.element_size() == 2 && x.stride(0) % 2 != 0) || x.storage_offset() % 2 != 0)
    return _swiglu_pairs_composite(out, x, alpha, limit);
  changed({&out});
  if (out.numel() == 0) return;
  ops::PairProblem p;
  p.x = x.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.x_row = x.stride(0);
  p.out_row = out.stride(0);
  p.rows = static_cast<uint32_t>(x.size(0));
  p.columns = static_cast<uint32_t>(out.size(1));
  if (x.is_contiguous() && out.is_contiguous() && fits(x.numel()))
    p.columns = static_cast<uint32_t>(out.numel()), p.rows = 1;
  p.alpha = static_cast<float>(alpha);
  p.limit = static_cast<float>(limit);
  ops::swiglu_pairs(runtime::current_queue(), dtype_of(x), p);
}

}  // namespace xpu_ops::aten
