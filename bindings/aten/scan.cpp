// Cumulative operators: a dense tensor as [outer, length, inner], for kernels/ops/scan.hpp.
#include <ATen/WrapDimUtils.h>

#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/scan_kernels.hpp"
#include "kernels/ops/scan.hpp"

namespace xpu_ops::aten {
namespace {

struct Tables {
  const runtime::KernelTable &line, &team, &axis;
  int64_t host_share;
};

// self and out have one type; self is made dense here, out and indices are written through dense temporaries if needed.
void scan(const Tables& tables, const at::Tensor& self, int64_t dim, const at::Tensor& out,
          const at::Tensor& indices = {}) {
  const DType type = dtype_of(out);
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (out.numel() == 0) return;
  const ops::ScanKernels kernels{tables.line[type], tables.team[type], tables.axis[type], tables.host_share};
  const at::Tensor in = self.contiguous();
  const at::Tensor values = out.is_contiguous() ? out : new_empty(out.sizes(), out.scalar_type());
  const bool place = indices.defined();
  const at::Tensor places = !place || indices.is_contiguous() ? indices : new_empty(indices.sizes(), at::kLong);

  ops::ScanPointers p{};
  p.in = in.const_data_ptr();
  p.out = values.mutable_data_ptr();
  p.indices = place ? places.mutable_data_ptr<int64_t>() : nullptr;
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < in.dim(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : in.size(d);
  const int64_t length = in.dim() == 0 ? 1 : in.size(dim);
  TORCH_CHECK_NOT_IMPLEMENTED(inner < (int64_t{1} << 31) && (length < (int64_t{1} << 31) || !place),
                              "cumulative operators over more than 2^31 elements of one line");
  ops::scan(runtime::current_queue(), kernels, {outer, length, inner}, p);
  if (!values.is_same(out)) out.copy_(values);
  if (place && !places.is_same(indices)) indices.copy_(places);
}

// One number is its own sum, also where there is no kernel for its type: as upstream, a bool in place.
void accumulate(const Tables& tables, const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  if (self.dim() != 0)
    scan(tables, self.to(out.scalar_type()), dim, out);
  else if (!out.is_same(self))
    out.copy_(self);
}

// The CPU's helper trusts its caller; here a wrong tensor must not become a wrong access.
void scan_extremes(const Tables& tables, const at::Tensor& self, const at::Tensor& values, const at::Tensor& indices,
                   int64_t dim) {
  TORCH_CHECK(values.sizes() == self.sizes() && indices.sizes() == self.sizes(), "values ", values.sizes(),
              " and indices ", indices.sizes(), " must have the shape of self ", self.sizes());
  check_scalar_type(values, self.scalar_type());
  scan(tables, self, dim, values, indices);
}

}  // namespace

void cumsum(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType>, const at::Tensor& out) {
  accumulate({kernels::cumsum_line, kernels::cumsum_team, kernels::cumsum_axis, ops::kHostSum}, self, dim, out);
}

void cumprod(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType>, const at::Tensor& out) {
  accumulate({kernels::cumprod_line, kernels::cumprod_team, kernels::cumprod_axis, ops::kHostProduct}, self, dim, out);
}

at::Tensor& _logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  resize_out(out, self.sizes(), {}, self.options());
  check_apart(out, self);
  accumulate({kernels::logcumsumexp_line, kernels::logcumsumexp_team, kernels::logcumsumexp_axis, 0}, self, dim, out);
  return out;
}

at::Tensor _logcumsumexp(const at::Tensor& self, int64_t dim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const at::Tensor out = new_empty(self.sizes(), self.scalar_type());
  accumulate({kernels::logcumsumexp_line, kernels::logcumsumexp_team, kernels::logcumsumexp_axis, 0}, self, dim, out);
  return out;
}

void _cummax_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan_extremes({kernels::cummax_line, kernels::cummax_team, kernels::cummax_axis, ops::kHostExtreme}, self, values,
                indices, dim);
}

void _cummin_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan_extremes({kernels::cummin_line, kernels::cummin_team, kernels::cummin_axis, ops::kHostExtreme}, self, values,
                indices, dim);
}

}  // namespace xpu_ops::aten
