// Plans of layers: products, convolutions, recurrent layers, embeddings, attention.
#include "kernels/ops/attention.hpp"
#include "kernels/ops/blockscale.hpp"
#include "kernels/ops/convolution.hpp"
#include "kernels/ops/embedding.hpp"
#include "kernels/ops/matmul.hpp"
#include "kernels/ops/rnn.hpp"
#include "kernels/sycl/cpu/attention_amx_args.hpp"
#include "kernels/sycl/cpu/attention_block_args.hpp"
#include "kernels/sycl/products/lowprecision_args.hpp"
#include "kernels/sycl/products/rnn_args.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

void test_matmul() {
  std::set<MatmulPlan::Kernel> seen;
  for (const uint32_t m : {1u, 3u, 4u, 7u, 1000u})
    for (const uint32_t n : {1u, 17u, 64u, 5000u})
      for (const int kind : {0, 1, 2, 3, 4}) {
        const bool dot16 = kind == 2 || kind == 3;
        const MatmulForm form = kind == 0 ? MatmulForm::any : kind == 3 ? MatmulForm::across : MatmulForm::dots;
        at("matmul", m, n, kind);
        Policy policy;
        policy.dot16 = dot16;
        MatmulArgs args{};
        args.m = m, args.n = n;
        const MatmulPlan plan = plan_matmul(kind == 4 ? DType::i8 : DType::bf16, args, 3, form, policy);
        seen.insert(plan.kernel);
        const int64_t rows = plan.kernel == MatmulPlan::Kernel::pairs   ? kPairRows
                             : form != MatmulForm::any                  ? kDotRows
                             : plan.kernel == MatmulPlan::Kernel::rows8 ? 8
                                                                        : 1;
        const int64_t columns = form == MatmulForm::dots     ? plan.dot_columns
                                : form == MatmulForm::across ? kAcrossColumns
                                                             : static_cast<int64_t>(plan.local);
        CHECK(parts_cover(m, plan.row_blocks, rows));
        CHECK(plan.blocks == 3 * plan.row_blocks && plan.groups1 == plan.blocks);
        CHECK(parts_cover(n, static_cast<int64_t>(plan.groups0), columns));
        CHECK(form == MatmulForm::any || plan.local == 1);
        CHECK(plan.dot_columns % kLanes == 0 && plan.dot_columns <= kMostDotColumns);
      }
  check_all_seen("matmul", seen, MatmulPlan::Kernel::rows1);
  for (const int64_t n : kSizes) {
    at("dot", n);
    const DotPlan plan = plan_dot(static_cast<uint32_t>(n));
    CHECK(parts_cover(n, plan.items / 16, plan.chunk) && plan.items <= 64 * 16);
  }
  CHECK(plan_dot(UINT32_MAX / 2).items <= 64 * 16);
  Policy cpu, gpu;
  cpu.single_items = true;
  at("small matmul");
  CHECK(plan_small_matmul(64 * 64, 64, cpu) && !plan_small_matmul(64 * 64, 65, cpu));
  CHECK(!plan_small_matmul(1, 1, gpu));
  at("few rows");
  for (const MatmulForm form : {MatmulForm::dots, MatmulForm::across}) {
    const auto serves = [&](DType type, int64_t rows, const Policy& policy) {
      return plan_few_rows(type, rows, 4096, form, policy);
    };
    cpu.products16 = true;
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      CHECK(serves(type, 1, cpu) && serves(type, 4, cpu) && !serves(type, 1, gpu));
      CHECK(serves(type, 8, cpu) == (type == DType::f32) && !serves(type, 9, cpu));
      CHECK(!plan_few_rows(type, 1, 4096, MatmulForm::any, cpu) && !plan_few_rows(type, 1, 1, form, cpu));
    }
    cpu.dot16 = true;
    CHECK(serves(DType::bf16, 16, cpu) == (form == MatmulForm::dots) && !serves(DType::bf16, 17, cpu) &&
          !serves(DType::f16, 8, cpu));
    cpu.products16 = cpu.dot16 = false;
    CHECK(serves(DType::bf16, 8, cpu) && serves(DType::f16, 8, cpu) && !serves(DType::f16, 9, cpu));
    CHECK(!serves(DType::f64, 1, cpu));
  }
  CHECK(plan_few_rows(DType::f32, 1, 2 * kLanes * cpu.units, MatmulForm::dots, cpu));
  CHECK(plan_few_rows_of_bytes(16, 4096, cpu) && !plan_few_rows_of_bytes(17, 4096, cpu));
  CHECK(!plan_few_rows_of_bytes(1, 1, cpu) && !plan_few_rows_of_bytes(1, 4096, gpu));
  CHECK(plan_relu_behind(cpu) && !plan_relu_behind(gpu));
  CHECK(plan_operand_behind(DType::f32, 4 << 20, cpu) && !plan_operand_behind(DType::f32, (4 << 20) - 1, cpu));
  CHECK(!plan_operand_behind(DType::bf16, 4 << 20, cpu) && !plan_operand_behind(DType::f32, 4 << 20, gpu));
  cpu.cache = 32 << 20;
  CHECK(plan_relu_behind_product(64 << 10, cpu) && !plan_relu_behind_product((64 << 10) - 1, cpu));
  CHECK(plan_relu_behind_product(16 << 20, cpu) && !plan_relu_behind_product((16 << 20) + 1, cpu));
  CHECK(!plan_relu_behind_product(1 << 20, gpu));
  CHECK(!plan_few_rows(DType::f32, 1, 2 * kLanes * cpu.units, MatmulForm::across, cpu));
}

void test_convolution() {
  Policy cpu, gpu;
  cpu.single_items = true;
  DirectProblem a{};
  a.n = 2, a.ci = a.co = a.groups = 32;
  for (int d = 0; d < 3; ++d) a.in[d] = a.out[d] = 20, a.kernel[d] = 3, a.stride[d] = a.dilation[d] = 1;
  at("depthwise");
  CHECK(plan_depthwise_serves(a, cpu) && !plan_depthwise_serves(a, gpu));
  const auto without = [&](auto&& change) {
    DirectProblem other = a;
    change(other);
    return !plan_depthwise_serves(other, cpu);
  };
  CHECK(without([](DirectProblem& c) { c.groups = 16; }) && without([](DirectProblem& c) { c.co = 64; }));
  CHECK(without([](DirectProblem& c) { c.kernel[1] = 5; }) &&
        without([](DirectProblem& c) { c.kernel[1] = c.kernel[2] = 4; }));
  CHECK(without([](DirectProblem& c) { c.stride[2] = 2; }) && !without([](DirectProblem& c) { c.stride[1] = 2; }));
  CHECK(without([](DirectProblem& c) { c.dilation[1] = 2; }));
  const auto gradients = [&](DType type, int32_t kernel, int32_t stride, const Policy& policy) {
    DirectProblem g = a;
    g.kernel[1] = g.kernel[2] = kernel, g.stride[1] = g.stride[2] = stride;
    return std::pair(plan_depthwise_widens(g, type, policy), plan_depthwise_copies(g, type, policy));
  };
  CHECK(gradients(DType::bf16, 3, 2, cpu) == std::pair(true, false));
  CHECK(gradients(DType::bf16, 3, 1, cpu) == std::pair(false, false));
  CHECK(gradients(DType::bf16, 5, 1, cpu) == std::pair(false, true));
  CHECK(gradients(DType::f16, 3, 1, cpu) == std::pair(true, true));
  CHECK(gradients(DType::f32, 5, 2, cpu) == std::pair(false, false));
  CHECK(gradients(DType::f32, 5, 1, cpu) == std::pair(false, true));
  CHECK(gradients(DType::f16, 5, 2, gpu) == std::pair(false, false));
  for (const int32_t width : {1, 20, 4096, 5000})
    for (const int32_t height : {1, 3, 1000}) {
      at("depthwise", width, height);
      a.out[1] = height, a.out[2] = width;
      const DepthwisePlan plan = plan_depthwise(a);
      CHECK(parts_cover(height, plan.blocks, plan.rows));
    }
  at("depthwise, channels last");
  const auto last = [&](auto&& change, DType type = DType::f32) {
    DirectProblem other = a;
    change(other);
    return plan_depthwise_last_serves(other, type, cpu) && !plan_depthwise_last_serves(other, type, gpu);
  };
  CHECK(last([](DirectProblem&) {}) && last([](DirectProblem&) {}, DType::bf16) &&
        !last([](DirectProblem&) {}, DType::f16));
  CHECK(last([](DirectProblem& c) { c.stride[1] = c.stride[2] = 2; }) &&
        !last([](DirectProblem& c) { c.stride[1] = 2; }));
  CHECK(last([](DirectProblem& c) { c.kernel[1] = c.kernel[2] = 5; }) &&
        !last([](DirectProblem& c) { c.kernel[2] = 5; }));
  CHECK(!last([](DirectProblem& c) { c.kernel[1] = c.kernel[2] = 7; }) &&
        !last([](DirectProblem& c) { c.dilation[2] = 2; }));
  CHECK(!last([](DirectProblem& c) { c.ci = c.co = c.groups = 15; }) && !last([](DirectProblem& c) { c.groups = 1; }));
  for (const uint32_t units : {1u, 2u, 64u})
    for (const int32_t width : {1, 20, 5000})
      for (const int32_t height : {1, 3, 1000}) {
        at("depthwise, channels last", width, height);
        cpu.units = units;
        a.out[1] = height, a.out[2] = width;
        const DepthwisePlan plan = plan_depthwise_last(a, cpu);
        CHECK(parts_cover(height, plan.blocks, plan.rows));
      }
  at("columns");
  DirectProblem c = a;
  c.ci = c.co = 512, c.out[1] = c.out[2] = 14;
  CHECK(plan_columns_serve(c, false, cpu) && !plan_columns_serve(c, false, gpu));
  c.co = 8;  // few weights: only with strides and of images that are channels-last
  CHECK(!plan_columns_serve(c, true, cpu));
  c.stride[1] = c.stride[2] = 2;
  CHECK(plan_columns_serve(c, true, cpu) && !plan_columns_serve(c, false, cpu));
  c.kernel[1] = c.kernel[2] = 1;
  CHECK(!plan_columns_serve(c, true, cpu));
  c.kernel[1] = c.kernel[2] = 4;
  CHECK(!plan_columns_serve(c, true, cpu));
  c.kernel[1] = c.kernel[2] = 3, c.n = 1 << 20;
  CHECK(!plan_columns_serve(c, true, cpu));
}

void test_rnn() {
  Policy cpu, gpu;
  cpu.single_items = true;
  for (const int64_t batch : {1, 3, 64, 1000})
    for (const int64_t hidden : {1, 16, 100, 256, 3000}) {
      at("rnn", batch, hidden);
      const RnnPlan cell = plan_rnn_cell(batch, hidden);
      CHECK(cell.groups0 == static_cast<size_t>(batch) && cell.local % 16 == 0);
      CHECK(parts_cover(hidden, static_cast<int64_t>(cell.groups1), static_cast<int64_t>(cell.local)));
      const bool serves = plan_rnn_steps_serve(batch, hidden, cpu);
      CHECK(serves == (batch <= 64 && hidden % 16 == 0) && !plan_rnn_steps_serve(batch, hidden, gpu));
      if (!serves) continue;
      for (const RnnKind kind : {RnnKind::lstm, RnnKind::lstm_backward, RnnKind::gru, RnnKind::gru_backward}) {
        const bool backward = kind == RnnKind::lstm_backward || kind == RnnKind::gru_backward;
        const RnnPlan step = plan_rnn_step(kind, batch, hidden);
        CHECK(step.groups0 * step.local == static_cast<size_t>(hidden));
        CHECK(parts_cover(batch, static_cast<int64_t>(step.groups1), backward ? kRnnBackwardRows : kRnnForwardRows));
      }
    }
}

void test_embedding() {
  std::set<BagPlan::Kernel> seen;
  for (const Policy& policy : policies())
    for (const int64_t bags : kSizes)
      for (const uint32_t features : {1u, 16u, 100u})
        for (const BagMode mode : {BagMode::sum, BagMode::max})
          for (const int64_t stride : {1, 2}) {
            at("bags", policy.single_items, policy.units, bags, features, stride);
            BagProblem problem{};
            problem.bags = static_cast<uint32_t>(bags), problem.count = problem.bags * 3, problem.features = features;
            problem.mode = mode, problem.weight_stride1 = stride;
            const BagPlan plan = plan_bags(DType::f32, problem, policy);
            seen.insert(plan.kernel);
            CHECK(parts_cover(bags, static_cast<int64_t>(plan.groups), plan.bags_per_group));
            CHECK((plan.kernel == BagPlan::Kernel::single) == (plan.local == 1));
            CHECK(plan.local != 1 || policy.single_items);
          }
  check_all_seen("bags", seen, BagPlan::Kernel::single);
  for (const Policy& policy : policies()) {
    CHECK(plan_bag_grad_serves(DType::f32, policy) == policy.single_items);
    for (const int64_t rows : kSizes)
      for (const int64_t features : {1, 256, 257, 3000}) {
        at("bag gradients", policy.units, rows, features);
        const BagGradPlan plan = plan_bag_grad(rows, features, policy);
        CHECK(parts_cover(features, plan.tiles, plan.tile));
        CHECK(parts_cover(rows, static_cast<int64_t>(plan.groups / plan.tiles), plan.rows_per_part));
      }
  }
}

void test_attention() {
  bool blocks = false, tiles = false;
  for (const Policy& policy : policies())
    for (const int64_t queries : {1, 23, 24, 500, 4000})
      for (const int64_t keys : {1, 64, 5000})
        for (const int64_t kv_heads : {1, 8})
          for (const bool causal : {false, true}) {
            at("attention", policy.single_items, policy.units, queries, keys, kv_heads, causal);
            const AttentionShape shape{2, 8, kv_heads, queries, keys, 64, 64, causal};
            const AttentionTiles t = plan_attention_tiles(shape, policy);
            CHECK(t.batches >= 1 && t.batches <= 2 && t.heads >= 1 && t.heads <= kv_heads);
            CHECK(t.rows >= 1 && t.rows <= queries && t.causal_step >= 128 && t.causal_step % 64 == 0);
            const bool by_blocks = plan_attention_blocks_serve(shape, false, policy);
            (by_blocks ? blocks : tiles) = true;
            CHECK(!by_blocks || (policy.single_items && queries >= 24));
            CHECK(!plan_attention_blocks_serve(shape, true, policy));
            CHECK(plan_attention_one_serves(1, policy) == policy.single_items && !plan_attention_one_serves(2, policy));
            Policy tiles_of_amx = policy;
            CHECK(!plan_attention_amx_serves(shape, false, policy));
            tiles_of_amx.amx = true;
            CHECK(plan_attention_amx_serves(shape, false, tiles_of_amx) ==
                  (queries >= 24 && 16 * ((queries + kAmxQueries - 1) / kAmxQueries) >= policy.units));
            CHECK(!plan_attention_amx_serves(shape, true, tiles_of_amx));
            AttentionBlockProblem args;
            args.batch = 2, args.heads = 8, args.nq = static_cast<uint32_t>(queries),
            args.nk = static_cast<uint32_t>(keys), args.dim = args.value_dim = 64;
            args.head_step = static_cast<uint32_t>(8 / kv_heads);
            const int64_t by_plane = (queries + kBlockQueries - 1) / kBlockQueries;
            const size_t groups = plan_attention_blocks(args, policy);
            CHECK(groups >= 1 && groups <= static_cast<size_t>(16 * by_plane));
            const int64_t splits = plan_attention_splits(args, 2 * kv_heads, policy);
            CHECK(splits >= 1 && splits <= std::max<int64_t>(1, by_plane * args.head_step));
          }
  at("attention");
  CHECK(blocks && tiles);
  AttentionShape shape{1, 1, 1, 64, 64, 64, 64, false};
  CHECK(plan_attention_blocks_backward_serve(shape));
  shape.value_dim = 72;
  CHECK(!plan_attention_blocks_backward_serve(shape));
}

void test_block_scales() {
  int served = 0, refused = 0;
  for (const Policy& policy : policies())
    for (const uint32_t rows : {0u, 1u, 32u, 33u, 256u, 5000u})
      for (const uint32_t k : {0u, 16u, 48u, 128u, 4096u, 4112u})
        for (const auto& [scale, values, block] : {std::tuple{BlockScale::e4m3, BlockValues::e2m1, 16u},
                                                   std::tuple{BlockScale::e8m0, BlockValues::e5m2, 32u},
                                                   std::tuple{BlockScale::f32, BlockValues::e4m3fn, 128u}}) {
          at("block scales", rows, k, block);
          BlockRowsProblem args;
          args.scales.rows = rows, args.scales.k = k, args.scales.block = block, args.scales.scale_block = 1;
          const BlockScalePlan plan = plan_blockscale(values, args.scales, policy);
          CHECK((plan.groups0 * plan.groups1 == 0) == (rows * k == 0));
          if (rows * k != 0) {
            CHECK(plan.column_each % block == 0 && plan.local0 * plan.local1 <= policy.most_items);
            CHECK(parts_cover(k, static_cast<int64_t>(plan.groups1), plan.column_each));
            CHECK(parts_cover(rows, static_cast<int64_t>(plan.groups0),
                              static_cast<int64_t>(plan.local0 * plan.row_each)));
          }
          args.weight.m = rows, args.weight.n = 300, args.weight.k = k;
          const BlockRowsPlan few = plan_block_rows(values, scale, args, policy);
          ++(few.served ? served : refused);
          CHECK(!few.served || (policy.single_items && rows && rows <= 32 && k && k % xpu_ops::kWeightChunk == 0));
          CHECK(!few.served || values != BlockValues::e5m2);
          if (few.served) CHECK(parts_cover((300 + 15) / 16, static_cast<int64_t>(few.groups), few.blocks));
          BlockDotsProblem both;
          both.weight = args.weight;
          both.a = both.w = args.scales;
          Policy dots = policy;
          dots.dots8 = policy.single_items;
          const BlockRowsPlan more = plan_block_dots(values, scale, false, both, dots);
          CHECK(more.served >= few.served && (!more.served || (policy.single_items && rows <= 256)));
          if (few.served) CHECK(more.groups == few.groups && plan_block_dots(values, scale, true, both, dots).served);
          CHECK(!plan_block_dots(values, scale, false, both, policy).served);
          dots.dots8 = false, dots.dots_narrow = policy.single_items;
          CHECK(plan_block_dots(values, scale, false, both, dots).groups == more.groups);
        }
  at("block scales");
  CHECK(served && refused);
}

}  // namespace

void test_layers() {
  test_matmul();
  test_block_scales();
  test_convolution();
  test_rnn();
  test_embedding();
  test_attention();
}

}  // namespace plan_test
