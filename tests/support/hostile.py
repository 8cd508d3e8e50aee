"""Calls that a schema allows and nobody means, each run on xpu and on the CPU in a process that may die.

Call `number` of `seed` is always the same, whichever calls ran before. A worker writes what it is about to do into a file,
so that the parent knows which call killed it or did not end.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from support import compare

SECONDS = 30.0  # that a call may take
SIZES = ((), (0,), (1,), (3,), (16,), (2, 3), (3, 2), (0, 3), (4, 1, 5), (2, 3, 4), (1, 2, 5, 5), (2, 4, 3, 3), (1, 1, 2, 3, 3))
DTYPES = (torch.float32,) * 6 + (
    torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int64, torch.int32, torch.uint8, torch.bool,
    torch.complex64, torch.int16, torch.int8,
)  # fmt: skip
INTEGERS = (0, 0, 1, 1, 1, 2, 2, 3, -1, -1, -2, 4, 7, -7, 100, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (0.0, 1.0, 0.5, -1.0, 2.5, 1e-45, 1e30, math.inf, -math.inf, math.nan)
WORDS = ("mean", "sum", "none", "prod", "amax", "amin", "floor", "trunc", "tanh", "bilinear", "L", "U", "nonsense", "")
# Results that are drawn, or not defined: only their shape and type are compared.
UNDEFINED = ("empty", "rand", "normal", "bernoulli", "multinomial", "dropout", "exponential", "geometric", "cauchy", "poisson",
             "log_normal", "uniform", "resize", "set_", "philox", "_sobol", "gamma", "dirichlet", "binomial", "rrelu", "new_empty")  # fmt: skip
# They take a device away, or the process's streams and storages: not calls of one operator.
EXCLUDED = ("record_stream", "_local_scalar_dense", "set_.source_Storage", "_copy_from", "_pin_memory", "is_pinned")


@dataclass
class Finding:
    """`kind`: crash, hang, assert, raises (on xpu alone), accepts (what the CPU refuses), differs, input."""

    kind: str
    seed: int
    number: int
    overload: str
    detail: str


def overloads() -> list[str]:
    """Native overloads of aten for dense tensors, sorted."""
    names = torch._C._dispatch_get_all_op_names()
    found = []
    for name in sorted(n for n in names if n.startswith("aten::")):
        short = name.removeprefix("aten::")
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "XPU") and not short.startswith(EXCLUDED):
            packet, _, overload = short.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if operator is not None:
                found.append(short)
    return found


def operator(name: str) -> Any:
    """The overload of torch.ops.aten of this name."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


class Draw:
    """The arguments of one call; tensors of a call share sizes and types more often than not."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}:{number}")
        self.size = self.random.choice(SIZES)
        self.dtype = self.random.choice(DTYPES)

    def tensor(self) -> torch.Tensor:
        r = self.random
        size = self.size if r.random() < 0.7 else r.choice(SIZES)
        dtype = self.dtype if r.random() < 0.75 else r.choice(DTYPES)
        generator = torch.Generator().manual_seed(r.getrandbits(32))
        kind = r.random()
        if dtype.is_floating_point or dtype.is_complex:
            t = torch.randn(size, generator=generator).to(dtype)
            if kind < 0.15 and t.numel():
                t.view(-1)[r.randrange(t.numel())] = r.choice(NUMBERS[5:])
        elif dtype == torch.bool:
            t = torch.randint(0, 2, size, generator=generator).to(dtype)
        else:
            high = 3 if kind < 0.7 else 9
            t = torch.randint(0 if kind < 0.85 else -9, high, size, generator=generator).to(dtype)
            if kind > 0.95 and t.numel() and dtype == torch.int64:
                t.view(-1)[r.randrange(t.numel())] = r.choice(INTEGERS[14:])
        layout = r.random()
        if layout < 0.08 and t.dim() > 1:
            t = t.transpose(0, -1)
        elif layout < 0.13 and t.dim():
            t = t[:1].expand(t.shape)
        elif layout < 0.18 and t.dim():
            t = torch.cat([t, t], 0)[::2]
        return t

    def integer(self) -> int:
        return self.random.choice(INTEGERS[:14] if self.random.random() < 0.9 else INTEGERS)

    def integers(self, length: int | None) -> list[int]:
        count = length if length and self.random.random() < 0.8 else self.random.randrange(5)
        return [self.integer() for _ in range(count)]

    def value(self, kind: torch._C.JitType, length: int | None = None) -> Any:
        """One value of a schema's type; Skip where it is of no type that is drawn."""
        r = self.random
        name = kind.kind()
        if name == "OptionalType":
            return None if r.random() < 0.5 else self.value(kind.getElementType(), length)
        if name == "TensorType":
            return self.tensor()
        if name == "ListType":
            element = kind.getElementType()
            if element.kind() in ("IntType", "SymIntType"):
                return self.integers(length)
            return [self.value(element) for _ in range(length or r.randrange(4))]
        if name in ("IntType", "SymIntType"):
            return self.integer()
        if name in ("FloatType", "SymFloatType"):
            return r.choice(NUMBERS)
        if name in ("BoolType", "SymBoolType"):
            return r.random() < 0.5
        if name == "NumberType":
            return r.choice((self.integer(), r.choice(NUMBERS), True))
        if name == "StringType":
            return r.choice(WORDS)
        raise Skip(str(kind))

    def arguments(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments, tensors on the CPU."""
        given: list[Any] = []
        named: dict[str, Any] = {}
        for a in operator(name)._schema.arguments:
            if a.name in ("device", "pin_memory", "layout", "generator", "memory_format"):
                value: Any = None
            elif a.name in ("dtype", "out_dtype"):
                value = self.random.choice((None, self.random.choice(DTYPES)))
            elif a.has_default_value() and self.random.random() < 0.3:
                value = a.default_value
            else:
                value = self.value(a.real_type, a.N)
            if value is None and a.has_default_value():
                value = a.default_value
            if a.kwarg_only:
                named[a.name] = value
            else:
                given.append(value)
        return given, named


class Skip(Exception):
    """An argument type that is not drawn."""


def _moved(x: Any) -> Any:
    return compare.to_device(compare.clone(x))


def _call(name: str, args: Any, kwargs: Any, device: str) -> tuple[Any, BaseException | None]:
    wants = {a.name for a in operator(name)._schema.arguments}
    if "device" in wants:
        kwargs = {**kwargs, "device": torch.device(device)}
    try:
        result = operator(name)(*args, **kwargs)
        if device == "xpu":
            torch.xpu.synchronize()
        return result, None
    except Exception as error:
        if device == "xpu":
            torch.xpu.synchronize()
        return None, error


# The CPU has no kernel for the type, or torch composes differently there: more types on xpu are no fault.
_MORE_TYPES = ("not implemented for", "not supported", "unsupported", "Could not run", "expected scalar type", "only support", "must be")


def judge(name: str, seed: int, number: int, state: Any) -> Finding | None:
    """Runs one call on both devices. `state` is told the phase."""
    draw = Draw(seed, number)
    try:
        args, kwargs = draw.arguments(name)
    except Skip:
        return None
    xargs, xkwargs = _moved((args, kwargs))
    before = compare.clone((xargs, xkwargs))
    state("xpu")
    actual, raised = _call(name, xargs, xkwargs, "xpu")
    state("cpu")
    expected, wanted = _call(name, args, kwargs, "cpu")
    state("compare")

    def finding(kind: str, detail: str) -> Finding:
        return Finding(kind, seed, number, name, detail[:400])

    if raised is not None:
        text = f"{type(raised).__name__}: {str(raised).splitlines()[0] if str(raised) else ''}"
        if "INTERNAL ASSERT" in str(raised) and not (wanted is not None and "INTERNAL ASSERT" in str(wanted)):
            return finding("assert", text)
        if wanted is None and not isinstance(raised, torch.OutOfMemoryError):
            return finding("raises", text)
        return None
    if wanted is not None:
        text = str(wanted)
        if isinstance(wanted, NotImplementedError) or any(m in text for m in _MORE_TYPES):
            return None
        return finding("accepts", f"CPU: {type(wanted).__name__}: {text.splitlines()[0] if text else ''}")
    written = {a.name for a in operator(name)._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    names = [a.name for a in operator(name)._schema.arguments if not a.kwarg_only]
    for which, a, b in [*zip(names, xargs, before[0], strict=False), *((k, xkwargs[k], before[1][k]) for k in xkwargs)]:
        if which not in written and (problem := _difference(a, b, exact=True)):
            return finding("input", f"{which}: {problem}")
    if not name.startswith(UNDEFINED) and not any(w in name for w in UNDEFINED):
        if problem := _difference(actual, expected, exact=False):
            return finding("differs", problem)
    return None


def _difference(a: Any, b: Any, *, exact: bool) -> str:
    fa, fb = tree_flatten(a)[0], tree_flatten(b)[0]
    if len(fa) != len(fb):
        return f"{len(fa)} results for {len(fb)}"
    for x, y in zip(fa, fb, strict=True):
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{tuple(x.shape)} {x.dtype} for {tuple(y.shape)} {y.dtype}"
        if x.layout != torch.strided:
            continue
        x, y = x.detach().cpu().resolve_conj().resolve_neg(), y.detach().cpu().resolve_conj().resolve_neg()
        if exact:
            same = torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) if x.dtype != torch.bool else torch.equal(x, y)
            if not same:
                return "changed"
            continue
        if x.is_floating_point() or x.is_complex():
            wide = torch.complex128 if x.is_complex() else torch.float64
            loose = 5e-2 if x.dtype in (torch.float16, torch.bfloat16) else 1e-3
            if not torch.allclose(x.to(wide), y.to(wide), rtol=loose, atol=loose, equal_nan=True):
                return f"values of {tuple(x.shape)} {x.dtype}"
        elif not torch.equal(x, y):
            return f"values of {tuple(x.shape)} {x.dtype}"
    return ""


def worker(seed: int, first: int, last: int, state_file: str, out: str) -> None:
    """Runs calls first to last - 1. Overload `number % n` of the native ones is called."""
    names = overloads()
    state_fd = os.open(state_file, os.O_RDWR | os.O_CREAT)
    with open(out, "a") as log:
        for number in range(first, last):
            name = names[number % len(names)]

            def state(phase: str, number: int = number) -> None:
                os.pwrite(state_fd, f"{number} {phase}".ljust(40).encode(), 0)

            state("draw")
            try:
                found = judge(name, seed, number, state)
            except Exception as error:  # of the harness, or an error that a later call brought up
                found = Finding("harness", seed, number, name, f"{type(error).__name__}: {error}"[:400])
            if found is not None:
                log.write(json.dumps(asdict(found)) + "\n")
                log.flush()
    os.pwrite(state_fd, f"{last} done".ljust(40).encode(), 0)


def _run(seed: int, first: int, last: int, folder: Path) -> tuple[int, str, int]:
    """One worker: the call it ended at, the phase there, the exit code (or -SIGKILL after a hang)."""
    state = folder / "state"
    state.write_text(f"{first} start".ljust(40))
    code = f"from support import hostile; hostile.worker({seed}, {first}, {last}, {str(state)!r}, {str(folder / 'out')!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    seen, since = "", time.monotonic()
    while process.poll() is None:
        time.sleep(0.05)
        now = state.read_text()
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > SECONDS:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            break
    number, phase = state.read_text().split()[:2]
    return int(number), phase, process.returncode


def campaign(seed: int, first: int, last: int) -> Iterator[Finding]:
    """Findings of calls first to last - 1. A call that kills the process on the CPU too is torch's, and no finding."""
    names = overloads()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        at = first
        while at < last:
            number, phase, code = _run(seed, at, last, folder)
            if phase == "done":
                break
            at = number + 1
            name = names[number % len(names)]
            if phase == "cpu":
                continue
            if phase == "xpu" and _kills_the_cpu(seed, number, name):
                continue
            kind = "hang" if code == -signal.SIGKILL else "crash"
            yield Finding(kind, seed, number, name, f"in phase {phase}, exit code {code}")
        out = folder / "out"
        if out.exists():
            for line in out.read_text().splitlines():
                yield Finding(**json.loads(line))


def _kills_the_cpu(seed: int, number: int, name: str) -> bool:
    code = (
        "from support import hostile; import torch; "
        f"a, k = hostile.Draw({seed}, {number}).arguments({name!r}); hostile._call({name!r}, a, k, 'cpu')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode < 0


if __name__ == "__main__":
    seed, first, last = map(int, sys.argv[1:])
    for found in campaign(seed, first, last):
        print(json.dumps(asdict(found)), flush=True)
