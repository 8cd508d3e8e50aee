// Moves of elements by index, and masks: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/indexing.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/index/indexing_args.hpp"

namespace xpu_ops::ops {

using Dims3 = std::vector<WalkDim<3>>;

// Addresses so many elements, or indices, further on.
inline void* elements_on(const void* data, int64_t elements, size_t size) {
  return static_cast<char*>(const_cast<void*>(data)) + elements * static_cast<int64_t>(size);
}
inline const void* indices_on(const void* index, int64_t indices, bool is32) {
  return elements_on(index, indices, is32 ? sizeof(int32_t) : sizeof(int64_t));
}

// move(problem), or of more dims than a walk has of each part that the host steps through: see for_walks. begin(part,
// offsets) moves the operands of a part, and its index is moved here.
template <class Problem, class Begin, class Move>
void for_parts(const Problem& problem, Dims3 Problem::* dims, bool reorder, Begin&& begin, Move&& move) {
  if ((problem.*dims).size() <= kWalkDims) return move(problem);  // without a copy
  for_walks(problem.*dims, reorder, [&](const Dims3& some, const int64_t (&offsets)[3]) {
    Problem part = problem;
    part.*dims = some;
    part.index.ptr = indices_on(problem.index.ptr, offsets[2], problem.index.is32);
    begin(part, offsets);
    move(part);
  });
}

// plain[..] = data[.. + index], or with `write` the other way round, over dims with strides {plain, data, index},
// outermost first, of elements of 1 to 16 bytes.
struct IndexedProblem {
  bool write;
  void *plain, *data;
  size_t element;
  IndexSource index;
  Dims3 dims;
};

struct IndexedPlan {
  IndexedArgs args;
  size_t element = 0;  // bytes of what the kernel moves: narrow elements of a row several at once
  size_t groups0 = 0, groups1 = 0, local = 1;  // over rows, over the items of a row
};
// No size may be 0.
IndexedPlan plan_indexed(const IndexedProblem& problem, const runtime::Policy& policy);
void move_indexed(runtime::Queue& queue, const IndexedProblem& problem);

// Several index tensors as one of element offsets. `dims` have the strides {out, index tensors..}.
using LinearDims = std::vector<WalkDim<kMaxIndices + 1>>;
struct LinearizePlan {
  Walk<kMaxIndices + 1> walk;
  uint32_t rows_per_group = 1;
  size_t groups0 = 0, groups1 = 0, local = 1;
};
LinearizePlan plan_linearize(const LinearDims& dims, const runtime::Policy& policy);
void linearize(runtime::Queue& queue, const LinearizeProblem& problem, const LinearDims& dims);

// A contiguous mask and its set elements: counts and starts of chunks on the device. Who needs the count `now` waits
// for it, and has a small mask looked at on the calling thread.
class Compaction {
 public:
  CompactArgs args{};  // `out`, `src` and their sizes are the caller's

  // `element`: bytes of an element, whose bits in `keep` make it true. Throws Error{runtime} for 2^32 - 1 elements and
  // more. May raise deferred kernel errors.
  Compaction(runtime::Queue& queue, const void* mask, int64_t n, size_t element, const uint64_t (&keep)[2], bool now);
  Compaction(const Compaction&) = delete;
  // How many are set: waits.
  uint32_t total() const;
  // The same in device memory.
  const uint32_t* device_total() const { return args.counts + args.chunks; }
  // Coordinates of the set elements, `rows` of them at most, dimensions `stride` apart. sizes: innermost last. Throws
  // Error{runtime} for more than kCompactDims.
  void write_indices(const int64_t* sizes, int64_t dims, int64_t* out, int64_t rows, int64_t stride);
  // The set elements of args.src, of so many bytes, into args.out.
  void select(size_t element);
  // The elements of args.src in turn into the set elements of args.out. Reports what the source lacks, as args.out_size
  // says.
  void scatter(size_t element);

 private:
  bool here() const { return !counts_.has_value(); }
  void count_on_device();
  template <class F, class L>
  bool write_here(F&& write, const L& kernel);
  void run(runtime::KernelSlot& kernel) const;

  runtime::Queue& queue_;
  std::optional<runtime::Scratch> counts_;
  uint32_t counts_here_[2] = {0, 0};
  int64_t cost_;
  size_t element_;
};
// Compaction::scatter by a mask of n bytes, of few elements on the calling thread.
struct MaskedScatter {
  const void* mask;
  int64_t n;
  void* out;
  const void* src;
  int64_t size;  // elements of src
  size_t element;
};
void masked_scatter(runtime::Queue& queue, const MaskedScatter& problem);
// Rows past the total get a value: see FillTailArgs.
void fill_tail(runtime::Queue& queue, const FillTailArgs& args);

// Reports the message of the problem where the element, of so many bytes, is zero.
void assert_nonzero(runtime::Queue& queue, size_t element, const AssertProblem& problem);

}  // namespace xpu_ops::ops
