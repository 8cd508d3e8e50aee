"""Every pointwise row called into `out=`, in place, with memory that overlaps, and with what must be refused."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from support.compare import TOLERANCES, assert_same, clone, cpu_refuses, reference, to_device
from support.drawing import views
from support.manifest import TORCH_TYPES, overload, rows
from support.pointwise import build, tolerance

import xpu_ops

ROWS = [r for r in rows() if r["kind"] == "pointwise"]
EXAMPLES = min(12, settings.default.max_examples) if settings.default.derandomize else settings.default.max_examples
# A device cannot raise ZeroDivisionError; ldexp.out of the CPU asserts where the result has another type.
LENIENT = re.compile("ZeroDivisionError|INTERNAL ASSERT FAILED")
OWN_LAYOUT = {"abs.out"}  # the CPU computes it into a temporary for complex types: an out that it resizes is then dense
RESIZED = "An output with one or more elements was resized"


def writes(name: str) -> bool:
    schema = overload(name)._schema
    first = schema.arguments[0]
    return first.alias_info is not None and first.alias_info.is_write and not first.is_out


OUTS = [
    pytest.param(r, n, id=n)
    for r in ROWS
    for n in r["overloads"]
    if any(a.is_out for a in overload(n)._schema.arguments)
]
INPLACE = [pytest.param(r, n, id=n) for r in ROWS for n in r["overloads"] if writes(n)]
FUNCTIONAL = [
    pytest.param(r, r["functional"], id=r["op"])
    for r in ROWS
    if not writes(r["functional"]) and not any(a.is_out for a in overload(r["functional"])._schema.arguments)
]


def types(row: dict[str, Any]) -> Any:
    usual = [t for t in row["types"] if t not in row["test"]["skip_types"]]
    return st.sampled_from(usual)


def observed(call: Callable[[], Any]) -> tuple[Any, Exception | None, int]:
    """Result, error and number of warnings that an output was resized."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result, error = call(), None
        except Exception as raised:
            result, error = None, raised
    return result, error, sum(RESIZED in str(w.message) for w in seen)


def same_end(
    row: dict[str, Any],
    type_name: str,
    there: tuple[Any, Any, int],
    here: tuple[Any, Any, int],
    strides: bool = True,
    wide: Callable[[], Any] | None = None,
    computed: torch.dtype | None = None,
) -> bool:
    """Errors of the same kind, or equal results; whether there was a result.

    wide: the same in double. computed: the type whose precision a result has, where an out has another.
    """
    (actual, raised, resized), (expected, error, expected_resized) = there, here
    if error is not None and cpu_refuses(error):
        return False  # a type that the CPU lacks: test_values says whether xpu is right
    if raised is None and error is not None and LENIENT.search(str(error)):
        return False
    if error is not None:
        assert isinstance(raised, type(error)), f"{raised!r}, expected {error!r}"
        return False
    if raised is not None:
        raise raised
    assert resized == expected_resized
    assert_same(
        actual, expected, tol=tolerance(row, type_name) or TOLERANCES.get(computed), strides=strides, reference=wide
    )
    return True


@pytest.mark.parametrize(("row", "name"), OUTS)
def test_out(row: dict[str, Any], name: str) -> None:
    """Empty, of the right or a wrong size, of another type, or one of the inputs."""
    op = overload(name)
    outs = [a.name for a in op._schema.arguments if a.is_out]
    names = [a.name for a in op._schema.arguments if not a.is_out]

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def run(data: Any) -> None:
        type_name = data.draw(types(row))
        args = dict(zip(names, build(data.draw, row, op._schema, TORCH_TYPES[type_name]), strict=True))
        expected, error, _ = observed(lambda: overload(row["functional"])(*clone(list(args.values()))))
        if error is not None:
            return
        results = [expected] if isinstance(expected, torch.Tensor) else list(expected)
        kind = data.draw(st.sampled_from(["empty", "strided", "size", "type", "input"]))
        if kind == "input":
            same = [
                k
                for k, a in args.items()
                if isinstance(a, torch.Tensor) and (a.shape, a.dtype) == (results[0].shape, results[0].dtype)
            ]
            if not same:
                return
            args[same[0]] = args[same[0]].clone()
        made = {}
        for out, r in zip(outs, results, strict=True):
            dtype = data.draw(st.sampled_from([torch.int32, torch.float64, torch.bool])) if kind == "type" else r.dtype
            shape = (2, 3) if kind == "size" else (0,) if kind == "empty" else r.shape[::-1]
            made[out] = torch.zeros(shape, dtype=dtype)
            if kind in ("strided", "type"):
                made[out] = made[out].permute(tuple(reversed(range(r.dim()))))

        def given_on(device: str) -> dict[str, Any]:
            there = clone({**args, **made}) if device == "cpu" else to_device(clone({**args, **made}))
            if kind == "input":
                there[outs[0]] = there[same[0]]
            return there

        here, there = given_on("cpu"), given_on("xpu")
        before = {k: there[k].data_ptr() for k in outs}
        with xpu_ops.fallback.forbid():
            actual = observed(lambda: op(**there))
        strides = name not in OWN_LAYOUT or kind not in ("empty", "size")
        wide = lambda: reference(overload(row["functional"]), *args.values())  # noqa: E731
        if not same_end(row, type_name, actual, observed(lambda: op(**here)), strides, wide, results[0].dtype):
            return
        returned = [actual[0]] if isinstance(actual[0], torch.Tensor) else list(actual[0])
        for out, r in zip(outs, returned, strict=True):
            assert r.data_ptr() == there[out].data_ptr()
            assert kind in ("empty", "size") or r.data_ptr() == before[out]

    run()


@pytest.mark.parametrize(("row", "name"), INPLACE)
def test_inplace(row: dict[str, Any], name: str) -> None:
    """With other tensors, with itself, with a view of itself that overlaps, on memory that several elements share."""
    op = overload(name)
    names = [a.name for a in op._schema.arguments]
    tensors = [a.name for a in op._schema.arguments if str(a.type) == "Tensor"]

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def run(data: Any) -> None:
        type_name = data.draw(types(row))
        args = dict(zip(names, build(data.draw, row, op._schema, TORCH_TYPES[type_name]), strict=True))
        first, others = tensors[0], [t for t in tensors[1:] if args[t].dtype == args[tensors[0]].dtype]
        kind = data.draw(st.sampled_from(["plain", "itself", "overlap"]))
        if kind != "plain" and not others:
            kind = "plain"
        length = data.draw(st.integers(2, 40))
        base = data.draw(views((length,), args[first].dtype, row["test"]["domain"] if isinstance(row["test"]["domain"], list)
                               else None, kinds=("contiguous",)))  # fmt: skip

        def given_on(device: str) -> dict[str, Any]:
            there = clone(args) if device == "cpu" else to_device(clone(args))
            memory = base.clone().to(device)
            if kind == "itself":
                there |= dict.fromkeys([first, *others], memory)
            elif kind == "overlap":
                there |= {first: memory[1:], **dict.fromkeys(others, memory[:-1])}
            for other in tensors[1:]:
                if kind != "plain" and other not in others:
                    there[other] = there[other].new_ones(())
            return there

        here, there = given_on("cpu"), given_on("xpu")
        pointer = there[first].data_ptr()
        with xpu_ops.fallback.forbid():
            actual = observed(lambda: op(**there))
        # The last digits of the CPU's functions hang on its instruction set.
        wide = lambda: reference(op, **given_on("cpu"))  # noqa: E731
        if same_end(row, type_name, actual, observed(lambda: op(**here)), wide=wide):
            assert actual[0].data_ptr() == there[first].data_ptr() == pointer
            assert_same(there[first], here[first], tol=tolerance(row, type_name), strides=True, reference=wide)

    run()


@pytest.mark.parametrize(("row", "name"), FUNCTIONAL)
def test_errors(row: dict[str, Any], name: str) -> None:
    """Shapes that do not broadcast, types that the row does not name, operands on another device."""
    op = overload(name)
    names = [a.name for a in op._schema.arguments if not a.is_out]
    tensors = [a.name for a in op._schema.arguments if str(a.type) == "Tensor" and not a.is_out]

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def run(data: Any) -> None:
        kind = data.draw(st.sampled_from(["shape", "type", "device"] if len(tensors) > 1 else ["type"]))
        type_name = data.draw(types(row))
        dtype = TORCH_TYPES[type_name]
        if kind == "type":
            type_name = data.draw(st.sampled_from(["b8", "i64", "u8", "f16", "c64", "f32"]))
            dtype = TORCH_TYPES[type_name]
        args = dict(zip(names, build(data.draw, row, op._schema, dtype), strict=True))
        if kind == "shape":
            broken = data.draw(st.sampled_from(tensors[1:]))
            args[broken] = torch.ones((7, 2, 7, 3), dtype=args[broken].dtype)
        there, here = to_device(clone(args)), clone(args)
        wide = lambda: reference(op, **args)  # noqa: E731
        if kind == "device":
            away = data.draw(st.sampled_from(tensors))
            there[away] = here[away]
            tensor = here[away].dim() > 0 and any(here[t].dim() or t == away for t in tensors)
            with xpu_ops.fallback.forbid():
                actual = observed(lambda: op(**there))
            if tensor:
                assert isinstance(actual[1], RuntimeError), f"{actual[1]!r}, expected that devices differ"
            elif actual[1] is None:
                same_end(row, type_name, actual, observed(lambda: op(**here)), wide=wide)
            return
        with xpu_ops.fallback.forbid():
            actual = observed(lambda: op(**there))
        same_end(row, type_name, actual, observed(lambda: op(**here)), wide=wide)

    run()


def test_every_overload_is_called() -> None:
    """The calls of test_values, into an out, or in place; the other functional overloads stand in test_others."""
    called = {p.values[1] for p in (*OUTS, *INPLACE, *FUNCTIONAL)} | {r["functional"] for r in ROWS}
    missing = [n for r in ROWS for n in r["overloads"] if n not in called]
    assert not missing


def test_outs_that_upstream_refuses() -> None:
    """The CPU's error for an out of another type, word for word."""
    x = torch.randn(2, 3)
    buffer = torch.ops.aten.log_sigmoid_forward(x)[1]

    def frexp(device: str, mantissa: torch.dtype, exponent: torch.dtype) -> None:
        outs = torch.empty(0, dtype=mantissa, device=device), torch.empty(0, dtype=exponent, device=device)
        torch.frexp(x.to(device), out=outs)

    def backward(device: str, out: torch.dtype, grad: torch.dtype = torch.float32) -> None:
        args = x.to(device, grad), x.to(device), buffer.to(device)
        torch.ops.aten.log_sigmoid_backward.grad_input(*args, grad_input=torch.empty(0, dtype=out, device=device))

    for call, *dtypes in (
        (frexp, torch.float64, torch.int32), (frexp, torch.float32, torch.int64), (frexp, torch.bool, torch.int32),
        (backward, torch.float64), (backward, torch.bfloat16), (backward, torch.int32),
        (backward, torch.float32, torch.float64),
    ):  # fmt: skip
        with pytest.raises(RuntimeError) as expected:
            call("cpu", *dtypes)
        with pytest.raises(RuntimeError) as raised:
            call("xpu", *dtypes)
        assert str(raised.value) == str(expected.value)
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="only supports floating-point dtypes"):
            torch.frexp(torch.ones(2, dtype=torch.int64, device=device))


def test_out_of_another_type() -> None:
    """glu's operands were read from tensors that were gone: a crash of the process, found by test_out."""
    x = torch.arange(8.0).view(2, 4)
    for dtype in (torch.float64, torch.bfloat16):
        out = torch.empty(2, 2, dtype=dtype, device="xpu")
        torch.ops.aten.glu.out(x.to("xpu"), 1, out=out)
        torch.testing.assert_close(out.cpu(), torch.nn.functional.glu(x, 1).to(dtype))


@pytest.mark.parametrize("sizes", [(3, 2, 4, 2, 3, 5), (2, 3, 2, 3, 2, 3, 17), (2, 2, 2, 3, 2, 2, 2, 33)])
def test_more_dims_than_a_launch_walks(sizes: tuple[int, ...]) -> None:
    """Dims of the rows above four are a loop over launches; nothing here collapses."""
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(1)).tolist()
    x = torch.arange(float(torch.Size(sizes).numel())).view(sizes)
    y = torch.empty([sizes[i] for i in order]).permute([order.index(i) for i in range(len(sizes))]).copy_(x.sin())
    broadcast = y.select(1, 0).unsqueeze(1)
    a, b, c = x.to("xpu"), y.to("xpu"), broadcast.to("xpu")
    assert b.stride() == y.stride()
    for f in (
        lambda x, y, z: x + y,
        lambda x, y, z: torch.where(y > 0, x, z),
        lambda x, y, z: y * 3,
        lambda x, y, z: torch.add(x, y, alpha=2, out=torch.empty_like(y)),
        lambda x, y, z: y.clone().mul_(z).add_(torch.tensor(2.5)),
    ):
        torch.testing.assert_close(f(a, b, c).cpu(), f(x, y, broadcast), rtol=0, atol=1e-6)


@pytest.mark.parametrize("on_device", list(itertools.product([False, True], repeat=3)), ids=str)
def test_where_takes_numbers_of_the_cpu(on_device: tuple[bool, bool, bool]) -> None:
    """torch.where moves tensors without dimensions to the device of the others; larger ones it refuses."""
    values = torch.tensor([True, False, True]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    there = [v if device else v[0] for v, device in zip(values, on_device, strict=True)]
    got = torch.where(*(v.to("xpu") if device else v for v, device in zip(there, on_device, strict=True)))
    assert got.device.type == ("xpu" if any(on_device) else "cpu")
    assert torch.equal(got.cpu(), torch.where(*there))
    if any(on_device) and not all(on_device):
        with pytest.raises(RuntimeError, match="on the same device"):
            torch.where(*(v.to("xpu") if device else v for v, device in zip(values, on_device, strict=True)))
