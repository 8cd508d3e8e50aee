// searchsorted, bucketize, isin, histograms.
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "bindings/aten/indexing.hpp"
#include "kernels/ops/search.hpp"

namespace xpu_ops::aten {
namespace {

using Side = std::optional<c10::string_view>;
using OptionalTensor = std::optional<at::Tensor>;

void search_into(const at::Tensor& bounds_, const at::Tensor& values_, bool out_int32, bool right, const Side& side,
                 const OptionalTensor& sorter_, at::Tensor& out) {
  const at::Tensor sorter_given = sorter_.has_value() ? *sorter_ : at::Tensor();
  at::native::searchsorted_pre_check(bounds_, values_, out, out_int32, right, side, sorter_given);
  at::native::resize_output(out, values_.sizes());
  if (values_.numel() == 0) return;
  const at::ScalarType common =
      values_.scalar_type() == bounds_.scalar_type() ? values_.scalar_type() : at::result_type(bounds_, values_);
  const at::Tensor values = values_.to(common).contiguous(), bounds = bounds_.to(common).contiguous();
  const at::Tensor sorter = sorter_given.defined() ? sorter_given.contiguous() : sorter_given;
  at::Tensor dense = out.is_contiguous() ? out : new_empty(out.sizes(), out.scalar_type());
  ops::SearchProblem problem{};
  problem.values = values.const_data_ptr();
  problem.bounds = bounds.const_data_ptr();
  problem.sorter = sorter.defined() ? sorter.const_data_ptr<int64_t>() : nullptr;
  problem.out = mutable_ptr(dense);
  problem.n = static_cast<uint32_t>(values.numel());
  problem.one_row = bounds.dim() <= 1;
  problem.row_values = static_cast<uint32_t>(values.dim() == 0 ? 1 : values.size(-1));
  problem.bounds_length = static_cast<uint32_t>(bounds.dim() == 0 ? 1 : bounds.size(-1));
  problem.right = side.has_value() ? *side == "right" : right;
  problem.out32 = out_int32;
  ops::search_sorted(runtime::current_queue(), to_dtype(common), problem);
  if (!dense.is_same(out)) out.copy_(dense);
}

at::Tensor search(const at::Tensor& bounds, const at::Tensor& values, bool out_int32, bool right, const Side& side,
                  const OptionalTensor& sorter) {
  at::Tensor out = new_empty({0}, out_int32 ? at::kInt : at::kLong);
  search_into(bounds, values, out_int32, right, side, sorter, out);
  return out;
}

at::Tensor scalar_on(const at::Scalar& value, const at::Tensor& like) {
  at::Tensor t = at::scalar_tensor(value, at::TensorOptions().device(like.device()).dtype(value.type()));
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

}  // namespace

at::Tensor& searchsorted_Tensor_out(const at::Tensor& sorted_sequence, const at::Tensor& self, bool out_int32,
                                    bool right, Side side, const OptionalTensor& sorter, at::Tensor& out) {
  search_into(sorted_sequence, self, out_int32, right, side, sorter, out);
  return out;
}
at::Tensor searchsorted_Tensor(const at::Tensor& sorted_sequence, const at::Tensor& self, bool out_int32, bool right,
                               Side side, const OptionalTensor& sorter) {
  return search(sorted_sequence, self, out_int32, right, side, sorter);
}
at::Tensor searchsorted_Scalar(const at::Tensor& sorted_sequence, const at::Scalar& self, bool out_int32, bool right,
                               Side side, const OptionalTensor& sorter) {
  return search(sorted_sequence, scalar_on(self, sorted_sequence), out_int32, right, side, sorter);
}
at::Tensor& searchsorted_Scalar_out(const at::Tensor& sorted_sequence, const at::Scalar& self, bool out_int32,
                                    bool right, Side side, const OptionalTensor& sorter, at::Tensor& out) {
  search_into(sorted_sequence, scalar_on(self, sorted_sequence), out_int32, right, side, sorter, out);
  return out;
}

namespace {
void check_boundaries(const at::Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
}
}  // namespace

at::Tensor& bucketize_Tensor_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                                 at::Tensor& out) {
  check_boundaries(boundaries);
  search_into(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
  return out;
}
at::Tensor bucketize_Tensor(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  check_boundaries(boundaries);
  return search(boundaries, self, out_int32, right, std::nullopt, std::nullopt);
}
at::Tensor bucketize_Scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return bucketize_Tensor(scalar_on(self, boundaries), boundaries, out_int32, right);
}

void isin_Tensor_Tensor(const at::Tensor& elements, const at::Tensor& test_elements, bool, bool invert,
                        const at::Tensor& out) {
  if (elements.numel() == 0) return;
  const at::ScalarType common = at::result_type(elements, test_elements);
  const at::Tensor e = elements.to(common).contiguous();
  at::Tensor test = test_elements.to(common).contiguous().view({-1});
  // Beyond a few values a search in sorted order is faster than comparing with each.
  const bool sorted = static_cast<double>(test.numel()) >= 10. * std::pow(static_cast<double>(e.numel()), 0.145);
  if (sorted) test = std::get<0>(test.sort());
  at::Tensor dense = out.is_contiguous() ? out : new_empty(out.sizes(), at::kBool);
  ops::IsinProblem problem{};
  problem.elements = e.const_data_ptr();
  problem.test = test.const_data_ptr();
  problem.out = dense.mutable_data_ptr<bool>();
  problem.n = static_cast<uint32_t>(e.numel());
  problem.tests = static_cast<uint32_t>(test.numel());
  problem.sorted = sorted;
  problem.invert = invert;
  ops::is_in(runtime::current_queue(), to_dtype(common), problem);
  if (!dense.is_same(out)) out.copy_(dense);
}

void isin_Tensor_Scalar(const at::Tensor& elements, const at::Scalar& test_element, bool, bool invert,
                        const at::Tensor& out) {
  at::Tensor result = out;
  if (invert)
    at::ne_out(result, elements, test_element);
  else
    at::eq_out(result, elements, test_element);
}

void isin_Scalar_Tensor(const at::Scalar& element, const at::Tensor& test_elements, bool assume_unique, bool invert,
                        const at::Tensor& out) {
  at::native::resize_output(out, {});  // upstream's meta makes it empty and leaves the size to the implementation
  isin_Tensor_Tensor(scalar_on(element, test_elements), test_elements, assume_unique, invert, out);
}

namespace {

void check_range(const char* name, double low, double high) {
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), name, ": range of [", low, ", ", high, "] is not finite");
}

// The outer edges of one dim: given, or those of the data, one apart where they are equal.
std::pair<double, double> outer_edges(const char* name, const at::Tensor& values,
                                      std::optional<std::pair<double, double>> given) {
  double low = 0, high = 1;
  if (given) {
    std::tie(low, high) = *given;
  } else if (values.numel() > 0) {
    const at::Tensor ends = at::stack({values.amin(), values.amax()}).cpu().to(at::kDouble);
    low = ends.const_data_ptr<double>()[0];
    high = ends.const_data_ptr<double>()[1];
  }
  check_range(name, low, high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return {low, high};
}

void bin_axis(const at::Tensor& values, const at::Tensor& edges, at::Tensor& flat, BinSearch search, bool first) {
  ops::BinProblem problem{};
  problem.values = values.const_data_ptr();
  problem.edges = edges.const_data_ptr();
  problem.flat = flat.mutable_data_ptr<int64_t>();
  problem.value_stride = values.numel() > 1 ? values.stride(0) : 1;
  problem.n = static_cast<uint32_t>(values.numel());
  problem.bins = static_cast<uint32_t>(edges.numel() - 1);
  problem.search = search;
  problem.first = first;
  ops::find_bins(runtime::current_queue(), dtype_of(values), problem);
}

// Counts of values in bins of one width, without a bin an element in memory.
at::Tensor count_even_bins(const at::Tensor& values, const at::Tensor& edges) {
  ops::BinCountProblem problem{};
  problem.values = values.const_data_ptr();
  problem.edges = edges.const_data_ptr();
  problem.value_stride = values.numel() > 1 ? values.stride(0) : 1;
  problem.n = static_cast<uint32_t>(values.numel());
  problem.bins = static_cast<uint32_t>(edges.numel() - 1);
  const at::Tensor out = new_empty({int64_t{problem.bins}}, at::kLong);
  ops::count_even_bins(runtime::current_queue(), dtype_of(values), problem, out.mutable_data_ptr<int64_t>());
  return out;
}

// Counts, or sums of weights, of samples [n, dims] over bins given by edges; optionally as a density.
at::Tensor histogram_over(const at::Tensor& samples, const std::vector<at::Tensor>& edges, const OptionalTensor& weight,
                          bool density, BinSearch search) {
  // Given edges mean the same in float; counts in 16 bit would stop growing.
  if (at::isReducedFloatingType(samples.scalar_type()) && search == BinSearch::binary) {
    std::vector<at::Tensor> wide;
    for (const at::Tensor& e : edges) wide.push_back(e.to(at::kFloat));
    const bool weighted = weight.has_value() && weight->defined();
    const OptionalTensor weights = weighted ? OptionalTensor(weight->to(at::kFloat)) : std::nullopt;
    return histogram_over(samples.to(at::kFloat), wide, weights, density, search).to(samples.scalar_type());
  }
  std::vector<int64_t> sizes;
  int64_t bins = 1;
  for (const at::Tensor& e : edges) {
    sizes.push_back(e.numel() - 1);
    bins *= e.numel() - 1;
  }
  const int64_t n = samples.size(0);
  at::Tensor hist;
  const bool weighted = weight.has_value() && weight->defined();
  if (n == 0) {
    hist = at::zeros({bins}, samples.options());
  } else if (search == BinSearch::linear && !weighted && edges.size() == 1) {
    hist = count_even_bins(samples.select(1, 0), edges[0].contiguous()).to(samples.scalar_type());
  } else {
    at::Tensor flat = new_empty({n}, at::kLong);
    for (size_t d = 0; d < edges.size(); ++d)
      bin_axis(samples.select(1, static_cast<int64_t>(d)), edges[d].contiguous(), flat, search, d == 0);
    if (weighted) {
      hist = at::zeros({bins}, samples.options());
      scatter_columns(Reduce::add, hist, 0, flat, weight->reshape({n}), DeviceErrorCode::none);
    } else {
      hist = count_indices(flat, bins).to(samples.scalar_type());
    }
  }
  hist = hist.view(sizes);
  if (density) {
    hist.div_(hist.sum());
    for (size_t d = 0; d < edges.size(); ++d) {
      std::vector<int64_t> shape(edges.size(), 1);
      shape[d] = sizes[d];
      hist.div_(edges[d].diff().reshape(shape));
    }
  }
  return hist;
}

at::Tensor even_edges(const at::Tensor& like, std::pair<double, double> ends, int64_t bins) {
  return at::linspace(ends.first, ends.second, bins + 1, like.options());
}

void check_histogram_out(const at::Tensor& self, const at::Tensor& hist, const at::Tensor& bin_edges) {
  TORCH_CHECK(self.dtype() == hist.dtype(), "torch.histogram: input tensor and hist tensor should",
              " have the same dtype, but got input ", self.dtype(), " and hist ", hist.dtype());
  TORCH_CHECK(self.dtype() == bin_edges.dtype(), "torch.histogram: input tensor and bin_edges tensor should have the ",
              "same dtype, but got input ", self.dtype(), " and bin_edges ", bin_edges.dtype(), " for dimension 0");
}

// `self` has the coordinates of a sample in its last dimension.
void check_histogram(const char* name, const at::Tensor& self, const OptionalTensor& weight) {
  if (!weight.has_value() || !weight->defined()) return;
  TORCH_CHECK(self.dtype() == weight->dtype(), name,
              ": if weight tensor is provided, input tensor and weight tensor should have the "
              "same dtype, but got input(",
              self.dtype(), "), and weight(", weight->dtype(), ")");
  const at::IntArrayRef sizes = self.sizes().slice(0, self.dim() - 1);
  TORCH_CHECK(weight->dim() == 0 ? sizes == at::IntArrayRef{1} : sizes == weight->sizes(),
              "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
              "excluding its innermost dimension, but got input with shape ",
              self.sizes(), " and weight with shape ", weight->sizes());
}

// Weights of samples that are numbers.
OptionalTensor flat_weight(const OptionalTensor& weight) {
  return weight.has_value() && weight->defined() ? OptionalTensor(weight->reshape({weight->numel()})) : std::nullopt;
}

std::vector<std::pair<double, double>> ranges_of(const char* name, const at::Tensor& samples,
                                                 std::optional<at::ArrayRef<double>> range) {
  const int64_t dims = samples.size(1);
  if (range.has_value())
    TORCH_CHECK(static_cast<int64_t>(range->size()) == 2 * dims, name, ": for a ", dims,
                "-dimensional histogram range should have ", 2 * dims, " elements, but got ", range->size());
  std::vector<std::pair<double, double>> ends;
  for (int64_t d = 0; d < dims; ++d) {
    std::optional<std::pair<double, double>> given;
    if (range.has_value()) {
      given = {(*range)[2 * d], (*range)[2 * d + 1]};
      TORCH_CHECK(given->first <= given->second, name, ": min should not exceed max, but got min ", given->first,
                  " max ", given->second, " for dimension ", d);
    }
    ends.push_back(outer_edges(name, samples.select(1, d), given));
  }
  return ends;
}

at::Tensor flat_samples(const at::Tensor& self) { return self.reshape({self.numel(), 1}); }

void check_edges(const char* name, const at::Tensor& samples, const at::Tensor& bins, int64_t dim) {
  TORCH_CHECK(bins.dim() == 1, name, ": bins tensor should have one dimension, but got ", bins.dim(),
              " dimensions in the bins tensor for dimension ", dim);
  TORCH_CHECK(bins.numel() > 0, name, ": bins tensor should have at least 1 element, but got ", bins.numel(),
              " elements in the bins tensor for dimension ", dim);
  TORCH_CHECK(bins.numel() > 1, name, ": bins must be > 0, but got 0 for dimension ", dim);
  TORCH_CHECK(bins.dtype() == samples.dtype(), name,
              ": input tensor and bins tensors should have the same dtype, but got input with dtype ", samples.dtype(),
              " and bins for dimension ", dim, " with dtype ", bins.dtype());
}

}  // namespace

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "\"linspace_cpu\" not implemented for 'Bool'");
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"histogram_cpu\" not implemented for '", self.scalar_type(), "'");
  TORCH_CHECK(bins > 0, "torch.histc(): bins must be > 0");
  const double low = min.to<double>(), high = max.to<double>();
  check_range("torch.histc", low, high);
  TORCH_CHECK(low <= high, "torch.histc: max must be larger than min");
  // Counted in float where upstream's integers or halves would be; the result has the type of the input.
  const at::ScalarType compute = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor samples = flat_samples(self.to(compute));
  std::pair<double, double> ends{low, high};
  if (low == high) {
    ends = outer_edges("torch.histc", samples, std::nullopt);
    if (self.numel() == 0) ends = {0, 1};
    const bool equal = self.numel() > 0 && ends.second - ends.first == 1. && samples.amin().equal(samples.amax());
    if (equal) ends = {ends.first - 0.5, ends.second + 0.5};  // one on each side
  }
  return histogram_over(samples, {even_edges(samples, ends, bins)}, std::nullopt, false, BinSearch::linear)
      .to(self.scalar_type());
}

at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max,
                      at::Tensor& out) {
  TORCH_CHECK(self.dtype() == out.dtype(), "torch.histogram: input tensor and hist tensor should have the same dtype, ",
              "but got input ", self.dtype(), " and hist ", out.dtype());
  const at::Tensor result = xpu_ops::aten::histc(self, bins, min, max);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

std::tuple<at::Tensor, at::Tensor> histogram_bins_tensor(const at::Tensor& self, const at::Tensor& bins,
                                                         const OptionalTensor& weight, bool density) {
  const char* name = "torch.histogramdd()";
  const at::Tensor samples = flat_samples(self);
  check_histogram(name, samples, flat_weight(weight));
  check_edges(name, samples, bins, 0);
  return {histogram_over(samples, {bins}, weight, density, BinSearch::binary), bins.clone()};
}

std::tuple<at::Tensor&, at::Tensor&> histogram_bins_tensor_out(const at::Tensor& self, const at::Tensor& bins,
                                                               const OptionalTensor& weight, bool density,
                                                               at::Tensor& hist, at::Tensor& bin_edges) {
  check_histogram_out(self, hist, bin_edges);
  auto [h, e] = histogram_bins_tensor(self, bins, weight, density);
  at::native::resize_output(hist, h.sizes());
  at::native::resize_output(bin_edges, e.sizes());
  hist.copy_(h);
  bin_edges.copy_(e);
  return {hist, bin_edges};
}

std::tuple<at::Tensor, at::Tensor> histogram_bin_ct(const at::Tensor& self, int64_t bins,
                                                    std::optional<at::ArrayRef<double>> range,
                                                    const OptionalTensor& weight, bool density) {
  const char* name = "torch.histogram()";
  TORCH_CHECK(bins > 0, name, ": bins must be > 0, but got ", bins);
  const at::Tensor samples = flat_samples(self);
  check_histogram(name, samples, flat_weight(weight));
  const at::Tensor edges = even_edges(samples, ranges_of(name, samples, range)[0], bins);
  return {histogram_over(samples, {edges}, weight, density, BinSearch::linear_then_local), edges};
}

std::tuple<at::Tensor&, at::Tensor&> histogram_bin_ct_out(const at::Tensor& self, int64_t bins,
                                                          std::optional<at::ArrayRef<double>> range,
                                                          const OptionalTensor& weight, bool density, at::Tensor& hist,
                                                          at::Tensor& bin_edges) {
  check_histogram_out(self, hist, bin_edges);
  auto [h, e] = histogram_bin_ct(self, bins, range, weight, density);
  at::native::resize_output(hist, h.sizes());
  at::native::resize_output(bin_edges, e.sizes());
  hist.copy_(h);
  bin_edges.copy_(e);
  return {hist, bin_edges};
}

namespace {

at::Tensor samples_of(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd(): input tensor should have at least 2 dimensions, but got ",
              self.dim());
  return self.reshape({-1, self.size(-1)});
}

std::vector<at::Tensor> dd_edges(const at::Tensor& samples, at::IntArrayRef bins,
                                 std::optional<at::ArrayRef<double>> range) {
  const char* name = "torch.histogramdd()";
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == samples.size(1),
              "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  const auto ends = ranges_of(name, samples, range);
  std::vector<at::Tensor> edges;
  for (size_t d = 0; d < bins.size(); ++d) { edges.push_back(even_edges(samples, ends[d], bins[d])); }
  return edges;
}

}  // namespace

std::vector<at::Tensor> _histogramdd_bin_edges(const at::Tensor& self, at::IntArrayRef bins,
                                               std::optional<at::ArrayRef<double>> range, const OptionalTensor&, bool) {
  return dd_edges(samples_of(self), bins, range);
}

at::Tensor _histogramdd_from_bin_cts(const at::Tensor& self, at::IntArrayRef bins,
                                     std::optional<at::ArrayRef<double>> range, const OptionalTensor& weight,
                                     bool density) {
  const at::Tensor samples = samples_of(self);
  const char* name = "torch.histogramdd()";
  check_histogram(name, self, weight);
  for (size_t d = 0; d < bins.size(); ++d)
    TORCH_CHECK(bins[d] > 0, name, ": bins must be > 0, but got ", bins[d], " for dimension ", d);
  return histogram_over(samples, dd_edges(samples, bins, range), weight, density, BinSearch::linear_then_local);
}

at::Tensor _histogramdd_from_bin_tensors(const at::Tensor& self, at::TensorList bins, const OptionalTensor& weight,
                                         bool density) {
  const at::Tensor samples = samples_of(self);
  const char* name = "torch.histogramdd()";
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == samples.size(1), name, ": expected ", samples.size(1),
              " sequences of bin edges for a ", samples.size(1), "-dimensional histogram but got ", bins.size());
  check_histogram(name, self, weight);
  for (size_t d = 0; d < bins.size(); ++d) check_edges(name, samples, bins[d], static_cast<int64_t>(d));
  return histogram_over(samples, bins.vec(), weight, density, BinSearch::binary);
}

}  // namespace xpu_ops::aten
