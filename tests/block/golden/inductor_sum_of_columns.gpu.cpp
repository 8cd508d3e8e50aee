using namespace xpu::gen;

struct sycl_fused_sum_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_sum_0(sycl_fused_sum_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  float* const out_ptr0 = p.out_ptr0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(500L, 128);
  team<128>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    constexpr int ACC = 2;
    const long x0 = xc;
    float acc0[ACC]; for (int i = 0; i < ACC; ++i) acc0[i] = float{0};
    steps_by2(300L, [&](long rindex, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rindex;
      float tmp0 = static_cast<float>(ld(in_ptr0, x0 + 500L*r0_1));
      acc0[j] = Sum{}(acc0[j], static_cast<float>(tmp0));
    });
    float tmp1 = static_cast<float>(join<Sum>(acc0));
    st(out_ptr0, x0, tmp1);
  });
}
