// Problems of layers of experts; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// Whole numbers of 4 or 8 bytes, side by side.
struct Numbers {
  void* data = nullptr;
  uint32_t bytes = 4;
};

enum class Scoring : uint32_t { none, softmax, sigmoid, softplus_sqrt };

struct ChooseProblem {
  const void* scores = nullptr;      // [tokens][experts] by score_row
  const float* bias = nullptr;       // [experts], or null: counts for the choice alone
  const uint8_t* padding = nullptr;  // [tokens], or null: not 0 for a token that takes none
  float* weights = nullptr;          // [tokens][count]
  Numbers ids, sources;              // the same; sources may be null
  int64_t score_row = 0;             // elements
  uint32_t tokens = 0, experts = 0, count = 0;
  uint32_t groups = 1, kept = 1;  // of the experts, in equal parts
  Scoring scoring = Scoring::none;
  uint32_t renormalize = 0, grouped = 0;  // grouped: bias and sums are rounded to the type of the scores
  float factor = 1;
};

struct AlignProblem {
  Numbers ids;                    // [choices]
  const int32_t* map = nullptr;   // [mapped], or null
  int32_t* sorted = nullptr;      // [places]
  int32_t* expert_ids = nullptr;  // [blocks]
  int32_t* total = nullptr;
  uint32_t choices = 0, mapped = 0, experts = 0, block = 1, places = 0, blocks = 0;
  int32_t empty = 0;  // the expert of blocks behind the last one
};

// A row is moved in units of 1, 2, 4 or 8 bytes.
struct SpreadPart {
  const void* src = nullptr;  // [tokens] by src_row
  void* dst = nullptr;        // [choices] by dst_row
  int64_t src_row = 0, dst_row = 0;
  uint32_t size = 0, bytes = 1;  // units of a row; strides are in units
};

struct SpreadProblem {
  Numbers ids;                   // [tokens][count]
  const int32_t* map = nullptr;  // [mapped], or null
  int32_t* counts = nullptr;     // [experts]
  int32_t* places = nullptr;     // [tokens][count]
  SpreadPart part[2];            // rows, scales
  uint32_t tokens = 0, count = 0, mapped = 0, experts = 0;
};

struct SumProblem {
  const void* rows = nullptr;       // by src_row
  void* out = nullptr;              // [tokens][columns] by dst_row
  const int32_t* places = nullptr;  // [tokens][count], or null: rows are in order
  const float* weights = nullptr;   // [tokens][count], or null: 1
  Numbers ids;                      // [tokens][count], or null
  const int32_t* map = nullptr;     // [mapped], or null
  int64_t src_row = 0, dst_row = 0;
  uint32_t tokens = 0, count = 0, columns = 0, mapped = 0;
};

// Gates and what they multiply, side by side.
struct PairProblem {
  const void* x = nullptr;  // [rows][2 * columns] by x_row
  void* out = nullptr;      // [rows][columns] by out_row
  int64_t x_row = 0, out_row = 0;
  uint32_t rows = 0, columns = 0;
  float alpha = 1, limit = 0;
};

}  // namespace xpu_ops::ops
