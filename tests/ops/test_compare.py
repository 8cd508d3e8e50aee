"""The comparison that every other test trusts: what it must let pass, and what it must not."""

from __future__ import annotations

import pytest
import torch
from support.compare import assert_same, narrowed, reference, widen

INF = float("inf")


def half(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float16)


def wide(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_cpu_or_reference() -> None:
    """Each element may agree with either."""
    cpu = half(1.0, 2.0, 3.0)
    assert_same(half(1.0, 2.5, 3.0), cpu, reference=lambda: wide(1.5, 2.5, 3.0))
    with pytest.raises(AssertionError, match="1 of 3"):
        assert_same(half(1.0, 2.5, 3.5), cpu, reference=lambda: wide(1.5, 2.5, 3.0))
    with pytest.raises(AssertionError):
        assert_same(half(1.0, 2.5, 3.0), cpu)


def test_reference_is_lazy() -> None:
    def never() -> torch.Tensor:
        raise RuntimeError("not needed")

    assert_same(half(1.0, INF), half(1.0, INF), reference=never)


def test_overflow() -> None:
    """65504 is the largest half: beyond it infinity is right, at its edge either, below it neither."""
    assert_same(half(INF, -INF, INF), half(65504.0, -65504.0, 1.0), reference=lambda: wide(1e6, -65505.0, 65500.0))
    for bad in (half(-INF), half(INF)):
        with pytest.raises(AssertionError):
            assert_same(bad, half(1.0), reference=lambda: wide(6e4))
    with pytest.raises(AssertionError):
        assert_same(half(6e4), half(INF), reference=lambda: wide(1e6))


def test_nan_is_only_right_where_one_says_so() -> None:
    assert_same(half(float("nan")), half(1.0), reference=lambda: wide(float("nan")))
    with pytest.raises(AssertionError):
        assert_same(half(float("nan")), half(1.0), reference=lambda: wide(1.0), accumulates=True)


def test_accumulated_errors() -> None:
    """Twice the CPU's own error passes a sum, not an elementwise operator, and not a third time."""
    cpu, exact = half(100.0, 8.0), wide(100.0, 8.5)
    assert_same(half(100.9, 8.5), cpu, reference=lambda: exact, accumulates=True)
    with pytest.raises(AssertionError):
        assert_same(half(100.9, 8.5), cpu, reference=lambda: exact)
    with pytest.raises(AssertionError):
        assert_same(half(101.5, 8.5), cpu, reference=lambda: exact, accumulates=True)


def test_whole_numbers() -> None:
    assert_same(torch.tensor([3, 4]), torch.tensor([3, 5]), reference=lambda: torch.tensor([9, 4]))
    with pytest.raises(AssertionError):
        assert_same(torch.tensor([3, 6]), torch.tensor([3, 5]), reference=lambda: torch.tensor([9, 4]))


def test_structure_is_compared() -> None:
    for bad in (half(1.0).float(), half(1.0, 1.0), half(1.0).reshape(1, 1)):
        with pytest.raises(AssertionError):
            assert_same(bad, half(1.0), reference=lambda: wide(1.0))
    with pytest.raises(AssertionError, match="strides"):
        assert_same(torch.ones(2, 3).t(), torch.ones(3, 2), strides=True)


def test_reference_widens() -> None:
    """The call in double: tensors, dtype arguments and what integers promote to; mutation stays away from the inputs."""
    x = half(1.0, 3.0)
    assert reference(lambda t: t.add_(1), x).dtype == torch.float64 and x[0] == 1
    assert reference(torch.sum, x, dtype=torch.float16).dtype == torch.float64
    assert reference(torch.sqrt, torch.tensor([4])).dtype == torch.float64
    assert widen([x.bfloat16().requires_grad_()])[0].requires_grad
    assert torch.get_default_dtype() == torch.float32


def test_no_reference() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    assert reference(refuses, half(1.0)) is None
    with pytest.raises(AssertionError):
        assert_same(half(1.0), half(2.0), reference=lambda: reference(refuses, half(1.0)))


def test_narrowed() -> None:
    values, indices = narrowed((wide(1.0, 1e9), torch.tensor([1, 2])), torch.float16)
    assert values.dtype == torch.float16 and values[1] == INF and indices.dtype == torch.int64
