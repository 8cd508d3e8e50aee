// Threads beside the calling one: oneMKL leaves transforms of up to some hundred thousand points to one thread.
#pragma once
#include <cstdint>
#include <functional>

namespace xpu_ops::mkl {

// Calls f(0) ... f(parts - 1), on the calling thread and up to `threads - 1` others, and returns when all have
// returned. Where the others serve another caller it does everything itself. What f throws, it throws.
void run_parts(int64_t parts, int threads, const std::function<void(int64_t)>& f);

}  // namespace xpu_ops::mkl
