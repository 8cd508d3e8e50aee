// Launch arguments of the cumulative kernels; shared by host and device.
#pragma once
#include "kernels/ops/problem/scan.hpp"

namespace xpu_ops {

// A dense tensor seen as [outer, length, inner], scanned along length.
struct ScanArgs : plan::ScanPointers {
  void* partial;    // totals of chunks, [outer, chunks]; line kernels with more than one chunk
  uint64_t length;  // of a line
  uint32_t inner;
  uint32_t chunks;  // line kernels: parts of a line, each of `chunk` elements
  uint32_t chunk;
  uint32_t totals;  // 1: only write the totals of chunks
  uint32_t lines;   // outer
};

}  // namespace xpu_ops
