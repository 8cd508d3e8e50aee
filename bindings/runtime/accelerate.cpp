#include "bindings/runtime/accelerate.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "bindings/aten/memory/alias.hpp"
#include "bindings/errors.hpp"
#include "bindings/second_kernel.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

// A kernel of the device may call CPU operators: those are torch's own.
thread_local bool t_serving = false;

struct Serving {
  Serving() { t_serving = true; }
  ~Serving() { t_serving = false; }
};

// Applies `fn` to each tensor of a value and puts what it returns in its place.
template <class Fn>
void each_tensor(c10::IValue& v, Fn&& fn) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) v = fn(v.toTensor());
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(t.defined() ? fn(t) : t);
    v = std::move(list);
  } else if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector())
      list.push_back(t && t->defined() ? std::make_optional(fn(*t)) : t);
    v = std::move(list);
  }
}

// Dense elements in memory, and nothing that a kernel would have to resolve.
bool plain(const at::Tensor& t) {
  return t.is_cpu() && t.layout() == c10::kStrided && !t.is_quantized() && !t.is_nested() && !t.is_conj() &&
         !t.is_neg() && !t._is_zerotensor() && t.has_storage();
}

// Whose results are an output and what its gradient needs of mean and variance.
bool saves_statistics(const std::string& name) {
  return name == "aten::native_layer_norm" || name == "aten::native_batch_norm" ||
         name == "aten::_native_batch_norm_legit" || name == "aten::_batch_norm_with_update";
}

class Served final : public c10::OperatorKernel {
 public:
  Served(c10::SafeKernelFunction cpu, int64_t least, bool statistics, std::shared_ptr<std::atomic<int64_t>> calls)
      : cpu_(std::move(cpu)), least_(least), statistics_(statistics), calls_(std::move(calls)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    if (t_serving || !pays(*stack, op.schema().arguments().size())) return cpu_.callBoxed(op, keys, stack);
    const Serving serving;
    translate([&] { run(op, *stack); });
    calls_->fetch_add(1, std::memory_order_relaxed);
  }

 private:
  bool pays(torch::jit::Stack& stack, size_t arguments) const {
    int64_t largest = 0;
    bool served = true;
    const auto see = [&](const at::Tensor& t) {
      if (!t.defined()) return;
      served = served && plain(t);
      if (served) largest = std::max(largest, t.numel());
    };
    for (size_t i = stack.size() - arguments; served && i < stack.size(); ++i) {
      const c10::IValue& v = stack[i];
      if (v.isTensor()) {
        see(v.toTensor());
      } else if (v.isTensorList()) {
        for (const at::Tensor& t : v.toTensorVector()) see(t);
      } else if (v.isOptionalTensorList()) {
        for (const auto& t : v.toOptionalTensorVector()) {
          if (t) see(*t);
        }
      }
    }
    return served && largest >= least_ && largest > 0;
  }

  // Statistics are float32 on the device. ATen's CPU kernels have them in the type of a 16-bit input unless an operand
  // is float32, and their gradients ask for that.
  std::optional<at::ScalarType> type_of_statistics(
      const std::vector<std::pair<at::Tensor, at::Tensor>>& operands) const {
    if (!statistics_ || operands.empty()) return std::nullopt;
    const at::ScalarType type = operands[0].first.scalar_type();
    const bool wide = std::any_of(operands.begin(), operands.end(),
                                  [](const auto& operand) { return operand.first.scalar_type() == at::kFloat; });
    return wide || !at::isReducedFloatingType(type) ? std::nullopt : std::make_optional(type);
  }

  void run(const c10::OperatorHandle& op, torch::jit::Stack& stack) const {
    const auto index = static_cast<c10::DeviceIndex>(runtime::current_device());
    const c10::Device device(c10::kXPU, index);
    std::vector<std::pair<at::Tensor, at::Tensor>> moved;  // of the CPU, and its alias
    const size_t arguments = op.schema().arguments().size();
    for (size_t i = stack.size() - arguments; i < stack.size(); ++i) {
      each_tensor(stack[i], [&](const at::Tensor& t) {
        for (const auto& [cpu, xpu] : moved) {
          if (cpu.is_same(t)) return xpu;
        }
        at::Tensor xpu = alias_as_xpu(t, device);
        if (t.unsafeGetTensorImpl()->is_wrapped_number()) xpu.unsafeGetTensorImpl()->set_wrapped_number(true);
        moved.emplace_back(t, xpu);
        return xpu;
      });
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::XPU), &stack);
    runtime::synchronize(runtime::current_queue(index));
    const auto statistics = type_of_statistics(moved);
    for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
      each_tensor(stack[i], [&](const at::Tensor& t) {
        for (const auto& [cpu, xpu] : moved) {
          if (xpu.is_same(t)) return cpu;
        }
        const at::Tensor cpu = t.is_xpu() ? alias_as_cpu(t) : t;
        return statistics && cpu.scalar_type() == at::kFloat ? cpu.to(*statistics) : cpu;
      });
    }
  }

  c10::SafeKernelFunction cpu_;
  int64_t least_;
  bool statistics_;
  std::shared_ptr<std::atomic<int64_t>> calls_;
};

struct Registration {
  std::unique_ptr<torch::Library> library;
  std::shared_ptr<std::atomic<int64_t>> calls;
};
struct Registrations {
  std::mutex mutex;
  std::map<std::string, Registration> by_overload;
};
// Never destroyed: a destructor at the end of the process would take the registrations back from a torch that is gone.
Registrations& registrations() {
  static auto* r = new Registrations;
  return *r;
}

void check_served(const c10::OperatorHandle& op, const std::string& overload) {
  const auto refuse = [&](const char* reason) {
    C10_THROW_ERROR(ValueError, c10::str("accelerate_cpu cannot serve ", overload, ": ", reason));
  };
  using Key = c10::DispatchKey;
  if (op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd))
    refuse("it is composed of other operators; name those");
  if (!op.hasComputedKernelForDispatchKey(Key::CPU)) refuse("it has no kernel for the CPU");
  if (!op.hasKernelForDispatchKey(Key::XPU) && !op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd))
    refuse("it has no kernel for xpu");
  for (const auto& argument : op.schema().arguments()) {
    if (argument.is_out()) refuse("it writes to out=");
    const std::string type = argument.type()->str();
    if (type.rfind("Generator", 0) == 0) refuse("it draws random numbers, which would be others");
    if (type.rfind("Device", 0) == 0) refuse("it makes tensors of a device");
  }
  for (const auto& result : op.schema().returns()) {
    if (result.alias_info() && !result.alias_info()->isWrite()) refuse("its result is a view");
  }
}

}  // namespace

void serve_cpu(const std::string& overload, int64_t least) {
  const size_t colons = overload.find("::"), dot = overload.find('.');
  if (colons == std::string::npos)
    C10_THROW_ERROR(ValueError, c10::str("expected an overload as aten::gelu, got ", overload));
  const std::string name = overload.substr(0, dot), variant = dot == std::string::npos ? "" : overload.substr(dot + 1);
  const auto op = c10::Dispatcher::singleton().findSchema({name, variant});
  if (!op) C10_THROW_ERROR(ValueError, c10::str("torch has no operator ", overload));
  check_served(*op, overload);
  std::lock_guard lock(registrations().mutex);
  auto& all = registrations().by_overload;
  all.erase(overload);  // torch's own kernel is the one to keep
  auto calls = std::make_shared<std::atomic<int64_t>>(0);
  auto functor = std::make_unique<Served>(op->getComputedKernelForDispatchKey(c10::DispatchKey::CPU), least,
                                          saves_statistics(name), calls);
  const SecondKernel quiet;
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, name.substr(0, colons), c10::DispatchKey::CPU,
                                                  __FILE__, __LINE__);
  library->impl(overload.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(functor)));
  all.emplace(overload, Registration{std::move(library), std::move(calls)});
}

void leave_cpu(const std::string& overload) {
  std::lock_guard lock(registrations().mutex);
  registrations().by_overload.erase(overload);
}

std::map<std::string, int64_t> served_cpu() {
  std::lock_guard lock(registrations().mutex);
  std::map<std::string, int64_t> counts;
  for (const auto& [overload, registration] : registrations().by_overload)
    counts[overload] = registration.calls->load(std::memory_order_relaxed);
  return counts;
}

}  // namespace xpu_ops
