"""Modules that fused operators serve. A pattern names a module by its parts; whether it computes what they say is found by
running the first module of each class both ways."""

from __future__ import annotations

import dataclasses
import itertools
import types
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .weights import Quantized, bytes_product, nibbles_product

if TYPE_CHECKING:
    from collections.abc import Callable

_ops = torch.ops.xpu_ops

_POST_OPS = {
    "ReLU": "relu", "SiLU": "silu", "SiLUActivation": "silu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Mish": "mish",
    "MishActivation": "mish", "ReLU6": "relu6", "Hardswish": "hardswish", "GELUActivation": "gelu",
    "NewGELUActivation": "gelu_tanh", "GELUTanh": "gelu_tanh", "PytorchGELUTanh": "gelu_tanh", "FastGELUActivation": "gelu_tanh",
}  # fmt: skip


def post_op(activation: Any) -> str | None:
    """The post-op that an activation module is, by its class and parameters."""
    name = type(activation).__name__
    if name == "GELU":
        return "gelu" if activation.approximate == "none" else "gelu_tanh"
    if name == "LeakyReLU":
        return f"leaky_relu:{activation.negative_slope}"
    if name == "ELU":
        return f"elu:{activation.alpha}"
    if name == "QuickGELUActivation":
        return "swish:1.702"
    return _POST_OPS.get(name)


def _is_rms_norm(module: Any) -> bool:
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weight = getattr(module, "weight", None)
    return (
        type(module).__name__.endswith("RMSNorm")
        and not isinstance(module, nn.RMSNorm)
        and isinstance(weight, Tensor)
        and weight.dim() == 1
        and isinstance(epsilon, float)
        and list(dict(module.named_parameters())) == ["weight"]
    )


def _epsilon(norm: Any) -> float:
    return norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps


class RMSNorm:
    """One pass in place of six operators."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        me: Any = self
        if hidden_states.dtype != me.weight.dtype:
            return super().forward(hidden_states)  # type: ignore[misc]
        return _ops.rms_norm(hidden_states, me.weight, _epsilon(me))


class GatedUnit:
    """down(activation(gate(x)) * up(x)): both products and what joins them in two primitives, or one product of few bits."""

    def forward(self, x: Tensor) -> Tensor:
        me: Any = self
        if "xpu_ops_merged" in me._modules:
            gate, up = me.xpu_ops_merged(x)
            return me.down_proj(me.act_fn(gate) * up)
        gate, up = me.gate_proj, me.up_proj
        if isinstance(gate, Quantized) or isinstance(up, Quantized):
            return super().forward(x)  # type: ignore[misc]
        hidden = _ops.gated_linear(x, gate.weight, up.weight, gate.bias, up.bias, post_op(me.act_fn))
        return me.down_proj(hidden)


def _is_gated_unit(module: Any) -> bool:
    parts = dict(module.named_children())
    return (
        {"gate_proj", "up_proj", "down_proj"} <= set(parts) <= {"gate_proj", "up_proj", "down_proj", "act_fn"}
        and all(isinstance(parts[n], nn.Linear) for n in ("gate_proj", "up_proj", "down_proj"))
        and post_op(getattr(module, "act_fn", None)) is not None
    )


class Activated:
    """activation(dense(x)) as one primitive: BertIntermediate and its kin."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        me: Any = self
        dense = me.dense
        if isinstance(dense, Quantized):
            return super().forward(hidden_states)  # type: ignore[misc]
        return _ops.linear(hidden_states, dense.weight, dense.bias, [post_op(me.intermediate_act_fn)], [])


def _is_activated(module: Any) -> bool:
    parts = dict(module.named_children())
    return (
        set(parts) == {"dense", "intermediate_act_fn"}
        and isinstance(parts["dense"], nn.Linear)
        and post_op(parts["intermediate_act_fn"]) is not None
    )


class AddedNorm:
    """LayerNorm(dense(x) + residual) with the sum and the norm in one pass: BertOutput and its kin, without dropout."""

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        me: Any = self
        norm = me.LayerNorm
        if me.training or input_tensor.shape[:-1] != hidden_states.shape[:-1]:
            return super().forward(hidden_states, input_tensor)  # type: ignore[misc]
        dense = me.dense(hidden_states)
        if dense.dtype != input_tensor.dtype:
            return norm(dense + input_tensor)
        return _ops.add_layer_norm(dense, input_tensor, norm.weight, norm.bias, norm.eps)[0]


def _is_added_norm(module: Any) -> bool:
    parts = dict(module.named_children())
    norm = parts.get("LayerNorm")
    return (
        set(parts) == {"dense", "LayerNorm", "dropout"}
        and isinstance(parts["dense"], nn.Linear)
        and isinstance(norm, nn.LayerNorm)
        and len(norm.normalized_shape) == 1
    )


class Perceptron:
    """c_proj(act(c_fc(x))) with the activation in the first product: GPT-2's, whose weights are (in, out)."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        me: Any = self
        if me.training or isinstance(me.c_fc, Quantized):
            return super().forward(hidden_states)  # type: ignore[misc]
        hidden = _ops.matmul(hidden_states, me.c_fc.weight, me.c_fc.bias, [post_op(me.act)], [])
        return me.c_proj(hidden)


def _is_perceptron(module: Any) -> bool:
    parts = dict(module.named_children())
    return (
        set(parts) == {"c_fc", "c_proj", "act", "dropout"}
        and all(type(parts[n]).__name__ == "Conv1D" for n in ("c_fc", "c_proj"))
        and post_op(parts["act"]) is not None
    )


class Sequence:
    """Each linear layer of an nn.Sequential takes the activation behind it as a post-op."""

    def forward(self, input: Any) -> Any:  # nn.Sequential names it so
        me: Any = self
        children = list(me)
        at = 0
        while at < len(children):
            layer = children[at]
            following = children[at + 1] if at + 1 < len(children) else None
            op = _fusable(layer, following)
            if op is not None and isinstance(input, Tensor) and input.dtype == layer.weight.dtype:
                input = _ops.linear(input, layer.weight, layer.bias, [op], [])
                at += 2
            else:
                input = layer(input)
                at += 1
        return input


def _hooked(module: Any) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _fusable(layer: Any, activation: Any) -> str | None:
    plain = type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and not _hooked(layer)
    return post_op(activation) if plain and activation is not None and not _hooked(activation) else None


def _is_sequence(module: Any) -> bool:
    parts = list(module.children())
    return type(module) is nn.Sequential and any(_fusable(a, b) for a, b in itertools.pairwise(parts))


def rotate_pairs(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """apply_rotary_pos_emb of transformers, one pass per tensor."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    if q.dtype != cos.dtype or k.dtype != cos.dtype:
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
    return _ops.rotary_embedding(q, cos, sin, False, False), _ops.rotary_embedding(k, cos, sin, False, False)


class Attention:
    """The projections of query, key and value, the rotation by one operator each, and the model's choice of attention: Llama,
    Mistral, Qwen2, Qwen3 and others of their form."""

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: Any = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> Any:
        me: Any = self
        if position_embeddings is None:
            return super().forward(  # type: ignore[misc]
                hidden_states, position_embeddings, attention_mask, past_key_values, **kwargs
            )
        shape = (*hidden_states.shape[:-1], -1, me.head_dim)
        if "xpu_ops_merged" in me._modules:
            q, k, v = me.xpu_ops_merged(hidden_states)
        else:
            q, k, v = me.q_proj(hidden_states), me.k_proj(hidden_states), me.v_proj(hidden_states)
        q, k, v = q.view(shape), k.view(shape), v.view(shape)
        if "q_norm" in me._modules:
            q, k = me.q_norm(q), me.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q, k = rotate_pairs(q, k, *position_embeddings)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, me.layer_idx)
        functions, own = _attention_functions(type(me))
        attend = functions.get_interface(me.config._attn_implementation, own)
        window = {"sliding_window": me.sliding_window} if hasattr(me, "sliding_window") else {}
        out, weights = attend(
            self, q, k, v, attention_mask,
            dropout=me.attention_dropout if me.training else 0.0, scaling=me.scaling, **window, **kwargs,
        )  # fmt: skip
        return me.o_proj(out.reshape(*hidden_states.shape[:-1], -1).contiguous()), weights


def _globals(kind: type) -> dict[str, Any]:
    """The names that the forward of a transformers class sees."""
    for base in kind.__mro__:
        forward = base.__dict__.get("forward")
        if forward is not None and not base.__module__.startswith(__package__) and base is not nn.Module:
            while hasattr(forward, "__wrapped__"):
                forward = forward.__wrapped__
            if isinstance(forward, types.FunctionType) and not forward.__module__.startswith(__package__):
                return forward.__globals__
    return {}


def _attention_functions(kind: type) -> tuple[Any, Any]:
    names = _globals(kind)
    return names["ALL_ATTENTION_FUNCTIONS"], names["eager_attention_forward"]


def _is_attention(module: Any) -> bool:
    parts = dict(module.named_children())
    needed = {"q_proj", "k_proj", "v_proj", "o_proj"}
    names = _globals(type(module))
    return (
        needed <= set(parts) <= needed | {"q_norm", "k_norm"}
        and ("q_norm" in parts) == ("k_norm" in parts)
        and all(isinstance(parts[n], nn.Linear) for n in needed)
        and all(hasattr(module, n) for n in ("head_dim", "scaling", "layer_idx", "attention_dropout", "config"))
        and {"apply_rotary_pos_emb", "ALL_ATTENTION_FUNCTIONS", "eager_attention_forward"} <= set(names)
    )


class DecoderLayer:
    """The residual and the norm behind it in one pass."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        me: Any = self
        norm = me.post_attention_layernorm
        if args or hidden_states.dtype != norm.weight.dtype:
            return super().forward(hidden_states, *args, **kwargs)  # type: ignore[misc]
        attended, _ = me.self_attn(hidden_states=me.input_layernorm(hidden_states), **kwargs)
        normed, residual, _ = _ops.add_rms_norm(attended, hidden_states, norm.weight, _epsilon(norm))
        return residual + me.mlp(normed)


def _is_decoder_layer(module: Any) -> bool:
    parts = dict(module.named_children())
    return (
        set(parts) == {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
        and isinstance(parts["post_attention_layernorm"], RMSNorm)
        and isinstance(parts["self_attn"], Attention)
    )


class Merged(nn.Module):
    """Several products of one input with weights of few bits, as one; no state holds its buffers."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__()
        self.bits = layers[0].form.bits
        self.sizes = [layer.shape[0] for layer in layers]
        packed, scales = zip(*(layer.operands() for layer in layers), strict=True)
        self.register_buffer("packed", torch.cat(packed), persistent=False)
        self.register_buffer("scales", torch.cat(scales, 0 if self.bits == 8 else 1).contiguous(), persistent=False)
        # The layers look into the merged weight, which is theirs from now on: a state that is loaded reaches it.
        parts = zip(
            self.packed.split(self.sizes), self.scales.split(self.sizes, 0 if self.bits == 8 else 1), strict=True
        )
        for layer, part in zip(layers, parts, strict=True):
            layer.set_operands(*part)
        biases = [layer.bias for layer in layers]
        self.layers = [layers] if any(b is not None for b in biases) else []

    def forward(self, x: Tensor) -> list[Tensor]:
        multiply = bytes_product if self.bits == 8 else nibbles_product
        parts = list(multiply(x, self.packed, self.scales).split(self.sizes, -1))
        for layers in self.layers:
            parts = [p if layer.bias is None else p + layer.bias for p, layer in zip(parts, layers, strict=True)]
        return parts


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A kind of module: how it is known, what takes its place, and inputs to try it with."""

    name: str
    matches: Callable[[Any], bool]
    mixin: type
    inputs: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]] | None


def _features(width: int, like: Tensor) -> Tensor:
    # Numbers of an own generator: those of the program stay as they are.
    made = torch.Generator().manual_seed(0)
    return torch.randn(2, 5, width, generator=made).to(like.device, like.dtype)


def _attention_inputs(module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = _features(module.q_proj.in_features, module.q_proj.weight)
    angles = _features(module.head_dim // 2, x).float()
    angles = torch.cat([angles, angles], -1)
    return (x,), {"position_embeddings": (angles.cos().to(x.dtype), angles.sin().to(x.dtype)), "attention_mask": None}


def _layer_inputs(module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _attention_inputs(module.self_attn)


def _dense_inputs(module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (_features(module.dense.in_features, module.dense.weight),), {}


def _added_inputs(module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    weight = module.dense.weight
    return (_features(module.dense.in_features, weight), _features(module.dense.out_features, weight)), {}


# In this order: a decoder layer is known by the parts that were replaced before it.
PATTERNS = (
    Pattern("rms_norm", _is_rms_norm, RMSNorm, lambda m: ((_features(m.weight.numel(), m.weight),), {})),
    Pattern(
        "gated_linear", _is_gated_unit, GatedUnit,
        lambda m: ((_features(m.gate_proj.in_features, m.gate_proj.weight),), {}),
    ),
    Pattern("linear with a post-op", _is_activated, Activated, _dense_inputs),
    Pattern("add_layer_norm", _is_added_norm, AddedNorm, _added_inputs),
    Pattern(
        "matmul with a post-op", _is_perceptron, Perceptron,
        lambda m: ((_features(m.c_fc.weight.shape[0], m.c_fc.weight),), {}),
    ),
    Pattern("linear with a post-op", _is_sequence, Sequence, None),
    Pattern("rotary_embedding, attention", _is_attention, Attention, _attention_inputs),
    Pattern("add_rms_norm", _is_decoder_layer, DecoderLayer, _layer_inputs),
)  # fmt: skip
