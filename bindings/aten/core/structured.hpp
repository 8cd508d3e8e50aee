// The three ways a structured operator receives its outputs, over the meta classes that the torch wheel exports.
#pragma once
#include <array>
#include <functional>

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include "bindings/aten/core/tensor.hpp"

namespace xpu_ops::aten {

at::Tensor create_out(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
// Upstream's contract of out=: dtype and device must match, a wrong shape is resized (with a warning where it has
// data).
void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options);
// As an iterator checks an output: no two of its elements are one, and it lies apart from the input or is the input.
void check_apart(const at::Tensor& out, const at::Tensor& input);
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);

namespace detail {
template <class Meta>
void forward_to_iterator(Meta& op, int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                         at::TensorOptions options) {
  if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>)
    op.Meta::set_output_raw_strided(i, sizes, strides, options);
  else
    (void)op, (void)i, (void)sizes, (void)strides, (void)options;
}
}  // namespace detail

template <class Meta, int N>
struct Functional final : Meta {
  std::array<at::Tensor, N> outputs;
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    outputs[i] = create_out(sizes, strides, options);
    detail::forward_to_iterator<Meta>(*this, i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    set_output_strided(i, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t i) override { return outputs[i]; }
  void finish() {}
};

// Outputs given by the caller: `out=` (resized) or `self` of an in-place call (checked).
template <class Meta, int N, bool kInplace>
struct Given final : Meta {
  std::array<std::reference_wrapper<at::Tensor>, N> outputs;
  std::array<at::Tensor, N> proxies;  // where the operator insists on strides that the output does not have
  template <class... T>
  explicit Given(T&... outs) : outputs{std::ref(outs)...} {}

  void prepare(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    if constexpr (kInplace)
      check_inplace(outputs[i], sizes, options);
    else
      resize_out(outputs[i], sizes, strides, options);
  }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    prepare(i, sizes, strides, options);
    if (outputs[i].get().strides() != strides) proxies[i] = new_strided(sizes, strides, options.dtype().toScalarType());
    detail::forward_to_iterator<Meta>(*this, i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    prepare(i, sizes, strides, options);
    detail::forward_to_iterator<Meta>(*this, i, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t i) override {
    return proxies[i].defined() ? proxies[i] : outputs[i].get();
  }
  void finish() {
    for (int i = 0; i < N; ++i)
      if (proxies[i].defined()) outputs[i].get().copy_(proxies[i]);
  }
};

template <class Meta, int N> using Inplace = Given<Meta, N, true>;
template <class Meta, int N> using Out = Given<Meta, N, false>;

}  // namespace xpu_ops::aten
