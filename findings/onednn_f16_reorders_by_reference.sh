#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine, AVX-512 without FP16: every reorder to or from float16 is done by the reference
# ("simple:any"), a plain conversion in one layout included, though the processor converts float16 since AVX2 (F16C). bfloat16 has
# generated code ("jit:uni"). Converting first and packing then does not help: the conversion is the slow part. A program that packs
# float16 weights for a float32 product is faster with a conversion of its own.
# The processor must have avx512bw and no avx512_fp16; a C compiler is used.
#
# Seen, 4096 x 4096 on one thread pool of two cores of a Zen 5, in milliseconds:
#   f16 ab -> f32 ab        simple:any  220
#   f16 ab -> f32 BA16a64b  simple:any  319
#   f32 ab -> f16 BA16a64b  simple:any  685
#   bf16 ab -> f32 BA16a64b jit:uni       8
set -euo pipefail
grep -q avx512bw /proc/cpuinfo && ! grep -q avx512_fp16 /proc/cpuinfo || { echo "not a processor with AVX-512 and without FP16" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 onednn-devel==2026.1.0 intel-sycl-rt==2026.2.0 \
  intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/names.c" <<'C'
#include <stdio.h>
#include "oneapi/dnnl/dnnl.h"
static void name(dnnl_engine_t engine, const char* text, dnnl_data_type_t from, dnnl_format_tag_t lies, dnnl_data_type_t to, dnnl_format_tag_t gets) {
  dnnl_dims_t sizes = {4096, 4096};
  dnnl_memory_desc_t a, b;
  dnnl_primitive_desc_t made;
  const char* found = "none";
  dnnl_memory_desc_create_with_tag(&a, 2, sizes, from, lies);
  dnnl_memory_desc_create_with_tag(&b, 2, sizes, to, gets);
  if (dnnl_reorder_primitive_desc_create(&made, a, engine, b, engine, NULL) == dnnl_success)
    dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void*)&found);
  printf("%s %s\n", text, found);
}
int main(void) {
  dnnl_engine_t engine;
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return 1;
  name(engine, "f16 ab -> f32 ab", dnnl_f16, dnnl_ab, dnnl_f32, dnnl_ab);
  name(engine, "f16 ab -> f32 BA16a64b", dnnl_f16, dnnl_ab, dnnl_f32, dnnl_BA16a64b);
  name(engine, "f32 ab -> f16 BA16a64b", dnnl_f32, dnnl_ab, dnnl_f16, dnnl_BA16a64b);
  name(engine, "bf16 ab -> f32 BA16a64b", dnnl_bf16, dnnl_ab, dnnl_f32, dnnl_BA16a64b);
  return 0;
}
C
cc -O1 "$folder/names.c" -I"$folder/venv/include" -L"$lib" -l:libdnnl.so.3 -Wl,--allow-shlib-undefined -o "$folder/names"
seen=$(OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/names")
echo "$seen"
diff <(echo "$seen") - <<'W'
f16 ab -> f32 ab simple:any
f16 ab -> f32 BA16a64b simple:any
f32 ab -> f16 BA16a64b simple:any
bf16 ab -> f32 BA16a64b jit:uni
W
