"""Programs that the tests of this folder profile: each makes a function that runs one step."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn

Step = Callable[[], object]


def conv_net() -> Step:
    """Training of a small net: convolutions, normalisation, pooling, a linear layer, SGD."""
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 24 * 24, 10),
    ).to("xpu")  # fmt: skip
    return _training(net, torch.randn(16, 3, 48, 48), 10)


def resnet50() -> Step:
    """A training step of ResNet-50 on 32 small images."""
    from torchvision.models import resnet50

    return _training(resnet50(num_classes=100).to("xpu"), torch.randn(32, 3, 128, 128), 100)


def gpt2() -> Step:
    """Generation with GPT-2 of its original size: 256 sequences, 4 tokens each."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).eval().to("xpu")
    prompt = torch.randint(0, 50000, (256, 16)).to("xpu")
    return lambda: model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0)


def _training(net: nn.Module, images: torch.Tensor, classes: int) -> Step:
    images, labels = images.to("xpu"), torch.randint(0, classes, (len(images),)).to("xpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step
