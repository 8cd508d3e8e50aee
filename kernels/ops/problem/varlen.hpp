// Problem of attention over pages; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// One query per sequence, as in generating text, against the keys and values of its pages.
struct PagedProblem {
  const void* q = nullptr;           // [queries][heads][dim] by strides
  const void* k = nullptr;           // [pages][page][kv_heads][dim] by strides
  const void* v = nullptr;           // likewise
  void* out = nullptr;               // as q
  float* sums = nullptr;             // [heads][queries]: logarithms of the sums of exponentials
  const int32_t* begins = nullptr;   // [sequences + 1]: a sequence's query, or none
  const int32_t* lengths = nullptr;  // [sequences]: its keys
  const int32_t* table = nullptr;    // [sequences][columns] by table_stride: its pages
  int64_t q_stride[2] = {}, out_stride[2] = {}, k_stride[3] = {}, v_stride[3] = {}, table_stride = 0;
  int64_t pages = 0;
  uint32_t sequences = 0, queries = 0, columns = 0, page = 1;
  uint32_t heads = 1, dim = 0, group = 1;  // group: heads with the same keys
  int32_t left = -1;                       // keys seen before the last one; negative: all
  float scale = 1;
};

// Rows of tokens and the pages of a cache that they go to; strides are in elements.
struct PlacePart {
  const void* src = nullptr;  // [tokens][size 0][size 1][size 2] by strides
  void* dst = nullptr;        // [pages][page][size 0][size 1][size 2] by strides
  int64_t src_stride[4] = {0, 0, 0, 1}, dst_stride[5] = {0, 0, 0, 0, 1};
  uint32_t size[3] = {1, 1, 1};
};

struct PlaceProblem {
  PlacePart part[2];               // keys and values
  const int64_t* slots = nullptr;  // [tokens]: a page times `page` plus the place there; below 0: none
  int64_t pages = 0, page = 1;
  uint32_t tokens = 0;
};

}  // namespace xpu_ops::ops
