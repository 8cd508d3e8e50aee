using namespace xpu::gen;

struct sycl_fused__to_copy_add_gelu_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) const float* in_ptr1;
  alignas(8) half* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused__to_copy_add_gelu_0(sycl_fused__to_copy_add_gelu_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  const float* const in_ptr1 = p.in_ptr1;
  half* const out_ptr0 = p.out_ptr0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(9000L, 1024);
  float tmp3 = static_cast<float>(0.5f);
  float tmp5 = static_cast<float>(0.7071067811865476f);
  float tmp8 = static_cast<float>(1.0f);
  team<256>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    const long x2 = xc;
    const long x0 = xc % (90L);
    float tmp0 = static_cast<float>(ld(in_ptr0, x2));
    float tmp1 = static_cast<float>(ld(in_ptr1, x0));
    float tmp2 = static_cast<float>(static_cast<float>(tmp0) + static_cast<float>(tmp1));
    float tmp4 = static_cast<float>(static_cast<float>(tmp2) * static_cast<float>(tmp3));
    float tmp6 = static_cast<float>(static_cast<float>(tmp2) * static_cast<float>(tmp5));
    float tmp7 = static_cast<float>(xpu::erf_fast(static_cast<float>(tmp6)));
    float tmp9 = static_cast<float>(static_cast<float>(tmp7) + static_cast<float>(tmp8));
    float tmp10 = static_cast<float>(static_cast<float>(tmp4) * static_cast<float>(tmp9));
    float tmp11 = static_cast<float>(xpu::convert<float>(tmp10));
    st(out_ptr0, x2, tmp11);
  });
}
