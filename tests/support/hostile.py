"""Calls that a schema allows and nobody means, run on xpu and on the CPU, each device in a process of its own.

Call `number` of `seed` has the same arguments whichever calls ran before. Torch's CPU kernels write outside of their
memory for some of these calls: only a process that never runs one says anything about ours. A worker writes what it is
about to do into a file, so that the parent knows which call killed it or did not end. tests/robust/hostile.yaml lists
where the two devices differ for a reason.

python -m support.hostile SEED FIRST LAST [--composites] [--twisted] [--minutes=N] [--page=FILE]
    findings of rounds of calls, then the figures
"""

from __future__ import annotations

import fnmatch
import io
import json
import math
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml
from torch.utils._pytree import tree_flatten

from support import compare, twists
from tools.doc_tables import filled

WRITER = "python -m support.hostile"  # of the tables in docs/reliability.md
SECONDS = 30.0  # of processor time that a call may take
PATIENCE = 300.0  # of waiting without any, on a machine that is busy with something else
SIZES = (
    (),
    (0,),
    (1,),
    (3,),
    (16,),
    (2, 3),
    (3, 2),
    (0, 3),
    (4, 1, 5),
    (2, 3, 4),
    (1, 2, 5, 5),
    (2, 4, 3, 3),
    (1, 1, 2, 3, 3),
)
DTYPES = (torch.float32,) * 6 + (
    torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int64, torch.int32, torch.uint8, torch.bool,
    torch.complex64, torch.int16, torch.int8,
)  # fmt: skip
COARSE = (torch.float16, torch.bfloat16)
INTEGERS = (0, 0, 1, 1, 1, 2, 2, 3, -1, -1, -2, 4, 7, -7, 100, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (0.0, 1.0, 0.5, -1.0, 2.5, 1e-45, 1e30, math.inf, -math.inf, math.nan)
WORDS = ("mean", "sum", "none", "prod", "amax", "amin", "floor", "trunc", "tanh", "bilinear", "L", "U", "nonsense", "")
# Results that are drawn, or not defined: only their shape and type are compared.
UNDEFINED = ("empty", "rand", "normal", "bernoulli", "multinomial", "dropout", "exponential", "geometric", "cauchy", "poisson",
             "log_normal", "uniform", "resize", "set_", "philox", "_sobol", "gamma", "dirichlet", "binomial", "rrelu", "new_empty")  # fmt: skip
# They take a device away, or the process's streams and storages, or write files: not calls of one operator. functorch's
# own read the stack of its transforms unchecked, on every device.
EXCLUDED = (
    "from_file",
    "record_stream",
    "_local_scalar_dense",
    "set_.source_Storage",
    "_copy_from",
    "_pin_memory",
    "is_pinned",
    "_add_batch_dim",
    "_remove_batch_dim",
    "_reshape_alias",  # any strides, unchecked on every device
)


LARGE = 2**26  # elements that are not compared: copies of several such would fill the machine's memory
BATCH = 2000  # calls of one worker
TABLE = Path(__file__).parents[1] / "robust" / "hostile.yaml"


@dataclass(frozen=True)
class Call:
    """One call: `name` is the overload without `aten::`."""

    seed: int
    number: int
    name: str


@dataclass
class Finding:
    """`kind`: crash, hang, assert, raises (on xpu alone), accepts (what the CPU refuses), differs, input (changed)."""

    kind: str
    seed: int
    number: int
    overload: str
    detail: str


@dataclass
class Known:
    """An entry of tests/robust/hostile.yaml: findings that have a reason. The full run of `seed` meets one."""

    reason: str
    overloads: list[str]
    kinds: list[str]
    text: str = ""
    outside: dict[str, list[Any]] = field(default_factory=dict)
    composite: bool = False
    seed: int = 7

    def explains(self, finding: Finding) -> bool:
        """True if kind, overload, text and arguments are those of the entry."""
        if finding.kind not in self.kinds or not any(fnmatch.fnmatchcase(finding.overload, g) for g in self.overloads):
            return False
        if not re.search(self.text, finding.detail):
            return False
        return not self.outside or _outside(finding, self.outside)


def _outside(finding: Finding, domains: dict[str, list[Any]]) -> bool:
    given, named = Draw(finding.seed, finding.number).arguments(finding.overload)
    names = [a.name for a in operator(finding.overload)._schema.arguments if not a.kwarg_only]
    values = {**dict(zip(names, given, strict=True)), **named}
    return any(name in values and values[name] not in allowed for name, allowed in domains.items())


@cache
def known() -> list[Known]:
    """The entries of tests/robust/hostile.yaml."""
    return [Known(**entry) for entry in yaml.safe_load(TABLE.read_text())]


@dataclass
class Figures:
    """Counts of a campaign: calls by how they ended, and findings that the table explains, by reason."""

    ended: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)


@cache
def overloads(composites: bool = False) -> list[str]:
    """Native overloads of aten for dense tensors, sorted; or those that torch composes of others."""
    found = []
    for name in sorted(n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")):
        short = name.removeprefix("aten::")
        native = torch._C._dispatch_has_kernel_for_dispatch_key(name, "XPU")
        composed = any(
            torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
            for key in (
                "CompositeImplicitAutograd",
                "CompositeExplicitAutograd",
                "CompositeExplicitAutogradNonFunctional",
            )
        )
        if short.startswith(EXCLUDED) or not (composed and not native if composites else native):
            continue
        packet, _, overload = short.partition(".")
        if getattr(getattr(torch.ops.aten, packet, None), overload or "default", None) is not None:
            found.append(short)
    return found


def calls(seed: int, first: int, last: int, *, composites: bool = False, twisted: bool = False) -> list[Call]:
    """Rounds first to last - 1, in each of which every overload is called once. A new overload leaves the others' calls
    as they are."""
    base = twists.TWISTED if twisted else 0
    return [
        Call(seed, base + zlib.crc32(n.encode()) + (r << 32), n)
        for r in range(first, last)
        for n in overloads(composites)
    ]


@cache
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


# The CPU has no kernel for the type, or torch composes differently there: more types on xpu are no fault.
_MORE_TYPES = ("not implemented for", "not supported", "unsupported", "Unsupported dtype", "support tensors of type", "Could not run", "expected scalar type", "only support", "must be",
               "to have one of the following scalar types")  # fmt: skip


def _written(name: str) -> set[str]:
    return {a.name for a in operator(name)._schema.arguments if a.alias_info is not None and a.alias_info.is_write}


def _plain(x: Any) -> Any:
    """Tensors as they come back from a process: dense ones on the CPU, of others and of large ones the size."""
    if not isinstance(x, torch.Tensor):
        return None
    if not x.is_nested and x.numel() > LARGE:
        return (str(x.dtype), tuple(x.shape))
    if x.layout != torch.strided or x.is_nested:
        return (str(x.layout), tuple(x.shape) if not x.is_nested else ())
    if x.is_quantized:  # of any axis, which torch.load refuses
        x = x.int_repr()
    try:
        return x.detach().cpu().resolve_conj().resolve_neg().clone()
    except RuntimeError as error:  # of negative size, or of functorch's
        return (type(error).__name__, ())


def run_call(call: Call, device: str) -> dict[str, Any] | None:
    """The outcome of one call on one device: `error` (class, text), `values` (results and written arguments), `changed`."""
    try:
        args, kwargs = Draw(call.seed, call.number).arguments(call.name)
    except Skip:
        return None
    schema = operator(call.name)._schema
    if device == "xpu":
        args, kwargs = compare.to_device(compare.clone((args, kwargs)))
    if twists.twisted(call.number):
        args, kwargs = twists.twist(args, kwargs, _written(call.name), call.number)
    before = compare.clone((args, kwargs))
    place = {"device": torch.device(device)} if any(a.name == "device" for a in schema.arguments) else {}
    try:
        result = operator(call.name)(*args, **{**kwargs, **place})
        if device == "xpu":
            torch.xpu.synchronize()
    except Exception as raised:
        error = raised
        if device == "xpu":
            try:
                torch.xpu.synchronize()
            except Exception as late:
                error = late
        return {
            "error": (type(error).__name__, str(error)),
            "memory": isinstance(error, torch.OutOfMemoryError | MemoryError),
        }
    written, changed, values = _written(call.name), "", [_plain(t) for t in tree_flatten(result)[0]]
    names = [a.name for a in schema.arguments if not a.kwarg_only]
    for which, a, b in [*zip(names, args, before[0], strict=True), *((k, kwargs[k], before[1][k]) for k in kwargs)]:
        if which in written:
            values += [_plain(t) for t in tree_flatten(a)[0]]
        elif problem := _difference(
            [_plain(t) for t in tree_flatten(a)[0]], [_plain(t) for t in tree_flatten(b)[0]], exact=True
        ):
            changed = f"{which}: {problem}"
    return {"error": None, "values": values, "changed": changed}


def compare_outcomes(call: Call, xpu: dict[str, Any], cpu: dict[str, Any] | None) -> Finding | None:
    """The finding of one call, if any. `cpu` is None where torch's own kernel died: then only xpu's is judged."""

    def finding(kind: str, detail: str) -> Finding:
        return Finding(kind, call.seed, call.number, call.name, detail[:400])

    wanted = cpu["error"] if cpu else None
    if xpu["error"]:
        kind, text = xpu["error"]
        if "INTERNAL ASSERT" in text and not (wanted and "INTERNAL ASSERT" in wanted[1]):
            return finding("assert", f"{kind}: {text}")
        if cpu and not wanted and not xpu["memory"] and not twists.twisted(call.number):
            return finding("raises", f"{kind}: {text.splitlines()[0] if text else ''}")
        return None
    if twists.twisted(call.number):
        arguments = Draw(call.seed, call.number).arguments(call.name)
        mixed = twists.elsewhere(*arguments, _written(call.name), call.number)
        return finding("accepts", "a tensor of another device") if mixed else None
    if xpu["changed"]:
        return finding("input", xpu["changed"])
    if cpu is None:
        return None
    if wanted:
        kind, text = wanted
        if kind == "NotImplementedError" or cpu["memory"] or any(m in text for m in _MORE_TYPES):
            return None
        return finding("accepts", f"CPU: {kind}: {text.splitlines()[0] if text else ''}")
    if any(w in call.name for w in UNDEFINED) or not _difference(xpu["values"], cpu["values"]):
        return None
    arguments = tree_flatten(Draw(call.seed, call.number).arguments(call.name))[0]
    coarse = any(isinstance(a, torch.Tensor) and a.dtype in COARSE for a in arguments)
    problem = _difference(xpu["values"], cpu["values"], coarse=coarse)
    return finding("differs", problem) if problem else None


def _difference(a: list[Any], b: list[Any], *, exact: bool = False, coarse: bool = False) -> str:
    """The first difference. `coarse`: of values that were computed in 16 bits, whatever type they have now."""
    if len(a) != len(b):
        return f"{len(a)} results for {len(b)}"
    for x, y in zip(a, b, strict=True):
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
                return "a tensor for none"
            continue
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{tuple(x.shape)} {x.dtype} for {tuple(y.shape)} {y.dtype}"
        if exact:
            if not torch.equal(x, y) and not torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)):
                return "changed"
        elif x.is_floating_point() or x.is_complex():
            wide = torch.complex128 if x.is_complex() else torch.float64
            loose = 5e-2 if coarse or x.dtype in COARSE else 1e-3
            near = torch.isclose(x.to(wide), y.to(wide), rtol=loose, atol=loose, equal_nan=True)
            if not near.all():
                return f"values of {tuple(x.shape)} {x.dtype}: {x[~near][0].item():.6} for {y[~near][0].item():.6}"
        elif not torch.equal(x, y):
            return f"values of {tuple(x.shape)} {x.dtype}: {x[x != y][0].item()} for {y[x != y][0].item()}"
    return ""


def worker(device: str, folder: Path) -> None:
    """Runs the calls of `calls` in the folder; their outcomes go to `out`, the place of the one under way to `state`."""
    todo = [Call(*c) for c in json.loads((folder / "calls").read_text())]
    state = os.open(folder / "state", os.O_RDWR)
    with open(folder / "out", "ab") as out:
        for place, call in enumerate(todo):
            os.pwrite(state, str(place).ljust(12).encode(), 0)
            buffer = io.BytesIO()
            torch.save(run_call(call, device), buffer)
            pickle.dump((place, buffer.getvalue()), out)
            out.flush()
    os.pwrite(state, str(len(todo)).ljust(12).encode(), 0)


class Worker:
    """Calls on one device in a process. `outcomes[place]` is what each did; crash and hang are strings."""

    def __init__(self, device: str, todo: list[Call], folder: Path, environment: dict[str, str]) -> None:
        self.device, self.todo, self.folder = device, todo, folder
        self.environment = environment
        self.outcomes: dict[int, Any] = {}
        self.first = 0
        folder.mkdir()
        self._start()

    def _start(self) -> None:
        (self.folder / "calls").write_text(json.dumps([[c.seed, c.number, c.name] for c in self.todo[self.first :]]))
        (self.folder / "state").write_text("0".ljust(12))
        (self.folder / "out").write_bytes(b"")
        code = f"from support import hostile; from pathlib import Path; hostile.worker({self.device!r}, Path({str(self.folder)!r}))"
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.seen, self.since, self.used = "", time.monotonic(), 0.0

    def _processor_time(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def done(self) -> bool:
        """True once every call has an outcome; starts again behind one that killed the process or did not end."""
        now = (self.folder / "state").read_text()
        ended = self.process.poll() is not None
        hung = False
        if not ended:
            if now != self.seen:
                self.seen, self.since, self.used = now, time.monotonic(), self._processor_time()
                return False
            if self._processor_time() < self.used + SECONDS and time.monotonic() - self.since < PATIENCE:
                return False
            hung = True
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        with open(self.folder / "out", "rb") as out:
            try:
                while True:
                    place, outcome = pickle.load(out)
                    self.outcomes[self.first + place] = torch.load(io.BytesIO(outcome), weights_only=False)
            except (EOFError, pickle.UnpicklingError):
                pass
        at = self.first + int((self.folder / "state").read_text())
        if at == len(self.todo):  # a death at exit is one too
            if self.process.returncode and self.device == "xpu":
                self.outcomes[at - 1] = f"crash: exit code {self.process.returncode} at the end"
            return True
        self.outcomes[at] = "hang" if hung else f"crash: exit code {self.process.returncode}"
        self.first = at + 1
        if self.first == len(self.todo):
            return True
        self._start()
        return False


def _outcomes(todo: list[Call], environment: dict[str, str]) -> tuple[dict[int, Any], dict[int, Any]]:
    with tempfile.TemporaryDirectory() as temporary:
        workers = [Worker(device, todo, Path(temporary) / device, environment) for device in ("xpu", "cpu")]
        waiting = list(workers)
        while waiting:
            time.sleep(0.05)
            waiting = [w for w in waiting if not w.done()]
    return workers[0].outcomes, workers[1].outcomes


def _judge(call: Call, xpu: Any, cpu: Any) -> Finding | None:
    if isinstance(xpu, str):
        return Finding(xpu.partition(":")[0], call.seed, call.number, call.name, xpu)
    return None if xpu is None else compare_outcomes(call, xpu, cpu if isinstance(cpu, dict) else None)


def campaign(todo: Iterable[Call], figures: Figures, *, composites: bool = False) -> Iterator[Finding]:
    """Findings that no entry of the table explains. Each is seen again in a process that runs this call alone: torch's
    CPU kernels spoil the memory of theirs. A crash of xpu counts in any case."""
    todo = list(todo)
    # A fallback would run torch's CPU kernels in the process of xpu: it raises instead.
    environment = {"PYTORCH_ENABLE_XPU_FALLBACK": "0"} if composites else {}
    for start in range(0, len(todo), BATCH):
        batch = todo[start : start + BATCH]
        xpu, cpu = _outcomes(batch, environment)
        for place, call in enumerate(batch):
            x, c = xpu.get(place), cpu.get(place)
            if x == "hang" and c == "hang":
                figures.ended["too long for both"] += 1
                continue
            figures.ended[
                "not drawn" if x is None else x.partition(":")[0] if isinstance(x, str)
                else "torch's CPU kernel died" if isinstance(c, str)
                else f"{'raised' if x['error'] else 'returned'} on xpu, {'raised' if c and c['error'] else 'returned'} on the CPU"
            ] += 1  # fmt: skip
            found = _judge(call, x, c)
            if found is None or (composites and found.kind not in ("crash", "hang", "assert")):
                continue
            if entry := next((k for k in known() if k.explains(found)), None):
                figures.explained[entry.reason] += 1
                continue
            alone_outcomes = _outcomes([call], environment)
            alone = _judge(call, *(o.get(0) for o in alone_outcomes))
            killed = found.detail.endswith("exit code -9")  # by the system, for want of memory
            if alone is None and (killed or found.kind not in ("crash", "hang")):
                figures.ended["not seen again alone"] += 1
                continue
            if composites and isinstance(alone_outcomes[1].get(0), str):
                figures.ended["kills the CPU alone, too"] += 1
                continue
            if alone is None:
                found.detail += ", not alone"
            elif entry := next((k for k in known() if k.explains(alone)), None):
                figures.explained[entry.reason] += 1
                continue
            yield alone or found


def table(figures: Figures, found: list[Finding], which: str) -> str:
    """The figures of a campaign in Markdown. `which` says which calls."""
    lines = [f"{which}: {figures.ended.total()} calls.", "", "| ended | calls |", "|---|---|"]
    lines += [f"| {k} | {v} |" for k, v in figures.ended.most_common()]
    lines += ["", "| remaining difference from torch's CPU, and its reason | calls |", "|---|---|"]
    lines += [f"| {k} | {v} |" for k, v in figures.explained.most_common()]
    lines += ["", f"Findings without a reason: {len(found)}."]
    lines += [f"- {f.kind}: `{f.overload}` (seed {f.seed}, number {f.number}): {f.detail}" for f in found]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    """Prints the findings of a campaign over rounds of calls, then its figures; `--page=FILE` puts those into a page.
    `--minutes=N` starts no further pair of rounds after that time."""
    options = dict(a.removeprefix("--").partition("=")[::2] for a in arguments if a.startswith("--"))
    seed, first, last = map(int, [a for a in arguments if not a.startswith("--")])
    composites = "composites" in options
    twisted = "twisted" in options
    kind = "composite" if composites else "native"
    end = time.monotonic() + 60 * float(options.get("minutes", math.inf))
    figures, found, begin = Figures(), [], first
    while begin < last and time.monotonic() < end:
        done = min(begin + 2, last)
        for finding in campaign(
            calls(seed, begin, done, composites=composites, twisted=twisted), figures, composites=composites
        ):
            found.append(finding)
            print(json.dumps(asdict(finding)), flush=True)
        begin = done
        print(f"{time.strftime('%H:%M:%S')} {figures.ended.total()} calls", file=sys.stderr, flush=True)
    text = table(
        figures,
        found,
        f"Seed {seed}, rounds {first} to {begin - 1} over {len(overloads(composites))} {kind} overloads{', twisted' * twisted}",
    )
    print(text)
    if "page" in options:
        page = Path(options["page"])
        page.write_text(filled(page.read_text(), f"hostile {'twisted' if twisted else kind}", text, WRITER))


if __name__ == "__main__":
    main(sys.argv[1:])
