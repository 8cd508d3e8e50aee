using namespace xpu::gen;

using T = float;
struct norm_of_long_rows_join {
GEN_FN T operator()(T a, T b) const {
  return static_cast<T>(
#line 1
a + b
  );
}
};
GEN_FN T norm_of_long_rows_map(float a, float b) {
  return static_cast<T>(
#line 1
a * b
  );
}
GEN_FN float norm_of_long_rows_finish(T x, long n) {
  return xpu::convert<float>(
#line 1
x / n
  );
}
struct norm_of_long_rows_kernel_args {
  alignas(8) float* ptr_out;
  alignas(8) const float* ptr_a;
  alignas(8) const float* ptr_b;
  alignas(8) int64_t rows;
  alignas(8) int64_t columns;
  alignas(8) int64_t each;
  alignas(8) int64_t count;
};
XPU_KERNEL_SG(1, 16) norm_of_long_rows_kernel(norm_of_long_rows_kernel_args p) {
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  constexpr int ACC = 1;
  const Span s = part(p.rows, p.each);
  for (long row = s.begin; row < s.end; ++row) {
    const long at = row * p.columns;
    T acc[ACC]; for (int i = 0; i < ACC; ++i) acc[i] = T{static_cast<T>(0)};
    team_ways<256>(0, p.columns, item, [&](long c, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      acc[j] = norm_of_long_rows_join{}(acc[j], norm_of_long_rows_map(xpu::convert<float>(ld(p.ptr_a, at + c)), xpu::convert<float>(ld(p.ptr_b, at + c))));
    });
    const T x = across_team<norm_of_long_rows_join, 256>(join<norm_of_long_rows_join>(acc));
    if (leader) st(p.ptr_out, row, norm_of_long_rows_finish(x, p.count));
  }
}
