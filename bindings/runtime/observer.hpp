// Watches every dispatcher call that touches xpu: which operator ran, on what, how, and for how long.
// Behind xpu_ops.trace_ops and the coverage run; costs nothing while it is off.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/export.hpp"

namespace xpu_ops {

// Calls of one overload that look the same.
struct Observed {
  std::string overload;  // "aten::add.Tensor"
  // native: a kernel of ours; composite: put together from the calls below it; fallback: the boxed CPU fallback;
  // raised: a kernel that threw. Where something below a native or composite call fell back, "+fallback" is appended.
  std::string how;
  std::string dtype;  // of the first floating or complex tensor argument, else of the first; "" without one
  // contiguous, dense (permuted, channels_last), expanded, strided or empty: the least regular argument decides
  std::string layout;
  std::string signature;  // "Float[2, 3], Long[4]"; "" unless asked for
  // operators that a native call ran on CPU tensors of more than one element, space-separated; or that it only copied
  // such tensors to the CPU and others back
  std::string cpu_below;
  bool inner = false;  // below a native call or a fallback
  bool grad = false;   // an argument requires grad
  // host: until the call returned, without the time to load kernel modules; device: from then until the queue was empty
  int64_t calls = 0, host_ns = 0, device_ns = 0, load_ns = 0;
};

// One observation at a time; throws where one is on. `timed` waits for the queue after each outermost kernel.
XPU_OPS_EXPORT void observe_start(bool timed, bool signatures);
// The calls since the start or the last drain; `backward`: whether an autograd node ran.
XPU_OPS_EXPORT std::vector<Observed> observe_drain(bool& backward);
XPU_OPS_EXPORT void observe_stop();

// The fallback has been asked for this overload, on this thread; it may still refuse.
void observe_fallback(const std::string& overload);

}  // namespace xpu_ops
