using namespace xpu::gen;

using T = float;
GEN_FN int32_t integers(T a, T b, int shift) {
  return xpu::convert<int32_t>(
#line 1
(a ^ b) << shift
  );
}
struct integers_kernel_args {
  alignas(8) int32_t* ptr_out;
  alignas(8) const int32_t* ptr_a;
  alignas(8) const int32_t* ptr_b;
  alignas(8) int64_t shift;
  alignas(8) int64_t rows;
  alignas(8) int64_t each;
  alignas(8) int64_t tiles;
  alignas(8) int64_t size[2];
  alignas(8) int64_t step_out[2];
  alignas(8) int64_t step_a[2];
  alignas(8) int64_t step_b[2];
};
XPU_KERNEL_SG(1, 16) integers_kernel(integers_kernel_args p) {
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const long group = __spirv_BuiltInWorkgroupId(0);
  const long begin = group * 1024;
  const long end = sycl::min<long>(begin + 1024, p.rows);
  team<256>(begin, end, item, [&](long i) GEN_INLINE {
    const long i1 = i % p.size[1];
    const long i_rest1 = i / p.size[1];
    const long i0 = i_rest1;
    const long at_out = i1 * p.step_out[1] + i0 * p.step_out[0];
    const long at_a = i1 * p.step_a[1] + i0 * p.step_a[0];
    const long at_b = i1 * p.step_b[1] + i0 * p.step_b[0];
    st(p.ptr_out + at_out, 0, integers(xpu::convert<T>(ld(p.ptr_a + at_a, 0)), xpu::convert<T>(ld(p.ptr_b + at_b, 0)), static_cast<int>(p.shift)));
  });
}
