// Embedding lookups, bags, their gradients and row renormalisation.
#include <ATen/OpMathType.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/_embedding_bag_dense_backward.h>
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include "bindings/aten/indexing.hpp"
#include "kernels/ops/embedding.hpp"

namespace xpu_ops::aten {
namespace {

void check_indices(const at::Tensor& indices, int argument, const char* function) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt, "Expected tensor for argument #",
              argument, " 'indices' to have one of the following scalar types: Long, Int; but got ", indices.toString(),
              " instead (while checking arguments for ", function, ")");
}

// Rows of grad added into a zero table at their indices, in the order of the indices.
at::Tensor sum_rows(const at::Tensor& grad, const at::Tensor& index, int64_t rows, std::optional<int64_t> skip) {
  at::Tensor out = at::zeros({rows, grad.size(1)}, grad.options());
  scatter_columns(Reduce::add, out, 0, index, grad, DeviceErrorCode::none, false, skip);
  return out;
}

// Whether bag_rows serves.
bool by_bag_rows(const at::Tensor& grad) { return ops::plan_bag_grad_serves(dtype_of(grad), current_policy()); }

// sum_rows of bags, each times the sample's weight or divided by the size of its bag.
at::Tensor bag_rows(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                    const at::Tensor& bag_size, const at::Tensor& per_sample, int64_t rows, int64_t padding) {
  at::Tensor out = at::zeros({rows, grad.size(1)}, grad.options());
  if (out.numel() == 0 || indices.numel() == 0) return out;
  const at::ScalarType type = indices.scalar_type() == at::kInt ? at::kInt : at::kLong;
  const at::Tensor index = indices.to(type).contiguous();
  auto like_index = [&](const at::Tensor& t) { return t.defined() ? t.to(type).contiguous() : t; };
  const at::Tensor bags = like_index(offset2bag), sizes = like_index(bag_size);
  ops::BagGradProblem problem{};
  problem.grad = grad.const_data_ptr();
  problem.index = index.const_data_ptr();
  problem.offset2bag = bags.defined() ? bags.const_data_ptr() : nullptr;
  problem.bag_size = sizes.defined() ? sizes.const_data_ptr() : nullptr;
  problem.per_sample = per_sample.defined() ? per_sample.const_data_ptr() : nullptr;
  problem.per_sample_stride = per_sample.defined() ? per_sample.stride(0) : 0;
  problem.out = mutable_ptr(out);
  problem.padding = padding < 0 ? -1 : padding;
  problem.rows = rows;
  problem.bags = grad.size(0);
  problem.count = static_cast<uint32_t>(index.numel());
  problem.features = static_cast<uint32_t>(grad.size(1));
  problem.is32 = type == at::kInt;
  ops::embedding_bag_grad(runtime::current_queue(), dtype_of(grad), problem);
  return out;
}

// 1 / how often each index occurs, at the place of that index.
at::Tensor inverse_frequency(const at::Tensor& index, int64_t rows, at::ScalarType dtype) {
  at::Tensor counts = at::zeros({rows}, index.options().dtype(at::kLong));
  scatter_columns(Reduce::add, counts, 0, index, at::full({}, 1, counts.options()).expand(index.sizes()),
                  DeviceErrorCode::none);
  return counts.index_select(0, index).to(at::toOpMathType(dtype)).reciprocal_().to(dtype);
}

}  // namespace

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, int64_t, bool, bool) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  check_indices(indices, 1, "embedding");
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  at::Tensor out = new_empty(sizes, weight.scalar_type());
  if (out.numel() == 0) return out;
  TORCH_CHECK(weight.size(0) > 0, "index_select(): self indexing axis dim should be positive");
  Dims3 dims;
  for (int64_t d = 0; d < indices.dim(); ++d) dims.push_back({sizes[d], {out.stride(d), 0, indices.stride(d)}});
  dims.push_back({weight.size(1), {1, weight.stride(1), 0}});
  move_indexed(false, mutable_ptr(out), const_ptr(weight), weight.element_size(),
               index_source(indices, weight.size(0), weight.stride(0), DeviceErrorCode::index_self, 0, false),
               std::move(dims));
  return out;
}

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  check_indices(indices, 2, "embedding_backward");
  const at::Tensor index = indices.reshape({-1});
  at::Tensor grad = grad_output.reshape({index.numel(), grad_output.size(-1)});
  if (scale_grad_by_freq && index.numel() != 0)
    grad = grad.mul(inverse_frequency(index, num_weights, grad.scalar_type()).unsqueeze(1));
  if (grad.is_contiguous() && grad.size(1) >= 64 && by_bag_rows(grad))
    return bag_rows(grad, index, {}, {}, {}, num_weights, padding_idx);
  return sum_rows(grad, index, num_weights, padding_idx < 0 ? std::nullopt : std::optional<int64_t>(padding_idx));
}

at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  TORCH_CHECK(self.dim() == 2, "Expected 2-dimensional tensor, but got ", self.dim(),
              "-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)");
  check_indices(indices, 2, "embedding_renorm_");
  if (indices.numel() == 0 || self.numel() == 0) return self;
  const at::Tensor index = indices.reshape({-1});
  at::Tensor flags = at::zeros({self.size(0)}, self.options().dtype(at::kByte));
  const at::Tensor one = at::full({}, 1, flags.options());
  move_indexed(true, const_ptr(one), mutable_ptr(flags), 1,
               index_source(index, self.size(0), 1, DeviceErrorCode::index_self, 0, false),
               {{index.numel(), {0, 0, index.stride(0)}}});
  ops::RenormProblem problem{};
  problem.weight = mutable_ptr(self);
  problem.flags = flags.const_data_ptr<uint8_t>();
  problem.stride0 = self.stride(0);
  problem.stride1 = self.stride(1);
  problem.max_norm = max_norm;
  problem.p = norm_type;
  problem.rows = static_cast<uint32_t>(self.size(0));
  problem.features = static_cast<uint32_t>(self.size(1));
  ops::renorm_rows(runtime::current_queue(), dtype_of(self), problem);
  return self;
}

namespace {

using BagResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

BagResult bag_forward(const at::Tensor& weight, const at::Tensor& indices_, const at::Tensor& offsets_, int64_t mode,
                      const std::optional<at::Tensor>& per_sample_weights, bool include_last_offset,
                      int64_t padding_idx, bool with_backward) {
  TORCH_CHECK(indices_.dim() == 1 || indices_.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices_.dim());
  if (indices_.dim() == 1)
    TORCH_CHECK(offsets_.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets_.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  const at::ScalarType index_type = c10::promoteTypes(indices_.scalar_type(), offsets_.scalar_type());
  const at::Tensor indices = indices_.to(index_type).contiguous(), offsets = offsets_.to(index_type).contiguous();
  check_indices(indices, 1, "embedding_bag");
  at::checkScalarTypes("embedding_bag", {weight, "weight", 1}, {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
  if (include_last_offset)
    TORCH_CHECK(offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
  const bool weighted = per_sample_weights.has_value() && per_sample_weights->defined();
  if (weighted) {
    TORCH_CHECK(mode == 0,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                "(got mode=",
                mode == 1 ? "'mean'" : "'max'", "). Please open a feature request on GitHub.");
    check_scalar_type(*per_sample_weights, weight.scalar_type());
    TORCH_CHECK(per_sample_weights->dim() == 1 && per_sample_weights->numel() == indices.numel(),
                "expected per_sample_weights to be 1D and of the same length as indices");
  }
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0), features = weight.size(1);
  // Sizes as meta_embedding_bag promises them for a device that is not the CPU.
  at::Tensor out = new_empty({bags, features}, weight.scalar_type());
  at::Tensor bag_size = new_empty({offsets.size(0)}, index_type);
  at::Tensor offset2bag = new_empty({indices.numel()}, index_type);  // only the backward reads it
  at::Tensor max_indices = mode == 2 ? new_empty({bags, features}, index_type) : new_empty({0}, index_type);
  if (include_last_offset) bag_size.narrow(0, bags, 1).zero_();
  if (bags == 0) return {out, offset2bag.zero_(), bag_size, max_indices};
  ops::BagProblem problem{};
  problem.weight = weight.const_data_ptr();
  problem.indices = indices.const_data_ptr();
  problem.rows = weight.size(0);
  problem.offsets = offsets.const_data_ptr();
  problem.per_sample = weighted ? per_sample_weights->const_data_ptr() : nullptr;
  problem.per_sample_stride = weighted ? per_sample_weights->stride(0) : 0;
  problem.out = mutable_ptr(out);
  problem.bag_size = mutable_ptr(bag_size);
  problem.max_indices = mutable_ptr(max_indices);
  problem.offset2bag = with_backward ? mutable_ptr(offset2bag) : nullptr;
  problem.weight_stride0 = weight.stride(0);
  problem.weight_stride1 = weight.stride(1);
  problem.padding = padding_idx;
  problem.bags = static_cast<uint32_t>(bags);
  problem.count = static_cast<uint32_t>(indices.numel());
  problem.features = static_cast<uint32_t>(features);
  problem.mode = static_cast<BagMode>(mode);
  problem.is32 = index_type == at::kInt;
  ops::embedding_bag(runtime::current_queue(), dtype_of(weight), problem);
  return {out, offset2bag, bag_size, max_indices};
}

// Guarantees of embedding_bag's forward, checked because others may call its gradients.
void check_bag_gradient(const char* name, const at::Tensor& grad, const at::Tensor& indices,
                        const at::Tensor& offset2bag, const at::Tensor& bag_size, int64_t num_weights, int64_t mode,
                        const std::optional<at::Tensor>& per_sample_weights) {
  TORCH_CHECK(mode >= 0 && mode <= 2, name, "(): expected mode 0 (sum), 1 (mean) or 2 (max), but got ", mode);
  TORCH_CHECK(grad.dim() == 2, name, "(): expected grad to be 2-D, but got ", grad.dim(), "-D");
  TORCH_CHECK(num_weights >= 0, name, "(): num_weights must not be negative, but got ", num_weights);
  check_indices(indices, 2, name);
  TORCH_CHECK(indices.dim() == 1, name, "(): expected indices to be 1-D, but got ", indices.dim(), "-D");
  if (mode == 2) return;  // whose rows maximum_indices names
  check_indices(offset2bag, 2, name);
  TORCH_CHECK(offset2bag.sizes() == indices.sizes(), name, "(): expected offset2bag of size ", indices.sizes(),
              ", but got ", offset2bag.sizes());
  const auto counts = [&] {  // one more where the offsets include the last
    return bag_size.dim() == 1 && (bag_size.size(0) == grad.size(0) || bag_size.size(0) == grad.size(0) + 1);
  };
  TORCH_CHECK(mode == 0 || counts(), name, "(): expected bag_size of size [", grad.size(0), "], but got ",
              bag_size.sizes());
  if (!per_sample_weights.has_value() || !per_sample_weights->defined()) return;
  TORCH_CHECK(mode == 0, name, "(): per_sample_weights only supported for mode='sum'");
  TORCH_CHECK(per_sample_weights->sizes() == indices.sizes() && per_sample_weights->scalar_type() == grad.scalar_type(),
              name, "(): expected per_sample_weights of size ", indices.sizes(), " and type ", grad.scalar_type(),
              ", but got ", per_sample_weights->sizes(), " and ", per_sample_weights->scalar_type());
}

}  // namespace

BagResult _embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool,
                         int64_t mode, bool, const std::optional<at::Tensor>& per_sample_weights,
                         bool include_last_offset, int64_t padding_idx) {
  return bag_forward(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, true);
}

BagResult _embedding_bag_forward_only(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                                      bool, int64_t mode, bool, const std::optional<at::Tensor>& per_sample_weights,
                                      bool include_last_offset, int64_t padding_idx) {
  return bag_forward(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, false);
}

at::Tensor _embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offsets,
                                   const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                   const at::Tensor& maximum_indices, int64_t num_weights, bool scale_grad_by_freq,
                                   int64_t mode, bool sparse, const std::optional<at::Tensor>& per_sample_weights,
                                   int64_t padding_idx) {
  check_bag_gradient("_embedding_bag_backward", grad, indices, offset2bag, bag_size, num_weights, mode,
                     per_sample_weights);
  if (sparse)
    return at::_embedding_bag_sparse_backward(grad, indices, offsets, offset2bag, bag_size, num_weights,
                                              scale_grad_by_freq, mode, per_sample_weights, padding_idx);
  return at::_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                           scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}

at::Tensor _embedding_bag_dense_backward(const at::Tensor& grad_, const at::Tensor& indices,
                                         const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                         const at::Tensor& maximum_indices, int64_t num_weights,
                                         bool scale_grad_by_freq, int64_t mode,
                                         const std::optional<at::Tensor>& per_sample_weights, int64_t padding_idx) {
  const char* const name = "_embedding_bag_dense_backward";
  check_bag_gradient(name, grad_, indices, offset2bag, bag_size, num_weights, mode, per_sample_weights);
  const at::Tensor grad = grad_.contiguous();
  if (mode == 2) {
    check_indices(maximum_indices, 2, name);
    TORCH_CHECK(maximum_indices.sizes() == grad.sizes(), name, "(): expected maximum_indices of size ", grad.sizes(),
                ", but got ", maximum_indices.sizes());
    at::Tensor out = at::zeros({num_weights, grad.size(1)}, grad.options());
    // Empty bags have the index -1: nothing to add, nothing to report.
    scatter_columns(Reduce::add, out, 0, maximum_indices, grad, DeviceErrorCode::none);
    return out;
  }
  const bool weighted = per_sample_weights.has_value() && per_sample_weights->defined();
  if (by_bag_rows(grad) && !scale_grad_by_freq)
    return bag_rows(grad, indices, offset2bag, mode == 1 ? bag_size : at::Tensor(),
                    weighted ? *per_sample_weights : at::Tensor(), num_weights, padding_idx);
  at::Tensor rows = grad.index_select(0, offset2bag);
  if (weighted) rows.mul_(per_sample_weights->unsqueeze(1));
  if (mode == 1) rows.div_(bag_size.index_select(0, offset2bag).unsqueeze(1).to(grad.scalar_type()));
  if (scale_grad_by_freq && indices.numel() != 0)
    rows.mul_(inverse_frequency(indices, num_weights, grad.scalar_type()).unsqueeze(1));
  return sum_rows(rows, indices, num_weights, padding_idx < 0 ? std::nullopt : std::optional<int64_t>(padding_idx));
}

at::Tensor _embedding_bag_per_sample_weights_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                      const at::Tensor& indices, const at::Tensor&,
                                                      const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == 0, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const char* const name = "_embedding_bag_per_sample_weights_backward";
  check_bag_gradient(name, grad, indices, offset2bag, {}, weight.size(0), mode, std::nullopt);
  TORCH_CHECK(weight.dim() == 2 && weight.size(1) == grad.size(1) && weight.scalar_type() == grad.scalar_type(), name,
              "(): expected weight of size [*, ", grad.size(1), "] and type ", grad.scalar_type(), ", but got ",
              weight.sizes(), " and ", weight.scalar_type());
  at::Tensor out = new_empty({indices.size(0)}, grad.scalar_type());
  if (out.numel() == 0) return out;
  const at::Tensor index = indices.contiguous(), bag = offset2bag.to(index.scalar_type()).contiguous();
  ops::BagSampleGradProblem problem{};
  problem.grad = grad.const_data_ptr();
  problem.weight = weight.const_data_ptr();
  problem.index = index.const_data_ptr();
  problem.offset2bag = bag.const_data_ptr();
  problem.out = mutable_ptr(out);
  problem.grad_stride0 = grad.stride(0);
  problem.grad_stride1 = grad.stride(1);
  problem.weight_stride0 = weight.stride(0);
  problem.weight_stride1 = weight.stride(1);
  problem.padding = padding_idx;
  problem.count = static_cast<uint32_t>(index.numel());
  problem.features = static_cast<uint32_t>(weight.size(1));
  problem.is32 = index.scalar_type() == at::kInt;
  problem.rows = weight.size(0);
  problem.bags = grad.size(0);
  ops::embedding_bag_sample_grad(runtime::current_queue(), dtype_of(grad), problem);
  return out;
}

}  // namespace xpu_ops::aten
