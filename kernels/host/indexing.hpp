// Moves of elements by index and by mask, on the calling thread.
#pragma once
#include <cstddef>

#include "kernels/sycl/index/indexing_args.hpp"

namespace xpu_ops::host {

// The loops of indexed_write and indexed_read of kernels/sycl/index/indexing.hpp for elements of so many bytes, rows in
// turn; of equal indices the last one writes. Bad indices are reported and skipped. The walk has one inner dimension.
void indexed_move(bool write, const IndexedArgs& args, size_t element);

// Of one chunk, whose elements have so many bytes: how many are set, and their coordinates. `counts` is 0 and that
// number.
uint32_t compact_count(const CompactArgs& args, size_t element);
void compact_coordinates(const CompactArgs& args, size_t element);
// The elements of so many bytes that a mask of bytes names, as the kernels.
void masked_select(const CompactArgs& args, size_t element);
void masked_scatter(const CompactArgs& args, size_t element);

}  // namespace xpu_ops::host
