// Tables of resampling along one axis: which inputs make an output, with which weights. Pure host code.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace xpu_ops::plan {

enum class Filter : uint8_t { nearest, nearest_exact, linear, cubic, linear_aa, cubic_aa, lanczos_aa };

struct AxisTable {
  int32_t in = 0, out = 0, taps = 0;  // taps: most that any output has
  std::vector<int32_t> index, count;  // index [taps, out], count [out]
  std::vector<double> weight;         // [taps, out]; unused taps repeat the first index with weight 0
  bool identity() const;              // every output is the input of the same number
};

// `scale`: as the caller gave it (out / in) or none. `wide`: positions in double, else in float as upstream computes
// them for every type but double.
AxisTable axis_table(Filter filter, int64_t in, int64_t out, bool align_corners, std::optional<double> scale,
                     bool wide);
// Contributions of the outputs to each input: the table of the gradient.
AxisTable transpose(const AxisTable& table);

}  // namespace xpu_ops::plan
