"""Recipes of operators that make, move and rearrange elements: factories, copies, shapes, indices, search, storage, views."""

from __future__ import annotations

import math
from typing import Any

import torch

from support.recipe import EVERY, NUMBERS, UNDRAWN, gradient, recipe

Args = dict[str, Any]
aten = torch.ops.aten


def target(d: Any, *shape: int) -> torch.Tensor:
    """An out argument: empty, of a wrong size, or of the right one in some layout."""
    kind = d.int(0, 3)
    if kind == 0:
        return torch.empty(0, dtype=d.dtype)
    if kind == 1:
        return torch.ones(2, 3, dtype=d.dtype)
    return torch.ones_like(d.own(shape))


# ---- factories
@recipe("arange.start_out", "range.out", types=("f32", "bf16", "i64", "f16", "f64", "i32", "u8"),
        bad={"step": [0, -1], "end": [math.inf]})  # fmt: skip
def arange(d: Any) -> Args:
    start, step = d.pick(0, 1, 3), d.pick(1, 2, 3)
    if d.dtype.is_floating_point and d.flag():
        start, step = start + 0.5, step * 0.25
    end = start + step * d.int(0, 40)
    return {"start": start, "end": end, "step": step, "out": target(d, d.int(1, 40))}


@recipe("kaiser_window", types=("f32", "f64"), bad={"window_length": [-1]})
def kaiser_window(d: Any) -> Args:
    args = {"window_length": d.int(0, 40), "dtype": d.dtype}
    if "." in d.name:
        args["periodic"] = d.flag()
    if d.name.endswith(".beta"):
        args["beta"] = d.pick(0.0, 5.0, 12.0)
    return args


@recipe("linspace.out", "logspace.out", types=("f32", "bf16", "i64", "f64", "c64"), bad={"steps": [-1]})
def linspace(d: Any) -> Args:
    steps = d.pick(0, 1, 2, 7, 100)
    return {"start": d.pick(0, 1, -2), "end": d.pick(3, 5, -3) if "lin" in d.name else d.pick(2, 3), "steps": steps,
            "base": d.pick(2.0, 10.0) if d.dtype.itemsize > 2 else 2.0, "out": target(d, steps)}  # fmt: skip


@recipe("eye.out", "eye.m_out", types=EVERY, bad={"n": [-1]})
def eye(d: Any) -> Args:
    n, m = d.int(0, 6), d.int(0, 6)
    return {"n": n, "m": m, "out": target(d, n, m)}


@recipe("tril", "triu", types=EVERY, bad={"self": [torch.ones(3)]})
def triangle(d: Any) -> Args:
    shape = (*d.ints(d.int(0, 2), 0, 3), d.int(0, 7), d.int(0, 7))
    return {"self": d.own(shape) if d.writes else d.tensor(shape), "diagonal": d.int(-8, 8)}


@recipe("tril_indices", "triu_indices", types=("i64", "i32"), bad={"row": [-1], "col": [-1]})
def triangle_indices(d: Any) -> Args:
    return {"row": d.int(0, 9), "col": d.int(0, 9), "offset": d.int(-9, 9), "dtype": d.dtype}


@recipe(
    "complex", "polar", types=("f32", "f64"), bad={"imag": [torch.ones(7, 2, 7, 3, 7)], "abs": [torch.ones(2).int()]}
)
def complex_of(d: Any) -> Args:
    shape = d.any_shape()
    x, y = d.tensor(shape), d.tensor(shape, domain=(-9, 9)) if "polar" in d.name else d.tensor(shape)
    return {"real": x, "imag": y, "abs": x, "angle": y}


@recipe("repeat_interleave.Tensor", types=("i64", "i32"), bad={"repeats": [torch.tensor([-1]), torch.tensor([1.0])]})
def repeat_interleave(d: Any) -> Args:
    return {"repeats": d.tensor((d.int(0, 9),), domain=(0, 5))}


# ---- copies, storage, views


@recipe("fill_.Scalar", "fill_.Tensor", "zero_", types=EVERY, bad={"value": [torch.ones(2)]})
def fill(d: Any) -> Args:
    value = d.pick(0, 1, 3, True) if d.dtype == torch.uint8 else d.pick(0, 1, -3, 2.5, True)
    return {"self": d.own(d.any_shape()), "value": d.tensor(()) if d.name.endswith("Tensor") else value}


@recipe("copy_", types=EVERY, bad={"src": [torch.ones(7, 2, 7, 3, 7)]})
def copy(d: Any) -> Args:
    """Between any two types and layouts; a source that broadcasts."""
    shape = d.any_shape()
    source = tuple(1 if d.int(0, 4) == 0 else n for n in shape)[d.int(0, len(shape)) if d.flag() else 0 :]
    other = d.pick(d.dtype, torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8)
    # The conversion of a number beyond the target's range is undefined.
    values = d.tensor(source, other, domain=(0, 100)) if other != d.dtype else d.tensor(source)
    return {"self": d.own(shape), "src": values, "non_blocking": d.flag()}


def copy_from(self: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if dst.shape != self.shape and not dst.numel():
        dst.resize_(self.shape)
    return dst.copy_(self)


@recipe("_copy_from", "_copy_from_and_resize", types=EVERY, oracle=copy_from)
def copied(d: Any) -> Args:
    x = d.tensor(d.any_shape())
    return {"self": x, "dst": torch.empty(0, dtype=d.dtype) if "resize" in d.name else d.own(x.shape)}


@recipe("_local_scalar_dense", types=EVERY, bad={"self": [torch.ones(2)]})
def local_scalar(d: Any) -> Args:
    return {"self": d.tensor((1,) * d.int(0, 3))}


@recipe("empty.memory_format", "empty_strided", types=EVERY, values=False, bad={"size": [[-1]], "stride": [[-1]]})
def empty(d: Any) -> Args:
    like = d.tensor(d.any_shape())
    return {"size": list(like.shape), "stride": list(like.stride()), "dtype": d.dtype,
            "memory_format": torch.channels_last if like.dim() == 4 and d.flag() else None}  # fmt: skip


@recipe("empty_like", types=EVERY, values=False)
@recipe("zeros_like", types=EVERY)
def like(d: Any) -> Args:
    x = d.tensor(d.any_shape())
    return {"self": x, "dtype": d.pick(None, d.dtype, torch.float64),
            "memory_format": d.pick(None, torch.preserve_format, torch.contiguous_format)}  # fmt: skip


@recipe("_efficientzerotensor", types=EVERY, values=False)
def zero_tensor(d: Any) -> Args:
    return {"size": list(d.any_shape()), "dtype": d.dtype}


@recipe("resize_", types=EVERY, bad={"size": [[-1]]})
def resize(d: Any) -> Args:
    """Never more elements than there are: new ones have no value."""
    x = d.tensor(d.any_shape(), kinds=("contiguous",))
    return {
        "self": x,
        "size": list(d.pick(x.shape, x.shape[::-1], x.shape[1:] if 0 not in x.shape else (0,), (x.numel(),))),
    }


@recipe("set_.source_Tensor", "set_", "is_set_to", types=EVERY)
def set_(d: Any) -> Args:
    x = d.tensor(d.any_shape())
    other = d.tensor(d.any_shape())
    return {"self": x, "source": other, "tensor": d.pick(x, other)}


@recipe("as_strided", "_reshape_alias", types=EVERY, bad={"size": [[-1]], "stride": [[-1, -1, -1, -1, -1, -1, -1]]})
def as_strided(d: Any) -> Args:
    x = d.tensor(d.any_shape())
    order = sorted(range(x.dim()), key=lambda _: d.int(0, 9))
    return {"self": x, "size": [x.shape[i] for i in order], "stride": [x.stride(i) for i in order],
            "storage_offset": d.pick(None, x.storage_offset())}  # fmt: skip


@recipe("view", types=EVERY, bad={"size": [[7, 7, 7, 7, 7], [-1, -1]]})
def view(d: Any) -> Args:
    x = d.tensor(d.any_shape(), kinds=("contiguous", "offset", "channels_last"))
    return {"self": x, "size": d.pick([-1], list(x.shape), [1, *x.shape], [x.numel()])}


@recipe("unfold", types=EVERY, bad={"dimension": [9], "step": [0], "size": [99, -1]})
def unfold(d: Any) -> Args:
    x = d.tensor(d.ints(d.int(1, 4), 2, 5))
    dim = d.int(0, x.dim() - 1)
    return {"self": x, "dimension": dim, "size": d.int(0, x.shape[dim]), "step": d.int(1, 3)}


@recipe("view_as_real", types=("c64",), bad={"self": [torch.ones(2)]})
def as_real(d: Any) -> Args:
    return {"self": d.tensor(d.any_shape())}


@recipe("view_as_complex", types=("f32", "f64"), bad={"self": [torch.ones(3), torch.ones(2).int()]})
def as_complex(d: Any) -> Args:
    return {"self": d.tensor((*d.any_shape(), 2), kinds=("contiguous",))}


# ---- shapes
@recipe("cat", types=EVERY, bad={"dim": [9], "tensors": [[], [torch.ones(2), torch.ones(2, 3)]]})
def cat(d: Any) -> Args:
    shape = list(d.ints(d.int(1, 4), 0, 4))
    dim = d.int(0, len(shape) - 1)
    parts = []
    for _ in range(d.int(1, 4)):
        if d.int(0, 5) == 0:
            parts.append(torch.empty(0, dtype=d.dtype))  # an empty vector fits anywhere
            continue
        shape[dim] = d.int(0, 4)
        parts.append(d.tensor(shape, d.pick(d.dtype, d.dtype, torch.float32)))
    return {"tensors": parts, "dim": d.pick(dim, dim - len(shape))}


@recipe("_chunk_cat", types=EVERY,
        bad={"num_chunks": [0], "tensors": [[], [torch.ones(0)], [torch.ones(2), torch.ones(2).long()]]})  # fmt: skip
def chunk_cat(d: Any) -> Args:
    lead = d.ints(d.int(0, 2), 1, 3)
    tensors = [d.tensor((*lead, d.int(1, 7), *d.ints(d.int(0, 2), 1, 4))) for _ in range(d.int(1, 4))]
    return {"tensors": tensors, "dim": len(lead), "num_chunks": d.int(1, 4)}


@recipe("roll", types=EVERY, bad={"shifts": [[1, 2, 3]], "dims": [[9]]})
def roll(d: Any) -> Args:
    x = d.tensor(d.any_shape())
    if x.dim() == 0 or d.flag():
        return {"self": x, "shifts": [d.int(-9, 9)], "dims": []}
    dims = sorted({d.int(0, x.dim() - 1) for _ in range(2)})
    return {"self": x, "shifts": d.ints(len(dims), -9, 9), "dims": dims}


@recipe("channel_shuffle", types=NUMBERS, bad={"groups": [0, 77], "self": [torch.ones(3)]})
def channel_shuffle(d: Any) -> Args:
    groups = d.int(1, 4)
    return {"self": d.tensor((d.int(1, 3), groups * d.int(1, 3), *d.ints(d.int(1, 2), 1, 4))), "groups": groups}


@recipe("pixel_shuffle", types=NUMBERS, bad={"upscale_factor": [0, 77], "self": [torch.ones(3)]})
def pixel_shuffle(d: Any) -> Args:
    r = d.int(1, 3)
    shape = (*d.ints(d.int(0, 2), 1, 3), r * r * d.int(1, 3), d.int(1, 3), d.int(1, 3))
    return {"self": d.tensor(shape), "upscale_factor": r}


@recipe("pixel_unshuffle", types=NUMBERS, bad={"downscale_factor": [0, 77], "self": [torch.ones(3)]})
def pixel_unshuffle(d: Any) -> Args:
    r = d.int(1, 3)
    shape = (*d.ints(d.int(0, 2), 1, 3), d.int(1, 3), r * d.int(1, 3), r * d.int(1, 3))
    return {"self": d.tensor(shape), "downscale_factor": r}


def padding_of(d: Any, v: Args) -> Args:
    return {"padding": v["padding"]}


for kind in ("reflection", "replication"):
    for n in (1, 2, 3):
        gradient(f"{kind}_pad{n}d_backward", f"{kind}_pad{n}d", padding_of)


@recipe("col2im", bad={"output_size": [[99, 99]], "kernel_size": [[0, 1]], "stride": [[0, 0]]})
def col2im(d: Any) -> Args:
    kernel, stride, dilation = d.ints(2, 1, 3), d.ints(2, 1, 2), d.ints(2, 1, 2)
    padding = [d.int(0, 1), d.int(0, 1)]
    size = [d.int((k - 1) * g + 1, 8) for k, g in zip(kernel, dilation, strict=True)]
    blocks = [(s + 2 * p - g * (k - 1) - 1) // t + 1
              for s, p, g, k, t in zip(size, padding, dilation, kernel, stride, strict=True)]  # fmt: skip
    lead = (d.int(1, 3),) if d.flag() else ()
    return {"self": d.plain(*lead, d.int(1, 3) * math.prod(kernel), math.prod(blocks)), "output_size": size,
            "kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}  # fmt: skip


@recipe("unfold_backward")
def unfold_backward(d: Any) -> Args:
    sizes = list(d.ints(d.int(1, 3), 2, 6))
    dim = d.int(0, len(sizes) - 1)
    size, step = d.int(1, sizes[dim]), d.int(1, 3)
    grad = d.plain(*torch.empty(sizes).unfold(dim, size, step).shape)
    return {"grad_in": grad, "input_sizes": sizes, "dim": dim, "size": size, "step": step}


# ---- indices
@recipe(
    "index.Tensor", "index.Tensor_out", types=EVERY, bad={"indices": [[torch.tensor([99])], [torch.tensor([0.5])], []]}
)
def index(d: Any) -> Args:
    x = d.own(d.ints(d.int(1, 4), 1, 5)) if d.writes else d.tensor(d.ints(d.int(1, 4), 1, 5))
    shape = d.ints(d.int(0, 2), 1, 4)
    if d.int(0, 3) == 0:
        return {"self": x, "indices": [d.tensor(x.shape[: d.int(1, x.dim())], torch.bool)]}
    indices = [d.maybe(lambda n=n: d.whole(tuple(shape), n) - d.pick(0, n)) for n in x.shape]
    return {
        "self": x,
        "indices": indices if any(i is not None for i in indices) else [d.whole(tuple(shape), x.shape[0])],
    }


@recipe("_index_put_impl_", types=("f32", "i64", "f64", "c64", "u8"), bad={"indices": [[torch.tensor([99])]]})
def index_put(d: Any) -> Args:
    """Without accumulation, no place twice: which value stays is nobody's."""
    accumulate = d.flag()
    x = d.own(d.ints(d.int(1, 3), 1, 5), domain=(-3, 3))
    n = x.shape[0]
    rows = d.whole((d.int(1, 6),), n) if accumulate else d.order(n)[: d.int(1, n)]
    values = d.plain(*aten.index(x, [rows]).shape[d.int(0, x.dim()) :])
    return {"self": x, "indices": [rows], "values": values, "accumulate": accumulate, "unsafe": False}


@recipe("_assert_async.msg", "_functional_assert_async.msg", types=EVERY)
def assert_async(d: Any) -> Args:
    return {"self": torch.ones((), dtype=d.dtype), "assert_msg": "no", "dep_token": torch.zeros(2)}


@recipe("index_fill_.int_Tensor", types=EVERY, bad={"dim": [9], "value": [torch.ones(2)]})
def index_fill(d: Any) -> Args:
    x = d.own(d.ints(d.int(1, 3), 1, 5))
    dim = d.int(0, x.dim() - 1)
    return {"self": x, "dim": dim, "index": d.whole((d.int(0, 5),), x.shape[dim]), "value": d.tensor(())}


@recipe("segment_reduce", bad={"axis": [3], "reduce": ["none"]})
def segment_reduce(d: Any) -> Args:
    lengths = d.ints(d.int(1, 4), 0, 3)
    lengths = torch.tensor(lengths)
    initial = d.pick(None, 1.0)
    data = d.plain(int(lengths.sum()), *d.ints(d.int(0, 2), 1, 4))
    given = {"data": data, "reduce": d.pick("sum", "mean", "max", "min", "prod"), "axis": 0, "unsafe": False,
             "initial": initial}  # fmt: skip
    if d.flag():
        return given | {"lengths": lengths, "offsets": None}
    return given | {"lengths": None, "offsets": torch.cat([torch.tensor([0]), lengths.cumsum(0)])}


gradient("_segment_reduce_backward", "segment_reduce", output=0)


@recipe("_cummax_helper", "_cummin_helper", types=("f32", "bf16", "i64", "b8", "f64", "u8"))
def cummax_helper(d: Any) -> Args:
    """Of one element at least: the CPU's helper trusts its caller, and reads what is not there."""
    x = d.tensor(d.ints(d.int(1, 4), 1, 9))
    return {"self": x, "values": torch.empty_like(x, memory_format=torch.contiguous_format),
            "indices": torch.empty(x.shape, dtype=torch.int64), "dim": d.int(0, x.dim() - 1)}  # fmt: skip


@recipe(
    "masked_fill_.Scalar", "masked_fill_.Tensor", types=EVERY, bad={"mask": [torch.ones(2), torch.ones(9, 9, 9).bool()]}
)
def masked_fill(d: Any) -> Args:
    x = d.own(d.any_shape())
    mask = d.tensor(x.shape[d.int(0, x.dim()) :], torch.bool)
    return {"self": x, "mask": mask, "value": d.tensor(()) if d.name.endswith("Tensor") else 1}


# ---- search
@recipe("searchsorted.Scalar", "searchsorted.Scalar_out", "bucketize.Scalar", types=("f32", "bf16", "i64", "f64", "u8"))
def search_one(d: Any) -> Args:
    edges = d.by_rule("sorted")
    return {"sorted_sequence": edges, "boundaries": edges, "self": d.pick(-9, 0, 1, 2.5), "out_int32": d.flag(),
            "right": d.flag()}  # fmt: skip


@recipe("_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors", types=("f32", "f64"),
        bad={"bins": [[0], [1, 2, 3, 4, 5, 6]], "range": [[3.0, 1.0]]})  # fmt: skip
def histogramdd(d: Any) -> Args:
    dims, n = d.int(1, 3), d.int(0, 12)
    x = d.plain(n, dims)
    bins: Any = d.ints(dims, 1, 4)
    if d.name.endswith("tensors"):
        bins = [d.plain(b + 1).sort().values for b in bins]
    return {"self": x, "bins": bins, "range": d.maybe(lambda: [-2.0, 2.5] * dims),
            "weight": d.maybe(lambda: d.plain(n, low=0.1)), "density": n > 0 and d.flag()}  # fmt: skip


@recipe("unique_dim", types=EVERY, bad={"dim": [9]})
def unique_dim(d: Any) -> Args:
    """Without NaN, with which the CPU's comparison of slices is no order."""
    x = d.tensor(d.ints(d.int(1, 4), 1, 4) if d.flag() else (d.int(1, 40),))
    x = x.nan_to_num() if x.is_floating_point() else x
    # torch gives parts unasked
    return {"self": x, "dim": d.int(0, x.dim() - 1), "sorted": True, "return_inverse": True, "return_counts": True}


# ---- softmax gradients
def input_dtype(d: Any, v: Args) -> Args:
    return {"input_dtype": v["self"].dtype}


gradient("_softmax_backward_data", "_softmax", input_dtype, output=0)
gradient("_log_softmax_backward_data", "_log_softmax", input_dtype, output=0)


# The CPU keeps the layout of self, and mixes up the rows of one that is not contiguous.
@recipe("_masked_softmax", strides=False, bad={"mask": [torch.ones(2)], "dim": [9]})
def masked_softmax(d: Any) -> Args:
    shape = (d.int(1, 3), d.int(1, 3), d.int(1, 4), d.int(1, 20))
    return {"self": d.plain(*shape).contiguous(), "mask": d.tensor(shape, torch.bool), "dim": d.pick(None, 3, -1),
            "mask_type": 2}  # fmt: skip


gradient("_masked_softmax_backward", "_masked_softmax", output=0)


# ---- gradients of distances and distributions, masks of dropout
@recipe("_cdist_forward", types=("f32", "f64"), bad={"p": [-1.0], "x2": [torch.ones(1, 77)]})
def cdist(d: Any) -> Args:
    width, lead = d.int(1, 9), d.ints(d.int(0, 1), 1, 2)
    return {"x1": d.plain(*lead, d.int(1, 5), width), "x2": d.plain(*lead, d.int(1, 5), width),
            "p": d.pick(0.0, 1.0, 1.5, 2.0, math.inf), "compute_mode": d.pick(None, 0, 1, 2)}  # fmt: skip


gradient("_cdist_backward", "_cdist_forward", cdist=0, types=("f32", "f64"))
gradient("_pdist_backward", "_pdist_forward", pdist=0, types=("f32", "f64"))


@recipe("linalg_cross", types=("f32", "bf16", "i64", "f64", "c64"), bad={"dim": [9], "other": [torch.ones(4)]})
def cross(d: Any) -> Args:
    shape = list(d.ints(d.int(0, 2), 1, 4))
    dim = d.int(0, len(shape))
    shape.insert(dim, 3)
    return {"self": d.plain(*shape), "other": d.plain(*shape), "dim": dim}


def masked_scale(d: Any) -> Args:
    shape = d.any_shape()
    mask = d.tensor(shape, torch.uint8 if d.name == "_masked_scale" else torch.bool, domain=(0, 1))
    return {"grad_output": d.tensor(shape), "self": d.tensor(shape), "mask": mask, "scale": d.pick(1.0, 2.0)}


recipe("native_dropout_backward")(masked_scale)
recipe("_masked_scale", oracle=lambda self, mask, scale: self * mask * scale)(masked_scale)


def gamma_grad_oracle(self: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A derivative that the CPU approximates to three digits: how a sample moves with its shape, -(dF/dshape) / density."""
    a, x = self.double(), output.double()
    h = 1e-3 * a
    f = [torch.special.gammainc(a + n * h, x) for n in (-2, -1, 1, 2)]
    slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    return (-slope / ((a - 1) * x.log() - x - a.lgamma()).exp()).to(self.dtype)


# The five-point difference of the oracle is good to 1e-7, and what is left of digits where F is nearly one.
@recipe(
    "_standard_gamma_grad",
    types=("f32", "f64"),
    oracle=gamma_grad_oracle,
    tol={"f32": (1e-4, 1e-6), "f64": (1e-6, 1e-8)},
)
def gamma_grad(d: Any) -> Args:
    shape = d.any_shape()
    return {"self": d.tensor(shape, domain=(0.2, 9)), "output": d.tensor(shape, domain=(0.1, 9))}


@recipe("_dirichlet_grad", types=("f32", "f64"), tol={"f32": (2e-2, 2e-3), "f64": (2e-2, 2e-3)})
def dirichlet_grad(d: Any) -> Args:
    shape = (*d.ints(d.int(0, 2), 1, 4), d.int(2, 5))
    alpha = d.tensor(shape, domain=(0.2, 9))
    return {
        "x": d.tensor(shape, domain=(0.05, 0.95)),
        "alpha": alpha,
        "total": alpha.sum(-1, True).expand(shape).clone(),
    }


@recipe("mvlgamma", types=("f32", "bf16", "f64"), bad={"p": [0]})
def mvlgamma(d: Any) -> Args:
    return {"self": d.tensor(d.any_shape(), domain=(2, 9)), "p": d.int(1, 3)}


@recipe("glu_backward_jvp")
def glu_backward_jvp(d: Any) -> Args:
    half = list(d.ints(d.int(1, 3), 1, 4))
    dim = d.int(0, len(half) - 1)
    whole = [2 * n if i == dim else n for i, n in enumerate(half)]
    return {"grad_x": d.plain(*whole), "grad_glu": d.plain(*half), "x": d.plain(*whole), "dgrad_glu": d.plain(*half),
            "dx": d.plain(*whole), "dim": dim}  # fmt: skip


# ---- sparse indices
@recipe("_convert_indices_from_coo_to_csr", types=("i64", "i32"))
def coo_to_csr(d: Any) -> Args:
    size = d.int(1, 9)
    return {"self": d.whole((d.int(0, 20),), size).sort().values.to(d.dtype), "size": size, "out_int32": d.flag()}


@recipe("_convert_indices_from_csr_to_coo", types=("i64", "i32"))
def csr_to_coo(d: Any) -> Args:
    counts = torch.tensor([0, *d.ints(d.int(1, 6), 0, 4)])
    rows = counts.cumsum(0).to(d.dtype)
    return {"crow_indices": rows, "col_indices": d.whole((int(counts.sum()),), 5).to(d.dtype), "out_int32": d.flag(),
            "transpose": d.flag()}  # fmt: skip


UNDRAWN.update({
    r"set_\.source_Storage.*": "a storage is of its device, and no value of Hypothesis: runtime/test_memory_sharing.py",
    r"_nested_(tensor_from_mask|from_padded|view_from_buffer)": "makes nested tensors: aten/test_nested_strided.py",
    r"(_validate_)?sparse_coo_tensor(_args|\.indices.*)": "makes or checks sparse tensors: aten/test_sparse_compressed.py",
    r"split_with_sizes_copy\.out": "writes to a list and returns nothing: aten/test_shape.py",
    r"_saturate_weight_to_fp16": "the CPU's takes no single number: aten/test_nonfinite.py",
    r"tensor_split\.tensor_indices_or_sections": "places are a tensor, on either device: aten/test_nonfinite.py",
    r"_philox_.*": "torch's CPU has none before 2.14: aten/test_random_keys.py",
    r"record_stream": "does nothing that a result shows: runtime/test_allocator.py",
})  # fmt: skip
