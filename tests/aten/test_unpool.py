"""Unpooling and fractional pooling against the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from aten_data import data, same

pytestmark = pytest.mark.filterwarnings("ignore")


def test_max_unpool() -> None:
    def run(x: torch.Tensor) -> object:
        pool, unpool = (F.max_pool2d, F.max_unpool2d) if x.dim() == 4 else (F.max_pool3d, F.max_unpool3d)
        y, i = pool(x.cpu(), 2, return_indices=True)
        y, i = y.to(x.device).requires_grad_(), i.to(x.device)
        z = unpool(y, i, 2)
        z.backward(torch.ones_like(z))
        return z, y.grad

    same(run, data(2, 3, 8, 10))
    same(run, data(2, 3, 8, 10).to(memory_format=torch.channels_last))
    same(run, data(2, 3, 4, 6, 8))


def test_max_unpool_bad_index() -> None:
    i = torch.full((1, 1, 2, 2), 99, device="xpu")
    with pytest.raises(RuntimeError, match=r"Found an invalid max index: 99 \(output volumes are of size 4x4"):
        F.max_unpool2d(torch.ones(1, 1, 2, 2, device="xpu"), i, 2)
        torch.xpu.synchronize()


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fractional(dims: int, dtype: torch.dtype) -> None:
    x = data(2, 3, *(7, 9, 11)[-dims:], dtype=dtype)
    samples = torch.rand(2, 3, dims, generator=torch.Generator().manual_seed(1)).to(dtype)
    pool = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d

    def run(x: torch.Tensor, samples: torch.Tensor) -> object:
        x = x.clone().requires_grad_()
        y, i = pool(x, 2, output_size=(3, 4, 5)[-dims:], return_indices=True, _random_samples=samples)
        y.backward(torch.arange(float(y.numel()), device=y.device).reshape(y.shape).to(y.dtype))
        return y, i, x.grad

    same(run, x, samples)
