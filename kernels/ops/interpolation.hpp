// Resampling and grid sampling: tables of which inputs make an output, with which weights, plans (pure host code), and
// launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/interpolation.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

enum class Filter : uint8_t { nearest, nearest_exact, linear, cubic, linear_aa, cubic_aa, lanczos_aa };

struct AxisTable {
  int32_t in = 0, out = 0, taps = 0;  // taps: most that any output has
  std::vector<int32_t> index, count;  // index [taps, out], count [out]
  std::vector<double> weight;         // [taps, out]; unused taps repeat the first index with weight 0
  bool identity() const;              // every output is the input of the same number
};

// Of positions and weights: float as upstream computes them for every float but double, double, or computed in double
// and rounded to what upstream's integers for bytes hold.
enum class Precision : uint8_t { single, twice, fixed };

// `scale`: as the caller gave it (out / in) or none.
AxisTable axis_table(Filter filter, int64_t in, int64_t out, bool align_corners, std::optional<double> scale,
                     Precision precision);
// Contributions of the outputs to each input: the table of the gradient.
AxisTable transpose(const AxisTable& table);

// A table in device memory.
struct DeviceTable {
  int32_t in = 0, out = 0, taps = 0;
  bool identity = false, full = false;  // full: every output has all taps
  const int32_t* index = nullptr;
  const int32_t* count = nullptr;
  const void* weight = nullptr;
  void* memory = nullptr;
  int device = 0;
  DeviceTable() = default;
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;
  ~DeviceTable();
};
using Table = std::shared_ptr<const DeviceTable>;  // a caller's tables outlive their eviction by another lookup

struct Axis {
  int64_t in, out;  // of the forward
  std::optional<double> scale;
};
// Kept for the next call of the same sizes. Throws Error{out_of_memory}.
Table device_table(runtime::Queue& queue, Filter filter, const Axis& axis, bool align_corners, Precision precision,
                   bool transposed);

// rows: inner elements side by side. lanes: an item per output of a row. walk: an item per row.
struct ResamplePlan {
  enum class Kernel { rows, lanes, walk } kernel = Kernel::lanes;
  uint32_t rows_per_group = 1;
  size_t groups0 = 0, groups1 = 1, local = 1;
};
ResamplePlan plan_resample(int64_t rows, int64_t out, int64_t inner, const runtime::Policy& policy);
// Along one axis of contiguous arrays [rows, length, inner]. Throws Error{runtime} where 32 bits do not number them.
void resample_axis(runtime::Queue& queue, const DeviceTable& table, const void* in, DType in_type, void* out,
                   DType out_type, int64_t rows, int64_t inner);

// Whether both axes of planes are resampled in one pass: of one tap, or of two where there are no more results than
// inputs, because those take four lookups instead of two.
bool plan_resample_plane_serves(const DeviceTable& y, const DeviceTable& x, DType type, int64_t results,
                                int64_t inputs);
struct ResamplePlanePlan {
  uint32_t lines_per_group = 1;
  size_t groups = 0, local = 1;
};
ResamplePlanePlan plan_resample_plane(int64_t lines, int64_t columns, bool one_tap, const runtime::Policy& policy);
void resample_plane(runtime::Queue& queue, const DeviceTable& y, const DeviceTable& x, DType type, const void* in,
                    void* out, int64_t planes);

struct NearestPlan {
  uint32_t rows_per_group = 1;
  bool ahead = false;  // an item loads elements of several rows before it stores one
  size_t groups = 0, local = 1;
};
NearestPlan plan_nearest(const NearestProblem& problem, const runtime::Policy& policy);
void nearest(runtime::Queue& queue, size_t element, const NearestProblem& problem);

// Pixels that one output position reads.
int64_t grid_taps(bool volume, GridMode mode);
struct GridProblem : GridPoints {
  DType type;
  bool volume;
  int64_t channels, taps;
};
// block: positions by one item, which reads the planes of many channels one by one.
struct GridPlan {
  bool block = false;
  size_t groups = 0, local = 1;  // of a sample
};
GridPlan plan_grid_sample(const GridProblem& problem, const runtime::Policy& policy);
void grid_sample(runtime::Queue& queue, const GridProblem& problem);
// The gradient of the grid and, where the problem has room for them, pixels and weights for that of the input.
void grid_sample_grid_grad(runtime::Queue& queue, const GridProblem& problem);
// Whether the gradient of the input is summed by planes, by one item each, and not by channels, which lie innermost
// then: where a vector of channels would not be full, or needs copies that cost more than it saves.
bool plan_grid_planes(int64_t channels, int64_t pixels, const runtime::Policy& policy);
void grid_sample_input_grad(runtime::Queue& queue, const GridProblem& problem, bool planes, const GridSumProblem& sum);

}  // namespace xpu_ops::ops
