#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine with AVX-512 code: a float32 convolution of one input channel whose kernel covers the
# whole width has one column of results, so that the stride of columns is never taken. It decides the sums all the same: with a stride of 2
# or more every second row is wrong (brg_conv_fwd), and the wrong values differ from call to call, whatever lies around the tensors. The
# code for AVX2 is right. Giving a stride that is never taken as 1 asks for the same convolution and is right.
#
# Seen (an image of 6 x 5, a kernel of 3 x 5, 16 output channels: the four results of the first channel, all 33333):
#   AVX-512, stride of columns 1:     right right right right
#   AVX-512, stride of columns 2, 3:  right wrong right wrong, such as 33333 30222 33333 30222
#   AVX2, stride of columns 1, 2, 3:  right right right right
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/column.py" <<'P'
import ctypes, sys
dnnl = ctypes.CDLL(f"{sys.argv[1]}/libdnnl.so.3")
handle, ref = ctypes.c_void_p, ctypes.byref
F32, ANY, SRC, WEIGHTS, DST = 3, 1, 1, 33, 17
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
def implementation(description):
    text = ctypes.c_char_p()
    dnnl.dnnl_primitive_desc_query(description, 8, 0, ref(text))  # dnnl_query_impl_info_str
    return text.value.decode()
channels, height, width, rows = 16, 6, 5, 3
source = strided((1, 1, height, width), (height * width, 1, width, 1))
plain = strided((channels, 1, rows, width), (rows * width, rows * width, width, 1))
places = height - rows + 1
result = strided((1, channels, places, 1), (channels * places, 1, channels, channels))
image = floats([10**x for _ in range(height) for x in range(width)])
ones = floats([1] * (channels * rows * width))
for stride in (1, 2, 3):
    any_layout = make("dnnl_memory_desc_create_with_tag", 4, dims(channels, 1, rows, width), F32, ANY)
    convolution = make("dnnl_convolution_forward_primitive_desc_create", engine, 96, 1, source, any_layout, None, result,
                       dims(1, stride), dims(0, 0), dims(0, 0), dims(0, 0), None)  # dnnl_forward_inference, dnnl_convolution_direct
    dnnl.dnnl_primitive_desc_query_md.restype = handle
    packed = handle(dnnl.dnnl_primitive_desc_query_md(convolution, 131, 0))  # dnnl_query_weights_md
    dnnl.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
    weights = floats([0] * (dnnl.dnnl_memory_desc_get_size(packed) // 4))
    run(make("dnnl_reorder_primitive_desc_create", plain, engine, packed, engine, None), [(SRC, plain, ones), (DST, packed, weights)])
    out = floats([0] * (channels * places))
    run(convolution, [(SRC, source, image), (WEIGHTS, packed, weights), (DST, result, out)])
    print(implementation(convolution), "stride", stride, *("right" if v == 33333 else "wrong" for v in out[::channels]))
P
# Processors of a later generation have code of their own: AVX-512 is asked for as well.
column() { ONEDNN_MAX_CPU_ISA=$1 OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/venv/bin/python" "$folder/column.py" "$lib"; }
seen=$(column AVX512_CORE; column AVX2)
echo "$seen"
diff <(echo "$seen") - <<'W'
brg_conv_fwd:avx512_core stride 1 right right right right
brg_conv_fwd:avx512_core stride 2 right wrong right wrong
brg_conv_fwd:avx512_core stride 3 right wrong right wrong
brg_conv_fwd:avx2 stride 1 right right right right
brg_conv_fwd:avx2 stride 2 right right right right
brg_conv_fwd:avx2 stride 3 right right right right
W
