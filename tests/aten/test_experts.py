"""Layers of experts (`xpu_ops::_choose_experts` and its kin) against plain references, and their compositions on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

ops = torch.ops.xpu_ops
TYPES = [torch.float32, torch.bfloat16, torch.float16]
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def on(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.to("xpu")


def room(tokens: int, count: int, kind: torch.dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.full((tokens, count), -5, dtype=kind, device=device)
    return torch.full((tokens, count), -5.0, device=device), ids, torch.full_like(ids, -5, dtype=torch.int32)


def best(biased: list[float], count: int) -> list[int]:
    """Of equals the first; NaN is the largest."""
    return sorted(
        range(len(biased)), key=lambda i: (biased[i] == biased[i], -biased[i] if biased[i] == biased[i] else 0, i)
    )[:count]


def scored(scores: Tensor, scoring: str) -> Tensor:
    if scoring == "softmax":
        return scores.float().softmax(-1)
    if scoring == "sigmoid":
        return scores.sigmoid().float()
    return functional.softplus(scores.float()).sqrt() if scoring == "softplus_sqrt" else scores.float()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid", "softplus_sqrt", "none"])
@pytest.mark.parametrize(
    "shape", [(1, 8, 2), (3, 1, 1), (5, 60, 4), (16, 256, 8), (2, 1024, 64), (33, 17, 17)], ids=str
)
def test_best_experts(shape: tuple[int, int, int], scoring: str, dtype: torch.dtype) -> None:
    tokens, experts, count = shape
    # Steps of 1/4 are far apart for every type, and many are equal.
    scores = (torch.randint(-12, 12, (tokens, experts)) / 4).to(dtype)
    bias = torch.randint(-3, 3, (experts,)) / 2.0
    padding = torch.arange(tokens) % 3 == 1
    for renormalize, factor, extra, skip in (
        (True, 1.0, None, None),
        (False, 2.5, None, padding),
        (True, 2.5, bias, None),
    ):
        kind = torch.int64 if factor == 1.0 else torch.int32
        weights, ids, sources = room(tokens, count, kind, "xpu")
        ops._choose_experts(weights, ids, sources, on(scores), scoring, renormalize, on(extra), factor, on(skip))
        plain = scored(scores, scoring)
        got = ids.cpu().long()
        for t in range(tokens):
            if skip is not None and skip[t]:
                assert (got[t] == -1).all() and not weights[t].any()
                continue
            assert len(set(got[t].tolist())) == count
            if extra is None:
                assert got[t].tolist() == best(scores[t].tolist(), count)
            else:
                mine = plain[t].double() + extra.double()
                torch.testing.assert_close(mine[got[t]], mine.sort(descending=True).values[:count], rtol=0, atol=1e-5)
            share = plain[t, got[t]].double()
            if renormalize:
                total = share.sum()
                share = share / (total if total > 0 else 1.0)
            tolerance = 1e-5 if dtype == torch.float32 or scoring in ("softmax", "none", "softplus_sqrt") else 1e-2
            torch.testing.assert_close(weights[t].cpu().double(), share * factor, rtol=tolerance, atol=1e-6)
        assert sources.cpu().tolist() == torch.arange(tokens * count).view(count, tokens).t().tolist()
        cpu = room(tokens, count, kind, "cpu")
        ops._choose_experts(*cpu, scores, scoring, renormalize, extra, factor, skip)
        torch.testing.assert_close(cpu[0], weights.cpu(), rtol=1e-2, atol=1e-6)
        assert torch.equal(cpu[2], sources.cpu())


def test_scores_that_are_no_numbers() -> None:
    scores = torch.tensor(
        [[1.0, NAN, 3.0, 2.0], [-INF, -INF, -INF, -INF], [-0.0, 0.0, -INF, INF], [-200.0, -300.0, 0, 100]]
    )
    for scoring, expected in (
        ("none", [[1, 2], [0, 1], [3, 0], [3, 2]]),
        ("sigmoid", [[1, 2], [0, 1], [3, 0], [3, 2]]),
    ):
        weights, ids, sources = room(4, 2, torch.int32, "xpu")
        ops._choose_experts(weights, ids, sources[:0], on(scores), scoring, False)
        assert ids.tolist() == expected
        assert weights[0, 0].isnan() and (sources == -5).all()
        torch.testing.assert_close(weights.cpu(), scored(scores, scoring).gather(1, ids.cpu().long()), equal_nan=True)
    weights, ids, sources = room(1, 2, torch.int32, "xpu")
    ops._choose_experts(weights, ids, sources, on(scores[2:3]), "softmax", True)
    assert weights.isnan().all()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_groups_of_experts(biased: bool, dtype: torch.dtype) -> None:
    for tokens, experts, groups, kept, count in (
        (1, 16, 4, 2, 3),
        (4, 16, 1, 1, 4),
        (9, 64, 8, 3, 8),
        (16, 256, 8, 4, 8),
        (3, 6, 6, 2, 2),
    ):
        scores = (torch.randint(-12, 12, (tokens, experts)) / 4).to(dtype)
        bias = (torch.randint(-4, 4, (experts,)) / 4).to(dtype) if biased else None
        weights, ids, _ = room(tokens, count, torch.int32, "xpu")
        none = ids.new_empty(0)
        ops._choose_experts(weights, ids, none, on(scores), "none", True, on(bias), 1.5, None, groups, kept)
        for t in range(tokens):
            mine = (scores[t] if bias is None else scores[t] + bias).float()
            sums = mine.view(groups, -1).sort(descending=True).values[:, :2].sum(-1).to(dtype).tolist()
            there = set(best(sums, kept))
            size = experts // groups
            held = [float(v) if i // size in there else -INF for i, v in enumerate(mine)]
            chosen = best(held, count)
            assert ids[t].tolist() == chosen
            share = scores[t, chosen].float()
            torch.testing.assert_close(weights[t].cpu(), share * (1.5 / (share.sum() + 1e-20)), rtol=1e-5, atol=1e-5)
        cpu = room(tokens, count, torch.int32, "cpu")
        ops._choose_experts(cpu[0], cpu[1], cpu[2][:0], scores, "none", True, bias, 1.5, None, groups, kept)
        torch.testing.assert_close(cpu[0].sort().values, weights.cpu().sort().values, rtol=1e-4, atol=1e-4)
    dead = torch.full((2, 8), -INF)
    weights, ids, _ = room(2, 2, torch.int32, "xpu")
    ops._choose_experts(weights, ids, ids.new_empty(0), on(dead), "none", True, None, 1.5, None, 4, 2)
    assert ids.tolist() == [[0, 1]] * 2 and weights.tolist() == [[0.5, 0.5]] * 2


def test_choices_say_what_is_wrong() -> None:
    weights, ids, sources = room(2, 3, torch.int32, "xpu")
    scores = torch.zeros(2, 8, device="xpu")
    call = ops._choose_experts
    for bad, text in (
        (lambda: call(weights, ids, sources, scores[:, :2], "softmax", True), "more than the 2 there are"),
        (lambda: call(weights, ids, sources, scores[:1], "softmax", True), "expected scores of 2 tokens"),
        (lambda: call(weights, ids[:1], sources, scores, "softmax", True), "as many experts as weights"),
        (lambda: call(weights, ids, sources, scores, "softmax", True, scores[0, :5]), "bias of 8"),
        (lambda: call(weights, ids, sources, scores, "softmax", True, None, 1.0, scores[:, 0]), "bool for each"),
        (lambda: call(weights, ids, sources, scores, "none", True, None, 1.0, None, 3, 1), "do not divide"),
        (lambda: call(weights, ids, sources, scores, "none", True, None, 1.0, None, 4, 5), "1 to 4 groups"),
    ):
        with pytest.raises(RuntimeError, match=text):
            bad()
    with pytest.raises(ValueError, match="softplus_sqrt or none"):
        call(weights, ids, sources, scores, "tanh", True)
    assert (weights == -5).all() and weights._version == 0
    call(weights[:0], ids[:0], sources[:0], scores[:0], "softmax", True)
    call(weights, ids, sources, scores, "softmax", True)
    assert weights._version == ids._version == sources._version == 2


def aligned(ids: list[int], local: list[int], block: int) -> tuple[list[int], list[int]]:
    order, blocks = [], []
    for e, name in enumerate(local):
        mine = [i for i, x in enumerate(ids) if x == e and name >= 0]
        count = -(-len(mine) // block)
        order += mine + [len(ids)] * (count * block - len(mine))
        blocks += [name] * count
    return order, blocks


@pytest.mark.parametrize("kind", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize(
    "shape", [(0, 2, 4, 8), (1, 2, 8, 16), (16, 8, 128, 4), (300, 4, 60, 32), (3, 2, 1024, 1)], ids=str
)
def test_blocks(shape: tuple[int, int, int, int], kind: torch.dtype) -> None:
    tokens, count, experts, block = shape
    ids = torch.randint(-1, experts + 1, (tokens, count), dtype=kind)
    local = torch.where(torch.rand(experts) < 0.3, -1, torch.arange(experts)).int()
    for names in (None, local):
        order, blocks = aligned(
            ids.flatten().tolist(), list(range(experts)) if names is None else names.tolist(), block
        )
        for size in (len(order) + 7, max(len(order) - 3, 0)):
            results = []
            for device in ("xpu", "cpu"):
                places, owner = (
                    torch.full((n,), -5, dtype=torch.int32, device=device) for n in (size, len(blocks) + 2)
                )
                total = torch.full((1,), -5, dtype=torch.int32, device=device)
                map_ = None if names is None else names.to(device)
                ops._align_experts(places, owner, total, ids.to(device), experts, block, map_, -1)
                assert total.item() == len(order)
                assert places.tolist() == (order + [ids.numel()] * 7)[:size]
                assert owner.tolist() == [*blocks, -1, -1]
                results.append(owner)
    with pytest.raises(RuntimeError, match="above zero"):
        ops._align_experts(results[0], results[0], results[0][:1], on(ids), experts, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8], ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 2, 8, 64), (5, 2, 3, 17), (16, 8, 128, 2048), (200, 4, 16, 1000), (0, 2, 4, 8)], ids=str
)
def test_rows_go_to_their_experts(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    tokens, count, experts, width = shape
    x, scales = (torch.randn(tokens, width) * 8).to(dtype), torch.rand(tokens, 3)
    ids = torch.randint(0, experts, (tokens, count))
    local = torch.where(torch.rand(experts) < 0.4, -1, torch.arange(experts).flip(0)).int()
    for names in (None, local, local[:0]):
        here = ids if names is None else torch.full_like(ids, -1) if not len(names) else names.long()[ids]
        order = [i for e in range(experts) for i, v in enumerate(here.flatten().tolist()) if v == e]
        for kind, device in ((torch.int32, "xpu"), (torch.int64, "xpu"), (torch.int64, "cpu")):
            out, more = (
                torch.full((tokens * count, width), 7.0).to(dtype).to(device),
                torch.full((tokens * count, 3), 7.0, device=device),
            )
            counts = torch.full((experts,), -5, dtype=torch.int32, device=device)
            places = torch.full((tokens, count), -5, dtype=torch.int32, device=device)
            given = None if names is None else names.to(device)
            ops._spread_rows(out, more, counts, places, x.to(device), scales.to(device), ids.to(kind).to(device), given)
            source = torch.tensor([i // count for i in order], dtype=torch.int64)
            assert torch.equal(out.cpu().float()[: len(order)], x.float()[source])
            assert torch.equal(more.cpu()[: len(order)], scales[source])
            assert (out.float()[len(order) :] == 7).all() and (more[len(order) :] == 7).all()
            assert counts.tolist() == [int((here == e).sum()) for e in range(experts)]
            at = {choice: place for place, choice in enumerate(order)}
            assert places.flatten().tolist() == [at.get(i, -1) for i in range(tokens * count)]
    with pytest.raises(RuntimeError, match="expected room for"):
        ops._spread_rows(out[:, 1:], more, counts, places, x, None, ids)
    with pytest.raises(RuntimeError, match="places, got"):
        ops._spread_rows(out, more, counts, torch.zeros(1, 1, dtype=torch.int32), x, None, ids)


@pytest.mark.parametrize("dtype", [*TYPES, torch.float64], ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 2, 64), (3, 1, 1), (5, 8, 100), (16, 8, 2048), (40, 65, 33), (0, 2, 8), (2, 2, 0)], ids=str
)
def test_sums_of_experts(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    tokens, count, columns = shape
    rows, weights = torch.randn(tokens, count, columns).to(dtype), torch.rand(tokens, count)
    ids = torch.randint(-1, 6, (tokens, count))
    local = torch.tensor([0, -1, 2, 3, -1, 5], dtype=torch.int32)
    rows[ids < 0] = NAN  # what is left out has no part
    there = ids >= 0
    mapped = there & (local[ids.clamp(min=0)] >= 0)
    places = torch.randperm(tokens * count).view(tokens, count).int()
    moved = torch.empty(tokens * count, columns, dtype=dtype)
    moved[places.flatten().long()] = rows.flatten(0, 1)
    for arguments, mask, share in (
        ((rows, None, None, ids, None), there, None),
        ((rows, None, weights, ids.int(), local), mapped, weights),
        ((moved, torch.where(there, places, -1), weights, None, None), there, weights),
    ):
        expected = torch.where(mask.unsqueeze(-1), rows.double(), 0.0)
        expected = (expected if share is None else expected * share.double().unsqueeze(-1)).sum(1)
        for device in ("xpu", "cpu"):
            out = torch.full((tokens, columns), -5.0, dtype=dtype, device=device)
            ops._sum_experts(out, *(None if t is None else t.to(device) for t in arguments))
            step = {torch.bfloat16: 1e-2, torch.float16: 2e-3}.get(dtype, 1e-5)
            torch.testing.assert_close(out.cpu().double(), expected, rtol=step, atol=step)
    out = torch.empty(tokens, 2 * columns + 1, dtype=dtype, device="xpu")[:, columns:-1]
    ops._sum_experts(out, on(rows), None, None, on(ids))
    torch.testing.assert_close(
        out.cpu().double(), torch.where(there.unsqueeze(-1), rows.double(), 0.0).sum(1), rtol=step, atol=step
    )
    with pytest.raises(RuntimeError, match="expected rows for an output"):
        ops._sum_experts(out, on(moved))
    with pytest.raises(RuntimeError, match="a weight and an expert"):
        ops._sum_experts(out, on(rows), None, on(weights.t().reshape(count, tokens, 1)[:, :, 0].repeat(2, 1)))


@pytest.mark.parametrize("dtype", [*TYPES, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (16, 2880), (5, 64), (0, 4), (4, 0)], ids=str)
def test_gates_beside_what_they_multiply(shape: tuple[int, int], dtype: torch.dtype) -> None:
    rows, columns = shape
    x = (torch.randn(rows, 2 * columns) * 6).to(dtype)
    if x.numel() > 40:
        x.view(-1)[:6] = torch.tensor([NAN, 1.0, INF, -INF, -300.0, 2.0]).to(dtype)
        x.view(-1)[7] = NAN
    gate, up = x.double()[:, ::2].clamp(max=7), x.double()[:, 1::2].clamp(-7, 7)
    expected = torch.sigmoid(1.702 * gate) * gate * (up + 1)
    wide = torch.zeros(rows, 2 * columns + 3).to(dtype)
    wide[:, 2:-1] = x
    for given in (x.to("xpu"), wide.to("xpu")[:, 2:-1], x):
        out = torch.empty(shape, dtype=dtype, device=given.device)
        ops._swiglu_pairs(out, given, 1.702, 7.0)
        step = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}.get(dtype, 1e-12)
        torch.testing.assert_close(out.cpu().double(), expected, rtol=step, atol=step, equal_nan=True)
    with pytest.raises(RuntimeError, match="expected pairs"):
        ops._swiglu_pairs(torch.empty(rows, columns + 1, dtype=dtype, device="xpu"), on(x), 1.0, 7.0)
