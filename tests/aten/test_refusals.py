"""Types and sizes that an operator does not take: the error has the type of the CPU's and, where it is about types, its text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F


def bag(weight: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(torch.tensor([[1, 2]], device=weight.device), weight)


CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu_": torch.relu_,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "exponential_": lambda x: x.exponential_(),
    "bernoulli": torch.bernoulli,
    "dropout": lambda x: F.dropout(x, 0.5),
    "embedding_bag": bag,
    "histc": lambda x: torch.histc(x, 4, 0, 2),
}
BOOL = ("relu", "relu_", "hardtanh", "relu6", "histc")
CASES = (
    [(name, torch.bool) for name in CALLS]
    + [(name, t) for name in CALLS if name not in BOOL for t in (torch.int64, torch.int32, torch.uint8)]
    + [("histc", torch.complex64)]
)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_the_error_is_the_cpus(name: str, dtype: torch.dtype) -> None:
    x = torch.ones(4, 3).to(dtype)
    with pytest.raises(Exception) as wanted:  # whichever the CPU raises
        CALLS[name](x.clone())
    with pytest.raises(type(wanted.value)) as got:
        CALLS[name](x.to("xpu"))
    assert type(got.value) is type(wanted.value)
    # Behind "but got" stands a name of the tensor's type that both devices spell in their own way.
    texts = [re.split(r"\n|; but got", str(e.value))[0].replace("XPU", "CPU") for e in (got, wanted)]
    assert texts[0] == texts[1]


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Tensor = torch.Tensor
NORMS: dict[str, Callable[[Tensor, Tensor | None, Tensor | None], Tensor]] = {
    "layer": lambda x, w, b: F.layer_norm(x, (4,), w, b),
    "group": lambda x, w, b: F.group_norm(x.mT, 2, w, b),
    "batch": lambda x, w, b: F.batch_norm(x.mT.contiguous(), None, None, w, b, training=True),
    "instance": lambda x, w, b: F.instance_norm(x.mT, None, None, w, b),
    "batch_statistics": lambda x, m, v: F.batch_norm(
        x.mT, *(torch.ones_like(x[0, 0]) if t is None else t for t in (m, v))
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_types_of_the_parameters_of_norms(name: str) -> None:
    """They have the input's, or all are float beside 16 bits. The text is the one that torch has for other devices."""
    f = NORMS[name]
    for own in FLOATS:
        for pair in itertools.product((None, *FLOATS), repeat=2):
            x = torch.ones(2, 3, 4, dtype=own)

            def run(device: str, x: torch.Tensor = x, pair: tuple[torch.dtype | None, ...] = pair) -> str | None:
                given = (None if t is None else torch.ones(4, dtype=t, device=device) for t in pair)
                try:
                    f(x.to(device), *given)
                except RuntimeError as e:
                    return str(e)
                return None

            want, got = run("cpu"), run("xpu")
            assert (got is None) == (want is None), (own, pair, want, got)
            assert got is None or re.match(r"expected scalar type \w+ but found \w+", got), got


@pytest.mark.parametrize("name", ["layer", "group", "batch"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64])
def test_norms_of_other_numbers(name: str, dtype: torch.dtype) -> None:
    for device in ("cpu", "xpu"):
        with pytest.raises(NotImplementedError, match=r"\"\w+\" not implemented for '(Long|ComplexFloat)'"):
            NORMS[name](torch.ones(2, 3, 4, dtype=dtype, device=device), None, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.bool])
def test_offsets_of_bags_are_indices(dtype: torch.dtype) -> None:
    """Of the type that both promote to."""
    for device in ("cpu", "xpu"):
        indices, offsets = torch.tensor([0, 1, 2], device=device), torch.tensor([0, 1], device=device).to(dtype)
        table = torch.ones(3, 2, device=device)
        for i, o in ((indices, offsets), (indices.to(dtype), offsets.long())):
            if dtype.is_floating_point:
                with pytest.raises(RuntimeError, match="'indices' to have one of the following scalar types: Long, In"):
                    F.embedding_bag(i, table, o)
            else:
                assert F.embedding_bag(i, table, o, mode="sum").tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_nothing_to_select_from(dtype: torch.dtype) -> None:
    for device in ("cpu", "xpu"):
        table, index = torch.ones(0, 3, device=device), torch.zeros(1, dtype=dtype, device=device)
        for call in (
            lambda t=table, i=index: t.index_select(0, i),
            lambda t=table.mT, i=index: t.index_select(1, i),
            lambda t=table, i=index: t[:, :0].index_select(0, i),
            lambda t=table, i=index: F.embedding(i, t),
        ):
            with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
                call()
        assert table.index_select(0, index[:0]).shape == (0, 3)
        with pytest.raises(IndexError, match="index out of range in self"):
            table.view(-1).index_select(0, index)


def batch_norm(x: torch.Tensor, out: torch.Tensor, stats: torch.Tensor) -> object:
    return torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=(out, stats, stats.clone()))


OUTS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "batch norm": lambda x, out: batch_norm(x, out, x[0, :0]),
    "statistics of batch norm": lambda x, out: batch_norm(x, x[:0], out),
    "narrow_copy": lambda x, out: torch.narrow_copy(x, 0, 0, 2, out=out),
    "solve_triangular": lambda x, out: torch.linalg.solve_triangular(x[:, :3], x, upper=True, out=out),
    "histc": lambda x, out: torch.histc(x, 3, out=out),
    "nansum": lambda x, out: torch.nansum(x, 0, out=out),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("name", OUTS)
def test_results_of_another_type(name: str, dtype: torch.dtype) -> None:
    """The device refuses them where the CPU does. narrow_copy has the text of torch's own out= variants on a device."""
    x = torch.arange(1.0, 13.0).reshape(3, 4)
    try:
        want = str(OUTS[name](x, torch.empty(0, dtype=dtype)))
    except RuntimeError as error:
        want = str(error)
        with pytest.raises(type(error)) as found:
            OUTS[name](x.to("xpu"), torch.empty(0, dtype=dtype, device="xpu"))
        if name != "narrow_copy":
            assert str(found.value).replace("nansum", "nansum_cpu") == want
        else:
            assert "Expected out tensor to have dtype float, but got" in str(found.value)
        return
    assert name == "nansum", want
