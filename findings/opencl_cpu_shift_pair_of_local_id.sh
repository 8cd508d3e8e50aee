#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2.0 (compiler 2026.22): `(i << 33) >> 32` of a 64-bit local id comes out as `i`, not as `2 * i`. The
# compiler takes the pair of shifts for a sign extension, although they shift by different counts. The same expression of the global id
# or of a number from memory is right, and so is the multiplication by 2 that the shifts stand for.
#
# Seen (the first four items):
#   local id:   0 1 2 3
#   global id:  0 2 4 6
#   memory:     0 2 4 6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0
cat >"$folder/shifts.py" <<'P'
import ctypes, sys
lib, items = sys.argv[1], 16
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
kernel void shifts(global const long* numbers, global long* local_id, global long* global_id, global long* memory) {
  const size_t at = get_global_id(0);
  const long a = get_local_id(0), b = get_global_id(0), c = numbers[at];
  local_id[at] = (a << 33) >> 32;
  global_id[at] = (b << 33) >> 32;
  memory[at] = (c << 33) >> 32;
}""")
program = make("clCreateProgramWithSource", context, 1, ref(source), None)
call("clBuildProgram", program, 1, ref(device), b"", None, None)
kernel = make("clCreateKernel", program, b"shifts")
host = [(ctypes.c_long * items)(*range(items)) for _ in range(4)]
buffers = [make("clCreateBuffer", context, ctypes.c_ulong(1 | 32), size(8 * items), h) for h in host]  # READ_WRITE, COPY_HOST_PTR
for i, buffer in enumerate(buffers):
    call("clSetKernelArg", kernel, i, size(8), ref(buffer))
call("clEnqueueNDRangeKernel", queue, kernel, 1, None, ref(size(items)), ref(size(items)), 0, None, None)
for name, buffer, h in zip(("", "local_id", "global_id", "memory"), buffers, host):
    call("clEnqueueReadBuffer", queue, buffer, 1, size(0), size(8 * items), h, 0, None, None)
    if name:
        print(name, *h[:4])
P
seen=$(OCL_ICD_FILENAMES=$folder/venv/lib/libintelocl.so "$folder/venv/bin/python" "$folder/shifts.py" "$folder/venv/lib")
echo "$seen"
diff <(echo "$seen") - <<'W'
local_id 0 1 2 3
global_id 0 2 4 6
memory 0 2 4 6
W
