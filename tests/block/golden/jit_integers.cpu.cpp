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
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const long group = __spirv_BuiltInWorkgroupId(0);
  const long begin = (group / p.tiles) * p.each;
  const long end = sycl::min<long>(begin + p.each, p.rows);
  const long c0 = (group % p.tiles) * 4096;
  const long c1 = sycl::min<long>(c0 + 4096, p.size[1]);
  for (long row = begin; row < end; ++row) {
    const long row0 = row;
    const long at_out = row0 * p.step_out[0];
    const long at_a = row0 * p.step_a[0];
    const long at_b = row0 * p.step_b[0];
    if (p.step_out[1] == 1 && p.step_a[1] == 1 && p.step_b[1] == 1) {
      lanes(c0, c1, lane, [&](long c) GEN_INLINE {
        st(p.ptr_out + at_out, c, integers(xpu::convert<T>(ld(p.ptr_a + at_a, c)), xpu::convert<T>(ld(p.ptr_b + at_b, c)), static_cast<int>(p.shift)));
      });
    } else {
      const long step_out = p.step_out[1];
      const long step_a = p.step_a[1];
      const long step_b = p.step_b[1];
      lanes(c0, c1, lane, [&](long c) GEN_INLINE {
        st(p.ptr_out + at_out, c * step_out, integers(xpu::convert<T>(ld(p.ptr_a + at_a, c * step_a)), xpu::convert<T>(ld(p.ptr_b + at_b, c * step_b)), static_cast<int>(p.shift)));
      });
    }
  }
}
