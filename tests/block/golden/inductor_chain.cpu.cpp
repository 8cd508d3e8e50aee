using namespace xpu::gen;

struct sycl_fused_add_mul_tanh_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) const float* in_ptr1;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_add_mul_tanh_0(sycl_fused_add_mul_tanh_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  const float* const in_ptr1 = p.in_ptr1;
  float* const out_ptr0 = p.out_ptr0;
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  const Span s = part(9000L, 4096);
  float tmp4 = static_cast<float>(1.0f);
  lanes(s.begin, s.end, lane, [&](long xc) GEN_INLINE {
    const long x0 = xc;
    float tmp0 = static_cast<float>(ld(in_ptr0, x0));
    float tmp1 = static_cast<float>(ld(in_ptr1, x0));
    float tmp2 = static_cast<float>(static_cast<float>(tmp0) * static_cast<float>(tmp1));
    float tmp3 = static_cast<float>(xpu::tanh(static_cast<float>(tmp2)));
    float tmp5 = static_cast<float>(static_cast<float>(tmp3) + static_cast<float>(tmp4));
    st(out_ptr0, x0, tmp5);
  });
}
