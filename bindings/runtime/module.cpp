// The Python module: what torch.xpu calls in torch._C, under the same names, and what xpu_ops itself needs.
#include "bindings/runtime/module.hpp"

#include <c10/core/AutogradState.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <cstdlib>
#include <map>
#include <sstream>

#include "bindings/aten/core/library.hpp"
#include "bindings/aten/memory/alias.hpp"
#include "bindings/aten/memory/dlpack.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/accelerate.hpp"
#include "bindings/runtime/fallback.hpp"
#include "bindings/runtime/generator.hpp"
#include "bindings/runtime/guard.hpp"
#include "bindings/runtime/hooks.hpp"
#include "bindings/runtime/late_threads.hpp"
#include "bindings/runtime/observer.hpp"
#include "bindings/runtime/openmp.hpp"
#include "bindings/runtime/profiler.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/platforms.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/memory/memory_budget.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/module/prelink.hpp"
#include "kernels/runtime/queue/event.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/runtime/queue/sleep.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

using runtime::DeviceInfo;
using NoGil = py::gil_scoped_release;

struct Uuid {
  std::string text;
  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> out;
    std::string hex;
    for (char c : text) {
      if (c != '-') hex += c;
    }
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      out.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    return out;
  }
};

std::string describe(const DeviceInfo& i) {
  std::ostringstream os;
  os << "_XpuDeviceProperties(name='" << i.name << "', platform_name='" << i.platform_name << "', type='" << i.type
     << "', device_id=0x" << std::hex << std::uppercase << i.device_id << std::dec << ", uuid=" << i.uuid
     << ", driver_version='" << i.driver_version << "', total_memory=" << i.total_memory / (1024ull * 1024)
     << "MB, max_compute_units=" << i.max_compute_units << ", gpu_eu_count=" << i.gpu_eu_count
     << ", gpu_subslice_count=" << i.gpu_subslice_count << ", max_work_group_size=" << i.max_work_group_size
     << ", max_num_sub_groups=" << i.max_num_sub_groups << ", sub_group_sizes=[";
  for (size_t k = 0; k < i.sub_group_sizes.size(); ++k) os << (k ? ", " : "") << i.sub_group_sizes[k];
  os << "], has_fp16=" << i.has_fp16 << ", has_fp64=" << i.has_fp64 << ", has_atomic64=" << i.has_atomic64 << ")";
  return os.str();
}

using sycl::ext::oneapi::experimental::architecture;

// The GPU whose matrix units take TF32.
bool of_ponte_vecchio(const DeviceInfo& i) {
  return i.architecture == static_cast<int64_t>(architecture::intel_gpu_pvc) ||
         i.architecture == static_cast<int64_t>(architecture::intel_gpu_pvc_vg);
}

// Of Xe2 and later, and of Ponte Vecchio: Alchemist has matrix units without them.
bool has_block_loads(const DeviceInfo& i) {
  return of_ponte_vecchio(i) ||
         (i.type == "gpu" && i.architecture >= static_cast<int64_t>(architecture::intel_gpu_bmg_g21));
}

void bind_properties(py::module_& m) {
  py::class_<Uuid>(m, "_XPUuuid").def_property_readonly("bytes", &Uuid::bytes).def("__str__", [](const Uuid& u) {
    return u.text;
  });
  py::class_<DeviceInfo>(m, "_XpuDeviceProperties")
      .def_readonly("name", &DeviceInfo::name)
      .def_readonly("platform_name", &DeviceInfo::platform_name)
      .def_readonly("vendor", &DeviceInfo::vendor)
      .def_readonly("device_id", &DeviceInfo::device_id)
      .def_readonly("driver_version", &DeviceInfo::driver_version)
      .def_readonly("version", &DeviceInfo::version)
      .def_readonly("max_compute_units", &DeviceInfo::max_compute_units)
      .def_readonly("gpu_eu_count", &DeviceInfo::gpu_eu_count)
      .def_readonly("gpu_subslice_count", &DeviceInfo::gpu_subslice_count)
      .def_readonly("multi_processor_count", &DeviceInfo::gpu_subslice_count)
      .def_readonly("max_work_group_size", &DeviceInfo::max_work_group_size)
      .def_readonly("max_num_sub_groups", &DeviceInfo::max_num_sub_groups)
      .def_readonly("memory_clock_rate", &DeviceInfo::memory_clock_rate)
      .def_readonly("memory_bus_width", &DeviceInfo::memory_bus_width)
      .def_readonly("sub_group_sizes", &DeviceInfo::sub_group_sizes)
      .def_readonly("local_mem_size", &DeviceInfo::local_mem_size)
      .def_readonly("last_level_cache_size", &DeviceInfo::last_level_cache_size)
      .def_readonly("has_fp16", &DeviceInfo::has_fp16)
      .def_readonly("has_fp64", &DeviceInfo::has_fp64)
      .def_readonly("has_atomic64", &DeviceInfo::has_atomic64)
      .def_readonly("has_bfloat16_conversions", &DeviceInfo::has_bf16_conversions)
      .def_readonly("has_subgroup_matrix_multiply_accumulate", &DeviceInfo::has_matrix)
      .def_property_readonly("has_subgroup_matrix_multiply_accumulate_tensor_float32", &of_ponte_vecchio)
      .def_property_readonly("has_subgroup_2d_block_io", &has_block_loads)
      .def_property_readonly("is_integrated_gpu", [](const DeviceInfo& i) { return i.type == "gpu" && i.host_unified; })
      .def_readonly("total_memory", &DeviceInfo::total_memory)
      .def_readonly("architecture", &DeviceInfo::architecture)
      .def_readonly("type", &DeviceInfo::type)
      .def_property_readonly("uuid", [](const DeviceInfo& i) { return Uuid{i.uuid}; })
      .def("__repr__", &describe);
}

// Runs once, from torch.xpu._lazy_init: starts the devices and completes the Python module.
void init() {
  torch::utils::register_fork_handler_for_device_init(at::kXPU);
  runtime::check_fork();
  if (runtime::device_count() == 0) runtime::device_info(0);  // throws, saying why
  bool all_cpu = true;
  for (int i = 0; i < runtime::device_count(); ++i) {
    if (runtime::device_info(i).is_cpu)
      calm_openmp();
    else
      all_cpu = false;
  }
  // Backward in this thread, as for CPU tensors: to hand a graph to a device's thread and back takes 25 us.
  if (all_cpu && runtime::env_flag("XPU_OPS_INLINE", true))
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  auto xpu = py::module_::import("torch.xpu");
  py::tuple generators(runtime::device_count());
  for (int i = 0; i < runtime::device_count(); ++i) {
    generators[i] = py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(default_generator(static_cast<c10::DeviceIndex>(i))));
  }
  xpu.attr("default_generators") = generators;
  xpu.attr("_get_device_properties") =
      py::cpp_function([](int device) { return &runtime::device_info(device); }, py::return_value_policy::reference);
}

py::tuple stream_tuple(int device, runtime::StreamId id) {
  return py::make_tuple(id, device, static_cast<int>(c10::kXPU));
}

void bind_devices(py::module_& m) {
  m.def("_xpu_init", &init);
  m.def("_xpu_isInBadFork", [] { return runtime::in_bad_fork() || torch::utils::is_device_in_bad_fork(at::kXPU); });
  m.def("_xpu_getDeviceCount", [] {
    torch::utils::register_fork_handler_for_device_init(at::kXPU);
    NoGil no_gil;
    return runtime::device_count();
  });
  m.def("_xpu_getDevice", [] { return runtime::current_device(); });
  m.def("_xpu_setDevice", [](int device) { runtime::set_current_device(device); });
  m.def("_xpu_exchangeDevice", [](int device) {
    if (device < 0) return -1;
    torch::utils::device_lazy_init(at::kXPU);
    return runtime::exchange_device(device);
  });
  m.def("_xpu_maybeExchangeDevice", [](int device) {
    if (device < 0) return -1;
    torch::utils::device_lazy_init(at::kXPU);
    return runtime::exchange_device(device);
  });
  m.def("_xpu_canDeviceAccessPeer", &runtime::can_access_peer);
  m.def("_xpu_getArchFlags", []() -> py::object { return py::none(); });
  m.def("_xpu_synchronize", [](int device) {
    NoGil no_gil;
    runtime::synchronize(checked(device));
  });
  m.def("_xpu_sleep", [](int64_t cycles) { runtime::sleep(runtime::current_queue(), cycles); });
}

void bind_streams(py::module_& m) {
  m.def("_xpu_getCurrentStream", [](int device) {
    device = checked(device);
    return stream_tuple(device, runtime::current_queue(device).id);
  });
  m.def("_xpu_getCurrentRawStream",
        [](int device) { return reinterpret_cast<uintptr_t>(&runtime::current_queue(checked(device)).share()); });
  m.def(
      "_xpu_setStream",
      [](int64_t id, int device, int type) {
        TORCH_CHECK(type == static_cast<int>(c10::kXPU), "Expected a stream of an XPU device");
        runtime::set_current_device(device);
        runtime::set_current_queue(device, id);
      },
      py::arg("stream_id") = 0, py::arg("device_index") = 0, py::arg("device_type") = static_cast<int>(c10::kXPU));
  m.def("_xpu_getStreamFromExternal", [](uintptr_t queue, int device) {
    device = checked(device);
    return stream_tuple(device, runtime::stream_from_external(device, reinterpret_cast<sycl::queue*>(queue)));
  });
  m.def("_stream_from_pool", [](int device, int priority) {
    device = checked(device);
    return stream_tuple(device, runtime::stream_from_pool(device, priority));
  });
  m.def("_stream_handle",
        [](int64_t id, int device) { return reinterpret_cast<uintptr_t>(&runtime::queue(device, id).share()); });
  m.def("_stream_priority", [](int64_t id, int device) { return runtime::queue(device, id).priority; });
  m.def("_event_elapsed", [](uintptr_t begin, uintptr_t end) {
    TORCH_CHECK(begin && end, "Both events must be recorded before calculating elapsed time.");
    return reinterpret_cast<runtime::Event*>(begin)->elapsed_ms(*reinterpret_cast<runtime::Event*>(end));
  });
  m.def("_event_handle", [](uintptr_t event) {
    return event ? reinterpret_cast<uintptr_t>(reinterpret_cast<runtime::Event*>(event)->sycl_event()) : 0;
  });
}

// The part of the device's policy that generated kernels read (xpu_ops/block/device.py).
std::map<std::string, int64_t> policy_fields(const DeviceInfo& info) {
  const runtime::Policy& p = info.policy;
  return {{"single_items", p.single_items}, {"units", p.units},         {"lanes", p.lanes},
          {"tile_items", p.tile_items},     {"row_items", p.row_items}, {"team_items", p.team_items}};
}

at::Tensor as_cpu(const at::Tensor& t) {
  TORCH_CHECK_TYPE(t.is_xpu(), "as_cpu expects a tensor on an XPU device, got one on ", t.device(), ".");
  TORCH_CHECK(runtime::host_accessible(t.device().index()), "as_cpu: the host cannot read the memory of ", t.device(),
              "; use .cpu(), which copies.");
  NoGil no_gil;
  runtime::synchronize(runtime::current_queue(t.device().index()));
  return alias_as_cpu(t);
}

at::Tensor as_xpu(const at::Tensor& t, int device) {
  TORCH_CHECK_TYPE(t.is_cpu(), "as_xpu expects a CPU tensor, got one on ", t.device(), ".");
  device = checked(device);
  TORCH_CHECK(runtime::host_accessible(device), "as_xpu: xpu:", device,
              " does not work on host memory; use .to('xpu'), which copies.");
  return alias_as_xpu(t, c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(device)));
}

bool move_to_cpu_memory(const at::Tensor& xpu, const at::Tensor& cpu) {
  TORCH_CHECK_TYPE(xpu.is_xpu() && cpu.is_cpu(), "expected a tensor on an XPU device and one on the CPU, got ",
                   xpu.device(), " and ", cpu.device(), ".");
  TORCH_CHECK_VALUE(xpu.storage().nbytes() == cpu.storage().nbytes(), "expected storages of one size, got ",
                    xpu.storage().nbytes(), " and ", cpu.storage().nbytes(), " bytes.");
  NoGil no_gil;
  runtime::synchronize(xpu.device().index());
  return xpu_ops::move_to_cpu_memory(xpu, cpu);
}

void bind_own(py::module_& m) {
  m.def("set_device_mapping", &runtime::set_device_mapping);
  m.def("device_mapping", &runtime::device_mapping);
  m.def("unavailable_reason", &runtime::unavailable_reason);
  m.def("seen_devices", [] {
    std::vector<std::tuple<std::string, std::string, std::string, bool>> seen;
    for (const runtime::SeenDevice& d : runtime::seen_devices())
      seen.emplace_back(d.platform, d.vendor, d.device, d.runs_modules);
    return seen;
  });
  m.def("cpu_memory", [] {
    const runtime::MemoryBudget budget = runtime::cpu_memory();
    return std::pair(budget.bytes, budget.origin);
  });
  m.def("initialized", &runtime::initialized);
  m.def("host_accessible", [](int device) { return runtime::host_accessible(checked(device)); });
  m.def("device_policy", [](int device) { return policy_fields(runtime::device_info(checked(device))); });
  m.def("inline_enabled", &runtime::inline_enabled);
  m.def("set_inline", &runtime::set_inline);
  m.def("inline_ready", [] { return runtime::inline_enabled() && runtime::current_queue().small().ready(); });
  m.def("queue_state", [] { return runtime::kStateTable[static_cast<int>(runtime::current_queue().state())].name; });
  m.def("hide_cuda", [] {
    std::string reason = hide_cuda();
    if (!reason.empty()) hide_xpu();
    return reason;
  });
  m.def("set_module_dir", &runtime::set_module_dir);
  m.def("name_driver_target", &runtime::name_driver_target);
  m.def("prelink_module", [](const std::string& name, int device) {
    NoGil no_gil;
    runtime::prelink_module(name, device);
  });
  m.def("native_class", &runtime::native_class);
  m.def("module_stats", [] {
    const runtime::ModuleStats s = runtime::module_stats();
    return std::map<std::string, int64_t>{{"native", s.native}, {"cached", s.cached}, {"linked", s.linked}};
  });
  m.def("drain", [] {
    if (runtime::initialized()) keep_late_threads();
    NoGil no_gil;
    runtime::drain();
    settle_workers();
  });
  m.def("_define_library", &aten::define_library);
  m.def("as_cpu", &as_cpu);
  m.def("as_xpu", &as_xpu);
  m.def("empty_from_dlpack", &empty_from_dlpack);
  m.def("owner_as_cpu", &owner_as_cpu);
  m.def("move_to_cpu_memory", &move_to_cpu_memory);
  m.def("fallback_counts", &fallback_counts);
  m.def("reset_fallback_counts", &reset_fallback_counts);
  m.def("forbid_fallback", &forbid_fallback);
  m.def("serve_cpu", &serve_cpu);
  m.def("leave_cpu", &leave_cpu);
  m.def("served_cpu", &served_cpu);
  m.def("observe_start", &observe_start);
  m.def("observe_stop", &observe_stop);
  m.def("observe_drain", [] {
    bool backward = false;
    py::list calls;
    for (auto& o : observe_drain(backward)) {
      calls.append(py::make_tuple(o.overload, o.how, o.dtype, o.layout, o.signature, o.cpu_below, o.inner, o.grad,
                                  o.calls, o.host_ns, o.device_ns, o.load_ns));
    }
    return py::make_tuple(calls, backward);
  });
  m.def("reserve_philox", [](const std::optional<at::Generator>& g, uint64_t increment) {
    // Python may use them for anything, and every replay would repeat them.
    translate([] { runtime::refuse_recording(runtime::current_queue(), "The host's drawing of random numbers"); });
    PhiloxState s = reserve_philox(g, increment);
    return py::make_tuple(s.seed, s.offset);
  });
}

}  // namespace
}  // namespace xpu_ops

PYBIND11_MODULE(_C, m) {
  using namespace xpu_ops;
  py::register_local_exception_translator([](std::exception_ptr p) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      try {
        rethrow(e);
      } catch (const std::exception&) { torch::translate_exception_to_python(std::current_exception()); }
    } catch (const c10::Error&) { torch::translate_exception_to_python(std::current_exception()); }
  });
  bind_properties(m);
  bind_devices(m);
  bind_streams(m);
  bind_memory(m);
  bind_graph(m);
  bind_jit(m);
  bind_recording(m);
  bind_compiled_call(m);
  bind_triton(m);
  bind_own(m);
  bind_onednn(m);
  bind_onemkl(m);
  register_profiler();
  bind_distributed(m);
  if (const char* forced = std::getenv("PYTORCH_XPU_FALLBACK_OP")) force_fallback(forced);
  // From here on the tensor constructors run torch.xpu._lazy_init before they touch the device.
  torch::utils::set_requires_device_init(at::kXPU, true);
}
