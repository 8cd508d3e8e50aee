// Problems of moves by index and of masks; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

struct DeviceError;
enum class DeviceErrorCode : uint32_t;

// How the common kernels read their indices and what they do with a bad one.
struct IndexSource {
  const void* ptr;  // int64 or int32
  DeviceError* error;
  int64_t size;    // valid: [0, size), with wrap [-size, size)
  int64_t stride;  // elements that one index step moves in the indexed operand
  DeviceErrorCode code;
  uint32_t dim;  // for the message
  uint8_t is32, wrap;
};

constexpr int kMaxIndices = 8;

namespace ops {

// Several index tensors that become one of element offsets, -1 where one is out of range.
struct LinearizeProblem {
  int64_t* out;
  DeviceError* error;
  const void* index[kMaxIndices];
  int64_t size[kMaxIndices], stride[kMaxIndices];
  uint32_t dim[kMaxIndices];
  uint8_t is32[kMaxIndices];
  uint32_t count;
};

// An element that must not be zero; else the registered text `message` is reported.
struct AssertProblem {
  const void* value;
  uint64_t keep[2];  // bits of it that count
  DeviceError* error;
  int64_t message;
};

}  // namespace ops
}  // namespace xpu_ops
