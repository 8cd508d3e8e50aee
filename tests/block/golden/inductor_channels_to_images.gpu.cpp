using namespace xpu::gen;

struct sycl_fused_clone_mul_permute_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_clone_mul_permute_0(sycl_fused_clone_mul_permute_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  float* const out_ptr0 = p.out_ptr0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(5760L, 1024);
  float tmp1 = static_cast<float>(2.0f);
  team<256>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    const long x0 = xc % (960L);
    const long x1 = (xc / (960L)) % (3L);
    const long x2 = xc / (2880L);
    const long x3 = xc;
    float tmp0 = static_cast<float>(ld(in_ptr0, x1 + 3L*x0 + 2880L*x2));
    float tmp2 = static_cast<float>(static_cast<float>(tmp0) * static_cast<float>(tmp1));
    st(out_ptr0, x3, tmp2);
  });
}
