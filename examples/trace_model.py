"""Traces a model: which operators run natively on xpu, which fall back to the CPU, and where the time goes."""

from __future__ import annotations

import torch
from torch import nn

import xpu_ops


class Spectrum(nn.Module):
    """A convolution and a classifier over the spectrum of a signal: (N, 256) -> (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Conv1d(1, 8, 5, padding=2)
        self.classify = nn.Linear(8 * 129, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filtered = torch.relu(self.filters(x[:, None]))
        return self.classify(torch.fft.rfft(filtered).abs().flatten(1))


def main() -> None:
    model, x = Spectrum().to("xpu"), torch.randn(32, 256, device="xpu")
    model(x).sum().backward()  # the first call loads kernels

    with xpu_ops.trace_ops() as trace:
        model(x).sum().backward()

    print(f"{len(trace.leaves)} operators; {trace.fallback_share:.0%} of the time in fallbacks")
    for o in trace.leaves[:6]:
        print(f"  {o.total_ms:7.3f} ms {o.calls:3} calls  {o.how:9} {o.name}")
    print("without a kernel:", ", ".join(sorted(o.name for o in trace.fallbacks)) or "none")
    print("counted without a trace:", xpu_ops.fallback.counts())


if __name__ == "__main__":
    main()
