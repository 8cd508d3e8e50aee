#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2.0 (compiler 2026.22), code for AVX2 or AVX-512: what else a kernel computes decides the sign of a zero.
# `v < 0 ? 0 : v` of v = -0 is -0, and alone it is. Where the kernel computes the sign of the same half, `(v > 0) - (v < 0)`, as well, the
# selection is done on the half instead of on v and gives +0. No option allows that (-cl-no-signed-zeros is not given), and
# -cl-opt-disable keeps -0. Code for SSE4.2 or AVX, which convert halves by a function, keeps it too.
#
# Seen (bits of the half that is stored for -0, 8000; instruction set, selection alone, selection beside the sign):
#   corei7    8000 8000
#   core-avx2 8000 0000
#   core-avx2 -cl-opt-disable 8000 8000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0
cat >"$folder/zeros.py" <<'P'
import ctypes, sys
lib, items = sys.argv[1], 32
for name in ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so"):
    ctypes.CDLL(f"{lib}/{name}", mode=ctypes.RTLD_GLOBAL)
cl = ctypes.CDLL(f"{lib}/libOpenCL.so.1")
pointer, size, ref = ctypes.c_void_p, ctypes.c_size_t, ctypes.byref
def make(name, *arguments):
    getattr(cl, name).restype = pointer
    return pointer(getattr(cl, name)(*arguments, None))
def call(name, *arguments):
    status = getattr(cl, name)(*arguments)
    assert status == 0, (name, status)
platform, device = pointer(), pointer()
call("clGetPlatformIDs", 1, ref(platform), None)
call("clGetDeviceIDs", platform, ctypes.c_ulong(2), 1, ref(device), None)  # CL_DEVICE_TYPE_CPU
context = make("clCreateContext", None, 1, ref(device), None, None)
queue = make("clCreateCommandQueue", context, device, ctypes.c_ulong(0))
source = ctypes.c_char_p(b"""
kernel void alone(global const half* x, global half* y, global half* unused) {
  const size_t at = get_global_id(0);
  const float v = vload_half(at, x);
  vstore_half(v < 0 ? 0 : v, at, y);
}
kernel void beside(global const half* x, global half* y, global half* signs) {
  const size_t at = get_global_id(0);
  const float v = vload_half(at, x);
  vstore_half(v < 0 ? 0 : v, at, y);
  vstore_half((float)((v > 0) - (v < 0)), at, signs);
}""")
program = make("clCreateProgramWithSource", context, 1, ref(source), None)
call("clBuildProgram", program, 1, ref(device), sys.argv[2].encode(), None, None)
seen = []
for name in (b"alone", b"beside"):
    kernel = make("clCreateKernel", program, name)
    host = [(ctypes.c_ushort * items)(*[0x8000] * items), (ctypes.c_ushort * items)(), (ctypes.c_ushort * items)()]
    buffers = [make("clCreateBuffer", context, ctypes.c_ulong(1 | 32), size(2 * items), h) for h in host]  # READ_WRITE, COPY_HOST_PTR
    for i, buffer in enumerate(buffers):
        call("clSetKernelArg", kernel, i, size(8), ref(buffer))
    call("clEnqueueNDRangeKernel", queue, kernel, 1, None, ref(size(items)), ref(size(items)), 0, None, None)
    call("clEnqueueReadBuffer", queue, buffers[1], 1, size(0), size(2 * items), host[1], 0, None, None)
    assert len(set(host[1])) == 1
    seen.append(f"{host[1][0]:04x}")
print(*seen)
P
zeros() {
  echo "$1${2:+ $2} $(CL_CONFIG_CPU_TARGET_ARCH=$1 OCL_ICD_FILENAMES=$folder/venv/lib/libintelocl.so "$folder/venv/bin/python" "$folder/zeros.py" "$folder/venv/lib" "${2:-}")"
}
seen=$(zeros corei7; zeros core-avx2; zeros core-avx2 -cl-opt-disable)
echo "$seen"
diff <(echo "$seen") - <<'W'
corei7 8000 8000
core-avx2 8000 0000
core-avx2 -cl-opt-disable 8000 8000
W
