// Quantized tensors. Their memory is that of dense integers: what moves, compares or orders elements is done by the
// dense operators on those, and the quantizer goes along.
#include "bindings/aten/quantized.hpp"

#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <ATen/ops/_empty_per_channel_affine_quantized.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/max.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/min.h>
#include <ATen/quantized/QTensorImpl.h>

#include <limits>
#include <vector>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/storage.hpp"
#include "bindings/torch_compat.hpp"
#include "gen/aten/quantized_ops.hpp"
#include "kernels/ops/quantized.hpp"

namespace xpu_ops::aten {

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format);

namespace {

using at::QuantizerPtr;

const at::PerChannelAffineQuantizer* of_channels(const QuantizerPtr& quantizer) {
  return dynamic_cast<const at::PerChannelAffineQuantizer*>(quantizer.get());
}

bool has_float_zeros(const at::PerChannelAffineQuantizer& channels) {
  return channels.qscheme() == at::kPerChannelAffineFloatQParams;
}

QuantizerPtr on_device(const QuantizerPtr& quantizer, c10::Device device) {
  const auto* channels = of_channels(quantizer);
  if (!channels || channels->scales().device() == device) return quantizer;
  return at::make_per_channel_affine_quantizer(channels->scales().to(device), channels->zero_points().to(device),
                                               channels->axis(), quantizer->scalar_type());
}

// A grid that the kernels read, and the tensors that it lies in.
struct DeviceGrid {
  ops::Grid grid;
  at::Tensor scales, zeros;
};

void check_axis(const char* what, const at::Tensor& t, int64_t axis, const at::Tensor& scales) {
  TORCH_CHECK(0 <= axis && axis < t.dim(), "Channel axis out of range in per channel ", what, ". Got: ", axis,
              " Expected: [0, ", t.dim(), ")");
  TORCH_CHECK(t.size(axis) == scales.numel(), "length of scales must equal to channel");
}

// Of elements in the layout of `dense`.
DeviceGrid grid_of(const QuantizerPtr& quantizer, const at::Tensor& dense, const char* what) {
  DeviceGrid g;
  if (const auto* channels = of_channels(quantizer)) {
    check_axis(what, dense, channels->axis(), channels->scales());
    g.grid.float_zeros = has_float_zeros(*channels);
    g.grid.zero_after = kZeroAfterRounding && !g.grid.float_zeros;
    g.scales = channels->scales().to(dense.device(), at::kFloat);
    g.zeros = channels->zero_points().to(dense.device(), g.grid.float_zeros ? at::kFloat : at::kInt);
    g.grid.scales = g.scales.const_data_ptr<float>();
    g.grid.zeros = g.zeros.const_data_ptr();
    if (dense.numel()) g.grid.inner = dense.stride(channels->axis()), g.grid.channels = dense.size(channels->axis());
    return g;
  }
  const auto* tensor = dynamic_cast<const at::PerTensorAffineQuantizer*>(quantizer.get());
  TORCH_CHECK(tensor, what, ": the tensor has neither a scale nor scales of channels");
  g.grid.scale = static_cast<float>(tensor->scale());
  g.grid.zero_after = kZeroAfterRounding;
  g.grid.zero = static_cast<int32_t>(tensor->zero_point());
  return g;
}

void check_zero_point(const char* what, int64_t least, int64_t most, at::ScalarType type) {
  const bool byte = type == at::kByte;
  const int64_t low = byte ? 0 : type == at::kChar ? -128 : std::numeric_limits<int32_t>::min();
  const int64_t high = byte ? 255 : type == at::kChar ? 127 : std::numeric_limits<int32_t>::max();
  TORCH_CHECK(most <= high, what, " zero_point ", most, " is above upper bound.");
  TORCH_CHECK(least >= low, what, " zero_point ", least, " is below lower bound.");
}

void check_zero_points(const QuantizerPtr& quantizer, at::ScalarType type) {
  if (const auto* channels = of_channels(quantizer)) {
    if (has_float_zeros(*channels) || channels->zero_points().numel() == 0) return;
    const auto [least, most] = at::aminmax(channels->zero_points());
    check_zero_point("quantize_tensor_per_channel_affine", least.item<int64_t>(), most.item<int64_t>(), type);
  } else if (const auto* tensor = dynamic_cast<const at::PerTensorAffineQuantizer*>(quantizer.get())) {
    check_zero_point("quantize_tensor_per_tensor_affine", tensor->zero_point(), tensor->zero_point(), type);
  }
}

at::Tensor new_quantized(at::IntArrayRef sizes, at::ScalarType type, const QuantizerPtr& quantizer,
                         std::optional<at::MemoryFormat> format) {
  return quantized_of(new_empty(sizes, integer_type(type), format), quantizer);
}

at::ScalarType given(std::optional<at::ScalarType> type) {
  TORCH_CHECK(type.has_value(), "Must provide data type for Tensor creation functions.");
  return *type;
}

void check_per_tensor(const at::Tensor& t, const char* what) {
  TORCH_CHECK(t.qscheme() == at::kPerTensorAffine, what, " takes quantized tensors with one scale only, got ",
              c10::toString(t.qscheme()));
}

}  // namespace

at::ScalarType integer_type(at::ScalarType quantized) {
  switch (quantized) {
    case at::kQUInt8: return at::kByte;
    case at::kQInt8: return at::kChar;
    case at::kQInt32: return at::kInt;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(!at::isQIntType(quantized), "Quantized tensors of type ", quantized,
                                  " exist on the CPU alone; xpu has quint8, qint8 and qint32.");
      TORCH_CHECK(false, "Creation of quantized tensor requires quantized dtype like torch.quint8, got ", quantized);
  }
}

at::Tensor integers_of(const at::Tensor& quantized) {
  const c10::DispatchKey key = quantized.is_xpu() ? c10::DispatchKey::XPU : c10::DispatchKey::CPU;
  TORCH_CHECK(quantized.is_xpu() || quantized.is_cpu(), "expected a quantized tensor of xpu or the CPU, got one of ",
              quantized.device());
  at::Tensor out =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(quantized.storage()), c10::DispatchKeySet(key),
                                               c10::scalarTypeToTypeMeta(integer_type(quantized.scalar_type())));
  out.unsafeGetTensorImpl()->set_storage_offset(quantized.storage_offset());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(quantized.sizes(), quantized.strides());
  return out;
}

at::Tensor quantized_of(const at::Tensor& integers, const QuantizerPtr& quantizer) {
  at::Tensor out = at::detail::make_tensor<at::QTensorImpl>(
      c10::Storage(integers.storage()), c10::DispatchKeySet(c10::DispatchKey::QuantizedXPU),
      c10::scalarTypeToTypeMeta(c10::toQIntType(integers.scalar_type())), quantizer);
  out.unsafeGetTensorImpl()->set_storage_offset(integers.storage_offset());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(integers.sizes(), integers.strides());
  return out;
}

at::Tensor quantize_by(const at::Tensor& values, const QuantizerPtr& quantizer) {
  const at::ScalarType type = integer_type(quantizer->scalar_type());
  TORCH_CHECK(values.scalar_type() == at::kFloat, "Quantize only works on Float Tensor, got ", values.scalar_type());
  const auto* channels = of_channels(quantizer);
  const bool plain = channels && has_float_zeros(*channels);
  const at::Tensor x = values.contiguous(plain ? at::MemoryFormat::Contiguous : values.suggest_memory_format());
  const DeviceGrid g = grid_of(quantizer, x, "quantization");
  check_zero_points(quantizer, type);
  const at::Tensor out = new_strided(x.sizes(), x.strides(), type);
  if (x.numel())
    ops::quantize(runtime::current_queue(), to_dtype(type), x.const_data_ptr<float>(), out.mutable_data_ptr(),
                  x.numel(), g.grid);
  return quantized_of(out, quantizer);
}

// ---- from values and from integers

at::Tensor quantize_per_tensor(const at::Tensor& self, double scale, int64_t zero_point, at::ScalarType dtype) {
  return quantize_by(self, at::make_per_tensor_affine_quantizer(scale, zero_point, dtype));
}

at::Tensor quantize_per_tensor_tensor_qparams(const at::Tensor& self, const at::Tensor& scale,
                                              const at::Tensor& zero_point, at::ScalarType dtype) {
  return quantize_per_tensor(self, scale.item().toDouble(), zero_point.item().toLong(), dtype);
}

std::vector<at::Tensor> quantize_per_tensor_tensors(at::TensorList tensors, const at::Tensor& scales,
                                                    const at::Tensor& zero_points, at::ScalarType dtype) {
  const at::Tensor scale = scales.cpu(), zero = zero_points.cpu();
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    out.push_back(quantize_per_tensor(tensors[i], scale[k].item<double>(), zero[k].item<int64_t>(), dtype));
  }
  return out;
}

at::Tensor quantize_per_tensor_dynamic(const at::Tensor& self, at::ScalarType dtype, bool reduce_range) {
  TORCH_CHECK(dtype == at::kQInt8 || dtype == at::kQUInt8 || dtype == at::kHalf, "dtype ", dtype, "not supported");
  if (dtype == at::kHalf) return self.contiguous().to(dtype);
  const bool is_signed = dtype == at::kQInt8;
  const auto grid =
      quant_utils::ChooseQuantizationParams(self.min().item<float>(), self.max().item<float>(), is_signed ? -128 : 0,
                                            is_signed ? 127 : 255, false, false, reduce_range);
  return quantize_per_tensor(self, grid.scale, grid.zero_point, dtype);
}

at::Tensor quantize_per_channel(const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zero_points,
                                int64_t axis, at::ScalarType dtype) {
  return quantize_by(self, at::make_per_channel_affine_quantizer(scales, zero_points, axis, dtype));
}

at::Tensor _make_per_tensor_quantized_tensor(const at::Tensor& self, double scale, int64_t zero_point) {
  const at::Tensor integers = self.clone(at::MemoryFormat::Contiguous);
  const at::ScalarType type = c10::toQIntType(self.scalar_type());
  integer_type(type);  // refuses others
  return quantized_of(integers, at::make_per_tensor_affine_quantizer(scale, zero_point, type));
}

at::Tensor _make_per_channel_quantized_tensor(const at::Tensor& self, const at::Tensor& scale,
                                              const at::Tensor& zero_point, int64_t axis) {
  const at::Tensor integers = self.clone(at::MemoryFormat::Contiguous);
  const at::ScalarType type = c10::toQIntType(self.scalar_type());
  integer_type(type);
  return quantized_of(integers, at::make_per_channel_affine_quantizer(scale, zero_point, axis, type));
}

// ---- memory

at::Tensor quantized__empty_affine_quantized(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                             std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                                             double scale, int64_t zero_point, std::optional<at::MemoryFormat> format) {
  const at::ScalarType type = given(dtype);
  return new_quantized(size, type, at::make_per_tensor_affine_quantizer(scale, zero_point, type), format);
}

// Scales on this device bring the call here whatever the device of the result is.
at::Tensor quantized__empty_per_channel_affine_quantized(at::IntArrayRef size, const at::Tensor& scales,
                                                         const at::Tensor& zero_points, int64_t axis,
                                                         std::optional<at::ScalarType> dtype,
                                                         std::optional<at::Layout> layout,
                                                         std::optional<at::Device> device, std::optional<bool> pin,
                                                         std::optional<at::MemoryFormat> format) {
  const at::ScalarType type = given(dtype);
  const c10::Device to = c10::device_or_default(device);
  if (!to.is_xpu())
    return at::_empty_per_channel_affine_quantized(size, scales.to(to), zero_points.to(to), axis, type, layout, to, pin,
                                                   format);
  const at::Tensor integers = new_empty(size, integer_type(type), format);
  return quantized_of(integers, at::make_per_channel_affine_quantizer(scales.to(integers.device()),
                                                                      zero_points.to(integers.device()), axis, type));
}

at::Tensor quantized_empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                                         std::optional<at::MemoryFormat> format) {
  const at::ScalarType type = given(dtype);
  return new_quantized(size, type, at::make_unknown_quantizer(type), format);
}

at::Tensor quantized_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                                   std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  const at::ScalarType type = given(dtype);
  return quantized_of(new_strided(size, stride, integer_type(type)), at::make_unknown_quantizer(type));
}

const at::Tensor& quantized_resize_(const at::Tensor& self, at::IntArrayRef size,
                                    std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!of_channels(self.quantizer()), "Can only resize quantized tensors with per-tensor schemes!");
  return resize_(self, size, format);
}

at::Tensor quantized_clone(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  const at::MemoryFormat wanted = format.value_or(at::MemoryFormat::Contiguous);
  return quantized_of(
      integers_of(self).clone(wanted == at::MemoryFormat::Preserve ? self.suggest_memory_format() : wanted),
      self.quantizer());
}

at::Tensor& quantized_copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  TORCH_CHECK(self.is_quantized(),
              "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a "
              "float Tensor from a quantized Tensor");
  if (!src.is_quantized()) {
    if (!self.is_xpu()) return self.copy_(src.to(self.device()));
    const at::Tensor values = src.to(self.device(), at::kFloat).expand(self.sizes());
    integers_of(self).copy_(integers_of(quantize_by(values, self.quantizer())));
    return self;
  }
  TORCH_CHECK(self.qscheme() == src.qscheme(), "Quantized Copy only works with same qscheme, got ",
              c10::toString(self.qscheme()), " and ", c10::toString(src.qscheme()));
  TORCH_CHECK(self.scalar_type() == src.scalar_type(), "Quantized copy only works with same type, got ",
              self.scalar_type(), " and ", src.scalar_type());
  integers_of(self).copy_(integers_of(src), non_blocking);
  at::set_quantizer_(self, on_device(src.quantizer(), self.device()));
  return self;
}

// ---- to values and to integers

at::Tensor quantized_dequantize_self(const at::Tensor& self) {
  const at::Tensor q = integers_of(self).contiguous(self.suggest_memory_format());
  const DeviceGrid g = grid_of(self.quantizer(), q, "dequantization");
  const at::Tensor out = new_strided(q.sizes(), q.strides(), at::kFloat);
  if (q.numel())
    ops::dequantize(runtime::current_queue(), dtype_of(q), q.const_data_ptr(), out.mutable_data_ptr<float>(), q.numel(),
                    g.grid);
  return out;
}

at::Tensor quantized_int_repr(const at::Tensor& self) { return integers_of(self).clone(self.suggest_memory_format()); }

// ---- on the integers

bool quantized_equal(const at::Tensor& self, const at::Tensor& other) {
  return other.is_quantized() && self.sizes() == other.sizes() && self.scalar_type() == other.scalar_type() &&
         self.quantizer()->equalTo(other.quantizer()) && integers_of(self).equal(integers_of(other));
}

at::Tensor quantized_relu(const at::Tensor& self) {
  check_per_tensor(self, "relu");
  const at::Tensor q = integers_of(self).contiguous(self.suggest_memory_format());
  return quantized_of(at::clamp_min(q, self.q_zero_point()), self.quantizer());
}

at::Tensor& quantized_relu_(at::Tensor& self) {
  check_per_tensor(self, "relu_");
  integers_of(self).clamp_min_(self.q_zero_point());
  return self;
}

at::Tensor quantized_flip(const at::Tensor& self, at::IntArrayRef dims) {
  return quantized_of(at::flip(integers_of(self), dims), self.quantizer());
}

at::Tensor quantized_index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  check_per_tensor(self, "index_select");
  return quantized_of(at::index_select(integers_of(self), dim, index), self.quantizer());
}

at::Tensor quantized_quantized_max_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                          at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  check_per_tensor(self, "quantized_max_pool2d");
  const auto [out, indices] =
      at::max_pool2d_with_indices(integers_of(self), kernel_size, stride, padding, dilation, ceil_mode);
  return quantized_of(out, self.quantizer());
}

}  // namespace xpu_ops::aten
