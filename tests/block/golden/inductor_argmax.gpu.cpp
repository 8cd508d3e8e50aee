using namespace xpu::gen;

struct sycl_fused_argmax_0_args {
  alignas(8) const float* in_ptr0;
  alignas(8) int64_t* out_ptr0;
};
XPU_KERNEL_SG(1, 16) sycl_fused_argmax_0(sycl_fused_argmax_0_args p) {
  const float* const in_ptr0 = p.in_ptr0;
  int64_t* const out_ptr0 = p.out_ptr0;
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  const Span s = part(40L, 8);
  constexpr int ACC = 4;
  for (long xindex = s.begin + part_of_group; xindex < s.end; xindex += 8) {
    const long x0 = xindex;
    Place<float> acc0[ACC]; for (int i = 0; i < ACC; ++i) acc0[i] = Place<float>{-__builtin_inff(), 0x7fffffffffffffffL};
    lanes_by4(77L, lane, [&](long rc, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      const long r0_1 = rc;
      float tmp0 = static_cast<float>(ld(in_ptr0, r0_1 + 77L*x0));
      acc0[j] = Better<true>{}(acc0[j], Place<float>{static_cast<float>(tmp0), r0_1});
    });
    int64_t tmp1 = static_cast<int64_t>(across<Better<true>>(join<Better<true>>(acc0)).index);
    if (first) st(out_ptr0, x0, tmp1);
  }
}
