"""associative_scan in compiled graphs, against the loop that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.utils._pytree import tree_map

Tensors = tuple[torch.Tensor, ...]


def step(combine: Callable[..., Any], xs: Any, dim: int, reverse: bool = False) -> Any:
    """One value after the other, on the CPU in double where the values are floats."""
    xs = tree_map(lambda x: x.cpu().double() if x.is_floating_point() else x.cpu(), xs)
    n = xs[0].shape[dim] if isinstance(xs, tuple) else xs.shape[dim]
    order = range(n - 1, -1, -1) if reverse else range(n)
    results: dict[int, Any] = {}
    so_far = None
    for i in order:
        here = tree_map(lambda x, i=i: x.select(dim, i), xs)
        so_far = here if so_far is None else combine(so_far, here)
        results[i] = so_far
    return tree_map(lambda *each: torch.stack(each, dim), *(results[i] for i in range(n)))


def linear(a: Tensors, b: Tensors) -> Tensors:
    """The recurrence h = decay * h + input, as in state space models."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def last(a: Tensors, b: Tensors) -> Tensors:
    """Neither commutes nor sums: the last value that is marked, and how many are."""
    return torch.where(b[0] > 0, b[0], a[0]), a[1] + b[1]


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="xpu")


SCANS: dict[str, tuple[Callable[..., Any], Callable[[], Any], int]] = {
    "sum of rows": (torch.add, lambda: rand(5, 1003), 1),
    "sum of columns": (torch.add, lambda: rand(57, 130), 0),
    "sum within": (torch.add, lambda: rand(3, 40, 18), 1),
    "sum of many short rows": (torch.add, lambda: rand(2000, 7), 1),
    "sum of a transpose": (torch.add, lambda: rand(45, 70).t(), 1),
    "sum of one row": (torch.add, lambda: rand(10007), 0),
    "recurrence of rows": (linear, lambda: (rand(4, 100), rand(4, 100)), 1),
    "recurrence of columns": (linear, lambda: (rand(2, 33, 48), rand(2, 33, 48)), 1),
    "last of rows": (last, lambda: (rand(6, 77) - 0.8, torch.ones(6, 77, dtype=torch.int64, device="xpu")), 1),
    "last of columns": (last, lambda: (rand(77, 36) - 0.8, torch.ones(77, 36, dtype=torch.int32, device="xpu")), 0),
    "largest integer": (torch.maximum, lambda: torch.randint(-99, 99, (9, 50), device="xpu"), 1),
    "any": (torch.logical_or, lambda: rand(9, 50) > 0.9, 1),
}


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("name", SCANS)
def test_scan(name: str, reverse: bool, dynamic: bool | None) -> None:
    combine, make, dim = SCANS[name]
    xs = make()
    compiled = torch.compile(lambda xs: associative_scan(combine, xs, dim, reverse), dynamic=dynamic, fullgraph=True)
    expected = step(combine, xs, dim, reverse)
    torch.testing.assert_close(
        tree_map(torch.Tensor.cpu, compiled(xs)), expected, check_dtype=False, rtol=1e-4, atol=1e-4
    )


def test_between_other_work(kernels: Callable[[], int]) -> None:
    """The operators before and after, a reduction of the results too, are in the same kernel."""
    x, w = rand(20, 300), rand(300)

    def f(x: torch.Tensor, w: torch.Tensor) -> Tensors:
        y = associative_scan(torch.add, x * w, 1)
        return y / (1 + w), y.sum(1), y.argmin(1)

    got = torch.compile(f, fullgraph=True)(x, w)
    y = (x * w).cpu().double().cumsum(1)
    expected = y / (1 + w.cpu()), y.sum(1), y.argmin(1)
    torch.testing.assert_close([t.cpu() for t in got], list(expected), check_dtype=False, rtol=1e-4, atol=1e-4)
    assert kernels() == 1


def test_small_floats() -> None:
    """Values stay float within the kernel."""
    x = rand(8, 600).to(torch.bfloat16)
    got = torch.compile(lambda x: associative_scan(torch.add, x, 1))(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.cpu().double(), x.cpu().double().cumsum(1), rtol=1e-2, atol=1e-2)


def test_sizes_without_recompilation(kernels: Callable[[], int]) -> None:
    compiled = torch.compile(lambda x: associative_scan(torch.add, x, 1), dynamic=True)
    for n in (40, 7, 129, 1000):
        x = rand(3, n)
        torch.testing.assert_close(compiled(x), x.cumsum(1), rtol=1e-4, atol=1e-4)
    assert kernels() == 1


def turned(a: Tensors, b: Tensors) -> Tensors:
    """The product of complex numbers: each part hangs on both."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


TRAINED: dict[str, tuple[Callable[..., Any], int]] = {
    "product": (lambda a, b: (a[0] * b[0],), 1),
    "recurrence": (linear, 2),
    "complex product": (turned, 2),
}


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("length", [1, 2, 30])
@pytest.mark.parametrize("name", TRAINED)
def test_training(name: str, length: int, backend: str) -> None:
    """The gradient is a scan, too; upstream's takes the values of a tuple for independent of each other."""
    combine, n = TRAINED[name]
    xs = tuple(torch.rand(2, length, 8, device="xpu") for _ in range(n))

    def gradients(scan: Callable[..., Any]) -> Tensors:
        leaves = tuple(x.clone().requires_grad_() for x in xs)
        return torch.autograd.grad(sum((i + 1) * y.square().sum() for i, y in enumerate(scan(leaves))), leaves)

    compiled = torch.compile(lambda xs: associative_scan(combine, xs, 1), backend=backend, fullgraph=True)
    expected = gradients(lambda xs: step(combine, xs, 1))
    torch.testing.assert_close(gradients(compiled), expected, rtol=1e-3, atol=1e-4)


def test_scans_of_aten_stay_operators(kernels: Callable[[], int]) -> None:
    x = rand(20, 50)
    torch.testing.assert_close(torch.compile(lambda x: x.cumsum(1))(x), x.cumsum(1))
    assert kernels() == 0
