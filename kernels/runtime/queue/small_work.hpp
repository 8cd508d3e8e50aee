// Small work of the host: on the calling thread, on a worker of the device behind what is there, or, where both refuse,
// launched by the caller.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <utility>

#include "kernels/runtime/profile/profiling.hpp"
#include "kernels/runtime/queue/float_state.hpp"
#include "kernels/runtime/queue/native_tasks.hpp"
#include "kernels/runtime/queue/profile_tap.hpp"
#include "kernels/runtime/queue/stream.hpp"

namespace xpu_ops::runtime {

// In the place of `later`: work that only the calling thread can do.
struct NotLater {};
inline constexpr NotLater not_later;

// Whether small work may run on the calling thread at all: XPU_OPS_INLINE=0 or set_inline(false) turn it off.
bool inline_enabled() noexcept;
void set_inline(bool on) noexcept;

// All memory that the work touches is allocated before it is offered. It only computes: it asks for no memory of the
// device, no lock and not the GIL. A cost is counted in elements of four bytes, side by side and of a simple
// expression.
class SmallWork {
 public:
  SmallWork(Stream& stream, NativeTasks& natives, ProfileTap& tap) : stream_(stream), natives_(natives), tap_(tap) {}

  // Whether the calling thread might compute now: the device is the CPU, shares its memory with the host, and has
  // nothing left to do on this queue. Another thread may change that at any time: run() has the last word.
  bool ready() {
    if (!may<Way::now>({.mode = stream_.mode(), .idle = true})) return false;
    const uint64_t n = stream_.submitted();
    return stream_.found_done(n) || ask_idle(n);
  }
  // Whether run() might do so much now or later: asked before the work is made.
  bool takes(int64_t cost) { return may_now(cost) || may_later(cost); }

  // Runs now() on the calling thread as one command of the queue, as if it had been submitted and had finished. Else a
  // worker of the device runs, in its place, a copy of what later() returns, a plain value; pieces that nothing else
  // comes between share a native task, which costs a fraction of a launch. False where neither may be: then the caller
  // launches. `label` is a Label, the KernelSlot whose work it is, or a function that returns it, called while a
  // profile runs.
  template <class N, class M, class L>
  bool run(int64_t cost, N&& now, M&& later, const L& label) {
    if constexpr (std::is_same_v<std::remove_cvref_t<M>, NotLater>)
      return may_now(cost) && run_now(std::forward<N>(now), label);
    else
      return takes(cost) && run_taken(std::forward<N>(now), std::forward<M>(later), label);
  }
  // The same where f itself is a plain value.
  template <class F, class L>
  bool run(int64_t cost, const F& f, const L& label) {
    return takes(cost) && run_taken(f, label);
  }
  // The same after takes() or ready() has said yes.
  template <class N, class M, class L>
  bool run_taken(N&& now, M&& later, const L& label) {
    if (run_now(std::forward<N>(now), label)) return true;
    if constexpr (std::is_same_v<std::remove_cvref_t<M>, NotLater>)
      return false;
    else
      return run_later(later());
  }
  template <class F, class L>
  bool run_taken(const F& f, const L& label) {
    return run_now(f, label) || run_later(f);
  }
  // For the host's reads and writes after a wait, which no state forbids: runs f() unless something was submitted
  // since.
  template <class F>
  bool run_waited(F&& f, const Label& label) {
    const std::lock_guard<QueueLock> turn(stream_.lock());
    if (!stream_.settled()) return false;
    run_here(std::forward<F>(f), label);
    return true;
  }

  // Nothing runs here or later between the two: a graph records.
  void close();
  void open();

 private:
  bool may_now(int64_t cost);
  bool may_later(int64_t cost);
  bool ask_idle(uint64_t submitted);
  template <class F, class L>
  bool run_now(F&& f, const L& label) {
    const std::lock_guard<QueueLock> turn(stream_.lock());
    if (!may<Way::now>({.mode = stream_.mode(), .idle = stream_.settled()})) return false;
    run_here(std::forward<F>(f), label);
    return true;
  }
  template <class F>
  bool run_later(const F& f) {
    static_assert(std::is_trivially_copyable_v<F> && alignof(F) <= alignof(std::max_align_t));
    return run_later([](const void* p) { (*static_cast<const F*>(p))(); }, &f, static_cast<uint32_t>(sizeof f));
  }
  bool run_later(void (*run)(const void*), const void* f, uint32_t bytes);
  template <class F, class L>
  void run_here(F&& f, const L& label) {  // under the lock
    const FloatState state;
    const int64_t begin = profiling() ? detail::profile_clock() : 0;
    std::forward<F>(f)();
    if (begin) [[unlikely]]
      detail::profile_inline(tap_, label_of(label), begin);
  }
  template <class L>
  static Label label_of(const L& label) {
    if constexpr (std::is_same_v<L, Label>)
      return label;
    else if constexpr (std::is_invocable_v<const L&>)
      return {.kernel = label().name()};
    else
      return {.kernel = label.name()};
  }

  Stream& stream_;
  NativeTasks& natives_;
  ProfileTap& tap_;
};

}  // namespace xpu_ops::runtime
