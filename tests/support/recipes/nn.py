"""Recipes of the layers: pooling, interpolation, losses, norms, embeddings, convolution."""

from __future__ import annotations

import math
from typing import Any

import torch

from support.recipe import gradient, recipe

Args = dict[str, Any]
TWO = ("f32", "f64")  # gradients of norms: statistics of 16-bit tensors have another type on the CPU


def rank_of(name: str) -> int:
    """The number of spatial dimensions, which operators have in their names."""
    return int(next(c for c in name if c in "123"))


def images(d: Any, n: int, low: int = 3, high: int = 7, ordinary: bool = True) -> torch.Tensor:
    """A batch, or one image, with `n` spatial dimensions."""
    lead = (d.int(0, 2), d.int(1, 4)) if d.flag() else (d.int(1, 3),)
    shape = (*lead, *d.ints(n, low, high))
    return d.plain(*shape) if ordinary else d.tensor(shape)


def batch(d: Any, n: int, low: int = 2, high: int = 6) -> torch.Tensor:
    return d.plain(d.int(0, 2), d.int(1, 4), *d.ints(n, low, high))


# ---- pooling
def window(d: Any, sizes: list[int], dilated: bool) -> Args:
    n = len(sizes)
    kernel = d.ints(n, 1, 3)
    padding = [d.int(0, k // 2) for k in kernel]
    dilation = [d.int(1, 2) if dilated and (k - 1) * 2 + 1 <= s + 2 * p else 1
                for k, s, p in zip(kernel, sizes, padding, strict=True)]  # fmt: skip
    return {"kernel_size": kernel, "stride": d.pick([], d.ints(n, 1, 3)), "padding": padding, "dilation": dilation}


@recipe(
    "max_pool2d_with_indices", "max_pool3d_with_indices", types=("f32", "bf16", "i64", "f16", "f64", "u8"),
    bad={"kernel_size": [[0, 1], [1, 2, 3, 4]], "stride": [[0, 0]], "padding": [[3, 3], [-1, -1]], "dilation": [[0, 0]]},
)  # fmt: skip
def max_pool(d: Any) -> Args:
    x = images(d, rank_of(d.name), ordinary=False)
    return {"self": x, **window(d, list(x.shape[-rank_of(d.name) :]), True)}


@recipe(
    "max_pool2d", "max_pool3d", types=("f32", "bf16", "f16", "f64"),
    bad={"kernel_size": [[0, 1], [1, 2, 3, 4]], "stride": [[0, 0]], "padding": [[3, 3], [-1, -1]], "dilation": [[0, 0]]},
)  # fmt: skip
def max_pool_alone(d: Any) -> Args:
    return max_pool(d)


@recipe(
    "max_pool1d", types=("f32", "bf16", "f16", "f64"),
    bad={"kernel_size": [[0], [1, 2]], "stride": [[0]], "padding": [[3], [-1]], "dilation": [[0]]},
)  # fmt: skip
def max_pool_of_lines(d: Any) -> Args:
    x = d.tensor([*d.ints(2, 1, 4), d.int(3, 9)])
    return {"self": x, **window(d, [x.shape[-1]], True)}


@recipe(
    "avg_pool2d", "avg_pool3d", types=("f32", "bf16", "i64", "f16", "f64"),
    bad={"kernel_size": [[0, 1], [1, 2, 3, 4]], "padding": [[3, 3], [-1, -1]], "divisor_override": [0]},
)  # fmt: skip
def avg_pool(d: Any) -> Args:
    x = images(d, rank_of(d.name))
    return {"self": x, **window(d, list(x.shape[-rank_of(d.name) :]), False), "divisor_override": d.pick(None, 3)}


@recipe("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
        bad={"output_size": [[2]]})  # fmt: skip
def adaptive_avg(d: Any) -> Args:
    return {"self": images(d, rank_of(d.name)), "output_size": d.ints(rank_of(d.name), 1, 5)}


@recipe("adaptive_max_pool2d", "adaptive_max_pool3d", bad={"output_size": [[2], [1, 2, 3, 4]]})
def adaptive_max(d: Any) -> Args:
    return {"self": images(d, rank_of(d.name), ordinary=False), "output_size": d.ints(rank_of(d.name), 1, 5)}


for n in (2, 3):
    gradient(f"max_pool{n}d_with_indices_backward", f"max_pool{n}d_with_indices", indices=1)
    gradient(f"avg_pool{n}d_backward", f"avg_pool{n}d")
    gradient(f"_adaptive_avg_pool{n}d_backward", f"_adaptive_avg_pool{n}d")
    gradient(f"adaptive_max_pool{n}d_backward", f"adaptive_max_pool{n}d", indices=1)
gradient("adaptive_avg_pool3d_backward", "_adaptive_avg_pool3d")


@recipe(
    "fractional_max_pool2d", "fractional_max_pool3d", types=("f32", "bf16", "f64"), bad={"kernel_size": [[9, 9, 9]]}
)
def fractional(d: Any) -> Args:
    n = rank_of(d.name)
    x = images(d, n, ordinary=False)
    kernel = d.ints(n, 1, 3)
    out = [d.int(1, s - k + 1) for s, k in zip(x.shape[-n:], kernel, strict=True)]
    lead = (1, x.shape[0]) if x.dim() == n + 1 else tuple(x.shape[:2])
    samples = d.tensor((*lead, n), domain=(0.05, 0.95))
    return {"self": x, "kernel_size": kernel, "output_size": out, "random_samples": samples}


for n in (2, 3):
    gradient(f"fractional_max_pool{n}d_backward", f"fractional_max_pool{n}d", indices=1, types=("f32", "bf16", "f64"))


@recipe("max_unpool2d", "max_unpool3d", types=("f32", "bf16", "f64"), bad={"output_size": [[1, 1, 1, 1], [1]]})
def unpool(d: Any) -> Args:
    """Windows apart: no place is written twice."""
    n = rank_of(d.name)
    x = images(d, n, 4, 7)
    pool = torch.ops.aten.max_pool2d_with_indices if n == 2 else torch.ops.aten.max_pool3d_with_indices
    values, indices = pool(x.contiguous(), [2] * n, [2] * n)
    return {"self": d.tensor(values.shape), "indices": indices, "output_size": list(x.shape[-n:]),
            "stride": [2] * n, "padding": [0] * n}  # fmt: skip


# ---- interpolation
SCALES = ("scales", "scales_d", "scales_h", "scales_w")


UPSAMPLE = [f"{p}{n}d" for p in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)]
UPSAMPLE += ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"]
ANTIALIASED = ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"]


@recipe(*UPSAMPLE, *ANTIALIASED, types=("f32", "bf16", "f64", "u8"), bad={"output_size": [[0, 0, 0], [1, 1, 1, 1]]})
def upsample(d: Any) -> Args:
    n = rank_of(d.name)
    x, scale = batch(d, n), d.pick(None, None, 0.6, 1.4, 2.0)
    # One column wide, the CPU's antialiased kernels take every row for the first.
    least = 2 if "_aa" in d.name else 1
    if scale is None:
        return {"self": x, "output_size": d.ints(n, least, 9)}
    out = [max(least, int(s * scale)) for s in x.shape[2:]]
    known = (1,) if "_aa" in d.name or "bicubic" in d.name else (1, 2) if "nearest" in d.name and scale != 2 else ()
    if any(o == k * s for o, s in zip(out, x.shape[2:], strict=True) for k in known):
        # Where sizes are equal or double, some of the CPU's kernels ignore the scale and some do not.
        return {"self": x, "output_size": out}
    return {"self": x, "output_size": out, **dict.fromkeys(SCALES, scale)}


for name in (*UPSAMPLE, *ANTIALIASED):
    gradient(f"{name}_backward", name, lambda d, v: {"input_size": list(v["self"].shape)}, types=("f32", "bf16", "f64"))


@recipe("grid_sampler_2d", "grid_sampler_3d", bad={"grid": [torch.ones(1, 2, 2, 7)]})
def grid_sampler(d: Any) -> Args:
    n = rank_of(d.name)
    x = batch(d, n)
    grid = d.tensor((x.shape[0], *d.ints(n, 1, 4), n), domain=(-1.3, 1.3))
    modes = {"interpolation_mode": d.int(0, 2 if n == 2 else 1), "padding_mode": d.int(0, 2)}
    return {"input": x, "grid": grid, **modes, "align_corners": d.flag()}


gradient("grid_sampler_2d_backward", "grid_sampler_2d")
gradient("grid_sampler_3d_backward", "grid_sampler_3d")


# ---- losses
@recipe("mse_loss", "smooth_l1_loss", "huber_loss", bad={"target": [torch.ones(7, 2, 7, 3, 7)]})
def pair_loss(d: Any) -> Args:
    shape = d.any_shape()
    return {"self": d.tensor(shape), "target": d.tensor(shape), "reduction": d.int(0, 2), "beta": d.pick(0.0, 0.5, 1.0),
            "delta": d.pick(0.5, 1.0)}  # fmt: skip


@recipe("binary_cross_entropy")
def cross_entropy(d: Any) -> Args:
    shape = d.any_shape()
    x, y = (d.tensor(shape, domain=(0.0, 1.0)) for _ in range(2))
    if x.numel() and d.flag():  # the edges of the domain
        x, y = x.round(), y.round()
    return {"self": x, "target": y, "weight": d.maybe(lambda: d.tensor(shape, domain=(0.0, 2.0))),
            "reduction": d.int(0, 2)}  # fmt: skip


def labels(d: Any, spatial: tuple[int, ...]) -> Args:
    classes, ignored = d.int(1, 5), d.pick(-100, 0)
    lead = (d.int(0, 4),) if spatial or d.flag() else ()
    x = d.plain(*lead, classes, *spatial)
    target = d.whole((*lead, *spatial), classes)
    if target.numel() and d.flag():
        target = torch.where(target == classes - 1, ignored, target)
    weight = d.maybe(lambda: d.plain(classes, low=0.1))
    return {"self": x, "target": target, "weight": weight, "reduction": d.int(0, 2), "ignore_index": ignored}


@recipe("nll_loss_forward", bad={"target": [torch.tensor([[[1]]])], "weight": [torch.ones(77)]})
def nll(d: Any) -> Args:
    return labels(d, ())


@recipe("nll_loss2d_forward", bad={"target": [torch.tensor([1])], "weight": [torch.ones(77)]})
def nll2d(d: Any) -> Args:
    return labels(d, (d.int(1, 4), d.int(1, 4)))


def of_any(d: Any, x: torch.Tensor) -> int:
    """A reduction: of an empty batch the CPU leaves the margin losses to what the memory held (aten/test_loss.py)."""
    return d.int(0, 2) if x.numel() else 0


@recipe("multi_margin_loss", types=("f32", "f64"), bad={"p": [3], "weight": [torch.ones(77)]})
def margins(d: Any) -> Args:
    given = labels(d, ())
    classes = given["self"].shape[-1]
    return given | {"target": given["target"].clamp(0, classes - 1), "p": d.pick(1, 2), "margin": d.pick(1, 0.5),
                    "reduction": of_any(d, given["self"])}  # fmt: skip


@recipe("multilabel_margin_loss_forward", types=("f32", "f64"), bad={"target": [torch.tensor([[[0]]])]})
def multilabel(d: Any) -> Args:
    x = labels(d, ())["self"]
    target = d.whole(tuple(x.shape), x.shape[-1], low=-1)
    return {"self": x, "target": target, "reduction": of_any(d, x)}


for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"):
    gradient(f"{name}_backward", name)
gradient("nll_loss_backward", "nll_loss_forward", total_weight=1)
gradient("nll_loss2d_backward", "nll_loss2d_forward", total_weight=1)
gradient("multi_margin_loss_backward", "multi_margin_loss", types=("f32", "f64"))
gradient("multilabel_margin_loss_backward", "multilabel_margin_loss_forward", is_target=1, types=("f32", "f64"))


@recipe("_ctc_loss", types=("f32", "f64"), view=lambda r: r[0])
def ctc(d: Any) -> Args:
    steps, rows, classes, longest = d.int(2, 8), d.int(1, 3), d.int(2, 5), d.int(1, 4)
    target = d.ints(rows, 0, longest)
    lengths = d.ints(rows, 1, steps)
    targets = d.whole((rows, longest) if d.flag() else (sum(target),), classes, low=1)
    many = torch.tensor if d.name.endswith(".Tensor") else list
    log_probs = torch.log_softmax(d.plain(steps, rows, classes), -1)
    return {"log_probs": log_probs, "targets": targets, "input_lengths": many(lengths), "target_lengths": many(target),
            "blank": 0, "zero_infinity": d.flag()}  # fmt: skip


for name in ("_ctc_loss_backward", "_ctc_loss_backward.Tensor"):
    gradient(name, name.replace("_backward", ""), neg_log_likelihood=0, log_alpha=1, types=("f32", "f64"))


# ---- norms
def epsilon(d: Any, x: torch.Tensor, dims: list[int]) -> float:
    """One small only where values differ: elsewhere it makes one last place of their mean 1/sqrt(eps) times as large."""
    least = x.double().var(dims, correction=0).min() if x.numel() else 0.0
    return d.pick(1e-5, 0.1) if least > 0.1 else 0.1


def layer_norm(d: Any) -> Args:
    shape = (*d.ints(d.int(0, 3), 0, 4), d.int(1, 40))
    normalized = shape[-d.int(1, len(shape)) :]
    x = d.plain(*shape)
    return {"input": x, "normalized_shape": list(normalized),
            "eps": epsilon(d, x, list(range(-len(normalized), 0))),
            "weight": d.maybe(lambda: d.plain(*normalized)), "bias": d.maybe(lambda: d.plain(*normalized))}  # fmt: skip


recipe("native_layer_norm", types=TWO, bad={"normalized_shape": [[99], []]})(layer_norm)
recipe("_fused_rms_norm", types=TWO)(layer_norm)


def wanted(d: Any, v: Args) -> Args:
    """Gradients of parameters that are there: of others the CPU has no device to make them on."""
    have = v["weight"] is not None
    return {"output_mask": [d.flag(), have and d.flag(), have and v["bias"] is not None and d.flag()]}


def rms_gradient(
    grad_out: Any, input: Any, normalized_shape: Any, rstd: Any, weight: Any, output_mask: list[bool]
) -> list[Any]:
    dims = list(range(-len(normalized_shape), 0))
    normal = input * rstd
    g = grad_out if weight is None else grad_out * weight
    dx = (g - normal * (g * normal).mean(dims, keepdim=True)) * rstd
    dw = (
        (grad_out * normal).flatten(0, -len(normalized_shape) - 1).sum(0)
        if grad_out.dim() > len(dims)
        else grad_out * normal
    )
    return [dx if output_mask[0] else None, dw if output_mask[1] and weight is not None else None]


gradient("native_layer_norm_backward", "native_layer_norm", wanted, mean=1, rstd=2, types=TWO)
gradient("_fused_rms_norm_backward", "_fused_rms_norm", rstd=1, types=TWO, oracle=rms_gradient)


@recipe("native_group_norm", "group_norm", types=TWO, bad={"group": [77], "num_groups": [77, 0]})
def group_norm(d: Any) -> Args:
    group = d.int(1, 3)
    shape = (d.int(1, 3), group * d.int(1, 3), *d.ints(d.int(1, 2), 1, 5))
    channels, x = shape[1], d.plain(*shape)
    return {"input": x, "N": shape[0], "C": channels, "HxW": math.prod(shape[2:]), "group": group,
            "eps": epsilon(d, x.reshape(shape[0] * group, -1), [1]), "weight": d.maybe(lambda: d.plain(channels)),
            "bias": d.maybe(lambda: d.plain(channels)), "num_groups": group}  # fmt: skip


# Of tensors that are not dense the CPU reads what is not theirs.
gradient("native_group_norm_backward", "native_group_norm",
         lambda d, v: wanted(d, v) | {k: v[k].contiguous() for k in ("grad_out", "input")},
         mean=1, rstd=2, types=TWO)  # fmt: skip


@recipe(
    "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "batch_norm_update_stats", types=TWO
)
def batch_norm(d: Any) -> Args:
    shape = (d.int(2, 4), d.int(1, 4), *d.ints(d.int(0, 2), 1, 4))
    channels = shape[1]
    mean, var = d.own((channels,), domain=(-1, 1)), d.own((channels,), domain=(0.5, 2))
    x = d.plain(*shape)
    return {"input": x, "weight": d.maybe(lambda: d.plain(channels)),
            "bias": d.maybe(lambda: d.plain(channels)), "running_mean": mean, "running_var": var,
            "training": True,  # the statistics that evaluation saves are the CPU's own: test_batch_norm_family
            "momentum": 0.1, "eps": epsilon(d, x, across(x)[0])}  # fmt: skip


def batch_norm_rest(d: Any, v: Args) -> Args:
    return {"train": v["training"], "weight": v["weight"]}


gradient("native_batch_norm_backward", "native_batch_norm", batch_norm_rest, save_mean=1, save_invstd=2, types=TWO)
gradient(
    "batch_norm_backward", "_batch_norm_with_update",
    lambda d, v: {"update": True, "weight": torch.ones_like(v["running_mean"]) if v["weight"] is None else v["weight"]},
    save_mean=1, save_var=2, reserve=3, types=TWO,
)  # fmt: skip


def across(x: torch.Tensor) -> tuple[list[int], list[int]]:
    """The dims that batch norm reduces, and the shape of its statistics beside `x`."""
    return [i for i in range(x.dim()) if i != 1], [1, -1] + [1] * (x.dim() - 2)


def stats_oracle(input: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    dims, _ = across(input)
    var, mean = torch.var_mean(input, dims, correction=0)
    return mean, (var + eps).rsqrt()


def elemt_oracle(input: torch.Tensor, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> torch.Tensor:
    _, view = across(input)
    y = (input - mean.view(view)) * invstd.view(view)
    y = y if weight is None else y * weight.view(view)
    return y if bias is None else y + bias.view(view)


def gather_oracle(
    input: Any, mean: Any, invstd: Any, running_mean: Any, running_var: Any, momentum: float, eps: float, counts: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.as_tensor(counts, dtype=mean.dtype).expand(mean.shape[0]).unsqueeze(1)
    n = weights.sum()
    total = (mean * weights).sum(0) / n
    var = ((invstd**-2 - eps + (mean - total) ** 2) * weights).sum(0) / n
    if running_mean is not None:
        running_mean.lerp_(total, momentum)
        running_var.lerp_(var * n / (n - 1), momentum)
    return total, (var + eps).rsqrt()


def reduce_oracle(
    grad_out: Any, input: Any, mean: Any, invstd: Any, weight: Any, input_g: bool, weight_g: bool, bias_g: bool
) -> list[Any]:
    dims, view = across(input)
    total = grad_out.sum(dims)
    centered = (grad_out * (input - mean.view(view))).sum(dims)
    return [total if input_g else None, centered if input_g else None, centered * invstd if weight_g else None,
            total if bias_g else None]  # fmt: skip


def backward_oracle(
    grad_out: Any, input: Any, mean: Any, invstd: Any, weight: Any, sum_dy: Any, sum_dy_xmu: Any, count: Any
) -> torch.Tensor:
    _, view = across(input)
    n = count.sum()
    g = grad_out - (sum_dy / n).view(view)
    g = g - (input - mean.view(view)) * (invstd**2 * sum_dy_xmu / n).view(view)
    return g * invstd.view(view) * (1 if weight is None else weight.view(view))


def pieces(d: Any) -> Args:
    shape = (d.int(2, 4), d.int(1, 4), *d.ints(d.int(0, 2), 1, 4))
    channels, parts = shape[1], d.int(1, 3)
    own = {n: d.own((channels,), domain=(0.5, 2)) for n in ("running_mean", "running_var")}
    if d.flag():
        own = dict.fromkeys(own)
    lead = (parts, channels) if "gather" in d.name else (channels,)
    x = d.plain(*shape)
    return {"input": x, "mean": d.plain(*lead, low=-1, high=1), "invstd": d.plain(*lead, low=0.5, high=2),
            "weight": d.maybe(lambda: d.plain(channels)), "bias": d.maybe(lambda: d.plain(channels)), **own,
            "momentum": 0.1, "eps": epsilon(d, x, across(x)[0]), "grad_out": d.plain(*shape), "sum_dy": d.plain(channels),
            "sum_dy_xmu": d.plain(channels), "input_g": d.flag(), "weight_g": d.flag(), "bias_g": d.flag(),
            "counts": d.plain(parts, low=2, high=9).round()}  # fmt: skip


recipe("batch_norm_stats", oracle=stats_oracle, types=TWO)(pieces)
recipe("batch_norm_elemt", oracle=elemt_oracle, types=TWO)(pieces)
recipe("batch_norm_elemt.out", oracle=lambda out, **r: out.copy_(elemt_oracle(**r)), types=TWO)(
    lambda d: (lambda given: given | {"out": torch.empty(given["input"].shape, dtype=d.dtype)})(pieces(d))
)
recipe("batch_norm_gather_stats", oracle=lambda count, **r: gather_oracle(**r, counts=count), types=TWO)(
    lambda d: pieces(d) | {"count": d.int(2, 9)}
)
recipe("batch_norm_gather_stats_with_counts", oracle=gather_oracle, types=TWO)(pieces)
recipe("batch_norm_backward_reduce", oracle=reduce_oracle, types=TWO)(pieces)
recipe("batch_norm_backward_elemt", oracle=backward_oracle, types=TWO)(
    lambda d: pieces(d) | {"count": torch.tensor([d.int(2, 9)], dtype=torch.int32)}
)


# The norms get the strides of g on the CPU, which then writes them one after another: beyond what it allocated where g is
# expanded, which broke the heap. Of a v that is not dense it mixes up the rows.
@recipe("_weight_norm_interface", types=("f32", "f64"), strides=False)
def weight_norm(d: Any) -> Args:
    shape = d.ints(d.int(2, 3), 1, 5)
    dim = d.pick(0, len(shape) - 1)
    return {"v": d.plain(*shape, low=0.5).contiguous(), "dim": dim,
            "g": d.plain(*[n if i == dim else 1 for i, n in enumerate(shape)]).contiguous()}  # fmt: skip


gradient(
    "_weight_norm_interface_backward", "_weight_norm_interface",
    # The CPU reads a gradient in another layout as if it were contiguous.
    lambda d, v: {"saved_v": v["v"], "saved_g": v["g"], "grad_w": v["grad_w"].contiguous()},
    saved_norms=1, types=("f32", "f64"),
)  # fmt: skip


# ---- embeddings
@recipe("embedding", bad={"indices": [torch.tensor([99]), torch.tensor([0.5])]})
def embedding(d: Any) -> Args:
    rows = d.int(1, 9)
    indices = d.whole(d.any_shape(), rows)
    return {"weight": d.tensor((rows, d.int(1, 20))), "indices": indices.int() if d.flag() else indices,
            "sparse": False}  # fmt: skip


gradient(
    "embedding_dense_backward", "embedding",
    lambda d, v: {"num_weights": v["weight"].shape[0], "padding_idx": d.pick(-1, 0), "scale_grad_by_freq": d.flag()},
)  # fmt: skip


@recipe("embedding_renorm_", types=("f32", "f64"))
def renorm(d: Any) -> Args:
    rows = d.int(1, 9)
    weight = d.own((rows, d.int(1, 20)), domain=(-3, 3))
    return {"self": weight, "indices": d.whole((d.int(1, 9),), rows), "max_norm": d.pick(0.5, 2.0),
            "norm_type": d.pick(1.0, 2.0, 3.0, math.inf)}  # fmt: skip


def bags(d: Any) -> Args:
    rows, n, mode = d.int(1, 9), d.int(1, 12), d.int(0, 2)
    cuts = sorted(d.ints(d.int(0, 4), 0, n))
    last = d.flag()
    offsets = torch.tensor([0, *cuts, *([n] if last else [])])
    weights = d.maybe(lambda: d.plain(n)) if mode == 0 else None
    return {"weight": d.plain(rows, d.int(1, 20)), "indices": d.whole((n,), rows), "offsets": offsets, "mode": mode,
            "sparse": False, "scale_grad_by_freq": False, "per_sample_weights": weights, "include_last_offset": last,
            "padding_idx": d.pick(-1, -1, 0)}  # fmt: skip


# Of the other results CPU and this device keep different parts, each what its own gradient needs.
recipe("_embedding_bag", "_embedding_bag_forward_only", view=lambda r: r[0])(bags)


def exact_bags(indices: Any, offset2bag: Any, bag_size: Any, **rest: Any) -> torch.Tensor:
    """Scaled by how often a row is named: the CPU takes the number of another row (its `counts[indices_data[i]]`)."""
    op = torch.ops.aten._embedding_bag_backward if "offsets" in rest else torch.ops.aten._embedding_bag_dense_backward
    if not rest["scale_grad_by_freq"]:
        return op(indices=indices, offset2bag=offset2bag, bag_size=bag_size, **rest)
    grad, weights = rest["grad"], rest["per_sample_weights"]
    each = grad[offset2bag] / indices.bincount()[indices, None]
    each = each / bag_size[offset2bag, None] if rest["mode"] == 1 else each
    each = each if weights is None else each * weights[:, None]
    return grad.new_zeros(rest["num_weights"], grad.shape[1]).index_add_(0, indices, each)


def bag_gradient(d: Any) -> Args:
    """The bag of each index is the same on every device; the CPU tells which rows were largest."""
    given = bags(d) | {"padding_idx": -1}
    n, rows = given["indices"].numel(), given["weight"].shape[0]
    starts = given["offsets"].tolist()
    ends = starts[1:] if given["include_last_offset"] else [*starts[1:], n]
    sizes = [e - s for s, e in zip(starts, ends, strict=False)]
    bag = torch.repeat_interleave(torch.tensor(sizes, dtype=torch.long))
    largest = torch.ops.aten._embedding_bag(given["weight"], given["indices"], given["offsets"], False, given["mode"],
                                            False, None, given["include_last_offset"])[3]  # fmt: skip
    largest = torch.where(torch.tensor(sizes)[:, None] == 0, -1, largest) if largest.dim() == 2 else largest
    grad = d.plain(len(sizes), given["weight"].shape[1])
    mode = 0 if "per_sample" in d.name else given["mode"]
    return given | {"grad": grad, "mode": mode, "offset2bag": bag, "bag_size": torch.tensor(sizes), "num_weights": rows,
                    "maximum_indices": largest,
                    "scale_grad_by_freq": mode != 2 and d.flag()}  # fmt: skip


recipe("_embedding_bag_per_sample_weights_backward", types=("f32", "f64"))(bag_gradient)
recipe("_embedding_bag_backward", "_embedding_bag_dense_backward", types=("f32", "f64"), oracle=exact_bags)(
    bag_gradient
)


# ---- convolution
def convolution_oracle(input: torch.Tensor, **rest: Any) -> torch.Tensor:
    return torch.ops.aten.convolution(input=input, **rest)


def convolution_gradient(grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, **rest: Any) -> Any:
    channels = weight.shape[1] * rest["groups"] if rest["transposed"] else weight.shape[0]
    results = torch.ops.aten.convolution_backward(grad_output=grad_output, input=input, weight=weight,
                                                  bias_sizes=[channels], **rest)  # fmt: skip
    # The CPU's oneDNN kernels give what nobody asked for too.
    return [r if wanted else None for r, wanted in zip(results, rest["output_mask"], strict=True)]


@recipe("convolution_overrideable", oracle=convolution_oracle, types=("f32", "bf16", "i64", "f64", "c64"))
def convolution(d: Any) -> Args:
    n, groups, transposed = d.int(1, 3), d.int(1, 2), d.flag()
    inner, outer = groups * d.int(1, 3), groups * d.int(1, 3)
    kernel, stride, dilation = d.ints(n, 1, 3), d.ints(n, 1, 2), d.ints(n, 1, 2)
    padding = [d.int(0, k - 1) for k in kernel]
    extra = [d.int(0, max(s, g) - 1) for s, g in zip(stride, dilation, strict=True)] if transposed else [0] * n
    sizes = [d.int((k - 1) * g + 1, 8) for k, g in zip(kernel, dilation, strict=True)]
    weight = (inner, outer // groups) if transposed else (outer, inner // groups)
    return {"input": d.plain(d.int(0, 2), inner, *sizes), "weight": d.plain(*weight, *kernel),
            "bias": d.maybe(lambda: d.plain(outer)), "stride": stride, "padding": padding, "dilation": dilation,
            "transposed": transposed, "output_padding": extra, "groups": groups}  # fmt: skip


gradient("convolution_backward_overrideable", "convolution_overrideable", oracle=convolution_gradient,
         types=("f32", "bf16", "f64"))  # fmt: skip
