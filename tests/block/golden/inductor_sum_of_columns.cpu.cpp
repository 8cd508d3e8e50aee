using namespace xpu::gen;

struct sycl_fused_sum_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_sum_0(sycl_fused_sum_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  float* const out_ptr0 = p.out_ptr0;
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const Span s = part(500L, 64);
  columns_by4(s.begin, s.end, lane, [&](auto count, auto each) GEN_INLINE {
    constexpr int ACC = decltype(count)::value;
    float acc0[ACC]; for (int i = 0; i < ACC; ++i) acc0[i] = float{0};
    for (long rindex = 0; rindex < 300L; ++rindex)
      each([&](long xc, auto slot) GEN_INLINE {
        constexpr int j = decltype(slot)::value; (void)j;
        const long x0 = xc;
        const long r0_1 = rindex;
        float tmp0 = static_cast<float>(ld(in_ptr0, x0 + 500L*r0_1));
        acc0[j] = Sum{}(acc0[j], static_cast<float>(tmp0));
      });
    each([&](long xc, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long x0 = xc;
      float tmp1 = static_cast<float>(acc0[j]);
      st(out_ptr0, x0, tmp1);
    });
  });
}
