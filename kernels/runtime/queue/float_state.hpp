// The floating-point state of work that runs on a thread of the program.
#pragma once
#include <cstdint>

#include <x86intrin.h>

namespace xpu_ops::runtime {

// For its scope, the state in which the device's workers start: rounding to nearest, denormals kept. The thread may
// have another one (torch.set_flush_denormal), which must not show in results.
class FloatState {
 public:
  FloatState() : before_(_mm_getcsr()) {
    if ((before_ & kControl) != kFirst) [[unlikely]]
      _mm_setcsr(kFirst);
  }
  ~FloatState() {
    if ((before_ & kControl) != kFirst) [[unlikely]]
      _mm_setcsr(before_);
  }
  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;

 private:
  static constexpr uint32_t kControl = 0xffc0, kFirst = 0x1f80;
  uint32_t before_;
};

}  // namespace xpu_ops::runtime
