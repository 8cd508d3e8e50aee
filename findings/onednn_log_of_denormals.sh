#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine: eltwise log of a denormal number is off by up to 15, with the code of AVX-512, AVX2 and
# SSE4.1 alike. It stays above -88.03, where the numbers go down to the logarithm -103.28. exp is 0 already at -87, whose exponential is
# no denormal. Denormals are not flushed, as sqrt of the same numbers is right: a check by one function says nothing about another.
#
# Seen (number, log in oneDNN and right, sqrt in oneDNN and right):
#   1.18e-38  -87.34  -87.34  1.084e-19 1.084e-19
#   5.88e-39  -87.62  -88.03  7.666e-20 7.666e-20
#   1.00e-40  -88.02  -92.10  1.000e-20 1.000e-20
#   1.40e-45  -88.03 -103.28  3.743e-23 3.743e-23
# exp in oneDNN and right: of -86 4.47e-38 4.47e-38, of -87 0 1.65e-38
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/denormals.py" <<'P'
import ctypes, math, sys
dnnl = ctypes.CDLL(f"{sys.argv[1]}/libdnnl.so.3")
handle, ref = ctypes.c_void_p, ctypes.byref
F32, SRC, DST = 3, 1, 17
def make(name, *arguments):
    made = handle()
    status = getattr(dnnl, name)(ref(made), *arguments)
    assert status == 0, (name, status)
    return made
def dims(*values):
    return (ctypes.c_int64 * 12)(*values)
def strided(sizes, strides):
    return make("dnnl_memory_desc_create_with_strides", len(sizes), dims(*sizes), F32, dims(*strides))
def floats(values):
    values = [float(v) for v in values]
    return (ctypes.c_float * len(values))(*values)
engine = make("dnnl_engine_create", 1, ctypes.c_size_t(0))  # dnnl_cpu
stream = make("dnnl_stream_create", engine, 1)  # in order
class Argument(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("memory", ctypes.c_void_p)]
def run(description, arguments):
    primitive = make("dnnl_primitive_create", description)
    held = [(i, make("dnnl_memory_create", md, engine, data)) for i, md, data in arguments]
    packed = (Argument * len(held))(*[Argument(i, m.value) for i, m in held])
    assert dnnl.dnnl_primitive_execute(primitive, stream, len(held), packed) == 0 and dnnl.dnnl_stream_wait(stream) == 0
numbers = [2.0**-126, 2.0**-127, 1e-40, 2.0**-149]
def eltwise(kind, values):
    vector, out = strided((len(values),), (1,)), floats([0] * len(values))
    run(make("dnnl_eltwise_forward_primitive_desc_create", engine, 96, kind, vector, vector, ctypes.c_float(0), ctypes.c_float(0), None),
        [(SRC, vector, floats(values)), (DST, vector, out)])
    return out
for x, log, root in zip(numbers, eltwise(0x2D, numbers), eltwise(0x25, numbers)):  # dnnl_eltwise_log, dnnl_eltwise_sqrt
    print(f"{x:.2e} log {log:.2f} {math.log(x):.2f} sqrt {root:.3e} {math.sqrt(x):.3e}")
for x, e in zip((-86, -87), eltwise(0x2A, [-86, -87])):  # dnnl_eltwise_exp
    print(f"exp {x} {e:.2e} {math.exp(x):.2e}")
P
denormals() { ONEDNN_MAX_CPU_ISA=$1 OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/venv/bin/python" "$folder/denormals.py" "$lib"; }
for isa in AVX2 SSE41 DEFAULT; do
  seen=$(denormals $isa)
  echo "$isa"
  echo "$seen"
  diff <(echo "$seen") - <<'W'
1.18e-38 log -87.34 -87.34 sqrt 1.084e-19 1.084e-19
5.88e-39 log -87.62 -88.03 sqrt 7.666e-20 7.666e-20
1.00e-40 log -88.02 -92.10 sqrt 1.000e-20 1.000e-20
1.40e-45 log -88.03 -103.28 sqrt 3.743e-23 3.743e-23
exp -86 4.47e-38 4.47e-38
exp -87 0.00e+00 1.65e-38
W
done
