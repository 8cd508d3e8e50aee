#!/usr/bin/env bash
# oneMKL 2026.2.0 over oneTBB: cgemm of 8 x 512 by 512 x 512 uses one thread, whatever the machine has. Two threads of the caller that compute half
# of the columns each, with mkl_set_num_threads_local(1), need half of the time. The limit of a thread holds in this layer, too.
#
# Seen, one call against two halves: 197 and 105 us on two cores of a Zen 4, 730 and 109 on two of an Emerald Rapids Xeon.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mkl==2026.2.0 mkl-include==2026.2.0 tbb==2023.2.0
cat >"$folder/thin.cpp" <<'C'
#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstdio>
#include <thread>
#include <vector>
#define MKL_Complex8 std::complex<float>
#include <mkl_blas_64.h>
#include <mkl_service.h>

using C = std::complex<float>;
const MKL_INT64 m = 8, n = 512, k = 512;  // column-major
std::vector<C> a(m * k, C(1, 1)), b(k * n, C(1)), c(m * n);

void columns(MKL_INT64 first, MKL_INT64 count) {
  const C one(1), zero(0);
  cgemm_64("N", "N", &m, &count, &k, &one, a.data(), &m, b.data() + first * k, &k, &zero, c.data() + first * m, &m);
}

template <class F>
double least(const F& f) {
  double best = 1e9;
  for (int i = 0; i < 400; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

int main() {
  const double whole = least([] { columns(0, n); });
  std::atomic<int> turn{0}, done{0};
  std::thread other([&] {
    const bool limited = mkl_set_num_threads_local(1) >= 0 && mkl_get_max_threads() == 1;
    for (int seen = 0;;) {
      while (turn == seen) {}
      if ((seen = turn) < 0) return;
      if (limited) columns(n / 2, n / 2);
      done = seen;
    }
  });
  mkl_set_num_threads_local(1);
  const double halves = least([&] {
    const int now = ++turn;
    columns(0, n / 2);
    while (done != now) {}
  });
  turn = -1;
  other.join();
  std::printf("one call %.0f us, two halves %.0f us, by two threads; a result is %g\n", whole, halves, c[m * n - 1].real());
  return !(whole > 1.3 * halves && c[m * n - 1] == C(k, k));
}
C
lib="$folder/venv/lib"
c++ -O2 -std=c++17 -DMKL_ILP64 -I "$folder/venv/include" "$folder/thin.cpp" -o "$folder/thin" -pthread -L "$lib" \
  -l:libmkl_intel_ilp64.so.3 -l:libmkl_tbb_thread.so.3 -l:libmkl_core.so.3 -l:libtbb.so.12 -Wl,-rpath,"$lib"
LD_LIBRARY_PATH="$lib" taskset -c 0,1 "$folder/thin"
