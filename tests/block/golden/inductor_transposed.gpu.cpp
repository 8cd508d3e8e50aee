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
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(200133L, 1024);
  team<256>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    const long x2 = xc;
    const long x0 = xc % (601L);
    const long x1 = xc / (601L);
    float tmp0 = static_cast<float>(ld(in_ptr0, x2));
    float tmp1 = static_cast<float>(ld(in_ptr1, x1 + 333L*x0));
    float tmp2 = static_cast<float>(static_cast<float>(tmp0) + static_cast<float>(tmp1));
    st(out_ptr0, x2, tmp2);
  });
}
