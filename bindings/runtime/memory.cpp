// The allocator functions of torch.xpu.memory.
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/module.hpp"
#include "bindings/runtime/stacks.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

using runtime::PoolId;
using NoGil = py::gil_scoped_release;

py::dict to_dict(const runtime::Stat& s) {
  py::dict d;
  d["current"] = s.current;
  d["peak"] = s.peak;
  d["allocated"] = s.allocated;
  d["freed"] = s.freed;
  return d;
}

py::dict to_dict(const runtime::StatArray& a) {
  py::dict d;
  d["all"] = to_dict(a[0]);
  d["small_pool"] = to_dict(a[1]);
  d["large_pool"] = to_dict(a[2]);
  return d;
}

py::dict memory_stats(int device) {
  auto s = runtime::memory_stats(checked(device));
  py::dict d;
  d["allocated_bytes"] = to_dict(s.allocated_bytes);
  d["reserved_bytes"] = to_dict(s.reserved_bytes);
  d["active_bytes"] = to_dict(s.active_bytes);
  d["requested_bytes"] = to_dict(s.requested_bytes);
  d["inactive_split_bytes"] = to_dict(s.inactive_split_bytes);
  d["allocation"] = to_dict(s.allocation);
  d["segment"] = to_dict(s.segment);
  d["active"] = to_dict(s.active);
  d["inactive_split"] = to_dict(s.inactive_split);
  d["num_alloc_retries"] = s.num_alloc_retries;
  d["num_ooms"] = s.num_ooms;
  d["num_sync_all_streams"] = s.num_sync_all_streams;
  d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
  return d;
}

void record_history(const std::optional<std::string>& enabled, const std::optional<std::string>& context,
                    const std::string& stacks, size_t max_entries, bool clear_history,
                    const std::vector<std::string>& skip_actions) {
  using runtime::TraceLevel;
  TORCH_CHECK(!enabled || *enabled == "state" || *enabled == "all", "Expected state of 'all' or 'state', got ",
              *enabled);
  TORCH_CHECK(!context || *context == "state" || *context == "alloc" || *context == "all",
              "Expected context of 'all', 'alloc' or 'state', got ", *context);
  TORCH_CHECK(stacks == "python" || stacks == "all", "Expected stacks to be 'python', or 'all', got ", stacks);
  TraceLevel level = TraceLevel::never;
  if (enabled && context) {
    level = *context == "all" ? TraceLevel::all : *context == "alloc" ? TraceLevel::alloc : TraceLevel::state;
    install_stacks();
  }
  runtime::record_memory_history(enabled.has_value(), stacks == "all" ? gather_all : gather_python,
                                 enabled && *enabled == "all" ? max_entries : 1, level, clear_history, skip_actions);
}

uintptr_t stream_value(int device, runtime::StreamId id) {
  return id == 0 ? 0 : reinterpret_cast<uintptr_t>(runtime::queue(device, id).stream().handle());
}

py::dict snapshot(const std::optional<PoolId>& pool) {
  free_dead_stacks();
  Frames frames;
  py::list segments, traces;
  auto found = runtime::memory_snapshot(pool.value_or(PoolId{0, 0}));
  for (auto& s : found) {
    py::dict d;
    d["device"] = s.device;
    d["address"] = s.address;
    d["total_size"] = s.total;
    d["allocated_size"] = s.allocated;
    d["active_size"] = s.active;
    d["requested_size"] = s.requested;
    d["stream"] = stream_value(s.device, s.stream);
    d["segment_type"] = s.large ? "large" : "small";
    d["segment_pool_id"] = s.pool;
    d["is_expandable"] = false;
    frames.add(d, "frames", s.context);
    py::list blocks;
    for (auto& b : s.blocks) {
      py::dict e;
      e["address"] = b.address;
      e["size"] = b.size;
      e["requested_size"] = b.requested;
      e["state"] = b.allocated ? "active_allocated" : b.active ? "active_awaiting_free" : "inactive";
      frames.add(e, "frames", b.context);
      blocks.append(e);
    }
    d["blocks"] = blocks;
    segments.append(d);
  }
  std::vector<std::vector<runtime::TraceEntry>> entries;  // keeps the stacks alive until they are symbolised
  for (int i = 0; runtime::initialized() && i < runtime::device_count(); ++i) {
    py::list trace;
    for (auto& t : entries.emplace_back(runtime::memory_trace(i))) {
      py::dict e;
      e["action"] = runtime::to_string(t.action);
      e[t.action == runtime::TraceAction::oom ? "device_free" : "addr"] = t.address;
      e["size"] = t.size;
      e["stream"] = stream_value(i, t.stream);
      e["time_us"] = t.time_us;
      e["pool_id"] = t.pool;
      frames.add(e, "frames", t.context);
      trace.append(e);
    }
    traces.append(trace);
  }
  frames.resolve();
  py::dict settings, out;
  settings["PYTORCH_ALLOC_CONF"] = c10::CachingAllocator::getAllocatorSettings();
  settings["max_split_size"] =
      static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  settings["expandable_segments"] = false;
  out["segments"] = segments;
  out["device_traces"] = traces;
  out["allocator_settings"] = settings;
  out["external_annotations"] = py::list();
  return out;
}

// The allocator objects of torch.xpu.memory: the caching allocator, or two functions of a user's library.
struct AllocatorHandle {
  using Alloc = void*(size_t, int, sycl::queue*);
  using Free = void(void*, size_t, int, sycl::queue*);
  Alloc* alloc = nullptr;
  Free* free = nullptr;
};

std::shared_ptr<AllocatorHandle>& current_handle() {
  static auto* h = new std::shared_ptr<AllocatorHandle>(std::make_shared<AllocatorHandle>());
  return *h;
}

runtime::PoolFunctions pool_functions(int device, const std::shared_ptr<AllocatorHandle>& handle) {
  if (!handle || !handle->alloc) return {};
  auto sizes = std::make_shared<std::unordered_map<void*, size_t>>();  // under the allocator's lock
  return {[=](size_t n) {
            void* p = handle->alloc(n, device, &runtime::current_queue(device).share());
            if (p) (*sizes)[p] = n;
            return p;
          },
          [=](void* p) {
            handle->free(p, (*sizes)[p], device, &runtime::current_queue(device).share());
            sizes->erase(p);
          }};
}

// A pool exists on the device that is current when it is made, and in the others once they allocate to it.
class MemPool {
 public:
  MemPool(std::shared_ptr<AllocatorHandle> allocator, bool user_created, bool use_on_oom, bool no_split)
      : id_(runtime::new_pool_id(user_created)), allocator_(std::move(allocator)), device_(runtime::current_device()) {
    TORCH_CHECK_NOT_IMPLEMENTED(!no_split, "MemPool: no_split=True is not supported on xpu; leave it False");
    runtime::create_pool(device_, id_, pool_functions(device_, allocator_), use_on_oom);
  }
  ~MemPool() {
    if (runtime::in_bad_fork()) return;
    try {
      runtime::release_pool(device_, id_);
      runtime::empty_cache(id_);
    } catch (const std::exception& e) { TORCH_WARN("A memory pool could not be released: ", e.what()); }
  }
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;
  PoolId id() const { return id_; }
  std::shared_ptr<AllocatorHandle> allocator() const { return allocator_; }
  int use_count() const { return runtime::pool_use_count(device_, id_); }

 private:
  PoolId id_;
  std::shared_ptr<AllocatorHandle> allocator_;
  int device_;
};

}  // namespace

void bind_memory(py::module_& m) {
  m.def("_xpu_emptyCache", [] {
    NoGil no_gil;
    runtime::empty_cache();
  });
  m.def("_xpu_memoryStats", &memory_stats);
  m.def("_xpu_resetPeakMemoryStats", [](int d) { runtime::reset_peak_stats(checked(d)); });
  m.def("_xpu_resetAccumulatedMemoryStats", [](int d) { runtime::reset_accumulated_stats(checked(d)); });
  m.def("_xpu_getMemoryInfo",
        [](int d) { return xpu_allocator()->getMemoryInfo(static_cast<c10::DeviceIndex>(checked(d))); });
  m.def("_xpu_getMemoryFraction", [](int d) { return runtime::memory_fraction(checked(d)); });
  m.def("_xpu_setMemoryFraction", [](double f, int d) { runtime::set_memory_fraction(checked(d), f); });
  m.def("_xpu_recordMemoryHistory", &record_history, py::arg("enabled"), py::arg("context"), py::arg("stacks"),
        py::arg("max_entries"), py::arg("clear_history"), py::arg("skip_actions"));
  m.def("_xpu_memorySnapshot", &snapshot, py::arg("mempool_id") = py::none());

  m.def("_xpu_beginAllocateToPool", [](int d, PoolId id) { runtime::begin_allocate_to_pool(checked(d), id, {}); });
  m.def("_xpu_beginAllocateCurrentThreadToPool", [](int d, PoolId id) {
    runtime::begin_allocate_to_pool(checked(d), id, {std::this_thread::get_id(), std::nullopt});
  });
  m.def("_xpu_endAllocateToPool", [](int d, PoolId id) { runtime::end_allocate_to_pool(checked(d), id); });
  m.def("_xpu_releasePool", [](int d, PoolId id) { runtime::release_pool(checked(d), id); });

  py::class_<AllocatorHandle, std::shared_ptr<AllocatorHandle>>(m, "_xpu_XPUAllocator");
  m.def("_xpu_getAllocator", [] { return current_handle(); });
  m.def("_xpu_customAllocator", [](uintptr_t alloc, uintptr_t free) {
    auto h = std::make_shared<AllocatorHandle>();
    h->alloc = reinterpret_cast<AllocatorHandle::Alloc*>(alloc);
    h->free = reinterpret_cast<AllocatorHandle::Free*>(free);
    return h;
  });
  m.def("_xpu_changeCurrentAllocator", [](const std::shared_ptr<AllocatorHandle>& h) {
    TORCH_CHECK(h, "Expected an allocator");
    runtime::PluggedAllocator plugged;
    if (h->alloc) {
      plugged.alloc = [h](size_t n, int device, sycl::queue* q) { return h->alloc(n, device, q); };
      plugged.free = [h](void* p, size_t n, int device, sycl::queue* q) { h->free(p, n, device, q); };
    }
    runtime::plug_allocator(std::move(plugged));
    current_handle() = h;
  });
  py::class_<MemPool, std::shared_ptr<MemPool>>(m, "_XPUMemPool")
      .def(py::init<std::shared_ptr<AllocatorHandle>, bool, bool, bool>(), py::arg("allocator") = nullptr,
           py::arg("is_user_created") = true, py::arg("use_on_oom") = false, py::arg("no_split") = false)
      .def_property_readonly("id", &MemPool::id)
      .def_property_readonly("allocator", &MemPool::allocator)
      .def("use_count", &MemPool::use_count);
}

}  // namespace xpu_ops
