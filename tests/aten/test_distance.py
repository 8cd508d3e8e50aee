"""Pairwise distances, cross, trace, renorm against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from aten_data import data, same

pytestmark = pytest.mark.filterwarnings("ignore")
TOL = (1e-4, 1e-4)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cdist(p: float, dtype: torch.dtype) -> None:
    def run(a: torch.Tensor, b: torch.Tensor) -> object:
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        d = torch.cdist(a, b, p=p, compute_mode="donot_use_mm_for_euclid_dist")
        (d * torch.arange(1.0, 1.0 + d.size(-1), device=d.device)).sum().backward()
        return d, a.grad, b.grad

    same(run, data(5, 7, dtype=dtype), data(9, 7, dtype=dtype, seed=2), tol=TOL)
    same(run, data(2, 5, 7, dtype=dtype), data(2, 9, 7, dtype=dtype, seed=2), tol=TOL)
    same(run, data(3, 1, 5, 7, dtype=dtype), data(2, 9, 7, dtype=dtype, seed=2), tol=TOL)


def test_cdist_shapes() -> None:
    same(lambda a, b: torch.cdist(a, b), data(40, 7), data(60, 7, seed=2), tol=(1e-3, 1e-3))
    same(lambda a, b: torch.cdist(a, b), data(0, 7), data(6, 7))
    same(lambda a, b: torch.cdist(a, b), data(4, 0), data(6, 0))
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="same number of columns"):
            torch.cdist(data(4, 3).to(device), data(4, 2).to(device))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_pdist(p: float) -> None:
    def run(a: torch.Tensor) -> object:
        a = a.clone().requires_grad_()
        d = torch.pdist(a, p=p)
        (d * torch.arange(1.0, 1.0 + d.numel(), device=d.device)).sum().backward()
        return d, a.grad

    for shape in ((9, 7), (2, 3), (35, 18)):
        same(run, data(*shape), tol=TOL)
    for shape in ((1, 4), (0, 4)):  # torch's CPU gradient crashes on these
        same(lambda a: torch.pdist(a, p=p), data(*shape))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_sums_of_many_features(p: float) -> None:
    x = data(3, 2_000_000)
    want = torch.pdist(x.double(), p=p).float()
    torch.testing.assert_close(torch.pdist(x.to("xpu"), p=p).cpu(), want, rtol=1e-5, atol=0)
    d = torch.cdist(x[:1].to("xpu"), x[1:].to("xpu"), p=p, compute_mode="donot_use_mm_for_euclid_dist").cpu()
    torch.testing.assert_close(d[0], want[:2], rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64])
def test_cross(dtype: torch.dtype) -> None:
    same(lambda a, b: torch.linalg.cross(a, b), data(20, 3, dtype=dtype), data(20, 3, dtype=dtype, seed=2))
    same(lambda a, b: torch.cross(a, b, dim=0), data(3, 20, dtype=dtype), data(3, 20, dtype=dtype, seed=2))
    same(lambda a, b: torch.linalg.cross(a, b, dim=1), data(4, 3, 5, dtype=dtype), data(1, 3, 5, dtype=dtype, seed=2))


def test_count_of_differences_keeps_nan() -> None:
    """The norm of p = 0 counts what differs; inf less inf is NaN, on torch's CPU too."""
    same(lambda x: torch.pdist(x, p=0.0), torch.full((2, 2), float("inf")))
    same(lambda x, y: torch.cdist(x, y, p=0.0), torch.tensor([[1.0, float("nan")], [1.0, 2.0]]), torch.ones(3, 2))


def test_trace_and_renorm() -> None:
    same(torch.trace, data(5, 7), tol=TOL)
    same(torch.trace, data(5, 7, dtype=torch.int32))
    same(lambda x: torch.trace(x[1:, ::2].t()), data(9, 7, dtype=torch.float16))
    same(torch.trace, data(0, 7))
    for p in (1.0, 2.0, 3.0):
        same(lambda x: torch.renorm(x, p, 1, 1.5), data(5, 7, 3), tol=TOL)
        same(lambda x: x.renorm_(p, 0, 1.5), data(5, 7, 3), tol=TOL)


def test_jacobian_of_cdist() -> None:
    """torch's rule of vmap forgets a batch of gradients alone: the CPU's values are wrong, xpu raises. One at a time is right."""
    x, y = data(3, 4, seed=1), data(5, 4, seed=2)

    def jacobian(device: str, **kwargs: Any) -> torch.Tensor:
        return torch.func.jacrev(torch.cdist, **kwargs)(x.to(device), y.to(device)).cpu()

    torch.testing.assert_close(jacobian("xpu", chunk_size=1), jacobian("cpu", chunk_size=1))
    with pytest.raises(RuntimeError, match="_cdist_backward: expected grad and cdist of size"):
        jacobian("xpu")
    batched = torch.func.vmap(torch.func.jacrev(torch.cdist, chunk_size=1))
    pair = torch.stack([x, x + 1]), torch.stack([y, y - 1])
    torch.testing.assert_close(batched(*(t.to("xpu") for t in pair)).cpu(), batched(*pair))
