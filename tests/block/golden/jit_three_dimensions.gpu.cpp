using namespace xpu::gen;

using T = float;
GEN_FN float three_dimensions(T a) {
  return xpu::convert<float>(
#line 1
xpu::exp(a)
  );
}
struct three_dimensions_kernel_args {
  alignas(8) half* ptr_out;
  alignas(8) const half* ptr_a;
  alignas(8) int64_t rows;
  alignas(8) int64_t each;
  alignas(8) int64_t tiles;
  alignas(8) int64_t size[3];
  alignas(8) int64_t step_out[3];
  alignas(8) int64_t step_a[3];
};
XPU_KERNEL_SG(1, 16) three_dimensions_kernel(three_dimensions_kernel_args p) {
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const long group = __spirv_BuiltInWorkgroupId(0);
  const long begin = group * 1024;
  const long end = sycl::min<long>(begin + 1024, p.rows);
  team<256>(begin, end, item, [&](long i) GEN_INLINE {
    const long i2 = i % p.size[2];
    const long i_rest2 = i / p.size[2];
    const long i1 = i_rest2 % p.size[1];
    const long i_rest1 = i_rest2 / p.size[1];
    const long i0 = i_rest1;
    const long at_out = i2 * p.step_out[2] + i1 * p.step_out[1] + i0 * p.step_out[0];
    const long at_a = i2 * p.step_a[2] + i1 * p.step_a[1] + i0 * p.step_a[0];
    st(p.ptr_out + at_out, 0, three_dimensions(xpu::convert<T>(ld(p.ptr_a + at_a, 0))));
  });
}
