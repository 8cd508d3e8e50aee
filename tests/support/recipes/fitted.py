"""Recipes whose arguments must fit each other: quantisation, jagged and sparse layouts, attention and groups of products."""

from __future__ import annotations

from typing import Any

import torch

from support.recipe import FLOATS, recipe

Args = dict[str, Any]
aten = torch.ops.aten


# ---- fake quantisation
def quarters(d: Any, shape: Any, dtype: torch.dtype | None = None, times: float = 0.25) -> torch.Tensor:
    """Multiples of a quarter in any layout: with scales that are powers of two, every step is exact, and so are ties."""
    t = d.own(shape, dtype, domain=(-160, 160))
    return t.round_().mul_(times)


def fake_quantize(d: Any) -> Args:
    shape = d.any_shape() or (1,)
    if "channel" in d.name and "backward" in d.name:  # over no other dimension the CPU sums all channels
        shape = (*shape, d.int(1, 3))
    axis = d.int(0, len(shape) - 1)
    low, high = d.pick((-5, 20), (0, 255), (-8, 7), (0, 1))
    single = "per_tensor" in d.name
    n = 1 if single else shape[axis]
    scale = 2.0 ** d.whole((n,), 4, low=-3).float()[:n] if n else torch.ones(0)
    learned = "learnable" in d.name
    zero = d.whole((n,), high + 1, low)[:n].to(torch.int32)
    if learned:  # any number, rounded and clamped
        zero = zero.float() + d.pick(0.0, 0.25, -0.75)
    elif not single and d.flag():
        zero = zero.float()
    return {"self": quarters(d, shape), "grad": quarters(d, shape, times=0.125), "scale": scale, "zero_point": zero,
            "axis": axis, "quant_min": low, "quant_max": high, "grad_factor": d.pick(1.0, 0.5),
            "fake_quant_enabled": torch.tensor([d.int(0, 1)])}  # fmt: skip


BAD_RANGE = {"quant_min": [300], "axis": [9]}
recipe("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "fake_quantize_per_channel_affine_cachemask",
       types=FLOATS, bad=BAD_RANGE)(fake_quantize)  # fmt: skip
recipe("_fake_quantize_learnable_per_tensor_affine", "_fake_quantize_learnable_per_tensor_affine_backward",
       "_fake_quantize_learnable_per_channel_affine", "_fake_quantize_learnable_per_channel_affine_backward",
       types=("f32",), bad=BAD_RANGE)(fake_quantize)  # fmt: skip


@recipe("_fused_moving_avg_obs_fq_helper", types=("f32",), bad={"quant_max": [-300]})
def observed(d: Any) -> Args:
    rows = d.flag()  # of two dims: the CPU reads beyond the extremes of others
    shape = (d.int(1, 4), d.int(1, 6)) if rows else (*d.any_shape(), 3)
    n, first = (shape[0] if rows else 1), d.flag()
    end = torch.full((n,), float("inf"))
    return {"self": quarters(d, shape), "observer_on": torch.tensor([d.int(0, 1) if not first else 1]),
            "fake_quant_on": torch.tensor([d.int(0, 1)]), "running_min": end if first else -torch.rand(n) - 1,
            "running_max": -end if first else torch.rand(n) + 1, "scale": torch.ones(n),
            "zero_point": torch.zeros(n, dtype=torch.int32), "averaging_const": d.pick(0.01, 0.5), "quant_min": d.pick(0, -128),
            "quant_max": d.pick(127, 255), "ch_axis": 0, "per_row_fake_quant": rows,
            "symmetric_quant": d.flag()}  # fmt: skip


# ---- jagged and nested
def jagged(d: Any) -> Args:
    lengths = d.ints(d.int(1, 4), 0, 5)
    start, width = d.int(0, 2), d.ints(d.int(0, 2), 1, 3)
    ends = torch.tensor([0, *lengths]).cumsum(0)
    padded = d.pick(*{max(lengths), max(lengths) + 3})
    total = int(ends[-1])
    offsets = ends + start if "to_padded" in d.name else ends
    offsets = offsets.int() if d.flag() else offsets
    # A length below the longest cuts rows off.
    return {"values": d.tensor((total + start, *width)).contiguous(), "offsets": [offsets],
            "max_lengths": [d.int(0, padded)], "padding_value": d.pick(0.0, -1.0, 2.0) if d.dtype != torch.uint8 else 2.0,
            "dense": d.tensor((len(lengths), padded, *width)).contiguous(), "total_L": d.pick(None, total)}  # fmt: skip


recipe("_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward", types=("f32", "bf16", "i64", "b8", "f16"),
       bad={"max_lengths": [[1, 2], []], "offsets": [[torch.zeros(1, 2).long()]]})(jagged)  # fmt: skip


@recipe("_nested_tensor_from_mask_left_aligned", types=("f32",), bad={"mask": [torch.ones(1, 2)]})
def aligned(d: Any) -> Args:
    rows, steps = d.int(1, 3), d.int(1, 5)
    mask = torch.arange(steps) < d.whole((rows, 1), steps + 1)
    if d.flag():  # any mask
        mask = d.tensor((rows, steps), torch.bool)
    return {"t": d.plain(rows, steps, d.int(1, 3)), "mask": mask}


# The CPU reads the sizes as if they were contiguous, and dies where there are none.
@recipe("_nested_compute_contiguous_strides_offsets", types=("i64",))
def nested_sizes(d: Any) -> Args:
    return {"nested_size": d.whole((d.int(1, 4), d.int(1, 4)), 6).contiguous()}


# ---- attention
@recipe("_transform_bias_rescale_qkv", types=("f32", "f64", "bf16"), bad={"num_heads": [5]})
def packed_heads(d: Any) -> Args:
    heads = d.int(1, 4)
    width = heads * d.pick(1, 2, 3, 4)
    return {"qkv": d.plain(d.int(1, 3), d.int(1, 5), 3 * width).contiguous(), "qkv_bias": d.plain(3 * width).contiguous(),
            "num_heads": heads}  # fmt: skip


def scores_of(query: Any, key: Any, bias: Any, causal: bool, scale: float | None) -> torch.Tensor:
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    return scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -torch.inf) if causal else scores


def efficient_oracle(
    query: Any,
    key: Any,
    value: Any,
    attn_bias: Any,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: Any,
) -> list[torch.Tensor]:
    scores = scores_of(query, key, attn_bias, is_causal, scale)
    sums = scores.float().logsumexp(-1)
    return [scores.softmax(-1) @ value, sums if compute_log_sumexp else sums[..., :0]]


def efficient(d: Any) -> Args:
    b, heads, n, m = d.int(1, 2), d.int(1, 2), d.int(1, 20), d.int(1, 20)
    width, out = d.int(1, 20), d.int(1, 20)
    return {"query": d.plain(b, heads, n, width), "key": d.plain(b, heads, m, width), "value": d.plain(b, heads, m, out),
            "attn_bias": d.maybe(lambda: d.plain(b, heads, n, m)), "compute_log_sumexp": d.flag(), "dropout_p": 0.0,
            "is_causal": d.flag(), "scale": d.pick(None, 0.3)}  # fmt: skip


# torch has it for CUDA only. The sums are padded to whole blocks of rows.
recipe("_scaled_dot_product_efficient_attention", types=("f32", "bf16", "f16"), oracle=efficient_oracle,
       view=lambda r: [r[0], r[1][..., : r[0].shape[2]]])(efficient)  # fmt: skip


def efficient_gradient_oracle(
    grad_out_: Any, query: Any, key: Any, value: Any, attn_bias: Any, grad_input_mask: list[bool], is_causal: bool,
    scale: Any, **_: Any
) -> list[Any]:  # fmt: skip
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (query, key, value, attn_bias)]
        result = scores_of(leaves[0], leaves[1], leaves[3], is_causal, scale).softmax(-1) @ leaves[2]
        grads = torch.autograd.grad(result, leaves, grad_out_)
    return [g if wanted else None for g, wanted in zip(grads, grad_input_mask, strict=True)]


# There is no gradient of the bias here, and an error for who asks.
@recipe("_scaled_dot_product_efficient_attention_backward", types=("f32",), oracle=efficient_gradient_oracle)
def efficient_gradient(d: Any) -> Args:
    given = efficient(d)
    given["attn_bias"] = d.plain(*given["query"].shape[:3], given["key"].shape[2])
    out, sums = efficient_oracle(**given | {"compute_log_sumexp": True})
    rows = -(-sums.shape[-1] // 32) * 32
    none = torch.zeros((), dtype=torch.int64)
    return given | {"out": out, "logsumexp": torch.nn.functional.pad(sums, (0, rows - sums.shape[-1])), "philox_seed": none,
                    "philox_offset": none, "grad_out_": d.plain(*out.shape),
                    "grad_input_mask": [*(d.flag() for _ in range(3)), False]}  # fmt: skip


def flash_oracle(query: Any, key: Any, value: Any, is_causal: bool, scale: Any, **_: Any) -> list[torch.Tensor]:
    return efficient_oracle(query, key, value, None, True, 0.0, is_causal, scale)


def flash(d: Any) -> Args:
    given = efficient(d)
    width = given["query"].shape[-1]
    value = d.plain(*given["key"].shape[:3], width)
    return {k: given[k] for k in ("query", "key", "dropout_p", "is_causal", "scale")} | {
        "value": value, "return_debug_mask": False}  # fmt: skip


# torch has it for CUDA only. What follows the sums is sizes, the state of the generator and an empty mask.
recipe("_scaled_dot_product_flash_attention", types=("f32", "bf16", "f16"), oracle=flash_oracle,
       view=lambda r: [r[0], r[1]])(flash)  # fmt: skip


def flash_gradient_oracle(
    grad_out: Any, query: Any, key: Any, value: Any, is_causal: bool, scale: Any, **_: Any
) -> list[Any]:
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (query, key, value)]
        result = scores_of(leaves[0], leaves[1], None, is_causal, scale).softmax(-1) @ leaves[2]
        return list(torch.autograd.grad(result, leaves, grad_out))


@recipe("_scaled_dot_product_flash_attention_backward", types=("f32",), oracle=flash_gradient_oracle)
def flash_gradient(d: Any) -> Args:
    given = flash(d)
    out, sums = flash_oracle(**given)
    del given["return_debug_mask"]
    none = torch.zeros((), dtype=torch.int64)
    return given | {"out": out, "logsumexp": sums, "grad_out": d.plain(*out.shape), "cum_seq_q": None, "cum_seq_k": None,
                    "max_q": out.shape[2], "max_k": given["key"].shape[2], "philox_seed": none,
                    "philox_offset": none}  # fmt: skip


# ---- groups of products
def grouped_oracle(
    self: Any, mat2: Any, offs: Any, out_dtype: Any, scale_a: Any = None, scale_b: Any = None, **_: Any
) -> torch.Tensor:
    left, right = self.dim(), mat2.dim()
    groups = self.shape[0] if left == 3 else mat2.shape[0] if right == 3 else len(offs)
    ends = offs.tolist() if offs is not None else []
    if isinstance(scale_a, list):
        scale_a, scale_b = scale_a[0], scale_b[0]
    elif scale_a is None:
        times = groups if left == right == 2 else 1
        scale_a, scale_b = (
            torch.ones(n, dtype=torch.float64) for n in (times * self.shape[-2], times * mat2.shape[-1])
        )
        scale_a, scale_b = (s.expand(groups, -1) if d == 3 else s for s, d in ((scale_a, left), (scale_b, right)))
    if left == right == 2:
        scale_a, scale_b = scale_a.view(groups, -1), scale_b.view(groups, -1)
    shape = (self.shape[-2], mat2.shape[-1])
    out = torch.zeros(shape if left != right else (groups, *shape), dtype=torch.float64)
    for g in range(groups):
        part = slice(ends[g - 1] if g else 0, ends[g]) if ends else slice(None)
        a = self[g] if left == 3 else self[:, part] if right == 2 else self[part]
        b = mat2[g] if right == 3 else mat2[part] if left == 2 else mat2[:, part]
        sa = scale_a[g] if left == 3 or right == 2 else scale_a[part]
        sb = scale_b[g] if right == 3 or left == 2 else scale_b[part]
        out[g if left == right else part if left == 2 else (slice(None), part)] = (
            (a.double() @ b.double()) * sa.double()[:, None] * sb.double()
        )
    return out.to(out_dtype)


# torch has those with scales for CUDA only, and the other leaves what no group reaches to chance.
@recipe("_grouped_mm", types=("f32", "bf16", "f16"), oracle=grouped_oracle)
@recipe("_scaled_grouped_mm", "_scaled_grouped_mm_v2", types=("f8e4m3fn",), oracle=grouped_oracle)
def grouped(d: Any) -> Args:
    left, right, groups = d.int(2, 3), d.int(2, 3), d.int(1, 3)
    m, k, n = (16 * d.int(1, 3) for _ in range(3))
    # The size that is cut is the one that only a matrix has.
    cut = {(2, 3): m, (3, 2): n, (2, 2): k}.get((left, right))
    ends = sorted(16 * d.int(0, cut // 16) for _ in range(groups - 1)) if cut else []
    offs = (
        torch.tensor([*ends, 16 * d.int(ends[-1] // 16 if ends else 0, cut // 16)], dtype=torch.int32) if cut else None
    )

    def bytes_of(*shape: int) -> torch.Tensor:
        return d.plain(*shape, dtype=torch.float32).contiguous().to(d.dtype)

    def scales(whole: bool, n: int) -> torch.Tensor:
        shape = (groups, n) if whole else (groups * n,) if left == right == 2 else (n,)
        return d.plain(*shape, dtype=torch.float32, low=0.5, high=1.5).contiguous()

    a = bytes_of(*([groups] if left == 3 else []), m, k)
    b = bytes_of(*([groups] if right == 3 else []), n, k).transpose(-2, -1)
    given: Args = {"self": a, "mat2": b, "offs": offs, "out_dtype": torch.bfloat16, "use_fast_accum": False}
    if d.name == "_grouped_mm":
        del given["use_fast_accum"]
        return given | {"out_dtype": d.dtype}
    sa, sb = scales(left == 3, m), scales(right == 3, n)
    if "v2" not in d.name:
        return given | {"scale_a": sa, "scale_b": sb}
    return given | {
        "scale_a": [sa],
        "scale_b": [sb],
        "recipe_a": [1],
        "recipe_b": [1],
        "swizzle_a": [0],
        "swizzle_b": [0],
    }


# ---- sparse layouts
def parts(t: torch.Tensor) -> list[Any]:
    """The parts of a sparse tensor."""
    if t.layout == torch.sparse_coo:
        return [t._indices(), t._values(), list(t.shape), t.is_coalesced()]
    rows = t.layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())
    return [*indices, t.values(), list(t.shape), str(t.layout)]


@recipe("_to_sparse", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc",
        types=("f32", "bf16", "i64", "b8", "f64", "c64"), view=parts, bad={"dense_dim": [9], "sparse_dim": [9, -1]})  # fmt: skip
def to_sparse(d: Any) -> Args:
    block = d.ints(2, 1, 3)
    layout = d.pick(None, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    blocked = "_bs" in d.name or layout in (torch.sparse_bsr, torch.sparse_bsc)
    flat = (d.name == "_to_sparse" and layout in (None, torch.sparse_coo)) or "sparse_dim" in d.name
    if flat:
        shape = d.any_shape()
    else:
        sizes = [s * d.int(1, 3) for s in block] if blocked else d.ints(2, 1, 5)
        shape = (*d.ints(0 if blocked else d.int(0, 1), 1, 2), *sizes)
    x = d.tensor(shape, domain=(0, 3))
    # Every matrix of a batch needs as many elements; none at all is as many.
    x = x * (d.tensor(shape, torch.bool) if len(shape) < 3 or flat else d.int(0, 1))
    given = {"self": x.to(d.dtype), "layout": layout, "blocksize": block if blocked else None, "dense_dim": None}
    if "sparse_dim" in d.name:
        given["sparse_dim"] = d.int(min(1, len(shape)), len(shape))
    return given


@recipe("_validate_compressed_sparse_indices", types=("i64", "i32"))
def compressed(d: Any) -> Args:
    """Mostly what holds together, and now and then one number that does not."""
    rows, columns = d.int(1, 4), d.int(1, 4)
    lines = [sorted({d.int(0, columns - 1) for _ in range(d.int(0, 3))}) for _ in range(rows)]
    ends = torch.tensor([0, *(len(line) for line in lines)]).cumsum(0).to(d.dtype)
    plain = torch.tensor([c for line in lines for c in line]).to(d.dtype)
    nnz = len(plain)
    wrong = d.int(0, 5)
    if wrong == 0:
        ends[d.int(0, rows)] += d.pick(1, -1)
    elif wrong == 1 and nnz:
        plain[d.int(0, nnz - 1)] = d.pick(-1, columns, 0)
    return {"is_crow": d.flag(), "compressed_idx": ends, "plain_idx": plain, "cdim": rows, "dim": columns, "nnz": nnz}
