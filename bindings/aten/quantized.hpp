// Quantized tensors as dense integers with a quantizer.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/quantized/Quantizer.h>

namespace xpu_ops::aten {

// The type of the integers. Throws NotImplementedError for types of less than a byte.
at::ScalarType integer_type(at::ScalarType quantized);
// A dense tensor on the memory of a quantized one, of this device or of the CPU.
at::Tensor integers_of(const at::Tensor& quantized);
// A quantized tensor on the memory of integers of this device.
at::Tensor quantized_of(const at::Tensor& integers, const at::QuantizerPtr& quantizer);
// Float values of this device as integers of the quantizer's type.
at::Tensor quantize_by(const at::Tensor& values, const at::QuantizerPtr& quantizer);

}  // namespace xpu_ops::aten
