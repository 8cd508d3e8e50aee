// Instructions of this machine's processor.
#pragma once

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

}  // namespace xpu_ops::runtime
