using namespace xpu::gen;

struct sycl_fused_index_mul_0_args {
  alignas(8) const int64_t* in_ptr0;
  alignas(8) const float* in_ptr1;
  alignas(8) float* out_ptr0;
  alignas(8) xpu::DeviceError* error;
  alignas(8) int64_t text0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_index_mul_0(sycl_fused_index_mul_0_args p) {
  const int64_t* const in_ptr0 = p.in_ptr0;
  const float* const in_ptr1 = p.in_ptr1;
  float* const out_ptr0 = p.out_ptr0;
  xpu::DeviceError* const error = p.error;
  int64_t const text0 = p.text0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(512L, 1024);
  int64_t tmp1 = static_cast<int64_t>(50L);
  int64_t tmp2 = static_cast<int64_t>(xpu::convert<int64_t>(tmp1));
  float tmp7 = static_cast<float>(2.0f);
  team<256>(s.begin, s.end, item, [&](long xc) GEN_INLINE {
    const long x1 = xc / (64L);
    const long x0 = xc % (64L);
    const long x2 = xc;
    int64_t tmp0 = static_cast<int64_t>(ld(in_ptr0, x1));
    int64_t tmp3 = static_cast<int64_t>(static_cast<uint64_t>(tmp0) + static_cast<uint64_t>(tmp2));
    bool tmp4 = static_cast<bool>(tmp0 < 0);
    int64_t tmp5 = static_cast<int64_t>(tmp4 ? static_cast<int64_t>(tmp3) : static_cast<int64_t>(tmp0));
    const bool ok0 = check(tmp5 >= 0 && tmp5 < 50L, error, text0);
    tmp5 = ok0 ? tmp5 : 0;
    float tmp6 = static_cast<float>(ld(in_ptr1, x0 + 64L*tmp5));
    float tmp8 = static_cast<float>(static_cast<float>(tmp6) * static_cast<float>(tmp7));
    st(out_ptr0, x2, tmp8);
  });
}
