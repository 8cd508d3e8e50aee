#include "bindings/runtime/fallback.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "bindings/aten/memory/alias.hpp"
#include "bindings/aten/memory/storage.hpp"
#include "bindings/aten/memory/transfer.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/generator.hpp"
#include "bindings/runtime/observer.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

struct Counts {
  std::mutex mutex;
  std::unordered_map<std::string, int64_t> by_overload;
};
Counts& counts() {
  static auto* c = new Counts;
  return *c;
}
std::atomic<int> g_forbidden{0};

// A collective gives its results when its Work is done, after the call: the fallback would carry the old ones back.
void refuse_collectives(const c10::OperatorHandle& op, const std::string& name) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.schema().name().rfind("c10d::", 0) != 0, "The operator '", name,
                              "' of torch.distributed does not take xpu tensors. Communicate CPU copies.");
}

void admit(const c10::OperatorHandle& op) {
  std::ostringstream os;
  os << op.schema().operator_name();
  const std::string name = os.str();
  refuse_collectives(op, name);
  observe_fallback(name);
  static const bool enabled = runtime::env_flag("PYTORCH_ENABLE_XPU_FALLBACK", true);
  static const bool debug = runtime::env_flag("PYTORCH_DEBUG_XPU_FALLBACK", false);
  TORCH_CHECK_NOT_IMPLEMENTED(
      enabled, "The operator '", name,
      "' has no kernel for the XPU device and PYTORCH_ENABLE_XPU_FALLBACK=0 forbids to run it on "
      "the CPU.");
  TORCH_CHECK_NOT_IMPLEMENTED(g_forbidden.load(std::memory_order_relaxed) == 0, "The operator '", name,
                              "' has no kernel for the XPU device and falling back to the CPU is forbidden here.");
  {
    std::lock_guard<std::mutex> lock(counts().mutex);
    counts().by_overload[name]++;
  }
  if (debug) {
    TORCH_WARN("The operator '", name, "' on the XPU backend is falling back to run on the CPU.");
  } else {
    TORCH_WARN_ONCE("The operator '", name,
                    "' has no kernel for the XPU device and runs on the CPU; others may follow. "
                    "xpu_ops.fallback.counts() lists them, PYTORCH_DEBUG_XPU_FALLBACK=1 names each call.");
  }
}

// Carries one call over to the CPU and its results back.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op), stack_(*stack) {}

  void run() {
    const auto& schema = op_.schema();
    const size_t n = schema.arguments().size(), first = stack_.size() - n;
    for (size_t i = 0; i < n; ++i) look(stack_[first + i]);
    TORCH_CHECK_NOT_IMPLEMENTED(key_ == c10::DispatchKey::CPU || op_.hasComputedKernelForDispatchKey(key_),
                                "The operator '", schema.operator_name(), "' has no kernel for ",
                                key_ == c10::DispatchKey::QuantizedCPU ? "quantized" : "sparse",
                                " tensors, neither on the XPU device nor on the CPU.");
    if (device_) {
      device_guard_.reset_device(*device_);
      zero_copy_ = runtime::host_accessible(device_->index());
      runtime::synchronize(runtime::current_queue());
    }
    for (size_t i = 0; i < n; ++i) {
      const auto& argument = schema.arguments()[i];
      writable_ = argument.alias_info() && argument.alias_info()->isWrite();
      convert(stack_[first + i]);
      if (device_ && stack_[first + i].isNone() && argument.type()->str() == "Generator?")
        stack_[first + i] = cpu_generator(default_generator(device_->index()));
    }
    op_.redispatchBoxed(c10::DispatchKeySet(key_), &stack_);
    for (auto& moved : moved_) {
      if (moved.writable) write_back(moved);
    }
    const size_t results = schema.returns().size(), out = stack_.size() - results;
    for (size_t i = 0; i < results; ++i) {
      const auto* alias = schema.returns()[i].alias_info();
      TORCH_CHECK(!alias || alias->isWrite(), "The operator ", schema.operator_name(),
                  " is a view and cannot fall back to the CPU: its result has to share memory with its XPU argument.");
      bring_back(stack_[out + i]);
    }
  }

 private:
  struct Moved {
    at::Tensor xpu, cpu;
    bool writable;
  };

  // The device of the call is that of its tensors or, in a factory, of its device argument.
  void look(const c10::IValue& v) {
    if (v.isTensor()) {
      see(v.toTensor());
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) see(t);
    } else if (v.isOptionalTensorList()) {
      for (const auto& t : v.toOptionalTensorVector()) {
        if (t) see(*t);
      }
    } else if (v.isDevice() && v.toDevice().is_xpu() && !device_) {
      c10::Device d = v.toDevice();
      device_ = d.has_index() ? d : c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(runtime::current_device()));
    }
  }

  void see(const at::Tensor& t) {
    if (!t.defined()) return;
    if (t.is_quantized())
      key_ = c10::DispatchKey::QuantizedCPU;
    else if (at::sparse_csr::is_sparse_compressed(t))
      key_ = c10::DispatchKey::SparseCsrCPU;
    else if (t.is_sparse() && key_ == c10::DispatchKey::CPU)
      key_ = c10::DispatchKey::SparseCPU;
    if (t.is_xpu()) {
      TORCH_CHECK(!tensor_device_ || *tensor_device_ == t.device(),
                  "Expected all tensors to be on the same device, but found at least two devices, ", *tensor_device_,
                  " and ", t.device(), "!");
      tensor_device_ = device_ = t.device();
    } else {
      // As the kernels of upstream's devices: a CPU scalar may take part, any other CPU tensor is a mistake.
      if (t.is_cpu() && t.dim() > 0) cpu_tensor_ = true;
    }
    TORCH_CHECK(!(cpu_tensor_ && tensor_device_) || takes_cpu_tensors(),
                "Expected all tensors to be on the same device, but found at least two devices, ", *tensor_device_,
                " and cpu!");
  }

  // Indices, lengths and the like may lie on the CPU for a few operators.
  bool takes_cpu_tensors() const {
    const std::string& name = op_.schema().name();
    static const char* const names[] = {
        "aten::index",     "aten::index_put",  "aten::_index_put_impl",  "aten::_pack_padded_sequence",
        "aten::_ctc_loss", "aten::_cudnn_rnn", "aten::repeat_interleave"};
    for (const char* n : names) {
      if (name.rfind(n, 0) == 0) return true;
    }
    return false;
  }

  at::Tensor to_cpu(const at::Tensor& t) {
    if (!t.defined() || !t.is_xpu()) return t;
    // The same tensor twice must stay one tensor: in-place operators rely on it.
    for (auto& m : moved_) {
      if (m.xpu.is_same(t)) {
        m.writable |= writable_;
        return m.cpu;
      }
    }
    at::Tensor cpu;
    if (t.layout() != c10::kStrided || t.is_quantized()) {
      cpu = t.to(at::kCPU);
    } else if (zero_copy_) {
      cpu = alias_as_cpu(t);
    } else {
      cpu = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kCPU));
      cpu._set_conj(t.is_conj());
      cpu._set_neg(t.is_neg());
      if (t.numel()) {
        size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
        runtime::copy_bytes(runtime::current_queue(), cpu.mutable_data_ptr(), t.const_data_ptr(), bytes, true);
      }
    }
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
    moved_.push_back({t, cpu, writable_});
    return cpu;
  }

  void convert(c10::IValue& v) {
    if (v.isTensor()) {
      v = to_cpu(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> cpu;
      for (const at::Tensor& t : v.toTensorVector()) cpu.push_back(to_cpu(t));
      v = std::move(cpu);
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> cpu;
      for (const auto& t : v.toOptionalTensorVector()) cpu.push_back(t ? std::make_optional(to_cpu(*t)) : t);
      v = std::move(cpu);
    } else if (v.isDevice()) {
      v = c10::Device(c10::kCPU);
    } else if (v.isGenerator() && v.toGenerator().device().is_xpu()) {
      TORCH_CHECK(device_, "Expected a 'cpu' device type for generator but found 'xpu'");
      v = cpu_generator(v.toGenerator());
    }
  }

  // Random numbers of an operator that has no XPU kernel still follow the XPU generator's seed.
  static at::Generator cpu_generator(const at::Generator& g) {
    translate([] { runtime::refuse_recording(runtime::current_queue(), "The CPU fallback of a random operator"); });
    PhiloxState s = reserve_philox(g, 4);
    return at::detail::createCPUGenerator(s.seed * 0x9E3779B97F4A7C15ull + s.offset);
  }

  void write_back(Moved& m) {
    if (m.cpu.is_quantized()) {
      if (m.cpu.sizes() != m.xpu.sizes()) m.xpu.resize_(m.cpu.sizes());
      m.xpu.copy_(m.cpu);
      return;
    }
    if (m.cpu.layout() != c10::kStrided) {
      if (!m.cpu.is_sparse()) m.xpu.resize_as_sparse_(m.cpu);
      m.xpu.copy_(m.cpu);
      return;
    }
    const bool resized = m.cpu.sizes() != m.xpu.sizes() || m.cpu.strides() != m.xpu.strides();
    if (resized) {
      size_t bytes =
          at::detail::computeStorageNbytes(m.cpu.sizes(), m.cpu.strides(), m.cpu.itemsize(), m.xpu.storage_offset());
      auto* storage = m.xpu.storage().unsafeGetStorageImpl();
      if (m.cpu.numel() && bytes > storage->nbytes()) aten::resize_storage(storage, bytes, m.xpu.device());
      m.xpu.unsafeGetTensorImpl()->set_sizes_and_strides(m.cpu.sizes(), m.cpu.strides());
    }
    if (m.cpu.numel() == 0 || m.cpu.const_data_ptr() == m.xpu.const_data_ptr()) return;
    // Dense or not, the image has the strides of the original: its reachable bytes go over as they are.
    size_t bytes = at::detail::computeStorageNbytes(m.cpu.sizes(), m.cpu.strides(), m.cpu.itemsize());
    runtime::copy_bytes(runtime::current_queue(), m.xpu.mutable_data_ptr(), m.cpu.const_data_ptr(), bytes, true);
  }

  at::Tensor to_xpu(const at::Tensor& t) {
    if (!t.defined() || !t.is_cpu() || !device_) return t;
    const char* const foreign = t.is_nested() ? "nested" : t.is_mkldnn() ? "MKL-DNN" : nullptr;
    TORCH_CHECK_NOT_IMPLEMENTED(!foreign, "The operator ", op_.schema().operator_name(), " gave a ", foreign,
                                " tensor on the CPU, which the XPU device does not have.");
    for (auto& m : moved_) {
      if (m.cpu.is_same(t)) return m.xpu;
    }
    if (t.layout() != c10::kStrided || t.is_quantized()) return t.to(*device_);
    // A result that is an alias of an argument's memory, as reshape-like operators return: an own copy, with its
    // strides.
    at::Tensor out;
    if (t.is_non_overlapping_and_dense()) {
      out = aten::empty_strided(t.sizes(), t.strides(), t.scalar_type(), *device_);
      out._set_conj(t.is_conj());
      out._set_neg(t.is_neg());
    } else {
      out = aten::empty(t.sizes(), t.scalar_type(), *device_);
    }
    if (t.numel()) aten::copy_dense(out, t, false);
    return out;
  }

  void bring_back(c10::IValue& v) {
    if (v.isTensor()) {
      v = to_xpu(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> xpu;
      for (const at::Tensor& t : v.toTensorVector()) xpu.push_back(to_xpu(t));
      v = std::move(xpu);
    }
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::optional<c10::Device> device_, tensor_device_;
  c10::OptionalDeviceGuard device_guard_;
  std::vector<Moved> moved_;
  c10::DispatchKey key_ = c10::DispatchKey::CPU;
  bool zero_copy_ = false, writable_ = false, cpu_tensor_ = false;
};

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  admit(op);
  translate([&] { Call(op, stack).run(); });
}

}  // namespace

std::map<std::string, int64_t> fallback_counts() {
  std::lock_guard<std::mutex> lock(counts().mutex);
  return {counts().by_overload.begin(), counts().by_overload.end()};
}

void reset_fallback_counts() {
  std::lock_guard<std::mutex> lock(counts().mutex);
  counts().by_overload.clear();
}

void forbid_fallback(bool forbid) { g_forbidden.fetch_add(forbid ? 1 : -1); }

torch::CppFunction fallback_kernel() { return torch::CppFunction::makeFromBoxedFunction<&fallback>(); }

void force_fallback(const std::string& overloads) {
  if (overloads.empty()) return;
  // Lives as long as the process: its destructor would take the registrations back.
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::XPU, __FILE__, __LINE__);
  std::istringstream names(overloads);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) continue;
    TORCH_WARN("The operator '", name, "' is forced to run on the CPU by PYTORCH_XPU_FALLBACK_OP.");
    library->impl(name.c_str(), fallback_kernel());
  }
}

}  // namespace xpu_ops

TORCH_LIBRARY_IMPL(_, XPU, m) { m.fallback(xpu_ops::fallback_kernel()); }
TORCH_LIBRARY_IMPL(_, SparseXPU, m) { m.fallback(xpu_ops::fallback_kernel()); }
TORCH_LIBRARY_IMPL(_, SparseCsrXPU, m) { m.fallback(xpu_ops::fallback_kernel()); }
TORCH_LIBRARY_IMPL(_, QuantizedXPU, m) { m.fallback(xpu_ops::fallback_kernel()); }
// torch's fallbacks of lazy conjugation and negation copy a result back where record_stream has none: they read behind
// the end of the stack. The stream is the storage's, whatever the bits say.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("record_stream", torch::CppFunction::makeFallthrough()); }
// torch composes the functional forms of structured operators, also of quantized tensors, for which they cannot work:
// the CPU has kernels of these.
TORCH_LIBRARY_IMPL(aten, QuantizedXPU, m) {
  for (const char* name : {"_upsample_nearest_exact2d",
                           "_upsample_nearest_exact3d",
                           "avg_pool2d",
                           "avg_pool3d",
                           "cat",
                           "clamp",
                           "eq.Scalar",
                           "eq.Tensor",
                           "ge.Scalar",
                           "ge.Tensor",
                           "gelu",
                           "gelu_",
                           "gt.Scalar",
                           "gt.Tensor",
                           "hardsigmoid",
                           "index.Tensor",
                           "le.Scalar",
                           "le.Tensor",
                           "leaky_relu",
                           "leaky_relu_",
                           "lt.Scalar",
                           "lt.Tensor",
                           "mean.dim",
                           "ne.Scalar",
                           "ne.Tensor",
                           "sigmoid",
                           "sort.stable",
                           "tanh",
                           "threshold",
                           "topk",
                           "upsample_bilinear2d",
                           "upsample_nearest2d",
                           "upsample_nearest3d"})
    m.impl(name, xpu_ops::fallback_kernel());
}
