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
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const long group = __spirv_BuiltInWorkgroupId(0);
  const long begin = (group / p.tiles) * p.each;
  const long end = sycl::min<long>(begin + p.each, p.rows);
  const long c0 = (group % p.tiles) * 4096;
  const long c1 = sycl::min<long>(c0 + 4096, p.size[2]);
  for (long row = begin; row < end; ++row) {
    const long row1 = row % p.size[1];
    const long row_rest1 = row / p.size[1];
    const long row0 = row_rest1;
    const long at_out = row1 * p.step_out[1] + row0 * p.step_out[0];
    const long at_a = row1 * p.step_a[1] + row0 * p.step_a[0];
    if (p.step_out[2] == 1 && p.step_a[2] == 1) {
      lanes(c0, c1, lane, [&](long c) GEN_INLINE {
        st(p.ptr_out + at_out, c, three_dimensions(xpu::convert<T>(ld(p.ptr_a + at_a, c))));
      });
    } else {
      const long step_out = p.step_out[2];
      const long step_a = p.step_a[2];
      lanes(c0, c1, lane, [&](long c) GEN_INLINE {
        st(p.ptr_out + at_out, c * step_out, three_dimensions(xpu::convert<T>(ld(p.ptr_a + at_a, c * step_a))));
      });
    }
  }
}
