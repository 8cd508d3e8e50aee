"""Whole models under torch.compile: inference and a training step with AdamW, against xpu eager and the compiled CPU."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .core import Case
from .models import Build, Pair, library, timm, transformers

AGAINST_EAGER = "compiled models against eager on xpu"
AGAINST_CPU = "compiled models against compiled CPU"
_WORDS, _TOKENS = 8000, (4, 128)


class _Compiled(Pair):
    """The model of each device compiled, and its optimizer's step."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.compiled: dict[str, Any] = {}

    def model(self, device: str) -> Any:
        if device not in self.compiled:
            self.compiled[device] = torch.compile(super().model(device))
        return self.compiled[device]

    def update(self, optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
        return torch.compile(optimizer.step)


class _T5(nn.Module):
    """Half as many tokens in the decoder."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(input_ids=x, decoder_input_ids=x[:, : x.shape[1] // 2])


class _UNet(nn.Module):
    """Two latents at two times, with 16 tokens of text."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("text", torch.randn(2, 16, 64))
        self.register_buffer("times", torch.tensor([10, 500]))

    def forward(self, x: Tensor) -> Any:
        return self.model(x, self.times, self.text).sample


def _unet() -> nn.Module:
    attention = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D")}
    attention["up_block_types"] = ("CrossAttnUpBlock2D", "UpBlock2D")
    sizes = {"block_out_channels": (64, 128), "cross_attention_dim": 64, "attention_head_dim": 8}
    options = {"sample_size": 32, "layers_per_block": 1, "norm_num_groups": 8}
    return _UNet(library("diffusers").UNet2DConditionModel(**options, **sizes, **attention))


def _language(model: str, config: str, **options: Any) -> Build:
    return transformers(model, config, vocab_size=_WORDS, **options)


def _tokens() -> Tensor:
    return torch.randint(3, _WORDS, _TOKENS)


def _images(batch: int, size: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(batch, 3, size, size)


# Pair turns off the dropout that is a module; other masks on the two devices would be other results.
_BERT = {"num_hidden_layers": 2, "attention_probs_dropout_prob": 0.0}
_LLAMA = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 3, "num_key_value_heads": 4}
_VIT = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536, "num_hidden_layers": 3}
_MODELS: dict[str, tuple[Build, Callable[[], Tensor]]] = {
    "bert": (_language("BertForSequenceClassification", "BertConfig", **_BERT), _tokens),
    "gpt2": (_language("GPT2LMHeadModel", "GPT2Config", n_layer=2), _tokens),
    "llama": (_language("LlamaForCausalLM", "LlamaConfig", num_attention_heads=8, **_LLAMA), _tokens),
    "t5": (lambda: _T5(_language("T5ForConditionalGeneration", "T5Config", num_layers=2)()), _tokens),
    "vit": (transformers("ViTForImageClassification", "ViTConfig", **_VIT), _images(4, 224)),
    "swin": (timm("swin_tiny_patch4_window7_224", depths=(1, 1, 2, 1), drop_path_rate=0.0), _images(2, 224)),
    "resnet50": (timm("resnet50"), _images(4, 128)),
    "mobilenet": (timm("mobilenetv3_large_100"), _images(4, 160)),
    "unet": (_unet, lambda: torch.randn(2, 4, 32, 32)),
}


def cases() -> Iterator[Case]:
    """Each model twice; ratio = time of the other / time of xpu compiled. What is not installed is left out."""
    against_cpu = shutil.which("g++") is not None
    for name, (build, inputs) in _MODELS.items():
        for train in (False, True):
            for dtype in (torch.float32, torch.bfloat16):
                torch._dynamo.reset()
                try:
                    compiled, eager = _Compiled(build, dtype, train), Pair(build, dtype, train)
                except ImportError as error:
                    print(f"bench: {name} left out: {error}")
                    break
                torch.manual_seed(1)
                label = f"{name} {'train' if train else 'infer'} {'bf16' if dtype == torch.bfloat16 else 'f32'}"
                args = (inputs(),)
                if against_cpu:  # first: it compares the results of the first step
                    yield Case(AGAINST_CPU, label, compiled, args, rtol=0.1 if dtype == torch.bfloat16 else 2e-2)
                yield Case(AGAINST_EAGER, label, compiled, args, check=False, unfused=eager)
