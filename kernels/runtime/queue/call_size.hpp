// How much an operator's call touches: the launches of a small call run on the calling thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace xpu_ops::runtime {

// For the scope of one call of an operator on this thread. Calls may stand within one another.
class CallSize {
 public:
  // `bytes`: of the call's operands. What is allocated within the scope adds to it, so results and work memory count.
  explicit CallSize(int64_t bytes) : outer_(t_bytes), own_(bytes) { t_bytes = bytes; }
  ~CallSize() { t_bytes = outer_ < kUnknown ? outer_ + (t_bytes - own_) : kUnknown; }
  CallSize(const CallSize&) = delete;
  CallSize& operator=(const CallSize&) = delete;

  // Outside of any scope nothing is small.
  static bool small() { return t_bytes <= kSmall; }
  static void allocated(size_t bytes) {
    if (t_bytes < kUnknown) t_bytes += static_cast<int64_t>(bytes);
  }

  static constexpr int64_t kUnknown = int64_t{1} << 58;  // of a call whose operands have no plain size

 private:
  // Where one thread takes as long as a launch (docs/notes/inline.md).
  static constexpr int64_t kSmall = 65536;
  static constinit thread_local int64_t t_bytes;  // one for all libraries
  int64_t outer_, own_;
};

}  // namespace xpu_ops::runtime
