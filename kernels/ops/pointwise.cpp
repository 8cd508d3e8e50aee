#include "kernels/ops/pointwise.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/error.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {
namespace {

constexpr uint32_t kFewUnits = 4;      // up to which a tile is worth a work-group
constexpr uint32_t kTilesPerUnit = 4;  // so that units that start late still share the work
constexpr uint32_t kTileStep = 1024, kMostTile = 65536;
constexpr uint64_t kLeastOfFours = 4096;  // elements that are worth a second kernel

}  // namespace

void collapse(PointwiseShape& s) {
  int n = 0;
  for (int d = 0; d < s.ndim; ++d) {
    if (s.sizes[d] == 1) continue;
    bool merge = n > 0;
    for (int k = 0; merge && k < s.operands; ++k)
      merge = s.strides[d][k] == s.strides[n - 1][k] * static_cast<int64_t>(s.sizes[n - 1]);
    if (merge) {
      s.sizes[n - 1] *= s.sizes[d];
      continue;
    }
    if (n != d) {
      s.sizes[n] = s.sizes[d];
      for (int k = 0; k < s.operands; ++k) s.strides[n][k] = s.strides[d][k];
    }
    ++n;
  }
  s.ndim = n;
}

namespace {

// Whether operand k has an element of its own at every step of the innermost dimension.
bool by_element(const PointwiseShape& s, Layout layout, int k) {
  return !s.immediate[k] && (layout == Layout::strided || s.ndim == 0 || s.strides[0][k] != 0);
}

// An operand that is read by element and has elements no smaller than those of k; -1 where there is none.
int stand_in(const PointwiseShape& s, Layout layout, int k) {
  for (int j = 0; j < s.operands; ++j)
    if (by_element(s, layout, j) && s.element[j] >= s.element[k]) return j;
  return -1;
}

}  // namespace

bool take_outer(PointwiseShape& s, OuterDim& outer) {
  if (s.ndim <= kPointwiseRowDims + 1) return false;
  int least = 1;  // the first may be the inner dimension of rows
  for (int d = 2; d < s.ndim; ++d)
    if (s.sizes[d] < s.sizes[least]) least = d;
  outer.size = s.sizes[least];
  for (int k = 0; k < s.operands; ++k) outer.step[k] = s.strides[least][k] * s.element[k];
  for (int d = least + 1; d < s.ndim; ++d) {
    s.sizes[d - 1] = s.sizes[d];
    for (int k = 0; k < s.operands; ++k) s.strides[d - 1][k] = s.strides[d][k];
  }
  --s.ndim;
  return true;
}

Layout classify(const PointwiseShape& s) {
  if (s.ndim == 0) return Layout::rows;
  if (s.ndim > 1 && s.sizes[0] < kMinRow) return Layout::strided;
  for (int k = 0; k < s.operands; ++k) {
    if (s.strides[0][k] != 0 && s.strides[0][k] != 1) return Layout::strided;
    if (!by_element(s, Layout::rows, k) && stand_in(s, Layout::rows, k) < 0) return Layout::strided;
  }
  return Layout::rows;
}

bool in_order(const PointwiseShape& s) {
  if (s.ndim > 1 && s.sizes[0] < kMinRow) return false;
  for (int d = 1; d < s.ndim; ++d)
    for (int k = 0; k < s.operands; ++k)
      if (s.strides[d][k] != 0 && s.strides[d][k] < s.strides[0][k]) return false;
  return true;
}

void fill(const PointwiseShape& s, Layout layout, PointwiseArgs& args, int outputs) {
  // The inner dimension: the first, or where that is short and rows need not be dense the longest.
  int inner = 0;
  if (layout == Layout::strided && s.sizes[0] < kMinRow)
    for (int d = 1; d < s.ndim; ++d)
      if (s.sizes[d] > s.sizes[inner]) inner = d;
  uint8_t source[kPointwiseOperands];  // whose strides an operand is read with
  for (uint8_t k = 0; k < kPointwiseOperands; ++k) source[k] = args.stand_in[k] = k;
  for (int k = 0; k < s.operands; ++k) {
    const bool each = by_element(s, layout, k);
    if (k >= outputs) args.mode[k - outputs] = each ? kElement : s.immediate[k] ? kImmediate : kBroadcast;
    if (each) continue;
    const int j = stand_in(s, layout, k);
    if (j < 0) throw Error(ErrorKind::runtime, "pointwise: no operand can stand in for an immediate one");
    args.stand_in[k] = static_cast<uint8_t>(j);
    if (s.immediate[k]) args.ptr[k] = args.ptr[j], source[k] = static_cast<uint8_t>(j);
  }
  args.n = s.ndim > 0 ? s.sizes[inner] : 1;
  args.rows = 1;
  int ndim = 0;
  for (int d = 0; d < s.ndim; ++d) {
    if (d == inner) continue;
    args.rows *= s.sizes[d];
    args.dims[ndim] = make_divider(s.sizes[d]);
    for (int k = 0; k < s.operands; ++k)
      args.strides[ndim][k] = static_cast<uint32_t>(s.strides[d][source[k]] * s.element[source[k]]);
    ++ndim;
  }
  args.ndim = static_cast<uint32_t>(ndim);
  for (int d = ndim; d < kPointwiseRowDims; ++d) {
    args.dims[d] = make_divider(1);
    std::memset(args.strides[d], 0, sizeof args.strides[d]);
  }
  for (int k = 0; k < s.operands; ++k)
    args.step[k] = s.ndim > 0 ? static_cast<uint32_t>(s.strides[inner][source[k]]) : 0;
  args.columns = std::min(args.n, kTileElements);
  args.group = std::clamp<uint32_t>(kTileElements / args.columns, 1, 128);
}

namespace {

// Calls work(ptr) at every place in the dimensions that one launch has no room for.
template <class F>
void each_place(const OuterDim* outer, int outers, int operands, void* const* ptr, F&& work) {
  char* base[kPointwiseOperands];
  for (int k = 0; k < operands; ++k) base[k] = static_cast<char*>(ptr[k]);
  uint32_t at[kPointwiseDims] = {};
  for (int d = 0; d >= 0;) {
    work(base);
    for (d = outers - 1; d >= 0; --d) {
      const bool more = ++at[d] < outer[d].size;
      const int64_t moves = more ? 1 : 1 - int64_t{outer[d].size};
      for (int k = 0; k < operands; ++k) base[k] += moves * outer[d].step[k];
      if (more) break;
      at[d] = 0;
    }
  }
}

void launch_groups(runtime::Queue& queue, runtime::KernelSlot& kernel, size_t local, const PointwiseArgs& args) {
  runtime::launch2(queue, kernel, runtime::ceil_div(args.rows, args.group), runtime::ceil_div(args.n, args.columns), 1,
                   local, args);
}

void launch_rows(runtime::Queue& queue, const runtime::KernelTable& rows, DType type, const PointwiseShape& shape,
                 const runtime::Policy& policy, PointwiseArgs& args) {
  const bool fours = rows.fours && rows.fours->has(type) && by_fours(shape, args, policy);
  const bool bytes = std::all_of(shape.element, shape.element + shape.operands, [](uint8_t size) { return size == 1; });
  const RowsPlan plan = plan_pointwise_rows(args.rows, args.n, policy, fours ? 4 : 1, bytes);
  args.group = plan.group;
  args.columns = plan.columns;
  launch_groups(queue, fours ? (*rows.fours)[type] : rows[type], plan.local, args);
}

}  // namespace

PointwiseKernel plan_pointwise(const PointwiseShape& shape, Layout fits, bool steps, const runtime::Policy& policy) {
  if (fits == Layout::rows) return PointwiseKernel::rows;
  return steps && policy.single_items && in_order(shape) ? PointwiseKernel::steps : PointwiseKernel::none;
}

bool by_fours(const PointwiseShape& s, const PointwiseArgs& args, const runtime::Policy& policy) {
  if (policy.single_items || args.n % 4 != 0 || uint64_t{args.rows} * args.n < kLeastOfFours) return false;
  for (int k = 0; k < s.operands; ++k) {
    // A stand-in is read in place of an operand of at most its element's size.
    const uint64_t four = uint64_t{4} * s.element[args.stand_in[k]];
    if (reinterpret_cast<uintptr_t>(args.ptr[args.stand_in[k]]) % four != 0) return false;
    for (uint32_t d = 0; d < args.ndim; ++d)
      if (args.strides[d][args.stand_in[k]] % four != 0) return false;
  }
  return true;
}

RowsPlan plan_pointwise_rows(uint32_t rows, uint32_t n, const runtime::Policy& policy, uint32_t each, bool bytes) {
  if (bytes && policy.single_items) {
    RowsPlan plan = plan_pointwise_rows(rows, n, policy, each);
    plan.local = kByteVector;
    return plan;
  }
  // Many threads of a CPU device spend as long between two work-groups as on a tile.
  if (rows == 1 && policy.single_items && policy.units > kFewUnits) {
    const uint32_t share = runtime::ceil_div(n, kTilesPerUnit * policy.units * kTileStep) * kTileStep;
    return {tile_group(n, policy), 1, std::min(n, std::clamp(share, kTileElements, kMostTile))};
  }
  const uint32_t columns = std::min(n, kTileElements);
  const size_t local = tile_group(columns / each, policy), share = tile_share(local, kTileElements, policy);
  return {local, static_cast<uint32_t>(std::clamp<size_t>(share / columns, 1, 128)), columns};
}

bool pointwise(runtime::Queue& queue, const PointwiseProblem& p) {
  const PointwiseShape* shape = &p.shape;
  PointwiseShape rest;
  OuterDim outer[kPointwiseDims];
  int outers = 0;
  const auto take_outers = [&] {
    if (shape->ndim <= kPointwiseRowDims + 1 || outers > 0) return;
    rest = *shape;
    shape = &rest;
    while (take_outer(rest, outer[outers])) ++outers;
  };
  PointwiseArgs args;  // fill() sets what else is read
  static_cast<PointwiseValues&>(args) = p.values;
  const auto each_part = [&](Layout layout, auto&& work) {
    each_place(outer, outers, shape->operands, p.ptr, [&](char* const* ptr) {
      for (int k = 0; k < shape->operands; ++k) args.ptr[k] = ptr[k];
      fill(*shape, layout, args, p.outputs);
      work();
    });
  };
  const Layout fits = classify(p.shape);
  const bool dense = p.shape.ndim <= 1 && fits == Layout::rows;
  int64_t elements = 1;
  for (int d = 0; d < p.shape.ndim; ++d) elements *= p.shape.sizes[d];
  const int64_t cost = elements * p.cost * (dense ? 1 : host::kStridedShare);
  if (p.small.run && queue.small().takes(cost)) {
    take_outers();
    const Layout layout = dense ? Layout::rows : Layout::strided;
    const auto part = [&] { host::run(p.small.run, args, p.types, p.outputs, p.shape.operands, dense); };
    const auto here = [&] { each_part(layout, part); };
    const auto label = [&]() -> auto& { return p.rows[p.common]; };
    const auto later = [&] {
      host::Call call;
      std::copy_n(p.ptr, shape->operands, args.ptr);
      std::copy_n(p.types, shape->operands, call.types);
      fill(*shape, layout, args, p.outputs);
      call.args = args;
      call.kernel = p.small.run;
      call.outputs = p.outputs, call.operands = shape->operands, call.dense = dense;
      return call;
    };
    // Of several parts a worker would need more than one call.
    if (outers == 0 ? queue.small().run_taken(here, later, label)
                    : queue.small().run_taken(here, runtime::not_later, label))
      return true;
  }
  const runtime::Policy& policy = runtime::policy_of(queue);
  const runtime::KernelTable* steps = fits == Layout::rows ? nullptr : p.rows.steps;
  const PointwiseKernel kernel = plan_pointwise(p.shape, fits, steps && steps->has(p.common), policy);
  if (kernel == PointwiseKernel::none) return false;
  take_outers();
  if (kernel == PointwiseKernel::steps)
    each_part(Layout::strided, [&] { launch_groups(queue, (*steps)[p.common], 1, args); });
  else
    each_part(Layout::rows, [&] { launch_rows(queue, p.rows, p.common, *shape, policy, args); });
  return true;
}

void DenseCall::launch(runtime::Queue& queue) {
  PointwiseArgs& args = call_.args;
  PointwiseShape shape;
  shape.ndim = 1;
  shape.operands = call_.operands;
  shape.sizes[0] = args.n;
  for (int k = 0; k < shape.operands; ++k) {
    shape.immediate[k] = k > 0 && args.mode[k - 1] == kImmediate;
    shape.element[k] = static_cast<uint8_t>(dtype_size(call_.types[k]));
    shape.strides[0][k] = shape.immediate[k] ? 0 : 1;
  }
  collapse(shape);
  fill(shape, Layout::rows, args, 1);
  launch_rows(queue, rows_, common_, shape, runtime::policy_of(queue), args);
}

}  // namespace xpu_ops::ops
