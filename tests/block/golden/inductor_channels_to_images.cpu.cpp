using namespace xpu::gen;

struct sycl_fused_clone_mul_permute_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_clone_mul_permute_0(sycl_fused_clone_mul_permute_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  float* const out_ptr0 = p.out_ptr0;
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const long g = __spirv_BuiltInWorkgroupId(0);
  const long b0 = g / (3L);
  const long b1 = g - b0 * (3L);
  const long xg = b0 / (1L);
  const long n0 = (b0 - xg * (1L)) * 3;
  const long n1 = sycl::min<long>(n0 + 3, 3L);
  const long c0 = b1 * 336;
  const long c1 = sycl::min<long>(c0 + 336, 960L);
  syclexp::work_group_static<float[1008]> local0; float* const copy0 = local0;
  copy_channels<336, 3>(copy0, c0, c1, lane, [&](long xc, long xn) GEN_INLINE -> const float& {
    const long xo = xg * (3L) + xn;
    const long x0 = xc;
    const long x1 = xn;
    const long x2 = xg;
    const long x3 = xo * (960L) + xc;
    return in_ptr0[x1 + 3L*x0 + 2880L*x2];
  });
  const long x2 = xg;
  float tmp1 = static_cast<float>(2.0f);
  for (long xn = n0; xn < n1; ++xn) {
    const long xo = xg * (3L) + xn;
    const long x1 = xn;
    lanes(c0, c1, lane, [&](long xc) GEN_INLINE {
      const long x0 = xc;
      const long x3 = xo * (960L) + xc;
      float tmp0 = static_cast<float>(ld(copy0 + (xn - n0) * 336 - c0, xc));
      float tmp2 = static_cast<float>(static_cast<float>(tmp0) * static_cast<float>(tmp1));
      st(out_ptr0, x3, tmp2);
    });
  }
}
