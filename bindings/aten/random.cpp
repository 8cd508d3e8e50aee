// Random operators. Argument checks and ranges are upstream's own templates; the structs below give them the kernels.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>

#include <bit>
#include <cmath>
#include <limits>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "bindings/runtime/generator.hpp"
#include "gen/kernels/random_kernels.hpp"
#include "kernels/ops/random.hpp"
#include "kernels/runtime/device/device_error.hpp"

namespace xpu_ops::aten {
namespace {

using Gen = std::optional<at::Generator>;
namespace templates = at::native::templates;

constexpr int64_t kLaunch = int64_t{1} << 30;  // elements of one launch; each launch has its own counter

template <class Args>
void take_numbers(Args& a, const Gen& generator) {
  const PhiloxState state = reserve_philox(generator, 4);
  a.seed = state.seed, a.offset = state.offset / 4, a.state = state.state;
}

// Fills `self` from a distribution; `values` elements come from one counter.
void fill_random(const at::Tensor& self, const Gen& generator, const runtime::KernelTable& table, size_t values,
                 ops::RandomProblem a) {
  if (self.numel() == 0) return;
  const runtime::KernelTable& checked = table;
  (void)checked[dtype_of(self)];  // an unsupported dtype must not move the generator
  ContiguousOut target(self);
  for (int64_t done = 0; done < self.numel(); done += kLaunch) {
    take_numbers(a, generator);
    a.dst = static_cast<char*>(target.data()) + done * static_cast<int64_t>(self.element_size());
    a.n = static_cast<uint32_t>(std::min(kLaunch, self.numel() - done));
    ops::draw(runtime::current_queue(), table[dtype_of(self)], ops::plan_draws(a.n, values), a);
  }
  target.finish();
}

ops::RandomProblem parameters(double a, double b = 0) {
  ops::RandomProblem problem{};
  problem.a = static_cast<float>(a), problem.b = static_cast<float>(b);
  problem.a64 = std::bit_cast<uint64_t>(a), problem.b64 = std::bit_cast<uint64_t>(b);
  return problem;
}

// A distribution of floats: 32 bits per element, 64 for doubles.
void fill_float(const at::Tensor& self, const Gen& generator, const runtime::KernelTable& table,
                const runtime::KernelTable& table64, double a, double b = 0) {
  if (self.scalar_type() == at::kDouble)
    fill_random(self, generator, table64, 2, parameters(a, b));
  else
    fill_random(self, generator, table, 4, parameters(a, b));
}

void fill_integer(const at::Tensor& self, const Gen& generator, uint64_t range, int64_t base) {
  ops::RandomProblem a{};
  a.range = range, a.base = base;
  // 32 random bits give values of a small range with a bias below 2^-12.
  if (range != 0 && range <= (uint64_t{1} << 20))
    fill_random(self, generator, kernels::random_discrete_integer, 4, a);
  else
    fill_random(self, generator, kernels::random_integer64, 2, a);
}

struct AnyGenerator {};

template <class>
struct Uniform {
  void operator()(at::TensorIteratorBase& iter, double from, double to, const Gen& g) {
    fill_float(iter.tensor(0), g, kernels::random_fill_uniform, kernels::random_fill64_uniform, from, to);
  }
};
template <class>
struct Normal {
  void operator()(const at::Tensor& self, double mean, double std, const Gen& g) {
    fill_float(self, g, kernels::random_fill_normal, kernels::random_fill64_normal, mean, std);
  }
};
template <class>
struct LogNormal {
  void operator()(at::TensorIteratorBase& iter, double mean, double std, const Gen& g) {
    fill_float(iter.tensor(0), g, kernels::random_fill_log_normal, kernels::random_fill64_log_normal, mean, std);
  }
};
template <class>
struct Exponential {
  void operator()(at::TensorIteratorBase& iter, double lambda, const Gen& g) {
    TORCH_CHECK(at::isFloatingType(iter.dtype()),
                "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
                "you specified ",
                iter.dtype());
    fill_float(iter.tensor(0), g, kernels::random_fill_exponential, kernels::random_fill64_exponential, lambda);
  }
};
template <class>
struct Cauchy {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma, const Gen& g) {
    fill_float(iter.tensor(0), g, kernels::random_fill_cauchy, kernels::random_fill64_cauchy, median, sigma);
  }
};
template <class>
struct Geometric {
  void operator()(at::TensorIteratorBase& iter, double p, const Gen& g) {
    fill_float(iter.tensor(0), g, kernels::random_geometric, kernels::random_fill64_geometric, std::log1p(-p));
  }
};
template <class>
struct Bernoulli {
  void operator()(const at::Tensor& self, double p, const Gen& g) {
    const double scaled = std::ceil(p * 4294967296.0);
    ops::RandomProblem a{};
    a.range = scaled > 0 ? static_cast<uint64_t>(scaled) - 1 : 0;
    fill_random(self, g, kernels::random_discrete_bernoulli, 4, a);
    if (scaled == 0) self.zero_();
  }
  void operator()(const at::Tensor& self, const at::Tensor& p, const Gen& g) {
    if (self.numel() == 0) return;
    const at::Tensor probs = plain(p);
    runtime::KernelSlot& slot = kernels::bernoulli_from(dtype_of(self), dtype_of(probs));
    ContiguousOut target(self);
    runtime::Queue& queue = runtime::current_queue();
    ops::RandomFromProblem a{};
    a.error = runtime::error_flag(queue.device);
    static const int64_t message = runtime::register_error_message(
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false: bernoulli takes probabilities in [0, 1]");
    a.message = message;
    for (int64_t done = 0; done < self.numel(); done += kLaunch) {
      take_numbers(a, g);
      a.dst = static_cast<char*>(target.data()) + done * static_cast<int64_t>(self.element_size());
      a.x = static_cast<const char*>(probs.const_data_ptr()) + done * static_cast<int64_t>(probs.element_size());
      a.n = static_cast<uint32_t>(std::min(kLaunch, self.numel() - done));
      ops::draw(runtime::current_queue(), slot, ops::plan_draws(a.n, 4), a);
    }
    target.finish();
    runtime::check_kernel_errors(queue);
  }
};
template <class>
struct Random {
  // Upstream's range without arguments: every value of an integer type that is not negative, and for floats the
  // integers that they hold exactly.
  void operator()(at::TensorIteratorBase& iter, const Gen& g) {
    const at::Tensor& self = iter.tensor(0);
    uint64_t range = 0;
    switch (self.scalar_type()) {
      case at::kBool: range = 2; break;
      case at::kHalf: range = (1u << 11) + 1; break;
      case at::kBFloat16: range = (1u << 8) + 1; break;
      case at::kFloat: range = (1u << 24) + 1; break;
      case at::kDouble: range = (uint64_t{1} << 53) + 1; break;
      case at::kByte: range = 256; break;
      case at::kUInt16: range = 65536; break;
      case at::kUInt32: range = uint64_t{1} << 32; break;
      case at::kUInt64: range = 0; break;
      default: range = uint64_t{1} << (8 * self.element_size() - 1); break;
    }
    fill_integer(self, g, range, 0);
  }
};
template <class>
struct RandomFromTo {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base, const Gen& g) {
    fill_integer(iter.tensor(0), g, range, base);
  }
  // [-2^63, 2^63)
  void operator()(at::TensorIteratorBase& iter, const Gen& g) { fill_integer(iter.tensor(0), g, 0, INT64_MIN); }
};

// An elementwise kernel that reads x (and y) and draws a stream for each element.
at::Tensor from_parameters(const runtime::KernelTable& table, const at::Tensor& x, const at::Tensor* y,
                           const Gen& generator, int64_t message = 0) {
  const at::Tensor px = plain(x), py = y ? plain(*y) : at::Tensor();
  at::Tensor out = at::empty_like(x, at::MemoryFormat::Contiguous);
  if (out.numel() == 0) return out;
  (void)table[dtype_of(out)];
  const int64_t size = static_cast<int64_t>(out.element_size());
  ops::RandomFromProblem a{};
  a.error = runtime::error_flag(runtime::current_queue().device);
  a.message = message;
  for (int64_t done = 0; done < out.numel(); done += kLaunch) {
    take_numbers(a, generator);
    a.dst = static_cast<char*>(out.mutable_data_ptr()) + done * size;
    a.x = static_cast<const char*>(px.const_data_ptr()) + done * size;
    if (y) a.y = static_cast<const char*>(py.const_data_ptr()) + done * size;
    a.n = static_cast<uint32_t>(std::min(kLaunch, out.numel() - done));
    ops::draw(runtime::current_queue(), table[dtype_of(out)], a.n, a);
  }
  return out;
}

// An elementwise kernel of two or three inputs of one dtype, without random numbers.
at::Tensor from_inputs(const runtime::KernelTable& table, at::TensorList inputs) {
  std::vector<int64_t> sizes = inputs[0].sizes().vec();
  for (const at::Tensor& t : inputs) {
    TORCH_CHECK(t.scalar_type() == inputs[0].scalar_type(), "Found dtype ", t.scalar_type(), " but expected ",
                inputs[0].scalar_type());
    sizes = at::infer_size(sizes, t.sizes());
  }
  std::vector<at::Tensor> sources;
  for (const at::Tensor& t : inputs) sources.push_back(plain(t.expand(sizes)));
  at::Tensor out = new_empty(sizes, inputs[0].scalar_type());
  (void)table[dtype_of(out)];
  const int64_t size = static_cast<int64_t>(out.element_size());
  ops::RandomFromProblem a{};
  for (int64_t done = 0; done < out.numel(); done += kLaunch) {
    auto at_offset = [&](const at::Tensor& t) {
      return static_cast<char*>(const_cast<void*>(t.const_data_ptr())) + done * size;
    };
    a.dst = at_offset(out), a.x = at_offset(sources[0]), a.y = at_offset(sources[1]);
    a.dst2 = sources.size() > 2 ? at_offset(sources[2]) : nullptr;
    a.n = static_cast<uint32_t>(std::min(kLaunch, out.numel() - done));
    ops::draw(runtime::current_queue(), table[dtype_of(out)], a.n, a);
  }
  return out;
}

// Elementwise kernels run over memory of one dense layout: that of a result like `t`.
at::Tensor dense(const at::Tensor& t) {
  return t.is_non_overlapping_and_dense() && !t.is_neg() && !t.is_conj() ? t : at::empty_like(t).copy_(t);
}

std::tuple<at::Tensor, at::Tensor> run_dropout(const at::Tensor& input, double keep, double scale,
                                               at::ScalarType mask_type, const Gen& generator) {
  TORCH_CHECK(!at::isIntegralType(input.scalar_type(), true), "result type ", at::get_default_dtype_as_scalartype(),
              " can't be cast to the desired output type ", input.scalar_type());
  TORCH_CHECK(input.numel() <= kLaunch, "dropout of more than 2^30 elements is not supported on XPU");
  const at::Tensor x = dense(input);
  at::Tensor out = at::empty_like(x), mask = at::empty_like(x, x.options().dtype(mask_type));
  if (x.numel() == 0) return {out, mask};
  ops::RandomFromProblem a{};
  runtime::KernelSlot& slot = kernels::dropout(dtype_of(x), to_dtype(mask_type));
  take_numbers(a, generator);
  a.dst = out.mutable_data_ptr(), a.dst2 = mask.mutable_data_ptr(), a.x = x.const_data_ptr();
  a.n = static_cast<uint32_t>(x.numel());
  a.a = static_cast<float>(keep), a.b = static_cast<float>(scale);
  ops::draw(runtime::current_queue(), slot, ops::plan_draws(a.n, 4), a);
  return {out, mask};
}

at::Tensor scale_masked(const at::Tensor& input, const at::Tensor& mask, double scale) {
  TORCH_CHECK(input.sizes() == mask.sizes(), "The size of the mask must match the size of the tensor");
  // Both in the layout of the input, which the result has upstream too.
  const at::Tensor x = dense(input);
  const at::Tensor m =
      mask.strides() == x.strides() ? mask : new_strided(x.sizes(), x.strides(), mask.scalar_type()).copy_(mask);
  at::Tensor out = at::empty_like(x);
  ops::RandomFromProblem a{};
  for (int64_t done = 0; done < x.numel(); done += kLaunch) {
    const int64_t offset = done * static_cast<int64_t>(x.element_size());
    a.dst = static_cast<char*>(out.mutable_data_ptr()) + offset;
    a.x = static_cast<const char*>(x.const_data_ptr()) + offset;
    a.y = static_cast<const char*>(m.const_data_ptr()) + done;
    a.n = static_cast<uint32_t>(std::min(kLaunch, x.numel() - done));
    a.a = static_cast<float>(scale);
    ops::draw(runtime::current_queue(), kernels::masked_scale(dtype_of(x), dtype_of(m)), a.n, a);
  }
  return out;
}

}  // namespace

at::Tensor& uniform_(at::Tensor& self, double from, double to, Gen generator) {
  return templates::uniform_impl_<Uniform, AnyGenerator>(self, from, to, generator);
}
at::Tensor& normal_(at::Tensor& self, double mean, double std, Gen generator) {
  return templates::normal_impl_<Normal, AnyGenerator>(self, mean, std, generator);
}
at::Tensor& normal_Tensor_float_out(const at::Tensor& mean, double std, Gen generator, at::Tensor& out) {
  return templates::normal_out_impl<Normal, AnyGenerator>(out, mean, std, generator);
}
at::Tensor normal_Tensor_float(const at::Tensor& mean, double std, Gen generator) {
  return templates::normal_impl<Normal, AnyGenerator>(mean, std, generator);
}
at::Tensor& normal_float_Tensor_out(double mean, const at::Tensor& std, Gen generator, at::Tensor& out) {
  return templates::normal_out_impl<Normal, AnyGenerator>(out, mean, std, generator);
}
at::Tensor normal_float_Tensor(double mean, const at::Tensor& std, Gen generator) {
  return templates::normal_impl<Normal, AnyGenerator>(mean, std, generator);
}
at::Tensor& normal_Tensor_Tensor_out(const at::Tensor& mean, const at::Tensor& std, Gen generator, at::Tensor& out) {
  return templates::normal_out_impl<Normal, AnyGenerator>(out, mean, std, generator);
}
at::Tensor normal_Tensor_Tensor(const at::Tensor& mean, const at::Tensor& std, Gen generator) {
  return templates::normal_impl<Normal, AnyGenerator>(mean, std, generator);
}
at::Tensor& exponential_(at::Tensor& self, double lambd, Gen generator) {
  return templates::exponential_impl_<Exponential, AnyGenerator>(self, lambd, generator);
}
at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, Gen generator) {
  return templates::cauchy_impl_<Cauchy, AnyGenerator>(self, median, sigma, generator);
}
at::Tensor& log_normal_(at::Tensor& self, double mean, double std, Gen generator) {
  return templates::log_normal_impl_<LogNormal, AnyGenerator>(self, mean, std, generator);
}
at::Tensor& geometric_(at::Tensor& self, double p, Gen generator) {
  return templates::geometric_impl_<Geometric, AnyGenerator>(self, p, generator);
}
at::Tensor& random_(at::Tensor& self, Gen generator) {
  return templates::random_impl<Random, AnyGenerator>(self, generator);
}
at::Tensor& random__from(at::Tensor& self, int64_t from, std::optional<int64_t> to, Gen generator) {
  return templates::random_from_to_impl<RandomFromTo, AnyGenerator>(self, from, to, generator);
}
at::Tensor& random__to(at::Tensor& self, int64_t to, Gen generator) { return random__from(self, 0, to, generator); }

at::Tensor& bernoulli__Tensor(at::Tensor& self, const at::Tensor& p, Gen generator) {
  if (self.numel() == 0) return self;
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(p.scalar_type()), "\"bernoulli_tensor_cpu_p_\" not implemented for '",
                              p.scalar_type(), "'");
  const at::Tensor probs = (p.is_xpu() ? p : p.to(self.device())).expand(self.sizes());
  at::assert_no_internal_overlap(self);
  Bernoulli<AnyGenerator>()(self, probs, generator);
  return self;
}
at::Tensor& bernoulli__float(at::Tensor& self, double p, Gen generator) {
  return templates::bernoulli_impl_<Bernoulli, AnyGenerator>(self, p, generator);
}
at::Tensor& bernoulli_out(const at::Tensor& self, Gen generator, at::Tensor& out) {
  return templates::bernoulli_out_impl<Bernoulli, AnyGenerator>(out, self, generator);
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (input.numel() == 0) return {input, at::empty_like(input, input.options())};
  if (train.has_value() && !*train) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  TORCH_CHECK(p >= 0 && p <= 1, "native_dropout expects p to be in [0, 1], but got p=", p);
  const double keep = 1.0 - p;
  return run_dropout(input, keep, keep == 0 ? 0.0 : 1.0 / keep, at::kBool, std::nullopt);
}
at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be Bool Scalar Type", mask.scalar_type());
  if (!at::isFloatingType(grad_output.scalar_type())) return at::mul(grad_output, mask).mul(scale);
  return scale_masked(grad_output, mask, scale);
}
std::tuple<at::Tensor, at::Tensor> _fused_dropout(const at::Tensor& self, double p, Gen generator) {
  return run_dropout(self, p, p == 0 ? 0.0 : 1.0 / p, at::kByte, generator);
}
at::Tensor _masked_scale(const at::Tensor& self, const at::Tensor& mask, double scale) {
  TORCH_CHECK(mask.scalar_type() == at::kByte, "mask should be torch.uint8 dtype");
  return scale_masked(self, mask, scale);
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                                 const at::Scalar& upper, bool training, Gen generator, at::Tensor& out) {
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sym_sizes(),
              ", noise.shape = ", noise.sym_sizes());
  if (!training) {
    const double slope = (lower.toDouble() + upper.toDouble()) / 2;
    return at::leaky_relu_out(out, self, slope);
  }
  if (out.sizes() != self.sizes()) at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  const double low = lower.toDouble(), high = upper.toDouble();
  TORCH_CHECK(std::isfinite(low), "rrelu: lower bound must be finite, got ", low);
  TORCH_CHECK(std::isfinite(high), "rrelu: upper bound must be finite, got ", high);
  TORCH_CHECK(low <= high, "Lower bound should be less than or equal to the upper bound");
  TORCH_CHECK(self.numel() <= kLaunch, "rrelu of more than 2^30 elements is not supported on XPU");
  const at::Tensor x = plain(self);
  ContiguousOut target(out), noise_target(noise);
  ops::RandomFromProblem a{};
  (void)kernels::rrelu[dtype_of(self)];
  take_numbers(a, generator);
  a.dst = target.data(), a.dst2 = noise_target.data(), a.x = x.const_data_ptr();
  a.n = static_cast<uint32_t>(self.numel());
  a.a = static_cast<float>(low), a.b = static_cast<float>(high);
  ops::draw(runtime::current_queue(), kernels::rrelu[dtype_of(self)], ops::plan_draws(a.n, 4), a);
  target.finish();
  noise_target.finish();
  return out;
}
at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                            bool training, Gen generator) {
  at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return rrelu_with_noise_out(self, noise, lower, upper, training, generator, out);
}
at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                              bool training, Gen generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, generator, self);
}

at::Tensor poisson(const at::Tensor& self, Gen generator) {
  static const int64_t message =
      runtime::register_error_message("invalid Poisson rate, expected rate to be non-negative");
  return from_parameters(kernels::poisson, self, nullptr, generator, message);
}
at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, Gen generator) {
  TORCH_CHECK_VALUE(at::isFloatingType(count.scalar_type()),
                    "binomial only supports floating-point dtypes for count, got: ", count.scalar_type());
  TORCH_CHECK_VALUE(at::isFloatingType(prob.scalar_type()),
                    "binomial only supports floating-point dtypes for prob, got: ", prob.scalar_type());
  TORCH_CHECK(count.scalar_type() == prob.scalar_type(), "Found dtype ", prob.scalar_type(), " but expected ",
              count.scalar_type());
  check_same_device(count, prob);
  const auto sizes = at::infer_size(count.sizes(), prob.sizes());
  const at::Tensor n = count.expand(sizes), p = prob.expand(sizes);
  return from_parameters(kernels::binomial, n, &p, generator);
}
at::Tensor _standard_gamma(const at::Tensor& self, Gen generator) {
  return from_parameters(kernels::standard_gamma, self, nullptr, generator);
}
at::Tensor _sample_dirichlet(const at::Tensor& self, Gen generator) {
  const at::Tensor gamma = from_parameters(kernels::standard_gamma, self, nullptr, generator);
  gamma.div_(gamma.sum(-1, true));
  // Inside the open interval, as on CUDA: a sum that rounds to one of its parts would give exactly 1.
  double eps = 0x1p-53, least = std::numeric_limits<double>::min();
  switch (gamma.scalar_type()) {
    case at::kFloat: eps = 0x1p-24, least = std::numeric_limits<float>::min(); break;
    case at::kHalf: eps = 0x1p-11, least = 0x1p-14; break;
    case at::kBFloat16: eps = 0x1p-8, least = 0x1p-126; break;
    default: break;
  }
  return gamma.dim() > 0 && gamma.size(-1) > 1 ? gamma.clamp_(least, 1.0 - eps) : gamma;
}

at::Tensor _standard_gamma_grad(const at::Tensor& self, const at::Tensor& output) {
  return from_inputs(kernels::gamma_grad, {self, output});
}
at::Tensor _dirichlet_grad(const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& total) {
  return from_inputs(kernels::dirichlet_grad, {x, alpha, total});
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t num_samples, bool replacement, Gen generator,
                            at::Tensor& out) {
  TORCH_CHECK(out.device() == self.device(), "multinomial arguments must have the same device");
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(num_samples > 0, "cannot sample n_sample <= 0 samples");
  const int64_t categories = self.size(-1);
  TORCH_CHECK(replacement || num_samples <= categories,
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(categories <= (int64_t{1} << 24), "number of categories cannot exceed 2^24");
  const int64_t rows = self.dim() == 1 ? 1 : self.size(0);
  if (self.dim() == 1)
    out.resize_({num_samples});
  else
    out.resize_({rows, num_samples});
  if (out.numel() == 0) return out;
  TORCH_CHECK(categories > 0 || num_samples == 1, "invalid multinomial distribution (sum of probabilities <= 0)");
  // One pass over the input: its extrema, among which NaN wins, say whether it is valid and whether rows have a sum.
  // One trip to the host for all of them.
  const auto [low, high] = categories > 0 ? at::aminmax(self, -1) : at::aminmax(self);  // raises without categories
  const at::Tensor extrema =
      self.dim() == 1 ? at::stack({low, high, high}) : at::stack({low.amin(), high.amax(), high.amin()});
  const at::Tensor here = extrema.to(at::kCPU, at::kDouble);
  const double *extremum = here.const_data_ptr<double>(), least = extremum[0], most = extremum[1];
  if (!(least >= 0 && std::isfinite(most))) {
    TORCH_CHECK(replacement && num_samples > 1, "probability tensor contains either `inf`, `nan` or element < 0");
    // The first such entry has the message, as in torch's CPU, where NaN is not at least zero either.
    const double first =
        self.masked_select(at::isfinite(self).logical_and(self.ge(0)).logical_not())[0].item().toDouble();
    TORCH_CHECK(first >= 0, "invalid multinomial distribution (encountering probability entry < 0)");
    TORCH_CHECK(false, "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  }
  TORCH_CHECK(extremum[2] > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  if (!replacement || num_samples == 1) {
    // The largest p / e with e exponential are a draw without replacement (Efraimidis and Spirakis 2006).
    at::Tensor q = at::empty_like(self).exponential_(1, generator);
    q = at::div(self, q);
    if (num_samples == 1)
      at::argmax_out(out, q, -1, true);
    else {
      at::Tensor values = at::empty({0}, q.options());
      at::topk_out(values, out, q, num_samples);
    }
    return out;
  }
  const at::ScalarType type = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor sums = plain(at::cumsum(self, -1, type));
  ContiguousOut target(out);
  ops::MultinomialProblem a{};
  take_numbers(a, generator);
  TORCH_CHECK(out.numel() < (int64_t{1} << 31), "multinomial of 2^31 samples and more is not supported on XPU");
  a.dst = target.data(), a.cumulative = sums.const_data_ptr();
  a.n = static_cast<uint32_t>(out.numel());
  a.samples = static_cast<uint32_t>(num_samples), a.categories = static_cast<uint32_t>(categories);
  ops::draw(runtime::current_queue(), kernels::multinomial_draw[to_dtype(type)], a.n, a);
  target.finish();
  return out;
}
at::Tensor multinomial(const at::Tensor& self, int64_t num_samples, bool replacement, Gen generator) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return multinomial_out(self, num_samples, replacement, generator, out);
}

at::Tensor& randperm_generator_out(int64_t n, Gen generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  TORCH_CHECK(!generator.has_value() || (generator.has_value() && out.device() == generator->device()), "Expected a '",
              out.device(), "' generator device but found '", generator->device(), "'");
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n == 0) return out;
  TORCH_CHECK_NOT_IMPLEMENTED(n < (int64_t{1} << 31), "randperm of 2^31 numbers and more is not supported on XPU");
  const at::Tensor keys = new_empty({n}, at::kLong);
  fill_integer(keys, generator, 0, 0);
  const bool direct = out.scalar_type() == at::kLong && out.is_contiguous();
  const at::Tensor target = direct ? out : new_empty({n}, at::kLong);
  ops::shuffle(runtime::current_queue(), static_cast<const uint64_t*>(keys.const_data_ptr()), static_cast<uint32_t>(n),
               target.mutable_data_ptr<int64_t>());
  if (!direct) out.copy_(target);
  return out;
}

}  // namespace xpu_ops::aten
