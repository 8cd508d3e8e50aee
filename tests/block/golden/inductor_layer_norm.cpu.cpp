using namespace xpu::gen;

struct sycl_fused_native_layer_norm_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) const float* in_ptr1;
  alignas(8) float* out_ptr1;
};
XPU_KERNEL_SG(1, 16) sycl_fused_native_layer_norm_0(sycl_fused_native_layer_norm_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  const float* const in_ptr1 = p.in_ptr1;
  float* const out_ptr1 = p.out_ptr1;
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const Span s = part(8L, 1);
  constexpr int ACC = 4;
  for (long xindex = s.begin; xindex < s.end; ++xindex) {
    const long x0 = xindex;
    float acc0[ACC]; for (int i = 0; i < ACC; ++i) acc0[i] = float{0};
    lanes_by4(2048L, lane, [&](long rc, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rc;
      float tmp0 = static_cast<float>(ld(in_ptr0, r0_1 + 2048L*x0));
      acc0[j] = Sum{}(acc0[j], static_cast<float>(tmp0));
    });
    float tmp1 = static_cast<float>(across<Sum>(join<Sum>(acc0)));
    float tmp2 = static_cast<float>(2048.0f);
    float tmp3 = static_cast<float>(static_cast<float>(tmp1) / static_cast<float>(tmp2));
    float acc1[ACC]; for (int i = 0; i < ACC; ++i) acc1[i] = float{0};
    lanes_by4(2048L, lane, [&](long rc, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rc;
      float tmp4 = static_cast<float>(ld(in_ptr0, r0_1 + 2048L*x0));
      float tmp5 = static_cast<float>(static_cast<float>(tmp4) - static_cast<float>(tmp3));
      float tmp6 = static_cast<float>(static_cast<float>(tmp5) * static_cast<float>(tmp5));
      acc1[j] = Sum{}(acc1[j], static_cast<float>(tmp6));
    });
    float tmp7 = static_cast<float>(across<Sum>(join<Sum>(acc1)));
    float tmp10 = static_cast<float>(static_cast<float>(tmp7) / static_cast<float>(tmp2));
    float tmp11 = static_cast<float>(1e-05f);
    float tmp12 = static_cast<float>(static_cast<float>(tmp10) + static_cast<float>(tmp11));
    float tmp13 = static_cast<float>(float(1) / sycl::sqrt(static_cast<float>(tmp12)));
    lanes_by4(2048L, lane, [&](long rc, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rc;
      float tmp8 = static_cast<float>(ld(in_ptr0, r0_1 + 2048L*x0));
      float tmp15 = static_cast<float>(ld(in_ptr1, r0_1));
      float tmp9 = static_cast<float>(static_cast<float>(tmp8) - static_cast<float>(tmp3));
      float tmp14 = static_cast<float>(static_cast<float>(tmp9) * static_cast<float>(tmp13));
      float tmp16 = static_cast<float>(static_cast<float>(tmp14) * static_cast<float>(tmp15));
      st(out_ptr1, r0_1 + 2048L*x0, tmp16);
    });
  }
}
