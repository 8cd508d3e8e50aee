using namespace xpu::gen;

struct sycl_fused_var_0_args {
  alignas(8) float* in_out_ptr0;
  alignas(8) const float* in_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_var_0(sycl_fused_var_0_args p) {
  float* const in_out_ptr0 = p.in_out_ptr0;
  const float* const in_ptr0 = p.in_ptr0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(2000L, 128);
  team<128>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    constexpr int ACC = 2;
    const long x0 = xc;
    float acc0[ACC]; for (int i = 0; i < ACC; ++i) acc0[i] = float{0};
    steps_by2(9L, [&](long rindex, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rindex;
      float tmp0 = static_cast<float>(ld(in_ptr0, r0_1 + 9L*x0));
      acc0[j] = Sum{}(acc0[j], static_cast<float>(tmp0));
    });
    float tmp1 = static_cast<float>(join<Sum>(acc0));
    float acc1[ACC]; for (int i = 0; i < ACC; ++i) acc1[i] = float{0};
    steps_by2(9L, [&](long rindex, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rindex;
      float tmp2 = static_cast<float>(ld(in_ptr0, r0_1 + 9L*x0));
      float tmp3 = static_cast<float>(9.0f);
      float tmp4 = static_cast<float>(static_cast<float>(tmp1) / static_cast<float>(tmp3));
      float tmp5 = static_cast<float>(static_cast<float>(tmp2) - static_cast<float>(tmp4));
      float tmp6 = static_cast<float>(static_cast<float>(tmp5) * static_cast<float>(tmp5));
      acc1[j] = Sum{}(acc1[j], static_cast<float>(tmp6));
    });
    float tmp7 = static_cast<float>(join<Sum>(acc1));
    float tmp8 = static_cast<float>(8.0f);
    float tmp9 = static_cast<float>(static_cast<float>(tmp7) / static_cast<float>(tmp8));
    st(in_out_ptr0, x0, tmp9);
  });
}
