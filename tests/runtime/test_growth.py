"""Memory of the process and of the device stays where it is over many steps, shapes and module loads."""

from __future__ import annotations

import json

import pytest
from support import script

PRELUDE = """
import gc, json, os, torch
def state():
    torch.xpu.synchronize(); gc.collect(); torch.xpu.empty_cache()
    resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"resident": resident, "allocated": torch.xpu.memory_allocated(), "reserved": torch.xpu.memory_reserved()}
"""
# Each calls `state` where everything is warm, and at the end.
PROGRAMS = {
    "training steps": """
n = torch.nn
torch.manual_seed(0)
model = n.Sequential(n.Conv2d(3, 8, 3, padding=1), n.BatchNorm2d(8), n.ReLU(), n.AdaptiveAvgPool2d(4), n.Flatten(),
                     n.Linear(128, 64), n.GELU(), n.Dropout(0.1), n.Linear(64, 10)).to("xpu")
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(8, 3, 16, 16, device="xpu"), torch.randint(0, 10, (8,), device="xpu")
for step in range(10_000):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if step == 999: before = state()
""",
    "shapes": """
w = torch.randn(16, 8, 3, 3, device="xpu")
for round in range(3):
    for i in range(1000):
        n, h = 1 + i % 25, 4 + i // 25
        torch.nn.functional.conv2d(torch.randn(n, 8, h, h + 3, device="xpu"), w).sum()
        a = torch.randn(n + i % 7, 2 * h + 1, device="xpu")
        (a @ a.T).softmax(-1).sum(0), torch.fft.rfft(a), torch.linalg.qr(a[:8, :8])
    del a
    if round == 1: before = state()
""",
    "module loads": """
import xpu_ops
x = torch.ones(8, device="xpu")
for i in range(1100):
    f = xpu_ops.jit.elementwise("twice", "float a", "2.0f * a")
    assert f(x).sum().item() == 16
    if i == 99: before = state()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", PROGRAMS)
def test_memory_does_not_grow(what: str) -> None:
    out = script.out(PRELUDE + PROGRAMS[what] + "print(json.dumps([before, state()]))", timeout=1800)
    before, after = json.loads(out.splitlines()[-1])
    print(f"resident MiB: {before['resident'] / 2**20:.1f}, then {after['resident'] / 2**20:.1f}")
    assert after["resident"] < before["resident"] + (4 << 20), (before, after)
    assert (after["allocated"], after["reserved"]) == (before["allocated"], before["reserved"])


def test_fragmentation_stays_bounded() -> None:
    """Blocks of random sizes and lives within 256 MiB: what the allocator reserves does not rise with their number."""
    code = """
    import random, torch
    r, live, held, peaks = random.Random(0), {}, 0, []
    for part in range(4):
        peak = 0
        for step in range(50_000):
            size = int(2 ** r.uniform(9, 24))
            while live and (held + size > 256 << 20 or r.random() < 0.4):
                block = live.pop(r.choice(list(live)[:50]))
                held -= block.numel()
            live[part * 50_000 + step] = torch.empty(size, dtype=torch.uint8, device="xpu")
            held += size
            peak = max(peak, torch.xpu.memory_reserved()) if step % 50 == 0 else peak
        peaks.append(peak >> 20)
    print(*peaks)
    """
    first, *later = map(int, script.out(code, timeout=600).split())
    assert max(later) <= 1.25 * first and max(first, *later) < 2.5 * 256, (first, later)
