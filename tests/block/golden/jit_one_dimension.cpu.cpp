using namespace xpu::gen;

using T = float;
GEN_FN float one_dimension(float a, float b, float alpha) {
  return xpu::convert<float>(
#line 1
a + alpha * b
  );
}
struct one_dimension_kernel_args {
  alignas(8) float* ptr_out;
  alignas(8) const float* ptr_a;
  alignas(8) const bf16* ptr_b;
  alignas(8) float alpha;
  alignas(8) int64_t rows;
  alignas(8) int64_t each;
  alignas(8) int64_t tiles;
  alignas(8) int64_t size[1];
  alignas(8) int64_t step_out[1];
  alignas(8) int64_t step_a[1];
  alignas(8) int64_t step_b[1];
};
XPU_KERNEL_SG(1, 16) one_dimension_kernel(one_dimension_kernel_args p) {
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const long group = __spirv_BuiltInWorkgroupId(0);
  const long begin = (group / p.tiles) * p.each;
  const long end = sycl::min<long>(begin + p.each, p.rows);
  const long c0 = (group % p.tiles) * 4096;
  const long c1 = sycl::min<long>(c0 + 4096, p.size[0]);
  for (long row = begin; row < end; ++row) {
    const long at_out = 0;
    const long at_a = 0;
    const long at_b = 0;
    if (p.step_out[0] == 1 && p.step_a[0] == 1 && p.step_b[0] == 1) {
      lanes(c0, c1, lane, [&](long c) GEN_INLINE {
        st(p.ptr_out + at_out, c, one_dimension(xpu::convert<float>(ld(p.ptr_a + at_a, c)), xpu::convert<float>(ld(p.ptr_b + at_b, c)), p.alpha));
      });
    } else {
      const long step_out = p.step_out[0];
      const long step_a = p.step_a[0];
      const long step_b = p.step_b[0];
      lanes(c0, c1, lane, [&](long c) GEN_INLINE {
        st(p.ptr_out + at_out, c * step_out, one_dimension(xpu::convert<float>(ld(p.ptr_a + at_a, c * step_a)), xpu::convert<float>(ld(p.ptr_b + at_b, c * step_b)), p.alpha));
      });
    }
  }
}
