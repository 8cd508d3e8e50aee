#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2.0 (compiler 2026.22): a sub-group is a vector of the compiled code. A loop that is entered in two places
# (a goto into it, the same for all items) keeps the compiler from making vectors, and the kernel then runs with sub-groups of one
# item: sums and shuffles return each item's own value. The build succeeds, intel_reqd_sub_group_size(16) is not refused, and
# clGetKernelSubGroupInfo still answers 16 for the kernel. With -cl-opt-disable, the flag for debugging, the same kernel is right.
#
# Seen (sub-group size that the host is told, size and sum that a kernel sees where items hold 0 to 15):
#   loop entered at its head                          16 16 120
#   loop entered in two places                        16 1 0
#   loop entered in two places with -cl-opt-disable   16 16 120
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0
cat >"$folder/lanes.py" <<'P'
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
#define KERNEL(name, entry) \\
  __attribute__((reqd_work_group_size(16, 1, 1))) __attribute__((intel_reqd_sub_group_size(16))) \\
  kernel void name(global int* size, global int* sum, int steps, int middle) { \\
    const size_t at = get_local_id(0); \\
    int v = at, step = 0; \\
    entry \\
    head: v += 2; \\
    inside: v -= 2; \\
    if (++step < steps) goto head; \\
    size[at] = get_sub_group_size(); \\
    sum[at] = sub_group_reduce_add(v + 2 * middle); \\
  }
KERNEL(one_entry, )
KERNEL(two_entries, if (middle) goto inside;)
""")
program = make("clCreateProgramWithSource", context, 1, ref(source), None)
call("clBuildProgram", program, 1, ref(device), b"-cl-std=CL3.0 " + sys.argv[2].encode(), None, None)
kernel = make("clCreateKernel", program, sys.argv[3].encode())
told, local = size(), (size * 1)(items)
call("clGetKernelSubGroupInfo", kernel, device, 0x2033, size(8), local, size(8), ref(told), None)  # CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE
host = [(ctypes.c_int * items)() for _ in range(2)]
buffers = [make("clCreateBuffer", context, ctypes.c_ulong(1), size(4 * items), None) for _ in host]
for i, buffer in enumerate(buffers):
    call("clSetKernelArg", kernel, i, size(8), ref(buffer))
call("clSetKernelArg", kernel, 2, size(4), ref(ctypes.c_int(3)))
call("clSetKernelArg", kernel, 3, size(4), ref(ctypes.c_int(0)))
call("clEnqueueNDRangeKernel", queue, kernel, 1, None, ref(size(items)), ref(size(items)), 0, None, None)
for buffer, h in zip(buffers, host):
    call("clEnqueueReadBuffer", queue, buffer, 1, size(0), size(4 * items), h, 0, None, None)
print(sys.argv[3], *sys.argv[2].split(), told.value, host[0][0], host[1][0])
P
lanes() { OCL_ICD_FILENAMES=$folder/venv/lib/libintelocl.so "$folder/venv/bin/python" "$folder/lanes.py" "$folder/venv/lib" "$1" "$2"; }
seen=$(lanes "" one_entry; lanes "" two_entries; lanes -cl-opt-disable two_entries)
echo "$seen"
diff <(echo "$seen") - <<'W'
one_entry 16 16 120
two_entries 16 1 0
two_entries -cl-opt-disable 16 16 120
W
