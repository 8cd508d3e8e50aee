"""How a family is run: inference, training steps, generation, each on a device of choice; and how results are compared."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
import zoo
from torch import nn
from torch._dynamo.utils import same
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.checkpoint import checkpoint

import xpu_ops

Tensors = dict[str, torch.Tensor]
SEED, STEPS = 0, 2
# Tolerance of the second step: a ReLU that switched in between moves single elements, in any precision.
AFTER, AFTER_TOL = ("param", "buffer"), 5e-2


@dataclass(frozen=True)
class Training:
    """One way to train: AdamW or SGD, precision, and what surrounds the step."""

    optimizer: str = "adamw_foreach"
    autocast: bool = False
    scaler: bool = False
    checkpointing: bool = False
    micro_batches: int = 1
    clip: float | None = None
    compiled: bool = False  # model and optimizer through torch.compile


TRAINING = {
    "adamw_foreach": Training(),
    "adamw_fused": Training("adamw_fused"),
    "sgd": Training("sgd"),
    "amp_bf16": Training(autocast=True),
    "amp_bf16_scaler": Training(autocast=True, scaler=True),
    "checkpointing": Training(checkpointing=True),
    "accumulation": Training(micro_batches=2),
    "clip_grad_norm": Training(clip=0.1),
}
CONTEXTS: dict[str, Callable[[], Any]] = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


def move(batch: Any, device: str | None = None, dtype: torch.dtype | None = None) -> Any:
    """Every tensor of a nest on a device, floating-point ones in a dtype."""
    return tree_map(
        lambda t: (
            t.to(device=device, dtype=dtype if t.is_floating_point() else None) if isinstance(t, torch.Tensor) else t
        ),
        batch,
    )


@lru_cache(maxsize=2)
def _model(name: str) -> nn.Module:
    torch.manual_seed(SEED)
    return zoo.FAMILIES[name].build()


def model(name: str, device: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A fresh copy of the family's model, initialised on the CPU from one seed."""
    return cast(copy.deepcopy(_model(name)), device, dtype)


def cast(m: nn.Module, device: str, dtype: torch.dtype) -> nn.Module:
    if dtype == torch.float64 and hasattr(m, "set_experts_implementation"):
        m.set_experts_implementation("eager")  # torch has no grouped product of doubles
    return m.to(device, dtype)


def batch(name: str, *, labels: bool, seed: int = 1) -> zoo.Batch:
    """Keyword arguments of forward; with labels, what training takes (labels make the decoder's inputs)."""
    family, g = zoo.FAMILIES[name], torch.Generator().manual_seed(seed)
    inputs, targets = family.inputs(g), family.labels(g)
    if not labels:
        return inputs
    return {**{k: v for k, v in inputs.items() if not k.startswith("decoder_")}, **targets}


def results(out: Any) -> list[torch.Tensor]:
    """The floating-point results of a forward pass; caches and integers are left out."""
    if hasattr(out, "items"):
        out = {k: v for k, v in out.items() if k not in ("past_key_values", "cache_params", "loss_dict")}
    flat = tree_flatten(out if isinstance(out, (dict, tuple, list, torch.Tensor)) else tuple(out.to_tuple()))[0]
    if isinstance(out, dict):
        flat = [t for v in out.values() for t in tree_flatten(v)[0]]
    return [t for t in flat if isinstance(t, torch.Tensor) and t.is_floating_point()]


def named_tensors(out: Any) -> Tensors:
    """results() on the CPU, by their places."""
    return {f"out{i}": t.detach().cpu().clone() for i, t in enumerate(results(out))}


def loss_of(name: str, m: nn.Module, data: zoo.Batch) -> torch.Tensor:
    family = zoo.FAMILIES[name]
    if family.loss is None:
        return m(**data).loss
    return family.loss(m(**{k: v for k, v in data.items() if k != "labels"}), data)


def infer(
    name: str, device: str, dtype: torch.dtype, weights: torch.dtype, context: str = "no_grad", compiled: bool = False
) -> Tensors:
    """One forward pass in eval mode; the weights and inputs are rounded to `weights` first, then computed in `dtype`."""
    m = cast(model(name, "cpu", weights), device, dtype).eval()
    data = move(move(batch(name, labels=False), dtype=weights), device, dtype)
    with CONTEXTS[context]():
        return named_tensors((torch.compile(m) if compiled else m)(**data))


def enable_checkpointing(name: str, m: nn.Module) -> Callable[[zoo.Batch], torch.Tensor]:
    """Switches the model's own checkpointing on, or wraps its whole forward where it has none; returns the loss."""
    method = zoo.FAMILIES[name].checkpoint
    if not method or not getattr(m, "supports_gradient_checkpointing", True):
        return lambda data: checkpoint(lambda: loss_of(name, m, data), use_reentrant=False)
    if method == "gradient_checkpointing_enable":
        m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        getattr(m, method)()
    return lambda data: loss_of(name, m, data)


def make_optimizer(kind: str, m: nn.Module) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(m.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
    # With the usual eps a gradient that is zero but for rounding moves its weight by a full step, in a random direction.
    eps, lr = 1e-3, 1e-3
    return torch.optim.AdamW(m.parameters(), lr, eps=eps, foreach=kind == "adamw_foreach", fused=kind == "adamw_fused")


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Losses make tensors of the default dtype: those of a model in double must be double too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype if dtype == torch.float64 else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def train(name: str, device: str, mode: Training, dtype: torch.dtype = torch.float32) -> Tensors:
    """STEPS training steps: losses, norms, the first step's gradients and parameters, parameters and buffers at the end."""
    m = model(name, device, dtype).train()
    called = torch.compile(m) if mode.compiled else m
    loss_fn = enable_checkpointing(name, m) if mode.checkpointing else lambda data: loss_of(name, called, data)
    data = [move(batch(name, labels=True, seed=1 + i), device, dtype) for i in range(mode.micro_batches)]
    optimizer = make_optimizer(mode.optimizer, m)
    if mode.compiled:
        optimizer.step = torch.compile(optimizer.step)  # type: ignore[method-assign]
    scaler = torch.amp.GradScaler(device, enabled=mode.scaler and dtype != torch.float64, init_scale=2.0**10)
    result: Tensors = {}
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in data:
            autocast = torch.autocast(device, torch.bfloat16, enabled=mode.autocast and dtype != torch.float64)
            with default_dtype(dtype):  # checkpointing computes losses again in backward
                with autocast:
                    loss = loss_fn(part) / mode.micro_batches
                scaler.scale(loss).backward()
            result[f"loss{step}"] = result.get(f"loss{step}", 0) + loss.detach().cpu()
        if mode.clip is not None or step == 0:
            scaler.unscale_(optimizer)
        if mode.clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(m.parameters(), mode.clip)
            result[f"norm{step}"] = norm.detach().cpu()
        if step == 0:
            result |= {
                f"grad {k}": p.grad.detach().cpu().clone() for k, p in m.named_parameters() if p.grad is not None
            }
        scaler.step(optimizer)
        scaler.update()
        if step == 0:
            result |= {f"first {k}": p.detach().cpu().clone() for k, p in m.named_parameters()}
    result |= {f"param {k}": p.detach().cpu().clone() for k, p in m.named_parameters()}
    result |= {f"buffer {k}": b.detach().cpu().clone() for k, b in m.named_buffers() if b.is_floating_point()}
    return result


@lru_cache(maxsize=8)
def inference_reference(name: str, dtype: torch.dtype) -> tuple[Tensors, Tensors]:
    """The CPU's results in `dtype` and in double, from the same rounded weights."""
    return infer(name, "cpu", dtype, dtype), infer(name, "cpu", torch.float64, dtype)


@lru_cache(maxsize=8)
def _training_reference(name: str, mode: Training) -> tuple[Tensors, Tensors]:
    return train(name, "cpu", mode), train(name, "cpu", replace(mode, autocast=False), torch.float64)


def training_reference(name: str, mode: Training) -> tuple[Tensors, Tensors]:
    """The CPU's step and the same in double; modes that must not change values share one."""
    optimizer = "adamw_foreach" if mode.optimizer == "adamw_fused" else mode.optimizer
    return _training_reference(name, replace(mode, optimizer=optimizer, scaler=False, compiled=False))


def _scale(group: Tensors) -> dict[str, float]:
    """The magnitude that a tensor's error is relative to: its own size, but at least a hundredth of its group's (gradients that are
    zero but for rounding have no size of their own)."""
    known = {
        k: t.double()[t.isfinite()] for k, t in group.items()
    }  # rows that attend to nothing are NaN in some models
    sizes = {k: t.square().mean().sqrt().item() if t.numel() else 0.0 for k, t in known.items()}
    kinds: dict[str, float] = {}
    for k, v in sizes.items():
        kind = k.split(" ")[0]
        kinds[kind] = max(kinds.get(kind, 0.0), v)
    return {k: max(v, 1e-2 * kinds[k.split(" ")[0]]) or 1.0 for k, v in sizes.items()}


def error(actual: Tensors, exact: Tensors) -> float:
    """The largest relative RMS error over outputs, losses and gradients."""
    scale, worst = _scale(exact), 0.0
    for k, e in exact.items():
        if k.split(" ")[0] not in ("first", *AFTER) and e.numel():
            known = e.isfinite()
            difference = (
                (actual[k].double() - e)[known].square().mean().sqrt().item() / scale[k] if known.any() else 0.0
            )
            worst = difference if math.isnan(difference) else max(worst, difference)
    return worst


def check(actual: Tensors, reference: Tensors, exact: Tensors, tol: float, noisy: bool = False) -> None:
    """torch._dynamo.utils.same for every tensor, each divided by its size first: `tol` is then relative.

    `noisy` (bf16 training) takes upstream's larger multiplier of the CPU's own error for tensors of few elements.
    """
    assert actual.keys() == reference.keys() == exact.keys(), actual.keys() ^ reference.keys()
    scale, failures = _scale(exact), []
    for k, e in exact.items():
        why: list[str] = []
        ref, res = reference[k], actual[k]
        assert (ref.dtype, ref.shape) == (res.dtype, res.shape), (
            f"{k}: {res.dtype} {res.shape}, expected {ref.dtype} {ref.shape}"
        )
        limit = max(tol, AFTER_TOL) if k.split(" ")[0] in AFTER else tol
        if not same(
            ref / scale[k], res / scale[k], e.double() / scale[k], tol=limit, equal_nan=True, use_larger_multiplier_for_smaller_tensor=noisy,
            log_error=lambda text, *args: why.append(text % args),
        ):  # fmt: skip
            failures.append(f"{k}: {'; '.join(why)}")
    assert not failures, "\n".join(failures[:12])


@contextmanager
def no_fallback() -> Iterator[None]:
    """Forbids fallbacks and shows that none was counted."""
    xpu_ops.fallback.reset()
    with xpu_ops.fallback.forbid():
        yield
    assert not xpu_ops.fallback.counts()
