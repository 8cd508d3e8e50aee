"""torch.ops.xpu_ops and torch's own fused schemas, against their unfused composition in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.compare import assert_near

import xpu_ops
from xpu_ops import fused

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {
    torch.float64: (1e-7, 1e-7), torch.float32: (1e-4, 1e-4), torch.bfloat16: (2e-2, 2e-2), torch.float16: (3e-3, 3e-3),
}  # fmt: skip


def values(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, scale: float = 0.5) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale).to(dtype)


def xpu(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to("xpu")
    return [xpu(v) for v in x] if isinstance(x, (list, tuple)) else x


def double(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.double()
    return [double(v) for v in x] if isinstance(x, (list, tuple)) else x


def close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert (actual.device.type, actual.dtype) == ("xpu", dtype)
    rtol, atol = TOLERANCE[dtype]
    assert_near(actual, expected, rtol=rtol, atol=atol)


@pytest.fixture(autouse=True)
def no_fallback() -> Any:
    with xpu_ops.fallback.forbid():
        yield


# ---- linear, matmul, convolution with chains


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(6, 20), (2, 3, 20), (20,), (0, 20), (2, 1, 5, 20)], ids=str)
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_linear(dtype: torch.dtype, shape: tuple[int, ...], bias: bool) -> None:
    x, w = values(*shape, dtype=dtype), values(16, 20, dtype=dtype, seed=1)
    b = values(16, dtype=dtype, seed=2) if bias else None
    out = F.linear(double(x), double(w), double(b))
    residual, channel = values(*out.shape, dtype=dtype, seed=3), values(16, dtype=dtype, seed=4)
    close(fused.linear(*xpu((x, w, b))), out, dtype)
    close(fused.linear(*xpu((x, w, b)), ["gelu_tanh"]), F.gelu(out, approximate="tanh"), dtype)
    close(
        fused.linear(*xpu((x, w, b)), ["silu", "mul", "add"], xpu([channel, residual])),
        F.silu(out) * double(channel) + double(residual),
        dtype,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "shape", [(), (1,), (16,), (4, 1), (3, 1, 1), (1, 4, 16), (3, 1, 16), (3, 4, 1), (3, 4, 16)], ids=str
)
def test_operands_broadcast(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x, w = values(3, 4, 20, dtype=dtype), values(16, 20, dtype=dtype, seed=1)
    operand = values(*shape, dtype=dtype, seed=5)
    out = F.linear(double(x), double(w))
    close(fused.linear(*xpu((x, w)), None, ["relu", "add"], [xpu(operand)]), F.relu(out) + double(operand), dtype)
    batch = values(3, 20, 16, dtype=dtype, seed=6)
    out = double(x) @ double(batch)
    close(fused.matmul(*xpu((x, batch)), None, ["relu", "mul"], [xpu(operand)]), F.relu(out) * double(operand), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("a", "b"),
    [((6, 20), (20, 16)), ((3, 6, 20), (3, 20, 16)), ((3, 6, 20), (20, 16)), ((2, 3, 6, 20), (2, 3, 20, 16))],
)
def test_matmul(dtype: torch.dtype, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y, bias = values(*a, dtype=dtype), values(*b, dtype=dtype, seed=1), values(16, dtype=dtype, seed=2)
    out = double(x) @ double(y) + double(bias)
    full = values(*out.shape, dtype=dtype, seed=3)
    close(
        fused.matmul(*xpu((x, y, bias)), ["gelu", "add", "clip:-0.5,1"], [xpu(full)]),
        (F.gelu(out) + double(full)).clamp(-0.5, 1),
        dtype,
    )
    transposed = xpu(y).transpose(-1, -2).contiguous().transpose(-1, -2)
    close(fused.matmul(xpu(x), transposed, xpu(bias)), out, dtype)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 8, 7, 7), (16, 8, 3, 3), {"padding": 1}),
    ((2, 8, 7, 7), (16, 8, 1, 1), {}),
    ((2, 8, 9), (16, 4, 3), {"groups": 2, "stride": 2}),
    ((1, 4, 5, 6, 7), (8, 4, 2, 2, 2), {"dilation": (1, 2, 1)}),
    ((2, 8, 7, 7), (8, 1, 3, 3), {"groups": 8, "padding": (1, 0)}),
    ((2, 8, 5, 5), (8, 6, 3, 3), {"transposed": True, "stride": 2, "padding": 1, "output_padding": 1}),
]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_conv(dtype: torch.dtype, case: int, last: bool) -> None:
    shape, kernel, options = CONVOLUTIONS[case]
    x, w = values(*shape, dtype=dtype), values(*kernel, dtype=dtype, seed=1)
    if last and x.dim() in (4, 5):
        x = x.to(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    channels = kernel[1] if options.get("transposed") else kernel[0]
    bias = values(channels, dtype=dtype, seed=2)
    out = fused.conv(double(x), double(w), double(bias), **options)  # on the CPU: torch's operators
    one_by_one = {k: v for k, v in options.items() if k not in ("transposed", "output_padding")}
    if options.get("transposed"):
        expected = F.conv_transpose2d(
            double(x), double(w), double(bias), output_padding=options["output_padding"], **one_by_one
        )
    else:
        expected = [F.conv1d, F.conv2d, F.conv3d][x.dim() - 3](double(x), double(w), double(bias), **one_by_one)
    torch.testing.assert_close(out, expected)
    full, channel = (
        values(*out.shape, dtype=dtype, seed=3),
        values(channels, *(1,) * (x.dim() - 2), dtype=dtype, seed=4),
    )
    actual = fused.conv(*xpu((x, w, bias)), **options, post_ops=["mul", "add", "relu"], operands=xpu([channel, full]))
    close(actual, F.relu(out * double(channel) + double(full)), dtype)
    plain = torch.convolution(
        *xpu((x, w, bias)), *[[v] * (x.dim() - 2) if isinstance(v, int) else list(v) for v in (
            options.get("stride", 1), options.get("padding", 0), options.get("dilation", 1))],
        options.get("transposed", False), [options.get("output_padding", 0)] * (x.dim() - 2), options.get("groups", 1),
    )  # fmt: skip
    assert actual.stride() == plain.stride()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh", "relu"])
def test_gated_linear(dtype: torch.dtype, activation: str) -> None:
    x, gate, up = (
        values(5, 4, 32, dtype=dtype),
        values(24, 32, dtype=dtype, seed=1),
        values(24, 32, dtype=dtype, seed=2),
    )
    gb, ub = values(24, dtype=dtype, seed=3), values(24, dtype=dtype, seed=4)
    act: Callable[[torch.Tensor], torch.Tensor] = {
        "silu": F.silu, "relu": F.relu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh")
    }[activation]  # fmt: skip
    expected = act(F.linear(*double((x, gate, gb)))) * F.linear(*double((x, up, ub)))
    close(fused.gated_linear(*xpu((x, gate, up, gb, ub)), activation), expected, dtype)


@pytest.mark.parametrize("chain", [["gelu", "add"], ["silu", "mul"], ["add", "relu"], ["mul", "add"]], ids="-".join)
@pytest.mark.parametrize("dims", [2, 3])
def test_large_operands(chain: list[str], dims: int) -> None:
    """A last float32 operand of the size of a large result is read by a pass behind the product."""
    rows = (1100,) if dims == 2 else (11, 100)
    x, w, b = values(*rows, 16), values(1024, 16, seed=1), values(1024, seed=2)
    operands = [values(*rows, 1024, seed=3 + i) for i, op in enumerate(op for op in chain if op in ("add", "mul"))]
    expected, rest = F.linear(*double((x, w, b))), list(double(tuple(operands)))
    for op in chain:
        apply = getattr(torch, op, None) or getattr(F, op)
        expected = apply(expected, rest.pop(0)) if op in ("add", "mul") else apply(expected)
    close(fused.linear(*xpu((x, w, b)), chain, list(xpu(tuple(operands)))), expected, torch.float32)


def test_errors() -> None:
    x, w = xpu(values(4, 8)), xpu(values(6, 8))
    with pytest.raises(ValueError, match="unknown post-op 'nope'"):
        fused.linear(x, w, None, ["nope"])
    with pytest.raises(ValueError, match="needs an operand"):
        fused.linear(x, w, None, ["add"])
    with pytest.raises(ValueError, match="take 0 operands, but 1"):
        fused.linear(x, w, None, ["relu"], [x])
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        fused.linear(x, w[:, :5])
    with pytest.raises(RuntimeError, match="expected a bias of 6"):
        fused.linear(x, w, x[0])
    with pytest.raises(ValueError, match="does not broadcast"):
        fused.linear(x, w, None, ["add"], [xpu(values(5))])
    with pytest.raises(RuntimeError, match="same device"):
        fused.linear(x, w.cpu())
    with pytest.raises(ValueError, match="do not fit"):
        fused.conv(xpu(values(1, 3, 5, 5)), xpu(values(4, 2, 3, 3)))
    with pytest.raises(ValueError, match="larger than the padded input"):
        fused.conv(xpu(values(1, 3, 2, 2)), xpu(values(4, 3, 5, 5)))
    with pytest.raises(ValueError, match="unknown post-op"):
        fused.linear(x.cpu(), w.cpu(), None, ["nope"])


def test_autocast() -> None:
    x, w = xpu(values(4, 8)), xpu(values(6, 8))
    with torch.autocast("xpu", dtype=torch.bfloat16):
        out = fused.linear(x, w, None, ["relu", "add"], [xpu(values(6))])
    assert out.dtype == torch.bfloat16


# ---- norms and rotation


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(5, 33), (2, 3, 128), (7, 1000), (3, 1), (0, 8)], ids=str)
@pytest.mark.parametrize("parameters", ["none", "same", "float32"])
def test_add_norm(dtype: torch.dtype, shape: tuple[int, ...], parameters: str) -> None:
    x, residual = values(*shape, dtype=dtype), values(*shape, dtype=dtype, seed=1)
    kind = dtype if parameters == "same" else torch.float32
    w = None if parameters == "none" else values(shape[-1], dtype=kind, seed=2)
    b = None if parameters == "none" else values(shape[-1], dtype=kind, seed=3)
    total = (x + residual).double()
    y, s = fused.add_layer_norm(*xpu((x, residual, w, b)))
    close(s, total, dtype)
    close(y, F.layer_norm(total, shape[-1:], double(w), double(b)), dtype)
    y, s = fused.add_rms_norm(*xpu((x, residual, w)), eps=1e-6)
    close(s, total, dtype)
    close(y, F.rms_norm(total, shape[-1:], double(w), 1e-6), dtype)
    close(fused.rms_norm(*xpu((x, w)), eps=1e-6), F.rms_norm(double(x), shape[-1:], double(w), 1e-6), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("parameters", ["none", "same", pytest.param("float32", marks=pytest.mark.slow)])
def test_add_norm_past_the_caches(dtype: torch.dtype, parameters: str) -> None:
    """Results that are too large for the caches are stored by another kernel, to the same values."""
    shape = (2053, 4096 + 64) if dtype == torch.float32 else (4099, 4096 + 64)
    x, residual = values(*shape, dtype=dtype), values(*shape, dtype=dtype, seed=1)
    kind = dtype if parameters == "same" else torch.float32
    w, b = (None if parameters == "none" else values(shape[-1], dtype=kind, seed=s) for s in (2, 3))
    few = torch.tensor([0, 1, 31, 32, 700, shape[0] - 1])
    for whole, part in (
        (fused.add_layer_norm(*xpu((x, residual, w, b))), fused.add_layer_norm(*xpu((x[few], residual[few], w, b)))),
        (
            fused.add_rms_norm(*xpu((x, residual, w)), eps=1e-6),
            fused.add_rms_norm(*xpu((x[few], residual[few], w)), eps=1e-6),
        ),
    ):
        assert torch.equal(whole[1].cpu(), x + residual)
        close(part[0], whole[0][xpu(few)].double().cpu(), dtype)
    close(whole[0], F.rms_norm((x + residual).double(), shape[-1:], double(w), 1e-6), dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    if interleaved:
        return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * sin
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
@pytest.mark.parametrize("wide", [False, True], ids=["half", "wide"])
@pytest.mark.parametrize("layout", ["heads_first", "heads_last", "flat", "five"])
def test_rotary_embedding(dtype: torch.dtype, interleaved: bool, wide: bool, layout: str) -> None:
    angles = values(2, 7, 12, seed=1, scale=3)
    cos, sin = (f(angles).to(dtype) for f in (torch.cos, torch.sin))
    both = lambda t: t.repeat_interleave(2, -1) if interleaved else torch.cat((t, t), -1)  # noqa: E731
    x = {
        "heads_first": values(2, 3, 7, 24, dtype=dtype),
        "heads_last": values(2, 7, 3, 24, dtype=dtype).transpose(1, 2),
        "flat": values(7, 24, dtype=dtype),
        "five": values(1, 2, 3, 7, 24, dtype=dtype),
    }[layout]
    cos, sin = (t[0] if layout == "flat" else t.unsqueeze(1) for t in (cos, sin))
    expected = rotate(double(x), both(double(cos)), both(double(sin)), interleaved)
    tables = xpu((both(cos), both(sin)) if wide else (cos, sin))
    moved = xpu(values(2, 7, 3, 24, dtype=dtype)).transpose(1, 2) if layout == "heads_last" else xpu(x)
    actual = fused.rotary_embedding(moved, *tables, interleaved=interleaved)
    close(actual, expected, dtype)
    back = fused.rotary_embedding(actual, *tables, interleaved=interleaved, inverse=True)
    rtol, atol = TOLERANCE[dtype]
    torch.testing.assert_close(back.cpu(), x, rtol=2 * rtol, atol=4 * atol)
    if dtype in (torch.bfloat16, torch.float16):
        mixed = fused.rotary_embedding(moved, *(t.float() for t in tables), interleaved=interleaved)
        assert mixed.dtype == dtype


# ---- gradients and tracing


def calls(dtype: torch.dtype) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Every operator with arguments that want gradients."""

    def t(*shape: int, seed: int, wants: bool = True) -> torch.Tensor:
        return xpu(values(*shape, dtype=dtype, seed=seed)).requires_grad_(wants)

    ops = torch.ops.xpu_ops
    angles = values(5, 4, seed=9)
    cos, sin = xpu(angles.cos().to(dtype)), xpu(angles.sin().to(dtype))
    return {
        "linear": (ops.linear.default, (t(3, 8, seed=1), t(6, 8, seed=2), t(6, seed=3), ["silu", "mul"], [t(3, 6, seed=4)])),
        "matmul": (ops.matmul.default, (t(2, 3, 8, seed=1), t(2, 8, 6, seed=2), t(6, seed=3), ["tanh", "add"], [t(6, seed=4)])),
        "conv": (
            ops.conv.default,
            (t(2, 4, 6, 6, seed=1), t(5, 4, 3, 3, seed=2), t(5, seed=3), [1], [1], [1], 1, False, [], ["gelu"], []),
        ),
        "gated_linear": (ops.gated_linear.default, (t(3, 8, seed=1), t(6, 8, seed=2), t(6, 8, seed=3))),
        "rms_norm": (ops.rms_norm.default, (t(3, 8, seed=1), t(8, seed=2), 1e-6)),
        "add_rms_norm": (ops.add_rms_norm.default, (t(3, 8, seed=1), t(3, 8, seed=2), t(8, seed=3), 1e-6)),
        "add_layer_norm": (ops.add_layer_norm.default, (t(3, 8, seed=1), t(3, 8, seed=2), t(8, seed=3), t(8, seed=4))),
        "rotary_embedding": (ops.rotary_embedding.default, (t(2, 5, 8, seed=1), cos, sin)),
    }  # fmt: skip


NAMES = sorted(calls(torch.float32)) if torch.xpu.is_available() else []


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name: str) -> None:
    op, args = calls(torch.float32)[name]
    torch.library.opcheck(op, args)
    plain = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, args)
    torch.library.opcheck(op, plain)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    op, args = calls(torch.float64)[name]
    differentiable = {"add_rms_norm": 2, "add_layer_norm": 2}.get(name)
    tensors = [a for a in torch.utils._pytree.tree_leaves(args) if isinstance(a, torch.Tensor) and a.requires_grad]
    flat, spec = torch.utils._pytree.tree_flatten(args)

    def run(*given: torch.Tensor) -> Any:
        rest = iter(given)
        leaves = [next(rest) if isinstance(a, torch.Tensor) and a.requires_grad else a for a in flat]
        result = op(*torch.utils._pytree.tree_unflatten(leaves, spec))
        return result[:differentiable] if differentiable else result

    assert torch.autograd.gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wants", [False, True])
def test_forward_derivatives(name: str, wants: bool) -> None:
    """The fused kernels have none: such calls are composed. Held against the gradients."""
    op, args = calls(torch.float64)[name]
    flat, spec = torch.utils._pytree.tree_flatten(args)
    leaves = [a for a in flat if isinstance(a, torch.Tensor) and a.requires_grad]
    directions = [torch.randn_like(a) for a in leaves]
    first = lambda r: r[0] if isinstance(r, tuple) else r  # noqa: E731
    out = first(op(*args))
    weights = torch.randn_like(out)
    grads = torch.autograd.grad(out, leaves, weights)
    with torch.autograd.forward_ad.dual_level():
        along = iter(directions)
        dual = [
            torch.autograd.forward_ad.make_dual(a if wants else a.detach(), next(along))
            if any(a is x for x in leaves)
            else a
            for a in flat
        ]
        moved = torch.autograd.forward_ad.unpack_dual(
            first(op(*torch.utils._pytree.tree_unflatten(dual, spec)))
        ).tangent
    torch.testing.assert_close(
        (moved * weights).sum(), sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
    )


@pytest.mark.parametrize("name", NAMES)
def test_training_equals_inference(name: str) -> None:
    """Calls that want gradients compute the same as the fused kernels."""
    op, args = calls(torch.float32)[name]
    with_grad = op(*args)
    with torch.no_grad():
        without = op(*args)
    torch.testing.assert_close(with_grad, without, rtol=1e-4, atol=1e-5)


# ---- torch's own fused schemas

UNARY: list[tuple[str, list[Any], str | None, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("none", [], None, lambda t: t),
    ("relu", [], None, F.relu),
    ("sigmoid", [], None, torch.sigmoid),
    ("tanh", [], None, torch.tanh),
    ("swish", [], None, F.silu),
    ("hardswish", [], None, F.hardswish),
    ("hardsigmoid", [], None, F.hardsigmoid),
    ("leaky_relu", [0.2], None, lambda t: F.leaky_relu(t, 0.2)),
    ("hardtanh", [-0.3, 0.4], None, lambda t: F.hardtanh(t, -0.3, 0.4)),
    ("gelu", [], "none", F.gelu),
    ("gelu", [], "tanh", lambda t: F.gelu(t, approximate="tanh")),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", range(len(UNARY)))
def test_mkldnn_unary(dtype: torch.dtype, case: int) -> None:
    name, scalars, algorithm, function = UNARY[case]
    ops = torch.ops.mkldnn
    x, w, b = values(3, 5, 20, dtype=dtype), values(16, 20, dtype=dtype, seed=1), values(16, dtype=dtype, seed=2)
    rest = (name, scalars, algorithm)
    close(ops._linear_pointwise(*xpu((x, w, b)), *rest), function(F.linear(*double((x, w, b)))), dtype)
    image, kernel = values(2, 8, 7, 7, dtype=dtype), values(16, 8, 3, 3, dtype=dtype, seed=3)
    out = function(F.conv2d(*double((image, kernel, b)), stride=2, padding=1))
    close(ops._convolution_pointwise(*xpu((image, kernel, b)), [1, 1], [2, 2], [1, 1], 1, *rest), out, dtype)
    kernel = values(8, 16, 3, 3, dtype=dtype, seed=3)
    out = function(F.conv_transpose2d(*double((image, kernel, b)), stride=2, padding=1))
    actual = ops._convolution_transpose_pointwise(*xpu((image, kernel, b)), [1, 1], [0, 0], [2, 2], [1, 1], 1, *rest)
    close(actual, out, dtype)
    if dtype == torch.float32:  # the CPU's implementation of the same schema
        assert_near(
            actual,
            ops._convolution_transpose_pointwise(image, kernel, b, [1, 1], [0, 0], [2, 2], [1, 1], 1, *rest),
            rtol=1e-4, atol=1e-4,
        )  # fmt: skip
        assert_near(
            ops._linear_pointwise(*xpu((x, w, b)), *rest), ops._linear_pointwise(x, w, b, *rest),
            rtol=1e-4, atol=1e-4,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_mkldnn_binary(dtype: torch.dtype, last: bool) -> None:
    ops = torch.ops.mkldnn
    x, w, b = values(3, 5, 20, dtype=dtype), values(16, 20, dtype=dtype, seed=1), values(16, dtype=dtype, seed=2)
    other = values(3, 5, 16, dtype=dtype, seed=4)
    for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul}.items():
        expected = function(F.linear(*double((x, w, b))), double(other))
        close(ops._linear_pointwise.binary(*xpu((x, other, w, b)), name), expected, dtype)
    image, kernel = values(2, 8, 7, 7, dtype=dtype), values(16, 8, 3, 3, dtype=dtype, seed=3)
    other = values(2, 16, 7, 7, dtype=dtype, seed=5)
    if last:
        image, other = (t.to(memory_format=torch.channels_last) for t in (image, other))
    out = F.conv2d(*double((image, kernel, b)), padding=1)
    where = ([1, 1], [1, 1], [1, 1], 1)
    for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul}.items():
        actual = ops._convolution_pointwise.binary(
            *xpu((image, other, kernel, b)), *where, name, None, "relu", [], None
        )
        close(actual, F.relu(function(out, double(other))), dtype)
    accumulator = xpu(other)
    result = ops._convolution_pointwise_.binary(
        accumulator, *xpu((image, kernel, b)), *where, "add", 1.0, "relu", [], None
    )
    assert result.data_ptr() == accumulator.data_ptr()
    close(accumulator, F.relu(out + double(other)), dtype)
    with pytest.raises(RuntimeError, match="none or 1.0"):
        ops._convolution_pointwise.binary(*xpu((image, other, kernel, b)), *where, "add", 2.0, None, [], None)


# ---- the namespace


def test_reachable_after_import_torch() -> None:
    from support import script

    assert (
        script.out(
            """
        import torch
        x = torch.ones(2, 8, device="xpu", requires_grad=True)
        y = torch.ops.xpu_ops.linear(x, torch.ones(4, 8, device="xpu"), None, ["relu"], [])
        y.sum().backward()
        print(x.grad.sum().item())
        """
        )
        == "64.0"
    )


def test_compile() -> None:
    w = xpu(values(16, 8))

    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def model(x: torch.Tensor) -> torch.Tensor:
        h = fused.linear(x, w, None, ["silu"])
        return fused.add_layer_norm(h, h)[0] + fused.rms_norm(h)

    with torch.no_grad():
        for n in (3, 5):
            x = xpu(values(n, 8, seed=n))
            h = F.silu(x @ w.t())
            torch.testing.assert_close(
                model(x), F.layer_norm(2 * h, (16,)) + F.rms_norm(h, (16,)), rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_results_of_torchs_convolutions_lie_as_their_images(layout: torch.memory_format) -> None:
    """torch's compiler asserts it of xpu, also where a frozen weight is channels last (ConvNeXt)."""
    x = torch.randn(1, 8, 6, 6, device="xpu").contiguous(memory_format=layout)
    w = torch.randn(8, 8, 2, 2, device="xpu").contiguous(memory_format=torch.channels_last)
    y = torch.ops.mkldnn._convolution_pointwise(x, w, None, [0, 0], [2, 2], [1, 1], 1, "relu", [], None)
    assert y.is_contiguous(memory_format=layout)
    torch.testing.assert_close(y, F.conv2d(x, w, stride=2).relu(), rtol=1e-4, atol=1e-5)
