"""Principal components by SVD, and the samples rebuilt from a few of them, on xpu beside torch CPU."""

from __future__ import annotations

import torch

import xpu_ops

SAMPLES, FEATURES, RANK = 2000, 64, 6
KEPT = RANK  # components


def data() -> torch.Tensor:
    """Samples of six hidden causes in 64 features, with noise."""
    g = torch.Generator().manual_seed(0)
    causes = torch.randn(SAMPLES, RANK, generator=g) * torch.arange(RANK, 0, -1)
    return causes @ torch.randn(RANK, FEATURES, generator=g) + 0.1 * torch.randn(SAMPLES, FEATURES, generator=g)


def components(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The share of the variance of each component, and the samples rebuilt from the first ones."""
    centred = x - x.mean(0)
    _, s, vh = torch.linalg.svd(centred, full_matrices=False)
    variance = s.square() / s.square().sum()
    kept = vh[:KEPT]
    return variance, centred @ kept.mT @ kept + x.mean(0)


def main() -> None:
    x = data()
    with xpu_ops.fallback.forbid():
        variance, rebuilt = (t.cpu() for t in components(x.to("xpu")))
    expected = components(x)
    print("share of the variance:", " ".join(f"{v:.3f}" for v in variance[: KEPT + 1]))
    print(f"{KEPT} of {FEATURES} components rebuild the samples to {(rebuilt - x).square().mean().sqrt():.3f}")
    torch.testing.assert_close((variance, rebuilt), expected, rtol=1e-3, atol=1e-3)
    assert variance[:KEPT].sum() > 0.99


if __name__ == "__main__":
    main()
