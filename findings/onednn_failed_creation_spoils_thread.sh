#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine with AVX-512 code: a primitive that cannot be created takes its thread with it. A grouped
# bf16 convolution with a comparison as post-op has a primitive descriptor, and dnnl_primitive_create then answers dnnl_runtime_error (5).
# From there on each creation that generates code fails with 5 on that thread, whatever the operation, while other threads go on:
# the code generator keeps its error in a variable of the thread, and nothing clears it. Primitives in oneDNN's cache still come.
#
# Seen (status of dnnl_primitive_create):
#   exp of 64 floats, before:                    0
#   grouped bf16 convolution with binary_ge:     5
#   exp of 65 floats, a product, same thread:    5 5
#   exp of 64 floats again, same thread:         0
#   exp of 66 floats, a product, new thread:     0 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/thread.py" <<'P'
import ctypes, sys, threading
dnnl = ctypes.CDLL(f"{sys.argv[1]}/libdnnl.so.3")
handle, ref = ctypes.c_void_p, ctypes.byref
F32, BF16, ANY = 3, 2, 1
def make(name, *arguments):
    made = handle()
    status = getattr(dnnl, name)(ref(made), *arguments)
    assert status == 0, (name, status)
    return made
def dims(*values):
    return (ctypes.c_int64 * 12)(*values)
def strided(sizes, strides):
    return make("dnnl_memory_desc_create_with_strides", len(sizes), dims(*sizes), F32, dims(*strides))
engine = make("dnnl_engine_create", 1, ctypes.c_size_t(0))  # dnnl_cpu
def status(description):
    made = handle()
    return dnnl.dnnl_primitive_create(ref(made), description)
def exp(n):
    vector = strided((n,), (1,))
    return status(make("dnnl_eltwise_forward_primitive_desc_create", engine, 96, 0x2A, vector, vector, ctypes.c_float(0), ctypes.c_float(0), None))
def product(k):
    a, b, c = strided((17, k), (k, 1)), strided((k, 33), (33, 1)), strided((17, 33), (33, 1))
    return status(make("dnnl_matmul_primitive_desc_create", engine, a, b, None, c, None))
def convolution():
    groups, channels = 2, 8
    def images(side):
        sizes, strides = (2, channels, side, side), (channels * side * side, 1, channels * side, channels)
        return make("dnnl_memory_desc_create_with_strides", 4, dims(*sizes), BF16, dims(*strides))
    weights = make("dnnl_memory_desc_create_with_tag", 5, dims(groups, channels // groups, channels // groups, 3, 3), BF16, ANY)
    chain, attributes = make("dnnl_post_ops_create"), make("dnnl_primitive_attr_create")
    operand = strided((1, channels, 1, 1), (channels, 1, 1, 1))
    assert dnnl.dnnl_post_ops_append_binary(chain, 0x1FFF6, operand) == 0  # dnnl_binary_ge
    assert dnnl.dnnl_primitive_attr_set_post_ops(attributes, chain) == 0
    return status(make("dnnl_convolution_forward_primitive_desc_create", engine, 96, 1, images(8), weights, None, images(6), dims(1, 1),
                       dims(0, 0), dims(0, 0), dims(0, 0), attributes))  # dnnl_forward_inference, dnnl_convolution_direct
print("before", exp(64))
print("convolution", convolution())
print("same thread", exp(65), product(40))
print("same thread, cached", exp(64))
thread = threading.Thread(target=lambda: print("new thread", exp(66), product(41)))
thread.start()
thread.join()
P
# The same code on each processor with AVX-512.
seen=$(ONEDNN_MAX_CPU_ISA=AVX512_CORE OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/venv/bin/python" "$folder/thread.py" "$lib")
echo "$seen"
diff <(echo "$seen") - <<'W'
before 0
convolution 5
same thread 5 5
same thread, cached 0
new thread 0 0
W
