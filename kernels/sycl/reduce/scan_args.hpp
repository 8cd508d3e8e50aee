// Launch arguments of the cumulative kernels; shared by host and device.
#pragma once
#include "kernels/ops/problem/scan.hpp"

namespace xpu_ops {

// Line kernels: a sub-group per chunk or, in turn, all chunks of a line.
enum class ScanForm : uint32_t { results, totals, in_turn };

// A dense tensor seen as [outer, length, inner], scanned along length.
struct ScanArgs : ops::ScanPointers {
  void* partial;    // totals of chunks, [outer, chunks]; line kernels with more than one chunk
  uint64_t length;  // of a line
  uint32_t inner;
  uint32_t chunks;  // line kernels: parts of a line, each of `chunk` elements
  uint32_t chunk;
  ScanForm form;
  uint32_t lines;  // outer
};

}  // namespace xpu_ops
