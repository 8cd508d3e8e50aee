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
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  constexpr int ACC = 4;
  const Span s = part(p.rows, p.each);
  for (long row = s.begin; row < s.end; ++row) {
    const long at = row * p.columns;
    T acc[ACC]; for (int i = 0; i < ACC; ++i) acc[i] = T{static_cast<T>(-xpu::inf<T>())};
    lanes_by4(p.columns, lane, [&](long c, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      acc[j] = largest_of_parts_join{}(acc[j], static_cast<T>(ld(p.ptr_part, at + c)));
    });
    const T x = across<largest_of_parts_join>(join<largest_of_parts_join>(acc));
    st_first(p.ptr_out, row, x);
  }
}
