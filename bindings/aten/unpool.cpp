// max_unpool and fractional max pooling.
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/zeros.h>

#include "bindings/aten/indexing.hpp"
#include "kernels/ops/unpool.hpp"

namespace xpu_ops::aten {
namespace {

// data[plane, index[plane, i]] op= src[plane, i], planes being the dims before the last `spatial` ones. All are dense
// in one format, so that the positions of a plane are one dim: of step 1, or of C for channels-last.
void scatter_planes(Reduce op, const at::Tensor& data, const at::Tensor& index, const at::Tensor& src, int64_t spatial,
                    int64_t step, const IndexSource& from) {
  const int64_t planes = src.dim() - spatial;
  int64_t steps = 1;
  for (int64_t d = planes; d < src.dim(); ++d) steps *= src.size(d);
  Dims3 columns;
  for (int64_t d = 0; d < planes; ++d)
    columns.push_back({src.size(d), {data.stride(d), src.stride(d), index.stride(d)}});
  ops::scatter_columns(runtime::current_queue(), {op,
                                                  dtype_of(data),
                                                  data.itemsize(),
                                                  mutable_ptr(data),
                                                  src.const_data_ptr(),
                                                  from,
                                                  steps,
                                                  step,
                                                  step,
                                                  {},
                                                  std::move(columns)});
}

void unpool(const at::Tensor& self_, const at::Tensor& indices_, at::IntArrayRef output_size, int64_t spatial,
            at::Tensor& out) {
  const at::MemoryFormat format =
      spatial == 2 && self_.dim() == 4 ? self_.suggest_memory_format() : at::MemoryFormat::Contiguous;
  std::vector<int64_t> sizes = self_.sizes().vec();
  std::copy(output_size.begin(), output_size.end(), sizes.end() - spatial);
  at::native::resize_output(out, sizes);
  if (format != at::MemoryFormat::Contiguous && !out.is_contiguous(format) && out.is_non_overlapping_and_dense())
    out.unsafeGetTensorImpl()->empty_tensor_restride(format);
  at::Tensor dense = out.is_contiguous(format) ? out : new_empty(sizes, out.scalar_type(), format);
  dense.zero_();
  if (self_.numel() != 0) {
    const at::Tensor self = self_.contiguous(format), indices = indices_.contiguous(format);
    std::string text = " (output volumes are of size ";
    int64_t volume = 1;
    for (int64_t k = 0; k < spatial; ++k) {
      volume *= output_size[k];
      text += (k ? "x" : "") + std::to_string(output_size[k]);
    }
    const int64_t step = format == at::MemoryFormat::Contiguous ? 1 : self.size(1);
    const IndexSource from =
        index_source(indices, volume, step, DeviceErrorCode::unpool, runtime::register_error_message(text), false);
    scatter_planes(Reduce::assign, dense, indices, self, spatial, step, from);
  }
  if (!dense.is_same(out)) out.copy_(dense);
}

}  // namespace

at::Tensor& max_unpool2d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::Tensor& out) {
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(output_size.size() == 2, "There should be exactly two elements (height, width) in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4,
              "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with ", self.dim(),
              " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t d = 1; d < self.dim(); ++d)
    TORCH_CHECK(self.size(d) > 0,
                "max_unpooling2d(): ", "Expected input to have non-zero size for non-batch dimensions, but got ",
                self.sizes(), " with dimension ", d, " being empty.");
  unpool(self, indices, output_size, 2, out);
  return out;
}

at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  max_unpool2d_out(self, indices, output_size, out);
  return out;
}

at::Tensor& max_unpool3d_out(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::Tensor& out) {
  TORCH_CHECK(indices.scalar_type() == at::kLong, "elements in indices should be type int64");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
              "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with ", self.dim(),
              " dimensions.");
  TORCH_CHECK(output_size.size() == 3,
              "There should be exactly three elements (depth, height, width) in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(stride.size() == 3,
              "There should be exactly three elements (depth, height, width) in stride, but got: ", stride.size(),
              " elements.");
  TORCH_CHECK(padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in padding, but got: ", padding.size(),
              " elements.");
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t d = 1; d < self.dim(); ++d)
    TORCH_CHECK(self.size(d) > 0,
                "max_unpooling3d(): ", "Expected input to have non-zero size for non-batch dimensions, but got ",
                self.sizes(), " with dimension ", d, " being empty.");
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than zero, but got stride: ", stride);
  unpool(self, indices, output_size, 3, out);
  return out;
}

at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor& indices, at::IntArrayRef output_size,
                        at::IntArrayRef stride, at::IntArrayRef padding) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  max_unpool3d_out(self, indices, output_size, stride, padding, out);
  return out;
}

namespace {

void fractional(const char* name, const at::Tensor& self, at::IntArrayRef pool, at::IntArrayRef output_size,
                const at::Tensor& samples_, const at::Tensor& output, const at::Tensor& indices) {
  const int64_t dims = static_cast<int64_t>(pool.size());
  for (int64_t k = 0; k < dims; ++k) {
    TORCH_CHECK(pool[k] > 0, name, "(): kernel_size must be greater than zero, but got ", pool);
    TORCH_CHECK(output_size[k] >= 0, name, "(): output_size must not be negative, but got ", output_size);
  }
  if (output.numel() == 0) return;
  const at::Tensor in = self.contiguous(), samples = samples_.contiguous();
  at::Tensor out = output.is_contiguous() ? output : new_empty(output.sizes(), output.scalar_type());
  at::Tensor where = indices.is_contiguous() ? indices : new_empty(indices.sizes(), at::kLong);
  ops::FractionalProblem problem{};
  problem.in = in.const_data_ptr();
  problem.samples = samples.const_data_ptr();
  problem.out = mutable_ptr(out);
  problem.indices = where.mutable_data_ptr<int64_t>();
  for (int d = 0; d < 3; ++d) {
    const int64_t k = d - 3 + dims;
    problem.in_size[d] = k < 0 ? 1 : static_cast<uint32_t>(in.size(in.dim() - 3 + d));
    problem.out_size[d] = k < 0 ? 1 : static_cast<uint32_t>(output_size[k]);
    problem.pool[d] = k < 0 ? 1 : static_cast<uint32_t>(pool[k]);
  }
  problem.dims = static_cast<uint32_t>(dims);
  problem.planes =
      static_cast<uint32_t>(out.numel() / (int64_t{problem.out_size[0]} * problem.out_size[1] * problem.out_size[2]));
  ops::fractional_max_pool(runtime::current_queue(), dtype_of(self), problem);
  if (!out.is_same(output)) output.copy_(out);
  if (!where.is_same(indices)) indices.copy_(where);
}

void fractional_backward(const char* name, const at::Tensor& grad_output, const at::Tensor& indices_, int64_t spatial,
                         const at::Tensor& grad_input) {
  TORCH_CHECK(grad_output.dim() == grad_input.dim(), name, "(): gradOutput has ", grad_output.dim(),
              " dimensions, but input has ", grad_input.dim());
  for (int64_t d = 0; d < grad_input.dim() - spatial; ++d)
    TORCH_CHECK(grad_output.size(d) == grad_input.size(d), name, "(): gradOutput has size ", grad_output.size(d),
                " in dimension ", d, ", but input has ", grad_input.size(d));
  TORCH_CHECK(indices_.sizes() == grad_output.sizes(), name, "(): expected indices of size ", grad_output.sizes(),
              ", but got ", indices_.sizes());
  TORCH_CHECK(indices_.scalar_type() == at::kLong, name, "(): expected indices to be Long, but got ",
              indices_.scalar_type());
  TORCH_CHECK(grad_output.scalar_type() == grad_input.scalar_type(), name, "(): expected gradOutput of type ",
              grad_input.scalar_type(), ", but got ", grad_output.scalar_type());
  at::Tensor dense = grad_input.is_contiguous() ? grad_input : new_empty(grad_input.sizes(), grad_input.scalar_type());
  dense.zero_();
  if (grad_output.numel() != 0) {
    const at::Tensor grad = grad_output.contiguous(), indices = indices_.contiguous();
    int64_t volume = 1;
    for (int64_t d = dense.dim() - spatial; d < dense.dim(); ++d) volume *= dense.size(d);
    scatter_planes(Reduce::add, dense, indices, grad, spatial, 1,
                   index_source(indices, volume, 1, DeviceErrorCode::none, 0, false));
  }
  if (!dense.is_same(grad_input)) grad_input.copy_(dense);
}

}  // namespace

void fractional_max_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                           const at::Tensor& random_samples, const at::Tensor& output, const at::Tensor& indices) {
  at::native::fractional_max_pool_check_shape<2>(self, random_samples);
  fractional("fractional_max_pool2d", self, kernel_size, output_size, random_samples, output, indices);
}

void fractional_max_pool2d_backward(const at::Tensor& grad_output, const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                    const at::Tensor& indices, const at::Tensor& grad_input) {
  fractional_backward("fractional_max_pool2d_backward", grad_output, indices, 2, grad_input);
}

void fractional_max_pool3d(const at::Tensor& self, int64_t poolSizeT, int64_t poolSizeH, int64_t poolSizeW,
                           int64_t outputT, int64_t outputH, int64_t outputW, const at::Tensor& random_samples, int64_t,
                           int64_t, int64_t, int64_t, int64_t, const at::Tensor& output, const at::Tensor& indices) {
  at::native::fractional_max_pool_check_shape<3>(self, random_samples);
  fractional("fractional_max_pool3d", self, {poolSizeT, poolSizeH, poolSizeW}, {outputT, outputH, outputW},
             random_samples, output, indices);
}

at::Tensor& fractional_max_pool3d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                      at::IntArrayRef, at::IntArrayRef output_size,
                                                      const at::Tensor& indices, at::Tensor& grad_input) {
  const char* const name = "fractional_max_pool3d_backward_out";
  const char* const spatial[] = {"time", "height", "width"};
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, name, "(): expected a 4-D or 5-D input, but got ", self.dim(), "-D");
  TORCH_CHECK(output_size.size() == 3, name, "(): expected 3 elements in output_size, but got ", output_size.size());
  TORCH_CHECK(grad_output.dim() == self.dim(), name, "(): gradOutput has ", grad_output.dim(),
              " dimensions, but input has ", self.dim());
  for (int64_t k = 0; k < 3; ++k)
    TORCH_CHECK(grad_output.size(grad_output.dim() - 3 + k) == output_size[k], name, "(): gradOutput ", spatial[k],
                " unexpected");
  at::native::resize_output(grad_input, self.sizes());
  fractional_backward(name, grad_output, indices, 3, grad_input);
  return grad_input;
}

at::Tensor fractional_max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                          at::IntArrayRef kernel_size, at::IntArrayRef output_size,
                                          const at::Tensor& indices) {
  at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type());
  fractional_max_pool3d_backward_grad_input(grad_output, self, kernel_size, output_size, indices, grad_input);
  return grad_input;
}

}  // namespace xpu_ops::aten
