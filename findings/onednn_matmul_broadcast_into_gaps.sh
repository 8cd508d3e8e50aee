#!/usr/bin/env bash
# oneDNN 3.13 (pip's onednn 2026.1.0), CPU engine: a binary post-op of a batched product finds the elements of an operand that broadcasts by
# their places in the result. Where the result's matrices or rows lie apart (strides that are larger than a dense tensor's, as of a slice),
# the places are those of the padded memory: later matrices and rows get elements of other columns and rows, and what lies behind the operand.
# Nothing is refused. An operand of one row is right, and so is one of the result's size, which another implementation serves.
#
# Seen (2 matrices of 4 x 8 x 16, zeros times zeros plus the operand; behind the operand lies 1000; in each row: right, or its first element):
#   operand 2 x 1 x 16 (0, 1 in matrix 0, 1), dense result:                  all right
#   operand 2 x 1 x 16 (0, 1 in matrix 0, 1), matrices 64 elements apart:    matrix 1 is 1000
#   operand 1 x 4 x 16 (0, 1, 2, 3 in its rows), rows 16 elements apart:     rows 0 2 1000 1000
#   operand 1 x 1 x 16, rows 16 elements apart:                              all right
#   operand 2 x 4 x 16, rows 16 elements apart:                              all right
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onednn==2026.1.0 intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0 \
  intel-cmplr-lib-rt==2026.2.0 intel-cmplr-lib-ur==2026.2.0 tbb==2023.2.0
lib=$folder/venv/lib
cat >"$folder/gaps.py" <<'P'
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
batch, m, k, n = 2, 4, 8, 16
a, b = strided((batch, m, k), (m * k, k, 1)), strided((batch, k, n), (k * n, n, 1))
for name, sizes, gap_of_matrix, gap_of_row in (
    ("per_matrix dense", (2, 1, n), 0, 0), ("per_matrix matrices_apart", (2, 1, n), 64, 0), ("per_row rows_apart", (1, m, n), 0, 16),
    ("one_row rows_apart", (1, 1, n), 0, 16), ("full rows_apart", (2, m, n), 0, 16)):
    row = n + gap_of_row
    matrix = m * row + gap_of_matrix
    result = strided((batch, m, n), (matrix, row, 1))
    operand = strided(sizes, (sizes[1] * n, n, 1))
    chain, attributes = make("dnnl_post_ops_create"), make("dnnl_primitive_attr_create")
    assert dnnl.dnnl_post_ops_append_binary(chain, 0x1FFF0, operand) == 0  # dnnl_binary_add
    assert dnnl.dnnl_primitive_attr_set_post_ops(attributes, chain) == 0
    product = make("dnnl_matmul_primitive_desc_create", engine, a, b, None, result, attributes)
    values = [i for i in range(sizes[0] * sizes[1]) for _ in range(n)]
    added, out = floats(values + [1000] * 4096), floats([-1] * (batch * matrix))
    run(product, [(SRC, a, floats([0] * (batch * m * k))), (WEIGHTS, b, floats([0] * (batch * k * n))), (DST, result, out),
                  (32768 | SRC + 1, operand, added)])  # DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1
    print(implementation(product).split(":")[0], name, end=":")
    for i in range(batch):
        for j in range(m):
            at = min(i, sizes[0] - 1) * sizes[1] + min(j, sizes[1] - 1)
            got = out[i * matrix + j * row : i * matrix + j * row + n]
            print(" right" if got == [at] * n else f" {got[0]:.0f}", end="")
    print()
P
seen=$(OCL_ICD_FILENAMES=$lib/libintelocl.so LD_LIBRARY_PATH=$lib "$folder/venv/bin/python" "$folder/gaps.py" "$lib")
echo "$seen"
diff <(echo "$seen") - <<'W'
brg_matmul per_matrix dense: right right right right right right right right
brg_matmul per_matrix matrices_apart: right right right right 1000 1000 1000 1000
brg_matmul per_row rows_apart: right 2 1000 1000 right 2 1000 1000
gemm one_row rows_apart: right right right right right right right right
ref full rows_apart: right right right right right right right right
W
