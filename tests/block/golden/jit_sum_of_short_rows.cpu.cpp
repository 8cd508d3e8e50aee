using namespace xpu::gen;

using T = float;
struct sum_of_short_rows_join {
GEN_FN T operator()(T a, T b) const {
  return static_cast<T>(
#line 1
a + b
  );
}
};
GEN_FN T sum_of_short_rows_map(T a) {
  return static_cast<T>(
#line 1
a
  );
}
GEN_FN float sum_of_short_rows_finish(T x, long n) {
  return xpu::convert<float>(
#line 1
x / n
  );
}
struct sum_of_short_rows_kernel_args {
  alignas(8) float* ptr_out;
  alignas(8) const float* ptr_a;
  alignas(8) int64_t rows;
  alignas(8) int64_t columns;
  alignas(8) int64_t each;
  alignas(8) int64_t count;
};
XPU_KERNEL_SG(1, 16) sum_of_short_rows_kernel(sum_of_short_rows_kernel_args p) {
  const long lane = xpu_local_id(0);
  const bool first = xpu::is_first_lane();
  constexpr int ACC = 4;
  const Span s = part(p.rows, p.each);
  for (long row = s.begin; row < s.end; ++row) {
    const long at = row * p.columns;
    T acc[ACC]; for (int i = 0; i < ACC; ++i) acc[i] = T{static_cast<T>(0)};
    lanes_by4(p.columns, lane, [&](long c, auto slot) GEN_INLINE {
      constexpr int j = decltype(slot)::value; (void)j;
      acc[j] = sum_of_short_rows_join{}(acc[j], sum_of_short_rows_map(xpu::convert<T>(ld(p.ptr_a, at + c))));
    });
    const T x = across<sum_of_short_rows_join>(join<sum_of_short_rows_join>(acc));
    st_first(p.ptr_out, row, sum_of_short_rows_finish(x, p.count));
  }
}
