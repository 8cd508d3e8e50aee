using namespace xpu::gen;

using T = float;
struct largest_of_parts_join {
GEN_FN T operator()(T a, T b) const {
  return static_cast<T>(
#line 1
xpu::maximum(a, b)
  );
}
};
GEN_FN T largest_of_parts_map(T a) {
  return static_cast<T>(
#line 1
a
  );
}
struct largest_of_parts_kernel_args {
  alignas(8) float* ptr_out;
  alignas(8) const float* ptr_part;
  alignas(8) int64_t rows;
  alignas(8) int64_t columns;
  alignas(8) int64_t each;
  alignas(8) int64_t count;
};
XPU_KERNEL_SG(1, 16) largest_of_parts_kernel(largest_of_parts_kernel_args p) {
  const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();
  const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;
  (void)item, (void)leader;
  constexpr int ACC = 4;
  const Span s = part(p.rows, p.each);
  for (long row = s.begin + part_of_group; row < s.end; row += 8) {
    const long at = row * p.columns;
    T acc[ACC]; for (int i = 0; i < ACC; ++i) acc[i] = T{static_cast<T>(-xpu::inf<T>())};
    lanes_by4(p.columns, lane, [&](long c, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      acc[j] = largest_of_parts_join{}(acc[j], static_cast<T>(ld(p.ptr_part, at + c)));
    });
    const T x = across<largest_of_parts_join>(join<largest_of_parts_join>(acc));
    if (first) st(p.ptr_out, row, x);
  }
}
