// Launches kernels of one native module and prints what they store: for tests of what the device compiler makes.
//   launch_probe MODULE.native.syclbin GROUPS KERNEL...
// A kernel takes LaunchProbeArgs and stores one float for each work-group of 16 items; x holds 0, 1, 2 ...
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <vector>

#include <sycl/sycl.hpp>
#include <sycl/ext/oneapi/experimental/enqueue_functions.hpp>
#include <sycl/ext/oneapi/experimental/syclbin_kernel_bundle.hpp>

namespace syclexp = sycl::ext::oneapi::experimental;

struct LaunchProbeArgs {
  const float* x;
  float* out;
  uint32_t groups, columns;
};

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  constexpr uint32_t kLanes = 16;
  const uint32_t groups = static_cast<uint32_t>(std::atoi(argv[2]));
  try {
    std::ifstream file(argv[1], std::ios::binary);
    std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    sycl::queue queue{sycl::property::queue::in_order{}};
    auto bundle = syclexp::get_kernel_bundle<sycl::bundle_state::executable>(
        queue.get_context(), {queue.get_device()}, sycl::span<char>(bytes.data(), bytes.size()));
    float *x = sycl::malloc_shared<float>(groups * kLanes, queue), *out = sycl::malloc_shared<float>(groups, queue);
    for (uint32_t i = 0; i < groups * kLanes; ++i) x[i] = static_cast<float>(i);
    for (int a = 3; a < argc; ++a) {
      for (uint32_t i = 0; i < groups; ++i) out[i] = -1.0f;
      syclexp::nd_launch(queue, sycl::nd_range<1>(groups * kLanes, kLanes), bundle.ext_oneapi_get_kernel(argv[a]),
                         LaunchProbeArgs{x, out, groups, kLanes});
      queue.wait_and_throw();
      std::printf("%s", argv[a]);
      for (uint32_t i = 0; i < groups; ++i) std::printf("\t%g", out[i]);
      std::printf("\n");
    }
    sycl::free(x, queue);
    sycl::free(out, queue);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
