using namespace xpu::gen;

struct sycl_fused__softmax_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) float* out_ptr2;
};
XPU_KERNEL_SG(1, 16) sycl_fused__softmax_0(sycl_fused__softmax_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  float* const out_ptr2 = p.out_ptr2;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(500L, 128);
  team<128>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    constexpr int ACC = 2;
    const long x0 = xc;
    float acc0[ACC]; for (int i = 0; i < ACC; ++i) acc0[i] = float{-__builtin_inff()};
    steps_by2(30L, [&](long rindex, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rindex;
      float tmp0 = static_cast<float>(ld(in_ptr0, x0 + 500L*r0_1));
      acc0[j] = Max{}(acc0[j], static_cast<float>(tmp0));
    });
    float tmp1 = static_cast<float>(join<Max>(acc0));
    float acc1[ACC]; for (int i = 0; i < ACC; ++i) acc1[i] = float{0};
    steps_by2(30L, [&](long rindex, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rindex;
      float tmp2 = static_cast<float>(ld(in_ptr0, x0 + 500L*r0_1));
      float tmp3 = static_cast<float>(static_cast<float>(tmp2) - static_cast<float>(tmp1));
      float tmp4 = static_cast<float>(xpu::exp(static_cast<float>(tmp3)));
      acc1[j] = Sum{}(acc1[j], static_cast<float>(tmp4));
    });
    float tmp5 = static_cast<float>(join<Sum>(acc1));
    steps_by2(30L, [&](long rindex, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rindex;
      float tmp6 = static_cast<float>(ld(in_ptr0, x0 + 500L*r0_1));
      float tmp7 = static_cast<float>(static_cast<float>(tmp6) - static_cast<float>(tmp1));
      float tmp8 = static_cast<float>(xpu::exp(static_cast<float>(tmp7)));
      float tmp9 = static_cast<float>(static_cast<float>(tmp8) / static_cast<float>(tmp5));
      st(out_ptr2, x0 + 500L*r0_1, tmp9);
    });
  });
}
