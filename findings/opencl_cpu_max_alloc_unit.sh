#!/usr/bin/env bash
# Intel's OpenCL CPU runtime 2026.2.0: CL_CONFIG_CPU_FORCE_MAX_MEM_ALLOC_SIZE needs a unit. A plain number of bytes is ignored
# without a word, and blocks stay limited to half of the machine's memory.
#
# Seen on a machine of 23.5 GiB:
#   unset:            half of the memory
#   <bytes>:          half of the memory
#   <bytes>B:         what was asked for
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0
cat >"$folder/limit.py" <<'P'
import ctypes, sys
lib = sys.argv[1]
for name in ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so"):
    ctypes.CDLL(f"{lib}/{name}", mode=ctypes.RTLD_GLOBAL)
cl = ctypes.CDLL(f"{lib}/libOpenCL.so.1")
platform, device, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(count)) == 0
assert cl.clGetDeviceIDs(platform, ctypes.c_ulong(2), 1, ctypes.byref(device), None) == 0  # CL_DEVICE_TYPE_CPU
def size(what):
    value = ctypes.c_ulong()
    assert cl.clGetDeviceInfo(device, what, 8, ctypes.byref(value), None) == 0
    return value.value
print(size(0x1010), size(0x101F))  # CL_DEVICE_MAX_MEM_ALLOC_SIZE, CL_DEVICE_GLOBAL_MEM_SIZE
P
limit() { env OCL_ICD_FILENAMES="$folder/venv/lib/libintelocl.so" "$@" "$folder/venv/bin/python" "$folder/limit.py" "$folder/venv/lib"; }
read -r unset_limit memory < <(limit)
wanted=$((memory / 4 * 3))
read -r plain _ < <(limit CL_CONFIG_CPU_FORCE_MAX_MEM_ALLOC_SIZE=$wanted)
read -r with_unit _ < <(limit CL_CONFIG_CPU_FORCE_MAX_MEM_ALLOC_SIZE=${wanted}B)
echo "memory $memory, unset $unset_limit, '$wanted' $plain, '${wanted}B' $with_unit"
((unset_limit == memory / 2)) && ((plain == unset_limit)) && ((with_unit == wanted))
