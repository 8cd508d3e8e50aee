"""Operators that other operators call with sizes they have checked: called directly with sizes that fit nothing, each
raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

A = torch.ops.aten
N, H, W = 3, 5, 5


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, device="xpu", dtype=dtype)


def longs(*shape: int, value: int = 0) -> torch.Tensor:
    return torch.full(shape, value, device="xpu")


def conv(
    x: Any = (1, N, H, W),
    w: Any = (2, N, 3, 3),
    b: Any = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    transposed: bool = False,
    output_padding: Any = (0, 0),
    groups: int = 1,
) -> torch.Tensor:
    bias = None if b is None else ones(*b)
    return A.convolution_overrideable(
        ones(*x), ones(*w), bias, stride, padding, dilation, transposed, output_padding, groups
    )  # fmt: skip


def conv_grad(grad: Any, groups: int = 1) -> Any:
    return A.convolution_backward_overrideable(
        ones(*grad), ones(1, N, H, W), ones(2, N, 3, 3), [1, 1], [0, 0], [1, 1], False, [0, 0], groups, [True] * 3
    )  # fmt: skip


CONVOLUTIONS: list[tuple[dict[str, Any], str]] = [
    ({"w": (2, 9, 3, 3)}, "channels"),
    ({"w": (2, N, 3)}, "dimensional"),
    ({"w": (2, N, 9, 9)}, "Kernel size"),
    ({"stride": (0, 1)}, "non-positive stride"),
    ({"padding": (-1, 0)}, "negative padding"),
    ({"dilation": (0, 1)}, "dilation"),
    ({"groups": 0}, "groups"),
    ({"groups": 2, "w": (3, 1, 3, 3)}, "groups=2"),
    ({"padding": ()}, "expected 2 elements"),
    ({"b": (7,)}, "bias"),
    ({"transposed": True}, "channels"),
    ({"transposed": True, "w": (N, 2, 3, 3), "output_padding": (-1, 0)}, "output_padding"),
]


@pytest.mark.parametrize(("given", "text"), CONVOLUTIONS, ids=str)
def test_convolution(given: dict[str, Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        conv(**given)


@pytest.mark.parametrize("grad", [(1, 2, 9, 9), (1, 1, 3, 3), (2, 2, 3, 3), (1, 2, 3)], ids=str)
def test_convolution_backward(grad: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="Expected grad_output of size"):
        conv_grad(grad)


@pytest.mark.parametrize(
    ("grad", "sizes", "dim", "size", "step"),
    [((3, 4), [5], 0, 7, -2), ((3, 4), [5], 0, 4, 0), ((3, 4), [5], 0, 4, 1), ((3,), [5], 0, 3, 1), ((3, 9), [5], 0, 9, 1),
     ((3, 3, 7), [5, 7], 0, 3, 1), ((3, -1 + 1), [5], 0, -1, 1), ((7,), [], 0, 7, 1)],
    ids=str,
)  # fmt: skip
def test_unfold_backward(grad: tuple[int, ...], sizes: list[int], dim: int, size: int, step: int) -> None:
    with pytest.raises(RuntimeError, match="unfold_backward"):
        A.unfold_backward(ones(*grad), sizes, dim, size, step)


def test_fractional_max_pool() -> None:
    samples = ones(1, 2, 3)
    for kernel in ([-3, 2, 2], [0, 2, 2], [2, 2, -1]):
        with pytest.raises(RuntimeError, match="kernel.size"):
            A.fractional_max_pool3d(ones(1, 2, 4, 4, 4), kernel, [2, 2, 2], samples)
    with pytest.raises(RuntimeError, match="kernel.size"):
        A.fractional_max_pool2d(ones(1, 2, 4, 4), [-3, 2], [2, 2], ones(1, 2, 2))
    for value in (1e30, -5.0, float("nan")):  # no sample: some window inside of the input
        out, where = A.fractional_max_pool3d(ones(1, 2, 4, 4, 4), [2, 2, 2], [2, 2, 2], torch.full_like(samples, value))
        assert bool((out == 1).all()) and bool(((where >= 0) & (where < 64)).all())


@pytest.mark.parametrize(
    ("grad", "self", "indices", "size"),
    [((1, 2, 2, 2, 2), (1, 1, 4, 4, 4), (1, 2, 2, 2, 2), [2, 2, 2]),
     ((1, 1, 2, 2, 2), (1, 1, 4, 4, 4), (1, 1, 1, 1, 1), [2, 2, 2]),
     ((2, 2, 2), (1, 1, 4, 4, 4), (2, 2, 2), [2, 2, 2]),
     ((1, 1, 2, 2, 2), (1, 1, 4, 4, 4), (1, 1, 2, 2, 2), [2, 2, 3]),
     ((1, 1, 2, 2, 2), (4,), (1, 1, 2, 2, 2), [2, 2, 2]),
     ((1, 1, 2, 2, 2), (1, 1, 4, 4, 4), (1, 1, 2, 2, 2), [2])],
    ids=str,
)  # fmt: skip
def test_fractional_max_pool_backward(grad: Any, self: Any, indices: Any, size: list[int]) -> None:
    with pytest.raises(RuntimeError, match="fractional_max_pool3d_backward"):
        A.fractional_max_pool3d_backward(ones(*grad), ones(*self), [2, 2, 2], size, longs(*indices))


def test_fractional_max_pool2d_backward() -> None:
    for grad, indices in (((3, 1, 2, 2), (3, 1, 2, 2)), ((1, 1, 2, 2), (1, 1, 1, 1))):
        with pytest.raises(RuntimeError, match="fractional_max_pool2d_backward"):
            A.fractional_max_pool2d_backward(ones(*grad), ones(1, 1, 4, 4), [2, 2], [2, 2], longs(*indices))


GRAD, IDS = (3, 4), (5,)
BAGS: list[dict[str, Any]] = [
    {"bags": longs(9)},
    {"grad": ones(3)},
    {"ids": longs(5, 1)},
    {"ids": ones(5)},
    {"mode": 7},
    {"mode": 1, "sizes": longs(1)},
    {"mode": 2, "most": longs(1)},
    {"rows": -1},
    {"weights": ones(4)},
    {"mode": 1, "sizes": longs(3), "weights": ones(5)},
]


def bag_arguments(g: dict[str, Any]) -> dict[str, Any]:
    return {"grad": ones(*GRAD), "ids": longs(*IDS), "bags": longs(*IDS), "sizes": longs(3), "most": longs(*GRAD),
            "mode": 0, "rows": 4, "weights": None, **g}  # fmt: skip


# The sparse gradient of a maximum raises before.
@pytest.mark.parametrize("given,sparse", [(g, s) for g in BAGS for s in (False, True) if not s or g.get("mode") != 2])
def test_embedding_bag_backward(given: dict[str, Any], sparse: bool) -> None:
    g = bag_arguments(given)
    with pytest.raises(RuntimeError, match="embedding_bag|indices"):
        A._embedding_bag_backward(
            g["grad"], g["ids"], longs(3), g["bags"], g["sizes"], g["most"], g["rows"], False, g["mode"], sparse, g["weights"]
        )  # fmt: skip
    if sparse:
        return
    with pytest.raises(RuntimeError, match="embedding_bag|indices"):
        A._embedding_bag_dense_backward(
            g["grad"], g["ids"], g["bags"], g["sizes"], g["most"], g["rows"], False, g["mode"], g["weights"]
        )  # fmt: skip


def test_embedding_bag_indices_out_of_range() -> None:
    def sample_grad(ids: torch.Tensor, bags: torch.Tensor) -> torch.Tensor:
        return A._embedding_bag_per_sample_weights_backward(ones(3, 4), ones(2, 4), ids, longs(3), bags, 0)

    for ids, bags in ((longs(5, value=1 << 40), longs(5)), (longs(5), longs(5, value=-7))):
        with pytest.raises(IndexError, match="out of range"):
            sample_grad(ids, bags).cpu()
    with pytest.raises(RuntimeError, match="per_sample_weights_backward"):
        sample_grad(longs(5), longs(9))
    with pytest.raises(RuntimeError, match="per_sample_weights_backward"):
        A._embedding_bag_per_sample_weights_backward(ones(3, 4), ones(2, 9), longs(5), longs(3), longs(5), 0)


def test_embedding_bag_starts_past_the_end() -> None:
    out, bags, *_ = A._embedding_bag(ones(4, 16), longs(5), longs(2, value=1000), False, 0)
    assert bool((out == 0).all()) and bool((bags == 0).all())


SGD = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False,
       "is_first_step": False}  # fmt: skip
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.9, "weight_decay": 0.0, "eps": 1e-8, "amsgrad": False, "maximize": False}
ADAGRAD = {"lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
OPTIMIZERS: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "sgd without parameters": lambda x, step: A._fused_sgd_([], x, [], **SGD),
    "sgd.out without parameters": lambda x, step: A._fused_sgd.out([], x, [], **SGD, out=x),
    "sgd without momenta": lambda x, step: A._fused_sgd_(x, x, [], **{**SGD, "momentum": 0.5}),
    "adam without steps": lambda x, step: A._fused_adam_(x, x, x, x, [], [], **ADAM),
    "adam with few steps": lambda x, step: A._fused_adam_(x * 2, x * 2, x * 2, x * 2, [], step, **ADAM),
    "adam without states": lambda x, step: A._fused_adam_(x, x, [], [], [], step, **ADAM),
    "adam.out without states": lambda x, step: A._fused_adam.out(x, x, [], [], [], step, **ADAM, out=x),
    "amsgrad without maxima": lambda x, step: A._fused_adamw_(x, x, x, x, [], step, **{**ADAM, "amsgrad": True}),
    "adagrad without states": lambda x, step: A._fused_adagrad_(x, x, [], step, **ADAGRAD),
    "adagrad without steps": lambda x, step: A._fused_adagrad_(x, x, x, [], **ADAGRAD),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_optimizers(name: str) -> None:
    with pytest.raises(RuntimeError, match="same number of elements"):
        OPTIMIZERS[name]([ones(2)], [torch.ones((), device="xpu")])


def test_prelu_backward() -> None:
    x, flags = ones(2), ones(2, dtype=torch.bool)
    for args in ((x, flags, x), (flags, x, x), (x, x, flags), (x, x.double(), x)):
        with pytest.raises(RuntimeError, match="Found dtype"):
            A._prelu_kernel_backward(*args)
    with pytest.raises(NotImplementedError, match="Bool"):
        A._prelu_kernel_backward(flags, flags, flags)


@pytest.mark.parametrize(
    ("grad", "self", "pdist"), [((0,), (3, 2), (3,)), ((3,), (3, 2), (1,)), ((3,), (3, 2, 2), (3,))]
)
def test_pdist_backward(grad: tuple[int, ...], self: tuple[int, ...], pdist: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="_pdist_backward"):
        A._pdist_backward(ones(*grad), ones(*self), 2.0, ones(*pdist))


def test_weight_norm() -> None:
    with pytest.raises(IndexError):  # a number has no rows to divide by
        A._weight_norm_interface(torch.ones((), device="xpu"), ones(2, 3))
    for grad, g, norms in (((2, 3), (1,), (2, 1)), ((2, 3), (2, 1), (1,)), ((1, 3), (2, 1), (2, 1))):
        with pytest.raises(RuntimeError, match="_weight_norm_interface_backward"):
            A._weight_norm_interface_backward(ones(*grad), ones(2, 3), ones(*g), ones(*norms), 0)


@pytest.mark.parametrize(
    ("grad", "self", "padding"),
    [((1, 2, 4), (1, 2, 2), []), ((1, 2, 4, 4), (1, 2, 2, 2), [1] * 8), ((9, 2, 4, 4), (1, 2, 2, 2), [1] * 4),
     ((1, 2, 4, 4), (4,), [1] * 4), ((2, 4, 4), (1, 2, 2, 2), [1] * 4)],
    ids=str,
)  # fmt: skip
def test_padding_backward(grad: tuple[int, ...], self: tuple[int, ...], padding: list[int]) -> None:
    with pytest.raises(RuntimeError, match="padding|gradOutput"):
        A.replication_pad2d_backward(ones(*grad), ones(*self), padding)


@pytest.mark.parametrize(("grad", "output"), [((2,), (2,)), ((3,), (2,)), ((2,), (3,))])
def test_segment_reduce_backward_of_another_size(grad: tuple[int, ...], output: tuple[int, ...]) -> None:
    lengths = torch.tensor([1, 2, 2], device="xpu")
    with pytest.raises(RuntimeError, match=r"expected grad and output of size \[3\]"):
        A._segment_reduce_backward(
            torch.ones(grad, device="xpu"),
            torch.ones(output, device="xpu"),
            torch.ones(5, device="xpu"),
            "sum",
            lengths=lengths,
        )
