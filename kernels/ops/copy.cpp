#include "kernels/ops/copy.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "gen/kernels/copy_kernels.hpp"
#include "kernels/host/bulk.hpp"
#include "kernels/host/cast.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {
namespace {

constexpr int64_t kCopyLimit = int64_t{1} << 31;
constexpr int64_t kMinCopyRow = 16;
constexpr int64_t kShortSpan = 4;   // elements of a row that are moved together, dense on both sides
constexpr int64_t kSmallBlock = 4;  // sides of the smallest block
constexpr size_t kTransposeLanes = 64;

// Drops size-1 dims, puts the dim with the smallest dst stride first and merges neighbours. False if there is nothing
// to copy.
bool collapse(CopyShape& s, bool merge_src) {
  int order[kMaxDims], n = 0;
  for (int d = 0; d < s.ndim; ++d) {
    if (s.size[d] == 0) return false;
    if (s.size[d] != 1) order[n++] = d;
  }
  std::stable_sort(order, order + n, [&](int a, int b) {
    if (s.dst[a] != s.dst[b]) return s.dst[a] < s.dst[b];
    if (merge_src && s.src[a] != s.src[b]) return s.src[a] < s.src[b];
    return s.size[a] < s.size[b];
  });
  CopyShape out;
  for (int i = 0; i < n; ++i) {
    int d = order[i], k = out.ndim - 1;
    if (k >= 0 && s.dst[d] == out.dst[k] * out.size[k] && (!merge_src || s.src[d] == out.src[k] * out.size[k])) {
      out.size[k] *= s.size[d];
      continue;
    }
    ++k;
    out.size[k] = s.size[d], out.dst[k] = s.dst[d], out.src[k] = merge_src ? s.src[d] : 0;
    out.ndim = k + 1;
  }
  s = out;
  return true;
}

int64_t numel(const CopyShape& s) { return std::accumulate(s.size, s.size + s.ndim, int64_t{1}, std::multiplies<>()); }

// The dimension to split where a launch would not fit 31 bits, -1 where it fits.
int dim_to_split(const CopyShape& s) {
  int64_t dst = 0, src = 0, widest = -1;
  int dim = -1;
  for (int d = 0; d < s.ndim; ++d) {
    int64_t a = (s.size[d] - 1) * s.dst[d], b = (s.size[d] - 1) * s.src[d],
            reach = std::max({std::abs(a), std::abs(b), s.size[d]});
    dst += std::abs(a), src += std::abs(b);
    if (reach > widest) widest = reach, dim = d;
  }
  return std::max({dst, src, numel(s)}) >= kCopyLimit ? dim : -1;
}

// Calls f(shape, dst, src) for parts of at most kCopyDims dims and 31-bit offsets.
template <class F>
void split(const CopyShape& s, char* dst, const char* src, size_t element, const F& f) {
  if (int d = dim_to_split(s); d >= 0) {
    CopyShape half = s;
    half.size[d] = s.size[d] / 2;
    split(half, dst, src, element, f);
    dst += half.size[d] * s.dst[d] * static_cast<int64_t>(element);
    src += half.size[d] * s.src[d] * static_cast<int64_t>(element);
    half.size[d] = s.size[d] - half.size[d];
    split(half, dst, src, element, f);
  } else if (s.ndim > kCopyDims) {
    CopyShape inner = s;
    int last = --inner.ndim;
    for (int64_t i = 0; i < s.size[last]; ++i)
      split(inner, dst + i * s.dst[last] * static_cast<int64_t>(element),
            src + i * s.src[last] * static_cast<int64_t>(element), element, f);
  } else {
    f(s, dst, src);
  }
}

// Sees runs of narrow elements as ones of `most` bytes, or of fewer, where both sides are aligned for it. Returns the
// new element size.
size_t widen(CopyShape& s, const void* dst, const void* src, size_t element, size_t most) {
  if (s.ndim == 0 || s.dst[0] != 1 || s.src[0] != 1) return element;
  const uintptr_t bits = reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src);
  for (size_t wide = most; wide > element && wide >= 4; wide /= 2) {
    const int64_t k = static_cast<int64_t>(wide / element);
    bool fits = bits % wide == 0 && s.size[0] % k == 0 && (wide == 4 || s.ndim == 1 || s.size[0] >= k * kMinCopyRow);
    for (int d = 1; d < s.ndim; ++d) fits = fits && s.dst[d] % k == 0 && s.src[d] % k == 0;
    if (!fits) continue;
    s.size[0] /= k;
    for (int d = 1; d < s.ndim; ++d) s.dst[d] /= k, s.src[d] /= k;
    return wide;
  }
  return element;
}

// Bytes that an item moves at a time where neighbours are moved. A CPU device makes vectors of its items.
size_t most_bytes(const runtime::Policy& policy) { return policy.single_items ? 4 : 16; }

// Elements of the first dimension, or of the first two where that one is short, which are side by side in dst.
int64_t dense_line(const CopyShape& s) {
  if (s.size[0] >= 4 * kMinCopyRow || s.ndim < 2 || s.dst[1] != s.size[0]) return s.size[0];
  return s.size[0] * s.size[1];
}

void swap_dims(CopyShape& s, int a, int b) {
  std::swap(s.size[a], s.size[b]);
  std::swap(s.dst[a], s.dst[b]);
  std::swap(s.src[a], s.src[b]);
}

// Two to four elements side by side on one side, a dense dimension of which they are the steps on the other.
struct Channels { int dim = -1, columns = 0; };
Channels channels_of(const CopyShape& s) {
  const auto few = [&](int d) { return s.size[d] >= 2 && s.size[d] <= 4; };
  for (int c = 0; c < s.ndim; ++c) {
    if (!few(c)) continue;
    for (int d = 0; d < s.ndim; ++d) {
      if (d == c || s.size[d] < kMinCopyRow) continue;
      const bool join = s.dst[c] == 1 && s.dst[d] == s.size[c] && s.src[d] == 1;
      const bool part = s.src[c] == 1 && s.src[d] == s.size[c] && s.dst[d] == 1;
      if (join || part) return {c, d};
    }
  }
  return {};
}

// The rows of `row` elements that a work-group of `local` items takes.
uint32_t rows_of_group(int64_t row, size_t local, const runtime::Policy& policy) {
  const auto share = static_cast<int64_t>(tile_share(local, kRowColumns, policy));
  return static_cast<uint32_t>(std::clamp<int64_t>(share / row, 1, 128));
}

// A launch over rows of `row` elements; the other dimensions count them.
void walk(const CopyShape& s, CopyLaunch& l, CopyLayout layout, int64_t row, const runtime::Policy& policy) {
  l.layout = layout;
  l.local = tile_group(static_cast<size_t>(row), policy);
  l.args.n = static_cast<uint32_t>(numel(s) / row);
  l.args.group = rows_of_group(row, l.local, policy);
  if (!policy.single_items)
    l.args.group = std::max(l.args.group, static_cast<uint32_t>(runtime::ceil_div(l.args.n, kMostRowGroups)));
  l.groups0 = runtime::ceil_div(l.args.n, l.args.group);
  l.groups1 = runtime::ceil_div(row, kRowColumns);
}

// A launch over tiles of the first two dimensions.
void tile(const CopyShape& s, CopyLaunch& l, CopyLayout layout, size_t side0, size_t side1) {
  l.layout = layout;
  l.args.n = static_cast<uint32_t>(numel(s));
  l.groups0 = static_cast<size_t>(numel(s) / s.size[0] / s.size[1]) * runtime::ceil_div(s.size[1], side1);
  l.groups1 = runtime::ceil_div(s.size[0], side0);
}

// A dimension other than the first whose elements are side by side in src; 0 where there is none.
int dense_in_src(const CopyShape& s) {
  int dense = 0;
  for (int d = 1; d < s.ndim; ++d)
    if (std::abs(s.src[d]) == 1 && s.size[d] >= kSmallBlock) dense = d;
  return dense;
}

// Layouts that move whole vectors, for a device of single items. False where the shape is none of them.
bool plan_registers(CopyShape& s, CopyLaunch& l, int dense, const runtime::Policy& policy) {
  const int64_t step = s.dst[0] == 1 ? s.src[0] : -1;
  if ((step == 0 || step == 1) && s.size[0] >= (step == 1 ? kShortSpan : kMinCopyRow)) {
    walk(s, l, CopyLayout::spans, s.size[0], policy);
  } else if (const Channels c = channels_of(s); c.dim >= 0) {
    const CopyLayout layout = s.dst[c.dim] == 1 ? CopyLayout::joins : CopyLayout::parts;
    swap_dims(s, 0, c.columns);
    swap_dims(s, 1, c.dim == 0 ? c.columns : c.dim);
    walk(s, l, layout, s.size[0] * s.size[1], policy);
    l.groups1 = runtime::ceil_div(s.size[0], kRowColumns);
  } else if (step != -1 && dense > 0 && s.src[dense] == 1 && s.size[0] >= kSmallBlock) {
    swap_dims(s, 1, dense);
    tile(s, l, CopyLayout::blocks, kCopyTile, kCopyTile);
  } else if (step >= 2 && step <= 4 && s.size[0] >= kMinCopyRow) {
    walk(s, l, CopyLayout::picks, s.size[0], policy);
  } else {
    return false;
  }
  l.local = 1;
  return true;
}

// Layouts of any device and element.
void plan_loops(CopyShape& s, CopyLaunch& l, int dense, const runtime::Policy& policy) {
  const bool unit_dst = s.dst[0] == 1;
  if (unit_dst && s.src[0] == 1 && s.size[0] >= kMinCopyRow) {
    walk(s, l, CopyLayout::rows, s.size[0], policy);
  } else if (unit_dst && dense > 0 && s.size[0] >= kMinCopyRow) {
    swap_dims(s, 1, dense);
    if (const size_t side = turned_side(l.element); policy.tile_items >= side && policy.tile_items % side == 0) {
      tile(s, l, CopyLayout::tiles, side, side);
      l.local = policy.tile_items;
    } else {
      tile(s, l, CopyLayout::transpose, kTransposeLanes, kTransposeColumn);
      l.local = kTransposeLanes;
    }
  } else if (dense > 0 && s.size[dense] >= 4 * kMinCopyRow && s.size[0] < kMinCopyRow) {
    // Few elements side by side in dst, many in src, as in the taps of channels-last weights.
    swap_dims(s, 0, dense);
    walk(s, l, CopyLayout::steps, s.size[0], policy);
  } else if (const int64_t line = unit_dst ? dense_line(s) : 0; line >= kMinCopyRow) {
    walk(s, l, line == s.size[0] ? CopyLayout::lines1 : CopyLayout::lines2, line, policy);
  } else {
    if (s.size[0] < kMinCopyRow) swap_dims(s, 0, static_cast<int>(std::max_element(s.size, s.size + s.ndim) - s.size));
    walk(s, l, CopyLayout::steps, s.size[0], policy);
  }
  // One item, where a CPU device is faster with single loads and stores than with gathers and scatters.
  const bool apart = l.layout == CopyLayout::lines1 && l.element >= 4 && std::abs(s.src[0]) > 2;
  if (policy.single_items && (apart || l.layout == CopyLayout::steps)) l.local = 1;
}

runtime::KernelSlot& cast_slot(DType to, DType from) {
  static std::atomic<runtime::KernelSlot*> slots[kDTypeSlots][kDTypeSlots];
  auto& entry = slots[static_cast<int>(to)][static_cast<int>(from)];
  runtime::KernelSlot* slot = entry.load(std::memory_order_acquire);
  if (!slot) {
    slot = &kernels::cast_contig(to, from);
    entry.store(slot, std::memory_order_release);
  }
  return *slot;
}

using Slots = decltype(kernels::copy_blocks_b4);
// Of 2, 3 and 4 channels.
Slots* const kJoins[] = {&kernels::copy_join_c2, &kernels::copy_join_c3, &kernels::copy_join_c4};
Slots* const kParts[] = {&kernels::copy_part_c2, &kernels::copy_part_c3, &kernels::copy_part_c4};
Slots* const kPicks[] = {&kernels::copy_picks_c2, &kernels::copy_picks_c3, &kernels::copy_picks_c4};

// The largest block that fits; rows of 16 elements of 8 bytes do not fit the registers.
Slots& block_slots(const CopyLaunch& l) {
  const uint32_t side = std::min(l.args.size[0].d, l.args.size[1].d);
  return side >= 16 && l.element < 8 ? kernels::copy_blocks_b16
         : side >= 8                 ? kernels::copy_blocks_b8
                                     : kernels::copy_blocks_b4;
}

// ---- small ones, on the calling thread

constexpr int64_t kStridedCost = 6, kTurnedCost = 2, kCastCost = 2;  // turned: backwards, or one element for all
constexpr int64_t kShortHere = 8;
constexpr int64_t kMostHere = int64_t{1} << 20;  // shapes that are not even looked at

// Calls f(dst, src) for the first element of every row along dimension 0 of a collapsed shape, offsets in elements.
template <class F>
void for_rows(const CopyShape& s, int d, int64_t dst, int64_t src, const F& f) {
  if (d <= 0) return f(dst, src);
  for (int64_t i = 0; i < s.size[d]; ++i) for_rows(s, d - 1, dst + i * s.dst[d], src + i * s.src[d], f);
}

void copy_here(void* to, const void* from, size_t element, CopyShape s) {
  // A call for each short row would take longer than its elements.
  if (s.ndim > 1 && s.size[0] < kShortHere)
    swap_dims(s, 0, static_cast<int>(std::max_element(s.size, s.size + s.ndim) - s.size));
  const int64_t n = s.ndim > 0 ? s.size[0] : 1;
  const host::Steps steps = s.ndim > 0 ? host::Steps{s.dst[0], s.src[0]} : host::Steps{1, 1};
  const auto width = static_cast<int64_t>(element);
  for_rows(s, s.ndim - 1, 0, 0, [&](int64_t dst, int64_t src) {
    host::move(element, static_cast<char*>(to) + dst * width, static_cast<const char*>(from) + src * width, steps,
               static_cast<size_t>(n));
  });
}

// One element for all.
void fill_here(void* to, size_t element, const void* value, CopyShape s) {
  std::fill_n(s.src, s.ndim, 0);
  copy_here(to, value, element, s);
}

// Cost of moving a shape on the calling thread, in units of SmallWork::run: four bytes side by side.
int64_t cost_here(const CopyShape& s, size_t element, bool reads) {
  const int64_t n = numel(s), words = (n * static_cast<int64_t>(element) + 3) / 4;
  const bool dense = s.ndim == 0 || (s.dst[0] == 1 && (!reads || s.src[0] == 1));
  const bool vectors = !dense && s.dst[0] == 1 && (s.src[0] == 0 || s.src[0] == -1);
  return dense ? words : std::max(words, n * (vectors ? kTurnedCost : kStridedCost));
}

}  // namespace

void plan_copy(const runtime::Policy& policy, void* dst, const void* src, size_t element, CopyShape shape,
               const std::function<void(const CopyLaunch&)>& emit) {
  if (!collapse(shape, true)) return;
  split(shape, static_cast<char*>(dst), static_cast<const char*>(src), element,
        [&](CopyShape s, char* d, const char* r) {
          CopyLaunch launch{};
          CopyArgs& a = launch.args;
          launch.element = widen(s, d, r, element, most_bytes(policy));
          if (s.ndim > 0 && s.size[0] == 1) collapse(s, true);
          a.group = 1;
          if (s.ndim == 0 || (s.ndim == 1 && s.dst[0] == 1 && s.src[0] == 1)) {
            launch.layout = CopyLayout::contig;
            a.n = static_cast<uint32_t>(numel(s));
            launch.groups0 = runtime::ceil_div(a.n, kTileElements);
            launch.local = tile_group(std::min(a.n, kTileElements), policy);
          } else {
            const int dense = dense_in_src(s);
            if (!(policy.single_items && launch.element <= 8 && plan_registers(s, launch, dense, policy)))
              plan_loops(s, launch, dense, policy);
          }
          a.dst = d, a.src = r;
          for (int i = 0; i < kCopyDims; ++i) {
            bool used = i < s.ndim;
            a.size[i] = make_divider(used ? static_cast<uint32_t>(s.size[i]) : 1);
            a.dst_stride[i] = used ? static_cast<int32_t>(s.dst[i]) : 0;
            a.src_stride[i] = used ? static_cast<int32_t>(s.src[i]) : 0;
          }
          emit(launch);
        });
}

void copy(runtime::Queue& queue, void* dst, const void* src, size_t element, const CopyShape& shape) {
  if (CopyShape s = shape; numel(shape) <= kMostHere) {
    if (!collapse(s, true)) return;
    const auto here = [&] { copy_here(dst, src, element, s); };
    const auto later = [&] { return [=] { copy_here(dst, src, element, s); }; };
    if (queue.small().run(cost_here(s, element, true), here, later,
                          [&]() -> auto& { return kernels::copy_rows[raw_dtype(element)]; }))
      return;
  }
  const auto kernel = [](const CopyLaunch& l) -> Slots& {
    switch (l.layout) {
      case CopyLayout::contig: return kernels::copy_contig;
      case CopyLayout::rows: return kernels::copy_rows;
      case CopyLayout::lines1: return kernels::copy_lines_d1;
      case CopyLayout::lines2: return kernels::copy_lines_d2;
      case CopyLayout::transpose: return kernels::copy_transpose;
      case CopyLayout::tiles: return kernels::copy_tiles;
      case CopyLayout::blocks: return block_slots(l);
      case CopyLayout::joins: return *kJoins[l.args.size[1].d - 2];
      case CopyLayout::parts: return *kParts[l.args.size[1].d - 2];
      case CopyLayout::picks: return *kPicks[l.args.src_stride[0] - 2];
      case CopyLayout::spans: return kernels::copy_spans;
      case CopyLayout::steps: return kernels::copy_steps;
    }
    __builtin_unreachable();
  };
  plan_copy(runtime::policy_of(queue), dst, src, element, shape, [&](const CopyLaunch& l) {
    runtime::KernelSlot& slot = kernel(l)[raw_dtype(l.element)];
    if (l.layout == CopyLayout::contig) return runtime::launch(queue, slot, l.groups0, l.local, l.args);
    runtime::launch2(queue, slot, l.groups0, l.groups1, 1, l.local, l.args);
  });
}

void cast(runtime::Queue& queue, void* dst, DType to, const void* src, DType from, int64_t n, uint32_t flags) {
  if (queue.small().takes(n * kCastCost)) {
    if (host::Cast here = host::cast(to, from)) {
      CopyArgs a{};
      a.dst = dst, a.src = src, a.n = static_cast<uint32_t>(n), a.flags = flags;
      if (queue.small().run_taken([here, a] { here(a); }, [&]() -> auto& { return cast_slot(to, from); })) return;
    }
  }
  const runtime::Policy& policy = runtime::policy_of(queue);
  const size_t four = 4 * std::max(dtype_size(to), dtype_size(from));
  const bool fours = !policy.single_items && kernels::cast_fours.has(to, from) && n % 4 == 0 &&
                     (reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src)) % four == 0;
  runtime::KernelSlot& slot = fours ? kernels::cast_fours(to, from) : cast_slot(to, from);
  constexpr int64_t step = int64_t{1} << 30;
  for (int64_t done = 0; done < n; done += step) {
    CopyArgs a{};
    a.dst = static_cast<char*>(dst) + done * static_cast<int64_t>(dtype_size(to));
    a.src = static_cast<const char*>(src) + done * static_cast<int64_t>(dtype_size(from));
    a.n = static_cast<uint32_t>(std::min(step, n - done));
    a.flags = flags;
    runtime::launch(queue, slot, runtime::ceil_div(a.n, kTileElements),
                    tile_group(std::min(a.n, kTileElements), policy), a);
  }
}

void fill(runtime::Queue& queue, void* dst, size_t element, const void* value, CopyShape shape) {
  if (!collapse(shape, false)) return;
  host::Bytes16 bytes{};
  std::memcpy(&bytes, value, element);
  if (queue.small().run(
          cost_here(shape, element, false), [=] { fill_here(dst, element, &bytes, shape); },
          [&]() -> auto& { return kernels::fill_contig[raw_dtype(element)]; }))
    return;
  const runtime::Policy& policy = runtime::policy_of(queue);
  split(shape, static_cast<char*>(dst), nullptr, element, [&](CopyShape s, char* d, const char*) {
    FillArgs a{};
    a.dst = d;
    std::memcpy(a.value, value, element);
    const int64_t n = numel(s);
    if (s.ndim == 0 || (s.ndim == 1 && s.dst[0] == 1)) {
      size_t width = element, items = static_cast<size_t>(n);
      // Narrow values are repeated: fewer items do the same stores.
      char* bytes = reinterpret_cast<char*>(a.value);
      for (size_t most = most_bytes(policy); width < most; width *= 2) {
        if (reinterpret_cast<uintptr_t>(d) % (2 * width) != 0 || items % 2 != 0) break;
        std::memcpy(bytes + width, bytes, width);
        items /= 2;
      }
      a.n = static_cast<uint32_t>(items);
      return runtime::launch(queue, kernels::fill_contig[raw_dtype(width)], runtime::ceil_div(items, kTileElements),
                             tile_group(std::min<size_t>(items, kTileElements), policy), a);
    }
    if (s.size[0] < kMinCopyRow) swap_dims(s, 0, static_cast<int>(std::max_element(s.size, s.size + s.ndim) - s.size));
    a.n = static_cast<uint32_t>(n / s.size[0]);
    const bool single = policy.single_items && s.dst[0] != 1;
    const size_t local = tile_group(static_cast<size_t>(s.size[0]), policy);
    a.group = rows_of_group(s.size[0], local, policy);
    for (int i = 0; i < kCopyDims; ++i) {
      a.size[i] = make_divider(i < s.ndim ? static_cast<uint32_t>(s.size[i]) : 1);
      a.dst_stride[i] = i < s.ndim ? static_cast<uint32_t>(s.dst[i]) : 0;
    }
    runtime::launch2(queue, kernels::fill_steps[raw_dtype(element)], runtime::ceil_div(a.n, a.group),
                     runtime::ceil_div(s.size[0], kRowColumns), 1, single ? 1 : local, a);
  });
}

}  // namespace xpu_ops::ops
