"""torch.utils.flop_counter counts what this device's own operators multiply, as it counts other devices' operators."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode


def test_attention() -> None:
    q, k = (torch.randn(2, heads, 64, 32, device="xpu", requires_grad=True) for heads in (4, 4))
    with FlopCounterMode(display=False) as counter:
        out = F.scaled_dot_product_attention(q, k, k)
    product = 2 * (2 * 4) * 64 * 64 * 32
    assert counter.get_total_flops() == 2 * product
    with FlopCounterMode(display=False) as counter:
        out.sum().backward()
    assert counter.get_total_flops() == 5 * product  # the scores again, and two gradients of each product


@pytest.mark.parametrize("transposed", [False, True])
def test_fused_operators(transposed: bool) -> None:
    x, image = torch.randn(6, 16, device="xpu"), torch.randn(2, 4, 9, 9, device="xpu")
    w, kernel = torch.randn(8, 16, device="xpu"), torch.randn(4, 4, 3, 3, device="xpu")
    ops = torch.ops.xpu_ops

    def count(run: object) -> int:
        with FlopCounterMode(display=False) as counter:
            assert callable(run)
            run()
        return counter.get_total_flops()

    assert count(lambda: ops.linear(x, w, None, ["relu"], [])) == count(lambda: F.linear(x, w))
    assert count(lambda: ops.gated_linear(x, w, w)) == 2 * count(lambda: F.linear(x, w))
    assert count(lambda: ops.matmul(x, w.t(), None, ["relu"], [])) == count(lambda: x @ w.t())
    plain = F.conv_transpose2d if transposed else F.conv2d
    fused = [[1, 1], [0, 0], [1, 1], 1, transposed, [0, 0], ["relu"], []]
    assert count(lambda: ops.conv(image, kernel, None, *fused)) == count(lambda: plain(image, kernel))
