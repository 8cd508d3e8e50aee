#include "bindings/runtime/observer.hpp"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "kernels/runtime/module/load_time.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMaxShapes = 20000;  // distinct keys with their shapes; what comes later is counted without
constexpr const char* kRoundTrip = "copy_to_the_CPU_and_back";
constexpr size_t kTensorsShown = 6;  // of a signature

enum class Kind { composite, native, fallback };

struct Frame : at::ObserverContext {
  Frame* parent = nullptr;
  std::string overload, dtype, layout, signature;
  Kind kind = Kind::composite;
  bool on_xpu = false, inner = false, grad = false, fell_back_below = false;
  bool copied_to_cpu = false, copied_from_cpu = false;  // by a call below
  std::set<std::string> cpu_below;
  int exceptions = 0;
  int64_t load_ns = 0;  // of this thread, at the start
  Clock::time_point begin;
};

thread_local Frame* t_top = nullptr;

using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, bool, bool>;
struct Sums { int64_t calls = 0, host_ns = 0, device_ns = 0, load_ns = 0; };

struct State {
  std::mutex mutex;
  std::map<Key, Sums> seen;
  std::map<std::pair<std::string, c10::DispatchKey>, bool> has_kernel;
  std::optional<at::CallbackHandle> handle;
  bool backward = false;
  std::atomic<bool> timed{false}, signatures{false};
};
State& state() {
  static auto* s = new State;  // outlives every thread that may still end a call
  return *s;
}

bool has_kernel(const c10::OperatorName& name, const std::string& text, c10::DispatchKey key) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const std::pair at{text, key};
  auto it = s.has_kernel.find(at);
  if (it != s.has_kernel.end()) return it->second;
  auto op = c10::Dispatcher::singleton().findSchema(name);
  return s.has_kernel[at] = op && op->hasKernelForDispatchKey(key);
}

// The properties that the arguments of one call share.
class Arguments {
 public:
  explicit Arguments(bool signatures) : signatures_(signatures) {}

  void look(const c10::IValue& v) {
    if (v.isTensor()) {
      look(v.toTensor());
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) look(t);
    } else if (v.isOptionalTensorList()) {
      for (const auto& t : v.toOptionalTensorVector()) {
        if (t) look(*t);
      }
    } else if (v.isDevice()) {
      xpu_ |= v.toDevice().is_xpu();
    }
  }

  bool xpu() const { return xpu_; }
  // Whose kernel the dispatcher takes: of layouts with keys of their own, the highest.
  c10::DispatchKey key() const { return key_; }
  // Of a copy_: where from and where to, more than one element.
  bool to_cpu() const { return xpu_ && cpu_elements_ > 1 && first_on_cpu_; }
  bool from_cpu() const { return xpu_ && cpu_elements_ > 1 && !first_on_cpu_; }
  bool cpu_work() const { return !xpu_ && cpu_elements_ > 1; }

  void describe(Frame& f) {
    f.dtype = main_ ? c10::toString(*main_) : "";
    f.grad = grad_;
    f.layout = !tensors_ ? "" : !elements_ ? "empty" : layout_;
    if (tensors_ > kTensorsShown) signature_ << ", and " << tensors_ - kTensorsShown << " more";
    if (signatures_) f.signature = signature_.str();
  }

 private:
  void look(const at::Tensor& t) {
    // By key and not by device: a fake tensor has the device, and no kernel of ours ever sees it.
    if (!t.defined() || t.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return;
    xpu_ |= t.key_set().has_backend(c10::BackendComponent::XPUBit);
    if (t.is_nested()) {
      key_ = c10::DispatchKey::NestedTensorXPU;
      return;
    }
    if (t.layout() != c10::kStrided) {
      if (at::sparse_csr::is_sparse_compressed(t))
        key_ = c10::DispatchKey::SparseCsrXPU;
      else if (t.is_sparse() && key_ == c10::DispatchKey::XPU)
        key_ = c10::DispatchKey::SparseXPU;
      return;
    }
    if (t.is_quantized() && key_ == c10::DispatchKey::XPU) key_ = c10::DispatchKey::QuantizedXPU;
    const auto numel = t.numel();
    if (!tensors_) first_on_cpu_ = t.is_cpu();
    if (t.is_cpu()) cpu_elements_ = std::max<int64_t>(cpu_elements_, numel);
    grad_ |= t.requires_grad();
    elements_ += numel;
    const auto type = t.scalar_type();
    const bool real = c10::isFloatingType(type) || c10::isComplexType(type);
    if (!main_ || (real && !main_is_float_)) {
      main_ = type;
      main_is_float_ = real;
    }
    if (numel > 1) rank(t);
    if (signatures_ && tensors_ < kTensorsShown)
      signature_ << (tensors_ ? ", " : "") << c10::toString(type) << t.sizes();
    ++tensors_;
  }

  void rank(const at::Tensor& t) {
    static const char* const names[] = {"contiguous", "dense", "expanded", "strided"};
    int r = t.is_contiguous() ? 0 : t.is_non_overlapping_and_dense() ? 1 : 3;
    if (r == 3) {
      for (int64_t d = 0; d < t.dim(); ++d) {
        if (t.stride(d) == 0 && t.size(d) > 1) r = 2;
      }
    }
    if (r >= rank_) layout_ = names[rank_ = r];
  }

  bool signatures_, xpu_ = false, grad_ = false, main_is_float_ = false, first_on_cpu_ = false;
  int64_t elements_ = 0, cpu_elements_ = 0;
  size_t tensors_ = 0;
  int rank_ = 0;
  c10::DispatchKey key_ = c10::DispatchKey::XPU;
  std::string layout_ = "contiguous";
  std::optional<c10::ScalarType> main_;
  std::ostringstream signature_;
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  State& s = state();
  if (fn.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.backward = true;
    return nullptr;
  }
  auto name = fn.operator_name();
  if (!name) return nullptr;
  auto frame = std::make_unique<Frame>();
  Arguments arguments(s.signatures);
  for (const auto& v : fn.inputs()) arguments.look(v);
  std::ostringstream text;
  text << *name;
  frame->overload = text.str();
  frame->on_xpu = arguments.xpu();
  frame->parent = t_top;
  frame->inner = t_top && (t_top->inner || t_top->kind != Kind::composite);
  if (frame->on_xpu) {
    arguments.describe(*frame);
    if (has_kernel(*name, frame->overload, arguments.key())) frame->kind = Kind::native;
    if (frame->inner && frame->overload == "aten::copy_") {
      for (Frame* f = t_top; f; f = f->parent) {
        f->copied_to_cpu |= arguments.to_cpu();
        f->copied_from_cpu |= arguments.from_cpu();
      }
    }
  } else if (frame->inner && arguments.cpu_work()) {
    for (Frame* f = t_top; f; f = f->parent) {
      if (f->kind == Kind::native && f->cpu_below.size() < 8) f->cpu_below.insert(frame->overload);
    }
  }
  t_top = frame.get();
  frame->exceptions = std::uncaught_exceptions();
  frame->load_ns = runtime::module_load_ns();
  frame->begin = Clock::now();
  return frame;
}

int64_t nanoseconds(Clock::duration d) { return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count(); }

void record(const Frame& f, bool raised, int64_t host_ns, int64_t device_ns, int64_t load_ns) {
  static const char* const kinds[] = {"composite", "native", "fallback"};
  std::string how = kinds[static_cast<int>(f.kind)], cpu;
  if (f.kind != Kind::fallback && f.fell_back_below) how += "+fallback";
  if (f.kind == Kind::native && !f.fell_back_below && raised) how = "raised";
  for (const auto& name : f.cpu_below) cpu += (cpu.empty() ? "" : " ") + name;
  // The values went to the host and came back: numpy, for example, computed, and not the device.
  if (f.kind == Kind::native && f.copied_to_cpu && f.copied_from_cpu)
    cpu += (cpu.empty() ? "" : " ") + std::string(kRoundTrip);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  const std::string signature = s.seen.size() < kMaxShapes ? f.signature : "";
  Sums& sums = s.seen[{f.overload, how, f.dtype, f.layout, signature, cpu, f.inner, f.grad}];
  ++sums.calls;
  sums.host_ns += host_ns - load_ns;
  sums.device_ns += device_ns;
  sums.load_ns += load_ns;
}

void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  auto* f = static_cast<Frame*>(context);
  if (!f) return;
  const auto returned = Clock::now();
  t_top = f->parent;
  const bool raised = std::uncaught_exceptions() > f->exceptions;
  const bool leaf = f->on_xpu && !f->inner && f->kind != Kind::composite;
  auto idle = returned;
  if (leaf && !raised && state().timed) {
    // Not runtime::synchronize, which raises what kernels report: torch drops what an observer throws.
    runtime::Queue& queue = runtime::current_queue();
    if (!runtime::recording(queue)) queue.wait();
    idle = Clock::now();
  }
  const bool fell_back = f->kind == Kind::fallback || f->fell_back_below;
  // Of what raised: kernels, and the fallback that was refused.
  if (f->on_xpu && (!raised || fell_back || leaf))
    record(*f, raised, nanoseconds(returned - f->begin), nanoseconds(idle - returned),
           runtime::module_load_ns() - f->load_ns);
}

}  // namespace

void observe_start(bool timed, bool signatures) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  TORCH_CHECK(!s.handle, "xpu_ops: operators are being traced already; one trace at a time.");
  s.seen.clear();
  s.has_kernel.clear();  // a library may have registered kernels since
  s.backward = false;
  s.timed = timed;
  s.signatures = signatures;
  s.handle = at::addGlobalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

std::vector<Observed> observe_drain(bool& backward) {
  State& s = state();
  std::map<Key, Sums> seen;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    seen.swap(s.seen);
    backward = std::exchange(s.backward, false);
  }
  std::vector<Observed> out;
  out.reserve(seen.size());
  for (const auto& [key, sums] : seen) {
    const auto& [overload, how, dtype, layout, signature, cpu, inner, grad] = key;
    out.push_back({overload, how, dtype, layout, signature, cpu, inner, grad, sums.calls, sums.host_ns, sums.device_ns,
                   sums.load_ns});
  }
  return out;
}

void observe_stop() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.handle) at::removeCallback(*s.handle);
  s.handle.reset();
}

void observe_fallback(const std::string& overload) {
  for (Frame* f = t_top; f; f = f->parent) {
    if (f == t_top && f->overload == overload) {
      f->kind = Kind::fallback;
    } else {
      f->fell_back_below = true;
    }
  }
}

}  // namespace xpu_ops
