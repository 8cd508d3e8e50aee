// One engine per device, one stream per queue, and the one place where primitives are submitted.
#pragma once
#include <initializer_list>

#include "kernels/onednn/primitive_cache.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::onednn {

dnnl::engine& engine(int device);

// The reason why products with a source of this type are computed otherwise, or nullptr. A processor without VNNI adds
// pairs of 8-bit products in 16 bits, where they saturate; one without bf16 instructions emulates bf16, which takes two
// to four times as long as float32.
const char* unwanted_source(int device, DType source);

// Whether primitives run on the host. oneDNN submits host tasks of SYCL there, which pile up quadratically between
// kernels: queues get native tasks instead where they take them.
bool on_host(int device);

// Throws Error{runtime} that names the primitive, unless it succeeded.
void check(dnnl_status_t status, const Entry& entry);

// Runs a cached primitive on the queue, in order with the kernels on it. `pointers` follow entry.args; the scratchpad
// comes from the caching allocator. Returns when a host task of SYCL is done, any other primitive when it is submitted.
void run(runtime::Queue& queue, Entry& entry, void* const* pointers, int count);
void run(runtime::Queue& queue, Entry& entry, std::initializer_list<void*> pointers);

// XPU_OPS_VERBOSE=1: one line on stderr for each primitive that runs and for each that is refused.
bool verbose() noexcept;
void set_verbose(bool on) noexcept;

}  // namespace xpu_ops::onednn
