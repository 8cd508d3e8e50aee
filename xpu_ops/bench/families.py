"""Benchmark rows of the manifest's remaining operators, at about a million elements: with these every native operator that
computes has a row (tests/perf/test_bench_rows.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from xpu_ops._paths import manifest

from .core import Case, with_gradients

Rows = dict[str, tuple[Any, ...]]  # name: function, its arguments
SIDE = 1000


def _cases(section: str, rows: Rows, check: bool = True) -> Iterator[Case]:
    for name, (function, *args) in rows.items():
        yield Case(section, name, function, tuple(args), check=check)


def foreach() -> Iterator[Case]:
    """Every operator over lists, from its schema: ten tensors of 1e5 elements."""
    for row in manifest()["rows"]:
        if not row["op"].startswith("_foreach_"):
            continue
        base, _, overload = row["op"].partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        args: list[Any] = []
        for arg in op._schema.arguments:
            if str(arg.type) == "List[Tensor]":
                args.append([torch.rand(100_000) / 2 + 0.25 for _ in range(10)])
            elif not arg.has_default_value():
                args.append(0.5)
        yield Case("foreach", row["op"], op, tuple(args), check=not base.endswith("_"))
    found, scale = torch.zeros(1), torch.ones(1)
    grads = [torch.rand(100_000) for _ in range(10)]
    yield from _cases("foreach", {
        "_amp_foreach_non_finite_check_and_unscale_": (torch._amp_foreach_non_finite_check_and_unscale_, grads, found, scale),
        "_amp_update_scale_": (lambda s, n, f: torch._amp_update_scale_(s, n, f, 2.0, 0.5, 2000), scale, torch.zeros(1, dtype=torch.int32), found),
        "_fused_adam_": (_adam, grads, grads, [g * 0 for g in grads], [g * 0 for g in grads], [torch.ones(()) for _ in grads]),
    }, check=False)  # fmt: skip


def _adam(params: Any, grads: Any, first: Any, second: Any, steps: Any) -> None:
    torch._fused_adam_(
        params, grads, first, second, [], steps, lr=1e-9, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8,
        amsgrad=False, maximize=False,
    )  # fmt: skip


def reductions(m: torch.Tensor) -> Rows:
    return {
        "nansum": (torch.nansum, m),
        "prod dim=-1": (lambda t: t.prod(-1), m),
        "amin": (torch.amin, m),
        "aminmax": (torch.aminmax, m),
        "aminmax dim=-1": (lambda t: torch.aminmax(t, dim=-1), m),
        "argmin": (torch.argmin, m),
        "argmin dim=0": (lambda t: t.argmin(0), m),
        "min": (torch.min, m),
        "min dim=-1": (lambda t: t.min(-1), m),
        "all": (torch.all, m),
        "all dim=-1": (lambda t: t.all(-1), m),
        "any of bool dim=0": (lambda t: (t > 2).any(0), m),
        "all dims": (lambda t: torch.all(t, dim=(0, 1)), m),
        "count_nonzero dim=-1": (lambda t: torch.count_nonzero(t, dim=-1), m),
        "equal": (lambda t: torch.equal(t, t + 0), m),
        "std dim=0": (lambda t: t.std(0), m),
        "sum of i64": (torch.sum, (m * 100).long()),
        "sum of bool": (torch.sum, m > 0.5),
        "hash_tensor": (torch.hash_tensor, m),
    }


def losses(m: torch.Tensor) -> Rows:
    other, sign = m.flip(0), (m > 0.5).float() * 2 - 1
    target, image = torch.randint(0, SIDE, (SIDE,)), torch.randn(4, 21, 110, 110)
    labels, many = torch.randint(0, 21, (4, 110, 110)), torch.randint(0, 2, (SIDE, SIDE))
    pairs: Rows = {
        "mse": (F.mse_loss, m, other),
        "smooth_l1": (F.smooth_l1_loss, m, other),
        "huber": (F.huber_loss, m, other),
        "binary_cross_entropy": (F.binary_cross_entropy, m, other),
        "binary_cross_entropy with logits": (F.binary_cross_entropy_with_logits, m, other),
        "nll": (F.nll_loss, m, target),
        "cross_entropy": (F.cross_entropy, m, target),
        "nll 2d": (F.nll_loss, image, labels),
        "cross_entropy 2d": (F.cross_entropy, image, labels),
        "soft margin": (lambda t, s: F.soft_margin_loss(t, s.float()), m, sign.long()),
        "multi_margin": (F.multi_margin_loss, m, target),
        "multilabel_margin": (F.multilabel_margin_loss, m, many),
        "ctc": (_ctc, torch.randn(100, 16, 32), torch.randint(1, 32, (16, 30))),
    }
    return pairs | {f"{k} backward": (with_gradients(f), *args) for k, (f, *args) in pairs.items()}


def _ctc(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(-1), target, [100] * 16, [30] * 16)


def normalization() -> Rows:
    x, w, b = torch.randn(4, 64, 62, 62), torch.rand(64) + 0.5, torch.randn(64)
    rows, direction, size = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.rand(1024, 1) + 0.5
    mask = torch.zeros(4, 512, 512, dtype=torch.bool)
    mask[:, :, 400:] = True
    mean, invstd = torch.randn(64) / 10, torch.rand(64) + 0.5

    def weight_norm(v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return torch._weight_norm(v, g, 0)

    return {
        "group_norm": (lambda t, w, b: F.group_norm(t, 8, w, b), x, w, b),
        "rms_norm backward": (with_gradients(lambda t, w: F.rms_norm(t, (1024,), w)), rows, torch.rand(1024)),
        "weight_norm": (weight_norm, direction, size),
        "weight_norm backward": (with_gradients(weight_norm), direction, size),
        "batch_norm_update_stats": (lambda t, m, v: torch.batch_norm_update_stats(t, m, v, 0.0), x, mean.clone(), invstd.clone()),
        "native_group_norm": (lambda t, w, b: torch.native_group_norm(t, w, b, 4, 64, 62 * 62, 8, 1e-5)[0], x, w, b),
        "masked softmax backward": (with_gradients(lambda t, k: torch._masked_softmax(t, k.bool(), 2, 2)), torch.randn(4, 512, 512), mask.int()),
        "masked softmax": (lambda t, k: torch._masked_softmax(t, k, 2, 2), torch.randn(4, 512, 512), mask),
        "local_response_norm": (lambda t: F.local_response_norm(t, 5), x),
        "softmax of f16": (lambda t: t.half().softmax(-1), rows),
    }  # fmt: skip


def pooling() -> Rows:
    x = torch.randn(2, 16, 16, 44, 44)
    ratio = torch.randint(0, 100, (2, 16, 3))

    def fractional(t: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return F.fractional_max_pool3d(t, 2, output_size=(8, 22, 22), _random_samples=r / 100)

    pairs: Rows = {
        "max_pool3d": (lambda t: F.max_pool3d(t, 2), x),
        "avg_pool3d": (lambda t: F.avg_pool3d(t, 2), x),
        "adaptive_avg_pool3d": (lambda t: F.adaptive_avg_pool3d(t, (4, 7, 7)), x),
        "adaptive_max_pool3d": (lambda t: F.adaptive_max_pool3d(t, (4, 7, 7)), x),
        "fractional_max_pool3d": (fractional, x, ratio),
        "max_unpool3d": (lambda t: F.max_unpool3d(*F.max_pool3d(t, 2, return_indices=True), 2), x),
    }
    for mode in ("reflect", "replicate"):
        pairs[f"{mode} pad 1d"] = (lambda t, m=mode: F.pad(t, (3, 5), mode=m), torch.randn(16, 64, 1000))
        pairs[f"{mode} pad 3d"] = (lambda t, m=mode: F.pad(t, (3, 5, 1, 2, 2, 1), mode=m), x)
    pairs["nearest-exact 1d"] = (lambda t: F.interpolate(t, scale_factor=2, mode="nearest-exact"), x[0, 0])
    pairs["nearest-exact 3d"] = (lambda t: F.interpolate(t, scale_factor=2, mode="nearest-exact"), x)
    image = torch.rand(4, 3, 224, 224)
    pairs["lanczos x0.6"] = (lambda t: torch.ops.aten._upsample_lanczos2d_aa(t, (134, 134), False, None), image)
    return pairs | {f"{k} backward": (with_gradients(f), a[:1][0], *a[1:]) for k, (f, *a) in pairs.items()}


def products() -> Rows:
    a, b, c = torch.randn(32, 128, 64), torch.randn(32, 64, 128), torch.randn(32, 128, 128)
    x, w, bias = torch.randn(512, 512), torch.randn(512, 512), torch.randn(512)
    eight = torch.randint(-128, 128, (512, 512), dtype=torch.int8)
    half = x.bfloat16()
    packed = torch.randint(0, 256, (512, 256), dtype=torch.uint8)
    both = torch.rand(512 // 32, 512, 2).bfloat16()
    vector = torch.randn(1_000_000)

    def four_bits(t: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        if t.device.type == "cpu":
            weight = torch._convert_weight_to_int4pack_for_cpu(_nibbles(q).int(), 2)
            return torch._weight_int4pack_mm_for_cpu(t, weight, 32, s)
        return torch._weight_int4pack_mm(t, torch._convert_weight_to_int4pack(q, 2), 32, s)

    return {
        "baddbmm": (torch.baddbmm, c, a, b),
        "addbmm": (torch.addbmm, c[0], a, b),
        "_addmm_activation": (torch._addmm_activation, bias, x, w),
        "vdot": (torch.vdot, vector, vector),
        "weight int8": (torch._weight_int8pack_mm, half, eight, torch.rand(512).bfloat16()),
        "weight int4, packing included": (four_bits, half, packed, both),
        "scaled_mm": (_scaled, x.clamp(-1, 1).to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn), torch.ones(())),
    }


def schemas() -> Rows:
    """Fused schemas of torch that have kernels on the CPU too."""
    x, w, bias, other = torch.randn(512, 512), torch.randn(512, 512), torch.randn(512), torch.randn(512, 512)
    image, kernel = torch.randn(4, 64, 28, 28), torch.randn(64, 64, 3, 3) / 24
    skip = torch.randn(4, 64, 28, 28)
    eight, weight = (x * 30).clamp(0, 255).to(torch.uint8), (w * 30).clamp(-128, 127).to(torch.int8)
    filters = (kernel * 500).clamp(-128, 127).to(torch.int8)
    pixels = (image * 30).clamp(0, 255).to(torch.uint8).contiguous(memory_format=torch.channels_last)
    scales, zeros = torch.rand(512) / 100, torch.zeros(512, dtype=torch.int32)
    where = ([1, 1], [1, 1], [1, 1], 1)
    fused, quantised = torch.ops.mkldnn, torch.ops.onednn

    def linear(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        packed = quantised.qlinear_prepack(w, list(x.shape))
        return quantised.qlinear_pointwise(x, 0.1, 3, packed, s, z, None, 1.0, 0, torch.float32, "none", [], "")

    def conv(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        packed = quantised.qconv_prepack(w, s, 0.1, 3, *where, list(x.shape))
        return quantised.qconv_pointwise(x, 0.1, 3, packed, s, z, None, *where, 1.0, 0, torch.float32, "relu", [], "")

    return {
        "linear_pointwise": (lambda x, w, b: fused._linear_pointwise(x, w, b, "gelu", [], "none"), x, w, bias),
        "linear_pointwise binary": (lambda x, y, w, b: fused._linear_pointwise.binary(x, y, w, b, "add"), x, other, w, bias),
        "convolution_pointwise": (lambda x, w: fused._convolution_pointwise(x, w, None, *where, "relu", [], ""), image, kernel),
        "convolution_pointwise binary": (
            lambda x, y, w: fused._convolution_pointwise.binary(x, y, w, None, *where, "add", 1.0, "relu", [], None),
            image, skip, kernel,
        ),
        "convolution_pointwise_ binary": (
            lambda x, y, w: fused._convolution_pointwise_.binary(y.clone(), x, w, None, *where, "add", 1.0, "relu", [], None),
            image, skip, kernel,
        ),
        "convolution_transpose_pointwise": (
            lambda x, w: fused._convolution_transpose_pointwise(x, w, None, [1, 1], [0, 0], [1, 1], [1, 1], 1, "relu", [], ""),
            image, kernel,
        ),
        "qlinear, packing included": (linear, eight, weight, scales, zeros),
        "qconv, packing included": (conv, pixels, filters, scales[:64], zeros[:64]),
    }  # fmt: skip


def layouts() -> Rows:
    """Sparse operators beside those of selection.py: ten elements per row of a square matrix."""
    n = 10_000
    coo = torch.sparse_coo_tensor(torch.randint(0, n, (2, 10 * n)), torch.rand(10 * n), (n, n)).coalesce()
    csr, dense, small = coo.to_sparse_csr(), torch.rand(n, 16), (torch.rand(512, 512) - 0.9).relu()
    part, ids = small.to_sparse_csr(), coo.indices()

    def gradient(op: Any) -> Any:
        def run(t: torch.Tensor) -> torch.Tensor:
            t = t.detach().requires_grad_()
            values = op(t).coalesce().values()
            # Weighted: the plain sum of a softmax has no gradient but rounding.
            return torch.autograd.grad((values * values.detach().cos()).sum(), t)[0]._values()

        return run

    return {
        "log_softmax": (lambda t: torch.sparse.log_softmax(t, 1)._values(), coo),
        "softmax backward": (gradient(lambda t: torch.sparse.softmax(t, 1)), coo),
        "log_softmax backward": (gradient(lambda t: torch.sparse.log_softmax(t, 1)), coo),
        "sum backward": (gradient(lambda t: torch.sparse.sum(t, 1)), coo),
        "csr sum": (lambda t: torch.sum(t, 1, keepdim=True).values(), csr),
        "csr prod": (lambda t: torch._sparse_csr_prod(t, 1, True).values(), csr),
        "csr mm mean backward": (_reduced, csr, dense),
        "hspmm": (lambda t, d: torch.hspmm(t, d)._values(), coo, dense),
        "sspaddmm": (lambda t, d: torch.sspaddmm(t, t, d)._values(), coo.to_dense()[:512, :512].to_sparse(), small),
        "to_sparse_bsr": (lambda t: t.to_sparse_bsr((16, 16)).values(), small),
        "to_sparse_bsc": (lambda t: t.to_sparse_bsc((16, 16)).values(), small),
        "csr to bsr": (lambda t: t.to_sparse_bsr((16, 16)).values(), part),
        "csr to csc": (lambda t: t.to_sparse_csc().values(), part),
        "row pointers": (lambda i: torch._convert_indices_from_coo_to_csr(i, 10_000), ids[0].contiguous()),
        "rows of pointers": (torch._convert_indices_from_csr_to_coo, csr.crow_indices(), csr.col_indices()),
        "validated csr": (lambda p, c, v: torch.sparse_csr_tensor(p, c, v, (10_000, 10_000), check_invariants=True).values(),
                          csr.crow_indices(), csr.col_indices(), csr.values()),
        "deg2rad": (lambda t: torch.deg2rad(t)._values(), coo),
        "sparse_mask of sparse": (lambda t: t.sparse_mask(t)._values(), coo),
        "norm": (lambda t: torch.native_norm(t), coo),
        "select": (lambda t: t.select(0, 5).to_dense(), coo),
    }  # fmt: skip


def _reduced(t: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    d = d.detach().requires_grad_()
    return torch.autograd.grad(torch.sparse.mm(t, d, "mean").sum(), d)[0]


def _nibbles(q: torch.Tensor) -> torch.Tensor:
    return torch.stack((q & 15, q >> 4), -1).flatten(-2)


def _scaled(a: torch.Tensor, b: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)


def sequences() -> Rows:
    x, h = torch.randn(32, 16, 256), torch.randn(16, 256)
    torch.manual_seed(0)
    lstm, gru = torch.nn.LSTM(256, 256), torch.nn.GRU(256, 256)
    weights, gates = lstm._flat_weights, gru._flat_weights
    heads = torch.nn.MultiheadAttention(256, 8, batch_first=True).eval()
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True).eval()
    attention = [heads.in_proj_weight, heads.in_proj_bias, heads.out_proj.weight, heads.out_proj.bias]
    q = torch.randn(4, 8, 128, 32)

    def run_lstm(x: torch.Tensor, h: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        return torch.lstm(x, (h[None], h[None]), w, True, 1, 0.0, False, False, False)[0]

    def run_gru(x: torch.Tensor, h: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        return torch.gru(x, h[None], w, True, 1, 0.0, False, False, False)[0]

    def multi_head(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        return torch._native_multi_head_attention(x, x, x, 256, 8, *w, None, False)[0]

    def encoder(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        attn, norm, feed = w[:4], w[8:], w[4:8]
        return torch._transformer_encoder_layer_fwd(x, 256, 8, *attn, False, False, 1e-5, *norm, *feed, None, None)

    feed = [layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias]
    norms = [layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias]
    detached = [t.detach() for t in attention + feed + norms]
    return {
        "lstm": (run_lstm, x, h, *(t.detach() for t in weights)),
        "lstm backward": (with_gradients(run_lstm), x, h, *(t.detach() for t in weights)),
        "lstm cell": (_cell, x[0], h, *(t.detach() for t in weights)),
        "lstm cell backward": (with_gradients(_cell), x[0], h, *(t.detach() for t in weights)),
        "gru cell": (torch.gru_cell, x[0], h, *(t.detach() for t in gates)),
        "gru cell backward": (with_gradients(torch.gru_cell), x[0], h, *(t.detach() for t in gates)),
        "gru": (run_gru, x, h, *(t.detach() for t in gates)),
        "gru backward": (with_gradients(run_gru), x, h, *(t.detach() for t in gates)),
        "native_multi_head_attention": (multi_head, x, *detached[:4]),
        "transformer_encoder_layer_fwd": (encoder, x, *detached),
        "attention with bias": (lambda q, m: F.scaled_dot_product_attention(q, q, q, m), q, torch.randn(4, 8, 128, 128)),
    }  # fmt: skip


def _cell(x: torch.Tensor, h: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
    return torch.lstm_cell(x, (h, h), *w)[0]


def quantization(m: torch.Tensor) -> Rows:
    scale, zero = torch.rand(SIDE) / 10 + 0.01, torch.zeros(SIDE)
    one, none = torch.full((1,), 0.1), torch.zeros(1)

    def per_tensor(x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch._fake_quantize_learnable_per_tensor_affine(x, s, z, -128, 127, 1.0)

    def per_channel(x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch._fake_quantize_learnable_per_channel_affine(x, s, z, 0, -128, 127, 1.0)

    def observed(x: torch.Tensor, on: torch.Tensor, *state: torch.Tensor) -> torch.Tensor:
        kept = [t.clone() for t in state]  # or each call would find another range
        return torch.fused_moving_avg_obs_fake_quant(x, on, on, *kept, 0.01, -128, 127, 0)

    return {
        "per tensor": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), m),
        "per tensor, parameters": (lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z.int(), -128, 127), m, one, none),
        "moving average": (observed, m, torch.ones(1, dtype=torch.int32), -one, one, one, none.int()),
        "per channel": (lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z.int(), 0, -128, 127), m, scale, zero),
        "to quint8 and back": (lambda x: torch.quantize_per_tensor(x, 0.1, 5, torch.quint8).dequantize(), m),
        "to qint8 and back, per channel": (
            lambda x, s, z: torch.quantize_per_channel(x, s, z.int(), 0, torch.qint8).dequantize(), m, scale, zero
        ),
        "learnable per tensor": (per_tensor, m, one, none),
        "learnable per tensor backward": (with_gradients(per_tensor), m, one, none),
        "learnable per channel": (per_channel, m, scale, zero),
        "learnable per channel backward": (with_gradients(per_channel), m, scale, zero),
    }  # fmt: skip


def random(m: torch.Tensor) -> Rows:
    return {
        "cauchy": (lambda t: torch.empty_like(t).cauchy_(), m),
        "log_normal": (lambda t: torch.empty_like(t).log_normal_(), m),
        "geometric": (lambda t: torch.empty_like(t).geometric_(0.3), m),
        "random": (lambda t: torch.empty_like(t).random_(), m),
        "randint": (lambda t: torch.randint(0, 1000, t.shape, device=t.device), m),
        "dropout": (lambda t: F.dropout(t, 0.3), m),
        "dropout backward": (with_gradients(lambda t: F.dropout(t, 0.3)), m),
        "rrelu": (lambda t: F.rrelu(t - 0.5, training=True), m),
        "dirichlet": (torch._sample_dirichlet, m[:, :10] + 0.5),
        "dirichlet backward": (lambda t, total: torch._dirichlet_grad(t, t, total), m + 0.1, torch.ones(SIDE, 1).expand(SIDE, SIDE).clone()),
        "gamma backward": (torch._standard_gamma_grad, m + 0.5, m.flip(0) + 0.5),
    }  # fmt: skip


def factories(m: torch.Tensor) -> Rows:
    return {
        "arange": (lambda t: torch.arange(t.numel(), device=t.device), m),
        "range": (lambda t: torch.linspace(0, 1, t.numel(), device=t.device), m),
        "logspace": (lambda t: torch.logspace(0, 1, t.numel(), device=t.device), m),
        "eye": (lambda t: torch.eye(t.shape[0], device=t.device), m),
        "triu": (torch.triu, m),
        "triu_indices": (lambda t: torch.triu_indices(t.shape[0], t.shape[0], device=t.device), m),
        "complex": (torch.complex, m, m),
        "polar": (torch.polar, m, m),
        "nonzero_static": (lambda t: torch.nonzero_static((t > 0.5).view(-1), size=1000), m),
        "unique_dim_consecutive": (lambda t: torch.unique_consecutive(t, dim=0), (m[:, :4] * 2).round()),
        "histogram of bins": (lambda t, b: torch.histogram(t, b).hist, m, torch.linspace(0, 1, 101)),
        "histogram": (lambda t: torch.histogram(t, 100).hist, m),
        "histogramdd": (lambda t: torch.histogramdd(t, [10, 10]).hist, m.view(-1, 2)),
        "segment_reduce backward": (with_gradients(_segments), m),
        "embedding_renorm": (lambda t, i: F.embedding(i, t.clone(), max_norm=1.0), m, torch.randint(0, SIDE, (500,))),
        "embedding_bag weighted backward": (with_gradients(_bag), torch.randint(0, SIDE, (500, 8)), m, torch.rand(500, 8)),
        "mvlgamma": (lambda t: torch.mvlgamma(t + 2, 3), m),
        "deg2rad": (torch.deg2rad, m),
        "isinf": (torch.isinf, m),
        "narrow_copy": (lambda t: torch.narrow_copy(t, 1, 10, 500), m),
    }  # fmt: skip


def _segments(t: torch.Tensor) -> torch.Tensor:
    return torch.segment_reduce(t, "sum", lengths=torch.full((10,), SIDE // 10, device=t.device), axis=0)


def _bag(i: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(i, t, per_sample_weights=w, mode="sum")


def cases() -> Iterator[Case]:
    torch.manual_seed(0)
    m = torch.rand(SIDE, SIDE)
    yield from foreach()
    yield from _cases("reduction 1e+06", reductions(m))
    yield from _cases("loss", losses(m))
    yield from _cases("norm", normalization())
    yield from _cases("pooling", pooling())
    yield from _cases("matmul", products())
    yield from _cases("matmul", schemas())
    yield from _cases("sparse", layouts())
    yield from _cases("sequence", sequences())
    yield from _cases("quantization", quantization(m))
    yield from _cases("sampling 1e+06", random(m), check=False)
    yield from _cases("factory", factories(m))
