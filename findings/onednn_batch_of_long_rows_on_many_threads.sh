#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine, AVX-512: a float32 product of a batch of matrices is wrong where the inner
# dimension has 20,000 elements or more, rows and columns 512 at most, and there are more threads than matrices (from six threads on
# for four matrices). Threads then share the inner dimension, and all matrices of the batch are summed into one buffer that has the
# size of one matrix. One matrix alone, 19,999 elements, or two threads are right, so that a test on a small machine does not see it.
# Each matrix as a product of its own is right everywhere.
# The processor must have avx512bw; a C and a C++ compiler are used. A library loaded ahead shows the program 2 or 8 processors.
#
# Seen, largest difference from the exact result, which integers make representable:
#   2 threads: 4 x (3 x 20000 @ 20000 x 16) 0       8 threads: thousands (the size of the results), or memory that nothing wrote
#   8 threads: 4 x (3 x 19999 @ 19999 x 16) 0       8 threads: 1 x (3 x 20000 @ 20000 x 16) 0
set -euo pipefail
grep -q avx512bw /proc/cpuinfo || { echo "not a processor with AVX-512" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 onednn-devel==2026.1.0 intel-sycl-rt==2026.2.0 \
  intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/processors.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
long sysconf(int name) {
  static long (*next)(int);
  if (!next) next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? atoi(getenv("PROCESSORS")) : next(name);
}
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t* set) {
  (void)pid;
  memset(set, 0, size);
  for (int i = 0; i < atoi(getenv("PROCESSORS")); ++i) CPU_SET_S(i, size, set);
  return 0;
}
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t* set) {
  (void)pid, (void)size, (void)set;
  return 0;
}
C
cat >"$folder/product.cpp" <<'C'
#include <cmath>
#include <cstdio>
#include "oneapi/dnnl/dnnl.hpp"
using dnnl::memory;
static int value(long i) { return static_cast<int>(i * 2654435761u >> 7 & 7) - 3; }
static bool right(dnnl::engine& engine, long batch, long m, long n, long k) {
  const auto f32 = memory::data_type::f32;
  const auto abc = memory::format_tag::abc;
  dnnl::stream stream(engine);
  dnnl::matmul::primitive_desc made(engine, {{batch, m, k}, f32, abc}, {{batch, k, n}, f32, abc}, {{batch, m, n}, f32, abc});
  memory a(made.src_desc(), engine), b(made.weights_desc(), engine), c(made.dst_desc(), engine);
  auto *x = static_cast<float*>(a.get_data_handle()), *y = static_cast<float*>(b.get_data_handle());
  auto* z = static_cast<float*>(c.get_data_handle());
  for (long i = 0; i < batch * m * k; ++i) x[i] = value(i);
  for (long i = 0; i < batch * k * n; ++i) y[i] = value(i + 5);
  dnnl::matmul(made).execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  stream.wait();
  for (long q = 0; q < batch; ++q)
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < n; ++j) {
        double sum = 0;
        for (long l = 0; l < k; ++l) sum += x[(q * m + i) * k + l] * y[(q * k + l) * n + j];
        if (!(std::fabs(sum - z[(q * m + i) * n + j]) < 0.5)) return false;
      }
  return true;
}
int main() {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::printf("4 of 20000: %s\n", right(engine, 4, 3, 16, 20000) ? "right" : "wrong");
  std::printf("4 of 19999: %s\n", right(engine, 4, 3, 16, 19999) ? "right" : "wrong");
  std::printf("1 of 20000: %s\n", right(engine, 1, 3, 16, 20000) ? "right" : "wrong");
}
C
cc -shared -fPIC -O1 "$folder/processors.c" -o "$folder/processors.so" -ldl
c++ -O1 "$folder/product.cpp" -I"$folder/venv/include" -L"$lib" -l:libdnnl.so.3 -Wl,--allow-shlib-undefined -o "$folder/product"
for threads in 2 8; do
  echo "$threads threads"
  OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib LD_PRELOAD=$folder/processors.so PROCESSORS=$threads "$folder/product"
done | tee "$folder/seen"
diff "$folder/seen" - <<'W'
2 threads
4 of 20000: right
4 of 19999: right
1 of 20000: right
8 threads
4 of 20000: wrong
4 of 19999: right
1 of 20000: right
W
