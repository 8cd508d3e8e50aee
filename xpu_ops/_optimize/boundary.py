"""A model on xpu inside a program of CPU tensors: inputs come as aliases of their memory, results go back likewise."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from .classes import swap

if TYPE_CHECKING:
    from collections.abc import Callable


def _share(tensor: Tensor, to_xpu: bool) -> Tensor:
    import xpu_ops

    if (
        tensor.requires_grad
        or tensor.layout != torch.strided
        or not xpu_ops._C.host_accessible(torch.xpu.current_device())
    ):
        return tensor.to("xpu" if to_xpu else "cpu")
    return xpu_ops.as_xpu(tensor) if to_xpu else xpu_ops.as_cpu(tensor)


def _autocast() -> contextlib.AbstractContextManager[Any]:
    """The autocast of the CPU goes with the work."""
    if not torch.is_autocast_enabled("cpu"):
        return contextlib.nullcontext()
    return torch.autocast("xpu", torch.get_autocast_dtype("cpu"))


def _crossing(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return call(*args, **kwargs)
        came = False

        def enter(leaf: Any) -> Any:
            nonlocal came
            if isinstance(leaf, Tensor) and leaf.device.type == "cpu":
                came = True
                return _share(leaf, True)
            return leaf

        args, kwargs = _pytree.tree_map(enter, (args, kwargs))
        if not came:
            return call(*args, **kwargs)
        with _autocast():
            out = call(*args, **kwargs)
        return _pytree.tree_map(
            lambda v: _share(v, False) if isinstance(v, Tensor) and v.device.type == "xpu" else v, out
        )

    return run


def _crossing_methods(kind: type) -> type:
    """A mixin whose `forward` and `generate` take CPU tensors."""
    names = [n for n in ("forward", "generate") if hasattr(kind, n)]
    return type("AcrossDevices", (), {n: _crossing(getattr(kind, n)) for n in names})


def _as_cpu_state(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    for name, value in state.items():
        if isinstance(value, Tensor) and value.device.type == "xpu":
            state[name] = _share(value.detach(), False)


def host(model: nn.Module) -> Callable[[], None]:
    """Move a CPU model to xpu, and let it go on taking, giving and saving CPU tensors. Returns what takes that back."""
    model.to("xpu")
    restore = swap(model, _crossing_methods(type(model)))
    hook = model.register_state_dict_post_hook(_as_cpu_state)

    def undo() -> None:
        hook.remove()
        restore()
        model.to("cpu")

    return undo
