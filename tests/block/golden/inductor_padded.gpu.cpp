using namespace xpu::gen;

struct sycl_fused_add_constant_pad_nd_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) float* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_add_constant_pad_nd_0(sycl_fused_add_constant_pad_nd_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  float* const out_ptr0 = p.out_ptr0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(6060L, 1024);
  int64_t tmp2 = static_cast<int64_t>(int64_t(0L));
  int64_t tmp4 = static_cast<int64_t>(int64_t(300L));
  float tmp9 = static_cast<float>(1.0f);
  team<256>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    const long x0 = xc % (303L);
    const long x1 = xc / (303L);
    const long x2 = xc;
    int64_t tmp0 = static_cast<int64_t>((-1L) + x0);
    int64_t tmp1 = static_cast<int64_t>(xpu::convert<int64_t>(tmp0));
    bool tmp3 = static_cast<bool>(tmp1 >= tmp2);
    bool tmp5 = static_cast<bool>(tmp1 < tmp4);
    bool tmp6 = static_cast<bool>(tmp3 & tmp5);
    float tmp8 = 0.0f;
    if (tmp6) {
      float tmp7 = static_cast<float>(ld(in_ptr0, (-1L) + x0 + 300L*x1));
      tmp8 = static_cast<float>(tmp7);
    }
    float tmp10 = static_cast<float>(static_cast<float>(tmp8) + static_cast<float>(tmp9));
    st(out_ptr0, x2, tmp10);
  });
}
