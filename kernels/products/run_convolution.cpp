// The attempts of a convolution and of its gradients.
#include <optional>

#include "kernels/mkl/blas.hpp"
#include "kernels/onednn/convolution.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/weight_cache.hpp"
#include "kernels/products/chain.hpp"
#include "kernels/products/columns.hpp"
#include "kernels/products/copies.hpp"
#include "kernels/products/plan.hpp"
#include "kernels/products/run.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::products {
namespace {

using Memory = std::optional<runtime::Scratch>;
using Pass = ops::ConvPass;

void allocate(View& v, Memory& memory) { v.data = memory.emplace(v.numel() * dtype_size(v.type)).get(); }

View wide_view(const View& v, bool wide) {
  const DType type = wide ? wide_type(v.type) : v.type;
  return type == v.type ? v : like(v, type);
}

void fill(runtime::Queue& queue, View& v, const View& from, Memory& memory) {
  if (v.data) return;
  allocate(v, memory);
  convert(queue, v, from);
}

// As Tensor.contiguous in the layout of the problem.
View in_format(const View& v, bool channels_last) {
  if (is_dense(v)) return v;
  View r = v;
  int64_t next = 1;
  const auto put = [&](int d) {
    if (v.dims[d] != 1 && v.strides[d] != next) r.data = nullptr;
    r.strides[d] = next;
    next *= v.dims[d];
  };
  if (channels_last) put(1);
  for (int d = v.ndim - 1; d >= (channels_last ? 2 : 1); --d) put(d);
  put(0);
  return r.data ? v : r;
}

void launch_direct(runtime::Queue& queue, Pass pass, const View& src, const View& weights, const void* bias,
                   const View& dst, const ConvGeometry& g) {
  ops::DirectProblem a = direct_problem(src, weights, dst, g);
  a.src = src.data;
  a.weights = weights.data;
  a.bias = bias;
  a.dst = dst.data;
  const View& written = pass == Pass::forward ? dst : pass == Pass::backward_data ? src : weights;
  ops::direct_convolution(queue, pass, written.type, a, written.numel());
}

// A transposed convolution is the gradient of one whose source is its result.
bool columns(runtime::Queue& queue, Pass pass, const ConvProblem& p, const View* bias = nullptr) {
  if (!mkl::takes_products(queue)) return false;
  if (p.geometry.transposed) {
    const Pass turned = pass == Pass::forward         ? Pass::backward_data
                        : pass == Pass::backward_data ? Pass::forward
                                                      : pass;
    run_columns(queue, turned, p.dst, p.weights, bias, p.src, p.geometry);
  } else {
    run_columns(queue, pass, p.src, p.weights, bias, p.dst, p.geometry);
  }
  return true;
}

void launch_depthwise(runtime::Queue& queue, const ConvProblem& p) {
  View w = p.weights;
  Memory memory;
  if (!is_dense(w)) {
    w = in_format(w, false);
    fill(queue, w, p.weights, memory);
  }
  View bias;
  Memory bias_memory;
  if (p.epilogue.bias) bias = in_format(*p.epilogue.bias, false);
  if (p.epilogue.bias) fill(queue, bias, *p.epilogue.bias, bias_memory);
  ops::DirectProblem a = direct_problem(p.src, w, p.dst, p.geometry);
  a.src = p.src.data;
  a.weights = w.data;
  a.bias = bias.data;
  a.dst = p.dst.data;
  if (const auto gate = gate_of(p.activation)) {
    a.gate = *gate;
  } else {
    a.activation = p.activation.kind;
    a.alpha = p.activation.alpha;
    a.beta = p.activation.beta;
  }
  ops::depthwise_convolution(queue, p.src.type, p.activation.kind != ConvActivation::none, a);
}

class ForwardOracle {
 public:
  ForwardOracle(runtime::Queue& queue, const ConvProblem& problem) : queue_(queue), p_(problem) {}

  bool operator()(const Attempt& attempt) {
    if (attempt.engine == Engine::own) {
      launch_depthwise(queue_, p_);
      return true;
    }
    if (attempt.engine == Engine::columns) return columns(queue_, Pass::forward, p_, p_.epilogue.bias);
    WeightRef weight;
    if (attempt.engine == Engine::primitive && (attempt.packed || !attempt.wide)) weight = name();
    if (attempt.packed && !weight.storage) return false;
    Memory memory[3];
    View x = wide_view(p_.src, attempt.wide), w = wide_view(p_.weights, attempt.wide && !attempt.packed);
    if (attempt.engine == Engine::primitive) x = in_format(x, p_.channels_last);
    View out = wide_view(p_.dst, attempt.wide);
    fill(queue_, x, p_.src, memory[0]);
    fill(queue_, w, p_.weights, memory[1]);
    const bool aside = !out.data;
    if (aside) allocate(out, memory[2]);
    if (aside && p_.epilogue.reads_result) convert(queue_, out, p_.dst);
    PreparedEpilogue epilogue(p_.epilogue, out, attempt.wide, false);
    if (epilogue.copies()) epilogue.copy(queue_);
    if (attempt.engine == Engine::direct) {
      const void* bias = epilogue.bias() ? epilogue.bias()->data : nullptr;
      if (p_.geometry.transposed)
        launch_direct(queue_, Pass::backward_data, out, w, bias, x, p_.geometry);
      else
        launch_direct(queue_, Pass::forward, x, w, bias, out, p_.geometry);
    } else if (!onednn::convolution_forward(queue_, x, w, epilogue.bias(), out, p_.geometry, epilogue.post(), weight)) {
      return false;
    }
    if (aside) convert(queue_, p_.dst, out);
    return true;
  }

 private:
  const WeightRef& name() {
    if (!asked_ && p_.weight.name) ref_ = p_.weight.name(p_.weight.owner);
    asked_ = true;
    return ref_;
  }

  runtime::Queue& queue_;
  const ConvProblem& p_;
  WeightRef ref_;
  bool asked_ = false;
};

}  // namespace

bool run_depthwise(runtime::Queue& queue, const ConvProblem& p) {
  const auto& policy = runtime::device_info(queue.device).policy;
  if (!is_depthwise(p.src, p.weights, p.dst, p.geometry, policy)) return false;
  launch_depthwise(queue, p);
  return true;
}

Served run(runtime::Queue& queue, const ConvProblem& problem) {
  const Plan plan = plan_convolution(problem, Pass::forward, runtime::device_info(queue.device).policy);
  const Attempt* served = choose(plan, ForwardOracle(queue, problem));
  if (!served) return Served::no;
  return served->engine == Engine::own || !problem.tail ? Served::whole : Served::without_tail;
}

namespace {

// A tensor made of a weight and a norm, kept under a name of its own.
std::shared_ptr<onednn::PackedWeight> keep(runtime::Queue& queue, const Folded& f, uint64_t form, View to,
                                           View (*make)(const void*)) {
  return onednn::WeightCache::instance().get(queue, f.ref, form, to.numel() * dtype_size(to.type), [&](void* data) {
    to.data = data;
    convert(queue, to, make(f.owner));
  });
}

void launch_folded_depthwise(runtime::Queue& queue, const ConvProblem& p, const Folded& f) {
  ops::DirectProblem a = direct_problem(p.src, p.weights, p.dst, p.geometry);
  constexpr uint64_t kTaps = 0x7461707300000000;
  View taps;
  taps.type = DType::f32;
  taps.push((int64_t{a.kernel[1]} * a.kernel[2] + 1) * a.ci, 1);
  const auto kept = keep(queue, f, kTaps, taps, f.taps);
  a.src = p.src.data;
  a.weights = kept->data;
  a.dst = p.dst.data;
  a.gate = *gate_of(p.activation);
  a.in_low = f.low;
  a.in_high = f.high;
  ops::depthwise_last(queue, p.src.type, f.bounded, a);
}

}  // namespace

Served run(runtime::Queue& queue, const ConvProblem& p, const Folded& f) {
  if (!is_channels_last(p.src) || !is_channels_last(p.dst)) return Served::no;
  if (plan_folded_depthwise(p, f.bounded, runtime::device_info(queue.device).policy)) {
    launch_folded_depthwise(queue, p, f);
    return Served::whole;
  }
  if (f.bounded) return Served::no;
  constexpr uint64_t kBias = 0x6269617300000000;
  View bias;
  bias.type = p.weights.type;
  bias.push(p.dst.dims[1], 1);
  const auto kept = keep(queue, f, kBias, bias, f.bias);
  bias.data = kept->data;
  Epilogue with_bias = p.epilogue;
  with_bias.bias = &bias;
  PreparedEpilogue epilogue(with_bias, p.dst, false, false);
  if (epilogue.copies()) epilogue.copy(queue);
  WeightRef ref = f.ref;
  ref.owner = &f;
  ref.made = [](const void* folded) -> const void* {
    const auto& from = *static_cast<const Folded*>(folded);
    return from.weights(from.owner).data;
  };
  if (!onednn::convolution_forward(queue, p.src, p.weights, epilogue.bias(), p.dst, p.geometry, epilogue.post(), ref))
    return Served::no;
  return p.tail ? Served::without_tail : Served::whole;
}

void run_backward_data(runtime::Queue& queue, const ConvProblem& p, SharedCopies& copies) {
  const Plan plan = plan_convolution(p, Pass::backward_data, runtime::device_info(queue.device).policy);
  choose(plan, [&](const Attempt& attempt) {
    if (attempt.engine == Engine::columns) return columns(queue, Pass::backward_data, p);
    Memory memory[3];
    View grad = wide_view(p.dst, attempt.wide), w = wide_view(p.weights, attempt.wide);
    View out = wide_view(p.src, attempt.wide);
    fill(queue, grad, p.dst, memory[0]);
    fill(queue, w, p.weights, memory[1]);
    if (attempt.wide) allocate(out, memory[2]);
    if (attempt.engine == Engine::direct) {
      if (p.geometry.transposed)
        launch_direct(queue, Pass::forward, grad, w, nullptr, out, p.geometry);
      else
        launch_direct(queue, Pass::backward_data, out, w, nullptr, grad, p.geometry);
    } else {
      SharedCopies none;
      WeightRef weight;
      if (!attempt.wide && p.weight.name) weight = p.weight.name(p.weight.owner);
      if (!onednn::convolution_backward_data(queue, grad, w, out, p.geometry, attempt.wide ? none : copies, weight))
        return false;
    }
    if (attempt.wide) convert(queue, p.src, out);
    return true;
  });
}

Served run_backward_weights(runtime::Queue& queue, const ConvProblem& p, SharedCopies& copies) {
  const Plan plan = plan_convolution(p, Pass::backward_weights, runtime::device_info(queue.device).policy);
  const Attempt* served = choose(plan, [&](const Attempt& attempt) {
    if (attempt.engine == Engine::primitive)
      return onednn::convolution_backward_weights(queue, p.src, p.dst, p.weights, p.epilogue.bias, p.geometry, copies);
    if (attempt.engine == Engine::columns) return columns(queue, Pass::backward_weights, p);
    if (p.geometry.transposed)
      launch_direct(queue, Pass::backward_weights, p.dst, p.weights, nullptr, p.src, p.geometry);
    else
      launch_direct(queue, Pass::backward_weights, p.src, p.weights, nullptr, p.dst, p.geometry);
    return true;
  });
  if (!served) return Served::no;
  return served->engine == Engine::primitive ? Served::whole : Served::without_tail;
}

bool has_type(const runtime::Queue& queue, DType type) { return !onednn::unwanted_source(queue.device, type); }

}  // namespace xpu_ops::products
