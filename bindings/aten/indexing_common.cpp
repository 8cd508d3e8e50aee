// Helpers of the indexing families.
#include <c10/core/WrapDimMinimal.h>

#include "bindings/aten/indexing.hpp"

namespace xpu_ops::aten {

IndexSource index_source(const at::Tensor& index, int64_t size, int64_t stride, DeviceErrorCode code, int64_t dim,
                         bool wrap) {
  return {index.const_data_ptr(),
          runtime::error_flag(runtime::current_device()),
          size,
          stride,
          code,
          static_cast<uint32_t>(dim),
          static_cast<uint8_t>(index.scalar_type() == at::kInt),
          static_cast<uint8_t>(wrap)};
}

void move_indexed(bool write, void* plain, void* data, size_t element_size, const IndexSource& index, Dims3 dims) {
  ops::move_indexed(runtime::current_queue(), {write, plain, data, element_size, index, std::move(dims)});
}

bool adds_widely(const at::Tensor& out, int64_t terms) {
  constexpr int64_t kTerms = 4;  // per element from which on roundings of 16 bits add up
  return at::isReducedFloatingType(out.scalar_type()) && out.itemsize() == 2 && terms / kTerms >= out.numel();
}

void scatter_columns(Reduce op, const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                     DeviceErrorCode code, bool wrap, std::optional<int64_t> skip) {
  if (index.numel() == 0) return;
  const bool vector = index.dim() <= 1 && out.dim() != index.dim();  // index_add: one index for a whole slice
  const at::Tensor& shape = vector ? src : index;
  if (op == Reduce::add && add_widely(out, shape.numel(), src, [&](const at::Tensor& wide, const at::Tensor& terms) {
        scatter_columns(op, wide, dim, index, terms, code, wrap, skip);
      }))
    return;
  Dims3 columns;
  for (int64_t d = 0; d < out.dim(); ++d)
    if (d != dim)
      columns.push_back(
          {size_or_one(shape, d), {out.stride(d), stride_or_zero(src, d), vector ? 0 : stride_or_zero(index, d)}});
  const int64_t index_step = vector ? (index.dim() == 0 ? 0 : index.stride(0)) : stride_or_zero(index, dim);
  ops::scatter_columns(runtime::current_queue(),
                       {.op = op,
                        .type = dtype_of(out),
                        .element = out.itemsize(),
                        .data = mutable_ptr(out),
                        .src = src.const_data_ptr(),
                        .index = index_source(index, size_or_one(out, dim), stride_or_zero(out, dim), code, dim, wrap),
                        .steps = vector ? index.numel() : size_or_one(index, dim),
                        .src_step = stride_or_zero(src, dim),
                        .index_step = index_step,
                        .skip = skip,
                        .columns = std::move(columns)});
}

KeepBits keep_bits(at::ScalarType dtype) {
  constexpr uint64_t all = ~uint64_t{0};
  switch (dtype) {
    case at::kHalf:
    case at::kBFloat16: return {{0x7fff, 0}};
    case at::kFloat: return {{0x7fffffff, 0}};
    case at::kDouble: return {{all >> 1, 0}};
    case at::kComplexHalf: return {{0x7fff7fff, 0}};
    case at::kComplexFloat: return {{0x7fffffff7fffffff, 0}};
    case at::kComplexDouble: return {{all >> 1, all >> 1}};
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fn: return {{0x7f, 0}};
    default: return {{all, all}};
  }
}

}  // namespace xpu_ops::aten
