// Random numbers of a key tensor: torch.func._random.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <bit>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "gen/kernels/random_kernels.hpp"
#include "kernels/ops/random.hpp"

namespace xpu_ops::aten {
namespace {

const uint64_t* words(const at::Tensor& keys) { return static_cast<const uint64_t*>(keys.const_data_ptr()); }

void check_keys(const char* name, const at::Tensor& key) {
  TORCH_CHECK(key.dim() >= 1 && key.size(-1) == 2, name, ": key must have shape (*batch, 2), got shape ", key.sizes());
  TORCH_CHECK(key.scalar_type() == at::kUInt64, name, ": key must have dtype uint64, got ", key.scalar_type());
}

void derive(const at::Tensor& key, const at::Tensor& out, int64_t data, const uint64_t* from) {
  if (out.numel() == 0) return;
  const at::Tensor in = plain(key);
  ops::KeyDeriveProblem problem{};
  problem.out = static_cast<uint64_t*>(out.mutable_data_ptr());
  problem.in = words(in);
  problem.from = from;
  problem.keys = static_cast<uint64_t>(in.numel() / 2);
  problem.items = static_cast<uint64_t>(out.numel() / 2);
  problem.data = static_cast<uint64_t>(data);
  ops::draw_keys(runtime::current_queue(), kernels::derive_key, problem);
}

void check_draw(const char* name, const at::Tensor& self, const at::Tensor& key) {
  TORCH_CHECK(self.is_floating_point(), name, ": self must be a floating point tensor, got ", self.scalar_type());
  TORCH_CHECK(key.scalar_type() == at::kUInt64, name, ": key must have dtype uint64, got ", key.scalar_type());
  TORCH_CHECK(self.device() == key.device(), name, ": self and key must be on the same device, got ", self.device(),
              " and ", key.device());
  TORCH_CHECK(key.dim() >= 1 && key.size(-1) == 2, name, ": key must have shape (2,) or (*batch, 2), got shape ",
              key.sizes());
  if (key.dim() == 1) return;
  TORCH_CHECK(key.dim() == self.dim() + 1, name, ": batched key must have ndim == output ndim + 1, got key shape ",
              key.sizes(), " with output shape ", self.sizes());
  const auto batch = key.sizes().slice(0, self.dim());
  TORCH_CHECK(at::is_expandable_to(batch, self.sizes()), name, ": key batch shape ", batch,
              " is not broadcastable with output shape ", self.sizes());
}

// a + b * x for draws x of each key. Trailing dimensions of size one of the keys are those that one key fills.
at::Tensor& draw(at::Tensor& self, const at::Tensor& key, const runtime::KernelTable& table, double a, double b) {
  runtime::KernelSlot& kernel = table[dtype_of(self)];
  if (self.numel() == 0) return self;
  int64_t dims = key.dim() == 1 ? 0 : self.dim(), per_key = 1;
  while (dims > 0 && key.size(dims - 1) == 1) --dims;
  for (int64_t d = dims; d < self.dim(); ++d) per_key *= self.size(d);
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().begin() + dims);
  if (key.dim() > 1) sizes.resize(static_cast<size_t>(self.dim()), 1);
  sizes.push_back(2);
  const at::Tensor keys = plain(key.expand(sizes));
  ContiguousOut target(self);
  ops::KeyDrawProblem problem{};
  problem.dst = target.data();
  problem.keys = words(keys);
  problem.per_key = static_cast<uint64_t>(per_key);
  problem.chunks = runtime::ceil_div(problem.per_key, uint64_t{self.scalar_type() == at::kDouble ? 2u : 4u});
  problem.items = problem.chunks * static_cast<uint64_t>(keys.numel() / 2);
  problem.a = static_cast<float>(a), problem.b = static_cast<float>(b);
  problem.a64 = std::bit_cast<uint64_t>(a), problem.b64 = std::bit_cast<uint64_t>(b);
  ops::draw_keys(runtime::current_queue(), kernel, problem);
  target.finish();
  return self;
}

// The length of the range, computed in the element type as in at::transformation::uniform_real.
template <class T> std::pair<double, double> range(double low, double high) {
  const T from = static_cast<T>(low), length = static_cast<T>(static_cast<T>(high) - from);
  return {static_cast<double>(from), static_cast<double>(length)};
}

}  // namespace

at::Tensor& _philox_uniform_(at::Tensor& self, const at::Tensor& key, double low, double high) {
  check_draw("_philox_uniform_", self, key);
  auto [a, b] = range<float>(low, high);
  if (self.scalar_type() == at::kDouble) std::tie(a, b) = range<double>(low, high);
  if (self.scalar_type() == at::kHalf) std::tie(a, b) = range<at::Half>(low, high);
  if (self.scalar_type() == at::kBFloat16) std::tie(a, b) = range<at::BFloat16>(low, high);
  return draw(self, key, kernels::draw_of_key_uniform, a, b);
}

at::Tensor& _philox_normal_(at::Tensor& self, const at::Tensor& key, double mean, double std) {
  check_draw("_philox_normal_", self, key);
  return draw(self, key, kernels::draw_of_key_normal, mean, std);
}

at::Tensor _philox_key_split(const at::Tensor& key, int64_t num_splits) {
  check_keys("_philox_key_split", key);
  TORCH_CHECK(num_splits > 0, "_philox_key_split: num_splits must be positive, got ", num_splits);
  auto sizes = key.sizes().vec();
  sizes.insert(sizes.begin(), num_splits);
  at::Tensor out = at::empty(sizes, key.options());
  derive(key, out, 0, nullptr);
  return out;
}

at::Tensor _philox_key_fold_in(const at::Tensor& key, int64_t data) {
  check_keys("_philox_key_fold_in", key);
  at::Tensor out = at::empty_like(key, at::MemoryFormat::Contiguous);
  derive(key, out, data, nullptr);
  return out;
}

at::Tensor _philox_key_fold_in_Tensor(const at::Tensor& key, const at::Tensor& data) {
  check_keys("_philox_key_fold_in", key);
  TORCH_CHECK(data.scalar_type() == at::kUInt64, "_philox_key_fold_in: data must have dtype uint64, got ",
              data.scalar_type());
  TORCH_CHECK(data.numel() == 1, "_philox_key_fold_in: data must contain a single value, got shape ", data.sizes());
  TORCH_CHECK(data.device() == key.device(), "_philox_key_fold_in: key and data must be on the same device, got ",
              key.device(), " and ", data.device());
  at::Tensor out = at::empty_like(key, at::MemoryFormat::Contiguous);
  derive(key, out, 0, words(data));
  return out;
}

}  // namespace xpu_ops::aten
