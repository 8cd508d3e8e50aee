"""Trains a small ResNet and a small transformer on scikit-learn's digits, on xpu and on the CPU from the same seed.

Prints accuracy, both loss curves, the time of a step and every fallback; exits non-zero where a model fails to learn, leaves
the CPU's curve or falls back.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

import xpu_ops


class Block(nn.Module):
    """conv-bn-relu twice with a shortcut. (N, c_in, H, W) -> (N, c_out, H/stride, W/stride)."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.short = (
            nn.Identity()
            if stride == 1 and c_in == c_out
            else nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class SmallResNet(nn.Module):
    """ResNet over (N, 1, 8, 8) images in [0, 1] -> (N, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.stem(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class SmallTransformer(nn.Module):
    """Transformer encoder that reads an image as 8 rows of 8 pixels. (N, 1, 8, 8) -> (N, 10) logits."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(torch.randn(1, 8, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 128, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(self.embed(x.squeeze(1)) + self.position)
        return self.head(self.norm(x).mean(1))


@dataclass
class Run:
    losses: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)  # seconds
    accuracy: float = 0.0


def train(model: nn.Module, device: str, autocast: bool, epochs: int, progress: Progress, label: str) -> Run:
    """Trains with AdamW on 1500 digits and tests on the other 297."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order].to(device), labels[order].to(device)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    run = Run()
    batch, count = 100, 1500
    task = progress.add_task(label, total=epochs * count // batch)
    for epoch in range(epochs):
        shuffle = torch.randperm(count, generator=torch.Generator().manual_seed(epoch + 1)).to(device)
        for start in range(0, count, batch):
            begin = time.perf_counter()
            index = shuffle[start : start + batch]
            with torch.autocast(device, torch.bfloat16, enabled=autocast):
                loss = F.cross_entropy(model(images[index]), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.losses.append(loss.item())
            run.steps.append(time.perf_counter() - begin)
            progress.advance(task)
    model.eval()
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=autocast):
        predicted = model(images[count:]).argmax(1)
    run.accuracy = (predicted == labels[count:]).float().mean().item()
    return run


def curve(losses: list[float], points: int = 6) -> str:
    step = max(1, (len(losses) - 1) // (points - 1))
    return " ".join(f"{v:.3f}" for v in losses[::step])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    console = Console(width=140)
    console.print(
        f"torch {torch.__version__}, xpu:0 = {torch.xpu.get_device_name()}, threads {torch.get_num_threads()}"
    )
    table = Table("model", "precision", "device", "accuracy", "ms/step", "CPU/xpu", "loss curve")
    failures: list[str] = []
    xpu_ops.fallback.reset()
    with Progress(console=console) as progress:
        for name, kind in (("ResNet", SmallResNet), ("transformer", SmallTransformer)):
            for autocast in (False, True):
                runs = {}
                for device in ("cpu", "xpu"):
                    torch.manual_seed(0)
                    precision = "bf16 autocast" if autocast else "f32"
                    runs[device] = train(
                        kind(), device, autocast, args.epochs, progress, f"{name} {precision} {device}"
                    )
                medians = {d: statistics.median(r.steps[5:]) * 1e3 for d, r in runs.items()}
                for device, run in runs.items():
                    ratio = f"{medians['cpu'] / medians['xpu']:.2f}" if device == "xpu" else ""
                    table.add_row(
                        name,
                        precision,
                        device,
                        f"{run.accuracy:.3f}",
                        f"{medians[device]:.2f}",
                        ratio,
                        curve(run.losses),
                    )
                label = f"{name} {precision}"
                if runs["xpu"].accuracy < 0.93:
                    failures.append(f"{label}: accuracy {runs['xpu'].accuracy:.3f} on xpu is below 0.93")
                # The curves are compared before chaotic divergence sets in: the first 20 steps, then the level reached.
                early = max(abs(a - b) for a, b in zip(runs["xpu"].losses[:20], runs["cpu"].losses[:20], strict=True))
                if early > (0.15 if autocast else 0.02):
                    failures.append(f"{label}: leaves the CPU's loss curve by {early:.3f} within 20 steps")
                ends = [statistics.mean(runs[d].losses[-15:]) for d in ("xpu", "cpu")]
                if abs(ends[0] - ends[1]) > 0.1:
                    failures.append(f"{label}: ends at loss {ends[0]:.3f}, the CPU at {ends[1]:.3f}")
    console.print(table)
    counts = xpu_ops.fallback.counts()
    console.print("fallbacks: " + (", ".join(f"{k} x{v}" for k, v in sorted(counts.items())) if counts else "none"))
    if counts:
        failures.append(f"{len(counts)} operators fell back to the CPU")
    for text in failures:
        console.print(f"FAILED {text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
