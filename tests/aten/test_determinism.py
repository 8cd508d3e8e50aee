"""Twenty runs of an operator give the same bits, also where deterministic algorithms are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from aten_data import data, ids

import xpu_ops

RUNS = 20
N, ROWS, COLUMNS = 16_000, 300, 64
FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"


def gradient(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    out = f(leaf)
    return torch.autograd.grad(out, leaf, data(*out.shape, dtype=out.dtype, seed=9).to(out.device))[0]


# name -> f(table [ROWS, COLUMNS], values [N, COLUMNS], places [N] in the table's rows, each about 50 times)
CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "scatter": lambda t, v, i: t.scatter(0, i[:, None].expand(N, COLUMNS), v),
    "scatter_add": lambda t, v, i: t.scatter_add(0, i[:, None].expand(N, COLUMNS), v),
    "scatter_reduce_sum": lambda t, v, i: t.scatter_reduce(0, i[:, None].expand(N, COLUMNS), v, "sum"),
    "scatter_reduce_mean": lambda t, v, i: t.scatter_reduce(0, i[:, None].expand(N, COLUMNS), v, "mean"),
    "scatter_reduce_prod": lambda t, v, i: t.scatter_reduce(0, i[:, None].expand(N, COLUMNS), v, "prod"),
    "scatter_add_1d": lambda t, v, i: t[:, 0].scatter_add(0, i, v[:, 0]),
    "index_add": lambda t, v, i: t.index_add(0, i, v),
    "index_add_1d": lambda t, v, i: t[:, 0].index_add(0, i, v[:, 0]),
    "index_reduce": lambda t, v, i: t.index_reduce(0, i, v, "mean"),
    "index_copy": lambda t, v, i: t.index_copy(0, i, v),
    "index_put": lambda t, v, i: t.index_put((i,), v),
    "index_put_accumulate": lambda t, v, i: t.index_put((i,), v, accumulate=True),
    "index_put_two": lambda t, v, i: t.index_put((i, i % COLUMNS), v[:, 0], accumulate=True),
    "put": lambda t, v, i: t.put(i, v[:, 0], accumulate=True),
    "gather_backward": lambda t, v, i: gradient(lambda x: x.gather(0, i[:, None].expand(N, COLUMNS)), t),
    "index_select_backward": lambda t, v, i: gradient(lambda x: x.index_select(0, i), t),
    "index_backward": lambda t, v, i: gradient(lambda x: x[i], t),
    "embedding_backward": lambda t, v, i: gradient(lambda x: F.embedding(i, x), t),
    "embedding_padding": lambda t, v, i: gradient(lambda x: F.embedding(i, x, 3, scale_grad_by_freq=True), t),
    "embedding_bag_backward": lambda t, v, i: gradient(lambda x: F.embedding_bag(i.view(-1, 50), x), t),
    "bincount": lambda t, v, i: torch.bincount(i, v[:, 0].float()),
    "cumsum": lambda t, v, i: v.cumsum(0),
    "cumsum_line": lambda t, v, i: v.view(-1).cumsum(0),
    "cumprod": lambda t, v, i: (1 + v * 1e-3).view(8, -1).cumprod(1),
    "sum": lambda t, v, i: (v.sum(), v.sum(0), v.sum(1)),
    "sort": lambda t, v, i: v.round().sort(0),
    "sort_line": lambda t, v, i: v.round().view(-1).sort(),
    "topk": lambda t, v, i: v.round().view(100, -1).topk(50),
    "unique": lambda t, v, i: v.round().view(-1).unique(return_inverse=True, return_counts=True),
    "upsample_backward": lambda t, v, i: gradient(
        lambda x: F.interpolate(x.view(1, 3, 80, 80), size=(31, 133), mode="bilinear"), t.reshape(-1)[:19200]
    ),
    "grid_sample_backward": lambda t, v, i: gradient(
        lambda x: F.grid_sample(
            x.view(1, 3, 80, 80), v[:3200, :2].reshape(1, 40, 80, 2).to(x.dtype), align_corners=False
        ),
        t.reshape(-1)[:19200],
    ),
    "matmul": lambda t, v, i: v @ v[:COLUMNS].t(),
    "conv_backward": lambda t, v, i: gradient(
        lambda x: F.conv2d(v[:3200].view(2, 64, 40, 40), x.view(33, 64, 3, 3)), t.reshape(-1)[: 33 * 64 * 9]
    ),
}


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.use_deterministic_algorithms(request.param)
    yield
    torch.use_deterministic_algorithms(False)


# Which of several values for one place index_put leaves there is open, unless it accumulates or determinism is asked for.
CASES = [
    pytest.param(name, dtype, mode, id=f"{name}-{dtype}".replace("torch.", "") + ("-deterministic" if mode else ""))
    for name in CALLS
    for dtype in [torch.float32, torch.bfloat16] + [torch.float16] * FULL
    for mode in (False, True)
    if (mode or name != "index_put") and (dtype == torch.float32 or not mode or FULL)
]


@pytest.mark.parametrize(("name", "dtype", "mode"), CASES, indirect=["mode"])
def test_same_bits(name: str, dtype: torch.dtype, mode: None) -> None:
    table, values = data(ROWS, COLUMNS, dtype=dtype).to("xpu"), data(N, COLUMNS, dtype=dtype, seed=1).to("xpu")
    places = ids(ROWS, N).to("xpu")

    def run() -> list[torch.Tensor]:
        out = CALLS[name](table, values, places)
        return [out] if isinstance(out, torch.Tensor) else list(out)

    with xpu_ops.fallback.forbid():
        first = run()
        for _ in range(RUNS - 1):
            for a, b in zip(first, run(), strict=True):
                assert torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
