// Complex numbers for device code, laid out as c10::complex: two values, real first. The elementary functions over them
// are in math.hpp.
#pragma once

namespace xpu {

template <class T>
struct alignas(2 * sizeof(T)) cplx {
  T re, im;
  cplx() = default;
  cplx(T r) : re(r), im(T(0)) {}
  cplx(T r, T i) : re(r), im(i) {}
  template <class U>
  explicit cplx(cplx<U> o) : re(static_cast<T>(o.re)), im(static_cast<T>(o.im)) {}
};

template <class T> inline cplx<T> operator+(cplx<T> a, cplx<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> inline cplx<T> operator-(cplx<T> a, cplx<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> inline cplx<T> operator-(cplx<T> a) { return {-a.re, -a.im}; }
template <class T> inline cplx<T> operator*(cplx<T> a, cplx<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> inline cplx<T> operator/(cplx<T> a, cplx<T> b) {
  // Smith's method, as c10::complex divides: no overflow of the squared modulus.
  T ar = b.re < 0 ? -b.re : b.re, ai = b.im < 0 ? -b.im : b.im;
  if (ar >= ai) {
    if (ar == T(0) && ai == T(0)) return {a.re / ar, a.im / ai};
    T rat = b.im / b.re, scl = T(1) / (b.re + b.im * rat);
    return {(a.re + a.im * rat) * scl, (a.im - a.re * rat) * scl};
  }
  T rat = b.re / b.im, scl = T(1) / (b.re * rat + b.im);
  return {(a.re * rat + a.im) * scl, (a.im * rat - a.re) * scl};
}
template <class T> inline bool operator==(cplx<T> a, cplx<T> b) { return a.re == b.re && a.im == b.im; }
template <class T> inline bool operator!=(cplx<T> a, cplx<T> b) { return !(a == b); }

}  // namespace xpu
