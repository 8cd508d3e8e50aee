// Problems of rounding with scales; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

enum class RoundFormat : uint32_t { e4m3fn, e5m2, int8 };

struct RoundProblem {
  const void* x = nullptr;       // [rows][columns] by x_row
  void* out = nullptr;           // likewise by out_row, bytes
  float* scales = nullptr;       // [rows][columns / group] by scale_row and scale_group
  const float* bound = nullptr;  // no scale stands for a larger value; or null
  int64_t x_row = 0, out_row = 0, scale_row = 0, scale_group = 0;
  uint32_t rows = 0, columns = 0, group = 1;
  float least_value = 0, least_scale = 0;
  uint32_t one = 0;        // the scale of zeros is 1
  uint32_t exponents = 0;  // scales are powers of two
  uint32_t inverse = 0;    // values times 1 / scale, or 1 where it is not above zero
};

struct ScaleProblem {
  const void* x = nullptr;  // [rows][columns] by x_row
  void* out = nullptr;      // likewise by out_row, bytes
  const float* scales = nullptr;
  int64_t x_row = 0, out_row = 0, scale_row = 0, scale_group = 0;
  uint32_t rows = 0, columns = 0, row_group = 1, group = 1;
  uint32_t safe = 0;  // times 1 where a scale is not above zero
};

}  // namespace xpu_ops::ops
