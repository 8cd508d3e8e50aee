"""Rows of one step of `generate`: a llama-like model that holds a prompt, with weights of 16, 8 and 4 bits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .core import Case
from .models import library

SECTION = "generation"
_GROUP = 128
# A step reads 0.33 billion parameters, 0.66 GB of bf16: past every cache, and few enough layers that the weights bound it.
_SIZES = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 6, "num_attention_heads": 32,
    "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
# Batch and length of the prompt.
_CORE, _FULL = [(1, 64)], [(1, 64), (1, 2048), (4, 64), (4, 512), (16, 64)]


class _Bytes(nn.Module):
    """A linear layer with `_weight_int8pack_mm`: 8 bits per weight, one scale per row."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        scale = weight.abs().amax(1) / 127
        self.register_buffer("packed", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale.bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        out = torch.ops.aten._weight_int8pack_mm(x.flatten(0, -2).contiguous(), self.packed, self.scale)
        return out.unflatten(0, x.shape[:-1])


class _Nibbles(nn.Module):
    """A linear layer with `_weight_int4pack_mm`: 4 bits per weight, a scale and an offset per group. torch's CPU has an operator and a
    packing of its own."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        groups = layer.weight.detach().float().unflatten(1, (-1, _GROUP))
        low, high = groups.aminmax(dim=-1)
        scale = (high - low) / 15
        values = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).to(torch.int32).flatten(1)
        self.register_buffer(
            "scales", torch.stack([scale, low + 8 * scale], -1).transpose(0, 1).contiguous().bfloat16()
        )
        self.register_buffer("packed", (values[:, 1::2] << 4 | values[:, ::2]).to(torch.uint8).view(torch.int32))
        self.cpu_packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values, 2)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2).contiguous()
        if x.device.type == "cpu":
            out = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.cpu_packed, _GROUP, self.scales)
        else:
            out = torch.ops.aten._weight_int4pack_mm(rows, self.packed, _GROUP, self.scales)
        return out.unflatten(0, x.shape[:-1])


WEIGHTS: dict[str, Callable[[nn.Linear], nn.Module] | None] = {"bf16": None, "int8": _Bytes, "int4": _Nibbles}


def model(layers: int = _SIZES["num_hidden_layers"]) -> nn.Module:
    """The model with random weights in bf16."""
    torch.manual_seed(0)
    module = library("transformers")
    made: nn.Module = (
        module.LlamaForCausalLM(module.LlamaConfig(**_SIZES | {"num_hidden_layers": layers})).eval().bfloat16()
    )
    return made


def replaced(made: nn.Module, replacement: Callable[[nn.Linear], nn.Module] | None) -> nn.Module:
    """The model with its linear layers replaced in place."""
    for parent in list(made.modules()) if replacement else ():
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, replacement(child))  # type: ignore[misc]
    return made


def bytes_read(made: nn.Module) -> int:
    """Bytes of the weights that one step reads: all but the rows of the embedding that it does not choose."""
    tensors = [*made.named_parameters(), *made.named_buffers()]
    return sum(t.numel() * t.element_size() for name, t in tensors if "embed_tokens" not in name)


class Step:
    """The step after a prompt, on the device of the token: the logits of the next one of each sequence.

    `models` holds the model by device; steps share it, and the copy on xpu that the first one makes. The cache is set back to
    the prompt before each call, so that all are the same step. `static` allocates it once, as `cache_implementation="static"` does,
    and compiles the step, as `generate` then does on xpu; here on both devices.
    """

    def __init__(self, models: dict[str, nn.Module], prompt: Tensor, static: bool) -> None:
        self.models, self.prompt, self.static = models, prompt, static
        # By device: the step, its cache, and the keys and values of the prompt.
        self.prepared: dict[str, tuple[Callable[..., Any], Any, list[tuple[Tensor, Tensor]]]] = {}

    def prepare(self, device: str) -> None:
        """The model's copy on the device, and a cache with the prompt."""
        if device not in self.models:
            self.models[device] = copy.deepcopy(self.models["cpu"]).to(device)
        made: Any = self.models[device]
        module, length = library("transformers"), self.prompt.shape[1]
        options = {"max_cache_len": length + 64} if self.static else {}
        cache = (module.StaticCache if self.static else module.DynamicCache)(config=made.config, **options)
        made(self.prompt.to(device), past_key_values=cache, logits_to_keep=1)
        step = torch.compile(made) if self.static else made
        self.prepared[device] = step, cache, [(layer.keys, layer.values) for layer in cache.layers]

    def __call__(self, token: Tensor) -> Tensor:
        device, length = token.device.type, self.prompt.shape[1]
        with torch.no_grad():
            if device not in self.prepared:
                self.prepare(device)
            step, cache, kept = self.prepared[device]
            for layer, (keys, values) in zip(cache.layers, kept, strict=True):
                if self.static:
                    layer.cumulative_length.fill_(length)
                else:
                    layer.keys, layer.values = keys, values
            logits = step(token, past_key_values=cache, logits_to_keep=1).logits
        return logits[:, -1].float()


def cases(full: bool) -> Iterator[Case]:
    """Each kind of weights at each batch and prompt; the static cache at the first. Bytes are those of weights and cache."""
    for weights, replacement in WEIGHTS.items():
        try:
            models = {"cpu": replaced(model(), replacement)}
        except ImportError as error:
            print(f"bench: {SECTION} left out: {error}")
            return
        read = bytes_read(models["cpu"])
        for batch, length in _FULL if full else _CORE:
            for static in (False, True) if (batch, length) == _CORE[0] else (False,):
                step = Step(models, torch.randint(0, _SIZES["vocab_size"], (batch, length)), static)
                heads = _SIZES["hidden_size"] // _SIZES["num_attention_heads"] * _SIZES["num_key_value_heads"]
                cache = batch * length * heads * 2 * 2 * _SIZES["num_hidden_layers"]
                name = f"{weights} batch {batch} prompt {length}{' static' if static else ''}"
                token = torch.randint(0, _SIZES["vocab_size"], (batch, 1))
                # The results of 16-bit sums in another order differ by more than a bit.
                yield Case(SECTION, name, step, (token,), bytes_moved=read + cache, rtol=0.1)
