// How much memory the CPU device offers: its driver promises all of the machine's, which the host needs, too.
#pragma once
#include <cstdint>
#include <string>

namespace xpu_ops::runtime {

struct MemoryBudget {
  uint64_t bytes = 0;
  std::string origin;  // what it was made from, for xpu-ops doctor
};

// `setting` is XPU_OPS_CPU_MEMORY: bytes, with K, M, G or T for powers of 1024, or a share below 1 of `limit`; null or
// empty for three quarters of `limit`. Throws Error{value} for anything else and for more than `limit`.
MemoryBudget memory_budget(const char* setting, uint64_t limit);

MemoryBudget cpu_memory();  // of this process: of all indices of the CPU device together
// Bytes that the allocator of a device may hold: total_memory, or less where an emulated GPU has more than the machine.
uint64_t memory_limit(int device);
// The allocator of a device holds `bytes` more, or less where negative.
void note_reserved(int device, int64_t bytes);

// Memory of the machine, or less by the control groups of this process.
uint64_t host_memory_limit();
// The part of it that the host could still give to this process.
uint64_t host_free_memory();

}  // namespace xpu_ops::runtime
