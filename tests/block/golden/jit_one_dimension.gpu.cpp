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
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const long group = __spirv_BuiltInWorkgroupId(0);
  const long begin = group * 1024;
  const long end = sycl::min<long>(begin + 1024, p.rows);
  team<256>(begin, end, item, [&](long i) GEN_INLINE {
    const long i0 = i;
    const long at_out = i0 * p.step_out[0];
    const long at_a = i0 * p.step_a[0];
    const long at_b = i0 * p.step_b[0];
    st(p.ptr_out + at_out, 0, one_dimension(xpu::convert<float>(ld(p.ptr_a + at_a, 0)), xpu::convert<float>(ld(p.ptr_b + at_b, 0)), p.alpha));
  });
}
