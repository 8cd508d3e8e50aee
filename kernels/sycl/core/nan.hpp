// NaN tests of every element type. Nothing is NaN among integers.
#pragma once
#include "kernels/sycl/core/complex.hpp"

namespace xpu {

template <class T> inline bool is_nan(T v) { return v != v; }
template <class T> inline bool is_nan(cplx<T> v) { return v.re != v.re || v.im != v.im; }

}  // namespace xpu
