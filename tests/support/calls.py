"""One call of an operator, drawn, made on the CPU and on xpu, and compared: results, written arguments, errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import torch
from torch.utils._pytree import tree_leaves, tree_map

import xpu_ops
from support.arguments import Draw, callable_on_cpu
from support.compare import assert_same, clone, cpu_refuses, narrowed, reference, to_device
from support.dirty import dirty_memory
from support.manifest import TORCH_TYPES, overload
from support.recipe import find
from support.ties import by_elements

# Errors of the CPU's implementation and not of the operator: isin of a tensor that cannot be viewed flat, logsumexp of one
# element over no dimensions, assertions (index_reduce of a mean in 16 bit), histc of equal u8 values, whose range begins at -1.
CPU_ONLY = re.compile(
    "view size is not compatible|output with shape .* doesn't match the broadcast|INTERNAL ASSERT FAILED|"
    "cannot be converted to type uint8_t without overflow|(grad_input|is_target) must be contiguous|"
    "Unsupported memory format|The size of tensor a .0. must match"
)


@dataclass
class Call:
    args: dict[str, Any]
    outside: bool = False  # an index out of range, or a tensor that does not fit: the CPU reports these in two ways
    inline: bool = True  # whether small work may run on the calling thread


def break_one(draw: Any, name: str, args: dict[str, Any]) -> bool:
    """Makes one argument wrong; whether it is a tensor."""
    ways: list[Callable[[], None]] = []
    how = find(name)
    for arg, values in (how.bad if how is not None else {}).items():
        if arg in args:
            ways += [lambda arg=arg, v=v: args.update({arg: clone(v)}) for v in values]
    if how is None:
        if isinstance(args.get("dim"), int):
            ways.append(lambda: args.update(dim=args["dim"] + 9))
        if isinstance(args.get("index"), torch.Tensor):
            ways.append(lambda: args.update(index=args["index"].float()))
            ways.append(lambda: args.update(index=args["index"] + 10**6))
            ways.append(lambda: args.update(index=args["index"][None]))
        if isinstance(args.get("k"), int):
            ways.append(lambda: args.update(k=10**6))
        for source in ("src", "source"):
            if isinstance(args.get(source), torch.Tensor):
                ways.append(lambda source=source: args.update({source: args[source].to(torch.int16)}))
        if isinstance(args.get("reduce"), str):
            ways.append(lambda: args.update(reduce="none"))
    if ways:
        draw(st.sampled_from(ways))()
    index = args.get("index")
    far = isinstance(index, torch.Tensor) and index.numel() > 0 and bool((index >= 10**6).any())
    return far or (how is not None and bool(ways))


def functional_of(name: str) -> Any:
    """The overload that returns what `name` writes into its out arguments."""
    schema = overload(name)._schema
    want = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    base = name.partition(".")[0]
    for packet in (getattr(torch.ops.aten, n, None) for n in (base, f"_{base}")):
        for other in packet.overloads() if packet is not None else []:
            candidate = getattr(packet, other)
            if [(a.name, str(a.type)) for a in candidate._schema.arguments] == want:
                return candidate
    raise KeyError(name)


def has_functional(name: str) -> bool:
    try:
        functional_of(name)
    except KeyError:
        return False
    return True


def tensors_in(value: Any) -> bool:
    return any(isinstance(t, torch.Tensor) for t in tree_leaves(value))


def out_arguments(draw: Any, name: str, args: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Out arguments: empty ones to be resized, or of the right size in some layout."""
    outs = [a.name for a in overload(name)._schema.arguments if a.is_out and a.name not in args]
    if not outs:
        return {}
    try:
        results = tree_leaves(functional_of(name)(**clone(args)))
    except Exception:  # what the functional call refuses, a call into an out may refuse
        dtype = next((t.dtype for t in tree_leaves(args) if isinstance(t, torch.Tensor)), torch.float32)
        return {o: torch.empty(0, dtype=torch.int64 if o == "indices" else dtype) for o in outs}
    made = {}
    for out, r in zip(outs, results, strict=True):
        if draw(st.booleans()):
            made[out] = torch.empty(0, dtype=r.dtype)
        else:
            made[out] = torch.ones(r.shape[::-1], dtype=r.dtype).permute(tuple(reversed(range(r.dim()))))
    return made


@st.composite
def calls(draw: Any, row: dict[str, Any], name: str, dtype: torch.dtype) -> Call:
    args = Draw(draw, row, name, dtype).call()
    outside = draw(st.integers(0, 4)) == 0 and break_one(draw, name, args)
    args |= out_arguments(draw, name, args)
    return Call(args, outside, draw(st.booleans()))


def run(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        result = call()
        torch.xpu.synchronize()  # an index out of range is reported here at the latest
        return result, None
    except Exception as error:
        with suppress(Exception):  # what its kernels reported besides must not end the call after it
            torch.xpu.synchronize()
        return None, error


def check_call(row: dict[str, Any], name: str, type_name: str, call: Call) -> None:
    """Makes the call on both devices and compares all there is to see."""
    op, on_cpu, how, dtype = overload(name), callable_on_cpu(name), find(name), TORCH_TYPES[type_name]
    schema, args = op._schema, call.args
    outs = [a.name for a in schema.arguments if a.is_out]
    keep = how.host if how is not None else ()
    host = clone(args)
    # Into outs that are not dense the CPU writes some results in wrong places (avg_pool3d), and tril beyond them.
    host |= {o: host[o].contiguous() for o in outs}
    device = {k: v if k in keep else to_device(v) for k, v in clone(args).items()}
    if any(a.name == "device" for a in schema.arguments):
        host["device"], device["device"] = "cpu", "xpu"
    before = {k: v.data_ptr() for k, v in device.items() if isinstance(v, torch.Tensor)}
    expected, error = run(lambda: on_cpu(**host))
    function, refused = on_cpu, None
    if outs and (how is None or how.oracle is None) and has_functional(name):
        # Values are the functional call's: some CPU kernels add to what an out holds (_compute_linear_combination).
        function = functional_of(name)
        result, refused = run(lambda: function(**clone({k: v for k, v in args.items() if k not in outs})))
        expected = result if refused is None else expected
    given = {k: v for k, v in args.items() if k not in outs or function is on_cpu}
    dirty_memory()
    xpu_ops.set_inline(call.inline)
    try:
        with xpu_ops.fallback.forbid():
            actual, raised = run(lambda: op(**device))
    finally:
        xpu_ops.set_inline(True)

    def both(**given: Any) -> Any:
        return function(**given), given

    wide: Any = None
    if error is not None and cpu_refuses(error):
        # A type that the CPU lacks: xpu may lack it too, or must be right where double says what is right.
        wide = reference(both, **given)
        if raised is not None or wide is None:
            return
        expected, host = narrowed(wide, dtype)
    elif error is not None or refused is not None:  # what the functional call refuses, a call into an out may refuse
        kinds = tuple(type(e) for e in (error, refused) if e is not None)
        kinds += (IndexError, RuntimeError) if call.outside else ()
        if isinstance(raised, kinds) or (raised is None and (error is None or CPU_ONLY.search(str(error)))):
            return
        raise AssertionError(f"{raised!r}, expected {error!r}")
    elif raised is not None:
        raise raised
    for out in outs:
        assert any(r.data_ptr() == device[out].data_ptr() for r in tree_leaves(actual)), (
            f"{out} is not what was returned"
        )
    if schema.name.endswith("_") and isinstance(actual, torch.Tensor):
        written = next(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
        assert actual.data_ptr() == device[written].data_ptr(), "not in place"
        if "set_" not in name and name != "resize_":
            assert actual.data_ptr() == before[written], f"{written} has moved"
    view = how.view if how is not None else lambda result: result
    if how is not None and not how.values:
        view = lambda result: tree_map(torch.zeros_like, result)  # noqa: E731
    base = name.partition(".")[0]

    def seen(result: Any, given: dict[str, Any]) -> Any:
        """The result in the form in which ties do not matter."""
        return by_elements(base, given, view(result))

    def wide_part(part: Callable[[Any, dict[str, Any]], Any]) -> Any:
        full = wide if wide is not None else reference(both, **given)
        return None if full is None else part(*full)

    tol = row["test"]["tol"].get(type_name) or (how.tol.get(type_name) if how is not None else None)
    same = {"tol": tuple(tol) if tol else None, "accumulates": True}
    strides = not outs and (how is None or (how.oracle is None and how.strides))
    assert_same(seen(actual, device), seen(expected, host), reference=lambda: wide_part(seen), strides=strides, **same)
    # The given tensor may have been written, as on the CPU or not at all.
    named = [k for k in host if k in args and k not in (*outs, *keep) and tensors_in(args[k])]

    def inputs(_: Any, given: dict[str, Any]) -> Any:
        return [given[k] for k in named]

    assert_same(inputs(None, device), inputs(None, host), reference=lambda: wide_part(inputs), **same)
