"""NaN, infinities, signed zeros, denormals and the largest numbers through activations, comparisons, clamps and pooling.

Eager, in a chain of post-ops, under torch's fused schemas and compiled: each has the value of ATen's operator on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

Function = Callable[[torch.Tensor], torch.Tensor]
NAN, INF = float("nan"), float("inf")
VALUES = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-40,
    -1e-40,
    3e38,
    -3e38,
    0.5,
    -0.5,
    3.0,
    -3.0,
    7.0,
    -7.0,
    100.0,
    -100.0,
]
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, *HALVES)

# Post-op of torch.ops.xpu_ops, or of torch's schemas where it has no operand, and the operator of ATen that it stands for.
POST_OPS: dict[str, Function] = {
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "relu:alpha=0.2": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "clip:-2,3": lambda x: torch.clamp(x, -2, 3),
    "clip_v2:0,6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "silu": F.silu,
    "mish": F.mish,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "square": torch.square,
    "round": torch.round,
}
COMPARISONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "max": torch.maximum,
    "min": torch.minimum,
    "ge": torch.ge,
    "gt": torch.gt,
    "le": torch.le,
    "lt": torch.lt,
    "eq": torch.eq,
    "ne": torch.ne,
}


def values(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(VALUES).to(dtype)


def agree(got: torch.Tensor, want: torch.Tensor, what: object, tolerance: float | None = None) -> None:
    """NaN where the CPU has it, the same infinities, finite values within the type's rounding.

    Two of ATen's own values depend on how the CPU computes: gelu of float is NaN at infinity and infinity at 3e38, or what
    it should be; hardswish multiplies before it divides, so that 3e38 passes the largest float.
    """
    got, want = got.cpu().double(), want.double()
    text = str(what)
    if ("gelu" in text or "hardswish" in text) and "torch.float16" not in text:
        vague = (values(torch.float64).abs() > 1e38).repeat(len(want) // len(VALUES) + 1)[: len(want)]
        got, want = got[~vague], want[~vague]
    bound = tolerance if tolerance is not None else 2e-2
    torch.testing.assert_close(got, want, equal_nan=True, rtol=bound, atol=1e-5, msg=lambda text: f"{what}: {text}")


def product(rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Operands of a linear layer whose rows are VALUES: through the bias, as zeros times anything else would be NaN."""
    zeros = torch.zeros(rows, 64, dtype=dtype, device="xpu")
    return zeros, torch.zeros(len(VALUES), 64, dtype=dtype, device="xpu"), values(dtype).to("xpu")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", POST_OPS)
def test_chains_of_products(name: str, dtype: torch.dtype) -> None:
    want = POST_OPS[name](values(dtype))
    for rows in (1, 128):
        x, w, b = product(rows, dtype)
        for y in (
            torch.ops.xpu_ops.linear(x, w, b, [name], []),
            torch.ops.xpu_ops.matmul(x, w.t(), b, [name], []),
        ):
            agree(y[-1], want, (name, dtype, rows))
            assert torch.equal(y[0].isnan(), y[-1].isnan())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", POST_OPS)
def test_chains_of_convolutions(name: str, dtype: torch.dtype) -> None:
    want = POST_OPS[name](values(dtype))
    channels = len(VALUES)
    b = values(dtype).to("xpu")
    for groups in (1, channels):
        x = torch.zeros(1, channels if groups > 1 else 8, 6, 6, dtype=dtype, device="xpu")
        w = torch.zeros(channels, 1 if groups > 1 else 8, 3, 3, dtype=dtype, device="xpu")
        for layout in (torch.contiguous_format, torch.channels_last):
            y = torch.ops.xpu_ops.conv(
                x.contiguous(memory_format=layout), w, b, [1], [1], [1], groups, False, [0], [name], []
            )
            agree(y[0, :, 2, 3], want, (name, dtype, groups, layout))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_behind_products(name: str, dtype: torch.dtype) -> None:
    for number in (1.0, NAN, INF, 0.0):
        x, w, b = product(4, dtype)
        other = torch.full((1, len(VALUES)), number, dtype=dtype, device="xpu")
        want = COMPARISONS[name](values(dtype), torch.tensor(number, dtype=dtype)).to(dtype)
        agree(torch.ops.xpu_ops.linear(x, w, b, [name], [other])[-1], want, (name, number, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_schemas_of_torch(dtype: torch.dtype) -> None:
    none: list[float] = []
    rows = [
        ("relu", none, None, torch.relu),
        ("gelu", none, "none", F.gelu),
        ("gelu", none, "tanh", lambda x: F.gelu(x, approximate="tanh")),
        ("hardtanh", [-1.0, 2.0], None, lambda x: F.hardtanh(x, -1, 2)),
        ("hardsigmoid", none, None, F.hardsigmoid),
        ("hardswish", none, None, F.hardswish),
        ("leaky_relu", [0.1], None, lambda x: F.leaky_relu(x, 0.1)),
    ]
    x, w, b = product(3, dtype)
    image = torch.zeros(1, 8, 5, 5, dtype=dtype, device="xpu")
    kernel = torch.zeros(len(VALUES), 8, 1, 1, dtype=dtype, device="xpu")
    for attribute, scalars, algorithm, function in rows:
        want = function(values(dtype))
        agree(torch.ops.mkldnn._linear_pointwise(x, w, b, attribute, scalars, algorithm)[-1], want, (attribute, dtype))
        y = torch.ops.mkldnn._convolution_pointwise(
            image, kernel, b, [0, 0], [1, 1], [1, 1], 1, attribute, scalars, algorithm
        )
        agree(y[0, :, 1, 1], want, (attribute, dtype))


@pytest.mark.parametrize("use_gelu", [False, True])
@pytest.mark.parametrize("size", [4, 65, 256])
@pytest.mark.parametrize("dtype", FLOATS)
def test_addmm_activation(dtype: torch.dtype, size: int, use_gelu: bool) -> None:
    c = values(dtype).repeat(size // len(VALUES) + 1)[:size]
    zeros = torch.zeros(size, size, dtype=dtype)
    got = torch._addmm_activation(c.to("xpu"), zeros.to("xpu"), zeros.to("xpu"), use_gelu=use_gelu)
    agree(got[-1], (F.gelu if use_gelu else torch.relu)(c), (dtype, size, "gelu" if use_gelu else "relu"))


EAGER: dict[str, Function] = {
    **{name: POST_OPS[name] for name in POST_OPS if ":" not in name},
    "clamp": lambda x: torch.clamp(x, -1, 1),
    "clamp_min": lambda x: torch.clamp_min(x, 0.0),
    "clamp_max": lambda x: torch.clamp_max(x, 0.0),
    "selu": F.selu,
    "celu": F.celu,
    "logsigmoid": F.logsigmoid,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "rrelu": lambda x: F.rrelu(x),
    "sign": torch.sign,
    "relu of maximum": lambda x: torch.relu(torch.maximum(x, x.flip(0))),
    "isfinite": torch.isfinite,
}
POOLS: dict[str, Function] = {
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, -1), 2),
    "max_pool2d": lambda x: F.max_pool2d(x.reshape(1, 1, 1, -1), (1, 3), 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x.reshape(1, 1, -1), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x.reshape(1, 1, 1, -1), (1, 2)),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.reshape(1, 1, -1), 4),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 4),
}


@pytest.mark.parametrize("dtype", [torch.float64, *FLOATS])
def test_eager(dtype: torch.dtype) -> None:
    for name, function in (EAGER | POOLS).items():
        x = values(dtype)
        agree(function(x.to("xpu")), function(x), (name, dtype), 1e-2 if dtype in HALVES else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, *FLOATS])
def test_compiled(dtype: torch.dtype) -> None:
    # rrelu draws; torch's decomposition of softshrink drops NaN on every device (docs/compile.md).
    left_out = ("rrelu", "softshrink")
    functions = [f for name, f in (EAGER | POOLS).items() if name not in left_out]
    compiled = torch.compile(lambda x: [f(x) for f in functions])
    x = values(dtype)
    for name, got, want in zip(
        (n for n in EAGER | POOLS if n not in left_out), compiled(x.to("xpu")), (f(x) for f in functions), strict=True
    ):
        agree(got, want, (name, dtype), 2e-2 if dtype in HALVES else 1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("gradient", [False, True])
def test_compiled_layers(gradient: bool, dtype: torch.dtype) -> None:
    """Inductor's passes put the activation into the product."""
    names = ["relu", "hardtanh", "relu6", "hardsigmoid", "gelu", "silu", "tanh", "sigmoid"]
    functions = [POST_OPS[name] for name in names]
    compiled = torch.compile(lambda x, w, b: [f(F.linear(x, w, b)) for f in functions])
    x, w, b = product(2, dtype)
    w.requires_grad_(gradient)
    with torch.set_grad_enabled(gradient):
        for name, got, function in zip(names, compiled(x, w, b), functions, strict=True):
            agree(got[-1].detach(), function(values(dtype)), (name, dtype))


@pytest.mark.parametrize(
    "name", ["hardswish", "elu", "selu", "celu", "silu", "mish", "relu", "hardtanh", "hardsigmoid"]
)
def test_gradients(name: str) -> None:
    function = getattr(F, name)
    grads = []
    for device in ("cpu", "xpu"):
        x = values(torch.float32).to(device).requires_grad_()
        function(x).backward(torch.ones_like(x))
        grads.append(x.grad)
    # NaN stays NaN here, where some of the CPU's gradients have 1; mish is 1 at infinity.
    want = grads[0]
    if name not in ("relu", "hardtanh", "hardsigmoid"):
        want = torch.where(values(torch.float32).isnan(), NAN, want)
    if name == "mish":
        want[VALUES.index(INF)] = 1
    agree(grads[1], want, "gradient", 1e-5)
