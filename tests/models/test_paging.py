"""Pages of keys and values and layers of experts as the vLLM plugin uses them, without vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

import xpu_ops
from xpu_ops.vllm import experts, paging, platform

PAGE, HEADS, GROUPS, DIM = 8, 4, 2, 16


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def test_slots() -> None:
    begins = torch.tensor([0, 3, 3, 4, 9]).int()
    positions = torch.tensor([6, 7, 8, 20, 0, 1, 2, 3, 4])
    table = torch.tensor([[5, 9, 0], [7, 7, 7], [2, 3, 4], [6, 0, 0], [8, 8, 8]]).int()
    out = torch.full((12,), -7, device="xpu")
    paging.slots(begins.to("xpu"), positions.to("xpu"), table.to("xpu"), PAGE, out)
    places = [(5, 6), (5, 7), (9, 0), (4, 4), (6, 0), (6, 1), (6, 2), (6, 3), (6, 4)]
    assert out.tolist() == [p * PAGE + at for p, at in places] + [0] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 5])
def test_steps_of_a_server(dtype: torch.dtype, window: int | None) -> None:
    """Prompts in one piece and in two, then single tokens, give what attention over whole sequences gives."""
    torch.manual_seed(0)
    lengths = [11, 1, 30]
    q, k, v = (torch.randn(sum(lengths), h, DIM).to(dtype) for h in (HEADS, GROUPS, GROUPS))
    first = [sum(lengths[:i]) for i in range(3)]
    cache = torch.zeros(20, PAGE, GROUPS, 2 * DIM, dtype=dtype, device="xpu")
    table = (torch.randperm(12).view(3, 4) + 1).int().to("xpu")
    done, out = [0, 0, 0], torch.empty_like(q)
    for step in ([7, 0, 12], [4, 1, 17], [0, 0, 1]):
        which = [i for i in range(3) if step[i]]
        rows = torch.cat([torch.arange(done[i], done[i] + step[i]) + first[i] for i in which])
        positions = torch.cat([torch.arange(done[i], done[i] + step[i]) for i in which]).to("xpu")
        begins = torch.tensor([0, *(step[i] for i in which)]).cumsum(0).int()
        slot = torch.empty(40, dtype=torch.int64, device="xpu")
        paging.slots(begins.to("xpu"), positions, table[which], PAGE, slot)
        paging.write(cache, k[rows].to("xpu"), v[rows].to("xpu"), slot[: len(rows)])
        done = [d + s for d, s in zip(done, step, strict=True)]
        mine = torch.empty(len(rows), HEADS, DIM, dtype=dtype, device="xpu")
        keys = [done[i] for i in which]
        if max(step) == 1:
            used = torch.tensor(keys).int().to("xpu")
            paging.attend_one(
                q[rows].to("xpu"), cache, table[which], begins.to("xpu"), used, mine, scale=0.25, window=window
            )
        else:
            paging.attend_many(
                q[rows].to("xpu"), cache, table[which], begins.tolist(), keys, mine, scale=0.25, window=window
            )
        out[rows] = mine.cpu()
    assert done == lengths
    for i, n in enumerate(lengths):
        a, b, c = (t[first[i] : first[i] + n].double().transpose(0, 1) for t in (q, k, v))
        far = torch.arange(n)[:, None] - torch.arange(n)
        seen = (far >= 0) & (far < (window or n))
        expected = functional.scaled_dot_product_attention(a, b, c, attn_mask=seen, scale=0.25, enable_gqa=True)
        close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(out[first[i] : first[i] + n].double(), expected.transpose(0, 1), **close)


def test_slot_past_the_cache() -> None:
    cache = torch.zeros(2, PAGE, GROUPS, 2 * DIM, device="xpu")
    one = torch.ones(1, GROUPS, DIM, device="xpu")
    with pytest.raises(IndexError):
        paging.write(cache, one, one, torch.tensor([2 * PAGE], device="xpu"))
        torch.xpu.synchronize()


@pytest.mark.parametrize("tokens", [1, 9])
@pytest.mark.parametrize("bias", [False, True])
def test_experts(tokens: int, bias: bool) -> None:
    torch.manual_seed(0)
    x, up, down = torch.randn(tokens, 12), torch.randn(5, 16, 12), torch.randn(5, 12, 8)
    biases = {"up_bias": torch.randn(5, 16), "down_bias": torch.randn(5, 12)} if bias else {}
    scores = torch.randn(tokens, 5)
    weights, ids = (t.to("xpu") for t in scores.softmax(1).topk(2))
    y = experts.mix(
        x.to("xpu"),
        up.to("xpu"),
        down.to("xpu"),
        weights,
        ids,
        functional.silu,
        **{n: b.to("xpu") for n, b in biases.items()},
    )
    expected = torch.zeros(tokens, 12)
    for t in range(tokens):
        for w, e in zip(weights[t].tolist(), ids[t].tolist(), strict=True):
            h = up[e] @ x[t] + (biases["up_bias"][e] if bias else 0)
            h = functional.silu(h[:8]) * h[8:]
            expected[t] += w * (down[e] @ h + (biases["down_bias"][e] if bias else 0))
    torch.testing.assert_close(y.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_experts_that_weigh_their_input() -> None:
    x, up, down = torch.randn(3, 4), torch.randn(2, 6, 4), torch.randn(2, 4, 3)
    weights, ids = torch.tensor([[0.5], [2.0], [1.0]]), torch.tensor([[1], [0], [1]])
    on = [t.to("xpu") for t in (x, up, down, weights, ids)]
    y = experts.mix(*on, functional.silu, weigh_input=True)
    plain = experts.mix(on[0] * on[3], *on[1:3], torch.ones_like(on[3]), on[4], functional.silu)
    torch.testing.assert_close(y, plain)
    with pytest.raises(RuntimeError, match="one expert of a token"):
        experts.mix(*on[:3], *(t.expand(3, 2) for t in on[3:]), functional.silu, weigh_input=True)


def test_platform_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XPU_OPS_VLLM", raising=False)
    assert platform() == "xpu_ops.vllm.platform.XpuPlatform"
    monkeypatch.setenv("XPU_OPS_VLLM", "0")
    assert platform() is None


def test_import_of_torch_brings_in_nothing_of_it() -> None:
    program = "import sys, torch; torch.ones(1, device='xpu'); print([m for m in sys.modules if 'vllm' in m])"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ), timeout=300
    )
    assert run.stdout.strip() == "[]", run.stdout + run.stderr
