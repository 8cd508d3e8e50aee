#include "kernels/products/run.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/error.hpp"
#include "kernels/mkl/blas.hpp"
#include "kernels/onednn/matmul.hpp"
#include "kernels/onednn/reorder.hpp"
#include "kernels/onednn/weight_cache.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/products/chain.hpp"
#include "kernels/products/copies.hpp"
#include "kernels/products/plan.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::products {
namespace {

using Memory = std::optional<runtime::Scratch>;

// The form in which an attempt takes an operand; without memory where that is a copy.
Operand wanted(const Operand& t, Layout layout, bool wide) {
  const DType type = wide ? wide_type(t.type) : t.type;
  const Operand w = type == t.type ? t : like(t, type);
  const bool copied = (layout == Layout::plain && !is_plain(w)) || (layout == Layout::dense && !is_dense(w));
  return copied ? row_major(w, type) : w;
}

void allocate(Operand& t, Memory& memory) { t.data = memory.emplace(t.numel() * dtype_size(t.type)).get(); }

void copy_if_wanted(runtime::Queue& queue, Operand& t, const Operand& from, Memory& memory) {
  if (t.data) return;
  allocate(t, memory);
  convert(queue, t, from);
}

// Weights of 16 bits that are packed as float32.
[[maybe_unused]] const bool kWidens = (onednn::set_widen(&ops::cast_to_float), true);

// The weight's name is asked once, when the first attempt wants it.
class KeptWeight {
 public:
  explicit KeptWeight(const Weight& weight) : weight_(weight) {}
  bool options(const Attempt& attempt, onednn::MatmulOptions& to) {
    if (!attempt.packed) return true;
    if (!asked_) {
      asked_ = true;
      ref_ = weight_.name(weight_.owner);
      kept_ = ref_.storage != 0 && onednn::WeightCache::instance().pays(ref_);
    }
    to.weight = ref_;
    to.pack = true;
    to.widen = attempt.wide;
    return kept_;
  }

 private:
  const Weight& weight_;
  WeightRef ref_;
  bool asked_ = false, kept_ = false;
};

// A factor as it lies in memory: of complex float32 each part has a word of bits.
void store(const uint64_t (&bits)[2], DType type, unsigned char (&to)[16]) {
  const size_t part = type == DType::c64 ? 4 : 8;
  for (int i = 0; i < 2; ++i) std::memcpy(to + i * part, &bits[i], part);
}

// As an operand that broadcasts: dims that repeat (stride 0) get size 1.
View repeating(const Operand& t) {
  View v = view_of(t);
  for (int i = 0; i < v.ndim; ++i)
    if (v.strides[i] == 0) v.dims[i] = 1;
  settle(v);
  return v;
}

// out = activation(alpha * a @ b + beta * c)
class MatmulOracle {
 public:
  MatmulOracle(runtime::Queue& queue, const MatmulProblem& problem, const Plan& plan)
      : queue_(queue), p_(problem), plan_(plan), weight_(problem.weight) {}

  bool operator()(const Attempt& attempt) {
    if (attempt.engine == Engine::whole) return whole();
    if (attempt.engine == Engine::blas) return blas(attempt);
    if (attempt.engine == Engine::bytes) return own(attempt, ops::MatmulForm::dots);
    return attempt.engine == Engine::own ? own(attempt, plan_.form) : primitive(attempt);
  }

 private:
  bool own(const Attempt& attempt, ops::MatmulForm form) {
    Memory memory[2];
    Operand a = wanted(p_.a, Layout::as_it_is, attempt.wide), b = wanted(p_.b, attempt.layout, attempt.wide);
    copy_if_wanted(queue_, a, p_.a, memory[0]);
    copy_if_wanted(queue_, b, p_.b, memory[1]);
    const auto strides = [](const Operand& t) {
      return Matrix{t.batched ? t.batch_stride : 0, t.row_stride, t.col_stride};
    };
    MatmulArgs args{};
    args.m = p_.out.rows;
    args.n = p_.out.cols;
    args.k = a.cols;
    args.a = a.data;
    args.b = b.data;
    args.c = p_.c.data;
    args.out = p_.out.data;
    args.as = strides(a);
    args.bs = strides(b);
    args.os = strides(p_.out);
    if (args.c) args.cs = strides(p_.c);
    std::copy_n(p_.alpha_bits, 2, args.alpha);
    std::copy_n(p_.beta_bits, 2, args.beta);
    ops::matmul(queue_, a.type, args, static_cast<uint32_t>(p_.out.batch), form);
    return true;
  }

  // Column-major, out^T = b^T @ a^T.
  bool blas(const Attempt& attempt) {
    if (!mkl::takes_products(queue_)) return false;
    Memory memory[2];
    Operand a = wanted(p_.a, attempt.layout, false), b = wanted(p_.b, attempt.layout, false);
    copy_if_wanted(queue_, a, p_.a, memory[0]);
    copy_if_wanted(queue_, b, p_.b, memory[1]);
    if (p_.c.data && !holds_c()) convert(queue_, p_.out, p_.c);
    mkl::Gemm g{.type = p_.out.type, .m = p_.out.cols, .n = p_.out.rows, .k = a.cols, .batch = {p_.out.batch}};
    const auto put = [](const Operand& t, mkl::Trans& op, mkl::Matrices& to) {
      const bool rows = t.cols == 1 || t.col_stride == 1;
      op = rows ? mkl::Trans::none : mkl::Trans::transpose;
      to.data = t.data;
      to.ld =
          rows ? std::max(t.rows == 1 ? 0 : t.row_stride, t.cols) : std::max(t.cols == 1 ? 0 : t.col_stride, t.rows);
      to.stride = t.batched ? t.batch_stride : 0;
    };
    mkl::Trans as_it_is;
    put(b, g.op_a, g.a);
    put(a, g.op_b, g.b);
    put(p_.out, as_it_is, g.c);
    store(p_.alpha_bits, g.type, g.alpha);
    if (p_.c.data) store(p_.beta_bits, g.type, g.beta);
    mkl::gemm(queue_, g);
    return true;
  }

  bool whole() {
    const auto as_float = [](const Operand& t) { return is_plain(t) ? like(t, DType::f32) : row_major(t, DType::f32); };
    Operand a = as_float(p_.a), b = as_float(p_.b), part = row_major(p_.out, DType::f32);
    const int64_t step = ops::plan_whole_inner((p_.a.type == DType::u8) + (p_.b.type == DType::u8));
    const auto from = [&](int64_t k, bool ask) {
      Operand x = a, y = b;
      x.cols = y.rows = std::min(step, a.cols - k);
      if (!ask) {
        x.data = static_cast<float*>(a.data) + k * a.col_stride;
        y.data = static_cast<float*>(b.data) + k * b.row_stride;
      }
      onednn::MatmulOptions options;
      options.ask = ask;
      return multiply(x, y, nullptr, part, {}, options);
    };
    // The last one may be of another shape; it is asked before the first has written.
    if (!from(0, true) || !from((a.cols - 1) / step * step, true)) return false;
    Memory memory[3];
    copy_if_wanted(queue_, a, p_.a, memory[0]);
    copy_if_wanted(queue_, b, p_.b, memory[1]);
    allocate(part, memory[2]);
    for (int64_t k = 0; k < a.cols; k += step) {
      if (!from(k, false)) throw Error(ErrorKind::runtime, "oneDNN refused a product that it had granted");
      ops::whole_sum(queue_, {static_cast<const float*>(part.data), static_cast<int32_t*>(p_.out.data),
                              static_cast<uint32_t>(part.numel()), k == 0});
    }
    return true;
  }

  bool primitive(const Attempt& attempt) {
    onednn::MatmulOptions options;
    if (!weight_.options(attempt, options)) return false;
    Operand a = wanted(p_.a, attempt.layout, attempt.wide);
    Operand b = attempt.packed ? p_.b : wanted(p_.b, attempt.layout, attempt.wide);
    Operand out = attempt.wide ? row_major(p_.out, DType::f32) : p_.out;
    PostOps post;
    View bias, added;
    Operand from;  // of a copy of c
    bool has_bias = false;
    if (attempt.adding == Adding::operand) {
      from = wanted(p_.c, Layout::as_it_is, attempt.wide);
      added = repeating(from);
      has_bias = is_bias(p_.alpha, p_.beta, added);
      // Batched, oneDNN takes a binary operand that broadcasts over rows, but not over rows and batch.
      if (!has_bias && added.ndim == 3 && added.dims[0] == 1 && added.dims[1] == 1 && added.dims[2] > 1) {
        from.rows = 1;
        from = row_major(from, from.type);
        added = view_of(from);
      }
      added.data = from.data;
    }
    append(post, attempt, has_bias, added);
    const bool fills = attempt.adding == Adding::result && (attempt.wide || !holds_c());
    const bool adds_copy = attempt.adding == Adding::operand && !from.data;
    if (!a.data || !b.data || !out.data || fills || adds_copy) {
      // Copies are made for a primitive that is there.
      onednn::MatmulOptions question = options;
      question.ask = true;
      if (!multiply(a, b, has_bias ? &added : nullptr, out, post, question)) return false;
    }
    Memory memory[4];
    copy_if_wanted(queue_, a, p_.a, memory[0]);
    copy_if_wanted(queue_, b, p_.b, memory[1]);
    if (attempt.wide) allocate(out, memory[2]);
    if (fills) convert(queue_, out, p_.c);
    if (adds_copy) {
      Operand c = p_.c;
      c.rows = from.rows;
      copy_if_wanted(queue_, from, c, memory[3]);
      added.data = from.data;
      for (PostOp& op : post.ops)
        if (op.kind == PostOp::Kind::binary) op.other.data = from.data;
    }
    if (!multiply(a, b, has_bias ? &added : nullptr, out, post, options)) return false;
    if (attempt.wide) convert(queue_, p_.out, out);
    return true;
  }

  bool multiply(const Operand& a, const Operand& b, const View* bias, const Operand& out, const PostOps& post,
                const onednn::MatmulOptions& options) const {
    return onednn::matmul(queue_, view_of(a), view_of(b), bias, view_of(out), post, options);
  }

  bool holds_c() const { return !plan_.aside && same_memory(p_.c, p_.out); }

  static bool is_bias(float alpha, float beta, const View& c) {
    bool row = alpha == 1.f && beta == 1.f && c.strides[c.ndim - 1] == 1;
    for (int i = 0; i + 1 < c.ndim; ++i) row &= c.dims[i] == 1;
    return row;
  }

  void append(PostOps& post, const Attempt& attempt, bool has_bias, const View& added) const {
    const auto scale = [&](float s) {
      if (s != 1.f) post.ops.push_back(PostOp::eltwise(PostFunction::linear, s, 0.f));
    };
    if (attempt.adding == Adding::operand) {
      if (!has_bias) {
        scale(p_.alpha / p_.beta);
        post.ops.push_back(PostOp::binary(PostFunction::add, added));
        scale(p_.beta);
      }
    } else {
      scale(p_.alpha);
      if (attempt.adding == Adding::result) post.ops.push_back(PostOp::sum(p_.beta));
    }
    if (plan_.activation_behind) return;
    if (p_.activation == Activation::relu) append_eltwise(post.ops, PostOp::eltwise(PostFunction::relu));
    if (p_.activation == Activation::gelu) post.ops.push_back(PostOp::eltwise(PostFunction::gelu_erf));
  }

  runtime::Queue& queue_;
  const MatmulProblem& p_;
  const Plan& plan_;
  KeptWeight weight_;
};

Served execute(runtime::Queue& queue, const MatmulProblem& problem, const Plan& plan) {
  const Attempt* served = choose(plan, MatmulOracle(queue, problem, plan));
  if (!served) return Served::no;
  const bool whole =
      problem.activation == Activation::none || (served->engine == Engine::primitive && !plan.activation_behind);
  return whole ? Served::whole : Served::without_tail;
}

// out = chain(a @ b + bias)
class FusedOracle {
 public:
  FusedOracle(runtime::Queue& queue, const FusedProblem& problem)
      : queue_(queue), p_(problem), weight_(problem.weight) {}

  bool operator()(const Attempt& attempt) {
    onednn::MatmulOptions options;
    if (!weight_.options(attempt, options)) return false;
    options.int4 = p_.int4;
    const bool integers = p_.int4 || attempt.packed || wide_type(p_.b.type) != DType::f32;
    Operand a = wanted(p_.a, attempt.layout, attempt.wide);
    Operand b = integers ? p_.b : wanted(p_.b, attempt.layout, attempt.wide);
    Operand out = attempt.wide && p_.out.type != DType::f32 ? row_major(p_.out, DType::f32) : p_.out;
    PreparedEpilogue epilogue(p_.epilogue, view_of(out), attempt.wide, true);
    if (!a.data || !b.data || !out.data || epilogue.copies()) {
      onednn::MatmulOptions question = options;
      question.ask = true;
      if (!multiply(a, b, epilogue, out, question)) return false;
    }
    Memory memory[3];
    copy_if_wanted(queue_, a, p_.a, memory[0]);
    copy_if_wanted(queue_, b, p_.b, memory[1]);
    const bool aside = !out.data;
    if (aside) allocate(out, memory[2]);
    if (aside && p_.epilogue.reads_result) convert(queue_, out, p_.out);
    epilogue.copy(queue_);
    if (!multiply(a, b, epilogue, out, options)) return false;
    if (aside) convert(queue_, p_.out, out);
    return true;
  }

 private:
  bool multiply(const Operand& a, const Operand& b, const PreparedEpilogue& epilogue, const Operand& out,
                const onednn::MatmulOptions& options) const {
    View bias;
    if (epilogue.bias()) bias = as_row(*epilogue.bias(), out.batched);
    return onednn::matmul(queue_, view_of(a), view_of(b), epilogue.bias() ? &bias : nullptr, view_of(out),
                          epilogue.post(), options);
  }
  static View as_row(const View& bias, bool batched) {
    View row;
    row.data = bias.data;
    row.type = bias.type;
    for (int i = 0; i < (batched ? 2 : 1); ++i) row.push(1, bias.dims[0]);
    row.push(bias.dims[0], 1);
    return row;
  }

  runtime::Queue& queue_;
  const FusedProblem& p_;
  KeptWeight weight_;
};

}  // namespace

Served run(runtime::Queue& queue, const MatmulProblem& given) {
  const Plan plan = plan_matmul(given, runtime::device_info(queue.device).policy);
  if (!plan.turned && !plan.aside) [[likely]]
    return execute(queue, given, plan);
  if (plan.turned) return execute(queue, turned(given), plan);
  MatmulProblem problem = given;
  Memory memory;
  problem.out = row_major(given.out, given.out.type);
  allocate(problem.out, memory);
  const Served served = execute(queue, problem, plan);
  if (served != Served::no) convert(queue, given.out, problem.out);
  return served;
}

bool run(runtime::Queue& queue, const FusedProblem& problem) {
  return choose(plan_fused(problem, runtime::device_info(queue.device).policy), FusedOracle(queue, problem)) != nullptr;
}

bool multiply(runtime::Queue& queue, const View& x, const View& y, const View& to, bool add) {
  static const PostOps none, sum{.ops = {PostOp::sum()}};
  return onednn::matmul(queue, x, y, nullptr, to, add ? sum : none);
}

}  // namespace xpu_ops::products
