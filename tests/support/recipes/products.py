"""Recipes of products and what is made of them: matrices, 8-bit and 4-bit weights, attention, recurrent cells, fused layers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from support.recipe import UNDRAWN, recipe

Args = dict[str, Any]
aten = torch.ops.aten
HALVES = ("bf16", "f16")


# ---- matrices
def numbers(d: Any) -> Args:
    whole = not (d.dtype.is_floating_point or d.dtype.is_complex)
    choices = (0, 1, 2, -1) if whole else (0, 1, 0.5, -1)
    if d.dtype == torch.uint8:
        choices = (0, 1, 2, 3)
    return {"beta": d.pick(*choices), "alpha": d.pick(*choices)}


def sizes(d: Any, n: int) -> list[int]:
    return d.pick(d.ints(n, 1, 6), d.ints(n, 0, 3), d.pick([33, 40, 17, 5][:n], [1, 70, 30, 2][:n]))


def broadcastable(d: Any, shape: tuple[int, ...], whole: bool) -> torch.Tensor:
    if whole or d.flag():
        return d.own(shape, domain=(-3, 3))
    shape = tuple(1 if d.flag() else n for n in shape)
    return d.plain(*shape[d.int(0, len(shape)) :])


PRODUCT_TYPES = ("f32", "bf16", "i64", "f16", "f64", "c64", "u8", "i32")
WRONG = torch.ones(77, 77)


@recipe("mm", "addmm", "_addmm_activation", types=PRODUCT_TYPES,
        bad={"mat2": [WRONG, torch.ones(2)], "self": [torch.ones(2, 2, 2)]})  # fmt: skip
def mm(d: Any) -> Args:
    m, k, n = sizes(d, 3)
    a, b = d.plain(m, k), d.plain(k, n)
    if d.name.startswith("mm"):
        return {"self": a, "mat2": b}
    return {"self": broadcastable(d, (m, n), d.writes), "mat1": a, "mat2": b, **numbers(d), "use_gelu": d.flag()}


@recipe("bmm", "baddbmm", "addbmm", types=PRODUCT_TYPES,
        bad={"mat2": [WRONG], "batch2": [WRONG, torch.ones(2)], "self": [torch.ones(2, 2, 2, 2)]})  # fmt: skip
def bmm(d: Any) -> Args:
    b, m, k, n = d.int(0, 3), *sizes(d, 3)
    x, y = d.plain(b, m, k), d.plain(b, k, n)
    if d.name.startswith("bmm"):
        return {"self": x, "mat2": y}
    shape = (m, n) if "addbmm" in d.name and "baddbmm" not in d.name else (b, m, n)
    return {"self": broadcastable(d, shape, d.writes), "batch1": x, "batch2": y, **numbers(d)}


@recipe("addmv", types=PRODUCT_TYPES, bad={"vec": [torch.ones(77), WRONG], "self": [torch.ones(2, 2)]})
def addmv(d: Any) -> Args:
    m, k = sizes(d, 2)
    # Of an empty matrix and a 0-d self, the CPU gives a 0-d result, and not a vector.
    return {
        "self": broadcastable(d, (m,), d.writes or not m or not k),
        "mat": d.plain(m, k),
        "vec": d.plain(k),
        **numbers(d),
    }


@recipe("addr", types=(*PRODUCT_TYPES, "b8"), bad={"vec1": [WRONG], "self": [torch.ones(2, 2, 2), torch.ones(9, 9)]})
def addr(d: Any) -> Args:
    m, n = sizes(d, 2)
    given = {"beta": d.flag(), "alpha": d.flag()} if d.dtype == torch.bool else numbers(d)
    return {"self": broadcastable(d, (m, n), d.writes), "vec1": d.plain(m), "vec2": d.plain(n), **given}


@recipe("dot", "vdot", types=PRODUCT_TYPES, bad={"tensor": [torch.ones(77), WRONG], "other": [torch.ones(77), WRONG]})
def dot(d: Any) -> Args:
    n = d.pick(0, 1, 7, 1000)
    return {"self": d.plain(n), "tensor": d.plain(n), "other": d.plain(n)}


def widened(name: str) -> Any:
    """The meaning of `out_dtype`: the product of wide operands."""

    def product(out_dtype: torch.dtype, **args: Any) -> torch.Tensor:
        wide = {k: v.to(out_dtype) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
        result = getattr(aten, name)(**{k: v for k, v in wide.items() if k != "out"})
        return result if "out" not in args else args["out"].resize_(result.shape).copy_(result)

    return product


def with_out_dtype(make: Any) -> Any:
    def fill(d: Any) -> Args:
        given = make(d) | {"out_dtype": torch.float32}
        return given | ({"out": torch.empty(0)} if d.name.endswith("_out") else {})

    return fill


for name in ("mm", "bmm", "addmm", "baddbmm"):
    for overload in ("dtype", "dtype_out"):
        recipe(f"{name}.{overload}", types=HALVES, oracle=widened(name))(
            with_out_dtype(mm if name in ("mm", "addmm") else bmm)
        )


@recipe("_compute_linear_combination", types=("f32", "f64"))
def combination(d: Any) -> Args:
    k = d.int(1, 4)
    return {"input": d.plain(k, *d.ints(d.int(1, 3), 1, 4)), "coefficients": d.plain(d.int(1, 4), k)}


# ---- 8-bit and 4-bit operands
def bytes_(d: Any, *shape: int, low: int = -100, high: int = 100) -> torch.Tensor:
    return d.whole(shape, high, low).to(torch.int8)


@recipe("_int_mm", types=("i8",), bad={"mat2": [WRONG, WRONG.to(torch.int8)]})
def int_mm(d: Any) -> Args:
    m, k, n = d.ints(3, 1, 40)
    # The out has to be contiguous here.
    out = {"out": torch.empty(0, dtype=torch.int32)} if d.name.endswith("out") else {}
    return out | {"self": bytes_(d, m, k), "mat2": bytes_(d, k, n)}


def exact_int8(self: torch.Tensor, mat2: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (self.double() @ mat2.double().t() * scales.double()).to(self.dtype)


@recipe("_weight_int8pack_mm", oracle=exact_int8, types=("f32", *HALVES))
def int8_weights(d: Any) -> Args:
    m, k, n = d.int(1, 9), d.int(1, 40), d.int(1, 20)
    return {"self": d.tensor((m, k), kinds=("contiguous",), domain=(-1, 1)), "mat2": bytes_(d, n, k),
            "scales": d.tensor((n,), kinds=("contiguous",), domain=(0.01, 0.02))}  # fmt: skip


def nibbles(packed: torch.Tensor) -> torch.Tensor:
    """Values 0..15 of int32 words, the even one of each byte low."""
    two = packed.contiguous().view(torch.uint8)
    return torch.stack((two & 15, two >> 4), -1).flatten(-2).double()


def exact_int4(self: Any, mat2: Any, qGroupSize: int, qScaleAndZeros: Any) -> torch.Tensor:
    scale, zero = (t.double().t().repeat_interleave(qGroupSize, 1) for t in qScaleAndZeros.unbind(-1))
    return (self.double() @ ((nibbles(mat2) - 8) * scale + zero).t()).to(self.dtype)


def exact_int4_zeros(self: Any, mat2: Any, qGroupSize: int, qScale: Any, qZeros: Any) -> torch.Tensor:
    scale, zero = (t.double().t().repeat_interleave(qGroupSize, 1) for t in (qScale, qZeros))
    return (self.double() @ ((nibbles(mat2) - zero) * scale).t()).to(self.dtype)


def int4_weights(d: Any) -> Args:
    group, n = 32, 8 * d.int(1, 4)
    k = group * d.int(1, 3)
    # Groups and rows differ in number: where they are equal, the layout of scales and zeros cannot be told.
    groups = k // group
    packed = d.whole((n, k // 2), 256).to(torch.uint8).view(torch.int32)
    scale, zero = d.plain(groups, n, low=0.01, high=0.1).contiguous(), d.plain(groups, n, low=-1, high=1).contiguous()
    return {"self": d.tensor((d.int(1, 9), k), kinds=("contiguous",), domain=(-1, 1)), "mat2": packed,
            "qGroupSize": group, "qScaleAndZeros": torch.stack((scale, zero), -1), "qScale": scale,
            "qZeros": bytes_(d, groups, n, low=0, high=16)}  # fmt: skip


recipe("_weight_int4pack_mm", oracle=exact_int4, types=("f32", *HALVES))(int4_weights)
recipe("_weight_int4pack_mm_with_scales_and_zeros", oracle=exact_int4_zeros, types=("f32", *HALVES))(int4_weights)
recipe(
    "_convert_weight_to_int4pack",
    types=("u8",),
    oracle=lambda self, innerKTiles: self.view(torch.int32),
)(lambda d: {"self": d.whole((8 * d.int(1, 3), 16 * d.int(1, 4)), 256).to(torch.uint8), "innerKTiles": d.pick(2, 4, 8)})


def exact_scaled(self: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any, out_dtype: Any, **_: Any) -> torch.Tensor:
    product = (self.double() * scale_a.double()) @ (mat2.double() * scale_b.double())
    return (product if bias is None else product + bias.double()).to(out_dtype)


def exact_scaled_v2(scale_a: Any, scale_b: Any, **rest: Any) -> torch.Tensor:
    return exact_scaled(scale_a=scale_a[0], scale_b=scale_b[0], **rest)


def scaled(d: Any) -> Args:
    m, k, n = d.int(1, 20), 16 * d.int(1, 3), 16 * d.int(1, 3)
    rows = d.flag()
    a, b = (d.plain(s, k, dtype=torch.float32).contiguous().to(d.dtype) for s in (m, n))
    sa = d.plain(m, 1, dtype=torch.float32, low=0.1).contiguous() if rows else torch.tensor(0.7)
    sb = d.plain(1, n, dtype=torch.float32, low=0.1).contiguous() if rows else torch.tensor(1.3)
    out = d.pick(torch.float32, torch.bfloat16)
    bias = d.maybe(lambda: d.plain(n, dtype=torch.bfloat16).contiguous()) if out == torch.bfloat16 else None
    given = {"self": a, "mat2": b.t(), "scale_a": sa, "scale_b": sb, "bias": bias, "out_dtype": out}
    if "v2" in d.name:
        recipes = [int(rows)]
        given |= {"scale_a": [sa], "scale_b": [sb], "recipe_a": recipes, "recipe_b": recipes, "swizzle_a": [0],
                  "swizzle_b": [0], "use_fast_accum": False}  # fmt: skip
    return given


def into_out(oracle: Any) -> Any:
    def call(out: Any = None, **rest: Any) -> torch.Tensor:
        result = oracle(**rest)
        return result if out is None else out.resize_(result.shape).copy_(result)

    return call


def with_target(make: Any) -> Any:
    return lambda d: (lambda given: given | {"out": torch.empty(0, dtype=given["out_dtype"])})(make(d))


for name, oracle in (("_scaled_mm", exact_scaled), ("_scaled_mm_v2", exact_scaled_v2)):
    recipe(name, types=("f8e4m3fn", "f8e5m2"), oracle=oracle)(scaled)
    recipe(f"{name}.out", types=("f8e4m3fn",), oracle=into_out(oracle))(with_target(scaled))


# ---- attention
# The result lies as the projection after it wants it, which the CPU does for some masks only.
@recipe("scaled_dot_product_attention", types=("f32", "bf16", "f16", "f64"), strides=False)
def attention(d: Any) -> Args:
    b, heads, shared = d.int(1, 2), d.int(1, 2), d.int(1, 2)
    n, m, width, out = d.int(1, 20), d.int(1, 20), d.int(1, 20), d.int(1, 20)
    mask, causal = d.pick("none", "bool", "float", "causal"), False
    given = None
    if mask == "bool":
        given = d.tensor((b, 1, n, m), torch.bool)
    elif mask == "float":
        given = d.plain(n, m)
    elif mask == "causal":
        causal = True
    return {"query": d.plain(b, heads * shared, n, width), "key": d.plain(b, heads, m, width),
            "value": d.plain(b, heads, m, out), "attn_mask": given, "dropout_p": 0.0, "is_causal": causal,
            "scale": d.pick(None, 0.3), "enable_gqa": shared > 1}  # fmt: skip


def attention_oracle(return_debug_mask: bool, attn_bias: Any, **rest: Any) -> list[Any]:
    return [F.scaled_dot_product_attention(attn_mask=attn_bias, enable_gqa=True, **rest)]


@recipe("_scaled_dot_product_fused_attention_overrideable", types=("f32", "bf16", "f16"), oracle=attention_oracle,
        view=lambda r: [r[0]])  # fmt: skip
def fused_attention(d: Any) -> Args:
    given = attention(d)
    mask = given["attn_mask"]
    bias = mask if mask is not None and mask.is_floating_point() else None
    return given | {"attn_bias": bias, "return_debug_mask": False}


UNDRAWN.update({
    r"_stack\.out": "torch's CPU ends the process where this private call is refused; test_shape.py calls it",
    r"_fused_sdp_choice": "names a kernel, another one on every device: aten/test_attention.py",
    r"_scaled_dot_product_fused_attention_overrideable_backward":
        "takes what its forward keeps for it; ops/test_gradients.py draws it as the gradient of attention",
    r"_thnn_fused_(lstm_cell_backward_impl|gru_cell_backward)":
        "takes the workspace that its forward keeps for it; ops/test_gradients.py draws it as the gradient of LSTM and GRU",
})  # fmt: skip


# ---- recurrent cells
def lstm_oracle(input_gates: Any, hidden_gates: Any, cx: Any, input_bias: Any, hidden_bias: Any) -> list[Any]:
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return [o.sigmoid() * cy.tanh(), cy]


def gru_oracle(input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any, hidden_bias: Any) -> list[Any]:
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    (ir, ii, i_n), (hr, hi, hn) = input_gates.chunk(3, 1), hidden_gates.chunk(3, 1)
    new = (i_n + (ir + hr).sigmoid() * hn).tanh()
    update = (ii + hi).sigmoid()
    return [new + update * (hx - new)]


def cell(gates: int) -> Any:
    def fill(d: Any) -> Args:
        rows, hidden, biased = d.int(1, 4), d.int(1, 9), d.flag()
        state = d.plain(rows, hidden)
        biases = [d.plain(gates * hidden).contiguous() if biased else None for _ in range(2)]
        return {"input_gates": d.plain(rows, gates * hidden), "hidden_gates": d.plain(rows, gates * hidden), "cx": state,
                "hx": state, "input_bias": biases[0], "hidden_bias": biases[1]}  # fmt: skip

    return fill


recipe("_thnn_fused_lstm_cell", oracle=lstm_oracle, view=lambda r: list(r)[:2])(cell(4))
recipe("_thnn_fused_gru_cell", oracle=gru_oracle, view=lambda r: list(r)[:1])(cell(3))


@recipe("lstm.input", "lstm.data", types=("f32", "f64"), host=("batch_sizes",))
def lstm(d: Any) -> Args:
    steps, rows, inner, hidden = d.int(1, 4), d.int(1, 3), d.int(1, 5), d.int(1, 6)
    layers, both, biased = d.int(1, 2), d.flag(), d.flag()
    ways = 1 + both
    params = []
    for layer in range(layers):
        for _ in range(ways):
            width = inner if layer == 0 else hidden * ways
            params += [d.plain(4 * hidden, width), d.plain(4 * hidden, hidden)]
            params += [d.plain(4 * hidden), d.plain(4 * hidden)] if biased else []
    state = [d.plain(layers * ways, rows, hidden) for _ in range(2)]
    counts = sorted(d.ints(steps - 1, 1, rows), reverse=True)
    counts = [rows, *counts]  # the number of sequences that are still running
    first = d.flag()
    return {"input": d.plain(rows, steps, inner) if first else d.plain(steps, rows, inner), "hx": state, "params": params,
            "data": d.plain(sum(counts), inner), "batch_sizes": torch.tensor(counts), "has_biases": biased,
            "num_layers": layers, "dropout": 0.0, "train": d.flag(), "bidirectional": both,
            "batch_first": first}  # fmt: skip


@recipe("gru.input", types=("f32", "f64"))
def gru(d: Any) -> Args:
    given = lstm(d)
    hidden = given["hx"][0].shape[-1]
    return given | {"hx": given["hx"][0], "params": [p[: 3 * hidden] for p in given["params"]]}


# ---- transformer layers
@recipe("_native_multi_head_attention", "_transformer_encoder_layer_fwd", types=("f32", "f64"))
def encoder(d: Any) -> Args:
    heads = d.int(1, 3)
    width, inner = heads * d.int(1, 4), d.int(1, 9)
    x = d.plain(d.int(1, 3), d.int(1, 5), width).contiguous()

    def parameter(*shape: int) -> torch.Tensor:
        return d.plain(*shape, low=-1, high=1).contiguous()

    return {"query": x, "key": x, "value": x, "src": x, "embed_dim": width, "num_head": heads, "num_heads": heads,
            "qkv_weight": parameter(3 * width, width), "qkv_bias": parameter(3 * width),
            "proj_weight": parameter(width, width), "proj_bias": parameter(width), "need_weights": d.flag(),
            "average_attn_weights": d.flag(), "use_gelu": d.flag(), "norm_first": d.flag(), "eps": 1e-5,
            "norm_weight_1": parameter(width), "norm_bias_1": parameter(width), "norm_weight_2": parameter(width),
            "norm_bias_2": parameter(width), "ffn_weight_1": parameter(inner, width), "ffn_bias_1": parameter(inner),
            "ffn_weight_2": parameter(width, inner), "ffn_bias_2": parameter(width)}  # fmt: skip


# ---- fused layers; those of the namespace xpu_ops have a composition for the CPU
POST = [[], ["relu"], ["silu", "mul", "add"], ["gelu_tanh"], ["add"], ["clip:-0.5,1"]]


def post_ops(d: Any, *shape: int) -> Args:
    post = d.pick(*POST)
    return {"post_ops": post, "operands": [d.plain(*shape) for name in post if name in ("mul", "add")]}


@recipe("xpu_ops::linear", "xpu_ops::matmul", types=("f32", "bf16"))
def fused_product(d: Any) -> Args:
    lead, k, n = d.ints(d.int(1, 2), 1, 5), d.int(1, 20), d.int(1, 20)
    x = d.plain(*lead, k)
    return {"x": x, "weight": d.plain(n, k), "a": x, "b": d.plain(k, n), "bias": d.maybe(lambda: d.plain(n)),
            **post_ops(d, *lead, n)}  # fmt: skip


# The result is contiguous or channels last, as its fake function says; the CPU's of transposed lines is neither at times.
@recipe("xpu_ops::conv", types=("f32", "bf16"), strides=False)
def fused_conv(d: Any) -> Args:
    from support.recipes.nn import convolution

    given = convolution(d)
    x = {"x" if k == "input" else k: v for k, v in given.items()}
    return x | {"post_ops": d.pick([], ["relu"], ["gelu_tanh"]), "operands": []}


@recipe("xpu_ops::conv_norm", types=("f32", "bf16"), strides=False)
def folded_conv(d: Any) -> Args:
    groups = d.pick(1, 1, 16)
    inner, outer = (1, 16) if groups > 1 else d.ints(2, 1, 5)
    given = {b: d.plain(outer, low=-1, high=1) if d.flag() else None for b in ("bias", "norm_weight", "norm_bias")}
    kernel, one = d.pick(1, 3), d.pick(1, 2)
    x = d.plain(d.int(1, 2), inner * groups, d.int(3, 9), d.int(3, 9))
    if d.flag():
        x = x.contiguous(memory_format=torch.channels_last)
    return {"x": x, "weight": d.plain(outer, inner, kernel, kernel, low=-1, high=1), **given,
            "mean": d.plain(outer, low=-1, high=1), "var": d.plain(outer, low=0.5, high=2), "eps": 1e-5,
            "stride": [one, one], "padding": [kernel // 2] * 2, "dilation": [1, 1], "groups": groups,
            "bounds": d.pick([], [0.0, 1.5]), "post_ops": d.pick([], ["relu"], ["clip:-0.5,1"]), "operands": []}  # fmt: skip


@recipe("xpu_ops::gated_linear", types=("f32", "bf16"))
def gated(d: Any) -> Args:
    k, n = d.int(1, 20), d.int(1, 20)
    biases = {b: d.plain(n) if d.flag() else None for b in ("gate_bias", "up_bias")}
    return {"x": d.plain(d.int(1, 5), k), "gate_weight": d.plain(n, k), "up_weight": d.plain(n, k), **biases,
            "activation": d.pick("silu", "gelu", "relu")}  # fmt: skip


@recipe("xpu_ops::rms_norm", "xpu_ops::add_rms_norm", "xpu_ops::add_layer_norm", types=("f32", "f64"), strides=False)
def fused_norm(d: Any) -> Args:
    shape = (*d.ints(d.int(0, 2), 1, 4), d.int(1, 40))
    parts = {b: d.plain(shape[-1]) if d.flag() else None for b in ("weight", "bias")}
    return {"x": d.plain(*shape), "residual": d.plain(*shape), **parts, "eps": 1e-5}


# The composition takes the layout from whichever of its operands decides.
@recipe("xpu_ops::rotary_embedding", types=("f32", "bf16", "f64"), strides=False)
def rotary(d: Any) -> Args:
    steps, half = d.int(1, 5), d.int(1, 6)
    interleaved = d.flag()
    return {"x": d.plain(d.int(1, 2), d.int(1, 3), steps, 2 * half), "cos": d.plain(steps, half, low=-1, high=1),
            "sin": d.plain(steps, half, low=-1, high=1), "interleaved": interleaved, "inverse": d.flag()}  # fmt: skip


ACTIVATION = [
    ("none", [], ""),
    ("relu", [], ""),
    ("gelu", [], "tanh"),
    ("hardtanh", [-0.5, 1.0], ""),
    ("swish", [], ""),
]


def activation(d: Any) -> Args:
    attr, scalars, algorithm = d.pick(*ACTIVATION)
    return {"attr": attr, "scalars": scalars, "algorithm": algorithm}


@recipe("mkldnn::_linear_pointwise", "mkldnn::_linear_pointwise.binary", types=("f32", "bf16"))
def linear_pointwise(d: Any) -> Args:
    lead, k, n = d.ints(d.int(1, 2), 1, 5), d.int(1, 20), d.int(1, 20)
    given = {"X": d.plain(*lead, k), "W": d.plain(n, k), "B": d.maybe(lambda: d.plain(n))}
    if d.name.endswith("binary"):
        return given | {"other": d.plain(*lead, n), "attr": d.pick("add", "mul")}
    return given | activation(d)


# Strides: as the images here, which torch's compiler counts on, as images or weights on the CPU: aten/test_fused.py.
@recipe("mkldnn::_convolution_pointwise", "mkldnn::_convolution_pointwise.binary",
        "mkldnn::_convolution_pointwise_.binary", "mkldnn::_convolution_transpose_pointwise", types=("f32",),
        strides=False)  # fmt: skip
def convolution_pointwise(d: Any) -> Args:
    groups, transposed = d.int(1, 2), "transpose" in d.name
    inner, outer, kernel = groups * d.int(1, 3), groups * d.int(1, 3), d.ints(2, 1, 3)
    stride, padding = d.ints(2, 1, 2), [d.int(0, k - 1) for k in kernel]
    x = d.plain(d.int(1, 2), inner, d.int(3, 7), d.int(3, 7))
    weight = d.plain(*((inner, outer // groups) if transposed else (outer, inner // groups)), *kernel)
    given = {"X": x, "W": weight, "B": d.maybe(lambda: d.plain(outer)), "padding": padding, "stride": stride,
             "dilation": [1, 1], "output_padding": [0, 0], "groups": groups, **activation(d)}  # fmt: skip
    if d.name.endswith("binary"):
        out = torch.empty(x.shape[0], outer, *[(s + 2 * p - k) // t + 1 for s, p, k, t in
                                               zip(x.shape[2:], padding, kernel, stride, strict=True)])  # fmt: skip
        given |= {"other": d.own(out.shape, domain=(-3, 3)), "binary_attr": "add", "alpha": None,
                  "unary_attr": d.pick(None, "relu"), "unary_scalars": [], "unary_algorithm": None}  # fmt: skip
    return given


UNDRAWN.update({
    r"onednn::qlinear_.*|onednn::qconv.*": "the CPU takes weights in its own packed layout only, and has no plain form to "
    "compare with: aten/test_qpointwise.py holds every type, shape and post-op against exact arithmetic",
})  # fmt: skip

UNDRAWN.update({
    r"xpu_ops::_(gated_unit|place_rows)": "write into their first arguments: models/test_vllm_kernels.py",
    r"xpu_ops::_(choose_experts|align_experts|spread_rows|sum_experts|swiglu_pairs)":
    "write into their first arguments: aten/test_experts.py",
    r"xpu_ops::_round_(rows|by)": "write into their first arguments: aten/test_rounding.py",
})  # fmt: skip
UNDRAWN.update({r"_flash_attention_(forward.*|backward)": "the CPU has none: aten/test_varlen.py"})
