"""Ways to spoil the arguments of a hostile call once they are on their device: another device for one of them, out= that
shares memory with an input, gradients that somebody wants."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

TWISTED = 1 << 48  # calls of a number from here on are twisted


def twisted(number: int) -> bool:
    """Whether a call of this number is one whose arguments are spoiled."""
    return number >= TWISTED


def _drawn(args: Any, named: dict[str, Any], written: set[str], r: random.Random) -> tuple[str, str, int]:
    """The way, an out= to spoil, and the place of a tensor among the arguments."""
    tensors = [t for t in tree_flatten((args, named))[0] if isinstance(t, torch.Tensor)]
    outs = [n for n in named if n in written and isinstance(named[n], torch.Tensor)]
    if not tensors:
        return "", "", 0
    way, out = r.random(), r.choice(outs) if outs else ""
    return "overlap" if way < 0.4 and outs else "device" if way < 0.7 else "gradient", out, r.randrange(len(tensors))


def elsewhere(args: Any, named: dict[str, Any], written: set[str], number: int) -> bool:
    """Whether the call gets one tensor of another device that is no number, beside others."""
    way, _, place = _drawn(args, named, written, random.Random(number))
    tensors = [t for t in tree_flatten((args, named))[0] if isinstance(t, torch.Tensor)]
    return way == "device" and len(tensors) > 1 and tensors[place].dim() > 0 and tensors[place].numel() > 0


def twist(args: Any, named: dict[str, Any], written: set[str], number: int) -> tuple[Any, dict[str, Any]]:
    """The arguments of a call with this number, spoiled in one way; on the CPU there is no other device."""
    r = random.Random(number)
    way, out, place = _drawn(args, named, written, r)
    if not way:
        return args, named
    chosen = [t for t in tree_flatten((args, named))[0] if isinstance(t, torch.Tensor)][place]
    if way == "overlap":
        return args, {**named, out: _overlapping(chosen, r)}
    if way == "device":
        return tree_map(lambda t: t.to("cpu") if t is chosen else t, (args, named))

    def wanted(t: Any) -> Any:
        differentiable = isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())
        return t.detach().requires_grad_() if differentiable and (t is chosen or r.random() < 0.5) else t

    return tree_map(wanted, (args, named))


def _overlapping(t: torch.Tensor, r: random.Random) -> torch.Tensor:
    """A tensor on the storage of `t`: itself, part of it, one element many times, or its elements in another order."""
    if not t.numel():
        return t
    flat = torch.empty(0, dtype=t.dtype, device=t.device)
    flat.set_(t.untyped_storage())
    start = r.randrange(flat.numel())
    return r.choice(
        (
            t,
            flat[start:],
            flat[: flat.numel() - start],
            flat.as_strided(t.shape, [0] * t.dim(), start),
            t.transpose(0, -1),
        )
        if t.dim()
        else (t, flat)
    )
