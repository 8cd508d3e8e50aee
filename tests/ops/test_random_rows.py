"""Random rows: support, moments, seeds, layouts. Values are nobody's to predict; distributions at large stand in test_random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from support.drawing import KINDS, views
from support.manifest import TORCH_TYPES, overload, rows

import xpu_ops

aten = torch.ops.aten
EXAMPLES = min(8, settings.default.max_examples) if settings.default.derandomize else settings.default.max_examples
N = 20_000
FLOATS = ("f32", "bf16", "f16", "f64")
DISCRETE = (*FLOATS, "i64", "u8", "i32")


@dataclass(frozen=True)
class Law:
    """Call, range, and where they are finite mean and variance; `p` are drawn parameters."""

    call: Callable[..., Any]  # (x, p, out) -> result
    parameters: list[tuple[float, ...]]
    support: Callable[[torch.Tensor, tuple[float, ...]], torch.Tensor]  # elementwise, in double
    moments: Callable[[tuple[float, ...]], tuple[float, float]] | None
    types: tuple[str, ...] = FLOATS
    domain: tuple[float, float] = (0.5, 0.9)  # of x, where the call reads it


def into(name: str) -> Callable[..., Any]:
    """A call that fills x."""
    return lambda x, p: overload(name)(x, *p)


def anywhere(v: torch.Tensor, p: tuple[float, ...]) -> torch.Tensor:
    return torch.isfinite(v)


def between(low: float, high: float) -> Callable[..., torch.Tensor]:
    return lambda v, p: (v >= low) & (v <= high)


def whole(v: torch.Tensor) -> torch.Tensor:
    return v == v.round()


def log_normal(p: tuple[float, ...]) -> tuple[float, float]:
    mean, std = p
    return math.exp(mean + std**2 / 2), (math.exp(std**2) - 1) * math.exp(2 * mean + std**2)


def constant(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.full_like(x, value)


def drop(name: str) -> Callable[..., Any]:
    return lambda x, p: overload(name)(constant(x, 1), *p)[0]


DROPOUT = {
    "parameters": [(0.25,), (0.5,)],
    "support": lambda v, p: (v == 0) | ((v - 1 / (1 - p[0])).abs() < 0.02),
    "moments": lambda p: (1.0, p[0] / (1 - p[0])),
}
RRELU = Law(
    lambda x, p: None, [(0.1, 0.4)], lambda v, p: (v <= -p[0] + 0.01) & (v >= -p[1] - 0.01),
    lambda p: (-(p[0] + p[1]) / 2, (p[1] - p[0]) ** 2 / 12),
)  # fmt: skip


def rrelu(name: str) -> Law:
    def call(x: torch.Tensor, p: tuple[float, ...]) -> torch.Tensor:
        x = x.fill_(-1)
        extra = {"out": torch.empty_like(x)} if name.endswith("out") else {}
        return overload(name)(x, torch.empty_like(x), *p, True, **extra)

    return Law(call, RRELU.parameters, RRELU.support, RRELU.moments)


def normal(first: bool, second: bool, out: bool) -> Law:
    def call(x: torch.Tensor, p: tuple[float, ...]) -> torch.Tensor:
        mean, std = (constant(x, v) if t else v for v, t in zip(p, (first, second), strict=True))
        name = f"normal.{'Tensor' if first else 'float'}_{'Tensor' if second else 'float'}"
        return overload(name + "_out")(mean, std, out=x) if out else overload(name)(mean, std)

    return Law(call, [(0.0, 1.0), (-1.5, 2.0)], anywhere, lambda p: (p[0], p[1] ** 2))


def dropout_mask(x: torch.Tensor, p: tuple[float, ...]) -> torch.Tensor:
    seed = int(torch.randint(2**40, (), device=x.device))
    flat = torch.empty(1, 1, 1, x.numel(), device=x.device)
    return x.copy_(overload("_fill_mem_eff_dropout_mask_")(flat, *p, seed, 0).view(x.shape))


LAWS: dict[str, Law] = {
    "_fill_mem_eff_dropout_mask_": Law(dropout_mask, [(0.25,), (0.5,)], lambda v, p: (v == 0) | (v == 1),
                                       lambda p: (1 - p[0], p[0] * (1 - p[0])), ("f32",)),
    "uniform_": Law(into("uniform_"), [(0.0, 1.0), (-2.0, 3.0)], lambda v, p: (v >= p[0]) & (v <= p[1]),
                    lambda p: ((p[0] + p[1]) / 2, (p[1] - p[0]) ** 2 / 12)),
    "normal_": Law(into("normal_"), [(0.0, 1.0), (-1.5, 2.0)], anywhere, lambda p: (p[0], p[1] ** 2)),
    "normal.Tensor_float": normal(True, False, False),
    "normal.float_Tensor": normal(False, True, False),
    "normal.Tensor_Tensor": normal(True, True, False),
    "normal.Tensor_float_out": normal(True, False, True),
    "normal.float_Tensor_out": normal(False, True, True),
    "normal.Tensor_Tensor_out": normal(True, True, True),
    "exponential_": Law(into("exponential_"), [(1.0,), (2.5,)], lambda v, p: v >= 0, lambda p: (1 / p[0], p[0] ** -2)),
    "cauchy_": Law(into("cauchy_"), [(0.0, 1.0), (1.0, 0.5)], lambda v, p: ~v.isnan(), None),
    "log_normal_": Law(into("log_normal_"), [(0.0, 0.25), (0.5, 0.5)], lambda v, p: v > 0, log_normal),
    "geometric_": Law(into("geometric_"), [(0.3,), (0.8,)], lambda v, p: (v >= 1) & whole(v),
                      lambda p: (1 / p[0], (1 - p[0]) / p[0] ** 2), DISCRETE),
    "random_": Law(into("random_"), [()], lambda v, p: (v >= 0) & whole(v), None, DISCRETE),
    "random_.to": Law(into("random_.to"), [(7,), (100,)], lambda v, p: (v >= 0) & (v < p[0]) & whole(v),
                      lambda p: ((p[0] - 1) / 2, (p[0] ** 2 - 1) / 12), DISCRETE),
    "random_.from": Law(into("random_.from"), [(3, 9), (0, 50)], lambda v, p: (v >= p[0]) & (v < p[1]) & whole(v),
                        lambda p: ((p[0] + p[1] - 1) / 2, ((p[1] - p[0]) ** 2 - 1) / 12), DISCRETE),
    "bernoulli_.float": Law(into("bernoulli_.float"), [(0.3,), (0.9,)], lambda v, p: (v == 0) | (v == 1),
                            lambda p: (p[0], p[0] * (1 - p[0])), (*DISCRETE, "b8")),
    "bernoulli_.Tensor": Law(
        lambda x, p: aten.bernoulli_.Tensor(x, torch.full(x.shape, p[0], device=x.device)), [(0.3,), (0.9,)],
        lambda v, p: (v == 0) | (v == 1), lambda p: (p[0], p[0] * (1 - p[0])), (*DISCRETE, "b8")),
    "bernoulli.out": Law(
        lambda x, p: aten.bernoulli.out(torch.full(x.shape, p[0], device=x.device), out=x), [(0.3,), (0.9,)],
        lambda v, p: (v == 0) | (v == 1), lambda p: (p[0], p[0] * (1 - p[0]))),
    "native_dropout": Law(lambda x, p: aten.native_dropout(constant(x, 1), p[0], True)[0], **DROPOUT),
    "_fused_dropout": Law(lambda x, p: aten._fused_dropout(constant(x, 1), 1 - p[0])[0], **DROPOUT),
    "rrelu_with_noise": rrelu("rrelu_with_noise"),
    "rrelu_with_noise_": rrelu("rrelu_with_noise_"),
    "rrelu_with_noise.out": rrelu("rrelu_with_noise.out"),
    "poisson": Law(lambda x, p: aten.poisson(constant(x, p[0])), [(0.5,), (4.0,)], lambda v, p: (v >= 0) & whole(v),
                   lambda p: (p[0], p[0])),
    "binomial": Law(lambda x, p: aten.binomial(constant(x, p[0]), constant(x, p[1])), [(10, 0.25), (60, 0.5)],
                    lambda v, p: (v >= 0) & (v <= p[0]) & whole(v), lambda p: (p[0] * p[1], p[0] * p[1] * (1 - p[1]))),
    "_standard_gamma": Law(lambda x, p: aten._standard_gamma(constant(x, p[0])), [(0.5,), (3.0,)],
                           lambda v, p: v >= 0, lambda p: (p[0], p[0])),
    "_sample_dirichlet": Law(
        lambda x, p: aten._sample_dirichlet(constant(x, p[0]).unsqueeze(-1).expand(*x.shape, 2))[..., 0], [(1.0,), (2.0,)],
        between(0, 1), lambda p: (0.5, 0.25 / (2 * p[0] + 1))),
    "multinomial": Law(
        lambda x, p: aten.multinomial(torch.tensor([1.0, 3.0], device=x.device, dtype=x.dtype), max(1, x.numel()), True),
        [()], lambda v, p: (v == 0) | (v == 1), lambda p: (0.75, 0.1875), ("f32", "f64")),
    "multinomial.out": Law(
        lambda x, p: aten.multinomial.out(torch.tensor([1.0, 3.0], device=x.device, dtype=x.dtype), max(1, x.numel()),
                                          True, out=torch.empty(0, dtype=torch.int64, device=x.device)),
        [()], lambda v, p: (v == 0) | (v == 1), lambda p: (0.75, 0.1875), ("f32", "f64")),
    "randperm.generator_out": Law(
        lambda x, p: aten.randperm.generator_out(x.numel(), generator=None,
                                                 out=torch.empty(0, dtype=torch.int64, device=x.device)),
        [()], lambda v, p: v.flatten().sort().values == torch.arange(v.numel()), None, ("f32",)),
}  # fmt: skip
CASES = [pytest.param(n, t, id=f"{n}-{t}") for n, law in LAWS.items() for t in law.types]


@pytest.mark.parametrize(("name", "type_name"), CASES)
def test_draws(name: str, type_name: str) -> None:
    """Any shape and layout: support, type, storage, and the same again from the same seed."""
    law, dtype = LAWS[name], TORCH_TYPES[type_name]
    kinds = tuple(k for k in KINDS if k != "expanded")

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def run(data: Any) -> None:
        shape = data.draw(st.lists(st.integers(0, 6), max_size=5).map(tuple) | st.sampled_from([(1025,), (3, 700)]))
        x = data.draw(views(shape, dtype, (0.0, 1.0), kinds=kinds))
        p = data.draw(st.sampled_from(law.parameters))
        seed = data.draw(st.integers(0, 2**40))

        def make() -> tuple[torch.Tensor, torch.Tensor]:
            base = torch.empty_strided(x.shape, x.stride(), dtype=dtype, device="xpu").fill_(0)
            with xpu_ops.fallback.forbid():
                return base, law.call(base, p)

        torch.manual_seed(seed)
        (given_, first), (_, second) = make(), make()
        torch.manual_seed(seed)
        _, again = make()
        assert torch.equal(first, again)
        if first.numel() > 100:
            assert law.parameters == [()] or not torch.equal(first, second)
        if "randperm" not in name and "multinomial" not in name:
            assert first.shape == x.shape and first.dtype == dtype
        if name.partition(".")[0].endswith("_"):
            assert first.data_ptr() == given_.data_ptr() and first.stride() == x.stride()
        values = first.cpu().double()
        assert law.support(values, p).all(), values[~law.support(values, p)][:5]

    run()


@pytest.mark.parametrize(("name", "type_name"), [c for c in CASES if LAWS[c.values[0]].moments is not None])
def test_moments(name: str, type_name: str) -> None:
    """Mean and variance of many draws, within six standard errors and what the type rounds away."""
    law, dtype = LAWS[name], TORCH_TYPES[type_name]
    torch.manual_seed(20)
    for p in law.parameters:
        values = law.call(torch.zeros(N, dtype=dtype, device="xpu"), p).cpu().double()
        mean, variance = law.moments(p)  # type: ignore[misc]
        rounding = (torch.finfo(dtype).eps if dtype.is_floating_point else 0.0) * (abs(mean) + math.sqrt(variance))
        assert abs(values.mean().item() - mean) < 6 * math.sqrt(variance / N) + rounding
        fourth = ((values - mean) ** 4).mean().item()
        error = math.sqrt(max(fourth - variance**2, 0.0) / N)
        assert abs(values.var().item() - variance) < 6 * error + 8 * rounding * math.sqrt(variance) + 1e-3 * variance


def test_every_random_row_has_a_law() -> None:
    names = {n for r in rows() if not r["deterministic"] for n in r["overloads"]}
    assert names == set(LAWS)
