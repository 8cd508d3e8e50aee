"""Timing: interleaved runs of two callables in one process, medians with spread, correctness before time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten


@dataclass
class Row:
    """One measured case. ratio = torch CPU / xpu, so that more is better.

    Values are microseconds per call unless `unit` says otherwise: a few rows of fresh processes are sizes or counts.
    """

    section: str
    name: str
    cpu_us: float
    xpu_us: float
    spread: float  # interquartile range of the xpu time over its median
    bytes_moved: int = 0  # 0 where bandwidth says nothing
    flops: int = 0
    error: str = ""
    unit: str = "us"

    @property
    def ratio(self) -> float:
        return self.cpu_us / self.xpu_us if self.xpu_us else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


@dataclass
class Case:
    """One call to time: `function(*args)` with the CPU's arguments and with their copies on xpu."""

    section: str
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    bytes_moved: int = 0
    flops: int = 0
    check: bool = True
    rtol: float = 2e-2
    inner: int = 1  # calls between two synchronisations: more than one shows the asynchronous host path
    # The function on xpu that replaces the CPU's in the comparison. Its time stands where the CPU's would.
    unfused: Callable[..., Any] | None = None


def to_xpu(x: Any) -> Any:
    return tree_map(lambda t: t.to("xpu") if isinstance(t, torch.Tensor) else t, x)


def _timed(function: Callable[..., Any], args: tuple[Any, ...], calls: int, sync: bool) -> float:
    if calls < 4:  # the first call after a turn of the other device meets its caches and its threads, which still spin
        function(*args)
        if sync:
            torch.xpu.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        function(*args)
    if sync:
        torch.xpu.synchronize()
    return (time.perf_counter() - start) / calls


def compare(actual: Any, expected: Any, rtol: float) -> str:
    """'' where the results agree, else what differs. Errors are relative to the largest expected magnitude."""
    flat_a, flat_e = tree_flatten(actual)[0], tree_flatten(expected)[0]
    for a, e in zip(flat_a, flat_e, strict=True):
        if not isinstance(e, torch.Tensor) or e.numel() == 0:
            continue
        a, e = a.detach().cpu(), e.detach()
        if a.shape != e.shape or a.dtype != e.dtype:
            return f"{tuple(a.shape)} {a.dtype} against {tuple(e.shape)} {e.dtype}"
        if e.is_complex():
            a, e = torch.view_as_real(a.resolve_conj()), torch.view_as_real(e.resolve_conj())
        if not e.is_floating_point():
            if not torch.equal(a, e):
                return "differs"
            continue
        a, e = a.double().nan_to_num(), e.double().nan_to_num()
        error = (a - e).abs().max().item() / max(e.abs().max().item(), 1e-6)
        if error > rtol:
            return f"relative error {error:.1e}"
    return ""


def check(case: Case, xargs: tuple[Any, ...]) -> str:
    """The error of the result on xpu, empty if none. Where it differs from torch CPU's in 16 bits, which CPU kernels also add in,
    float64 decides who is wrong."""
    actual = case.function(*xargs)
    error = compare(actual, case.function(*case.args), case.rtol)
    narrow = (torch.bfloat16, torch.float16)
    if not error or not any(isinstance(a, torch.Tensor) and a.dtype in narrow for a in case.args):
        return error
    wide = case.function(*(a.double() if isinstance(a, torch.Tensor) and a.dtype in narrow else a for a in case.args))
    flat, spec = tree_flatten(actual)
    like = zip(tree_flatten(wide)[0], flat, strict=True)
    rounded = [w.to(a.dtype) if isinstance(a, torch.Tensor) else w for w, a in like]
    return compare(actual, tree_unflatten(rounded, spec), case.rtol)


def measure(case: Case, seconds: float = 0.25, rounds: int = 7) -> Row:
    """Times one case: rounds of CPU then xpu in turn, each long enough for the clock; medians over the rounds.
    Of the CPU's calls that take seconds, such as bfloat16 products without instructions for them, one is enough."""
    xargs = to_xpu(case.args)
    row = Row(case.section, case.name, 0.0, 0.0, 0.0, case.bytes_moved, case.flops)
    other, other_args = (case.unfused, xargs) if case.unfused else (case.function, case.args)
    try:
        if case.check:
            row.error = check(case, xargs)
        for _ in range(2):
            case.function(*xargs)
        torch.xpu.synchronize()
        first = _timed(other, other_args, 1, case.unfused is not None)
    except Exception as error:
        row.error = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        return row
    once = max(_timed(case.function, xargs, 1, True), 1e-7)
    calls = max(case.inner, min(2000, int(seconds / rounds / 2 / once)))
    cpu, xpu = [], []
    slow = first > 1
    for _ in range(3 if slow else rounds):
        cpu.append(first if slow else _timed(other, other_args, calls, case.unfused is not None))
        xpu.append(_timed(case.function, xargs, calls, True))
    row.cpu_us, row.xpu_us = statistics.median(cpu) * 1e6, statistics.median(xpu) * 1e6
    quartiles = statistics.quantiles(xpu, n=4)
    row.spread = (quartiles[2] - quartiles[0]) * 1e6 / row.xpu_us
    return row


def with_gradients(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Forward and backward: the gradients of every floating argument, for a fixed random gradient of the result."""
    given: dict[Any, torch.Tensor] = {}

    def run(*args: torch.Tensor) -> Any:
        args = tuple(a.detach().requires_grad_(a.is_floating_point()) for a in args)
        out = function(*args)
        key = (out.device, out.shape, out.dtype, out.stride())
        if key not in given:
            fixed = torch.rand(out.shape, generator=torch.Generator().manual_seed(0)).to(out.dtype)
            given[key] = torch.empty_like(out).copy_(fixed)
        return torch.autograd.grad(out, [a for a in args if a.requires_grad], given[key])

    return run


def geomean(values: list[float]) -> float:
    return statistics.geometric_mean(values) if values else 0.0
