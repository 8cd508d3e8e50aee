"""The GPU's forms of jit's two operators, executed on whatever device there is: work-groups of several sub-groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from xpu_ops import jit
from xpu_ops.block.device import GPU


@pytest.fixture(autouse=True)
def policy_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(jit.tensors, "policy", lambda device: GPU)
    jit.tensors.plan.cache_clear()
    yield
    jit.tensors.plan.cache_clear()


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Items of the work-groups of the kernels that a test loads."""
    seen: list[int] = []
    load = jit.service.load

    def noted(source: str, kernels: list[jit.service.KernelSpec], device: int = -1) -> object:
        seen.extend(k.local for k in kernels)
        return load(source, kernels, device)

    monkeypatch.setattr(jit.service, "load", noted)
    return seen


@pytest.mark.parametrize(
    ("a", "b"), [((1,), (1,)), ((5, 7), (7,)), ((40, 1, 30), (5, 30)), ((70_000,), (70_000,)), ((3, 5000), (3, 1))]
)
def test_elements(a: tuple[int, ...], b: tuple[int, ...], launched: list[int]) -> None:
    add = jit.elementwise("scaled_sum", "float a, float b, float alpha = 1", "a + alpha * b")
    x, y = torch.randn(a, device="xpu"), torch.randn(b, device="xpu").half()
    torch.testing.assert_close(add(x, y, alpha=3.0), x + 3 * y.float())
    assert launched == [GPU.tile_items]


def test_transposed_elements() -> None:
    twice = jit.elementwise("twice", "T a", "a + a")
    x = torch.randint(-9, 9, (70, 90), device="xpu").t()[::2]
    assert torch.equal(twice(x), x + x)


@pytest.mark.parametrize(
    ("shape", "dim", "local"),
    [
        ((1, 1), 1, 128),
        ((9, 5), 1, 128),
        ((1000, 100), 1, 128),
        ((100, 33), 0, 128),
        ((3, 1024), 1, 256),
        ((5, 4099), 1, 256),
        ((2, 40, 60), (0, 2), 128),
        ((0, 5), 1, None),
    ],
)
def test_rows(shape: tuple[int, ...], dim: int | tuple[int, ...], local: int | None, launched: list[int]) -> None:
    norm = jit.reduction("norm", "float a", "a * a", finish="sycl::sqrt(x)")
    x = torch.randn(shape, device="xpu")
    torch.testing.assert_close(norm(x, dim=dim), x.square().sum(dim).sqrt())
    assert launched == ([] if local is None else [local])


def test_a_row_in_parts(launched: list[int]) -> None:
    largest = jit.reduction("largest", "T a", "a", combine="xpu::maximum(a, b)", identity="-xpu::inf<T>()")
    x = torch.randn(1 << 17, device="xpu")
    assert largest(x) == x.amax() and launched == [GPU.team_items, GPU.row_items]
    x[77_777] = float("nan")
    assert largest(x).isnan()


def test_integers_and_booleans() -> None:
    total, some = (
        jit.reduction("total", "T a", "a"),
        jit.reduction("some", "T a", "a", combine="a || b", identity="false"),
    )
    x = torch.randint(-100, 100, (7, 3000), device="xpu")
    assert torch.equal(total(x, dim=1), x.sum(1)) and torch.equal(some(x > 98, dim=1), (x > 98).any(1))
