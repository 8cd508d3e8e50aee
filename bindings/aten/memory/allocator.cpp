#include "bindings/aten/memory/allocator.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/DeviceGuard.h>

#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;

c10::CachingAllocator::StatArray convert(const runtime::StatArray& from) {
  c10::CachingAllocator::StatArray to;
  for (size_t i = 0; i < from.size(); ++i) {
    to[i].current = from[i].current;
    to[i].peak = from[i].peak;
    to[i].allocated = from[i].allocated;
    to[i].freed = from[i].freed;
  }
  return to;
}

void report(void* ptr, int64_t bytes, int device) {
  auto stats = runtime::memory_stats(device);
  c10::reportMemoryUsageToProfiler(ptr, bytes, stats.allocated_bytes[0].current, stats.reserved_bytes[0].current,
                                   c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(device)));
}

void free_block(void* ptr) {
  if (!ptr) return;
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    auto block = runtime::block_of(ptr);
    runtime::deallocate(ptr);
    if (block.size) report(ptr, -static_cast<int64_t>(block.size), block.device);
    return;
  }
  runtime::deallocate(ptr);
}

struct XpuAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t n) override {
    runtime::Queue* q = nullptr;
    void* p = nullptr;
    try {
      q = &runtime::current_queue();
      p = runtime::allocate(q->device, q->id, n);
    } catch (const Error& e) {
      if (q) report_failure(n, q->device);
      rethrow(e);
    }
    if (c10::memoryProfilingEnabled()) [[unlikely]] {
      if (p) report(p, static_cast<int64_t>(runtime::block_of(p).size), q->device);
    }
    return {p, p, &free_block, c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(q->device))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dst, const void* src, size_t n) const override {
    translate([&] { runtime::copy_bytes(runtime::current_queue(), dst, src, n, false); });
  }

  bool initialized() override { return runtime::initialized() && runtime::device_count() > 0; }
  void emptyCache(c10::MempoolId_t pool) override {
    translate([&] { runtime::empty_cache(pool); });
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    // The context is the block only for memory of ours: a block of another owner has another deleter.
    if (ptr.get_deleter() == &free_block) translate([&] { runtime::record_stream(ptr.get_context(), stream.id()); });
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    auto from = translate([&] { return runtime::memory_stats(device); });
    c10::CachingDeviceAllocator::DeviceStats to;
    to.allocation = convert(from.allocation);
    to.segment = convert(from.segment);
    to.active = convert(from.active);
    to.inactive_split = convert(from.inactive_split);
    to.allocated_bytes = convert(from.allocated_bytes);
    to.reserved_bytes = convert(from.reserved_bytes);
    to.active_bytes = convert(from.active_bytes);
    to.inactive_split_bytes = convert(from.inactive_split_bytes);
    to.requested_bytes = convert(from.requested_bytes);
    for (auto& [id, stat] : from.reserved_by_pool) to.reserved_bytes_by_private_pools[id] = convert(stat);
    to.num_alloc_retries = from.num_alloc_retries;
    to.num_ooms = from.num_ooms;
    to.num_sync_all_streams = from.num_sync_all_streams;
    to.num_device_alloc = from.num_device_alloc;
    to.num_device_free = from.num_device_free;
    to.max_split_size = static_cast<int64_t>(AcceleratorAllocatorConfig::max_split_size());
    return to;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    translate([&] { runtime::reset_accumulated_stats(device); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    translate([&] { runtime::reset_peak_stats(device); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return translate([&] {
      size_t total = runtime::device_info(device).total_memory;
      uint64_t free = runtime::free_memory(device);
      if (free == UINT64_MAX)
        throw Error(ErrorKind::runtime, "The device (" + runtime::device_info(device).name +
                                            ") doesn't support querying the available free memory.");
      return std::pair<size_t, size_t>(free, total);
    });
  }

 private:
  static void report_failure(size_t n, int device) {
    if (!c10::memoryProfilingEnabled()) return;
    auto stats = runtime::memory_stats(device);
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(n), stats.allocated_bytes[0].current,
                                     stats.reserved_bytes[0].current,
                                     c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(device)));
  }
};

// PYTORCH_ALLOC_CONF and torch.accelerator's setter end up in torch's config; the runtime gets its own copy of it.
void pass_config() {
  runtime::AllocatorConfig config;
  config.large_segment = AcceleratorAllocatorConfig::large_segment_size();
  config.max_split = AcceleratorAllocatorConfig::max_split_size();
  config.max_non_split_rounding = AcceleratorAllocatorConfig::max_non_split_rounding_size();
  config.collect_above = AcceleratorAllocatorConfig::garbage_collection_threshold();
  for (size_t divisions : AcceleratorAllocatorConfig::roundup_power2_divisions()) {
    if (divisions > 1)
      config.power2_divisions = [](size_t n) { return AcceleratorAllocatorConfig::roundup_power2_divisions(n); };
  }
  if (AcceleratorAllocatorConfig::use_expandable_segments()) {  // braces: the macro is an if of its own
    TORCH_WARN_ONCE("expandable_segments is not supported by xpu_ops and has no effect.");
  }
  runtime::configure_allocator(std::move(config));
}

struct AllocatorSetup {
  AllocatorSetup() {
    c10::SetAllocator(c10::kXPU, xpu_allocator());
    pass_config();
    AcceleratorAllocatorConfig::registerDeviceConfigParserHook([](const std::string&) { pass_config(); }, {});
  }
} setup;

}  // namespace

c10::DeviceAllocator* xpu_allocator() {
  static auto* a = new XpuAllocator;
  return a;
}

}  // namespace xpu_ops
