// Implicit derivatives of samples: a sample x of a distribution with function F(x; a) moves by -(dF/da) / F'(x) with
// its parameter (Figurnov, Mohamed, Mnih 2018). F is summed as a power series or a continued fraction together with its
// derivative; the factor that F shares with its density cancels, so no exponential or gamma function is left.
#pragma once
#include "kernels/sycl/elementwise/random_args.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu {

using xpu_ops::RandomFromArgs;

// d x / d a for x drawn from Gamma(a, 1).
template <class M>
inline M gamma_sample_grad(M a, M x) {
  if (!(x > M(0)) || !(a > M(0))) return M(0);
  if (a > M(5000)) {
    // Wilson and Hilferty 1931: the cube root is normal.
    M root = sycl::sqrt(a), z = (sycl::cbrt(x / a) - M(1) + M(1) / (M(9) * a)) * M(3) * root;
    M u = M(1) - M(1) / (M(9) * a) + z / (M(3) * root);
    return u * u * u + M(3) * a * u * u * (M(1) / (M(9) * a * a) - z / (M(6) * a * root));
  }
  if (x < a + M(1)) {
    // P = x^a e^-x / Gamma(a + 1) * sum of x^n / ((a + 1) ... (a + n))
    M term = M(1), d_term = M(0), sum = M(1), d_sum = M(0);
    for (int n = 1; n < 2000; ++n) {
      M k = a + M(n), f = x / k;
      d_term = (d_term - term / k) * f, term = term * f;
      sum += term, d_sum += d_term;
      if (term < M(1e-9) * sum) break;
    }
    return -x / a * ((sycl::log(x) - digamma(a + M(1))) * sum + d_sum);
  }
  // Q = x^a e^-x / Gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), by Lentz's method with derivatives.
  M b = x + M(1) - a, d = M(1) / b, dd = d * d, c = M(1e30f), dc = M(0), h = d, dh = dd;
  for (int n = 1; n < 2000; ++n) {
    M an = -M(n) * (M(n) - a), d_an = M(n);
    b += M(2);
    M s = an * d + b, ds = d_an * d + an * dd - M(1);
    d = M(1) / s, dd = -ds * d * d;
    M dcn = d_an / c - an * dc / (c * c) - M(1);
    c = b + an / c, dc = dcn;
    M delta = c * d, d_delta = dc * d + c * dd;
    dh = dh * delta + h * d_delta, h = h * delta;
    // A partial numerator of zero ends the fraction but not its derivative.
    if (sycl::fabs(delta - M(1)) + sycl::fabs(d_delta) < M(2e-7)) break;
  }
  return x * ((sycl::log(x) - digamma(a)) * h + dh);
}

// (d x / d a) / (1 - x) for x drawn from Beta(a, total - a), which is what a Dirichlet sample needs.
template <class M>
inline M dirichlet_sample_grad(M x, M a, M total) {
  M b = total - a, psi = digamma(total) - digamma(a);
  M sum = M(1), d_sum = M(0), term = M(1), d_term = M(0);
  if (x * (total + M(2)) < a + M(1)) {
    // I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * sum of (a + b)_n / (a + 1)_n x^n
    for (int n = 1; n < 5000; ++n) {
      M top = total + M(n - 1), k = a + M(n), f = top / k * x;
      d_term = d_term * f + term * x * (k - top) / (k * k), term = term * f;
      sum += term, d_sum += d_term;
      if (term < M(1e-9) * sum) break;
    }
    return -x / a * ((sycl::log(x) - M(1) / a + psi) * sum + d_sum);
  }
  // I_x(a, b) = 1 - I_y(b, a) with y = 1 - x
  M y = M(1) - x;
  for (int n = 1; n < 5000; ++n) {
    M top = total + M(n - 1), k = b + M(n), f = top / k * y;
    d_term = d_term * f + term * y / k, term = term * f;
    sum += term, d_sum += d_term;
    if (term < M(1e-9) * sum) break;
  }
  return x / b * ((sycl::log(x) + psi) * sum + d_sum);
}

template <class T>
void gamma_grad(const RandomFromArgs& p) {
  uint32_t i = global_id();
  if (i < p.n)
    static_cast<T*>(p.dst)[i] = gamma_sample_grad<T>(static_cast<const T*>(p.x)[i], static_cast<const T*>(p.y)[i]);
}

// dst2 is the third input, the total of the concentrations.
template <class T>
void dirichlet_grad(const RandomFromArgs& p) {
  uint32_t i = global_id();
  if (i < p.n)
    static_cast<T*>(p.dst)[i] = dirichlet_sample_grad<T>(static_cast<const T*>(p.x)[i], static_cast<const T*>(p.y)[i],
                                                         static_cast<const T*>(p.dst2)[i]);
}

}  // namespace xpu
