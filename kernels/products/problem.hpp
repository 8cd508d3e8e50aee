// Products as plain data: operands, what is added, the activation, flags. No type of torch or oneDNN.
#pragma once
#include <cstdint>

#include "kernels/postops.hpp"
#include "kernels/sycl/products/convolution_args.hpp"
#include "kernels/view.hpp"

namespace xpu_ops::products {

inline bool is_half(DType t) { return t == DType::bf16 || t == DType::f16; }

// A matrix, or a batch of them: sizes and strides in elements, a stride of 0 repeats.
struct Operand {
  void* data = nullptr;  // null: none
  DType type = DType::f32;
  bool batched = false;
  int64_t batch = 1, rows = 0, cols = 0;
  int64_t batch_stride = 0, row_stride = 0, col_stride = 0;

  int64_t numel() const { return batch * rows * cols; }
  Operand turned() const {
    Operand t = *this;
    t.rows = cols, t.cols = rows, t.row_stride = col_stride, t.col_stride = row_stride;
    return t;
  }
};
inline bool same_memory(const Operand& a, const Operand& b) {
  return a.data == b.data && a.batch_stride == b.batch_stride && a.row_stride == b.row_stride &&
         a.col_stride == b.col_stride;
}

// b, where it may be a layer's weight, kept packed between calls. It is named when a primitive is about to be tried:
// asking has effects.
struct Weight {
  WeightRef (*name)(const void* owner) = nullptr;  // null: no weight
  const void* owner = nullptr;
};

enum class Activation : uint8_t { none, relu, gelu };

// A bias of one row, and a chain of post-ops. Their operands have the dims of the result or 1.
struct Epilogue {
  const View* bias = nullptr;  // one dimension
  PostOps post;
  bool reads_result = false;  // a sum in it reads what the result holds
};

// out = activation(alpha * a @ b + beta * c), or out = chain(a @ b + bias).
struct MatmulProblem {
  Operand a, b, out;
  Operand c;                    // of out's sizes, with strides of 0 where it repeats
  float alpha = 1, beta = 0;    // as primitives take them; beta is 0 where nothing is added
  uint64_t alpha_bits[2] = {};  // of the type that own kernels compute in
  uint64_t beta_bits[2] = {};
  Activation activation = Activation::none;
  Weight weight;
};

struct FusedProblem {
  Operand a, b, out;
  Epilogue epilogue;
  Weight weight;
  bool int4 = false;  // b holds unsigned integers of 4 bits
};

// The activation that a depthwise kernel applies itself, with oneDNN's meaning of alpha and beta.
struct DepthwiseActivation {
  bool known = true;  // false: the kernel has it not
  ConvActivation kind = ConvActivation::none;
  float alpha = 0, beta = 0;
};

// A convolution whose weights and bias are made of those of the problem and of a norm behind it, when they are packed.
struct Folded {
  WeightRef ref;                                 // of all that they are made of
  View (*weights)(const void* owner) = nullptr;  // with dims and strides of the problem's
  View (*bias)(const void* owner) = nullptr;     // of the weights' type
  View (*taps)(const void* owner) = nullptr;     // floats: by tap and channel, then the bias
  const void* owner = nullptr;
  bool bounded = false;  // what the layer reads
  float low = 0, high = 0;
};

// src, weights and dst of a convolution (N, C, spatial...) as torch has them; one of them is written. Forward: dst =
// chain(conv(src) + bias). Gradients have no chain; `bias` is where that of the bias goes, or nothing.
struct ConvProblem {
  View src, weights, dst;
  ConvGeometry geometry;
  Epilogue epilogue;
  DepthwiseActivation activation;  // the whole chain, for the depthwise kernel
  Weight weight;
  bool channels_last = false;  // the layout of an operand that is copied
  bool tail = false;           // the chain goes on, by the caller
  bool composed = false;       // the caller composes or converts what primitives do not take: no direct kernel
};

}  // namespace xpu_ops::products
