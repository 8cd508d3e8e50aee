// Copy, cast and fill over any strides: layout planning (pure host code) and the launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/elementwise/copy_args.hpp"

namespace xpu_ops::ops {

constexpr int kMaxDims = 64;

// Sizes and strides in elements; any order, sizes of 1 and 0 allowed, source strides of 0 and below allowed.
struct CopyShape {
  int ndim = 0;
  int64_t size[kMaxDims], dst[kMaxDims], src[kMaxDims];
};

// transpose to steps: of any device. blocks, joins, parts, picks and spans: in the registers of a CPU device,
// transposes, channels of 2 to 4 elements put side by side or taken apart, one of them taken out, and dense or repeated
// rows.
enum class CopyLayout { contig, rows, transpose, tiles, lines1, lines2, blocks, joins, parts, picks, spans, steps };

struct CopyLaunch {
  CopyLayout layout;
  size_t element;  // bytes of one element as the kernel sees it: narrow elements are moved several at once
  size_t groups0, groups1, local;  // work-groups, and the items of one; contig has groups0 alone
  CopyArgs args;
};

// Orders, merges and splits a copy into launches whose offsets fit 31 bits.
void plan_copy(const runtime::Policy& policy, void* dst, const void* src, size_t element, CopyShape shape,
               const std::function<void(const CopyLaunch&)>& emit);

// Copies elements of `element` bytes (1, 2, 4, 8 or 16).
void copy(runtime::Queue& queue, void* dst, const void* src, size_t element, const CopyShape& shape);

// n elements side by side, converted as Tensor.to does. `flags` are CopyFlags, applied to the source value.
void cast(runtime::Queue& queue, void* dst, DType to, const void* src, DType from, int64_t n, uint32_t flags);

inline void cast_to_float(runtime::Queue& queue, void* to, const void* from, DType type, int64_t n) {
  cast(queue, to, DType::f32, from, type, n, 0);
}

// Sets every element of dst (shape.size, shape.dst) to the `element` bytes at `value`.
void fill(runtime::Queue& queue, void* dst, size_t element, const void* value, CopyShape shape);

}  // namespace xpu_ops::ops
