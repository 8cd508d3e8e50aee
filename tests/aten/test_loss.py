"""Losses against torch's CPU kernels: values, gradients, reductions, weights, errors."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from aten_data import same

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOL = {torch.float16: 5e-3, torch.bfloat16: 3e-2}
REDUCTIONS = ["none", "mean", "sum"]


def both(f, x: torch.Tensor, *others: torch.Tensor | None, tol: float | None = None) -> None:
    """f(x, *others) and its gradient by x agree on both devices."""

    weight = torch.rand(f(x, *others).shape).to(x.dtype) + 0.5

    def run(x: torch.Tensor, others: tuple[torch.Tensor | None, ...], weight: torch.Tensor) -> object:
        leaf = x.clone().requires_grad_()
        result = f(leaf, *others)
        return result, torch.autograd.grad(result, leaf, weight)

    same(run, x, others, weight, tol=tol and (tol, tol))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_elementwise(dtype, reduction) -> None:
    for shape in [(), (0,), (7,), (3, 4, 5), (2, 3, 50, 60)]:
        x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
        # A sum of thousands of 16-bit values rounds at its own size.
        tol = TOL.get(dtype)
        both(lambda a, b: F.mse_loss(a, b, reduction=reduction), x, y, tol=tol)
        both(lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction, beta=0.7), x, y, tol=tol)
        both(lambda a, b: F.huber_loss(a, b, reduction=reduction, delta=0.7), x, y, tol=tol)
        p, q = torch.rand(shape).to(dtype), torch.rand(shape).to(dtype)
        both(lambda a, b: F.binary_cross_entropy(a, b, reduction=reduction), p, q, tol=tol)
        w = torch.rand(shape).to(dtype)
        both(lambda a, b, c: F.binary_cross_entropy(a, b, c, reduction=reduction), p, q, w, tol=tol)


def test_layouts_and_broadcasting() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = torch.randn(2, 3, 4, 5)
    for a, b in ((x, x + 1), (x, y), (y.transpose(1, 2), x.transpose(1, 2))):
        both(lambda s, t: F.mse_loss(s, t, reduction="none"), a, b)
        both(F.smooth_l1_loss, a, b)
    a, b = torch.randn(3, 1), torch.randn(1, 4)
    got = torch._C._nn.huber_loss(a.to("xpu"), b.to("xpu"), 1, 0.5)
    torch.testing.assert_close(got.cpu(), torch._C._nn.huber_loss(a, b, 1, 0.5))


def test_bce_extremes() -> None:
    x = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.5])
    y = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5])
    both(lambda a, b: F.binary_cross_entropy(a, b, reduction="none"), x, y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nll(dtype, reduction) -> None:
    tol = TOL.get(dtype)
    for n, weighted in itertools.product([0, 1, 6, 5000], [False, True]):
        x = torch.randn(n, 7).log_softmax(1).to(dtype)
        t = torch.randint(0, 7, (n,))
        t[::3] = 2
        w = torch.rand(7).to(dtype) if weighted else None
        both(lambda a, b, c: F.nll_loss(a, b, c, reduction=reduction, ignore_index=2), x, t, w, tol=tol)
    x = torch.randn(2, 5, 6, 7).log_softmax(1).to(dtype)
    t = torch.randint(0, 5, (2, 6, 7))
    for w in (None, torch.rand(5).to(dtype)):
        both(lambda a, b, c: F.nll_loss(a, b, c, reduction=reduction, ignore_index=1), x, t, w, tol=tol)
    both(lambda a, b: F.nll_loss(a, b, reduction=reduction), torch.randn(5).to(dtype), torch.tensor(3), tol=tol)
    both(lambda a, b: F.cross_entropy(a, b, reduction=reduction), x, t, tol=tol)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_margins(dtype, reduction) -> None:
    x, t, w = torch.randn(6, 5).to(dtype), torch.randint(0, 5, (6,)), torch.rand(5).to(dtype)
    for p, margin in itertools.product([1, 2], [1.0, 0.3]):
        both(lambda a, b: F.multi_margin_loss(a, b, p, margin, reduction=reduction), x, t)
        both(lambda a, b, c: F.multi_margin_loss(a, b, p, margin, c, reduction=reduction), x, t, w)
    both(lambda a, b: F.multi_margin_loss(a, b, reduction=reduction), x[0], t[0])
    labels = torch.tensor([[1, 3, -1, 0, 0], [0, -1, 2, 2, 2], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0]])
    both(lambda a, b: F.multilabel_margin_loss(a, b, reduction=reduction), x[:4], labels)
    both(lambda a, b: F.multilabel_margin_loss(a, b, reduction=reduction), x[0], labels[0])


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(reduction, zero_infinity) -> None:
    for dtype in (torch.float32, torch.float64):
        steps, batch, classes = 30, 4, 12
        x = torch.randn(steps, batch, classes, dtype=dtype).log_softmax(2)
        targets = torch.randint(1, classes, (batch, 9))
        targets[:, 3] = targets[:, 2]
        lengths, labels = torch.tensor([30, 25, 20, 30 if not zero_infinity else 5]), torch.tensor([9, 4, 0, 8])

        def run(a: torch.Tensor, t: torch.Tensor, lengths=lengths, labels=labels) -> torch.Tensor:
            return F.ctc_loss(a, t, lengths, labels, reduction=reduction, zero_infinity=zero_infinity)

        both(run, x, targets)
        flat = torch.cat([targets[b, : labels[b]] for b in range(batch)])
        both(run, x, flat)


def test_ctc_of_a_batch_with_lengths_and_targets_anywhere() -> None:
    """vmap hands the tensors of lengths on, which lie on the CPU, or on the device. (The mean of upstream divides by them.)"""
    torch.manual_seed(0)
    x, targets = torch.randn(3, 8, 2, 5).log_softmax(-1), torch.randint(1, 5, (3, 2, 4))
    lengths = torch.tensor([8, 7]), torch.tensor([3, 4])

    def losses(device: str, of_lengths: str, of_targets: str) -> torch.Tensor:
        long, labels = (t.to(of_lengths) for t in lengths)
        batch = torch.func.vmap(torch.func.grad_and_value(lambda a, t: F.ctc_loss(a, t, long, labels, reduction="sum")))
        gradient, value = batch(x.to(device), targets.to(of_targets))
        assert gradient.device.type == value.device.type == device
        return torch.cat([gradient.cpu().flatten(), value.cpu()])

    want = losses("cpu", "cpu", "cpu")
    for places in (("cpu", "xpu"), ("xpu", "xpu"), ("cpu", "cpu")):
        torch.testing.assert_close(losses("xpu", *places), want)
    with pytest.raises(RuntimeError, match="Expected log_probs to be on xpu"):
        torch._ctc_loss(x[0], targets[0].to("xpu"), [8, 7], [3, 4])


@pytest.mark.parametrize("classes", [1000, 5001])
def test_margins_of_many_classes(classes: int) -> None:
    """Sums of up to 2e7 terms, against float64: a plain sum in float32 misses them in the third digit."""
    x = torch.randn(2, classes, generator=torch.Generator().manual_seed(3))
    labels = torch.randint(classes, (2, classes), generator=torch.Generator().manual_seed(4))
    for loss, y in ((F.multilabel_margin_loss, labels), (F.multi_margin_loss, labels[:, 0])):
        device, double = x.to("xpu").requires_grad_(), x.double().requires_grad_()
        got, want = loss(device, y.to("xpu")), loss(double, y)
        torch.testing.assert_close(got.cpu().double(), want, rtol=2e-6, atol=0)
        torch.testing.assert_close(
            *(torch.autograd.grad(r, t)[0].cpu().double() for r, t in ((got, device), (want, double))),
            rtol=1e-3,
            atol=1e-7,
        )


def test_margins_of_nothing() -> None:
    """Upstream leaves them to what the memory held: here the sum of nothing is zero, and its mean no number."""
    x, labels = torch.empty(0, 3, device="xpu"), torch.empty(0, dtype=torch.long, device="xpu")
    for loss, y in ((F.multi_margin_loss, labels), (F.multilabel_margin_loss, labels.view(0, 1).expand(0, 3))):
        assert loss(x, y, reduction="sum").item() == 0
        assert loss(x, y, reduction="mean").isnan().item()
        assert loss(x, y, reduction="none").shape == (0,)


def test_gradient_of_a_margin_loss_of_nothing_reads_no_targets() -> None:
    same(
        lambda grad, x, target: torch.ops.aten.multilabel_margin_loss_backward(grad, x, target, 1, target.to(x.dtype)),
        torch.ones(()), torch.empty(0, 3), torch.empty(0, 3, dtype=torch.int32),
    )  # fmt: skip


def test_errors_from_kernels_reach_the_user() -> None:
    x = torch.randn(2, 3).to("xpu")
    for call, kind, text in (
        (lambda: F.nll_loss(x, torch.tensor([5, 1]).to("xpu")), IndexError, "Target 5 is out of bounds."),
        (lambda: F.multi_margin_loss(x, torch.tensor([5, 1]).to("xpu")), RuntimeError, "target out of range"),
        (lambda: F.binary_cross_entropy(x.abs() + 2, x), RuntimeError, "all elements of input should be between"),
    ):
        with pytest.raises(kind, match=text):
            call().sum().item()
    torch.xpu.synchronize()


def test_errors_are_those_of_the_cpu() -> None:
    for f in (
        lambda d: F.mse_loss(torch.ones(3, device=d).long(), torch.ones(3, device=d).long()),
        lambda d: F.huber_loss(torch.ones(3, device=d), torch.ones(3, device=d), delta=0),
        lambda d: F.multi_margin_loss(torch.ones(2, 3, device=d), torch.ones(2, dtype=torch.long, device=d), p=3),
        lambda d: torch.ops.aten.nll_loss2d_forward(
            torch.ones(2, 3, 4, 4, device=d), torch.ones(2, 4, 5, dtype=torch.long, device=d), None, 1, -100
        ),
    ):
        with pytest.raises(Exception) as expected:
            f("cpu")
        with pytest.raises(type(expected.value)):
            f("xpu")
