"""Rows of whole models: inference and a training step, random weights, from transformers and timm where they are installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .core import Case

Build = Callable[[], nn.Module]


def library(name: str) -> Any:
    return importlib.import_module(name)


def transformers(model: str, config: str, **options: Any) -> Build:
    def build() -> nn.Module:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        module = library("transformers")
        return getattr(module, model)(getattr(module, config)(**options))

    return build


def timm(name: str, **options: Any) -> Build:
    return lambda: library("timm").create_model(name, **options)


def _images() -> Tensor:
    return torch.randn(2, 3, 224, 224)


def _tokens() -> Tensor:
    return torch.randint(0, 30000, (2, 128))


MODELS: dict[str, tuple[Build, Callable[[], Tensor]]] = {
    "ResNet-50": (transformers("ResNetForImageClassification", "ResNetConfig", num_labels=1000), _images),
    "MobileNetV3": (timm("mobilenetv3_large_100"), _images),
    "BERT-base, 128 tokens": (transformers("BertForSequenceClassification", "BertConfig"), _tokens),
    "GPT-2, 128 tokens": (transformers("GPT2LMHeadModel", "GPT2Config"), _tokens),
    "ViT-S": (
        transformers(
            "ViTForImageClassification", "ViTConfig", hidden_size=384, num_attention_heads=6, intermediate_size=1536
        ),
        _images,
    ),
}


class Pair:
    """One model on both devices; called with an input, runs on the device of the input."""

    def __init__(self, build: Build, dtype: torch.dtype, train: bool) -> None:
        torch.manual_seed(0)
        model = build().train(train)
        # Dropout would draw other masks on the two devices.
        for m in model.modules():
            if isinstance(m, nn.Dropout):
                m.p = 0.0
        if not train:
            model = model.to(dtype)
        self.dtype, self.train = dtype, train
        self.models = {"cpu": model}
        self.steps: dict[str, Callable[[], Any]] = {}

    def model(self, device: str) -> nn.Module:
        if device not in self.models:
            import copy

            self.models[device] = copy.deepcopy(self.models["cpu"]).to(device)
        return self.models[device]

    def step(self, device: str) -> Callable[[], Any]:
        """The optimizer's step on the gradients of the device's model, which are None afterwards."""
        if device not in self.steps:
            optimizer = torch.optim.AdamW(self.model(device).parameters(), lr=1e-4, foreach=True)
            update = self.update(optimizer)

            def step() -> None:
                update()
                optimizer.zero_grad()

            self.steps[device] = step
        return self.steps[device]

    def update(self, optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
        return optimizer.step

    def __call__(self, x: Tensor) -> Tensor:
        device = x.device.type
        model = self.model(device)
        if not self.train:
            with torch.no_grad():
                return _logits(model(x if not x.is_floating_point() else x.to(self.dtype)))
        with torch.autocast(device, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            loss = _logits(model(x)).float().logsumexp(-1).mean()
        loss.backward()
        self.step(device)()
        return loss.detach()


def _logits(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output.logits


def models() -> Iterator[Case]:
    """Inference and training step of every model that can be built here, f32 and bf16 (autocast in training)."""
    for name, (build, inputs) in MODELS.items():
        for train in (False, True):
            for dtype in (torch.float32, torch.bfloat16):
                try:
                    pair = Pair(build, dtype, train)
                except ImportError as error:
                    print(f"bench: {name} left out: {error}")
                    break
                torch.manual_seed(1)
                label = f"{name} {'train' if train else 'infer'} {'bf16' if dtype == torch.bfloat16 else 'f32'}"
                yield Case("model", label, pair, (inputs(),), rtol=0.1 if dtype == torch.bfloat16 else 2e-2)
