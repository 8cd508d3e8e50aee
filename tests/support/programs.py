"""Random straight-line programs over a pool of tensors, on xpu beside the CPU.

    python -m support.programs SEED COUNT [--minutes=M] [--show]

A program is a list of Python statements that are drawn while they run on the CPU, so that shapes fit. It is then run on
xpu twice. In lockstep, every tensor of the pool is compared after each statement and then set to the CPU's values, so that
a difference belongs to one statement. Freely, with statements on several streams and threads, its results must have
the bits of a run that waits after each statement.
"""

from __future__ import annotations

import math
import random
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from support import seeds
from support.program_pool import LIMIT, environment, execute, share
from support.program_statements import Draw

TOLERANCE = {
    torch.float16: 6e-3, torch.bfloat16: 4e-2, torch.float32: 1e-4, torch.float64: 1e-6, torch.complex64: 1e-4, torch.complex128: 1e-6,
}  # fmt: skip


def plain(t: torch.Tensor) -> torch.Tensor:
    return t.detach().resolve_conj().resolve_neg()


def difference(a: torch.Tensor, e: torch.Tensor, line: str = "") -> str | None:
    """Why xpu's tensor is not the CPU's."""
    if a.dtype != e.dtype:
        return f"dtype {a.dtype}, CPU {e.dtype}"
    if a.shape != e.shape:
        return f"shape {tuple(a.shape)}, CPU {tuple(e.shape)}"
    sa = [s for s, n in zip(a.stride(), a.shape, strict=True) if n > 1]
    se = [s for s, n in zip(e.stride(), e.shape, strict=True) if n > 1]
    if sa != se and e.numel() > 1:
        return f"strides {a.stride()}, CPU {e.stride()} of {tuple(a.shape)}"
    if a.is_conj() != e.is_conj() or a.is_neg() != e.is_neg():
        return "conj or neg bit"
    if a.requires_grad != e.requires_grad or a.is_leaf != e.is_leaf:
        return f"requires_grad {a.requires_grad}, CPU {e.requires_grad}, leaf {a.is_leaf} {e.is_leaf}"
    a, e = plain(a.cpu()), plain(e)
    if not (e.is_floating_point() or e.is_complex()):
        bad = a != e
    else:
        wide = torch.complex128 if e.is_complex() else torch.float64
        tol = max(
            TOLERANCE[e.dtype],
            1e-3 if "out=" in line or " = g[" in line or " = h[" in line else 0,
            1e-3 if "_norm(" in line else 0,
        )
        aw, ew = a.to(wide), e.to(wide)
        finite = ew[torch.isfinite(ew)].abs()
        scale = finite.max().item() if finite.numel() else 1.0
        scale = scale if math.isfinite(scale) else 0.0
        bad = ~torch.isclose(aw, ew, rtol=tol, atol=tol * max(min(scale, 1e6), 1) * 0.1, equal_nan=True)
        if e.is_complex():
            # A product or a root of infinities: which part is NaN is open.
            bad &= ~((aw.abs().isinf() | aw.isnan()) & (ew.abs().isinf() | ew.isnan()))
    if bad.any():
        i = tuple(bad.nonzero()[0].tolist())
        return f"{int(bad.sum())} of {e.numel()} values of {e.dtype} {tuple(e.shape)}, at {i}: {a[i].item()}, CPU {e[i].item()}"
    return None


def pool(env: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {n: t for n, t in env.items() if n[0] == "v" and isinstance(t, torch.Tensor)}


def bits(t: torch.Tensor) -> bytes:
    t = plain(t).cpu().flatten().clone(memory_format=torch.contiguous_format)
    t = torch.view_as_real(t).flatten() if t.is_complex() else t
    t = t.nan_to_num(nan=12345.0) if t.is_floating_point() else t
    return str(t.tolist()).encode()


def trim(env: dict[str, Any]) -> None:
    for n in list(env):
        t = env[n]
        if n[0] == "v" and (not isinstance(t, torch.Tensor) or t.numel() > LIMIT or t.layout != torch.strided):
            del env[n]


def adopt(xs: dict[str, torch.Tensor], cs: dict[str, torch.Tensor]) -> None:
    """Gives xpu's storages the CPU's bytes."""
    done = set()
    for n, t in cs.items():
        a = xs[n]
        sa, sc = a.untyped_storage(), t.untyped_storage()
        if sa._cdata in done or not sa.nbytes():
            continue
        done.add(sa._cdata)
        try:
            sa.copy_(sc)
        except RuntimeError:  # of another size
            a.data.copy_(plain(t))


# Errors that xpu and the CPU do not share, with the reason: a statement, and a part of the error's text.
KNOWN = [
    ("nansum", "nansum on CPU does not support complex"),  # as on CUDA
    ("batch_norm", "mixed dtype (CPU)"),
    ("tri", "refers to a single memory location"),  # the CPU writes through expanded tensors
]


def known(line: str, ec: BaseException | None, ex: BaseException | None) -> bool:
    if isinstance(ec, NotImplementedError):
        return True  # a type that the CPU has no kernel for
    if isinstance(ec, RuntimeError) and "not implemented for '" in str(ex):
        return True  # refused in other words
    return any(a in line and b in f"{ec} {ex}" for a, b in KNOWN)


def lockstep(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Statement, name and reason of every difference."""
    cpu, xpu = environment("cpu"), environment("xpu")
    versions: dict[str, tuple[int, int]] = {}
    for i, line in enumerate(lines):
        keep_c, keep_x = cpu.copy(), xpu.copy()
        ec, ex = execute(line, cpu), execute(line, xpu)
        if ex is None:
            try:
                torch.xpu.synchronize()
            except Exception as e:
                ex = e
        if "INTERNAL ASSERT" in str(ex) and "INTERNAL ASSERT" not in str(ec):
            yield i, "assert", str(ex)[:300]
        if type(ec) is not type(ex) and known(line, ec, ex):
            return  # what follows on one side would only repeat it
        if type(ec) is not type(ex):
            yield i, "error", f"{type(ex).__name__}: {str(ex)[:200]} | CPU {type(ec).__name__}: {str(ec)[:200]}"
        if ec is not None or ex is not None:
            cpu, xpu = keep_c, keep_x
        trim(cpu)
        trim(xpu)
        cs, xs = pool(cpu), pool(xpu)
        for n in set(cs) ^ set(xs):
            yield i, n, f"present on one side: {n}"
            cpu.pop(n, None)
            xpu.pop(n, None)
        cs, xs = pool(cpu), pool(xpu)
        for n in cs:
            why = difference(xs[n], cs[n], line)
            old = versions.get(n)
            versions[n] = cs[n]._version, xs[n]._version
            # How often a call writes to its own result is its own business, and a list may count twice.
            if old and why is None and (old[0] == cs[n]._version) != (old[1] == xs[n]._version):
                why = f"version {old[1]} to {xs[n]._version}, CPU {old[0]} to {cs[n]._version}"
            if why is not None:
                if not ("strides" in why and "attention" in line):
                    yield i, n, why
                if (
                    xs[n].shape != cs[n].shape
                    or xs[n].dtype != cs[n].dtype
                    or "version" in why
                    or "strides" in why
                    or "grad" in why
                ):
                    # later statements would only repeat it
                    cpu.pop(n)
                    xpu.pop(n)
        cs, xs = pool(cpu), pool(xpu)
        last = list(cs)[-1] if cs else None
        for n in cs:
            if last is not None and share(cs[n], cs[last]) != share(xs[n], xs[last]):
                yield i, n, f"shares storage with {last} on one side: xpu {share(xs[n], xs[last])}"
                cpu.pop(last)
                xpu.pop(last)
                break
        adopt(pool(xpu), pool(cpu))


def finish(env: dict[str, Any]) -> dict[str, bytes]:
    torch.xpu.synchronize()
    return {n: bits(t) for n, t in pool(env).items()}


def run(lines: list[str], mode: str, seed: int) -> dict[str, bytes]:
    """The bits that a program leaves on xpu."""
    env = environment("xpu")
    r = random.Random(seed)
    main = torch.xpu.current_stream()
    streams = [torch.xpu.Stream() for _ in range(2)]
    if mode == "launched":
        streams[0].sycl_queue  # noqa: B018  a queue that is handed out takes no inline work
    for line in lines:
        keep = env.copy()
        error: list[BaseException | None] = [None]

        def step(line: str = line, error: list[BaseException | None] = error) -> None:
            if mode == "streams" and r.random() < 0.5:
                s = r.choice(streams)
                s.wait_stream(main)
                with torch.xpu.stream(s):
                    error[0] = execute(line, env)
                main.wait_stream(s)
                for t in pool(env).values():
                    t.record_stream(s)
            elif mode == "launched":
                with torch.xpu.stream(streams[0]):
                    error[0] = execute(line, env)
            else:
                error[0] = execute(line, env)
                if mode == "waits":
                    torch.xpu.synchronize()

        if mode == "threads" and r.random() < 0.5:
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
        else:
            step()
        if error[0] is not None:
            env = keep
        trim(env)
        if mode == "busy" and r.random() < 0.7:
            # Work that keeps the queue from being idle, so that what follows is launched.
            env["busy"] = torch.ones(200_000, device="xpu").sin_().cumsum(0)
    return finish(env)


def check(seed: int) -> Iterator[str]:
    """The findings of one program."""
    rng = random.Random(seed)
    length = rng.randint(8, 36)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = Draw(seed).draw(length)
        for i, name, why in lockstep(lines):
            yield f"{lines[i]}\n    {name}: {why}"
        want = run(lines, "waits", seed)
        # Another thread's functions have sequence numbers of their own, by which backward sums gradients.
        for mode in (
            "free",
            rng.choice(["streams", "free" if any("grad" in n for n in lines) else "threads"]),
            rng.choice(["launched", "busy"]),
        ):
            got = run(lines, mode, seed)
            if got.keys() != want.keys():
                yield f"{mode}: tensors {set(got) ^ set(want)}"
            else:
                bad = [n for n in want if got[n] != want[n]]
                if bad:
                    yield f"{mode}: other bits in {bad}"


def show(seed: int) -> str:
    return "\n".join(Draw(seed).draw(random.Random(seed).randint(8, 36)))


if __name__ == "__main__":
    seeds.run("support.programs", show, check, 120)
