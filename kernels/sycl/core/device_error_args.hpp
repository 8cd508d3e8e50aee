// The record that a kernel writes when it meets a value that the host could not check: shared by device and host.
#pragma once
#include <cstdint>

namespace xpu_ops {

// Which upstream message the host raises; device_error.cpp holds the texts.
enum class DeviceErrorCode : uint32_t {
  none = 0,
  index,           // IndexError: index 5 is out of bounds for dimension 0 with size 3
  index_runtime,   // the same text as RuntimeError (gather, scatter)
  index_self,      // IndexError: index out of range in self
  index_copy,      // IndexError: index_copy_(): index 5 is out of bounds ...
  take,            // IndexError: out of range: tried to access index 50 on a tensor of 12 elements.
  bag_index,       // RuntimeError: Index 0 of input takes value 5 which is not in the valid range [0, 3)
  unpool,          // RuntimeError: Found an invalid max index: 99 and the registered text number `dim`
  masked_scatter,  // RuntimeError: Number of elements of source < number of ones in mask
  assertion,       // RuntimeError: a text that the host registered; `value` is its number
  target,          // IndexError: Target 5 is out of bounds.
  target_range,    // RuntimeError: target out of range
  probability,     // RuntimeError: all elements of input should be between 0 and 1
};

// One per device, in memory that host and device both reach. The first failing work-item fills it; the host raises and
// clears it at the next synchronisation.
struct DeviceError {
  uint32_t code;
  uint32_t dim;
  int64_t value;
  int64_t size;
};

}  // namespace xpu_ops
