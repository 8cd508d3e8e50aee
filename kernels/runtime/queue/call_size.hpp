// How much an operator's call touches: the launches of a small call run on the calling thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace xpu_ops::runtime {

// For the scope of one call of an operator on this thread. Calls may stand within one another.
class CallSize {
 public:
  // Bytes of the call's operands, asked for at the first launch. What is allocated within the scope adds to it, so
  // results and work memory count.
  using Measure = int64_t (*)(const void* operands);
  CallSize(Measure measure, const void* operands) : measure_(measure), operands_(operands), outer_(t_call) {
    t_call = this;
  }
  explicit CallSize(int64_t bytes) : operand_bytes_(bytes), outer_(t_call) { t_call = this; }
  ~CallSize() {
    t_call = outer_;
    if (outer_) outer_->allocated_ += allocated_;
  }
  CallSize(const CallSize&) = delete;
  CallSize& operator=(const CallSize&) = delete;

  // Outside of any scope nothing is small. A kernel whose cost is known better than by its bytes asks for more of them.
  static bool small(int64_t most = kSmall) { return t_call && t_call->bytes() <= most; }
  static void allocated(size_t bytes) {
    if (t_call) t_call->allocated_ += static_cast<int64_t>(bytes);
  }

  static constexpr int64_t kUnknown = int64_t{1} << 58;  // of a call whose operands have no plain size

 private:
  int64_t bytes() {
    if (measure_) operand_bytes_ = measure_(operands_);
    measure_ = nullptr;
    return operand_bytes_ + allocated_;
  }
  // Where one thread takes as long as a launch (docs/notes/inline.md): 64 KiB, and the results of their rows.
  static constexpr int64_t kSmall = 72 << 10;
  static constinit thread_local CallSize* t_call;  // one for all libraries
  Measure measure_ = nullptr;
  const void* operands_ = nullptr;
  int64_t operand_bytes_ = 0, allocated_ = 0;
  CallSize* outer_;
};

}  // namespace xpu_ops::runtime
