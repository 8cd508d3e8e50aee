#include "kernels/ops/quantized.hpp"

#include <algorithm>

#include "gen/kernels/quantized_kernels.hpp"
#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/core/tile_args.hpp"
#include "kernels/sycl/products/quantized_args.hpp"

namespace xpu_ops::ops {
namespace {

void launch(runtime::Queue& queue, runtime::KernelSlot& kernel, const void* in, size_t in_size, void* out,
            size_t out_size, int64_t n, const Grid& grid) {
  const int64_t step = plan_step(grid);
  QuantizedArgs args{};
  args.scale = grid.scale;
  args.zero = grid.zero;
  args.after = grid.zero_after;
  args.scales = grid.scales;
  args.zeros = grid.zeros;
  args.inner = make_divider(static_cast<uint32_t>(grid.inner));
  args.channels = make_divider(static_cast<uint32_t>(grid.channels));
  for (int64_t done = 0; done < n; done += step) {
    args.in = static_cast<const char*>(in) + static_cast<size_t>(done) * in_size;
    args.out = static_cast<char*>(out) + static_cast<size_t>(done) * out_size;
    args.n = static_cast<uint32_t>(std::min(step, n - done));
    runtime::launch(queue, kernel, runtime::ceil_div(args.n, kTileElements), runtime::policy_of(queue).tile_items,
                    args);
  }
}

DType zero_type(const Grid& grid) { return grid.float_zeros ? DType::f32 : DType::i32; }

}  // namespace

int64_t plan_step(const Grid& grid) {
  constexpr int64_t most = int64_t{1} << 30;
  if (!grid.scales) return most;
  const int64_t round = grid.inner * grid.channels;
  if (round > most) throw Error(ErrorKind::runtime, "quantized tensor: the channels of more than 2^30 elements");
  return most / round * round;
}

void quantize(runtime::Queue& queue, DType type, const float* in, void* out, int64_t n, const Grid& grid) {
  runtime::KernelSlot& kernel =
      grid.scales ? kernels::quantize_channels(type, zero_type(grid)) : kernels::quantize_tensor[type];
  launch(queue, kernel, in, sizeof(float), out, dtype_size(type), n, grid);
}

void dequantize(runtime::Queue& queue, DType type, const void* in, float* out, int64_t n, const Grid& grid) {
  runtime::KernelSlot& kernel =
      grid.scales ? kernels::dequantize_channels(type, zero_type(grid)) : kernels::dequantize_tensor[type];
  launch(queue, kernel, in, dtype_size(type), out, sizeof(float), n, grid);
}

}  // namespace xpu_ops::ops
