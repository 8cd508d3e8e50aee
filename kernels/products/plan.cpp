#include "kernels/products/plan.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>

#include "kernels/products/chain.hpp"

namespace xpu_ops::products {
namespace {

// The factor of c that a primitive multiplies into its result and takes out again.
constexpr float kMostRatio = 1e4f;

bool is_float(DType t) { return t == DType::f32 || is_half(t); }
bool is_int8(DType t) { return t == DType::i8 || t == DType::u8; }

bool is_row_major(const Operand& t) {
  return (t.col_stride == 1 || t.cols == 1) && (t.row_stride >= t.cols || t.rows == 1);
}

// Whether c is added to each row as it is: a primitive's bias.
bool is_bias(const MatmulProblem& p) {
  const auto repeats = [](int64_t size, int64_t stride) { return size == 1 || stride == 0; };
  return p.alpha == 1.f && p.beta == 1.f && repeats(p.c.rows, p.c.row_stride) && repeats(p.c.batch, p.c.batch_stride) &&
         (p.c.col_stride == 1 || repeats(p.c.cols, p.c.col_stride));
}

bool may_be_operand(const MatmulProblem& p) {
  if (is_bias(p)) return true;
  const float ratio = std::abs(p.alpha / p.beta);
  return ratio > 1 / kMostRatio && ratio < kMostRatio;
}

template <class Problem> bool few_rows(const Problem& p, ops::MatmulForm form, const runtime::Policy& policy) {
  return ops::plan_few_rows(p.a.type, p.out.rows, p.out.cols, form, policy);
}

template <class Problem> ops::MatmulForm form_of(const Problem& p, const runtime::Policy& policy) {
  using Form = ops::MatmulForm;
  if (!policy.single_items || !is_float(p.a.type)) return Form::any;
  // Rows of a and columns of b are contiguous, as where b is a transposed weight.
  if (p.b.row_stride == 1 && p.b.col_stride != 1 && (p.a.col_stride == 1 || p.a.cols == 1)) return Form::dots;
  return p.b.col_stride == 1 && few_rows(p, Form::across, policy) ? Form::across : Form::any;
}

bool is_small(const MatmulProblem& p, ops::MatmulForm form, const runtime::Policy& policy) {
  if (!is_float(p.a.type) || p.out.type != p.a.type) return false;
  if (few_rows(p, form, policy)) return true;
  return (form == ops::MatmulForm::dots || p.b.col_stride == 1) &&
         ops::plan_small_matmul(p.out.numel(), p.a.cols, policy);
}

struct List {
  Plan& plan;
  void add(const Attempt& attempt) { plan.attempts[plan.count++] = attempt; }
  // With the kept weight first, where b is taken as it lies.
  void add_primitive(Attempt attempt, bool packed) {
    attempt.engine = Engine::primitive;
    if (packed) {
      attempt.packed = true;
      add(attempt);
      attempt.packed = false;
    }
    add(attempt);
  }
};

}  // namespace

MatmulProblem turned(const MatmulProblem& p) {
  MatmulProblem t = p;
  t.a = p.b.turned();
  t.b = p.a.turned();
  t.c = p.c.turned();
  t.out = p.out.turned();
  t.weight = {};
  return t;
}

DType wide_type(DType type) { return is_int8(type) ? DType::i32 : is_half(type) ? DType::f32 : type; }

bool is_plain(const Operand& t) {
  const bool column_major = (t.row_stride == 1 || t.rows == 1) && (t.col_stride >= t.rows || t.cols == 1);
  return is_row_major(t) || column_major;
}

bool is_dense(const Operand& t) {
  if (t.numel() == 0) return true;
  return (t.cols == 1 || t.col_stride == 1) && (t.rows == 1 || t.row_stride == t.cols) &&
         (t.batch == 1 || t.batch_stride == t.rows * t.cols);
}

Plan plan_matmul(const MatmulProblem& given, const runtime::Policy& policy) {
  Plan plan;
  const bool is_same = same_memory(given.out, given.a) || same_memory(given.out, given.b);
  const bool floats = is_float(given.a.type);
  const auto as_it_lies = [&] {
    return is_plain(given.a) && is_plain(given.b) && is_row_major(given.out) && !is_same &&
           (!given.c.data || same_memory(given.c, given.out));
  };
  const bool blas = !floats && given.out.type == given.a.type &&
                    ops::plan_blas_product(given.a.type, given.out.numel(), given.a.cols, as_it_lies(), policy);
  plan.aside = is_same || ((floats || blas) && !is_row_major(given.out));
  plan.turned = plan.aside && !is_same && !given.out.batched && given.out.row_stride == 1 &&
                given.out.col_stride >= given.out.rows;
  if (plan.turned) {
    // A column-major result is the transpose of a row-major one.
    plan = plan_matmul(turned(given), policy);
    plan.turned = true;
    return plan;
  }
  const MatmulProblem& p = given;
  List list{plan};
  plan.form = form_of(p, policy);
  const Attempt own{.layout = plan.form == ops::MatmulForm::any && p.b.col_stride != 1 && p.a.rows >= 8
                                  ? Layout::dense
                                  : Layout::as_it_is};
  if (is_small(p, plan.form, policy)) {
    list.add(own);
    return plan;
  }
  if (is_int8(p.a.type) && p.out.type == DType::i32) {
    list.add_primitive({.layout = Layout::plain}, false);
    // The rest is for a processor without instructions for bytes.
    if (p.a.type == DType::i8 && p.b.type == DType::i8 && p.a.col_stride == 1 && p.b.row_stride == 1 &&
        ops::plan_few_rows_of_bytes(p.out.rows, p.out.cols, policy))
      list.add({.engine = Engine::bytes});
    // Small products are not worth the copies.
    if (policy.single_items && is_dense(p.out) && p.out.numel() <= INT32_MAX &&
        !ops::plan_small_matmul(p.out.numel(), p.a.cols, policy))
      list.add({.engine = Engine::whole, .layout = Layout::plain, .wide = true});
    list.add({.layout = own.layout, .wide = true});
    return plan;
  }
  if (floats) {
    // gelu of half has another value at infinity: keeps_special_values()
    plan.activation_behind =
        (p.activation == Activation::gelu && p.out.type == DType::f16) ||
        (p.activation == Activation::relu &&
         ops::plan_relu_behind_product(p.out.numel() * static_cast<int64_t>(dtype_size(p.out.type)), policy));
    const bool with_c = p.c.data != nullptr, weight = p.weight.name != nullptr, plain_b = is_plain(p.b);
    const bool dense_b = !plain_b || is_dense(p.b), dense = dense_b && (!is_plain(p.a) || is_dense(p.a));
    for (const bool wide : {false, true}) {
      if (wide && p.a.type == DType::f32) break;
      const bool in_place = with_c && !wide && !plan.aside && same_memory(p.c, p.out);
      const auto with_weight = [&](const Attempt& attempt, bool as_it_lies) {
        // In float32 each attempt with the kept weight comes before those with a converted one.
        if (wide && weight && as_it_lies)
          list.add({Engine::primitive, attempt.layout, attempt.adding, true, true});
        else if (!wide)
          list.add_primitive(attempt, weight && as_it_lies);
      };
      const auto all = [&](const auto& put) {
        if (!with_c) put({.layout = Layout::plain, .wide = wide}, plain_b);
        if (with_c && !in_place && may_be_operand(p))
          put({.layout = Layout::plain, .adding = Adding::operand, .wide = wide}, plain_b);
        if (with_c) put({.layout = Layout::plain, .adding = Adding::result, .wide = wide}, plain_b);
        if (!dense)
          put({.layout = Layout::dense, .adding = with_c ? Adding::result : Adding::nothing, .wide = wide},
              is_dense(p.b));
      };
      all([&](const Attempt& a, bool as_it_lies) { with_weight(a, as_it_lies); });
      if (wide) all([&](const Attempt& a, bool) { list.add_primitive(a, false); });
    }
  }
  if (blas) list.add({.engine = Engine::blas, .layout = Layout::plain});
  if (p.out.type == p.a.type) list.add(own);
  return plan;
}

Plan plan_fused(const FusedProblem& p, const runtime::Policy& policy) {
  Plan plan;
  List list{plan};
  const bool weight = p.weight.name != nullptr, floats = is_float(p.a.type) && p.a.type == p.b.type && !p.int4;
  if (p.a.type == DType::f32 && is_int8(p.b.type) && p.epilogue.post.empty()) {
    // Integers as they are: only where they are converted once, when they are packed.
    if (weight) list.add({Engine::primitive, Layout::as_it_is, Adding::nothing, true, true});
    return plan;
  }
  const bool copies = floats && !(is_dense(p.a) && is_dense(p.b));
  // In float32 few rows cost less as the caller composes them: own kernels read the weights in 16 bits.
  const ops::MatmulForm form = floats ? form_of(p, policy) : ops::MatmulForm::any;
  const bool dots = form == ops::MatmulForm::dots && few_rows(p, form, policy);
  for (const bool wide : {false, true}) {
    if (wide && (!is_half(p.a.type) || dots)) break;
    list.add_primitive({.layout = Layout::as_it_is, .wide = wide}, weight);
    if (copies) list.add_primitive({.layout = Layout::dense, .wide = wide}, false);
  }
  return plan;
}

ops::DirectProblem direct_problem(const View& src, const View& weights, const View& dst, const ConvGeometry& g) {
  ops::DirectProblem a{};
  const int missing = 3 - g.spatial;
  const auto strides = [&](const View& v, int64_t (&out)[5]) {
    out[0] = v.strides[0];
    out[1] = v.strides[1];
    for (int i = 0; i < 3; ++i) out[2 + i] = i < missing ? 0 : v.strides[2 + i - missing];
  };
  strides(src, a.src_strides);
  strides(weights, a.weight_strides);
  strides(dst, a.dst_strides);
  a.n = src.dims[0];
  a.ci = src.dims[1];
  a.co = dst.dims[1];
  a.groups = g.groups;
  for (int i = 0; i < 3; ++i) {
    const int s = i - missing;
    a.in[i] = s < 0 ? 1 : src.dims[2 + s];
    a.out[i] = s < 0 ? 1 : dst.dims[2 + s];
    a.kernel[i] = s < 0 ? 1 : weights.dims[2 + s];
    a.stride[i] = s < 0 ? 1 : g.stride[s];
    a.pad[i] = s < 0 ? 0 : g.padding[s];
    a.dilation[i] = s < 0 ? 1 : g.dilation[s];
  }
  return a;
}

bool may_be_depthwise(const View& src, const View& dst, const ConvGeometry& g) {
  return g.spatial == 2 && !g.transposed && g.groups == src.dims[1] && src.type == dst.type &&
         src.dims[2] * src.dims[3] < INT32_MAX && dst.dims[2] * dst.dims[3] < INT32_MAX && src.numel() < UINT32_MAX;
}

bool is_depthwise(const View& src, const View& weights, const View& dst, const ConvGeometry& g,
                  const runtime::Policy& policy) {
  return may_be_depthwise(src, dst, g) && is_dense(src) && is_dense(dst) &&
         ops::plan_depthwise_serves(direct_problem(src, weights, dst, g), policy);
}

bool plan_folded_depthwise(const ConvProblem& p, bool bounded, const runtime::Policy& policy) {
  const ConvActivation kind = p.activation.kind;
  const bool saves = bounded || kind == ConvActivation::relu || kind == ConvActivation::clip;
  return saves && may_be_depthwise(p.src, p.dst, p.geometry) && p.activation.known && gate_of(p.activation) &&
         ops::plan_depthwise_last_serves(direct_problem(p.src, p.weights, p.dst, p.geometry), p.src.type, policy);
}

namespace {

bool may_be_columns(const ConvProblem& p, const runtime::Policy& policy) {
  if (p.geometry.spatial > 2 || p.src.type != p.weights.type || p.src.type != p.dst.type) return false;
  const View &src = p.geometry.transposed ? p.dst : p.src, &dst = p.geometry.transposed ? p.src : p.dst;
  if (p.weights.numel() == 0 || dst.numel() == 0) return false;
  const int64_t inner = p.weights.numel() / p.weights.dims[0], results = dst.numel();
  const int64_t columns = results / dst.dims[1] * inner * p.geometry.groups;
  return std::max({src.numel(), results, columns}) <= INT32_MAX &&
         ops::plan_blas_product(p.src.type, results, inner, false, policy);
}

}  // namespace

Plan plan_convolution(const ConvProblem& p, ops::ConvPass pass, const runtime::Policy& policy) {
  using Pass = ops::ConvPass;
  Plan plan;
  List list{plan};
  const DType type = pass == Pass::backward_data ? p.dst.type : p.src.type;
  const bool half = is_half(type);
  if (is_int8(type) && !p.epilogue.post.quantization.empty()) list.add_primitive({}, false);
  if (is_float(type)) {
    if (pass == Pass::forward && p.activation.known && is_depthwise(p.src, p.weights, p.dst, p.geometry, policy))
      list.add({});
    // The gradients of some depthwise layers are computed in float32.
    const bool widens = pass != Pass::forward && may_be_depthwise(p.src, p.dst, p.geometry) &&
                        ops::plan_depthwise_widens(direct_problem(p.src, p.weights, p.dst, p.geometry), type, policy);
    if (!widens) list.add_primitive({}, false);
    if (half && pass != Pass::backward_weights) {
      // Weights that stay are converted once, when they are packed; but a 1x1 convolution of contiguous images is a
      // product that packs nothing.
      const bool packs = p.channels_last || p.weights.numel() != p.weights.dims[0] * p.weights.dims[1];
      list.add_primitive({.wide = true}, pass == Pass::forward && p.weight.name && packs);
    }
  }
  if (!p.composed && !is_float(type) && may_be_columns(p, policy)) list.add({.engine = Engine::columns});
  if (!p.composed) list.add({.engine = Engine::direct, .wide = half});
  return plan;
}

}  // namespace xpu_ops::products
