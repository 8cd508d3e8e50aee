// Instructions of this machine's processor.
#pragma once

namespace xpu_ops::runtime {

// vdpbf16ps on 512 bits, the only assembly in kernels.
inline bool processor_has_dot16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace xpu_ops::runtime
