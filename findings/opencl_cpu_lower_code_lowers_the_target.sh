#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2: a program binary that was made for a lower target (CL_CONFIG_CPU_TARGET_ARCH) loads on any
# later processor, and from then on the process refuses binaries that were made for this processor itself: CL_INVALID_BINARY.
# After such a binary the lower one loads, too, and then the higher one is refused. Where the variable names a target for the
# process that loads, lower binaries change nothing. So code that is kept for classes of processors and code that is made on
# the machine do not mix unless the target is named. The processor must have AVX-512.
#
# Seen (0 is success, -42 CL_INVALID_BINARY):
#   own: 0
#   avx2 own: 0 -42
#   own avx2 own: 0 0 -42
#   skx named, avx2 skx: 0 0
set -euo pipefail
grep -q avx512vl /proc/cpuinfo || { echo "this processor has no AVX-512" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/binaries.py" <<'P'
import ctypes, sys
lib, verb, *files = sys.argv[1:]
driver = ctypes.CDLL(f"{lib}/libOpenCL.so.1")
Handle, ref = ctypes.c_void_p, ctypes.byref
for name in ("clCreateContext", "clCreateProgramWithSource", "clCreateProgramWithBinary"):
    getattr(driver, name).restype = Handle
platform, device, status = Handle(), Handle(), ctypes.c_int()
assert driver.clGetPlatformIDs(1, ref(platform), None) == 0
assert driver.clGetDeviceIDs(platform, ctypes.c_ulong(2), 1, ref(device), None) == 0  # CL_DEVICE_TYPE_CPU
context = Handle(driver.clCreateContext(None, 1, ref(device), None, None, ref(status)))
def build(program):
    return driver.clBuildProgram(program, 1, ref(device), b"", None, None)
def make():
    source = ctypes.c_char_p(b"kernel void f(global float* x) { size_t i = get_global_id(0); x[i] = tanh(x[i]); }")
    program = Handle(driver.clCreateProgramWithSource(context, 1, ref(source), None, ref(status)))
    assert build(program) == 0
    size = ctypes.c_size_t()
    assert driver.clGetProgramInfo(program, 0x1165, 8, ref(size), None) == 0  # CL_PROGRAM_BINARY_SIZES
    data = ctypes.create_string_buffer(size.value)
    assert driver.clGetProgramInfo(program, 0x1166, 8, ref(ctypes.cast(data, Handle)), None) == 0  # CL_PROGRAM_BINARIES
    return data.raw
def load(file):
    data = open(file, "rb").read()
    size, each, kept = ctypes.c_size_t(len(data)), ctypes.c_int(), ctypes.create_string_buffer(data, len(data))
    program = Handle(driver.clCreateProgramWithBinary(context, 1, ref(device), ref(size), ref(ctypes.cast(kept, Handle)), ref(each), ref(status)))
    return status.value or build(program)
if verb == "make":
    open(files[0], "wb").write(make())
else:
    print(*map(load, files))
P
run() { (cd "$folder" && OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/venv/bin/python" binaries.py "$lib" "$@"); }
unset CL_CONFIG_CPU_TARGET_ARCH
run make own
CL_CONFIG_CPU_TARGET_ARCH=core-avx2 run make avx2
CL_CONFIG_CPU_TARGET_ARCH=skx run make skx
seen=$(
  echo "own: $(run load own)"
  echo "avx2 own: $(run load avx2 own)"
  echo "own avx2 own: $(run load own avx2 own)"
  echo "skx named, avx2 skx: $(CL_CONFIG_CPU_TARGET_ARCH=skx run load avx2 skx)"
)
echo "$seen"
diff <(echo "$seen") - <<'W'
own: 0
avx2 own: 0 -42
own avx2 own: 0 0 -42
skx named, avx2 skx: 0 0
W
