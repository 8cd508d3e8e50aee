// Instructions of this machine's processor.
#pragma once
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace xpu_ops::runtime {

// vdpbf16ps on 512 bits.
inline bool processor_has_dot16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// Permutations of bytes and products of bytes besides.
inline bool processor_has_dots8() {
#ifdef __x86_64__
  return processor_has_dot16() && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

// The tiles of AMX, which Linux lends a process that asks for them. For a processor that has them.
inline bool permit_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, the state of the eight registers
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace xpu_ops::runtime
