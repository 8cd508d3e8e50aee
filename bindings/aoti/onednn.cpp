// oneDNN's fused operators for models compiled ahead of time: through the dispatcher, as a compiled graph calls them.
#define USE_XPU
#include <torch/csrc/inductor/aoti_torch/c/shim_xpu.h>
#undef USE_XPU

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <optional>
#include <string>
#include <vector>

#include "bindings/aoti/model/xpu_ops_model.h"

namespace xpu_ops::aoti {
namespace {

using namespace torch::aot_inductor;

const at::Tensor& tensor(AtenTensorHandle h) { return *tensor_handle_to_tensor_pointer(h); }
std::optional<at::Tensor> tensor(AtenTensorHandle* h) { return pointer_to_optional<at::Tensor>(h); }
std::vector<int64_t> list(const int64_t* values, int64_t count) { return {values, values + count}; }
std::optional<std::string> text(const char** s) { return s ? std::make_optional<std::string>(*s) : std::nullopt; }
std::optional<at::Scalar> scalar(const double* v) { return v ? std::make_optional<at::Scalar>(*v) : std::nullopt; }
std::optional<int64_t> type(const int32_t* t) { return t ? std::make_optional<int64_t>(*t) : std::nullopt; }

c10::List<std::optional<at::Scalar>> scalars(const double** values, int64_t count) {
  c10::List<std::optional<at::Scalar>> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(scalar(values[i]));
  return result;
}

template <class... Args>
AtenTensorHandle call(const char* name, const char* overload, Args&&... args) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Args>(args)...);
  op.callBoxed(stack);
  return new_tensor_handle(std::move(stack.back()).toTensor());
}

}  // namespace

// Declared in the global namespace, which a declaration here does not inherit its visibility from.
#pragma GCC visibility push(default)
extern "C" {

AOTITorchError aoti_torch_xpu__linear_pointwise(AtenTensorHandle X, AtenTensorHandle W, AtenTensorHandle* B,
                                                const char* attr, const double** values, int64_t count,
                                                const char** algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 = call("mkldnn::_linear_pointwise", "", tensor(X), tensor(W), tensor(B), std::string(attr),
                 scalars(values, count), text(algorithm));
  });
}

AOTITorchError aoti_torch_xpu__linear_pointwise_binary(AtenTensorHandle X, AtenTensorHandle other, AtenTensorHandle W,
                                                       AtenTensorHandle* B, const char* attr, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 =
        call("mkldnn::_linear_pointwise", "binary", tensor(X), tensor(other), tensor(W), tensor(B), std::string(attr));
  });
}

AOTITorchError aoti_torch_xpu_mkldnn__convolution_pointwise(
    AtenTensorHandle X, AtenTensorHandle W, AtenTensorHandle* B, const int64_t* padding, int64_t padding_len_,
    const int64_t* stride, int64_t stride_len_, const int64_t* dilation, int64_t dilation_len_, int64_t groups,
    const char* attr, const double** values, int64_t count, const char** algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 = call("mkldnn::_convolution_pointwise", "", tensor(X), tensor(W), tensor(B), list(padding, padding_len_),
                 list(stride, stride_len_), list(dilation, dilation_len_), groups, std::string(attr),
                 scalars(values, count), text(algorithm));
  });
}

AOTITorchError aoti_torch_xpu_mkldnn__convolution_pointwise_binary(
    AtenTensorHandle X, AtenTensorHandle other, AtenTensorHandle W, AtenTensorHandle* B, const int64_t* padding,
    int64_t padding_len_, const int64_t* stride, int64_t stride_len_, const int64_t* dilation, int64_t dilation_len_,
    int64_t groups, const char* binary_attr, double* alpha, const char** unary_attr, const double** values,
    int64_t count, const char** unary_algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 =
        call("mkldnn::_convolution_pointwise", "binary", tensor(X), tensor(other), tensor(W), tensor(B),
             list(padding, padding_len_), list(stride, stride_len_), list(dilation, dilation_len_), groups,
             std::string(binary_attr), scalar(alpha), text(unary_attr), scalars(values, count), text(unary_algorithm));
  });
}

AOTITorchError aoti_torch_xpu_mkldnn__convolution_pointwise_binary_(
    AtenTensorHandle other, AtenTensorHandle X, AtenTensorHandle W, AtenTensorHandle* B, const int64_t* padding,
    int64_t padding_len_, const int64_t* stride, int64_t stride_len_, const int64_t* dilation, int64_t dilation_len_,
    int64_t groups, const char* binary_attr, double* alpha, const char** unary_attr, const double** values,
    int64_t count, const char** unary_algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 =
        call("mkldnn::_convolution_pointwise_", "binary", tensor(other), tensor(X), tensor(W), tensor(B),
             list(padding, padding_len_), list(stride, stride_len_), list(dilation, dilation_len_), groups,
             std::string(binary_attr), scalar(alpha), text(unary_attr), scalars(values, count), text(unary_algorithm));
  });
}

AOTITorchError aoti_torch_xpu__qlinear_pointwise_tensor(
    AtenTensorHandle X, AtenTensorHandle act_scale, AtenTensorHandle act_zero_point, AtenTensorHandle onednn_weight,
    AtenTensorHandle weight_scales, AtenTensorHandle weight_zero_points, AtenTensorHandle* B, double output_scale,
    int64_t output_zero_point, const int32_t* output_dtype, const char* post_op_name, const double** values,
    int64_t count, const char* post_op_algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 = call("onednn::qlinear_pointwise", "tensor", tensor(X), tensor(act_scale), tensor(act_zero_point),
                 tensor(onednn_weight), tensor(weight_scales), tensor(weight_zero_points), tensor(B), output_scale,
                 output_zero_point, type(output_dtype), std::string(post_op_name), scalars(values, count),
                 std::string(post_op_algorithm));
  });
}

AOTITorchError aoti_torch_xpu__qlinear_pointwise_binary_tensor(
    AtenTensorHandle X, AtenTensorHandle act_scale, AtenTensorHandle act_zero_point, AtenTensorHandle onednn_weight,
    AtenTensorHandle weight_scales, AtenTensorHandle weight_zero_points, AtenTensorHandle* other, AtenTensorHandle* B,
    double output_scale, int64_t output_zero_point, const int32_t* output_dtype, double other_scale,
    int64_t other_zero_point, const char* binary_post_op, double binary_alpha, const char* unary_post_op,
    const double** values, int64_t count, const char* unary_post_op_algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 = call("onednn::qlinear_pointwise", "binary_tensor", tensor(X), tensor(act_scale), tensor(act_zero_point),
                 tensor(onednn_weight), tensor(weight_scales), tensor(weight_zero_points), tensor(other), tensor(B),
                 output_scale, output_zero_point, type(output_dtype), other_scale, other_zero_point,
                 std::string(binary_post_op), binary_alpha, std::string(unary_post_op), scalars(values, count),
                 std::string(unary_post_op_algorithm));
  });
}

AOTITorchError aoti_torch_xpu__qconv_pointwise_tensor(
    AtenTensorHandle X, AtenTensorHandle act_scale, AtenTensorHandle act_zero_point, AtenTensorHandle onednn_weight,
    AtenTensorHandle weight_scales, AtenTensorHandle weight_zero_points, AtenTensorHandle* B, const int64_t* stride,
    int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t dilation_len_,
    int64_t groups, double output_scale, int64_t output_zero_point, const int32_t* output_dtype, const char* attr,
    const double** values, int64_t count, const char** algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 = call("onednn::qconv_pointwise", "tensor", tensor(X), tensor(act_scale), tensor(act_zero_point),
                 tensor(onednn_weight), tensor(weight_scales), tensor(weight_zero_points), tensor(B),
                 list(stride, stride_len_), list(padding, padding_len_), list(dilation, dilation_len_), groups,
                 output_scale, output_zero_point, type(output_dtype), std::string(attr), scalars(values, count),
                 text(algorithm));
  });
}

AOTITorchError aoti_torch_xpu__qconv2d_pointwise_binary_tensor(
    AtenTensorHandle X, AtenTensorHandle act_scale, AtenTensorHandle act_zero_point, AtenTensorHandle onednn_weight,
    AtenTensorHandle weight_scales, AtenTensorHandle weight_zero_points, AtenTensorHandle accum, AtenTensorHandle* B,
    const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t padding_len_, const int64_t* dilation,
    int64_t dilation_len_, int64_t groups, double output_scale, int64_t output_zero_point, const int32_t* output_dtype,
    double accum_scale, int64_t accum_zero_point, const char* binary_attr, double* alpha, const char** unary_attr,
    const double** values, int64_t count, const char** unary_algorithm, AtenTensorHandle* ret0) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret0 =
        call("onednn::qconv2d_pointwise", "binary_tensor", tensor(X), tensor(act_scale), tensor(act_zero_point),
             tensor(onednn_weight), tensor(weight_scales), tensor(weight_zero_points), tensor(accum), tensor(B),
             list(stride, stride_len_), list(padding, padding_len_), list(dilation, dilation_len_), groups,
             output_scale, output_zero_point, type(output_dtype), accum_scale, accum_zero_point,
             std::string(binary_attr), scalar(alpha), text(unary_attr), scalars(values, count), text(unary_algorithm));
  });
}

}  // extern "C"
#pragma GCC visibility pop
}  // namespace xpu_ops::aoti
