"""Layers of experts of transformers with weights of 8 and 4 bits.

In the state of a quantised layer each weight, (experts, N, K), gives way to buffers of its name and of those of a linear layer:
`gate_up_proj_packed` and `gate_up_proj_scale` for 8 bits. A state with the weights may be loaded, too, and is quantised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .classes import swap
from .weights import WeightFormat, dequantize, left_alone, product, to_few_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WEIGHTS = ("gate_up_proj", "down_proj")


def to_buffers(name: str, weight: Tensor, form: WeightFormat) -> dict[str, Tensor]:
    """The buffers of the weights of all experts, an expert at a time: a copy in float32 is as large as one of them."""
    each = [to_few_bits(w, form) for w in weight]
    return {f"{name}_{key}": torch.stack([e[key] for e in each]) for key in each[0]}


class QuantizedExperts:
    """Mixin of layers of experts with few bits; `form` is their WeightFormat."""

    form: WeightFormat
    names: tuple[str, str]  # of the buffers of a weight: what is packed, its scales

    def operands(self, name: str) -> tuple[Tensor, Tensor]:
        first, second = self.names
        return getattr(self, f"{name}_{first}"), getattr(self, f"{name}_{second}")

    def groups(self, ids: Tensor) -> tuple[Tensor | None, Iterator[tuple[int, slice]]]:
        """An order of all choices of experts (tokens, count), None for that which they have; expert and places, for each
        that has any. An expert that the layer does not have is left out."""
        me: Any = self
        if ids.size(0) == 1:
            chosen = ids.flatten().tolist()
            return None, ((e, slice(i, i + 1)) for i, e in enumerate(chosen) if e < me.num_experts)
        flat = ids.flatten()
        sizes = flat.bincount(minlength=me.num_experts).tolist()[: me.num_experts]
        ends = torch.tensor(sizes).cumsum(0).tolist()
        parts = ((e, slice(end - size, end)) for e, (size, end) in enumerate(zip(sizes, ends, strict=True)) if size)
        return flat.argsort(stable=True), parts

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        me: Any = self
        tokens, count = top_k_index.shape
        order, parts = self.groups(top_k_index)
        x = hidden_states.expand(count, -1) if order is None else hidden_states[order // count]
        up, down = (self.operands(name) for name in WEIGHTS)
        made = torch.zeros_like(x, memory_format=torch.contiguous_format)
        for expert, mine in parts:
            h = me._apply_gate(product(x[mine], up[0][expert], up[1][expert], self.form))
            made[mine] = product(h, down[0][expert], down[1][expert], self.form)
        share = top_k_weights.flatten()
        made = made * (share if order is None else share[order]).unsqueeze(-1)
        if order is not None:
            made = torch.empty_like(made).index_copy_(0, order, made)
        return made.view(tokens, count, -1).sum(1).to(hidden_states.dtype)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in WEIGHTS:
            if prefix + name in state:
                packed, scales = self.operands(name)
                given = state.pop(prefix + name).to(packed.device, scales.dtype)
                state.update({prefix + key: value for key, value in to_buffers(name, given, self.form).items()})
        super()._load_from_state_dict(state, prefix, *rest)  # type: ignore[misc]

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (super().extra_repr(), self.form.text)))  # type: ignore[misc]


def is_experts(module: nn.Module) -> bool:
    """Whether it keeps weights of several experts as one parameter: no linear layer, a weight in three dimensions."""
    return any(p is not None and p.dim() == 3 and "proj" in name for name, p in module._parameters.items())


def why_not(module: nn.Module, form: WeightFormat) -> str | None:
    """The reason why these experts cannot have weights of this format."""
    weights = [module._parameters.get(name) for name in WEIGHTS]
    if any(w is None or w.dim() != 3 for w in weights) or not hasattr(module, "_apply_gate"):
        return f"expert weights of another form than {' and '.join(WEIGHTS)} of transformers"
    if any(getattr(module, flag, False) for flag in ("has_bias", "is_transposed", "has_post_expert_norm")):
        return "expert weights that are transposed, have biases or a norm behind them"
    reasons = (left_alone(w, w.size(-2), w.size(-1), form) for w in weights if w is not None)
    return next((reason for reason in reasons if reason), None)


def quantize(module: nn.Module, form: WeightFormat) -> Callable[[], None]:
    """Give a layer of experts weights of this format. Returns what makes them floating again, with the rounded values."""
    me: Any = module
    kept = {
        name: (w.requires_grad, w.shape) for name, w in module._parameters.items() if name in WEIGHTS and w is not None
    }
    buffers: list[str] = []
    for name in WEIGHTS:
        made = to_buffers(name, getattr(me, name), form)
        delattr(me, name)
        for key, value in made.items():
            module.register_buffer(key, value)
        buffers += made
    me.form, me.names = form, tuple(key.removeprefix("down_proj_") for key in buffers[2:])
    restore = swap(module, QuantizedExperts)

    def undo() -> None:
        weights = {}
        for name, (wanted, shape) in kept.items():
            packed, scales = me.operands(name)
            each = [dequantize(p, s, form, (shape[1], shape[2])) for p, s in zip(packed, scales, strict=True)]
            weights[name] = nn.Parameter(torch.stack(each), requires_grad=wanted)
        restore()
        for key in buffers:
            del module._buffers[key]
        del me.form, me.names
        others = dict(module._parameters)
        module._parameters.clear()
        for name, weight in weights.items():
            module.register_parameter(name, weight)
        module._parameters.update(others)

    return undo
