#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2.0: a native kernel (clEnqueueNativeKernel) may run on one processor alone, and so may each thread that it
# starts. The runtime binds the threads of its pool to a processor each, without being asked; a new thread may run where the one that made it may.
# A pool of threads that a native kernel makes, say a library's at first use, shares one processor for the life of the process.
#
# Seen on a machine of two processors, 40 native kernels:
#   the process may run on 2, a native kernel on 1, a thread that it starts on 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0
cat >"$folder/bound.py" <<'P'
import ctypes, os, sys, threading, time
lib = sys.argv[1]
for name in ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so"):
    ctypes.CDLL(f"{lib}/{name}", mode=ctypes.RTLD_GLOBAL)
cl = ctypes.CDLL(f"{lib}/libOpenCL.so.1")
pointer, ulong, error = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int()
platform, device = pointer(), pointer()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
assert cl.clGetDeviceIDs(platform, ulong(2), 1, ctypes.byref(device), None) == 0  # CL_DEVICE_TYPE_CPU
cl.clCreateContext.restype = cl.clCreateCommandQueue.restype = pointer
context = cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error))
queue = cl.clCreateCommandQueue(pointer(context), device, ulong(0), ctypes.byref(error))
main, seen = threading.get_native_id(), []


def look():
    return len(os.sched_getaffinity(0))


@ctypes.CFUNCTYPE(None, pointer)
def kernel(_):
    of_thread = []
    thread = threading.Thread(target=lambda: of_thread.append(look()))
    thread.start()
    thread.join()
    if threading.get_native_id() != main:
        seen.append((look(), of_thread[0]))


for _ in range(40):
    assert cl.clEnqueueNativeKernel(pointer(queue), kernel, None, ulong(0), 0, None, None, 0, None, None) == 0
    assert cl.clFlush(pointer(queue)) == 0
    time.sleep(0.01)  # a thread that waited in clFinish would run it itself
assert cl.clFinish(pointer(queue)) == 0
fewest = min(seen, default=(0, 0))
print(f"the process may run on {look()}, a native kernel on {fewest[0]}, a thread that it starts on {fewest[1]}")
sys.exit(fewest != (1, 1))
P
processors=$(nproc)
((processors > 1)) || { echo "needs two processors"; exit 1; }
OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$folder/venv/bin/python" "$folder/bound.py" "$folder/venv/lib"
