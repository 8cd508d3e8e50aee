"""An operand of another type than the others is an error, or counts as converted: never are its bytes read as the others' type."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Call = Callable[..., torch.Tensor]
Sizes = tuple[tuple[int, ...], ...]


def labels(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, dtype=torch.long, device="xpu")


def pool_backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None)


def ctc_backward(g: torch.Tensor, p: torch.Tensor, loss: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    return aten._ctc_loss_backward(g, p, labels(1, 1) + 1, [4], [1], loss, alpha, 0)


CALLS: dict[str, tuple[Call, Sizes]] = {
    "cdist": (torch.cdist, ((3, 4), (5, 4))),
    "cross": (torch.linalg.cross, ((4, 3), (4, 3))),
    "softmax_backward": (lambda g, y: aten._softmax_backward_data(g, y, 0, g.dtype), ((3, 4), (3, 4))),
    "log_softmax_backward": (lambda g, y: aten._log_softmax_backward_data(g, y, 0, g.dtype), ((3, 4), (3, 4))),
    "grid_sample": (F.grid_sample, ((1, 1, 4, 4), (1, 3, 3, 2))),
    "grid_sample_3d": (F.grid_sample, ((1, 1, 2, 4, 4), (1, 2, 3, 3, 3))),
    "grid_sample_backward": (
        lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, 0, 0, False, [True, True])[0],
        ((1, 1, 3, 3), (1, 1, 4, 4), (1, 3, 3, 2)),
    ),
    "avg_pool2d_backward": (pool_backward, ((1, 1, 2, 2), (1, 1, 4, 4))),
    "nll_loss_backward": (
        lambda g, x, w, t: aten.nll_loss_backward(g, x, labels(3), w, 1, -100, t), ((), (3, 3), (3,), ()),
    ),
    "nll_loss2d_backward": (
        lambda g, x, w, t: aten.nll_loss2d_backward(g, x, labels(1, 2, 2), w, 1, -100, t), ((), (1, 3, 2, 2), (3,), ()),
    ),
    "ctc_backward": (ctc_backward, ((1,), (4, 1, 3), (1,), (1, 4, 3))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), ((3, 4, 5), (4,), (4,))),
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v.abs()), ((3, 4), (4,), (4,))),
    "lstm_cell": (lambda a, b, c: aten._thnn_fused_lstm_cell(a, b, c)[0], ((2, 8), (2, 8), (2, 2))),
    "index_add": (lambda x, s: x.index_add(0, labels(1), s), ((3, 2), (1, 2))),
    "scatter": (lambda x, s: x.scatter(0, labels(1, 2), s), ((3, 2), (1, 2))),
    "mse_loss": (F.mse_loss, ((3,), (3,))),
    "prelu": (F.prelu, ((3,), (1,))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_an_operand_of_another_type(name: str, dtype: torch.dtype) -> None:
    call, sizes = CALLS[name]
    draw = torch.Generator().manual_seed(0)
    given = [(torch.randn(s, generator=draw) * 2).to("xpu") for s in sizes]
    for i, operand in enumerate(given):
        other = [operand.to(dtype) if j == i else t for j, t in enumerate(given)]
        try:
            got = call(*other).cpu()
        except (RuntimeError, NotImplementedError):
            continue
        want = call(*[t.float() for t in other]).cpu()
        torch.testing.assert_close(got.double(), want.double(), rtol=2e-2, atol=2e-2)
