"""Gaussian process regression: hyperparameters by gradient of the likelihood through Cholesky, on xpu beside torch CPU."""

from __future__ import annotations

import torch

import xpu_ops

POINTS, STEPS = 120, 25


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.rand(POINTS, 1, generator=g, dtype=torch.float64) * 10
    y = torch.sin(x[:, 0]) + 0.1 * torch.randn(POINTS, generator=g, dtype=torch.float64)
    return x, y, torch.linspace(0, 10, 50, dtype=torch.float64).unsqueeze(1)


def kernel(a: torch.Tensor, b: torch.Tensor, log_scale: torch.Tensor) -> torch.Tensor:
    return torch.exp(-0.5 * ((a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1) / log_scale.exp().square()))


def fit(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and standard deviation at new points, and the log likelihood after the fit."""
    log_scale, log_noise = (torch.tensor(v, dtype=x.dtype, device=x.device, requires_grad=True) for v in (1.0, -1.0))
    optimizer = torch.optim.Adam([log_scale, log_noise], lr=0.1)
    eye = torch.eye(len(x), dtype=x.dtype, device=x.device)

    def likelihood() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        factor = torch.linalg.cholesky(kernel(x, x, log_scale) + log_noise.exp().square() * eye)
        weights = torch.cholesky_solve(y.unsqueeze(1), factor)
        fitted = (
            0.5 * (y @ weights)[0]
            + factor.diagonal().log().sum()
            + 0.5 * len(x) * torch.log(torch.tensor(2 * torch.pi))
        )
        return -fitted, factor, weights

    for _ in range(STEPS):
        optimizer.zero_grad()
        (-likelihood()[0]).backward()
        optimizer.step()
    with torch.no_grad():
        value, factor, weights = likelihood()
        cross = kernel(at, x, log_scale)
        spread = torch.linalg.solve_triangular(factor, cross.mT, upper=False)
        variance = 1 + log_noise.exp().square() - spread.square().sum(0)
        return (cross @ weights)[:, 0], variance.sqrt(), value


def main() -> None:
    given = data()
    with xpu_ops.fallback.forbid():
        mean, deviation, likelihood = (t.cpu() for t in fit(*(t.to("xpu") for t in given)))
    expected = fit(*given)
    error = (mean - torch.sin(given[2][:, 0])).abs().max()
    print(f"log likelihood {likelihood:.3f}, torch CPU {expected[2]:.3f}")
    print(f"error of the mean at most {error:.3f}, standard deviation {deviation.mean():.3f}")
    torch.testing.assert_close((mean, deviation, likelihood), expected, rtol=1e-6, atol=1e-6)


if __name__ == "__main__":
    main()
