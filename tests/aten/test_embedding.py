"""Embedding lookups, bags and their gradients against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aten_data import data, ids, same

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_embedding(dtype: torch.dtype) -> None:
    same(lambda w, i: torch.embedding(w, i), data(50, 33, dtype=dtype), ids(50, 4, 9))
    same(lambda w, i: torch.embedding(w, i), data(33, 50, dtype=dtype).t(), ids(50, 9).int())
    same(lambda w, i: torch.embedding(w, i), data(50, 33, dtype=dtype), torch.tensor(3))
    same(lambda w, i: torch.embedding(w, i), data(50, 33, dtype=dtype), torch.empty(0, 3, dtype=torch.long))


@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_backward(padding: int, by_frequency: bool) -> None:
    for shape in ((300,), (20, 15), (0,)):
        i = ids(40, *shape)
        same(lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 40, padding, by_frequency), data(*shape, 33), i)
        same(
            lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 40, padding, by_frequency),
            data(*shape, 33),
            i.int(),
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_frequency_has_the_precision_of_the_gradient(dtype: torch.dtype) -> None:
    # A third is no number of any type: each type has its own.
    i = torch.tensor([4, 1, 1, 1, 2], device="xpu")
    got = torch.ops.aten.embedding_dense_backward(torch.eye(5, dtype=dtype, device="xpu"), i, 5, -1, True)
    assert torch.equal(got[1].cpu(), torch.tensor([0, 1, 1, 1, 0], dtype=dtype) / 3)
    offsets = torch.zeros(1, dtype=torch.long, device="xpu")
    weight = torch.ones(5, 5, dtype=dtype, device="xpu", requires_grad=True)
    F.embedding_bag(i, weight, offsets, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert weight.grad is not None
    want = torch.ops.aten.embedding_dense_backward(torch.ones(5, 5, dtype=dtype, device="xpu"), i, 5, -1, True)
    assert torch.equal(weight.grad, want)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_renorm(p: float) -> None:
    same(lambda w, i: torch.embedding_renorm_(w, i, 1.5, p), data(40, 17), ids(40, 30))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_renorm_of_complex_rows(p: float, dtype: torch.dtype) -> None:
    same(lambda w, i: torch.embedding_renorm_(w, i, 1.5, p), data(40, 17, dtype=dtype), ids(40, 30), tol=(1e-5, 1e-6))


def test_renorm_of_half_complex_rows() -> None:
    w = data(40, 17, dtype=torch.complex64)
    got = torch.embedding_renorm_(w.to(torch.complex32).to("xpu"), ids(40, 30).to("xpu"), 1.5, 2.0).cpu()
    assert got.dtype == torch.complex32
    want = torch.embedding_renorm_(w, ids(40, 30), 1.5, 2.0)
    torch.testing.assert_close(got.to(torch.complex64), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bag(mode: str, padding: int | None) -> None:
    offsets = torch.tensor([0, 4, 4, 11, 20])

    def run(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor, last: bool, weights: Any) -> Any:
        w = w.clone().requires_grad_()
        out = F.embedding_bag(
            i, w, o, mode=mode, padding_idx=padding, include_last_offset=last, per_sample_weights=weights
        )
        (out * torch.arange(1.0, 1.0 + out.size(1), device=out.device)).sum().backward()
        return out, w.grad

    same(lambda w, i, o: run(w, i, o, False, None), data(40, 17), ids(40, 30), offsets)
    same(lambda w, i, o: run(w, i, o, True, None), data(40, 17), ids(40, 20), offsets)
    if mode == "sum":

        def weighted(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor, s: torch.Tensor) -> Any:
            s = s.clone().requires_grad_()
            return *run(w, i, o, False, s), s.grad

        same(weighted, data(40, 17), ids(40, 30), offsets, data(30))


def test_bag_2d_input() -> None:
    same(lambda w, i: F.embedding_bag(i, w, mode="mean"), data(40, 17), ids(40, 6, 5))
    same(lambda w, i: F.embedding_bag(i, w, mode="max"), data(40, 17), ids(40, 6, 5).int())


def test_deterministic() -> None:
    g, i = data(3000, 33).to("xpu"), ids(40, 3000).to("xpu")
    first = torch.ops.aten.embedding_dense_backward(g, i, 40, -1, False).cpu()
    for _ in range(20):
        assert torch.equal(first, torch.ops.aten.embedding_dense_backward(g, i, 40, -1, False).cpu())


@pytest.mark.parametrize(
    "call",
    [
        lambda i, w: F.embedding(i, w),
        lambda i, w: F.embedding_bag(i, w),
        lambda i, w: torch.embedding_renorm_(w, i, 1.0, 2.0),
        lambda i, w: torch.ops.aten.embedding_dense_backward(w, i, 3, -1, False),
    ],
)
def test_errors_name_the_argument(call: Any) -> None:
    """The number counts as at::embedding counts its arguments, which is not the order of the schema."""
    texts = []
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="argument #") as error:
            call(torch.zeros(1, 3, device=device), torch.zeros(1, 3, device=device))
        texts.append(str(error.value).partition(";")[0])
    assert texts[0] == texts[1]
