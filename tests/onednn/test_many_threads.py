"""Products whose parts many threads share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import script
from support.processors import pretend


@pytest.mark.parametrize("processors", [8, pytest.param(33, marks=pytest.mark.slow)])
def test_batches_of_long_rows(processors: int, tmp_path: Path) -> None:
    """float32 with an inner dimension of 20,000 or more, which threads share from six on."""
    code = """
        import torch
        import torch.nn.functional as F
        assert torch.xpu.get_device_properties(0).max_compute_units == {processors}

        def integers(*shape):
            return torch.randint(-3, 4, shape).float()

        def check(what, f, *operands):
            want, got = f(*[t.double() for t in operands]), f(*[t.to("xpu") for t in operands])
            assert torch.equal(got.cpu().double(), want), (what, (got.cpu() - want).abs().max())

        for batch, m, n, k in [(4, 3, 16, 20_000), (2, 7, 64, 20_000), (3, 64, 500, 20_001), (2, 1, 17, 33_000)]:
            a, b, c, row = integers(batch, m, k), integers(batch, k, n), integers(batch, m, n), integers(n)
            check("bmm", torch.bmm, a, b)
            check("turned", torch.bmm, a, b.transpose(1, 2).contiguous().transpose(1, 2))
            check("strided", torch.bmm, a, b.transpose(0, 1).contiguous().transpose(0, 1))
            check("added", lambda c, a, b: torch.baddbmm(c, a, b, beta=2), c, a, b)
            check("a row added", lambda c, a, b: torch.baddbmm(c, a, b), row, a, b)
            check("one for all", torch.matmul, a, b[:1])
            check("four dimensions", torch.matmul, a[:, None], torch.stack([b, b + 1], 1))
            fused = torch.ops.xpu_ops.matmul(a.to("xpu"), b.to("xpu"), None, ["relu", "add"], [c.to("xpu")])
            want = torch.relu(a.double() @ b.double()) + c
            assert torch.equal(fused.cpu().double(), want), "fused"
        q, k, v = torch.randn(2, 6, 1, 16), torch.randn(2, 2, 20_000, 16), torch.randn(2, 2, 20_000, 16)
        want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True)
        with torch.no_grad():
            got = F.scaled_dot_product_attention(q.to("xpu"), k.to("xpu"), v.to("xpu"), enable_gqa=True)
        torch.testing.assert_close(got.cpu().double(), want, rtol=1e-4, atol=1e-6)
    """
    script.out(code.replace("{processors}", str(processors)), **pretend(processors, tmp_path))
