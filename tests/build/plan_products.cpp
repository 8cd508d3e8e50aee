// Plans of kernels/products: which implementation serves a product, where the oracle is a table of refusals.
#include "kernels/products/chain.hpp"
#include "kernels/products/plan.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::products;

char g_memory[8];

// Row-major; with a batch where that is not 0.
Operand matrix(int place, DType type, int64_t rows, int64_t cols, int64_t batch = 0) {
  return {&g_memory[place], type, batch != 0, batch ? batch : 1, rows, cols, batch ? rows * cols : 0, cols, 1};
}
Operand row_of(int place, DType type, int64_t rows, int64_t cols) {
  Operand t = matrix(place, type, rows, cols);
  t.row_stride = 0;
  return t;
}
MatmulProblem product(DType type, int64_t m, int64_t n, int64_t k) {
  return {.a = matrix(0, type, m, k), .b = matrix(1, type, k, n), .out = matrix(2, type, m, n)};
}
Weight a_weight() {
  return {[](const void*) { return WeightRef{}; }, nullptr};
}

const auto all = [](const Attempt&) { return true; };
const auto no_primitive = [](const Attempt& t) { return t.engine == Engine::own; };
const auto no_narrow = [](const Attempt& t) { return t.engine == Engine::own || t.wide; };
const auto not_packed = [](const Attempt& t) { return !t.packed; };

// No attempt comes twice, and there is room for all.
void check_list(const Plan& plan) {
  CHECK(plan.count <= kMostAttempts);
  for (int i = 0; i < plan.count; ++i)
    for (int j = 0; j < i; ++j) CHECK(!(plan.attempts[i] == plan.attempts[j]));
}

void test_small_products() {
  for (const Policy& policy : policies()) {
    at("small product", policy.single_items, policy.units);
    const Plan plan = plan_matmul(product(DType::f32, 8, 8, 8), policy);
    CHECK(choose(plan, all)->engine == (policy.single_items ? Engine::own : Engine::primitive));
    if (policy.single_items) CHECK(plan.count == 1);
    CHECK(choose(plan_matmul(product(DType::i64, 512, 512, 512), policy), all)->engine == Engine::own);
    // A few rows of a product with a transposed weight of many columns are dots.
    MatmulProblem few = product(DType::f32, 2, 1 << 20, 64);
    few.b.row_stride = 1, few.b.col_stride = 64;
    const Plan dots = plan_matmul(few, policy);
    CHECK((dots.form == xpu_ops::ops::MatmulForm::dots) == policy.single_items);
    CHECK((choose(dots, all)->engine == Engine::own) == policy.single_items);
  }
}

void test_products_of_onemkl() {
  const auto no_blas = [](const Attempt& t) { return t.engine != Engine::blas; };
  for (const Policy& policy : policies())
    for (const DType type : {DType::f64, DType::c64, DType::c128}) {
      at("product of a type that oneDNN has not", policy.single_items, static_cast<int>(type));
      const Engine large = policy.single_items ? Engine::blas : Engine::own;
      MatmulProblem p = product(type, 300, 200, 100);
      CHECK(choose(plan_matmul(p, policy), all)->engine == large);
      CHECK(choose(plan_matmul(p, policy), no_blas)->engine == Engine::own);
      CHECK(choose(plan_matmul(product(type, 1, 1000, 1000), policy), all)->engine == large);
      MatmulProblem small = product(type, 32, 32, 32);
      CHECK(choose(plan_matmul(small, policy), all)->engine == large);
      // Copies for oneMKL would cost more than the product.
      small.a.col_stride = 2, small.a.row_stride = 64;
      CHECK(choose(plan_matmul(small, policy), all)->engine == Engine::own);
      p.out.row_stride = 1, p.out.col_stride = 300;
      CHECK(plan_matmul(p, policy).turned == policy.single_items);
      p.out.row_stride = 400, p.out.col_stride = 2;
      CHECK(plan_matmul(p, policy).aside == policy.single_items);
      p.out.type = DType::f32;
      CHECK(choose(plan_matmul(p, policy), all) == nullptr);
    }
}

void test_large_products() {
  for (const Policy& policy : policies())
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      at("large product", policy.single_items, static_cast<int>(type));
      MatmulProblem p = product(type, 512, 512, 512);
      const Plan plan = plan_matmul(p, policy);
      check_list(plan);
      CHECK(*choose(plan, all) == (Attempt{.engine = Engine::primitive, .layout = Layout::plain}));
      CHECK(choose(plan, no_primitive)->engine == Engine::own);
      // A device that does not compute in 16 bits: float32, before an own kernel.
      const Attempt* narrow = choose(plan, no_narrow);
      CHECK(type == DType::f32 ? narrow->engine == Engine::own : narrow->engine == Engine::primitive && narrow->wide);
      p.weight = a_weight();
      const Plan kept = plan_matmul(p, policy);
      check_list(kept);
      CHECK(choose(kept, all)->packed && !choose(kept, all)->wide);
      CHECK(!choose(kept, not_packed)->packed && choose(kept, not_packed)->engine == Engine::primitive);
      if (type != DType::f32) CHECK(choose(kept, no_narrow)->packed && choose(kept, no_narrow)->wide);
      // The result of 16-bit operands in float32: no own kernel.
      MatmulProblem mixed = product(DType::bf16, 512, 512, 512);
      mixed.out.type = DType::f32;
      CHECK(choose(plan_matmul(mixed, policy), no_primitive) == nullptr);
    }
}

void test_added() {
  const Policy policy = cpu_policy(7);
  MatmulProblem p = product(DType::f32, 512, 512, 512);
  p.beta = 1;
  at("addmm, bias");
  p.c = row_of(3, DType::f32, 512, 512);
  CHECK(choose(plan_matmul(p, policy), all)->adding == Adding::operand);
  at("addmm, factors that a primitive would lose");
  p.alpha = 1e6f;
  CHECK(choose(plan_matmul(p, policy), all)->adding == Adding::result);
  p.alpha = 1e-6f;
  CHECK(choose(plan_matmul(p, policy), all)->adding == Adding::result);
  at("addmm, refused as an operand");
  p.alpha = 2;
  const auto no_operand = [](const Attempt& t) { return t.adding != Adding::operand; };
  CHECK(choose(plan_matmul(p, policy), all)->adding == Adding::operand);
  CHECK(choose(plan_matmul(p, policy), no_operand)->adding == Adding::result);
  at("addmm in place");
  p.c = p.out;
  CHECK(choose(plan_matmul(p, policy), all)->adding == Adding::result);
  at("addmm in place in float32");
  MatmulProblem half = product(DType::f16, 512, 512, 512);
  half.beta = 1;
  half.c = half.out;
  CHECK(choose(plan_matmul(half, policy), no_narrow)->adding == Adding::operand);
  half.weight = a_weight();
  half.a.row_stride = 1024;
  check_list(plan_matmul(half, policy));
}

void test_layouts() {
  for (const Policy& policy : {cpu_policy(2), gpu_policy(64)}) {
    at("column-major result", policy.single_items);
    MatmulProblem p = product(DType::f32, 512, 256, 128);
    p.out.row_stride = 1, p.out.col_stride = 512;
    p.weight = a_weight();
    const Plan plan = plan_matmul(p, policy);
    CHECK(plan.turned && !plan.aside);
    CHECK(!choose(plan, all)->packed);
    CHECK(turned(p).out.rows == 256 && turned(p).a.data == p.b.data);
    at("result with steps", policy.single_items);
    p.out.row_stride = 1024, p.out.col_stride = 2;
    CHECK(plan_matmul(p, policy).aside && !plan_matmul(p, policy).turned);
    at("result that is an operand", policy.single_items);
    MatmulProblem own = product(DType::i32, 64, 64, 64);
    own.out = own.a;
    CHECK(plan_matmul(own, policy).aside);
    at("operand with steps", policy.single_items);
    MatmulProblem steps = product(DType::f32, 512, 512, 512);
    steps.a.col_stride = 2, steps.a.row_stride = 1024;
    CHECK(!is_plain(steps.a) && is_plain(steps.b));
    CHECK(choose(plan_matmul(steps, policy), all)->layout == Layout::plain);
    steps.b.row_stride = 600;  // gaps: copied only if a primitive refuses them
    const auto no_gaps = [](const Attempt& t) { return t.layout == Layout::dense && t.engine == Engine::primitive; };
    CHECK(choose(plan_matmul(steps, policy), no_gaps) != nullptr);
  }
}

void test_integers_and_activations() {
  const Policy policy = cpu_policy(4);
  at("8-bit integers");
  MatmulProblem p = product(DType::i8, 64, 64, 64);
  p.out.type = DType::i32;
  CHECK(choose(plan_matmul(p, policy), all)->engine == Engine::primitive);
  CHECK(choose(plan_matmul(p, policy), no_primitive)->wide);
  at("8-bit integers that saturate");
  p = product(DType::i8, 512, 512, 4096);
  p.out.type = DType::i32;
  CHECK(choose(plan_matmul(p, policy), all)->engine == Engine::primitive);
  const auto no_bytes = [](const Attempt& t) { return t.engine != Engine::primitive; };
  CHECK(choose(plan_matmul(p, policy), no_bytes)->engine == Engine::whole);
  CHECK(choose(plan_matmul(p, gpu_policy(64)), no_bytes)->engine == Engine::own);
  p.out.row_stride = 600;
  CHECK(choose(plan_matmul(p, policy), no_bytes)->engine == Engine::own);
  for (const int64_t rows : {1, 16, 17}) {
    p = product(DType::i8, rows, 512, 4096);
    p.out.type = DType::i32;
    CHECK(choose(plan_matmul(p, policy), no_bytes)->engine == Engine::whole);
    p.b.row_stride = 1, p.b.col_stride = 512;  // a transposed weight
    CHECK(choose(plan_matmul(p, policy), all)->engine == Engine::primitive);
    CHECK(choose(plan_matmul(p, policy), no_bytes)->engine == (rows > 16 ? Engine::whole : Engine::bytes));
    CHECK(choose(plan_matmul(p, gpu_policy(64)), no_bytes)->engine == Engine::own);
  }
  p = product(DType::i8, 8, 8, 8);
  p.out.type = DType::i32;
  CHECK(choose(plan_matmul(p, policy), no_bytes)->engine == Engine::own);
  for (const int bytes : {0, 1, 2}) {
    const int64_t most = (bytes ? 255 : 128) * (bytes == 2 ? 255 : 128);
    CHECK(ops::plan_whole_inner(bytes) * most <= 1 << 24);
  }
  CHECK(wide_type(DType::u8) == DType::i32 && wide_type(DType::f16) == DType::f32);
  at("activations");
  MatmulProblem a = product(DType::f16, 512, 512, 512);
  a.activation = Activation::gelu;
  CHECK(plan_matmul(a, policy).activation_behind);
  a.activation = Activation::relu;
  CHECK(!plan_matmul(a, policy).activation_behind);
  runtime::Policy cpu = policy;
  cpu.single_items = true, cpu.cache = 32 << 20;
  CHECK(plan_matmul(a, cpu).activation_behind);
}

void test_fused_products() {
  const Policy policy = cpu_policy(2);
  const auto fused = [](DType a, DType b, DType out) {
    FusedProblem p;
    p.a = matrix(0, a, 64, 64), p.b = matrix(1, b, 64, 64), p.out = matrix(2, out, 64, 64);
    return p;
  };
  at("fused, float32");
  FusedProblem p = fused(DType::f32, DType::f32, DType::f32);
  CHECK(plan_fused(p, policy).count == 1);
  CHECK(choose(plan_fused(p, policy), no_primitive) == nullptr);  // the caller composes
  p.b.row_stride = 1, p.b.col_stride = 64;
  CHECK(plan_fused(p, policy).count == 2 && plan_fused(p, policy).attempts[1].layout == Layout::dense);
  at("fused, 16 bits");
  FusedProblem half = fused(DType::bf16, DType::bf16, DType::bf16);
  half.weight = a_weight();
  const Plan plan = plan_fused(half, policy);
  check_list(plan);
  CHECK(choose(plan, all)->packed && !choose(plan, not_packed)->wide && choose(plan, no_narrow)->wide);
  at("fused, 16 bits, few rows of a layer");
  FusedProblem few = fused(DType::bf16, DType::bf16, DType::bf16);
  few.weight = a_weight();
  few.a = matrix(0, DType::bf16, 1, 64);
  few.b = matrix(1, DType::bf16, 4096, 64).turned(), few.out = matrix(2, DType::bf16, 1, 4096);
  CHECK(choose(plan_fused(few, policy), all)->packed);
  CHECK(choose(plan_fused(few, policy), no_narrow) == nullptr);  // the caller composes
  at("fused, 8-bit operands");
  CHECK(plan_fused(fused(DType::u8, DType::i8, DType::f32), policy).count == 1);
  at("fused, integer weights");
  FusedProblem integers = fused(DType::f32, DType::i8, DType::f32);
  CHECK(plan_fused(integers, policy).count == 0);
  integers.weight = a_weight();
  CHECK(plan_fused(integers, policy).count == 1 && choose(plan_fused(integers, policy), all)->wide);
  integers.epilogue.post.quantization.emplace_back();
  CHECK(!choose(plan_fused(integers, policy), not_packed)->wide);
}

void test_epilogues() {
  View out;
  out.push(4, 48), out.push(6, 8), out.push(8, 1);
  const auto operand = [](std::initializer_list<int64_t> dims, DType type) {
    PostOp op = PostOp::binary(PostFunction::add, {});
    op.other.data = g_memory;
    op.other.type = type;
    for (const int64_t d : dims) op.other.push(d, 1);
    int64_t next = 1;
    for (int i = op.other.ndim - 1; i >= 0; --i) op.other.strides[i] = next, next *= op.other.dims[i];
    return op;
  };
  at("operand of the result's layout");
  CHECK(wanted_operand(operand({4, 6, 8}, DType::f32), out, false, true).data != nullptr);
  at("operand of another layout");
  PostOp other = operand({4, 6, 8}, DType::f32);
  other.other.strides[1] = 1, other.other.strides[2] = 6;
  const View t = wanted_operand(other, out, false, true);
  CHECK(!t.data && t.strides[1] == 8 && t.strides[2] == 1);
  at("row that repeats over rows and batch");
  const View row = wanted_operand(operand({1, 1, 8}, DType::f32), out, false, true);
  CHECK(!row.data && row.dims[0] == 4 && row.dims[1] == 1);
  CHECK(wanted_operand(operand({1, 1, 8}, DType::f32), out, false, false).data != nullptr);
  at("16-bit operand");
  CHECK(wanted_operand(operand({1, 6, 1}, DType::f16), out, false, true).type == DType::f16);
  CHECK(wanted_operand(operand({1, 6, 1}, DType::f16), out, true, true).type == DType::f32);
  PostOp slopes = operand({1, 6, 1}, DType::bf16);
  slopes.kind = PostOp::Kind::prelu;
  CHECK(wanted_operand(slopes, out, false, true).type == DType::f32);
}

View images(int place, DType type, std::initializer_list<int64_t> dims, bool last = false) {
  View v;
  v.data = &g_memory[place];
  v.type = type;
  for (const int64_t d : dims) v.push(d, 1);
  int64_t next = 1;
  const auto put = [&](int d) { v.strides[d] = next, next *= v.dims[d]; };
  if (last) put(1);
  for (int d = v.ndim - 1; d >= 2; --d) put(d);
  if (!last) put(1);
  put(0);
  return v;
}
ConvProblem convolution(DType type, int64_t channels, int64_t groups, bool last = false) {
  ConvProblem p{.src = images(0, type, {4, channels, 32, 32}, last),
                .weights = images(1, type, {channels, channels / groups, 3, 3}),
                .dst = images(2, type, {4, channels, 30, 30}, last)};
  p.geometry.groups = groups;
  return p;
}

void test_convolutions() {
  using xpu_ops::ops::ConvPass;
  for (const Policy& policy : policies())
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      at("convolution", policy.single_items, policy.units, static_cast<int>(type));
      ConvProblem p = convolution(type, 32, 1);
      const Plan plan = plan_convolution(p, ConvPass::forward, policy);
      check_list(plan);
      CHECK(choose(plan, all)->engine == Engine::primitive && !choose(plan, all)->wide);
      const auto no_primitives = [](const Attempt& t) { return t.engine != Engine::primitive; };
      CHECK(choose(plan, no_primitives)->engine == Engine::direct);
      CHECK(choose(plan, no_primitives)->wide == (type != DType::f32));
      const auto only_wide = [](const Attempt& t) { return t.wide; };
      CHECK((choose(plan, only_wide) != nullptr) == (type != DType::f32));
      p.weight = a_weight();
      if (type != DType::f32) {
        const Plan kept = plan_convolution(p, ConvPass::forward, policy);
        CHECK(choose(kept, only_wide)->packed);
        ConvProblem product = p;
        product.weights.dims[2] = product.weights.dims[3] = 1;
        CHECK(!choose(plan_convolution(product, ConvPass::forward, policy), only_wide)->packed);
      }
      at("fused convolution", policy.single_items, policy.units, static_cast<int>(type));
      p.composed = true;
      CHECK(choose(plan_convolution(p, ConvPass::forward, policy), no_primitives) == nullptr);
      at("depthwise convolution", policy.single_items, policy.units, static_cast<int>(type));
      ConvProblem d = convolution(type, 32, 32);
      const bool serves = is_depthwise(d.src, d.weights, d.dst, d.geometry, policy);
      CHECK((choose(plan_convolution(d, ConvPass::forward, policy), all)->engine == Engine::own) == serves);
      d.activation.known = false;
      CHECK(choose(plan_convolution(d, ConvPass::forward, policy), all)->engine == Engine::primitive);
      d = convolution(type, 32, 32, true);
      CHECK(choose(plan_convolution(d, ConvPass::forward, policy), all)->engine != Engine::own);
      at("gradients", policy.single_items, policy.units, static_cast<int>(type));
      p = convolution(type, 32, 1);
      const Plan data = plan_convolution(p, ConvPass::backward_data, policy);
      CHECK(!choose(data, all)->wide && choose(data, all)->engine == Engine::primitive);
      CHECK(choose(data, no_primitives)->engine == Engine::direct);
      p.composed = type != DType::f32;
      const Plan weights = plan_convolution(p, ConvPass::backward_weights, policy);
      CHECK((choose(weights, no_primitives) == nullptr) == p.composed);
    }
  const Policy policy = cpu_policy(2);
  at("convolution of a type that oneDNN has not");
  for (const DType type : {DType::f64, DType::c64, DType::c128})
    for (const ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weights}) {
      ConvProblem wide = convolution(type, 32, 1);
      CHECK(choose(plan_convolution(wide, pass, policy), all)->engine == Engine::columns);
      CHECK(choose(plan_convolution(wide, pass, gpu_policy(64)), all)->engine == Engine::direct);
      wide.geometry.transposed = true;
      CHECK(choose(plan_convolution(wide, pass, policy), all)->engine == Engine::columns);
      wide.geometry.spatial = 3;
      CHECK(choose(plan_convolution(wide, pass, policy), all)->engine == Engine::direct);
    }
  at("convolution of integers");
  CHECK(choose(plan_convolution(convolution(DType::i64, 8, 1), ConvPass::forward, policy), all)->engine ==
        Engine::direct);
  ConvProblem q = convolution(DType::u8, 8, 1);
  q.composed = true;
  CHECK(plan_convolution(q, ConvPass::forward, policy).count == 0);
  q.epilogue.post.quantization.emplace_back();
  CHECK(choose(plan_convolution(q, ConvPass::forward, policy), all)->engine == Engine::primitive);
  at("activations of a depthwise convolution");
  CHECK(activation_of(PostOp::eltwise(PostFunction::clip_v2_of_result, 0, 6)).kind == ConvActivation::clip);
  CHECK(!activation_of(PostOp::eltwise(PostFunction::tanh)).known && !activation_of(PostOp::sum()).known);
  CHECK(gate_of(activation_of(PostOp::eltwise(PostFunction::relu)))->low == 0);
  CHECK(!gate_of(activation_of(PostOp::eltwise(PostFunction::relu, 0.1f))));
}

}  // namespace

void test_products() {
  test_small_products();
  test_products_of_onemkl();
  test_large_products();
  test_added();
  test_layouts();
  test_integers_and_activations();
  test_fused_products();
  test_epilogues();
  test_convolutions();
}

}  // namespace plan_test
