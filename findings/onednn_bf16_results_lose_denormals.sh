#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine: converting float32 to bfloat16 keeps numbers below 2^-126, which bfloat16 has, by the code for
# AVX-512, and makes zeros of their sign by the code for AVX-512 with bfloat16 instructions: vcvtneps2bf16 takes denormals for
# zeros. So the same program gives other results on a newer processor, and log or a quotient behind it an infinity.
# The processor must have avx512_bf16.
#
# Seen (1e-40, -1e-40, 3e-39, and 2e-38, which is normal):
#   AVX512_CORE       denormals kept: True True True True
#   AVX512_CORE_BF16  denormals kept: False False False True
set -euo pipefail
grep -q avx512_bf16 /proc/cpuinfo || { echo "this processor has no avx512_bf16" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/convert.py" <<'P'
import ctypes, sys
dnnl = ctypes.CDLL(f"{sys.argv[1]}/libdnnl.so.3")
handle, ref = ctypes.c_void_p, ctypes.byref
BF16, F32, LINE, SRC, DST = 2, 3, 2, 1, 17
def make(name, *arguments):
    made = handle()
    status = getattr(dnnl, name)(ref(made), *arguments)
    assert status == 0, (name, status)
    return made
class Argument(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("memory", ctypes.c_void_p)]
numbers = [1e-40, -1e-40, 3e-39, 2e-38]
count = 16 * len(numbers)  # whole vectors
sizes = (ctypes.c_int64 * 12)(count)
engine = make("dnnl_engine_create", 1, ctypes.c_size_t(0))  # dnnl_cpu
stream = make("dnnl_stream_create", engine, 1)  # in order
wide, narrow = (make("dnnl_memory_desc_create_with_tag", 1, sizes, t, LINE) for t in (F32, BF16))
given, got = (ctypes.c_float * count)(*[x for x in numbers for _ in range(16)]), (ctypes.c_uint16 * count)()
primitive = make("dnnl_primitive_create", make("dnnl_reorder_primitive_desc_create", wide, engine, narrow, engine, None))
packed = (Argument * 2)(Argument(SRC, make("dnnl_memory_create", wide, engine, given).value),
                        Argument(DST, make("dnnl_memory_create", narrow, engine, got).value))
assert dnnl.dnnl_primitive_execute(primitive, stream, 2, packed) == 0 and dnnl.dnnl_stream_wait(stream) == 0
print("denormals kept:", *((x & 0x7FFF) != 0 for x in got[::16]))
P
convert() { echo "$1 $(ONEDNN_MAX_CPU_ISA=$1 OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/venv/bin/python" "$folder/convert.py" "$lib")"; }
seen=$(convert AVX512_CORE; convert AVX512_CORE_BF16)
echo "$seen"
diff <(echo "$seen") - <<'W'
AVX512_CORE denormals kept: True True True True
AVX512_CORE_BF16 denormals kept: False False False True
W
