"""flex_attention by blocks at run time: the operators that a compiled graph calls with the text of its kernel."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xpu_ops.block.device import policy
from xpu_ops.block.types import LANES
from xpu_ops.jit import service
from xpu_ops.jit.service import KernelSpec

QUERIES, KEYS = 32, 64  # kBlockQueries and kBlockKeys of kernels/sycl/cpu/attention_block_args.hpp
_GROUPS = 16  # work-groups per compute unit of a forward pass
_SHARES = 2  # of a backward pass
# The fields of xpu::FlexArgs (kernels/sycl/cpu/flex_block.hpp): tensors, their strides, sizes, the scale.
_TENSORS = ("q", "k", "v", "out", "logsumexp", "top", "scratch", "grad", "delta", "q_grad", "k_grad", "v_grad")
_LISTS = ("counts", "lists", "full_counts", "full_lists")
_STRIDED = ("q", "k", "v", "out", "grad", "q_grad", "k_grad", "v_grad")
_SIZES = (
    *("listed", "full_listed", "list_blocks", "query_block", "key_block"),
    *("heads", "head_step", "nq", "nk", "dim", "value_dim", "blocks", "total", "splits", "slot"),
    *("k_grad_split", "v_grad_split"),
)
SIGNATURE = "p" * len(_TENSORS + _LISTS) + "i" * (3 * len(_STRIDED) + 4 + len(_SIZES)) + "f"

_ARGUMENTS = (
    "Tensor query, Tensor key, Tensor value, Tensor kv_num_blocks, Tensor kv_indices, Tensor? full_kv_num_blocks, "
    "Tensor? full_kv_indices, Tensor[] captured, SymInt[] sizes, float scale, int query_block, int key_block, str kernel"
)
_SCHEMAS = {
    "flex_attention_blocks": f"({_ARGUMENTS}) -> (Tensor, Tensor, Tensor)",
    "flex_attention_blocks_backward": f"(Tensor grad, Tensor out, Tensor logsumexp, Tensor? grad_logsumexp, {_ARGUMENTS}) "
    "-> (Tensor, Tensor, Tensor)",
}


@functools.cache
def _launcher(kernel: str, device: int) -> Callable[..., None]:
    text = json.loads(kernel)
    spec = KernelSpec("flex", LANES, SIGNATURE + text["signature"], tuple(text["messages"]))
    return service.load(text["source"], [spec], device)[0]


def like_strides(t: torch.Tensor, last: int) -> torch.Tensor:
    """An empty tensor with the sizes of t but for the last, dense, its dimensions in the order of t's strides."""
    order = sorted(range(t.dim()), key=lambda d: (-t.stride(d), d))
    sizes = (*t.shape[:-1], last)
    back = sorted(range(t.dim()), key=order.__getitem__)
    return t.new_empty([sizes[d] for d in order]).permute(back)


def _rows(t: torch.Tensor) -> torch.Tensor:
    """As float32, elements of a row side by side."""
    t = t.float()
    return t if t.stride(-1) == 1 else t.contiguous()


class _Call:
    """The arguments of one launch."""

    def __init__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, counts: torch.Tensor,
                 lists: torch.Tensor, full_counts: torch.Tensor | None, full_lists: torch.Tensor | None,
                 captured: Sequence[torch.Tensor], sizes: Sequence[int], scale: float, query_block: int, key_block: int,
                 kernel: str) -> None:  # fmt: skip
        batch, heads, nq, dim = query.shape
        self.query, self.key, self.value = query, key, value
        self._kernel, self._captured = kernel, (*captured, *sizes)
        self.tensors: dict[str, torch.Tensor | None] = {
            "q": _rows(query),
            "k": _rows(key).expand(batch, -1, -1, -1),
            "v": _rows(value).expand(batch, -1, -1, -1),
        }
        count = math.ceil(nq / QUERIES)
        self.sizes = dict.fromkeys(_SIZES, 0) | {
            "query_block": query_block, "key_block": key_block, "heads": heads, "head_step": heads // key.size(1),
            "nq": nq, "nk": key.size(2), "dim": dim, "value_dim": value.size(3), "blocks": count,
            "total": batch * heads * count, "splits": 1,
        }  # fmt: skip
        self.scale = scale
        self.strides: dict[str, tuple[int, ...]] = {}
        for prefix, own_counts, own_lists in (("", counts, lists), ("full_", full_counts, full_lists)):
            if own_counts is None or own_lists is None or own_lists.numel() == 0:
                continue
            own_counts, own_lists = (t.to(torch.int32).contiguous() for t in (own_counts, own_lists))
            self.tensors |= {f"{prefix}counts": own_counts, f"{prefix}lists": own_lists}
            self.sizes |= {f"{prefix}listed": own_lists.size(-1), "list_blocks": own_counts.size(-1)}
            wide = [s if n > 1 else 0 for n, s in zip(own_counts.shape, own_counts.stride(), strict=True)]
            self.strides[f"{prefix}counts"] = (wide[0], wide[1])

    @property
    def units(self) -> int:
        """Compute units of the device."""
        return policy(self.query.device.index).units

    def launch(self, groups: int, slot: int) -> None:
        """`slot`: floats of scratch for each work-group."""
        t, device = self.tensors, self.query.device
        self.sizes["slot"] = slot
        t["scratch"] = torch.empty(groups * slot, dtype=torch.float32, device=device)
        strides: list[int] = []
        for name in _STRIDED:
            x = t.get(name)
            strides += (0, 0, 0) if x is None else x.stride()[:3]
        for name in ("counts", "full_counts"):
            strides += self.strides.get(name, (0, 0))
        tensors, sizes = (t.get(n) for n in _TENSORS + _LISTS), (self.sizes[n] for n in _SIZES)
        _launcher(self._kernel, device.index)(groups, *tensors, *strides, *sizes, self.scale, *self._captured)


def _forward(query: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    with torch.xpu.device(query.device):
        call = _Call(query, *arguments)
        value_dim = call.value.size(3)
        out = like_strides(query, value_dim)
        # Rows are written one by one.
        dense = out if out.dtype == torch.float32 and out.stride(-1) == 1 else torch.empty_like(
            out, dtype=torch.float32, memory_format=torch.contiguous_format
        )  # fmt: skip
        logsumexp, top = (query.new_empty(query.shape[:3], dtype=torch.float32) for _ in range(2))
        call.tensors |= {"out": dense, "logsumexp": logsumexp, "top": top}
        groups = min(call.sizes["total"], call.units * _GROUPS)
        call.launch(groups, (query.size(3) + value_dim + KEYS) * QUERIES)
        if dense is not out:
            out.copy_(dense)
        return out, logsumexp.mul_(1 / math.log(2)), top.mul_(1 / math.log(2))


def _backward(grad: torch.Tensor, out: torch.Tensor, logsumexp: torch.Tensor, grad_logsumexp: torch.Tensor | None,
              query: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    with torch.xpu.device(query.device):
        call = _Call(query, *arguments)
        key, value = call.key, call.value
        batch, kv_heads = query.size(0), key.size(1)
        delta = (out.float() * grad.float()).sum(-1)
        if grad_logsumexp is not None:
            delta.sub_(grad_logsumexp, alpha=1 / math.log(2))
        planes = batch * kv_heads
        splits = min(math.ceil(_SHARES * call.units / planes), call.sizes["blocks"] * call.sizes["head_step"])
        q_grad = torch.empty(query.shape, dtype=torch.float32, device=query.device)
        k_grad, v_grad = (
            torch.zeros(splits, batch, *t.shape[1:], dtype=torch.float32, device=t.device) for t in (key, value)
        )
        call.tensors |= {
            "grad": _rows(grad), "delta": delta, "logsumexp": logsumexp.float().mul(math.log(2)).contiguous(),
            "q_grad": q_grad, "k_grad": k_grad[0], "v_grad": v_grad[0],
        }  # fmt: skip
        call.sizes |= {"splits": splits, "k_grad_split": k_grad.stride(0), "v_grad_split": v_grad.stride(0)}
        call.launch(planes * splits, (2 * query.size(3) + value.size(3) + 3 * KEYS) * QUERIES)
        results = []
        for t, g in ((query, q_grad), (key, k_grad.sum(0)), (value, v_grad.sum(0))):
            to = like_strides(t, t.size(3))
            results.append(to.copy_(g if to.size(0) == batch else g.sum(0, keepdim=True)))
        return results[0], results[1], results[2]


def _fake_forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: object
) -> tuple[torch.Tensor, ...]:
    sums = (query.new_empty(query.shape[:3], dtype=torch.float32) for _ in range(2))
    return like_strides(query, value.size(3)), *sums


def _fake_backward(grad: torch.Tensor, out: torch.Tensor, logsumexp: torch.Tensor, grad_logsumexp: torch.Tensor | None,
                   query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: object) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return tuple(like_strides(t, t.size(3)) for t in (query, key, value))


@functools.cache
def define() -> None:
    """Register the operators, once per process."""
    library = torch.library.Library("xpu_ops", "FRAGMENT")
    for (name, schema), function, fake in zip(
        _SCHEMAS.items(), (_forward, _backward), (_fake_forward, _fake_backward), strict=True
    ):
        library.define(name + schema)
        library.impl(name, function, "XPU")
        library._register_fake(name, fake)
    define.library = library  # type: ignore[attr-defined]  # what it registered goes with it
