// Products of sparse matrices: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/sparse.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {

struct SpgemmArgs;

namespace ops {

// Rows that a work-group takes in turn: enough groups for the device to share them out, long ones on a CPU.
uint32_t plan_group_rows(int64_t rows, const runtime::Policy& policy);

// narrow: an item has rows, whose columns are too few for the lanes of a work-group.
struct SpmmPlan {
  bool narrow = false;
  uint32_t rows_per_group = 1;
  size_t groups0 = 0, groups1 = 1, local = 1;
};
SpmmPlan plan_spmm(int64_t rows, int64_t columns, const runtime::Policy& policy);
// Whether `self` may be the result: an element is only read by the item that writes it, and once.
bool spmm_in_place(int64_t columns);
// Throws Error{not_implemented} for a type without kernels.
void check_spmm(DType type);
void spmm(runtime::Queue& queue, DType type, const SpmmProblem& problem);
// The same with another reduction; `pick`: amax or amin.
void spmm_reduce(runtime::Queue& queue, DType type, bool pick, const SpmmReduceProblem& problem);

// Whether sparse times sparse goes row by row into dense rows, one per item: for a CPU, whose items are few.
bool plan_spgemm_serves(DType type, int64_t rows, int64_t inner, int64_t columns, const runtime::Policy& policy);
struct SpgemmPlan {
  uint32_t items = 1, chunk = 1;  // rows of an item
  bool few = false;               // columns, each with a word of its own to count by
};
SpgemmPlan plan_spgemm(uint32_t rows, uint32_t columns, const runtime::Policy& policy);
// count() fills counts, fill() the result, whose rows begin where result.crow says.
class Spgemm {
 public:
  Spgemm(runtime::Queue& queue, const SpgemmProblem& problem);
  void count(int64_t* counts);  // [rows]
  void fill(DType type, int64_t* counts, const SpgemmResult& result);

 private:
  SpgemmArgs args(int64_t* counts, const SpgemmResult& result) const;

  runtime::Queue& queue_;
  SpgemmProblem problem_;
  SpgemmPlan plan_;
  runtime::Scratch seen_, sums_;
};

// rows: pointers to the rows instead of the row of each element, which serves float matrices on a CPU.
bool plan_sampled_rows_serve(DType type, int64_t inner, const runtime::Policy& policy);
uint32_t plan_sampled_chunk(uint32_t nnz, const runtime::Policy& policy);
void sampled_product(runtime::Queue& queue, DType type, bool rows, const SampledProblem& problem);

void row_places(runtime::Queue& queue, int64_t rows, const RowPlaceProblem& problem);

}  // namespace ops
}  // namespace xpu_ops
