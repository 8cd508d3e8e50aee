"""Random programs of `support.programs` through torch.compile on xpu, beside the CPU's eager results.

    python -m support.compiled_programs SEED COUNT [--minutes=M] [--show]

A program becomes a function of the tensors that it makes. Its results, what it writes into its arguments, and the gradients
of its floating arguments are compared. Where a value differs, the same function is compiled for the CPU: a finding says
whether Inductor alone explains it.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config

from support import programs, seeds
from support.compare import to_device
from support.program_pool import environment
from support.program_statements import Draw

CALL = re.compile(r"\b(mk|ix)\(\([^()]*\), [^()]*\)(\.requires_grad_\(\))?")


class Function:
    """A program as a function: its text, and how its arguments are made."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        draw = Draw(seed, compiled=True)
        self.grad = draw.grad
        draw.grad = False
        lines = draw.draw(rng.randint(4, 16))
        self.arguments: list[tuple[str, str]] = []
        self.layouts: list[str] = []

        def hoist(match: re.Match[str]) -> str:
            name = f"a{len(self.arguments)}"
            self.arguments.append((name, match.group(0).removesuffix(".requires_grad_()")))
            self.layouts.append(rng.choice(["plain"] * 4 + ["permuted", "offset", "step"]))
            return name

        body = [CALL.sub(hoist, line) for line in lines]
        live = sorted(draw.names(), key=lambda n: int(n[1:]))
        self.results = live if len(live) <= 6 else sorted(rng.sample(live, 6))
        if live and live[-1] not in self.results:
            self.results.append(live[-1])
        names = ", ".join(n for n, _ in self.arguments)
        self.text = (
            f"def f({names}):\n"
            + "".join(f"    {line}\n" for line in body)
            + f"    return ({', '.join(self.results)},)\n"
        )
        self.dynamic = rng.choice([None, None, True, False])
        self.mode = rng.choice([None, None, None, "reduce-overhead", "max-autotune-no-cudagraphs"])
        self.half = any(t in self.text or any(t in a for _, a in self.arguments) for t in ("float16", "bfloat16"))

    def function(self, device: str) -> Any:
        env = environment(device)
        exec(compile(self.text, f"<program {device}>", "exec"), env)
        return env["f"]

    def inputs(self, device: str, wide: bool = False, shift: int = 0) -> list[torch.Tensor]:
        env = environment("cpu")
        made = []
        for (_, code), layout in zip(self.arguments, self.layouts, strict=True):
            if shift and code.startswith("mk"):
                code = re.sub(
                    r"(, )(\d+)(, 'plain'|, 'special'|\)$)", lambda m: f"{m[1]}{int(m[2]) + shift}{m[3]}", code
                )
            x = eval(code, env)
            if wide and x.dtype in (torch.float32, torch.float16, torch.bfloat16):
                x = x.double()
            if wide and x.dtype == torch.complex64:
                x = x.to(torch.complex128)
            if layout == "permuted" and x.dim() >= 2:
                x = x.transpose(0, -1).contiguous().transpose(0, -1)
            elif layout == "offset" and x.dim():
                x = torch.cat([x[:1], x])[1:] if x.shape[0] else x
            elif layout == "step" and x.dim():
                x = torch.stack([x, x], -1)[..., 0]
            if device != "cpu":
                x = to_device(x, device).data  # no view of another tensor, as on the CPU
            made.append(x.requires_grad_() if self.grad and x.is_floating_point() and code.startswith("mk") else x)
        return made

    def run(self, f: Any, device: str, wide: bool = False, shift: int = 0) -> dict[str, torch.Tensor]:
        leaves = self.inputs(device, wide, shift)
        # A leaf cannot be written to; a tensor that was computed can.
        inputs = [x.view_as(x).clone(memory_format=torch.preserve_format) if x.requires_grad else x for x in leaves]
        out = f(*inputs)
        found = {f"result {n}": t for n, t in zip(self.results, out, strict=True)}
        found |= {f"argument {i}": t for i, t in enumerate(inputs) if not t.requires_grad}
        if self.grad:
            wanted = [t for t in out if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()]
            total = sum((t.double().sin() * 2).sum() for t in wanted)
            tensors = [x for x in leaves if x.requires_grad]
            if wanted and tensors:
                grads = torch.autograd.grad(total, tensors, allow_unused=True)
                found |= {f"gradient {i}": g for i, g in enumerate(grads) if g is not None}
        if device != "cpu":
            torch.xpu.synchronize()
        return {n: t.detach().resolve_conj().resolve_neg().cpu() for n, t in found.items()}


def unequal(got: torch.Tensor, want: torch.Tensor, wide: torch.Tensor | None) -> str | None:
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {tuple(got.shape)}, CPU {want.dtype} {tuple(want.shape)}"
    if not (want.is_floating_point() or want.is_complex()):
        bad = got != want
        if bad.any() and (wide is None or wide.shape != want.shape or not torch.equal(wide.to(want.dtype), want)):
            return None  # hangs on a rounding before it
    else:
        to = torch.complex128 if want.is_complex() else torch.float64
        g, w = got.to(to), want.to(to)
        finite = w[torch.isfinite(w)].abs()
        scale = min(finite.max().item(), 1e6) if finite.numel() else 1.0
        tol = programs.TOLERANCE[want.dtype] if want.dtype not in (torch.float64, torch.complex128) else 1e-6
        error = torch.zeros_like(finite)[:0]
        if wide is not None and wide.shape == want.shape:
            error = (wide.to(to) - w).abs()
            error = error[torch.isfinite(error)]
        slack = 20 * error.max().item() if error.numel() else 0.0
        if not slack < 0.1 * scale + 1e-3:
            return None  # the program amplifies roundings
        bad = ~torch.isclose(g, w, rtol=5 * tol, atol=tol * max(scale, 1.0) + slack, equal_nan=True)
        if wide is not None and wide.shape == want.shape:
            bad &= ~torch.isclose(g, wide.to(to), rtol=5 * tol, atol=tol, equal_nan=True)
            bad &= torch.isfinite(wide.to(to)) == torch.isfinite(w)
    if bad.any():
        i = tuple(bad.nonzero()[0].tolist())
        return f"{int(bad.sum())} of {want.numel()} values of {want.dtype} {tuple(want.shape)}, at {i}: {got[i].item()}, CPU {want[i].item()}"
    return None


def attempt(call: Any) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except Exception as e:
        return None, e


def compiled(f: Any, program: Function) -> Any:
    return torch.compile(f, dynamic=program.dynamic, mode=program.mode)


def check(seed: int) -> Iterator[str]:
    program = Function(seed)
    want, error = attempt(lambda: program.run(program.function("cpu"), "cpu"))
    if error is not None:
        return
    wide, _ = attempt(lambda: program.run(program.function("cpu"), "cpu", wide=True))
    torch._dynamo.reset()
    torch._inductor.config.emulate_precision_casts = program.half
    f = compiled(program.function("xpu"), program)
    for shift in (0, 1):
        if shift:
            want, error = attempt(lambda: program.run(program.function("cpu"), "cpu", shift=1))
            wide, _ = attempt(lambda: program.run(program.function("cpu"), "cpu", wide=True, shift=1))
            if error is not None:
                return
        got, error = attempt(lambda shift=shift: program.run(f, "xpu", shift=shift))
        what: list[str] = []
        if error is not None:
            what = [f"{type(error).__name__}: {str(error)[:600]}"]
        else:
            # Zeros may stand for no gradient.
            other = [n for n in got.keys() ^ want.keys() if n not in got or got[n].any()]
            if other:
                what = [f"tensors {other}"]
            for n in want.keys() & got.keys():
                why = unequal(got[n], want[n], wide.get(n) if wide else None)
                if why is not None:
                    what.append(f"{n}: {why}")
        if what:
            torch._dynamo.reset()
            c = compiled(program.function("cpu"), program)
            explained = False
            again, e = attempt(lambda shift=shift: program.run(c, "cpu", shift=shift))
            eager, ee = attempt(lambda shift=shift: program.run(program.function("xpu"), "xpu", shift=shift))
            if e is not None:
                what.append(f"compiled on the CPU: {type(e).__name__}: {str(e)[:300]}")
                explained = error is None or type(e) is type(error)
            else:
                other = [n for n in want if unequal(again[n], want[n], wide.get(n) if wide else None) is not None]
                what.append(f"compiled on the CPU: differs in {other}")
                explained = error is None and all(any(w.startswith(f"{n}: ") for n in other) for w in what[:-1])
            if ee is not None:
                what.append(f"eager on xpu: {type(ee).__name__}: {str(ee)[:300]}")
            else:
                other = [n for n in want if unequal(eager[n], want[n], wide.get(n) if wide else None) is not None]
                what.append(f"eager on xpu: differs in {other}")
            yield (
                f"{'Inductor: ' if explained else ''}dynamic={program.dynamic} mode={program.mode} call {shift}\n"
                + "\n    ".join(what)
            )
            return


def show(seed: int) -> str:
    program = Function(seed)
    parts = (program.text, *program.arguments, program.layouts, f"grad={program.grad} dynamic={program.dynamic}")
    return "\n".join(map(str, parts))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "--worker" not in sys.argv:
        # Torch's cache takes a graph for another's whose inputs are views of other tensors.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="xpu_ops-inductor-")
    seeds.run("support.compiled_programs", show, check, 300)
