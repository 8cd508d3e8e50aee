// Pinned host memory: ATen's caching host allocator on SYCL host allocations and the runtime's events.
#include <ATen/core/CachingHostAllocator.h>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "bindings/export.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/event.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

using Block = at::HostBlock<c10::Stream>;

struct Impl final : at::CachingHostAllocatorImpl<c10::Stream, runtime::Event> {
  // These override private virtuals of the base, which is how it is meant to be specialised.
  void allocate_host_memory(size_t size, void** ptr) override {
    *ptr = translate([&] {
      runtime::check_fork();
      void* p = sycl::aligned_alloc_host(512, size, runtime::sycl_context(runtime::current_device()));
      if (!p)
        throw Error(ErrorKind::out_of_memory, "Cannot allocate " + std::to_string(size) + " bytes of pinned memory.");
      return p;
    });
  }
  void free_block(Block* block) override { sycl::free(block->ptr_, runtime::sycl_context(runtime::current_device())); }
  void record_stream(std::optional<std::vector<runtime::Event>>& events, c10::Stream stream) override {
    runtime::Event e;
    translate([&] { e.record(runtime::queue(stream.device_index(), stream.id())); });
    events->push_back(std::move(e));
  }
  bool query_event(runtime::Event& event) override { return event.query(); }
  c10::Stream get_current_stream() const override {
    auto& q = runtime::current_queue();
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(q.device)), q.id);
  }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void free_pinned(void* context);

struct PinnedAllocator final : at::CachingHostAllocatorInterface<Impl, free_pinned> {};

PinnedAllocator& instance() {
  static auto* a = new PinnedAllocator;
  return *a;
}

void free_pinned(void* context) {
  if (!runtime::in_bad_fork()) instance().free(context);
}

struct PinnedSetup {
  PinnedSetup() { at::setHostAllocator(c10::kXPU, &instance()); }
} pinned_setup;

}  // namespace

XPU_OPS_EXPORT c10::Allocator* pinned_allocator() { return &instance(); }

bool is_pinned(const void* ptr) {
  if (!runtime::initialized() || runtime::in_bad_fork()) return false;
  for (int i = 0, n = runtime::device_count(); i < n; ++i) {
    if (sycl::get_pointer_type(ptr, runtime::sycl_context(i)) == sycl::usm::alloc::host) return true;
  }
  return false;
}

XPU_OPS_EXPORT void record_pinned(const c10::DataPtr& ptr, c10::Stream stream) {
  instance().record_event(ptr.get(), ptr.get_context(), stream);
}

}  // namespace xpu_ops
