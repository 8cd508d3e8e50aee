using namespace xpu::gen;

struct sycl_fused_add_t_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) const float* in_ptr1;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_add_t_0(sycl_fused_add_t_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  const float* const in_ptr1 = p.in_ptr1;
  float* const out_ptr0 = p.out_ptr0;
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const long g = __spirv_BuiltInWorkgroupId(0);
  const long b0 = g / (3L);
  const long b1 = g - b0 * (3L);
  const long xg = b0 / (11L);
  const long n0 = (b0 - xg * (11L)) * 32;
  const long n1 = sycl::min<long>(n0 + 32, 333L);
  const long c0 = b1 * 256;
  const long c1 = sycl::min<long>(c0 + 256, 601L);
  syclexp::work_group_static<float[8192]> local0; float* const copy0 = local0;
  copy_block<256>(copy0, c0, c1, n0, n1, lane, [&](long xc, long xn) GEN_INLINE {
    const long xo = xg * (333L) + xn;
    const long x2 = xo * (601L) + xc;
    const long x0 = xc;
    const long x1 = xn;
    return in_ptr1[x1 + 333L*x0];
  });
  for (long xn = n0; xn < n1; ++xn) {
    const long xo = xg * (333L) + xn;
    const long x1 = xn;
    lanes(c0, c1, lane, [&](long xc) GEN_INLINE {
      const long x2 = xo * (601L) + xc;
      const long x0 = xc;
      float tmp0 = static_cast<float>(ld(in_ptr0, x2));
      float tmp1 = static_cast<float>(ld(copy0 + (xn - n0) * 256 - c0, xc));
      float tmp2 = static_cast<float>(static_cast<float>(tmp0) + static_cast<float>(tmp1));
      st(out_ptr0, x2, tmp2);
    });
  }
}
