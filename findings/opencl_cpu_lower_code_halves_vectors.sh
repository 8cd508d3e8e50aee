#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2 with a target named by CL_CONFIG_CPU_TARGET_ARCH: once a process has loaded a program binary of
# a lower target, programs that it then compiles from source compute wrong where they call mathematical functions: of sixteen
# items side by side the upper eight get 0 from erf, exp and tanh. No call returns an error. Plain arithmetic is right, and the
# loaded binary itself computes right. Both of the runtime's libraries of functions are in the process then, one for vectors of
# eight (`l9`) and one for sixteen (`z0`). So a process should run code of one vector width: all AVX2 or all AVX-512. The
# processor must have AVX-512.
#
# Seen (wrong values of 64):
#   compiled: erf 0 exp 0 tanh 0 arithmetic 0
#   behind a binary for core-avx2: erf 32 exp 32 tanh 32 arithmetic 0
#   that binary: erf 0 exp 0 tanh 0 arithmetic 0
#   places: 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31
set -euo pipefail
grep -q avx512vl /proc/cpuinfo || { echo "this processor has no AVX-512" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/width.py" <<'P'
import ctypes, math, os, sys
lib, verb = sys.argv[1:]
cl, Handle, ref = ctypes.CDLL(f"{lib}/libOpenCL.so.1"), ctypes.c_void_p, ctypes.byref
for name in ("clCreateContext", "clCreateProgramWithSource", "clCreateProgramWithBinary", "clCreateKernel", "clCreateBuffer",
             "clCreateCommandQueueWithProperties"):
    getattr(cl, name).restype = Handle
platform, device, status = Handle(), Handle(), ctypes.c_int()
assert cl.clGetPlatformIDs(1, ref(platform), None) == 0
assert cl.clGetDeviceIDs(platform, ctypes.c_ulong(2), 1, ref(device), None) == 0  # CL_DEVICE_TYPE_CPU
context = Handle(cl.clCreateContext(None, 1, ref(device), None, None, ref(status)))
queue = Handle(cl.clCreateCommandQueueWithProperties(context, device, None, ref(status)))
FUNCTIONS = {"erf": math.erf, "exp": math.exp, "tanh": math.tanh, "arithmetic": lambda x: x * x - 3}
TEXT = "".join(f"kernel void f_{n}(global float* x) {{ size_t i = get_global_id(0); x[i] = {n}(x[i]); }}\n"
               for n in ("erf", "exp", "tanh"))
TEXT += "kernel void f_arithmetic(global float* x) { size_t i = get_global_id(0); x[i] = x[i] * x[i] - 3; }\n"
INPUTS = [(i - 32) / 8 for i in range(64)]

def built(program):
    assert status.value == 0 and cl.clBuildProgram(program, 1, ref(device), b"", None, None) == 0
    return program

def compiled():
    return built(Handle(cl.clCreateProgramWithSource(context, 1, ref(ctypes.c_char_p(TEXT.encode())), None, ref(status))))

def loaded(path):
    data = open(path, "rb").read()
    kept, size, each = ctypes.create_string_buffer(data, len(data)), ctypes.c_size_t(len(data)), ctypes.c_int()
    pointer = ctypes.cast(kept, Handle)
    return built(Handle(cl.clCreateProgramWithBinary(context, 1, ref(device), ref(size), ref(pointer), ref(each), ref(status))))

def wrong(program, name):
    """Places of values that are off by more than 0.02."""
    kernel = Handle(cl.clCreateKernel(program, f"f_{name}".encode(), ref(status)))
    values = (ctypes.c_float * 64)(*INPUTS)
    memory = Handle(cl.clCreateBuffer(context, ctypes.c_ulong(1 | 32), ctypes.c_size_t(256), values, ref(status)))
    assert cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), ref(memory)) == 0
    items, group = ctypes.c_size_t(64), ctypes.c_size_t(16)
    assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ref(items), ref(group), 0, None, None) == 0
    assert cl.clEnqueueReadBuffer(queue, memory, 1, ctypes.c_size_t(0), ctypes.c_size_t(256), values, 0, None, None) == 0
    return [i for i, x in enumerate(INPUTS) if not abs(values[i] - FUNCTIONS[name](x)) < 0.02]

def line(label, program):
    print(f"{label}:", *(f"{name} {len(wrong(program, name))}" for name in FUNCTIONS))

if verb == "make":
    size, program = ctypes.c_size_t(), compiled()
    assert cl.clGetProgramInfo(program, 0x1165, 8, ref(size), None) == 0  # CL_PROGRAM_BINARY_SIZES
    data = ctypes.create_string_buffer(size.value)
    assert cl.clGetProgramInfo(program, 0x1166, 8, ref(ctypes.cast(data, Handle)), None) == 0  # CL_PROGRAM_BINARIES
    open("avx2", "wb").write(data.raw)
elif verb == "compiled":
    line("compiled", compiled())
else:
    binary = loaded("avx2")
    program = compiled()
    line("behind a binary for core-avx2", program)
    line("that binary", binary)
    print("places:", *[i for i in wrong(program, "erf") if i < 32])
P
run() { (cd "$folder" && OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib CL_CONFIG_CPU_TARGET_ARCH=$1 "$folder/venv/bin/python" width.py "$lib" "$2"); }
run core-avx2 make
seen=$(run skx compiled; run skx both)
echo "$seen"
diff <(echo "$seen") - <<'W'
compiled: erf 0 exp 0 tanh 0 arithmetic 0
behind a binary for core-avx2: erf 32 exp 32 tanh 32 arithmetic 0
that binary: erf 0 exp 0 tanh 0 arithmetic 0
places: 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31
W
