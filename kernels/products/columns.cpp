#include "kernels/products/columns.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/ops/shape.hpp"
#include "kernels/products/copies.hpp"
#include "kernels/products/plan.hpp"
#include "kernels/products/run.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::products {
namespace {

using Memory = std::optional<runtime::Scratch>;
using Pass = ops::ConvPass;

// Bytes of columns at a time, or those of one image.
constexpr int64_t kColumnBytes = 64 << 20;

// Row-major memory for an operand that is not; what is read is copied.
class Dense {
 public:
  Dense(runtime::Queue& queue, const View& v, bool written) : queue_(queue), given_(v), written_(written) {
    if (is_dense(v)) return;
    copy_ = v;
    set_dense(copy_);
    copy_.data = memory_.emplace(v.numel() * dtype_size(v.type)).get();
    if (!written) convert(queue, copy_, v);
  }
  void finish() {
    if (written_ && memory_) convert(queue_, given_, copy_);
  }
  char* at(int64_t element) const {
    return static_cast<char*>(memory_ ? copy_.data : given_.data) + element * dtype_size(given_.type);
  }

 private:
  runtime::Queue& queue_;
  const View& given_;
  const bool written_;
  View copy_;
  Memory memory_;
};

void set_one(DType type, uint64_t (&bits)[2]) {
  bits[0] = type == DType::c64 ? std::bit_cast<uint32_t>(1.f) : std::bit_cast<uint64_t>(1.0);
}

class Convolution {
 public:
  Convolution(runtime::Queue& queue, const View& src, const View& weights, const View& dst, const ConvGeometry& g)
      : queue_(queue), type_(src.type), a_(direct_problem(src, weights, dst, g)) {
    groups_ = g.groups;
    rows_ = weights.dims[1] * a_.kernel[1] * a_.kernel[2];
    columns_ = int64_t{a_.out[1]} * a_.out[2];
    channels_ = a_.co / groups_;
    pixels_ = int64_t{a_.in[1]} * a_.in[2];
    const bool as_they_lie = a_.kernel[1] == 1 && a_.kernel[2] == 1 && a_.stride[1] == 1 && a_.stride[2] == 1 &&
                             a_.pad[1] == 0 && a_.pad[2] == 0 && pixels_ == columns_;
    const int64_t image = groups_ * rows_ * columns_;
    images_ = std::clamp<int64_t>(kColumnBytes / (image * dtype_size(type_)), 1, a_.n);
    if (!as_they_lie) memory_.emplace(images_ * image * dtype_size(type_));
  }

  void forward(const Dense& src, const Dense& weights, const View* bias, const Dense& dst) {
    each_part([&](int64_t first, int64_t images) {
      const Operand b = gathered(src, first, images);
      each_product(images, [&](int64_t image, int64_t batch) {
        MatmulProblem p = product(weight_of(weights), part(b, image), results(dst, first + image), batch);
        if (bias) {
          const int64_t step = bias->strides[0];
          p.c = {bias->data, type_, true, batch, channels_, columns_, groups_ == 1 ? 0 : channels_ * step, step, 0};
          set_one(type_, p.beta_bits);
        }
        run(queue_, p);
      });
    });
  }

  void backward_data(const Dense& src, const Dense& weights, const View* bias, const Dense& dst) {
    each_part([&](int64_t first, int64_t images) {
      const Operand out = place(src, first);
      each_product(images, [&](int64_t image, int64_t batch) {
        run(queue_, product(weight_of(weights).turned(), results(dst, first + image), part(out, image), batch));
      });
      if (!memory_) return;
      ops::Im2colProblem p = problem(src.at(first * a_.ci * pixels_), out.data);
      p.rows = static_cast<uint32_t>(images * a_.ci * a_.in[1]);
      ops::col2im(queue_, type_, p);
    });
    if (bias) add(*bias, src);
  }

  void backward_weights(const Dense& src, const Dense& weights, const Dense& dst) {
    each_part([&](int64_t first, int64_t images) {
      const Operand b = gathered(src, first, images);
      for (int64_t i = 0; i < images; ++i) {
        MatmulProblem p = product(results(dst, first + i), part(b, i).turned(), weight_of(weights), groups_);
        if (first + i != 0) {  // the sum over all images
          p.c = p.out;
          set_one(type_, p.beta_bits);
        }
        run(queue_, p);
      }
    });
  }

 private:
  // Batches are the images, or where there are groups those of one image.
  Operand matrix(void* data, int64_t rows, int64_t columns) const {
    return {data, type_, true, 1, rows, columns, rows * columns, columns, 1};
  }
  Operand weight_of(const Dense& weights) const {
    Operand w = matrix(weights.at(0), channels_, rows_);
    if (groups_ == 1) w.batch_stride = 0;
    return w;
  }
  Operand results(const Dense& dst, int64_t image) const {
    return matrix(dst.at(image * a_.co * columns_), channels_, columns_);
  }
  Operand place(const Dense& src, int64_t first) const {
    return matrix(memory_ ? memory_->get() : src.at(first * a_.ci * pixels_), rows_, columns_);
  }
  // src += bias @ a row of ones
  void add(const View& bias, const Dense& src) {
    static constexpr double kOne[2] = {1, 0};
    static constexpr float kNarrowOne[2] = {1, 0};
    const size_t bytes = dtype_size(type_);
    const runtime::Scratch one(bytes);
    runtime::copy_bytes(queue_, one.get(), type_ == DType::c64 ? static_cast<const void*>(kNarrowOne) : kOne, bytes,
                        false);
    const Operand column{bias.data, type_, true, 1, a_.ci, 1, 0, bias.strides[0], 1};
    const Operand ones{one.get(), type_, true, 1, 1, pixels_, 0, 0, 0};
    MatmulProblem p = product(column, ones, matrix(src.at(0), a_.ci, pixels_), a_.n);
    p.c = p.out;
    set_one(type_, p.beta_bits);
    run(queue_, p);
  }
  Operand part(Operand columns, int64_t image) const {
    columns.data = static_cast<char*>(columns.data) + image * groups_ * rows_ * columns_ * dtype_size(type_);
    return columns;
  }
  Operand gathered(const Dense& src, int64_t first, int64_t images) {
    const Operand to = place(src, first);
    if (memory_) {
      ops::Im2colProblem p = problem(to.data, src.at(first * a_.ci * pixels_));
      p.rows = static_cast<uint32_t>(images * groups_ * rows_);
      ops::im2col(queue_, dtype_size(type_), p);
    }
    return to;
  }

  template <class F> void each_part(const F& f) {
    for (int64_t i = 0; i < a_.n; i += images_) f(i, std::min<int64_t>(images_, a_.n - i));
  }
  template <class F> void each_product(int64_t images, const F& f) {
    if (groups_ == 1) return f(0, images);
    for (int64_t i = 0; i < images; ++i) f(i, groups_);
  }
  MatmulProblem product(Operand a, Operand b, Operand out, int64_t batch) const {
    a.batch = b.batch = out.batch = batch;
    MatmulProblem p{.a = a, .b = b, .out = out};
    set_one(type_, p.alpha_bits);
    return p;
  }
  ops::Im2colProblem problem(void* dst, const void* src) const {
    ops::Im2colProblem p{};
    p.dst = dst, p.src = src;
    p.height = a_.in[1], p.width = a_.in[2];
    p.out_height = a_.out[1], p.out_width = a_.out[2];
    p.kernel_h = a_.kernel[1], p.kernel_w = a_.kernel[2];
    p.dilation_h = a_.dilation[1], p.dilation_w = a_.dilation[2];
    p.pad_h = a_.pad[1], p.pad_w = a_.pad[2];
    p.stride_h = a_.stride[1], p.stride_w = a_.stride[2];
    return p;
  }

  runtime::Queue& queue_;
  const DType type_;
  const ops::DirectProblem a_;
  int64_t groups_ = 1, rows_ = 0, columns_ = 0, channels_ = 0, pixels_ = 0, images_ = 1;
  Memory memory_;  // of the columns, unless the source is its own
};

}  // namespace

void run_columns(runtime::Queue& queue, Pass pass, const View& src, const View& weights, const View* bias,
                 const View& dst, const ConvGeometry& g) {
  Dense x(queue, src, pass == Pass::backward_data), w(queue, weights, pass == Pass::backward_weights),
      y(queue, dst, pass == Pass::forward);
  Convolution convolution(queue, src, weights, dst, g);
  switch (pass) {
    case Pass::forward: convolution.forward(x, w, bias, y); break;
    case Pass::backward_data: convolution.backward_data(x, w, bias, y); break;
    case Pass::backward_weights: convolution.backward_weights(x, w, y); break;
  }
  x.finish();
  w.finish();
  y.finish();
}

}  // namespace xpu_ops::products
