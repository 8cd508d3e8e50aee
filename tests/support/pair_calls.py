"""A valid call of every (overload, dispatch key) of the peer: drawn by the operators' own recipes, or written here.

Tensors of other layouts are made of the drawn ones; a call is valid where the CPU takes it. What no recipe draws, and what
the CPU takes only of tensors that nobody draws by chance, is in WRITTEN. Calls are made on the CPU and moved by the test.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import HealthCheck, Phase, given, settings
from torch.utils._pytree import tree_map

from support.arguments import Draw, drawable
from support.calls import out_arguments
from support.compare import clone
from support.manifest import TORCH_TYPES, overload, rows
from support.pointwise import build
from support.recipe import find, undrawn

Arguments = dict[str, Any]
DRAWS = 12  # of a type; most operators take the first
TYPES = ("f32", "i64", "b8", "c64", "bf16")
SPARSE, CSR, NESTED, DENSE = "SparseXPU", "SparseCsrXPU", "NestedTensorXPU", "XPU"

WRITTEN: dict[tuple[str, str], Callable[[], Arguments]] = {}
# Results that are drawn, or whose parts nobody defines: shape and type are compared.
DRAWN = {
    "_fused_dropout", "bernoulli.out", "bernoulli_.Tensor", "binomial", "geometric_", "multinomial", "multinomial.out",
    "native_dropout", "normal.Tensor_Tensor", "normal.Tensor_Tensor_out", "normal.float_Tensor", "normal.float_Tensor_out",
    "random_.from", "random_.to", "randperm.generator_out", "rrelu_with_noise", "rrelu_with_noise.out", "rrelu_with_noise_",
    "empty.memory_format", "empty_like", "_fill_mem_eff_dropout_mask_", "resize_", "_nested_tensor_storage_offsets",
    "sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_",
    "_fused_sdp_choice",  # of the device
    "_thnn_fused_gru_cell_backward", "_thnn_fused_lstm_cell_backward_impl",  # aten/test_rnn.py has their values
}  # fmt: skip
# Called by a name that the CPU has not: what it has instead.
INSTEAD: dict[str, Callable[..., Any]] = {
    "_fused_dropout": lambda self, p: (self, torch.ones_like(self, dtype=torch.uint8)),
    "_fill_mem_eff_dropout_mask_": lambda self, **_: self,
    "record_stream": lambda **_: None,
    "_thnn_fused_gru_cell_backward": lambda **_: (t(2, 12), t(2, 12), t(2, 4), t(12), t(12)),
    "_thnn_fused_lstm_cell_backward_impl": lambda **_: (t(2, 16), t(2, 4), t(16)),
}


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    n = torch.Size(shape).numel()
    values = (torch.arange(n) * 7 % 11 - 3).reshape(shape)
    return (values / 4 if dtype.is_floating_point else values).to(dtype)


def coo(*shape: int, dense: int = 0) -> torch.Tensor:
    return (t(*shape) * (t(*shape) > 0)).to_sparse(len(shape) - dense)


def csr(*shape: int) -> torch.Tensor:
    kept = t(*shape[-2:]) > 0  # batches must have as many elements each
    return (t(*shape) * kept + kept).to_sparse_csr()


def csc(*shape: int) -> torch.Tensor:
    return (t(*shape) * (t(*shape) > 0)).to_sparse_csc()


def nest(*shape: int) -> torch.Tensor:
    return torch.nested.nested_tensor([t(3, *shape), t(5, *shape), t(1, *shape)])


def square(*shape: int) -> torch.Tensor:
    """Nested, every item of one size."""
    return torch.nested.nested_tensor([t(*shape), t(*shape) + 1])


def write(names: str, *keys: str) -> Callable[[Callable[[], Arguments]], Callable[[], Arguments]]:
    """Registers a call for operators by name."""

    def register(make: Callable[[], Arguments]) -> Callable[[], Arguments]:
        for name, key in itertools.product(names.split(), keys):
            assert (name, key) not in WRITTEN, (name, key)
            WRITTEN[name, key] = make
        return make

    return register


def table(key: str, make: Callable[[], torch.Tensor], **calls: Arguments | None) -> None:
    """Registers operators whose first argument is `make()`; two underscores between letters stand for the point."""
    for name, rest in calls.items():
        write(re.sub("(?<=[a-z])__(?=[A-Za-z])", ".", name.replace("___", "_.")), key)(
            lambda rest=rest: {"self": make(), **tree_map(_again, rest or {})}
        )


def _again(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x


# ---- dense
write("_fill_mem_eff_dropout_mask_", DENSE)(lambda: {"self": t(2, 3, 4, 8), "dropout_p": 0.5, "seed": 3, "offset": 0})
write("_foreach_powsum.Scalar", DENSE)(lambda: {"self": [t(3), t(2, 2)], "ord": 3})
write("linalg__powsum", DENSE)(lambda: {"self": t(3, 4), "ord": 3, "dim": [1]})
write("_fused_dropout", DENSE)(lambda: {"self": t(8, 8), "p": 0.5})
write("_fused_sdp_choice", DENSE)(lambda: {"query": t(1, 2, 4, 8), "key": t(1, 2, 4, 8), "value": t(1, 2, 4, 8)})
write("_int_mm.out", DENSE)(
    lambda: {
        "self": t(17, 8, dtype=torch.int8),
        "mat2": t(8, 16, dtype=torch.int8),
        "out": t(17, 16, dtype=torch.int32),
    }
)
write("_nested_from_padded", DENSE)(
    lambda: {"padded": t(3, 5, 8), "cpu_nested_shape_example": torch.tensor([[3, 8], [5, 8], [1, 8]])}
)
write("_nested_tensor_from_mask", DENSE)(
    lambda: {"t": t(3, 5, 4), "mask": torch.arange(5) < torch.tensor([3, 5, 1])[:, None]}
)
write("_nested_view_from_buffer", DENSE)(
    lambda: {
        "self": t(20),
        "nested_size": torch.tensor([[2, 4], [3, 4]]),
        "nested_strides": torch.tensor([[4, 1], [4, 1]]),
        "offsets": torch.tensor([0, 8]),
    }
)
write("_safe_softmax", DENSE)(lambda: {"self": t(3, 4).where(t(3, 4) > 0, -torch.inf), "dim": 1})
write("_thnn_fused_gru_cell_backward", DENSE)(lambda: {"grad_hy": t(2, 4), "workspace": t(2, 20), "has_bias": True})
write("_thnn_fused_lstm_cell_backward_impl", DENSE)(
    lambda: {
        "grad_hy": t(2, 4),
        "grad_cy": t(2, 4),
        "cx": t(2, 4),
        "cy": t(2, 4),
        "workspace": t(2, 16),
        "has_bias": True,
    }
)
write("bernoulli.out", DENSE)(lambda: {"self": t(8).abs().clamp(0, 1), "out": t(8)})
write("bernoulli_.Tensor", DENSE)(lambda: {"self": t(8), "p": t(8).abs().clamp(0, 1)})
write("binomial", DENSE)(lambda: {"count": t(8).abs().round(), "prob": t(8).abs().clamp(0, 1)})
write("clamp.Tensor clamp_.Tensor", DENSE)(lambda: {"self": t(8), "min": t(8) * 0, "max": t(1)})
write("clamp.Tensor_out", DENSE)(lambda: {"self": t(8), "min": t(8) * 0, "out": t(8)})
write("geometric_", DENSE)(lambda: {"self": t(8), "p": 0.5})
write("multinomial", DENSE)(lambda: {"self": t(3, 8).abs() + 1, "num_samples": 4})
write("multinomial.out", DENSE)(
    lambda: {"self": t(3, 8).abs() + 1, "num_samples": 4, "out": t(3, 4, dtype=torch.int64)}
)
write("native_dropout", DENSE)(lambda: {"input": t(8, 8), "p": 0.5, "train": True})
write("normal.Tensor_Tensor", DENSE)(lambda: {"mean": t(8), "std": t(8).abs()})
write("normal.Tensor_Tensor_out", DENSE)(lambda: {"mean": t(8), "std": t(8).abs(), "out": t(8)})
write("normal.float_Tensor", DENSE)(lambda: {"mean": 1.0, "std": t(8).abs()})
write("normal.float_Tensor_out", DENSE)(lambda: {"mean": 1.0, "std": t(8).abs(), "out": t(8)})
write("random_.from", DENSE)(lambda: {"self": t(8), "from": 2, "to": 5})
write("random_.to", DENSE)(lambda: {"self": t(8), "to": 5})
write("randperm.generator_out", DENSE)(lambda: {"n": 8, "generator": None, "out": t(8, dtype=torch.int64)})
write("record_stream", DENSE)(lambda: {"self": t(8)})
write("rrelu_with_noise rrelu_with_noise_", DENSE)(lambda: {"self": t(8), "noise": t(8), "training": True})
write("rrelu_with_noise.out", DENSE)(lambda: {"self": t(8), "noise": t(8), "training": True, "out": t(8)})
write("set_.source_Storage", DENSE)(lambda: {"self": t(8), "source": t(4)})
write("set_.source_Storage_storage_offset", DENSE)(
    lambda: {"self": t(8), "source": t(8), "storage_offset": 2, "size": [3, 2]}
)
write("split_with_sizes_copy.out", DENSE)(
    lambda: {"self": t(5, 3), "split_sizes": [2, 3], "dim": 0, "out": [t(2, 3), t(3, 3)]}
)

# ---- sparse
for _key, _make in ((SPARSE, lambda: coo(4, 5)), (CSR, lambda: csr(4, 5))):
    table(
        _key,
        _make,
        _nnz=None,
        dense_dim=None,
        sparse_dim=None,
        values=None,
        clone=None,
        isinf=None,
        deg2rad=None,
        deg2rad_=None,
        rad2deg=None,
        rad2deg_=None,
        sum=None,
    )
    for _name in ("deg2rad.out", "rad2deg.out"):
        write(_name, _key)(lambda make=_make: {"self": make(), "out": make()})
    write("_to_dense", _key)(lambda make=_make: {"self": make()})
    write("sparse_mask", _key)(lambda make=_make: {"self": make() * 2, "mask": make()})
    write("resize_as_sparse_", _key)(lambda make=_make: {"self": make(), "the_template": make()})
    write("empty.memory_format", _key)(lambda make=_make: {"size": [4, 5], "layout": make().layout})
table(
    SPARSE,
    lambda: coo(4, 5),
    _dimI=None,
    _dimV=None,
    _indices=None,
    _values=None,
    indices=None,
    is_coalesced=None,
    _coalesced_={"coalesced": True},
    _sparse_softmax={"dim": 1, "half_to_float": False},
    _sparse_log_softmax={"dim": 1, "half_to_float": False},
    mv={"vec": t(5)},
    narrow_copy={"dim": 1, "start": 1, "length": 3},
    native_norm=None,
    native_norm__ScalarOpt_dim_dtype={"p": 2, "dim": [], "keepdim": False, "dtype": None},
    permute={"dims": [1, 0]},
    unsqueeze={"dim": 1},
    sparse_resize_={"size": [6, 5], "sparse_dim": 2, "dense_dim": 0},
    sparse_resize_and_clear_={"size": [6, 5], "sparse_dim": 2, "dense_dim": 0},
    _sparse_sparse_matmul={"other": coo(5, 3)},
    _sparse_mask_projection={"mask": coo(4, 5)},
    copy_sparse_to_sparse_={"src": coo(4, 5) * 2},
)
write("_coalesce", SPARSE)(
    lambda: {"self": torch.sparse_coo_tensor(torch.tensor([[0, 3, 0]]), t(3, 5), (4, 5), check_invariants=True)}
)
write("_to_sparse.sparse_dim", SPARSE)(lambda: {"self": coo(4, 5), "sparse_dim": 1})
write("linalg_vector_norm", SPARSE)(lambda: {"self": coo(4, 5), "ord": 2})
write("norm.ScalarOpt_dim_dtype", SPARSE)(
    lambda: {"self": coo(4, 5), "p": 2, "dim": [], "keepdim": False, "dtype": torch.float64}
)
write("zeros.out", SPARSE)(lambda: {"size": [4, 5], "out": coo(4, 5)})
write("_sparse_broadcast_to", SPARSE)(lambda: {"self": coo(1, 5), "size": [4, 5]})
write("_sparse_coo_tensor_with_dims", SPARSE)(
    lambda: {"sparse_dim": 2, "dense_dim": 0, "size": [4, 5], "layout": torch.sparse_coo}
)
write("_sparse_coo_tensor_with_dims_and_tensors", SPARSE)(
    lambda: {
        "sparse_dim": 1,
        "dense_dim": 1,
        "size": [4, 5],
        "indices": torch.tensor([[0, 3]]),
        "values": t(2, 5),
        "layout": torch.sparse_coo,
    }
)
for _name in ("_sparse_softmax_backward_data", "_sparse_log_softmax_backward_data"):
    write(_name, SPARSE)(lambda: {"grad_output": coo(4, 5), "output": coo(4, 5), "dim": 1, "self": coo(4, 5)})
write("_sparse_sum_backward", SPARSE)(lambda: {"grad": coo(4, 5).sum(0), "self": coo(4, 5), "dim": [0]})
write("hspmm", SPARSE)(lambda: {"mat1": coo(4, 5), "mat2": t(5, 3)})
write("hspmm.out", SPARSE)(lambda: {"mat1": coo(4, 5), "mat2": t(5, 3), "out": coo(4, 3, dense=1)})
write("view_as_complex", SPARSE)(lambda: {"self": coo(4, 5, 2, dense=1)})
write("view_as_real", SPARSE)(lambda: {"self": torch.complex(t(4, 5), t(4, 5)).to_sparse()})
table(
    CSR,
    lambda: csr(4, 5),
    col_indices=None,
    crow_indices=None,
    mul__Scalar={"other": 2},
    mul___Scalar={"other": 2},
    _sparse_csr_sum__dim_dtype={"dim": [1], "keepdim": True},
    _sparse_csr_prod__dim_dtype={"dim": [1], "keepdim": True},
    select__int={"dim": 0, "index": 1},
    select_copy__int={"dim": 0, "index": 1},
    sparse_sampled_addmm={"mat1": t(4, 3), "mat2": t(3, 5)},
    sparse_sampled_addmm__out={"mat1": t(4, 3), "mat2": t(3, 5), "out": csr(4, 5)},
    resize_={"size": [6, 5]},
)
write("ccol_indices row_indices", CSR)(lambda: {"self": csc(4, 5)})
write("_conj_physical", CSR)(lambda: {"self": torch.complex(t(4, 5), t(4, 5)).to_sparse_csr()})
write("_spsolve", CSR)(lambda: {"A": (torch.eye(4) * 3 + t(4, 4) / 9).to_sparse_csr(), "B": t(4)})
write("_to_sparse_csr _to_sparse", CSR)(lambda: {"self": csc(4, 5)})
write("_to_sparse.sparse_dim", CSR)(lambda: {"self": csr(4, 5), "sparse_dim": 2})
write("triangular_solve.X", CSR)(
    lambda: {
        "self": t(4, 2),
        "A": (torch.eye(4) * 3 + t(4, 4)).triu().to_sparse_csr(),
        "X": t(4, 2),
        "M": t(0),
    }
)
write("add.Tensor add_.Tensor", CSR)(lambda: {"self": csr(4, 5), "other": csr(4, 5) * 2})
write("mul.out", CSR)(lambda: {"self": csr(4, 5), "other": csr(4, 5) * 2, "out": csr(4, 5)})
write("add.out", CSR)(lambda: {"self": csr(4, 5), "other": csr(4, 5) * 2, "out": csr(4, 5)})
write("bmm.out", CSR)(lambda: {"self": csr(2, 4, 5), "mat2": t(2, 5, 3), "out": t(2, 4, 3)})
write("baddbmm.out", CSR)(lambda: {"self": t(2, 4, 3), "batch1": csr(2, 4, 5), "batch2": t(2, 5, 3), "out": t(2, 4, 3)})
write("threshold_backward.grad_input", CSR)(
    lambda: {"grad_output": csr(4, 5), "self": csr(4, 5), "threshold": 0, "grad_input": csr(4, 5)}
)
INSTEAD["bmm.out"] = lambda self, mat2, out: torch.bmm(self.to_dense(), mat2)
INSTEAD["baddbmm.out"] = lambda self, batch1, batch2, out: torch.baddbmm(self, batch1.to_dense(), batch2)
INSTEAD["_spsolve"] = lambda A, B: torch.linalg.solve(A.to_dense(), B)
INSTEAD["linalg_vector_norm"] = lambda self, ord: torch.linalg.vector_norm(self.to_dense(), ord)
INSTEAD["linalg__powsum"] = lambda self, ord, dim: self.abs().pow(ord).sum(dim)
INSTEAD["_foreach_powsum.Scalar"] = lambda self, ord: [x.abs().pow(ord).sum() for x in self]

# ---- nested
table(
    NESTED,
    lambda: nest(4),
    _nested_tensor_size=None,
    _nested_tensor_strides=None,
    _nested_tensor_storage_offsets=None,
    _to_copy=None,
    alias=None,
    clone=None,
    detach=None,
    values=None,
    isinf=None,
    ones_like=None,
    div__Scalar={"other": 2},
    mul__Scalar={"other": 2},
    mul___Scalar={"other": 2},
    select__int={"dim": 0, "index": 1},
    narrow={"dim": 0, "start": 1, "length": 2},
    unbind__int=None,
    to_padded_tensor={"padding": -1.0},
    transpose__int={"dim0": 1, "dim1": 2},
    unsqueeze={"dim": 1},
    is_same_size={"other": nest(4)},
    chunk={"chunks": 2, "dim": -1},
    split_with_sizes={"split_sizes": [1, 3], "dim": -1},
    _safe_softmax={"dim": -1},
)
write("squeeze", NESTED)(lambda: {"self": nest(1, 4)})
write("squeeze.dim", NESTED)(lambda: {"self": nest(1, 4), "dim": 2})
write("squeeze.dims", NESTED)(lambda: {"self": nest(1, 4), "dim": [2]})
write("masked_fill.Scalar", NESTED)(lambda: {"self": nest(4), "mask": nest(4) > 0, "value": 2.0})
write("where.self", NESTED)(lambda: {"condition": nest(4) > 0, "self": t(1)[0], "other": nest(4)})
write("where.self_out", NESTED)(lambda: {"condition": nest(4) > 0, "self": t(1)[0], "other": nest(4), "out": nest(4)})
write("native_dropout", NESTED)(lambda: {"input": nest(4), "p": 0.5, "train": True})
write("linear", NESTED)(lambda: {"input": nest(4), "weight": t(6, 4), "bias": t(6)})
write("linear_backward", NESTED)(
    lambda: {"self": nest(4), "grad_output": nest(6), "weight": t(6, 4), "output_mask": [True] * 3}
)
write("bmm", NESTED)(lambda: {"self": nest(4), "mat2": square_like(4)})
write("matmul", NESTED)(lambda: {"self": nest(4), "other": square_like(4)})
write("matmul.out", NESTED)(lambda: {"self": nest(4), "other": square_like(4), "out": nest(4)})
write("matmul_backward", NESTED)(
    lambda: {"grad": nest(4), "self": nest(4), "other": square_like(4), "mask": [True, True]}
)
write("native_layer_norm", NESTED)(
    lambda: {"input": nest(4), "normalized_shape": [4], "weight": t(4), "bias": t(4), "eps": 1e-5}
)
write("native_layer_norm_backward", NESTED)(
    lambda: {
        "grad_out": nest(4),
        "input": nest(4),
        "normalized_shape": [4],
        **dict(zip(("mean", "rstd"), torch.native_layer_norm(nest(4), [4], t(4), t(4), 1e-5)[1:], strict=True)),
        "weight": t(4),
        "bias": t(4),
        "output_mask": [True] * 3,
    }
)
write("_nested_from_padded_and_nested_example", NESTED)(lambda: {"padded": t(3, 5, 4), "nt_example": nest(4)})
write("_nested_select_backward", NESTED)(lambda: {"grad_output": t(5, 4), "self": nest(4), "dim": 0, "index": 1})
write("_nested_tensor_softmax_with_shape", NESTED)(lambda: {"self": t(3, 2, 5, 5), "query": nest(8)})
write("_transform_bias_rescale_qkv", NESTED)(lambda: {"qkv": nest(24), "qkv_bias": t(24), "num_heads": 2})


def square_like(n: int) -> torch.Tensor:
    return torch.nested.nested_tensor([t(n, n), t(n, n) + 1, t(n, n) - 1])


def attention(width: int = 8) -> Arguments:
    weights = {"qkv_weight": t(3 * width, width) / 8, "qkv_bias": t(3 * width) / 8}
    return weights | {"proj_weight": t(width, width) / 8, "proj_bias": t(width) / 8}


write("_native_multi_head_attention", NESTED)(
    lambda: (
        {k: nest(8) for k in ("query", "key", "value")}
        | {"embed_dim": 8, "num_head": 2, **attention()}
        | {"need_weights": False, "average_attn_weights": False}
    )
)
write("_transformer_encoder_layer_fwd", NESTED)(
    lambda: {
        "src": nest(8),
        "embed_dim": 8,
        "num_heads": 2,
        **attention(),
        "use_gelu": True,
        "norm_first": False,
        "eps": 1e-5,
        **{f"norm_{k}_{i}": t(8) for i in (1, 2) for k in ("weight", "bias")},
        "ffn_weight_1": t(16, 8) / 8,
        "ffn_bias_1": t(16),
        "ffn_weight_2": t(8, 16) / 8,
        "ffn_bias_2": t(8),
    }
)


# ---- drawn
@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {name: row for row in rows() for name in row["overloads"]}


@st.composite
def _dense(draw: Any, row: dict[str, Any], name: str, dtype: torch.dtype) -> Arguments:
    if row["kind"] == "adapter":
        args = Draw(draw, row, name, dtype).call()
    else:
        schema = overload(name)._schema
        names = [a.name for a in schema.arguments if not a.is_out]
        args = dict(zip(names, build(draw, row, schema, dtype), strict=True))
    return args | out_arguments(draw, name, args)


def dense(name: str) -> Iterator[Arguments]:
    """Drawn calls with dense tensors, valid or not; none where nothing draws the operator."""
    row, how = _rows().get(name), find(name)
    if row is None or (row["kind"] == "adapter" and (undrawn(name) or not drawable(row, name))):
        return
    types = how.types if how is not None else TYPES
    for type_name in [t for t in types if t not in row["test"]["skip_types"]][:4]:
        if row["kind"] != "adapter" and type_name not in row["types"]:
            continue
        yield from _drawn(_dense(row, name, TORCH_TYPES[type_name]))


def _drawn(strategy: Any) -> list[Arguments]:
    found: list[Arguments] = []

    @settings(
        max_examples=DRAWS,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(strategy)
    def collect(args: Arguments) -> None:
        found.append(clone(args))

    collect()
    return found


def _of_key(value: Any, key: str) -> Any:
    def convert(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if key == SPARSE:
            return x.to_sparse()
        if key == CSR:
            return x.to_sparse_csr()
        return torch.nested.nested_tensor([x.contiguous(), x[: max(1, x.shape[0] - 1)] if x.dim() else x])

    return tree_map(convert, value)


def _tensors(value: Any) -> bool:
    some = value if isinstance(value, (list, tuple)) else [value]
    return bool(some) and all(isinstance(x, torch.Tensor) for x in some)


def calls(name: str, key: str) -> Iterator[Arguments]:
    """Calls that reach the operator's kernel for a key, valid or not: the written one, or drawn ones."""
    if (name, key) in WRITTEN:
        yield WRITTEN[name, key]()
        return
    for args in dense(name):
        if key == DENSE:
            yield args
            continue
        tensors = [k for k, v in args.items() if _tensors(v)]
        for some in [tensors, *([k] for k in tensors), *map(list, itertools.combinations(tensors, 2))]:
            try:
                yield {k: _of_key(v, key) if k in some else v for k, v in args.items()}
            except (RuntimeError, IndexError):  # a size or type that the layout has not
                continue


def is_drawn(name: str) -> bool:
    """Whether the elements of the result are drawn, or nobody's."""
    row, how = _rows().get(name), find(name)
    return name in DRAWN or (row is not None and not row["deterministic"]) or not getattr(how, "values", True)
