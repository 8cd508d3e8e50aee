#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine: which eltwise post-ops of a matrix product keep NaN and infinity.
# relu, clip and hardsigmoid turn NaN into a number, and exp turns it into infinity, while elu, tanh, logistic and swish keep it.
# elu of slope 0 is a relu that keeps NaN. gelu_erf of a matrix of 128 rows is NaN at infinity, where gelu_tanh is infinity.
#
# Seen (post-op: value at NaN, at infinity):
#   relu 0 inf, clip 0..6: 0 6, hardsigmoid 1 1, exp inf inf, elu(0) nan inf, tanh nan 1, logistic nan 1, gelu_tanh nan inf, gelu_erf nan nan
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 onednn-devel==2026.1.0 intel-sycl-rt==2026.2.0 \
  intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/postops.cpp" <<'C'
#include <cmath>
#include <cstdio>
#include <limits>
#include <sycl/sycl.hpp>
#include <dnnl.hpp>
#include <dnnl_sycl.hpp>
using namespace dnnl;
int main() {
  sycl::queue q{sycl::cpu_selector_v, sycl::property::queue::in_order()};
  engine e = sycl_interop::make_engine(q.get_device(), q.get_context());
  stream s = sycl_interop::make_stream(e, q);
  const int m = 128, k = 64, n = 64;
  auto* x = sycl::malloc_shared<float>(m * k, q);
  auto* w = sycl::malloc_shared<float>(k * n, q);
  auto* b = sycl::malloc_shared<float>(n, q);
  auto* y = sycl::malloc_shared<float>(m * n, q);
  for (int i = 0; i < m * k; ++i) x[i] = 0;
  for (int i = 0; i < k * n; ++i) w[i] = 0;
  for (int i = 0; i < n; ++i) b[i] = 0;
  b[0] = std::nanf("");
  b[1] = std::numeric_limits<float>::infinity();
  using T = memory::format_tag;
  memory::desc xd({m, k}, memory::data_type::f32, T::ab), wd({k, n}, memory::data_type::f32, T::ab),
      bd({1, n}, memory::data_type::f32, T::ab), yd({m, n}, memory::data_type::f32, T::ab);
  struct { const char* name; algorithm a; float alpha, beta; } ops[] = {
      {"relu", algorithm::eltwise_relu, 0, 0},          {"clip", algorithm::eltwise_clip, 0, 6},
      {"hardsigmoid", algorithm::eltwise_hardsigmoid, 1.f / 6, 0.5f}, {"exp", algorithm::eltwise_exp, 0, 0},
      {"elu", algorithm::eltwise_elu, 0, 0},            {"tanh", algorithm::eltwise_tanh, 0, 0},
      {"logistic", algorithm::eltwise_logistic, 0, 0},  {"gelu_tanh", algorithm::eltwise_gelu_tanh, 0, 0},
      {"gelu_erf", algorithm::eltwise_gelu_erf, 0, 0}};
  for (auto& op : ops) {
    post_ops chain;
    chain.append_eltwise(op.a, op.alpha, op.beta);
    primitive_attr attr;
    attr.set_post_ops(chain);
    matmul::primitive_desc d(e, xd, wd, bd, yd, attr);
    auto as = [&](const memory::desc& md, float* p) { return sycl_interop::make_memory(md, e, sycl_interop::memory_kind::usm, p); };
    matmul(d).execute(s, {{DNNL_ARG_SRC, as(xd, x)}, {DNNL_ARG_WEIGHTS, as(wd, w)}, {DNNL_ARG_BIAS, as(bd, b)}, {DNNL_ARG_DST, as(yd, y)}});
    s.wait();
    auto text = [](float v) { return std::isnan(v) ? "nan" : std::isinf(v) ? "inf" : v == 0 ? "0" : v == 1 ? "1" : "6"; };
    std::printf("%s %s %s\n", op.name, text(y[0]), text(y[1]));
  }
  std::fflush(stdout);
  std::_Exit(0);
}
C
g++ -std=c++20 -O1 -w "$folder/postops.cpp" -I"$folder/venv/include" -L"$lib" -l:libdnnl.so.3 -l:libsycl.so.9 \
  -Wl,--disable-new-dtags,-rpath,"$lib" -o "$folder/postops"
seen=$(OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/postops")
echo "$seen"
diff <(echo "$seen") - <<'W'
relu 0 inf
clip 0 6
hardsigmoid 1 1
exp inf inf
elu nan inf
tanh nan 1
logistic nan 1
gelu_tanh nan inf
gelu_erf nan nan
W
