// XPU_OPS_REDZONE=1: bytes of a known value around every block of device memory, so that a write outside of one shows.
#pragma once
#include <cstddef>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

constexpr size_t kRedzone = 512;  // on each side; keeps the alignment of blocks

bool redzones() noexcept;
// `base` has room for `bytes` and two zones. Fills those and returns where the user's bytes begin.
void* enclose(Queue& queue, void* base, size_t bytes);
// Waits, checks the zones of a block and forgets it; returns its base.
void* disclose(void* ptr) noexcept;
inline void* base_of(void* ptr) noexcept { return static_cast<char*>(ptr) - kRedzone; }
// Checks all blocks of a device that has been waited for. Throws Error{runtime} for these and for blocks freed since
// the last call; a zone that was written to is reported once.
void check_redzones(int device);

}  // namespace xpu_ops::runtime
