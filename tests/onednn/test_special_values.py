"""NaN, infinities, signed zeros, denormals and the largest numbers through activations, comparisons, clamps and pooling.

Eager, in a chain of post-ops, under torch's fused schemas and compiled: each has the value of ATen's operator on the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.manifest import rows as manifest_rows
from support.modes import DOT16

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
TYPES = (torch.float64, *FLOATS, torch.int64)
RELATIVE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
# Of a CPU that computes in vectors: its tails are computed in another way, and have other values at NaN and at zeros.
COPIES = 64
FUSED = 1.5e-6  # absolute error of oneDNN's own exp, erf and tanh

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
    if dtype == torch.int64:
        return torch.tensor([0, 1, -1, 3, -3, 6, 7, -7, 2**62, -(2**62), 2**63 - 1, -(2**63)])
    return torch.tensor(VALUES, dtype=torch.float64).to(dtype)


def of_vectors(function: Function, dtype: torch.dtype) -> torch.Tensor:
    """The function's values at VALUES as the CPU's vectors compute them."""
    x = values(dtype)
    return function(x.repeat(COPIES))[: len(x)]


def of_products(function: Function, dtype: torch.dtype, got: torch.Tensor) -> torch.Tensor:
    """The same behind a product or a convolution, whose results have been rounded to the type.

    Instructions for bf16 round to it without denormals: at those `got` may be the function of a zero of either sign.
    """
    want = of_vectors(function, dtype)
    if dtype != torch.bfloat16 or not DOT16:
        return want
    x = values(dtype)
    denormal = (x != 0) & (x.abs() < torch.finfo(dtype).smallest_normal)
    rounded = function(torch.where(denormal, x * 0, x).repeat(COPIES))[: len(x)]
    got = got.detach().cpu()
    as_zero = (got == rounded) | (got.isnan() & rounded.isnan())
    return torch.where(denormal & as_zero, got, want)


def agree(got: torch.Tensor, want: torch.Tensor, what: object, absolute: float = 0.0, signed: bool = True) -> None:
    """The same type, NaN, infinities and signs of zeros; finite values within the type's rounding.

    `absolute` is for functions whose small results cancel or are lost (exp(x) - 1 near 0, half of x * (1 + erf) far below).
    """
    got = got.detach().cpu()
    assert got.dtype == want.dtype, what
    if "gelu" in str(what) and "gelu_tanh" not in str(what):
        # Far out ATen's vectors have NaN, infinity or the limit, by the processor; ours the limit, or behind a product oneDNN's
        # value, which is ATen's. There, and of float32, the negative tail is either zero.
        signed &= absolute != FUSED and got.dtype != torch.float32
        x = values(torch.float64).repeat(COPIES)[: len(got)]
        exact = F.gelu(x).to(got.dtype)
        want = torch.where((x.abs() > 1e38) & (got == exact), exact, want)
    if not got.is_floating_point():
        assert torch.equal(got, want), what
        return
    torch.testing.assert_close(got.double(), want.double(), equal_nan=True, rtol=RELATIVE[got.dtype],
                               atol=max(absolute, 0 if want.dtype == torch.float64 else 5e-44),
                               msg=lambda text: f"{what}: {text}")  # fmt: skip
    if signed:
        zeros = (got == 0) & (want == 0)
        assert torch.equal(got[zeros].signbit(), want[zeros].signbit()), (what, values(want.dtype)[: len(want)][zeros])


def signs(x: torch.Tensor) -> torch.Tensor:
    return x.signbit() & ~x.isnan()


def product(rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Operands of a linear layer whose rows are VALUES: through the bias, as zeros times anything else would be NaN."""
    zeros = torch.zeros(rows, 64, dtype=dtype, device="xpu")
    return zeros, torch.zeros(len(VALUES), 64, dtype=dtype, device="xpu"), values(dtype).to("xpu")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", POST_OPS)
def test_chains_of_products(name: str, dtype: torch.dtype) -> None:
    for rows in (1, 128):
        x, w, b = product(rows, dtype)
        for y in (
            torch.ops.xpu_ops.linear(x, w, b, [name], []),
            torch.ops.xpu_ops.matmul(x, w.t(), b, [name], []),
        ):
            want = of_products(lambda x: POST_OPS[name](x + 0.0), dtype, y[-1])
            agree(y[-1], want, (name, dtype, rows), FUSED)
            assert torch.equal(y[0].isnan(), y[-1].isnan())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", POST_OPS)
def test_chains_of_convolutions(name: str, dtype: torch.dtype) -> None:
    channels = len(VALUES)
    b = values(dtype).to("xpu")
    for groups in (1, channels):
        x = torch.zeros(1, channels if groups > 1 else 8, 6, 6, dtype=dtype, device="xpu")
        w = torch.zeros(channels, 1 if groups > 1 else 8, 3, 3, dtype=dtype, device="xpu")
        for layout in (torch.contiguous_format, torch.channels_last):
            y = torch.ops.xpu_ops.conv(
                x.contiguous(memory_format=layout), w, b, [1], [1], [1], groups, False, [0], [name], []
            )
            want = of_products(lambda x: POST_OPS[name](x + 0.0), dtype, y[0, :, 2, 3])
            agree(y[0, :, 2, 3], want, (name, dtype, groups, layout), FUSED)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_behind_products(name: str, dtype: torch.dtype) -> None:
    for number in (1.0, NAN, INF, 0.0):
        x, w, b = product(4, dtype)
        other = torch.full((1, len(VALUES)), number, dtype=dtype, device="xpu")
        got = torch.ops.xpu_ops.linear(x, w, b, [name], [other])[-1]
        want = of_products(lambda x: COMPARISONS[name](x, torch.tensor(number, dtype=dtype)).to(dtype), dtype, got)
        agree(got, want, (name, number, dtype), signed=False)  # of two zeros either is the largest


SCHEMAS: dict[str, tuple[str, list[float], str | None, Function]] = {
    "relu": ("relu", [], None, torch.relu),
    "gelu": ("gelu", [], "none", F.gelu),
    "gelu_tanh": ("gelu", [], "tanh", lambda x: F.gelu(x, approximate="tanh")),
    "hardtanh": ("hardtanh", [-1.0, 2.0], None, lambda x: F.hardtanh(x, -1, 2)),
    "hardsigmoid": ("hardsigmoid", [], None, F.hardsigmoid),
    "hardswish": ("hardswish", [], None, F.hardswish),
    "leaky_relu": ("leaky_relu", [0.1], None, lambda x: F.leaky_relu(x, 0.1)),
}


def signs_of_either(y: torch.Tensor, eager: torch.Tensor, want: torch.Tensor) -> bool:
    """With AMX the post-op sees a denormal that a product without it rounds to -0."""
    found, exact = signs(y), signs(want.to(y.device))[:, None, None]
    return bool(((found == signs(eager)) | (found == exact)).all())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_of_torch(name: str, dtype: torch.dtype) -> None:
    x, w, b = product(3, dtype)
    image = torch.zeros(1, 8, 5, 5, dtype=dtype, device="xpu")
    kernel = torch.zeros(len(VALUES), 8, 1, 1, dtype=dtype, device="xpu")
    turned = torch.zeros(8, len(VALUES), 1, 1, dtype=dtype, device="xpu")
    attribute, scalars, algorithm, function = SCHEMAS[name]
    rest = (attribute, scalars, algorithm)
    want = of_vectors(lambda x: function(x + 0.0), dtype)
    agree(torch.ops.mkldnn._linear_pointwise(x, w, b, *rest)[-1], want, (name, dtype, "linear"), FUSED)
    plain = name != "relu"  # a denormal may become -0 in the product, and relu keeps that, as in eager
    y = torch.ops.mkldnn._convolution_pointwise(image, kernel, b, [0, 0], [1, 1], [1, 1], 1, *rest)
    agree(y[0, :, 1, 1], want, (name, dtype, "convolution"), FUSED, signed=plain)
    assert plain or signs_of_either(y, torch.relu(F.conv2d(image, kernel, b)), want)
    y = torch.ops.mkldnn._convolution_transpose_pointwise(image, turned, b, [0, 0], [0, 0], [1, 1], [1, 1], 1, *rest)
    agree(y[0, :, 1, 1], want, (name, dtype, "transposed"), FUSED, signed=plain)
    assert plain or signs_of_either(y, torch.relu(F.conv_transpose2d(image, turned, b)), want)


@pytest.mark.parametrize("name", ["relu", "gelu"])
@pytest.mark.parametrize("size", [4, 65, 256])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_addmm_activation(dtype: torch.dtype, size: int, name: str) -> None:
    c = values(dtype).repeat(size // len(VALUES) + 1)[:size] + 0.0
    zeros, bias = torch.zeros(size, size, dtype=dtype, device="xpu"), c.to("xpu")
    got = torch._addmm_activation(bias, zeros, zeros, use_gelu=name == "gelu")
    want = of_vectors(lambda x: POST_OPS[name](x + 0.0), dtype).repeat(size // len(VALUES) + 1)[:size]
    plain = name != "relu"  # as for convolutions above
    agree(got[-1], want, (dtype, size, name), FUSED, signed=plain)
    eager = torch.relu(torch.addmm(bias, zeros, zeros))
    found = signs(got[-1])
    assert plain or bool(((found == signs(eager[-1])) | (found == signs(want.to("xpu")))).all())


ORDER = {name: COMPARISONS[name] for name in ("ge", "gt", "le", "lt", "eq", "ne")}
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
    "prelu": lambda x: torch.prelu(x, torch.tensor(0.25, dtype=x.dtype, device=x.device)),
    "glu": lambda x: F.glu(torch.stack([x, x.flip(0)]), 0),
    "relu of maximum": lambda x: torch.relu(torch.maximum(x, x.flip(0))),
    "isfinite": torch.isfinite,
    "clamp by tensors": lambda x: torch.clamp(x, x.new_tensor(-1), x.new_tensor(1)),
    "clamp_min by a tensor": lambda x: torch.clamp_min(x, x.flip(0)),
    "clamp_max by a tensor": lambda x: torch.clamp_max(x, x.flip(0)),
    "fmax": lambda x: torch.fmax(x, x.flip(0)),
    "fmin": lambda x: torch.fmin(x, x.flip(0)),
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "minimum": lambda x: torch.minimum(x, x.flip(0)),
    **{f"{name} of tensors": functools.partial(lambda f, x: f(x, x.flip(0)), ORDER[name]) for name in ORDER},
    **{f"{name} 0": functools.partial(lambda f, x: f(x, 0), ORDER[name]) for name in ORDER},
}
POOLS: dict[str, Function] = {
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, -1), 2),
    "max_pool2d": lambda x: F.max_pool2d(x.reshape(1, 1, 1, -1), (1, 3), 1),
    "max_pool2d with places": lambda x: F.max_pool2d(x.reshape(1, 1, 1, -1), (1, 3), 1, return_indices=True)[0],
    "max_pool3d with places": lambda x: F.max_pool3d(x.reshape(1, 1, 1, 1, -1), (1, 1, 3), 1, return_indices=True)[0],
    "avg_pool1d": lambda x: F.avg_pool1d(x.reshape(1, 1, -1), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x.reshape(1, 1, 1, -1), (1, 2)),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.reshape(1, 1, -1), 4),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.reshape(1, 1, 1, -1), (1, 4)),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, 1, -1), (1, 4)),
    "max_pool3d": lambda x: F.max_pool3d(x.reshape(1, 1, 1, 1, -1), (1, 1, 3), 1),
    "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(1, 1, 1, 1, -1), (1, 1, 2)),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x.reshape(1, 1, 1, 1, -1), (1, 1, 4)),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x.reshape(1, 1, 1, 1, -1), (1, 1, 4)),
}


# The operators that take integers, and those whose small results cancel: the bound of these.
OF_INTEGERS = {
    *("relu", "hardtanh", "relu6", "abs", "square", "clamp", "clamp_min", "clamp_max", "sign", "isfinite"),
    *("clamp by tensors", "clamp_min by a tensor", "clamp_max by a tensor", "fmax", "fmin", "maximum", "minimum"),
    *(name for name in EAGER if name.split()[0] in ORDER),
}
CANCEL = dict.fromkeys(("gelu", "gelu_tanh", "mish", "elu", "selu", "celu", "softplus"), 1e-06)
# ATen does not say which of two zeros is the largest.
OF_PAIRS = {
    *("relu of maximum", "fmax", "fmin", "maximum", "minimum", "clamp_min by a tensor", "clamp_max by a tensor"),
    *POOLS,
}
# Each value meets the one at the same place from the end.
TURNED = {name for name in EAGER if "tensor" in name or name in OF_PAIRS or name == "glu"}
CASES = [
    pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}")
    for dtype in TYPES
    for name in EAGER | POOLS
    if dtype.is_floating_point or name in OF_INTEGERS
]


def expected(name: str, dtype: torch.dtype) -> torch.Tensor:
    if name == "avg_pool3d" and dtype in HALVES:  # the CPU has none
        return POOLS[name](values(dtype).float()).to(dtype)
    if name in POOLS or name in TURNED:
        return (EAGER | POOLS)[name](values(dtype))
    return of_vectors(EAGER[name], dtype)


def test_every_operator_has_a_case() -> None:
    """All activations, comparisons, clamps and poolings of the manifest; their gradients are test_gradients' and the poolings'."""
    from xpu_ops.coverage.trace import trace_ops

    x = values(torch.float32).to("xpu")
    with trace_ops(timed=False) as trace:
        for function in (EAGER | POOLS).values():
            function(x)
    called = {o.name.removeprefix("aten::").partition(".")[0].rstrip("_") for o in trace.operators}
    wanted = {r["op"].partition(".")[0] for r in manifest_rows() if r["family"] in ("activation", "pooling")}
    wanted |= {*ORDER, "maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max"}
    missing = {name for name in wanted - called if not name.endswith(("_backward", "_jvp")) and "::" not in name}
    assert missing == set()


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_eager(name: str, dtype: torch.dtype) -> None:
    got = (EAGER | POOLS)[name](values(dtype).to("xpu"))
    agree(got, expected(name, dtype), (name, dtype), CANCEL.get(name, 0), signed=name not in OF_PAIRS)


@functools.cache
def compiled_together(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    names = [str(c.values[0]) for c in CASES if c.values[1] == dtype]
    graph = torch.compile(lambda x: [(EAGER | POOLS)[n](x) for n in names])
    return dict(zip(names, graph(values(dtype).to("xpu")), strict=True))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_compiled(name: str, dtype: torch.dtype) -> None:
    # A result of two steps in float is rounded once here: one unit of the operand.
    bound = 1e-3 if name == "tanhshrink" and dtype == torch.bfloat16 else CANCEL.get(name, 0)
    # The driver's compiler may lose the sign of a zero of half, by what else the kernel computes.
    signed = name not in OF_PAIRS and dtype != torch.float16
    agree(compiled_together(dtype)[name], expected(name, dtype), (name, dtype), bound, signed)


@functools.cache
def compiled_layers(gradient: bool, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    graph = torch.compile(lambda x, w, b: [POST_OPS[n](F.linear(x, w, b)) for n in LAYERS])
    x, w, b = product(2, dtype)
    w.requires_grad_(gradient)
    with torch.set_grad_enabled(gradient):
        return dict(zip(LAYERS, graph(x, w, b), strict=True))


LAYERS = ("relu", "hardtanh", "relu6", "hardsigmoid", "gelu", "silu", "tanh", "sigmoid")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_compiled_layers(name: str, gradient: bool, dtype: torch.dtype) -> None:
    """Inductor's passes put the activation into the product."""
    got = compiled_layers(gradient, dtype)[name][-1]
    agree(got, of_products(lambda x: POST_OPS[name](x + 0.0), dtype, got), (name, dtype), FUSED)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        c
        for c in CASES
        if c.values[1] in (torch.float64, *FLOATS)
        and c.values[0] in {*EAGER} - {"isfinite", "rrelu"}
        and str(c.values[0]).split()[0] not in ORDER
    ],
)
def test_gradients(name: str, dtype: torch.dtype) -> None:
    grads = []
    for device in ("cpu", "xpu"):
        x = values(dtype).repeat(COPIES).to(device).requires_grad_()
        y = EAGER[name](x)
        y.backward(torch.ones_like(y))
        assert x.grad is not None
        grads.append(x.grad[: len(VALUES)].cpu())
    # Of glu the gradients of both halves are rounded, and then added.
    bounds = CANCEL | {"hardsigmoid": 3e-8, "glu": 1e-3 if dtype in HALVES else 1e-6}
    agree(grads[1], grads[0], (name, dtype), bounds.get(name, 0), signed=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_products_times_zero_are_not_read(dtype: torch.dtype) -> None:
    """As in a BLAS; what is added is kept as it is where its factor is one. Complex rows are torch's own sums, which are read."""
    a, c = torch.full((3, 3), INF, dtype=dtype), torch.tensor([[INF, 1, NAN]] * 3, dtype=dtype)
    for beta in (0, 1):
        want = c if beta else torch.zeros_like(c)
        got = torch.addmm(c.to("xpu"), a.to("xpu"), a.to("xpu"), beta=beta, alpha=0).cpu()
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(torch.addmm(c, a, a, beta=beta, alpha=0), want, rtol=0, atol=0, equal_nan=True)
        got = torch.addmv(c[0].to("xpu"), a.to("xpu"), a[0].to("xpu"), beta=beta, alpha=0).cpu()
        row = torch.addmv(c[0], a, a[0], beta=beta, alpha=0) if dtype.is_complex else want[0]
        torch.testing.assert_close(got, row, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_infinities_of_complex_products(dtype: torch.dtype) -> None:
    """A real factor, such as the one that products have, does not turn an infinite part into NaN."""
    a = torch.tensor([[complex(2, 0), complex(3, 0)], [complex(1, 0), complex(0, 0)]], dtype=dtype)
    b = torch.tensor([[complex(INF, 0), complex(1, 1)], [complex(1, 2), complex(-1, 0)]], dtype=dtype)
    c = torch.tensor([[complex(1, 1), complex(INF, 0)], [complex(-INF, 2), complex(0, 0)]], dtype=dtype)
    x, y, z = (t.to("xpu") for t in (a, b, c))
    # (2 + 0i) * (inf + 0i) has the imaginary part 2 * 0 + 0 * inf, which is no number; the real one stays.
    for got, add in (
        (x @ y, 0),
        (torch.bmm(x[None], y[None])[0], 0),
        (torch.addmm(z, x, y), 1),
        (z.clone().addmm_(x, y), 1),
    ):
        real = [[INF, -1], [INF, 1]] if not add else [[INF, INF], [NAN, 1]]
        imaginary = [[NAN, 2], [NAN, 1]]
        torch.testing.assert_close(got.real.cpu(), torch.tensor(real, dtype=got.real.dtype), equal_nan=True)
        torch.testing.assert_close(got.imag.cpu(), torch.tensor(imaginary, dtype=got.real.dtype), equal_nan=True)
    for alpha, beta in ((1, 1), (2, 0.5), (0.5, 2)):
        got = torch.addmm(z, torch.ones_like(x), torch.ones_like(y), alpha=alpha, beta=beta).cpu()
        want = torch.complex(c.real * beta + 2 * alpha, c.imag * beta)
        torch.testing.assert_close(got, want, rtol=0, atol=0)
