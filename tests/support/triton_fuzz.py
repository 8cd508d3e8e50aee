"""Random Triton kernels, and what they compute: on xpu, or with TRITON_INTERPRET=1 by Triton's interpreter.

    python tests/support/triton_fuzz.py FOLDER SEED COUNT

writes FOLDER/kernels_SEED.py and, as a program, runs its kernels and writes FOLDER/<device>_SEED.npz. A kernel draws
blocks of one or two dimensions, integer arithmetic that wraps, hashes, divisions, shifts, masks, gathers, reductions,
scans, loops, branches, views and atomics. Float results depend on no comparison of computed floats.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

LENGTH = 4096
INPUTS = {"x0": "float32", "x1": "float32", "i0": "int32", "i1": "int32", "l0": "int64", "b0": "int8", "h0": "float16"}
OUTPUTS = {"of": "float32", "oi": "int32", "ol": "int64", "oa": "int32"}
HEAD = "import triton\nimport triton.language as tl\n\n\n"


class _Kernel:
    """The text of one kernel while it is drawn."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.lines: list[str] = []
        self.ints: list[str] = []
        self.floats: list[str] = []
        self.count = 0
        self.indent = 1

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def value(self, kind: list[str], code: str) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.put(f"{name} = {code}")
        kind.append(name)
        return name

    def shape(self) -> str:
        return f"[{', '.join(str(s) for s in self.sizes)}]"

    def start(self) -> None:
        r = self.rng
        if r.random() < 0.5:
            self.sizes = [r.choice([1, 2, 8, 16, 32, 64, 128, 256])]
            self.put(f"offs = tl.arange(0, {self.sizes[0]})")
        else:
            self.sizes = [r.choice([1, 2, 4, 8, 16, 32]), r.choice([1, 2, 8, 16, 32, 64])]
            self.put(f"row = tl.arange(0, {self.sizes[0]})[:, None]")
            self.put(f"col = tl.arange(0, {self.sizes[1]})[None, :]")
            self.put(f"offs = row * {r.choice(['s', str(self.sizes[1])])} + col")
        self.put(f"at = pid * {r.choice([1, 16, 64, 100])} + offs")
        mask = r.choice(["at < n", "offs < n", "(at < n) & (at >= m)", "at % 3 != 0", "(offs & 5) < 4", "n > offs"])
        self.put(f"mask = {mask}")
        self.ints += ["at", "offs"]

    def index(self) -> str:
        """An expression within the inputs."""
        r = self.rng
        x = r.choice(self.ints)
        return r.choice(
            [
                "at",
                "offs",
                f"({x} & {LENGTH - 1})",
                f"(({x} * 1103515245 + 12345) & {LENGTH - 1})",
                f"(({x} ^ ({x} >> 3)) & {LENGTH - 1})",
                f"(tl.abs({x} % {LENGTH}))",
                "(at % (n + 1))",
                "(at // (m + 2))",
                "(n + 7 - offs + 2100)",
                "(at.to(tl.int64) + m)",
                f"(({x} * 40503 >> 5) & 1023)",
            ]
        )

    def load(self) -> None:
        name = self.rng.choice(list(INPUTS))
        masked = self.rng.choice(["", ", mask=mask", ", mask=mask, other=3"])
        code = f"tl.load({name} + {self.index()}{masked})"
        if INPUTS[name].startswith("int"):
            self.value(self.ints, f"(({code}){'' if masked != ', mask=mask' else ' * mask'}).to(tl.int32)")
        else:
            wide = f"({code}).to(tl.float32)"
            self.value(self.floats, f"tl.where(mask, {wide}, 0.5)" if masked == ", mask=mask" else wide)

    def integer(self) -> None:
        r = self.rng
        a, b = r.choice(self.ints), r.choice(self.ints)
        c = r.choice([1, 2, 3, 5, 7, 16, 100, 1 << 20, 2654435, 1103515245, -1, -17])
        self.value(
            self.ints,
            r.choice(
                [
                    f"{a} + {b}",
                    f"{a} - {b}",
                    f"{a} * {b}",
                    f"{a} * {c} + {b}",
                    f"{a} ^ ({b} << {r.randrange(31)})",
                    f"({a} >> {r.randrange(31)}) | {b}",
                    f"{a} & {abs(c)}",
                    f"{a} // (({b} & 15) + 1)",
                    f"{a} % (({b} & 31) + 1)",
                    f"{a} // {max(abs(c), 1)}",
                    f"{a} % {max(abs(c), 1)}",
                    f"tl.minimum({a}, {b})",
                    f"tl.maximum({a}, {c})",
                    f"tl.where({a} < {b}, {a}, {c})",
                    f"tl.where(({a} & 3) == 1, {b}, {a})",
                    f"({a}.to(tl.int64) * {c}).to(tl.int32) + {b}",
                    f"({a}.to(tl.int64) + {b}).to(tl.int64) // 3 + 0 * {a}",
                    f"{a}.to(tl.int8).to(tl.int32)",
                    f"({a} >= m).to(tl.int32) + {b}",
                    f"({a}.to(tl.uint32, bitcast=True) >> {r.randrange(31)}).to(tl.int32, bitcast=True)",
                ]
            ).replace("// 3 + 0 * " + a, "// 3"),
        )
        name = self.ints[-1]
        self.put(f"{name} = ({name} + tl.zeros({self.shape()}, tl.int32)).to(tl.int32)")

    def float(self) -> None:
        r = self.rng
        if not self.floats:
            self.value(self.floats, f"({r.choice(self.ints)} % 100).to(tl.float32)")
            return
        a, b = r.choice(self.floats), r.choice(self.floats)
        i = r.choice(self.ints)
        self.value(
            self.floats,
            r.choice(
                [
                    f"{a} * 0.5 + {b}",
                    f"{a} - {b} * 0.25",
                    f"tl.exp(-tl.abs({a}))",
                    f"tl.sqrt(tl.abs({a}))",
                    f"{a} / (tl.abs({b}) + 1.0)",
                    f"tl.maximum({a}, 0.25)",
                    f"tl.minimum({a}, {b})",
                    f"tl.where({i} > m, {a}, {b})",
                    f"tl.where(mask, {a}, 1.0)",
                    f"tl.cos({a} * 0.01)",
                    f"tl.log(tl.abs({a}) + 1.0)",
                    f"tl.sigmoid({a} * 0.1)",
                    f"{a} + ({i} & 63)",
                ]
            ),
        )

    def across(self) -> None:
        """A reduction, spread again over the block."""
        r = self.rng
        axis = r.randrange(len(self.sizes))
        keep = "" if len(self.sizes) == 1 else (f", axis={axis}", f"[{'None, :' if axis == 0 else ':, None'}]")
        axis_code, spread = (f", axis={axis}", keep[1]) if keep else (", axis=0", "")
        if r.random() < 0.6 or not self.floats:
            a = r.choice(self.ints)
            form = r.choice(["sum", "max", "min", "xor_sum", "argmax", "argmin", "cumsum"])
            if form == "cumsum":
                flag = r.choice(["", ", reverse=True"])
                self.value(self.ints, f"tl.cumsum({a} + tl.zeros({self.shape()}, tl.int32){axis_code}{flag})")
            else:
                whole = f"({a} + tl.zeros({self.shape()}, tl.int32))"
                self.value(self.ints, f"{whole} ^ tl.{form}({whole}{axis_code}){spread}")
            return
        a = f"({r.choice(self.floats)} + tl.zeros({self.shape()}, tl.float32))"
        form = r.choice(["sum", "max", "min"])
        self.value(self.floats, f"{a} * 0.125 + tl.{form}({a}{axis_code}){spread} * 0.01")

    def moved(self) -> None:
        r = self.rng
        kind = self.ints if r.random() < 0.6 or not self.floats else self.floats
        T = "int32" if kind is self.ints else "float32"
        a = f"({r.choice(kind)} + tl.zeros({self.shape()}, tl.{T}))"
        forms = [f"tl.reshape(tl.reshape({a}, [{int(np.prod(self.sizes))}]), {self.shape()})"]
        if len(self.sizes) == 2:
            forms += [
                f"tl.reshape(tl.trans({a}), {self.shape()})",
                f"tl.trans(tl.reshape({a}, {self.shape()[:]}).trans())",
            ]
        if len(self.sizes) == 1 and self.sizes[0] > 1:
            half = self.sizes[0] // 2
            forms.append(f"tl.reshape(tl.trans(tl.reshape({a}, [2, {half}])), {self.shape()})")
            forms.append(f"tl.flip({a}, 0)")
        self.value(kind, r.choice(forms))

    def loop(self) -> None:
        r = self.rng
        ints, floats = len(self.ints), len(self.floats)
        self.count += 1
        acc, ptr, other = f"acc{self.count}", f"ptr{self.count}", f"old{self.count}"
        step, k = f"step{self.count}", f"k{self.count}"
        kind = r.choice(["int32", "float32"])
        self.put(f"{acc} = tl.zeros({self.shape()}, tl.{kind})")
        self.put(f"{other} = {acc} + 1")
        self.put(f"{ptr} = {'i1' if kind == 'int32' else 'x1'} + (at & 1023)")
        form = r.choice(["for", "for", "while", "range"])
        if form == "while":
            self.put(f"{k} = 0")
            self.put(f"while {k} < 3:")
        elif form == "for":
            self.put(f"for {k} in range({r.randrange(4)}, m + {r.randrange(1, 4)}):")
        else:
            self.put(f"for {k} in tl.static_range(2):")
        self.indent += 1
        if r.random() < 0.5:
            self.integer()
        self.put(f"{step} = tl.load({ptr}{r.choice([', mask=mask, other=0', ''])})")
        if r.random() < 0.4:
            self.put(f"{acc}, {other} = {other}, {acc}")
        self.put(
            f"{acc} = {acc} {'* 3' if kind == 'int32' else '* 0.5'} + {step} + {self.ints[ints] if len(self.ints) > ints and kind == 'int32' else k}"
        )
        if r.random() < 0.5:
            self.put(f"{ptr} += {r.choice(['1', 'm', '16', k])}")
        if r.random() < 0.3:
            self.put(f"if {k} % 2 == 0:")
            self.put(f"    {acc} = {acc} + 1")
        if form == "while":
            self.put(f"{k} += 1")
        self.indent -= 1
        del self.ints[ints:], self.floats[floats:]
        (self.ints if kind == "int32" else self.floats).extend([acc, other])

    def branch(self) -> None:
        kind = self.ints
        a = self.rng.choice(kind)
        self.count += 1
        name = f"c{self.count}"
        self.put(f"if {self.rng.choice(['pid % 2 == 0', 'm > 2', 'n > 100'])}:")
        self.put(f"    {name} = {a} * 5 + tl.zeros({self.shape()}, tl.int32)")
        self.put("else:")
        self.put(f"    {name} = {self.rng.choice(kind)} - 1 + tl.zeros({self.shape()}, tl.int32)")
        kind.append(name)

    def text(self) -> str:
        r = self.rng
        self.start()
        steps = [
            self.load,
            self.load,
            self.integer,
            self.integer,
            self.float,
            self.across,
            self.moved,
            self.loop,
            self.branch,
        ]
        self.load()
        for _ in range(r.randrange(3, 9)):
            r.choice(steps)()
        if not self.floats:
            self.float()
        zeros = f"tl.zeros({self.shape()}, tl.int32)"
        out = f"pid * {int(np.prod(self.sizes))} + " + (
            "offs" if len(self.sizes) == 1 else f"(row * {self.sizes[1]} + col)"
        )
        self.put(f"to = {out}")
        masked = r.choice(["", ", mask=mask"])
        self.put(f"tl.store(of + to, {self.floats[-1]} + {zeros}{masked})")
        self.put(f"tl.store(oi + to, {self.ints[-1]} + {zeros}{r.choice(['', ', mask=mask'])})")
        self.put(f"tl.store(ol + to, ({r.choice(self.ints)} + {zeros}).to(tl.int64) * 3 + at)")
        if r.random() < 0.4:
            form = r.choice(["add", "max", "min", "xor", "or"])
            self.put(
                f"tl.atomic_{form}(oa + ({r.choice(self.ints)} & 63) + {zeros}, {r.choice(self.ints)} + {zeros}, mask=mask)"
            )
        arguments = ", ".join([*INPUTS, *OUTPUTS, "n", "m", "s"])
        # Three programs, or fewer that go over three rows.
        programs = r.choice([1, 2, 3, 4]) if r.random() < 0.25 else 0
        first = (
            "for pid in tl.range(tl.program_id(0), 3, tl.num_programs(0)):" if programs else "pid = tl.program_id(0)"
        )
        lines = [first, *("    " * bool(programs) + line[4:] for line in self.lines)]
        body = "".join(f"    {line}\n" for line in lines)
        return f"{self.name}_grid = ({programs or 3},)\n\n\n@triton.jit\ndef {self.name}({arguments}):\n{body}\n\n"


def kernels(seed: int, count: int) -> str:
    """The text of a module with `count` kernels."""
    return HEAD + "".join(_Kernel(random.Random(seed * 100003 + i), f"k{i}").text() for i in range(count))


def _inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    out = {}
    for name, dtype in INPUTS.items():
        if dtype.startswith("float"):
            out[name] = rng.normal(size=LENGTH).astype(dtype)
        else:
            out[name] = rng.integers(-100, 100, LENGTH).astype(dtype)
    return out


def run(folder: Path, seed: int, count: int, device: str) -> dict[str, np.ndarray]:
    """The outputs of the kernels of a module that `kernels` wrote, by kernel and output."""
    import torch

    path = folder / f"kernels_{seed}.py"
    path.write_text(kernels(seed, count))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results: dict[str, np.ndarray] = {}
    for i in range(count):
        rng = np.random.default_rng(seed * 100003 + i)
        args = {k: torch.from_numpy(v).to(device) for k, v in _inputs(rng).items()}
        outputs = {k: torch.full((LENGTH * 2,), 77, dtype=getattr(torch, t), device=device) for k, t in OUTPUTS.items()}
        n, m, s = int(rng.integers(1, 300)), int(rng.integers(1, 4)), int(rng.integers(1, 40))
        getattr(module, f"k{i}")[getattr(module, f"k{i}_grid")](*args.values(), *outputs.values(), n, m, s)
        results |= {f"k{i}.{name}": t.cpu().numpy() for name, t in outputs.items()}
    return results


def differences(expected: dict[str, np.ndarray], actual: dict[str, np.ndarray]) -> list[str]:
    """One line per output that is not the same: integers in all bits, floats within 1e-3."""
    out = []
    for name, want in expected.items():
        have = actual[name]
        if want.dtype.kind == "f":
            with np.errstate(all="ignore"):
                wrong = ~(np.isclose(have, want, rtol=1e-3, atol=1e-3) | (np.isnan(have) & np.isnan(want)))
        else:
            wrong = have != want
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            out.append(f"{name}: {int(wrong.sum())} elements, first [{at}] {have[at]} instead of {want[at]}")
    return out


def main(folder: str, seed: str, count: str) -> None:
    import triton

    with np.errstate(all="ignore"):
        interpreted = triton.knobs.runtime.interpret
        results = run(Path(folder), int(seed), int(count), "cpu" if interpreted else "xpu")
    np.savez(Path(folder) / f"{'expected' if interpreted else 'actual'}_{seed}.npz", **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
