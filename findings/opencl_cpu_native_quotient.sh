#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2.0, code for SSE4.2 or AVX2: native_divide and native_recip (sycl::native::divide and recip) are the
# processor's approximate reciprocal alone, without a step of Newton's method: 11 bits of 24 are right (OpenCL leaves that to the driver), so that
# native_divide(x, x) is not 1. native_exp2 has 13 bits; native_sqrt is exact, and so is a plain 1 / x, also with
# -cl-fast-relaxed-math, which permits less. A sigmoid by native functions is good enough for bfloat16, its gradient near the zero is
# not: the result is the difference of two terms.
#
# Seen (bits that are right in the worst of 4096 numbers from 1 to 2):
#   core-avx2: 1 / x exact, native_recip 11, native_divide(x, x) 11, native_sqrt exact, native_exp2 13
# The same for corei7 and with -cl-fast-relaxed-math.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0
cat >"$folder/bits.py" <<'P'
import ctypes, math, sys
lib, options, items = sys.argv[1], sys.argv[2], 4096
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
functions = {
    "1 / x": ("1.0f / x[i]", lambda x: 1 / x), "native_recip": ("native_recip(x[i])", lambda x: 1 / x),
    "native_divide(x, x)": ("native_divide(x[i], x[i])", lambda x: 1.0), "native_sqrt": ("native_sqrt(x[i])", math.sqrt),
    "native_exp2": ("native_exp2(x[i])", lambda x: 2.0**x),
}
source = "".join(f"kernel void f{n}(global const float* x, global float* y) {{ size_t i = get_global_id(0); y[i] = {text}; }}\n"
                 for n, (text, _) in enumerate(functions.values()))
kept = ctypes.c_char_p(source.encode())
program = make("clCreateProgramWithSource", context, 1, ref(kept), None)
call("clBuildProgram", program, 1, ref(device), options.encode(), None, None)
found = []
x = (ctypes.c_float * items)(*[1 + i / items for i in range(items)])
for n, (name, (_, value)) in enumerate(functions.items()):
    kernel, y = make("clCreateKernel", program, f"f{n}".encode()), (ctypes.c_float * items)()
    buffers = [make("clCreateBuffer", context, ctypes.c_ulong(1 | 32), size(4 * items), h) for h in (x, y)]  # READ_WRITE, COPY_HOST_PTR
    for i, buffer in enumerate(buffers):
        call("clSetKernelArg", kernel, i, size(8), ref(buffer))
    call("clEnqueueNDRangeKernel", queue, kernel, 1, None, ref(size(items)), None, 0, None, None)
    call("clEnqueueReadBuffer", queue, buffers[1], 1, size(0), size(4 * items), y, 0, None, None)
    error = max(abs(b / value(a) - 1) for a, b in zip(x, y))
    found.append(f"{name} {'exact' if error < 2**-22.9 else int(-math.log2(error))}")
print(", ".join(found))
P
bits() { echo "$1${2:+ $2}: $(CL_CONFIG_CPU_TARGET_ARCH=$1 OCL_ICD_FILENAMES=$folder/venv/lib/libintelocl.so "$folder/venv/bin/python" "$folder/bits.py" "$folder/venv/lib" "${2:-}")"; }
seen=$(for target in corei7 core-avx2; do bits $target; bits $target -cl-fast-relaxed-math; done)
echo "$seen"
for name in corei7 "corei7 -cl-fast-relaxed-math" core-avx2 "core-avx2 -cl-fast-relaxed-math"; do
  echo "$name: 1 / x exact, native_recip 11, native_divide(x, x) 11, native_sqrt exact, native_exp2 13"
done | diff <(echo "$seen") -
