"""Results that are the same bits on processors of any number of cores (docs/threads.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import script
from support.modes import GPU_POLICY
from support.processors import pretend

CODE = """
    import hashlib
    import torch
    import torch.nn.functional as F
    assert torch.xpu.get_device_properties(0).max_compute_units == {processors}
    torch.manual_seed(0)
    x = torch.randn(2_000_003)
    y, near = x.to("xpu"), (1 + x * 1e-4).to("xpu")

    def rows(*shape):
        return y[: shape[0] * shape[1]].view(shape)

    def places(most, count):
        return torch.randint(0, most, (count,)).to("xpu")

    def gradient(f, leaf):
        leaf = leaf.detach().clone().requires_grad_()
        out = f(leaf)
        return torch.autograd.grad(out, leaf, torch.ones_like(out) * 0.3)[0]

    def seeded(f):
        torch.manual_seed(7)
        return f()

    few, many, to_rows = places(17, 300_001), places(100_000, 300_001), places(60, 9_000)
    calls = {
        "cumsum": lambda: [y.cumsum(0), rows(9, 200_000).cumsum(1), rows(40, 50_000).cumsum(1), rows(50_000, 40).cumsum(0)],
        "cumprod": lambda: [near.cumprod(0), near[:1_800_000].view(9, -1).cumprod(1)],
        "logcumsumexp": lambda: [y.logcumsumexp(0), rows(9, 200_000).logcumsumexp(1)],
        "cummax": lambda: [*y.cummax(0), *rows(9, 200_000).cummin(1)],
        "scatter_add": lambda: [
            torch.zeros(n, device="xpu").scatter_add(0, i, y[:300_001]) for n, i in ((17, few), (100_000, many))
        ],
        "index_put": lambda: [torch.zeros(17, device="xpu").index_put((few,), y[:300_001], accumulate=True)],
        "index_add": lambda: [
            torch.zeros(60, 70, device="xpu").index_add(0, to_rows, rows(9_000, 70)),
            torch.zeros(100_000, 3, device="xpu").index_add(0, many, rows(300_001, 3)),
            torch.zeros(100_000, 3, device="xpu").index_put((many - 100_000 * (many % 9 == 1),), rows(300_001, 3), True),
        ],
        "embedding": lambda: [gradient(lambda t: F.embedding(to_rows, t), rows(60, 70))],
        "bincount": lambda: [few.bincount(y[:300_001]), many.bincount()],
        "sort": lambda: [*y.sort(stable=True), *rows(5, 300_000).sort(dim=1, stable=True), *y.topk(1000)],
        "unique": lambda: [*torch.unique(many, return_inverse=True, return_counts=True)],
        "histc": lambda: [y.histc(1000, -3, 3)],
        "random": lambda: [
            seeded(lambda f=f: f())
            for f in (
                lambda: torch.rand_like(y),
                lambda: torch.randn_like(y),
                lambda: torch.randperm(200_003, device="xpu"),
                lambda: F.dropout(y, 0.3),
                lambda: torch.multinomial(y.abs(), 100_000, replacement=True),
                lambda: torch.multinomial(y.abs(), 1000),
            )
        ],
    }
    for name, call in calls.items():
        digest = hashlib.sha256()
        for t in call():
            digest.update(t.cpu().numpy().tobytes())
        print(name, digest.hexdigest())
"""


@pytest.mark.skipif(GPU_POLICY, reason="a GPU's plans depend on its compute units")
@pytest.mark.skipif(torch.xpu.get_device_properties().type != "cpu", reason="threads are those of the CPU device")
@pytest.mark.slow
def test_the_same_bits_for_any_number(tmp_path: Path) -> None:
    def of(processors: int) -> list[str]:
        return script.out(CODE.replace("{processors}", str(processors)), **pretend(processors, tmp_path)).splitlines()

    first = of(2)
    assert len(first) == CODE.count('": lambda: [')
    for processors in (3, 8, 33):
        assert of(processors) == first
