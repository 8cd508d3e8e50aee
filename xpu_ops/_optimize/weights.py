"""Linear layers with weights of 8 and 4 bits.

A quantised layer keeps its class by name, its bias and its place. In its state `weight` gives way to buffers: `packed` and
`scale` for 8 bits, `packed` and `scales` for 4. A state with `weight` may be loaded, too, and is quantised.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .classes import swap

if TYPE_CHECKING:
    from collections.abc import Callable

_GROUPS = (16, 32, 64, 128, 256)
_aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class WeightFormat:
    """How weights of linear layers are kept.

    Args:
        bits: 8, one scale per row; or 4, a scale per group of values of a row.
        group: values per group, for 4 bits: 16, 32, 64, 128 or 256.
        symmetric: the values of a group lie around zero; otherwise a group has an offset, too. 8 bits are symmetric.

    Raises:
        ValueError: for a number of bits or a group that no kernel has.

    Source: the layouts of at::_weight_int8pack_mm and at::_weight_int4pack_mm.
    """

    bits: int
    group: int = 128
    symmetric: bool = False

    def __post_init__(self) -> None:
        if self.bits not in (4, 8):
            raise ValueError(f"WeightFormat: bits must be 4 or 8, got {self.bits}")
        if self.group not in _GROUPS:
            raise ValueError(f"WeightFormat: group must be one of {_GROUPS}, got {self.group}")

    @property
    def text(self) -> str:
        """The format in words."""
        if self.bits == 8:
            return "8 bits, a scale per row"
        return f"4 bits, groups of {self.group}{', symmetric' if self.symmetric else ''}"


def weight_format(given: str | WeightFormat | None) -> WeightFormat | None:
    """The format that the argument `weights` names."""
    if given is None or isinstance(given, WeightFormat):
        return given
    named = {"int8": WeightFormat(8), "int4": WeightFormat(4)}
    if given not in named:
        raise ValueError(f"optimize: weights must be None, {', '.join(named)} or a WeightFormat, got {given!r}")
    return named[given]


def to_bytes(weight: Tensor) -> dict[str, Tensor]:
    """The buffers of a weight (N, K) in 8 bits: packed (N, K), scale (N,)."""
    wide = weight.detach().float()
    # A row of zeros keeps a scale that can be divided by. Values are rounded with the scale that they are multiplied with.
    scale = (wide.abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny).to(weight.dtype)
    divisor = scale.float().clamp(min=torch.finfo(torch.float32).tiny)
    packed = (wide / divisor[:, None]).round_().clamp_(-127, 127).to(torch.int8)
    return {"packed": packed, "scale": scale}


def to_nibbles(weight: Tensor, form: WeightFormat) -> dict[str, Tensor]:
    """The buffers of a weight (N, K) in 4 bits: packed (N, K / 8) of int32, scales (K / group, N, 2) of scale and offset.

    A value q of 0 to 15 stands for (q - 8) * scale + offset.
    """
    groups = weight.detach().float().unflatten(1, (-1, form.group))
    if form.symmetric:
        # The end of the range that the larger value needs: -8 is one step further than 7.
        top = groups.gather(-1, groups.abs().argmax(-1, keepdim=True)).squeeze(-1)
        scale, offset = top / -8, torch.zeros_like(top)
    else:
        low, high = groups.aminmax(dim=-1)
        scale = (high - low) / 15
        offset = low + 8 * scale
    scales = torch.stack([scale, offset], -1).to(weight.dtype)
    scale, offset = scales.float().unbind(-1)
    safe = torch.where(scale == 0, 1.0, scale)
    q = ((groups - offset[..., None]) / safe[..., None]).round_().add_(8).clamp_(0, 15).to(torch.uint8).flatten(1)
    packed = (q[:, 1::2] << 4 | q[:, ::2]).view(torch.int32)
    return {"packed": packed, "scales": scales.transpose(0, 1).contiguous()}


def bytes_product(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """x (..., K) times the weight of :func:`to_bytes`, (..., N)."""
    rows = x.reshape(-1, x.shape[-1])
    out = _aten._weight_int8pack_mm(rows, packed, scale if scale.dtype == x.dtype else scale.to(x.dtype))
    return out.view(*x.shape[:-1], out.shape[-1])


def nibbles_product(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """x (..., K) times the weight of :func:`to_nibbles`, (..., N)."""
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    scales = scales if scales.dtype == x.dtype else scales.to(x.dtype)
    out = _aten._weight_int4pack_mm(rows, packed, x.shape[-1] // scales.shape[0], scales)
    return out.view(*x.shape[:-1], out.shape[-1])


def to_few_bits(weight: Tensor, form: WeightFormat) -> dict[str, Tensor]:
    """The buffers of a weight (N, K) in this format."""
    return to_bytes(weight) if form.bits == 8 else to_nibbles(weight, form)


def product(x: Tensor, packed: Tensor, scales: Tensor, form: WeightFormat) -> Tensor:
    """x (..., K) times the weight of :func:`to_few_bits`, (..., N)."""
    return (bytes_product if form.bits == 8 else nibbles_product)(x, packed, scales)


def dequantize(packed: Tensor, scales: Tensor, form: WeightFormat, shape: tuple[int, int]) -> Tensor:
    """The weight (N, K) that the product multiplies with, in the type of the scales."""
    if form.bits == 8:
        return packed.to(scales.dtype) * scales[:, None]
    q = packed.view(torch.uint8)
    values = torch.stack([q & 15, q >> 4], -1).view(*shape).unflatten(1, (-1, form.group))
    scale, offset = scales.transpose(0, 1).float().unbind(-1)
    return ((values.float() - 8) * scale[..., None] + offset[..., None]).flatten(1).to(scales.dtype)


class Quantized:
    """Mixin of the linear layers with few bits; `form` is their WeightFormat."""

    form: WeightFormat
    shape: tuple[int, int]  # of the weight, (N, K)
    transposed: bool  # Conv1D of transformers keeps (K, N)

    def buffers_of(self, weight: Tensor) -> dict[str, Tensor]:
        rows = weight.t().contiguous() if self.transposed else weight
        return to_few_bits(rows, self.form)

    def operands(self) -> tuple[Tensor, Tensor]:
        me: Any = self
        return me.packed, me.scale if self.form.bits == 8 else me.scales

    def set_operands(self, packed: Tensor, scales: Tensor) -> None:
        me: Any = self
        me.packed = packed
        setattr(me, "scale" if self.form.bits == 8 else "scales", scales)

    def forward(self, x: Tensor) -> Tensor:
        me: Any = self
        y = product(x, *self.operands(), self.form)
        return y if me.bias is None else y + me.bias

    def dequantize(self) -> Tensor:
        """The weight that the product multiplies with, in the type of the scales."""
        w = dequantize(*self.operands(), self.form, self.shape)
        return w.t().contiguous() if self.transposed else w

    @property
    def weight(self) -> Tensor:
        """The floating weight, made anew at each use."""
        return self.dequantize()

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        if prefix + "weight" in state:
            me: Any = self
            given = state.pop(prefix + "weight").to(me.packed.device)
            for name, value in self.buffers_of(given.to(self.operands()[1].dtype)).items():
                state[prefix + name] = value
        super()._load_from_state_dict(state, prefix, *rest)  # type: ignore[misc]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.form.text}"  # type: ignore[misc]


def is_linear(module: nn.Module) -> bool:
    """Whether it is a plain linear layer with a floating weight: torch's, or Conv1D of transformers."""
    named = type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils"
    return (type(module) is nn.Linear or named) and type(module.weight) is nn.Parameter


def why_not(module: nn.Module, form: WeightFormat) -> str | None:
    """The reason why this linear layer cannot have weights of this format."""
    return left_alone(module.weight, *_shape(module), form)


def left_alone(weight: Tensor, n: int, k: int, form: WeightFormat) -> str | None:
    """The reason why a weight of N rows and K columns cannot have this format."""
    if not weight.is_floating_point() or weight.dtype == torch.float64:
        return f"its weight is {weight.dtype}"
    if form.bits == 4 and k % form.group:
        return f"{k} columns are no multiple of the group, {form.group}"
    return "it has no elements" if n * k == 0 else None


def _shape(module: nn.Module) -> tuple[int, int]:
    a, b = module.weight.shape
    return (a, b) if isinstance(module, nn.Linear) else (b, a)


def quantize(module: nn.Module, form: WeightFormat, shared: bool) -> Callable[[], None]:
    """Give a linear layer weights of this format. Returns what makes it a floating layer again: with its own weight where
    other modules share that, else with the rounded one."""
    me: Any = module
    kept = me.weight if shared else None
    wanted = me.weight.requires_grad
    me.form, me.shape, me.transposed = form, _shape(module), not isinstance(module, nn.Linear)
    buffers = Quantized.buffers_of(me, me.weight)
    del me.weight
    for name, value in buffers.items():
        module.register_buffer(name, value)
    restore = swap(module, Quantized)

    def undo() -> None:
        weight = kept if kept is not None else nn.Parameter(me.dequantize(), requires_grad=wanted)
        restore()
        for name in buffers:
            del module._buffers[name]
        del me.form, me.shape, me.transposed
        others = dict(module._parameters)
        module._parameters.clear()
        module.register_parameter("weight", weight)  # first, as the keys of the state were
        module._parameters.update(others)

    return undo
