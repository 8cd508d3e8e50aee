// How kernels are launched on a device: the one place that decides between CPU and GPU forms. Families read the policy
// and never ask for the kind of device.
#pragma once
#include <cstdint>

namespace xpu_ops::runtime {

struct DeviceInfo;

// Items of a sub-group that kernels are compiled for; every CPU device and Intel GPU offers it.
constexpr uint32_t kSubGroup = 16;

struct Policy {
  // A work-group of one item is a thread with vector registers of its own: kernels with loops over vectors serve.
  bool single_items = false;
  bool host_memory = false;    // the host dereferences device memory
  uint32_t units = 1;          // compute units that a launch should fill
  uint32_t lanes = kSubGroup;  // items of a sub-group
  // Most items of a work-group that has one item per element. On a GPU the registers of all its items have to fit.
  uint32_t elementwise_group = 256;
  // A CPU device runs a work-group as one thread, so that one sub-group does. A GPU hides the time of memory behind
  // many sub-groups, of which it holds more the fewer work-groups they come in.
  uint32_t tile_items = kSubGroup;  // of a work-group that goes through a piece of memory, side by side
  uint32_t row_items = kSubGroup;   // of a work-group whose sub-groups take a row each
  uint32_t team_items = kSubGroup;  // most items of a work-group that share one long row
  uint32_t filling = 8;             // work-groups of that size per compute unit that fill the device
  uint32_t most_items = 1024;       // of any work-group
  uint64_t cache = 0;               // bytes of the last cache before memory
  bool matrices = false;            // units for products of 16-bit matrices
  bool products16 = true;           // instructions for products of 16-bit floats
  bool narrow = false;              // sixteen vector registers of at most 256 bits, as AVX2 has
  bool dot16 = false;               // kernels/sycl/cpu/dot16.hpp serves
  bool dots8 = false;               // kernels/sycl/cpu/dots8.hpp serves
  bool dots_narrow = false;         // kernels/sycl/cpu/dots_narrow.hpp serves
  bool amx = false;                 // kernels/sycl/cpu/amx.hpp serves
};

// By the kind of device. XPU_OPS_POLICY=gpu gives a CPU device the policy of a GPU, so that the code of a GPU is
// executed without one; any other value but "cpu" throws Error{value}. XPU_OPS_DISCRETE=1 takes host memory away.
Policy make_policy(const DeviceInfo& info);

}  // namespace xpu_ops::runtime
