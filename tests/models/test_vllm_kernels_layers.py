"""Experts, products with few bits, adapters, sampling and recurrent layers under vllm-xpu-kernels' names, against float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import xpu_ops
from xpu_ops import _C
from xpu_ops.vllm import kernels
from xpu_ops.vllm.kernels import moe, moe_formats
from xpu_ops.vllm.kernels.packing import AWQUtils, GPTQUtils, dequantize

for _namespace in ("_C", "_C_cache_ops", "_moe_C", "_xpu_C"):
    kernels.register(_namespace)
C, CACHE, MOE, XPU = (getattr(torch.ops, name) for name in ("_C", "_C_cache_ops", "_moe_C", "_xpu_C"))
FP8 = torch.float8_e4m3fn


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    torch.manual_seed(0)
    with xpu_ops.fallback.forbid():
        yield


def near(got: Tensor, expected: Tensor, share: float) -> None:
    """Within a share of the largest value."""
    assert got.shape == expected.shape
    assert (got.cpu().double() - expected.double()).abs().max() <= share * expected.abs().max().clamp(min=1e-30)


# ---- routing


@pytest.mark.parametrize("score", ["softmax", "sigmoid", "softplus_sqrt"])
@pytest.mark.parametrize("biased", [False, True])
def test_best_experts(score: str, biased: bool) -> None:
    gating, bias = torch.randn(7, 16), torch.randn(16) if biased else None
    padding = torch.arange(7) == 3
    weights = torch.empty(7, 4, device="xpu")
    ids, sources = (torch.empty(7, 4, dtype=torch.int32, device="xpu") for _ in range(2))
    on = None if bias is None else bias.to("xpu")
    rest = {
        "softmax": (on, padding.to("xpu")),
        "sigmoid": (on, 2.5, padding.to("xpu")),
        "softplus_sqrt": (2.5, on, None, None, padding.to("xpu")),
    }[score]
    getattr(MOE, f"topk_{score}")(weights, ids, sources, gating.to("xpu"), True, *rest)
    scores = {
        "softmax": gating.double().softmax(-1),
        "sigmoid": gating.double().sigmoid(),
        "softplus_sqrt": functional.softplus(gating.double()).sqrt(),
    }[score]
    chosen = (scores if bias is None else scores + bias).topk(4).indices
    best = scores.gather(1, chosen)
    best = best / best.sum(1, keepdim=True) * (1 if score == "softmax" else 2.5)
    best[3], chosen[3] = 0, -1
    assert ids.tolist() == chosen.tolist()
    near(weights, best, 1e-6)
    assert sources.tolist() == [[k * 7 + i for k in range(4)] for i in range(7)]


def test_equal_scores_take_the_first_experts() -> None:
    weights = torch.empty(2, 3, device="xpu")
    ids, sources = (torch.empty(2, 3, dtype=torch.int32, device="xpu") for _ in range(2))
    MOE.topk_softmax(weights, ids, sources, torch.zeros(2, 40, device="xpu"), False, None, None)
    assert ids.tolist() == [[0, 1, 2]] * 2
    with pytest.raises(RuntimeError, match="more than the 2 there are"):
        MOE.topk_softmax(weights, ids, sources, torch.zeros(2, 2, device="xpu"), False, None, None)


def test_groups_of_experts() -> None:
    gating, bias = torch.randn(5, 16), torch.randn(16)
    weights, ids = MOE.grouped_topk(gating.to("xpu"), 4, 2, 3, True, 1.5, bias.to("xpu"), 1)
    scores = gating.double().sigmoid()
    biased = (scores + bias).view(5, 4, 4)
    kept = biased.topk(2).values.sum(-1).topk(2).indices
    mask = torch.zeros(5, 4, dtype=torch.bool).scatter_(1, kept, True)
    chosen = biased.masked_fill(~mask.unsqueeze(-1), float("-inf")).flatten(1).topk(3).indices
    best = scores.gather(1, chosen)
    assert ids.tolist() == chosen.tolist()
    near(weights, best / best.sum(1, keepdim=True) * 1.5, 1e-6)


@pytest.mark.parametrize("mapped", [False, True])
def test_blocks_of_experts(mapped: bool) -> None:
    ids = torch.randint(0, 6, (9, 2))
    local = torch.tensor([1, -1, 0, 2, -1, 3]) if mapped else torch.arange(6)
    room = torch.empty(18 + 6 * 3, dtype=torch.int32, device="xpu")
    experts, total = torch.empty(9, dtype=torch.int32, device="xpu"), torch.empty(1, dtype=torch.int32, device="xpu")
    MOE.moe_align_block_size(ids.int().to("xpu"), 6, 4, room, experts, total, local.int().to("xpu") if mapped else None)
    expected, blocks = [], []
    for e in range(6):
        mine = [i for i, x in enumerate(ids.flatten().tolist()) if x == e and local[e] >= 0]
        count = -(-len(mine) // 4)
        expected += mine + [18] * (count * 4 - len(mine))
        blocks += [int(local[e])] * count
    assert total.item() == len(expected)
    assert room.tolist() == expected + [18] * (36 - len(expected))
    assert experts.tolist() == blocks + [0] * (9 - len(blocks))


def test_rows_of_experts_and_back() -> None:
    x, ids, weights = torch.randn(6, 8), torch.randint(0, 5, (6, 2)), torch.rand(6, 2)
    local = torch.tensor([0, -1, 1, 2, -1])
    rows = torch.full((12, 8), 7.0, device="xpu")
    counts = torch.empty(3, dtype=torch.int32, device="xpu")
    places = torch.empty(6, 2, dtype=torch.int32, device="xpu")
    MOE.remap_hidden_states(x.to("xpu"), None, rows, None, local.int().to("xpu"), counts, places, ids.to("xpu"), 5, 3)
    order = [i for e in (0, 2, 3) for i, v in enumerate(ids.flatten().tolist()) if v == e]
    assert torch.equal(rows[: len(order)].cpu(), x[[i // 2 for i in order]]) and (rows[len(order) :] == 7).all()
    assert counts.tolist() == [int((ids == e).sum()) for e in (0, 2, 3)]
    flat = [order.index(i) if i in order else -1 for i in range(12)]
    assert places.flatten().tolist() == flat
    out = torch.empty(6, 8, device="xpu")
    MOE.moe_gather(out, rows * 2, weights.to("xpu"), places, 3)
    share = (weights * (local[ids] >= 0)).sum(1, keepdim=True)
    near(out, 2 * x.double() * share, 1e-6)
    with pytest.raises(RuntimeError, match="expert_map requires topk_ids"):
        MOE.moe_sum(rows.view(6, 2, 8), out, None, local.int().to("xpu"))
    MOE.moe_sum(rows.view(6, 2, 8), out, ids.int().to("xpu"), local.int().to("xpu"))
    near(out, (rows.cpu().view(6, 2, 8) * (local[ids] >= 0).unsqueeze(-1)).double().sum(1), 1e-6)


def weights_of(kind: str, experts: int, n: int, k: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """A weight in a format, its scales, and what it stands for (experts, N, K)."""
    plain = torch.randn(experts, n, k)
    if kind == "plain":
        return plain.mT.contiguous(), None, plain
    if kind == "int4":
        q, scale = torch.randint(0, 256, (experts, n, k // 2)).to(torch.uint8), torch.rand(experts, n, k // 16) + 0.5
        values = torch.stack((q & 15, q >> 4), -1).flatten(-2).double() - 8
        return q, scale, values * scale.repeat_interleave(16, -1)
    if kind == "fp8":
        q, scale = plain.to(FP8).mT.contiguous(), torch.rand(experts) + 0.5
        return q, scale, q.float().mT * scale.view(-1, 1, 1)
    if kind == "mxfp8":
        q, scale = plain.to(FP8).mT.contiguous(), torch.randint(125, 130, (experts, k // 32, n)).to(torch.uint8)
        return q, scale, (q.float() * torch.exp2(scale.float() - 127).repeat_interleave(32, 1)).mT
    q, scale = (
        torch.randint(0, 256, (experts, n, k // 2)).to(torch.uint8),
        torch.randint(125, 130, (experts, n, k // 32)),
    )
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    values = table[torch.stack((q & 15, q >> 4), -1).flatten(-2).long()]
    return q, scale.to(torch.uint8), values * torch.exp2(scale.float() - 127).repeat_interleave(32, -1)


@pytest.mark.parametrize("kind", ["plain", "int4", "fp8", "mxfp8", "mxfp4"])
@pytest.mark.parametrize("parts", [1, 2])
def test_layer_of_experts(kind: str, parts: int) -> None:
    up, up_scale, up_plain = weights_of(kind, 4, 64, 32)
    down, down_scale, down_plain = weights_of(kind, 4, 32, 32)
    x, ids, shares = torch.randn(9, 32), torch.stack([torch.randperm(4)[:2] for _ in range(9)]), torch.rand(9, 2)
    bias = torch.randn(4, 64)
    count = 4 // parts
    total = torch.zeros(9, 32, dtype=torch.float64)
    for rank in range(parts):
        mine = slice(rank * count, (rank + 1) * count)
        on = [None if t is None else t[mine].to("xpu") for t in (up, up_scale, bias, down, down_scale)]
        if kind == "mxfp4":
            on[0], on[3] = (on[i].view(torch.float4_e2m1fn_x2) for i in (0, 3))  # type: ignore[union-attr]
        layer = moe.XpuFusedMoe(*on, None, 2, "silu", count, ep_rank=rank, ep_size=parts)  # type: ignore[arg-type]
        out = torch.empty(9, 32, device="xpu")
        layer.apply(out, x.to("xpu"), shares.to("xpu"), ids.to("xpu"))
        total += out.cpu()
        layer.apply(out[:0], x[:0].to("xpu"), shares[:0].to("xpu"), ids[:0].to("xpu"))
    expected = torch.zeros(9, 32, dtype=torch.float64)
    for i in range(9):
        for j in range(2):
            e = int(ids[i, j])
            gate, value = (up_plain[e].double() @ x[i].double() + bias[e]).chunk(2)
            expected[i] += shares[i, j] * (down_plain[e].double() @ (functional.silu(gate) * value))
    near(total, expected, 2e-5)


def test_layer_of_experts_says_what_is_wrong() -> None:
    w = torch.randn(2, 8, 16, device="xpu")
    with pytest.raises(ValueError, match="unknown activation 'tanh'"):
        moe.XpuFusedMoe(w, None, None, w, None, None, 1, "tanh", 2)
    with pytest.raises(ValueError, match="activation_situ_beta"):
        moe.XpuFusedMoe(w, None, None, w, None, None, 1, "situ", 2)
    layer = moe.XpuFusedMoe(w, None, None, w.mT.contiguous(), None, None, 1, "silu", 2)
    with pytest.raises(RuntimeError, match="expected weights"):
        layer.apply(
            *(torch.zeros(3, 9, device="xpu") for _ in range(2)),
            torch.ones(3, 1, device="xpu"),
            torch.zeros(3, 1, device="xpu").int(),
        )


# ---- products with few bits


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("rows", [1, 33])
@pytest.mark.parametrize("group", [32, 8])
def test_four_bits(zeros: bool, ordered: bool, rows: int, group: int) -> None:
    q = torch.randint(0, 16, (64, 24))
    utils = GPTQUtils(4, group)
    packed = utils.pack(q)
    assert torch.equal(utils.unpack_weight(packed).flatten(0, 1).int(), q.int())
    scale = torch.rand(64 // group, 24) + 0.5
    zero = AWQUtils.pack(torch.randint(0, 16, (64 // group, 24))) if zeros else None
    index = torch.randperm(64) // group if ordered else None
    plain = dequantize(packed, scale.double(), zero, group, index)
    order = None
    if index is not None:
        packed, order = utils.shuffle(packed, index)
    x, bias = torch.randn(rows, 64), torch.randn(24)
    weight = packed.t().contiguous().to("xpu").t()
    given = (zero if zero is not None else torch.tensor([8], dtype=torch.int8)).to("xpu")
    on = None if order is None else order.to("xpu")
    y = XPU.int4_gemm_w4a16(x.to("xpu"), weight, bias.to("xpu"), scale.to("xpu"), given, group, on)
    near(y, x.double() @ plain + bias, 1e-5)
    rounded, row_scale, row_zero = (
        torch.randint(0, 256, (rows, 64)).to(torch.uint8),
        torch.rand(rows, 1),
        torch.full((rows, 1), 120),
    )
    y = XPU.int4_gemm_w4a8(
        *(t.to("xpu") for t in (rounded, row_scale, row_zero)), weight, scale.to("xpu"), given, group, on, None
    )
    near(y, (rounded.double() - 120) * row_scale.double() @ plain, 1e-5)
    with pytest.raises(RuntimeError, match="expected 64 columns"):
        XPU.int4_gemm_w4a16(x[:, :32].to("xpu"), weight, None, scale.to("xpu"), given, group, None)


def test_orders_of_awq() -> None:
    q = torch.randint(0, 16, (16, 24))
    awq = AWQUtils.pack(AWQUtils.apply_order(q))
    weight, zeros = AWQUtils.repack(awq, awq)
    assert torch.equal(weight, GPTQUtils().pack(q)) and torch.equal(AWQUtils.unpack(zeros).int(), q.int())


@pytest.mark.parametrize("scales", ["one", "rows", "blocks", "exponents"])
def test_eight_bits(scales: str) -> None:
    a, b = torch.randn(5, 128).to(FP8), torch.randn(128, 64).to(FP8)
    a_scale, b_scale = {
        "one": (torch.tensor(0.5), torch.tensor(2.0)),
        "rows": (torch.rand(5, 1), torch.rand(64, 1)),
        "blocks": (torch.rand(5, 4), torch.rand(4, 2)),
        "exponents": (
            torch.full((5, 4), 0.5).to(torch.float8_e8m0fnu),
            torch.full((4, 64), 4.0).to(torch.float8_e8m0fnu),
        ),
    }[scales]
    first = a.double() * (
        a_scale.double() if a_scale.dim() < 2 else a_scale.double().repeat_interleave(128 // a_scale.size(1), 1)
    )
    wide = b_scale.double()
    if scales == "rows":
        wide = wide.t()
    elif wide.dim() == 2:
        wide = wide.repeat_interleave(128 // wide.size(0), 0).repeat_interleave(64 // wide.size(1), 1)
    second, bias = b.double() * wide, torch.randn(64)
    on = [t.to("xpu") for t in (a, b.t().contiguous())]
    y = XPU.fp8_gemm(on[0], on[1].t(), torch.float32, a_scale.to("xpu"), b_scale.to("xpu"), bias.to("xpu"))
    near(y, first @ second + bias, 1e-5)
    out = torch.empty(5, 64, device="xpu")
    assert XPU.fp8_gemm_out(out, on[0], on[1].t(), torch.float32, a_scale.to("xpu"), b_scale.to("xpu"), None) is out
    near(out, first @ second, 1e-5)
    x = torch.randn(2, 5, 128, dtype=torch.float16)
    y = XPU.fp8_gemm_w8a16(x.to("xpu"), on[1].t(), b_scale.to("xpu"), bias.to("xpu").half())
    near(y, x.double() @ second + bias.half(), 2e-3)
    with pytest.raises(RuntimeError, match="is no product"):
        XPU.fp8_gemm(on[0], on[1], torch.float32, None, None, None)


def test_floats_of_four_bits() -> None:
    x, w = torch.randn(5, 64), torch.randn(16, 64)
    (a, a_scale), (b, b_scale) = (moe_formats.quant_act_xpu(t.to("xpu"), "mxfp4") for t in (x, w))
    y = XPU.fp4_gemm(a, b.t(), a_scale, b_scale, torch.float32, None)
    near(
        y,
        (moe_formats.dequant_mxfp4(a, a_scale).double() @ moe_formats.dequant_mxfp4(b, b_scale).double().t()).cpu(),
        1e-5,
    )


# ---- adapters and sampling


@pytest.mark.parametrize("tokens", [2, 20])
def test_adapters(tokens: int) -> None:
    x, index = torch.randn(tokens, 24), torch.randint(-1, 3, (tokens,))
    down, up = [torch.randn(3, 1, 4, 24) for _ in range(2)], [torch.randn(3, 1, n, 4) for n in (10, 6)]
    mid = torch.zeros(2, tokens, 4, device="xpu")
    XPU.lora_shrink(x.to("xpu"), [w.to("xpu") for w in down], mid, index.to("xpu"), 0.5)
    out = torch.randn(tokens, 20)
    expected = out.double()
    for i, (d, u) in enumerate(zip(down, up, strict=True)):
        for t in range(tokens):
            if (a := int(index[t])) >= 0:
                low = d[a, 0].double() @ x[t].double() * 0.5
                near(mid[i, t], low, 1e-5)
                expected[t, 2 + i * 10 : 2 + i * 10 + u.size(2)] += u[a, 0].double() @ low
            else:
                assert not mid[i, t].any()
    on = out.to("xpu")
    XPU.lora_expand(mid, [w.to("xpu") for w in up], on, index.to("xpu"), 2, True)
    near(on, expected, 1e-5)
    with pytest.raises(RuntimeError, match="do not fit"):
        XPU.bgmv_expand_slice(on, mid[0], up[0].to("xpu"), index.to("xpu"), 15, 10, True)


@pytest.mark.parametrize(("k", "p"), [(None, None), (5, None), (None, 0.6), (5, 0.6)])
def test_sampler(k: int | None, p: float | None) -> None:
    logits = torch.randn(4, 50) * 3
    keep = torch.ones(4, 50, dtype=torch.bool)
    if k is not None:
        keep &= logits >= logits.topk(k).values[:, -1:]
    if p is not None:
        shares, order = logits.masked_fill(~keep, float("-inf")).softmax(-1).sort(descending=True)
        keep &= torch.zeros_like(keep).scatter_(1, order, shares.cumsum(-1) - shares < p)
    seen = torch.zeros(4, 50, dtype=torch.bool)
    rest = torch.full((4,), k).to("xpu") if k else None, torch.full((4,), p).to("xpu") if p else None
    for seed in range(200):
        out, returned = torch.empty(4, dtype=torch.int64, device="xpu"), torch.empty(4, 50, device="xpu")
        XPU.topk_topp_sampler(out, returned, logits.to("xpu"), *rest, "processed_logits", torch.tensor([seed, 0]), 1.0)
        seen[torch.arange(4), out.cpu()] = True
    assert torch.equal(~torch.isinf(returned.cpu()), keep)
    assert not (seen & ~keep).any() and seen.sum() >= min(int(keep.sum()), 12)
    again = torch.empty_like(out)
    XPU.topk_topp_sampler(again, None, logits.to("xpu"), *rest, "raw_logits", torch.tensor([199, 0]), 1.0)
    assert torch.equal(again, out)


def test_best_of_rows() -> None:
    logits, begins, ends = torch.randn(4, 30), torch.tensor([0, 3, 5, 10]), torch.tensor([30, 6, 25, 10])
    out = torch.empty(4, 8, dtype=torch.int32, device="xpu")
    C.top_k_per_row_prefill(logits.to("xpu"), begins.int().to("xpu"), ends.int().to("xpu"), out, 4, 30, 1, 8)
    for i in range(4):
        part = logits[i, begins[i] : ends[i]]
        best = part.topk(min(8, len(part))).indices.tolist()
        assert out[i].tolist() == best + [-1] * (8 - len(best))


# ---- recurrent layers, streams


def states_by_steps(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    outs = []
    for t in range(q.size(0)):
        state = state * g[t, :, None, None]
        delta = (v[t] - torch.einsum("hvk,hk->hv", state, k[t])) * beta[t, :, None]
        state = state + torch.einsum("hv,hk->hvk", delta, k[t])
        outs.append(torch.einsum("hvk,hk->hv", state, q[t]))
    return torch.stack(outs), state


def test_gated_delta_rule() -> None:
    """Prompts longer than a piece and single tokens, with and without a state, against the recurrence step by step."""
    lengths = [1, 150, 1, 70]
    total, keys, values, size = sum(lengths), 2, 4, 8
    q, k, v = torch.randn(total, keys, size), torch.randn(total, keys, size), torch.randn(total, values, size)
    b, a, a_log, dt = torch.randn(total, values), torch.randn(total, values), torch.randn(values), torch.randn(values)
    states, slots = torch.randn(6, values, size, size), torch.tensor([4, 1, 0, 5])
    known = torch.tensor([True, False, True, True])
    begins = torch.tensor([0, *lengths]).cumsum(0)
    out, on = torch.empty(total, values, size, device="xpu"), states.to("xpu")
    XPU.gated_delta_rule_non_spec(
        out, *(t.to("xpu") for t in (q, k, v, b, a)), values, size, a_log.to("xpu"), dt.to("xpu"), on, 2, 2, 0,
        known.to("xpu"), begins.int().to("xpu"), None, slots.int().to("xpu"), total, 1,
    )  # fmt: skip
    unit = [functional.normalize(t.double(), dim=-1).repeat_interleave(2, 1) for t in (q, k)]
    beta, g = b.double().sigmoid(), torch.exp(-a_log.double().exp() * functional.softplus(a.double() + dt))
    for i in range(4):
        mine = slice(int(begins[i]), int(begins[i + 1]))
        start = states[slots[i]].double() if known[i] else torch.zeros(values, size, size, dtype=torch.float64)
        y, last = states_by_steps(
            unit[0][mine] * size**-0.5, unit[1][mine], v[mine].double(), beta[mine], g[mine], start
        )
        near(out[mine], y, 1e-4)
        near(on[slots[i]], last, 1e-4)
    assert torch.equal(on[[2, 3]].cpu(), states[[2, 3]])


def test_convolution_before_it() -> None:
    lengths, slots = [5, 1, 2], torch.tensor([2, 0, 3])
    qkvz, ba = torch.randn(8, 2 * 8 + 2 * 2 * 4), torch.randn(8, 4)
    weights, bias = torch.randn(24, 4), torch.randn(24)
    states, z = torch.randn(4, 3, 24), torch.empty(8, 2, 4, device="xpu")
    begins = torch.tensor([0, *lengths]).cumsum(0)
    on = states.to("xpu")
    q, k, v, b, a = XPU.causal_conv1d_non_spec(
        z, qkvz.to("xpu"), ba.to("xpu"), 2, 2, 4, 4, on, weights.to("xpu"), bias.to("xpu"), "silu", 2, 1, 0, None,
        begins.int().to("xpu"), None, slots.int().to("xpu"), 8, 1, True,
    )  # fmt: skip
    mixed = qkvz[:, :24]
    for i in range(3):
        window = torch.cat((states[slots[i]], mixed[begins[i] : begins[i + 1]])).double()
        y = functional.silu(functional.conv1d(window.t()[None], weights.double()[:, None], bias.double(), groups=24))[
            0
        ].t()
        near(torch.cat([t.flatten(1) for t in (q, k, v)], 1)[begins[i] : begins[i + 1]], y, 1e-5)
        near(on[slots[i]], window[-3:], 1e-6)
    assert torch.equal(z.flatten(1).cpu(), qkvz[:, 24:]) and torch.equal(torch.cat((b, a), 1).cpu(), ba)


def test_streams() -> None:
    streams, fn = torch.randn(3, 4, 16), torch.randn(24, 64)
    scale, base = torch.randn(3), torch.randn(24)
    post, comb, taken = XPU.mhc_pre(*(t.to("xpu") for t in (streams, fn, scale, base)), 1e-6, 1e-3, 1e-3, 2.0, 3)
    rows = streams.double().flatten(1)
    mixes = rows @ fn.double().t() / (rows.square().mean(1, keepdim=True) + 1e-6).sqrt()
    near(post.squeeze(-1), (mixes[:, 4:8] * scale[1] + base[4:8]).sigmoid() * 2, 1e-5)
    first = (mixes[:, :4] * scale[0] + base[:4]).sigmoid() + 1e-3
    near(taken, (first.unsqueeze(-1) * streams).sum(1), 1e-5)
    x = torch.randn(3, 16)
    after = XPU.mhc_post(x.to("xpu"), streams.to("xpu"), post, comb)
    near(
        after,
        torch.einsum("tij,tih->tjh", comb.cpu().double(), streams.double()) + post.cpu().double() * x[:, None],
        1e-5,
    )


def test_scores_of_sparse_attention() -> None:
    q, keys, weights = torch.randn(6, 4, 16).to(FP8), torch.randn(20, 16).to(FP8), torch.randn(6, 4)
    scale, begins, ends = torch.rand(20) + 0.5, torch.tensor([0, 0, 2, 3, 4, 5]), torch.tensor([20, 5, 9, 3, 20, 6])
    out = XPU.fp8_mqa_logits(*(t.to("xpu") for t in (q, keys, scale, weights, begins.int(), ends.int())))
    full = (torch.einsum("qhd,kd->qhk", q.double(), keys.double()).relu() * weights.double().unsqueeze(-1)).sum(
        1
    ) * scale
    at = torch.arange(20)
    seen = (at >= begins[:, None]) & (at < ends[:, None])
    assert torch.equal(~torch.isinf(out.cpu()), seen)
    near(out.cpu().masked_fill(~seen, 0), full.masked_fill(~seen, 0), 1e-5)


def test_memory() -> None:
    x = torch.randn(4, 6)
    on = x.to("xpu")
    weak = C.weak_ref_tensor(on.t())
    assert weak.data_ptr() == on.data_ptr() and torch.equal(weak.cpu(), x.t())
    to = torch.zeros(4, 6)
    C.xpu_memcpy_sync(to.data_ptr(), on.data_ptr(), 96, 1)
    assert torch.equal(to, x)
    with pytest.raises(RuntimeError, match="Unsupported memcpy kind"):
        C.xpu_memcpy_sync(to.data_ptr(), on.data_ptr(), 96, 5)
    free, total = CACHE.getMemoryInfo(0)
    assert 0 < free <= total
    pinned = torch.arange(12, dtype=torch.int32, pin_memory=True)
    if not _C.host_accessible(0):
        with pytest.raises(RuntimeError, match="does not work on host memory"):
            C.get_xpu_view_from_cpu_tensor(pinned)
        return
    view = C.get_xpu_view_from_cpu_tensor(pinned)
    pinned[3] = 77
    assert view.device.type == "xpu" and view.tolist() == pinned.tolist()
