"""Indexing, masks and compaction against the CPU: dtypes, shapes, strides, deferred errors, determinism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from aten_data import ADDED, MOVED, data, ids, same
from support.compare import assert_same

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("here_or_launched")]

INDEX_CASES: dict[str, Callable[[torch.Tensor], Any]] = {
    "vector": lambda x: x[to(x, ids(7, 11, low=-7))],
    "int32": lambda x: x[to(x, ids(7, 11).int())],
    "matrix": lambda x: x[to(x, ids(7, 3, 4))],
    "scalar": lambda x: x[to(x, torch.tensor(2))],
    "second": lambda x: x[:, to(x, ids(5, 4, low=-5))],
    "last": lambda x: x[..., to(x, ids(6, 9))],
    "pair": lambda x: x[to(x, ids(7, 4)), to(x, ids(5, 4))],
    "outer": lambda x: x[to(x, ids(7, 4))[:, None], to(x, ids(5, 3))],
    "apart": lambda x: x[to(x, ids(7, 4)), :, to(x, ids(6, 4))],
    "triple": lambda x: x[to(x, ids(7, 2, 4)), to(x, ids(5, 4)), to(x, ids(6, 2, 1))],
    "mask": lambda x: x[to(x, data(7, dtype=torch.bool))],
    "mask2": lambda x: x[to(x, data(7, 5, dtype=torch.bool))],
    "full mask": lambda x: x[to(x, data(7, 5, 6, dtype=torch.bool))],
    "mask and ids": lambda x: x[to(x, torch.tensor([0, 1, 0, 1, 0, 0, 0], dtype=torch.bool)), to(x, ids(5, 2))],
    "slice and ids": lambda x: x[1:6:2, to(x, ids(5, 3))],
    "none": lambda x: x[None, to(x, ids(7, 3)), :, None],
    "empty": lambda x: x[to(x, torch.empty(0, dtype=torch.long))],
    "empty mask": lambda x: x[to(x, torch.zeros(7, 5, dtype=torch.bool))],
}


def to(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return t.to(x.device)


@pytest.mark.parametrize("case", INDEX_CASES)
def test_index(case: str) -> None:
    same(INDEX_CASES[case], data(7, 5, 6))
    same(INDEX_CASES[case], data(6, 7, 5).permute(1, 2, 0))
    same(INDEX_CASES[case], data(7, 1, 6).expand(7, 5, 6))


@pytest.mark.parametrize("dtype", MOVED)
def test_index_dtypes(dtype: torch.dtype) -> None:
    same(lambda x, i: x[i], data(40, 33, dtype=dtype), ids(40, 17))
    same(lambda x, i: x.index_select(1, i), data(9, 40, dtype=dtype), ids(40, 17))
    if dtype in (torch.uint16, torch.float8_e4m3fn):  # torch's CPU has no more for them
        return
    same(lambda x, i: x.gather(1, i), data(9, 40, dtype=dtype), ids(40, 9, 50))
    same(lambda x, i: x.take(i), data(9, 40, dtype=dtype), ids(360, 5, 3, low=-360))
    same(lambda x, i: x.nonzero(), data(9, 40, dtype=dtype), ids(2, 1))
    same(lambda x, m: x.masked_select(m), data(9, 40, dtype=dtype), data(9, 40, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.complex64, torch.complex128])
def test_rows_of_whole_vectors(dtype: torch.dtype) -> None:
    """Rows of a multiple of 16 bytes, of a table that begins at such an address or not."""
    table = data(40, 96, dtype=dtype)
    for x in (
        table,
        table[:, 16:80],
        table[:, 1:65],
        table[1:].view(-1)[3 : 3 + 32 * 96].view(32, 96),
        table.expand(3, 40, 96),
    ):
        same(lambda x, i: x.index_select(-2, i), x, ids(x.size(-2), 300))
        same(lambda x, i: x[i], x, ids(x.size(0), 5, 7))
        same(lambda x, i: x.index_put_((i,), x[:3] * 2), x.clone(), torch.tensor([2, 0, 1]))
    same(lambda x, i: torch.nn.functional.embedding(i, x), table, ids(40, 9, 11))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.complex128])
@pytest.mark.parametrize("width", [2, 3, 5, 8, 12, 15, 33, 130])
def test_short_rows(dtype: torch.dtype, width: int) -> None:
    """Rows of all lengths in bytes, apart from each other, of one index and of another for each batch; read and written."""
    table, rows = data(3, 50, width + 3, dtype=dtype)[..., 1 : width + 1], ids(50, 3, 900, low=-50)
    many = rows.abs() % 50
    same(lambda t: t[0].index_select(0, to(t, many[0])), table)
    same(lambda t: t[:, to(t, rows[1])], table)
    same(lambda t: t.gather(1, to(t, many)[..., None].expand(-1, -1, width)), table)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(1))
    same(lambda t: t.clone().index_copy_(1, to(t, order), t * 2), table)
    places = order[None, :, None].expand(3, 50, width)
    same(lambda t: torch.zeros_like(t).scatter(1, to(t, places), t), table)


def test_a_short_row_out_of_range_is_named_and_the_others_are_moved() -> None:
    table, rows = torch.arange(600.0, device="xpu").view(50, 12), torch.arange(40, device="xpu").repeat(80)
    rows[1000] = 50
    out = torch.full((3200, 12), -1.0, device="xpu")
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.index_select(table, 0, rows, out=out)
        torch.xpu.synchronize()
    rows[1000] = 49
    expected = table.cpu()[rows.cpu()]
    expected[1000] = -1
    assert torch.equal(out.cpu(), expected)


def test_index_strides() -> None:
    same(lambda x, i: x[i], data(6, 7).t(), ids(7, 4), strides=True)
    same(lambda x, i: x[:, i], data(4, 3, 2).permute(2, 0, 1), ids(4, 3), strides=True)
    same(lambda x: x.nonzero(), data(5, 6, dtype=torch.bool), strides=True)


def test_index_large_rows() -> None:
    same(lambda x, i: x[i], data(300, 1500), ids(300, 2000))
    same(lambda x, i: x[:, i], data(70, 3000), ids(3000, 2500))
    same(lambda x, i: x.index_select(0, i), data(5000, 3), ids(5000, 20000))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    "case", ["vector", "matrix", "pair", "outer", "apart", "mask", "mask2", "second", "value rows", "value scalar"]
)
def test_index_put(case: str, accumulate: bool) -> None:
    # Without accumulation equal indices have no defined winner: permutations only.
    unique = torch.randperm(7, generator=torch.Generator().manual_seed(3))
    i = ids(7, 20, low=-7) if accumulate else unique[:5]
    n = i.numel()
    cases: dict[str, Any] = {
        "vector": ((i,), (n, 5, 6)),
        "matrix": ((i[: n // 2 * 2].reshape(2, -1),), (2, n // 2, 5, 6)),
        "pair": ((i, torch.arange(n) % 5), (n, 6)),
        "outer": ((i[:, None], torch.arange(3)), (n, 3, 6)),
        "apart": ((i, slice(None), torch.arange(n) % 6), (n, 5)),
        "mask": ((torch.tensor([1, 0, 1, 1, 0, 0, 1], dtype=torch.bool),), (4, 5, 6)),
        "mask2": ((data(7, 5, dtype=torch.bool),), (int(data(7, 5, dtype=torch.bool).sum()), 6)),
        "second": ((slice(None), torch.arange(4)), (7, 4, 6)),
        "value rows": ((i,), (6,)),
        "value scalar": ((i,), ()),
    }
    index, value_shape = cases[case]
    optional = [None if isinstance(k, slice) else k for k in index]
    tensors = [k for k in optional if k is not None]

    def put(x: torch.Tensor, v: torch.Tensor, *t: torch.Tensor) -> torch.Tensor:
        rest = iter(t)
        return torch.ops.aten._index_put_impl_(x, [None if k is None else next(rest) for k in optional], v, accumulate)

    for x in (data(7, 5, 6), data(6, 7, 5).permute(1, 2, 0)):
        same(put, x, data(*value_shape, seed=5), *tensors)


@pytest.mark.parametrize("dtype", ADDED)
def test_index_put_dtypes(dtype: torch.dtype) -> None:
    same(
        lambda x, i, v: x.index_put_((i,), v, accumulate=True),
        data(10, 3, dtype=dtype),
        ids(10, 30),
        data(30, 3, dtype=dtype),
    )
    same(
        lambda x, i, v: x.put_(i, v, accumulate=True),
        data(10, 3, dtype=dtype),
        ids(30, 40, low=-30),
        data(40, dtype=dtype),
    )
    same(lambda x, i, v: x.put_(i, v), data(3, 10, dtype=dtype).t(), torch.arange(5), data(5, dtype=dtype))


def test_index_put_names_the_shape_before_the_type() -> None:
    for device in ("cpu", "xpu"):
        x = torch.zeros(4, dtype=torch.long, device=device)
        for value, text in ((torch.ones(2), "shape mismatch"), (torch.ones(4), "dtypes match")):
            with pytest.raises(RuntimeError, match=text):
                x[x > -1] = value.to(device)


def test_index_select_shapes() -> None:
    same(lambda x, i: x.index_select(0, i), data(), torch.tensor(0))
    same(lambda x, i: x.index_select(0, i), data(4), torch.tensor(2))
    same(lambda x, i: x.index_select(1, i), data(4, 0), torch.empty(0, dtype=torch.long))
    same(lambda x, i: x.index_select(-1, i), data(4, 5, 6).transpose(0, 2), ids(4, 7).int())
    same(lambda x, i, o: torch.index_select(x, 0, i, out=o), data(4, 5), ids(4, 7), torch.empty(0))


def test_gather_shapes() -> None:
    for dim in range(3):
        same(lambda x, i: x.gather(dim, i), data(6, 7, 8), ids(6, 5, 6, 7))
        same(lambda x, i: x.gather(dim, i), data(8, 7, 6).permute(2, 1, 0), ids(6, 5, 6, 7).int())
    same(lambda x, i: x.gather(0, i), data(), torch.tensor(0))
    same(lambda x, i: x.gather(0, i), data(5), torch.tensor(3))
    same(lambda x, i: x.gather(1, i), data(3, 5), torch.empty(3, 0, dtype=torch.long))


@pytest.mark.parametrize("columns", [2, 4, 7, 33, 300])
def test_gather_by_an_expanded_index(columns: int) -> None:
    x, index = data(90, 12, 40), ids(40, 12, columns).expand(90, 12, columns)
    same(lambda x, i: x.gather(-1, i), x, index)
    same(lambda x, i: x.half().gather(-1, i.int()), x, index)
    same(lambda x, i: x.scatter(-1, i[..., :1], 3.0), x, index)
    bad = index.clone()
    bad[89, 11, columns - 1] = 40
    with pytest.raises((IndexError, RuntimeError), match="index 40 is out of bounds"):
        x.to("xpu").gather(-1, bad.to("xpu"))
        torch.xpu.synchronize()


@pytest.mark.parametrize("n", [0, 1, 17, 2047, 2048, 2049, 16_385, 100_000])
def test_compaction_sizes(n: int) -> None:
    for p in (0.0, 0.03, 0.5, 1.0):
        mask = torch.rand(n, generator=torch.Generator().manual_seed(n)) < p
        same(lambda m: m.nonzero(), mask)
        same(lambda x, m: x.masked_select(m), data(n), mask)
        same(lambda x, m, s: x.masked_scatter_(m, s), data(n), mask, data(n, seed=2))


def test_nonzero_values() -> None:
    same(lambda x: x.nonzero(), torch.tensor([0.0, -0.0, float("nan"), 1e-40, 1.0]))
    same(lambda x: x.nonzero(), torch.tensor([0j, complex(-0.0, -0.0), 1j, 1 + 0j]))
    same(lambda x: x.nonzero(), torch.tensor(3.0))
    same(lambda x: x.nonzero(), torch.tensor(0.0))
    same(lambda x: x.nonzero(), torch.empty(3, 0, 2))
    same(lambda x: x.nonzero(), data(3, 4, 5, 6, dtype=torch.bool).permute(3, 1, 0, 2))
    same(lambda x: x.nonzero(as_tuple=True), data(3, 4, dtype=torch.bool))
    for nothing in (torch.empty(3, 0, 2), torch.zeros(3, 4)):
        assert nothing.to("xpu").nonzero().stride() == (1, 1)
    for size in (0, 3, 40):
        same(lambda x: torch.nonzero_static(x, size=size, fill_value=-7), data(5, 4, dtype=torch.bool))
    same(lambda x, y: torch.where(x), data(5, 4, dtype=torch.bool), data(1))


@pytest.mark.parametrize("shape", [(2,) * 17, (3, *[1] * 16, 5, 1), (2, *[1] * 60, 3)], ids=["17", "19", "62"])
def test_nonzero_of_many_dimensions(shape: tuple[int, ...]) -> None:
    x = data(*shape, dtype=torch.bool)
    same(lambda x: x.nonzero(), x)
    same(lambda x: x.nonzero(as_tuple=True), x)
    same(lambda x: torch.nonzero_static(x, size=7, fill_value=-7), x)
    same(lambda x: torch.nonzero_static(x, size=x.numel() + 2, fill_value=-7), x)
    same(lambda x, y: y[x], x, data(*shape))
    same(lambda x: x.nonzero(), torch.zeros(shape))


def test_masked_broadcast() -> None:
    same(lambda x, m: x.masked_select(m), data(4, 5), data(5, dtype=torch.bool))
    same(lambda x, m: x.masked_select(m), data(5), data(4, 5, dtype=torch.bool))
    same(lambda x, m, s: x.masked_scatter_(m, s), data(5, 4).t(), data(5, dtype=torch.bool), data(30))
    same(lambda x, m, s: x.masked_scatter(m, s), data(4, 5), data(4, 1, dtype=torch.bool), data(30))
    for dtype in (torch.bool, torch.int16, torch.float64, torch.complex128):
        source = torch.arange(30).to(dtype)
        same(
            lambda x, m, s: x.masked_scatter(m, s), torch.zeros(4, 5, dtype=dtype), data(4, 5, dtype=torch.bool), source
        )
    same(lambda x, m, s: x.masked_scatter(m, s), data(4, 5), torch.zeros(4, 5, dtype=torch.bool), data(0))


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (lambda x, i: x[i], IndexError, "index 9 is out of bounds for dimension 0 with size 4"),
        (lambda x, i: x[i, i], IndexError, "index 9 is out of bounds for dimension 0 with size 4"),
        (
            lambda x, i: x.index_put_((i,), x[0].clone()),
            IndexError,
            "index 9 is out of bounds for dimension 0 with size 4",
        ),
        (
            lambda x, i: x.index_put_((i,), x[0].clone(), accumulate=True),
            IndexError,
            "index 9 is out of bounds for dimension 0 with size 4",
        ),
        (lambda x, i: x.index_select(0, i), IndexError, "index out of range in self"),
        (lambda x, i: x.gather(0, i[:, None]), RuntimeError, "index 9 is out of bounds for dimension 0 with size 4"),
        (
            lambda x, i: x.scatter(0, i[:, None], 1.0),
            RuntimeError,
            "index 9 is out of bounds for dimension 0 with size 4",
        ),
        (lambda x, i: x.index_add(0, i, x[:1]), RuntimeError, "index 9 is out of bounds for dimension 0 with size 4"),
        (lambda x, i: x.index_add(0, i, x[:1], alpha=2), IndexError, "index out of range in self"),
        (lambda x, i: x[None].index_add(1, i, x[None, :1]), IndexError, "index out of range in self"),
        (lambda x, i: x.index_copy(0, i, x[:1]), IndexError, "index 9 is out of bounds for dimension 0 with size 4"),
        (lambda x, i: x.index_fill(0, i, 1.0), IndexError, "index 9 is out of bounds for dimension 0 with size 4"),
        (lambda x, i: x.take(i * 10), IndexError, "tried to access index 90 on a tensor of 20 elements"),
        (lambda x, i: torch.embedding(x, i), IndexError, "index out of range in self"),
        (
            lambda x, i: x.masked_scatter(x == x, x[0]),
            RuntimeError,
            "Number of elements of source < number of ones in mask",
        ),
        (lambda x, i: torch._assert_async(i == 0, "nine is not zero"), RuntimeError, "nine is not zero"),
    ],
)
def test_bad_index_is_raised_by_the_next_synchronisation(
    fn: Callable[..., Any], kind: type[Exception], text: str
) -> None:
    x, i = data(4, 5).to("xpu"), torch.tensor([9]).to("xpu")
    torch.xpu.synchronize()
    with pytest.raises(kind, match=text):
        fn(x, i)
        torch.xpu.synchronize()
    torch.xpu.synchronize()  # raised once
    assert_same(x.cpu()[0], data(4, 5)[0])


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (2, 4)], ids=str)
def test_addr_in_place_does_not_resize(shape: tuple[int, ...]) -> None:
    words = []
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError) as error:
            torch.ones(shape, device=device).addr_(torch.ones(3, device=device), torch.ones(4, device=device))
        words.append(str(error.value))
    assert words[0] == words[1]


def test_masks_that_are_not_boolean_are_refused_in_torchs_words() -> None:
    words = []
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError) as error:
            torch.ones(2, device=device).masked_fill(torch.ones(2, dtype=torch.int32, device=device), 1)
        words.append(str(error.value))
    assert words[0] == words[1]


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (lambda x: x[torch.ones(3, dtype=torch.bool, device=x.device)], IndexError),
        (lambda x: x[torch.ones(1, device=x.device)], IndexError),
        (lambda x: x.index_select(0, torch.ones(1, 1, dtype=torch.long, device=x.device)), IndexError),
        (lambda x: x.masked_select(x), RuntimeError),
        (lambda x: x.take(x), RuntimeError),
    ],
)
def test_host_checks(fn: Callable[..., Any], kind: type[Exception]) -> None:
    for device in ("cpu", "xpu"):
        with pytest.raises(kind):
            fn(data(4, 5).to(device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_deterministic(dtype: torch.dtype) -> None:
    x, i = data(50, 30, dtype=dtype).to("xpu"), ids(50, 3000).to("xpu")
    v, flat = data(3000, 30, dtype=dtype).to("xpu"), data(3000, dtype=dtype).to("xpu")
    for fn in (
        lambda: x.clone().index_put_((i,), v, accumulate=True),
        lambda: x[:, 0].clone().index_put_((i,), flat, accumulate=True),
        lambda: x.clone().put_(i, flat, accumulate=True),
    ):
        first = fn().cpu()
        assert all(torch.equal(first, fn().cpu()) for _ in range(20))


PERMUTED = [3, 1, 15, 0, 7, 5, 9, 2, 4, 6, 8, 10, 12, 14, 13, 11]
OF_SIXTEEN = {
    "gather": lambda t: t.gather(3, (t % 2).long()),
    "index_select": lambda t: t.index_select(5, torch.tensor([1, 0, 1], device=t.device)),
    "index": lambda t: t[:, torch.tensor([0, 1, 1], device=t.device)],
    "index of ten dims": lambda t: t[tuple(torch.tensor([d % 2, 1, 0], device=t.device) for d in range(10))],
    "mask": lambda t: t[t % 3 == 0],
    "index_put": lambda t: t.index_put_((torch.tensor([1], device=t.device),), t.new_tensor(-1)),
    "accumulate": lambda t: t.index_put_((torch.tensor([0, 0], device=t.device),), t.clone(), accumulate=True),
    "write to a mask": lambda t: t.index_put_((t % 3 == 0,), t.new_full((21846,), -1)),
    "index_add": lambda t: t.index_add_(4, torch.tensor([1], device=t.device), t[:, :, :, :, :1].clone()),
    "index_copy": lambda t: t.index_copy_(6, torch.tensor([1], device=t.device), t[:, :, :, :, :, :, :1].clone()),
    "index_fill": lambda t: t.index_fill_(3, torch.tensor([1], device=t.device), 5.0),
    "scatter": lambda t: t.scatter_(2, (t.clone() % 2).long(), t.clone().flip(2) + 1),
    "scatter_add": lambda t: t.scatter_add_(2, (t.clone() % 2).long(), t.clone()),
}


@pytest.mark.parametrize("name", OF_SIXTEEN)
def test_more_dims_than_a_walk_has(name: str) -> None:
    """Tensor networks and simulated qubits: sixteen dims of two in an order that joins none of them."""
    results = []
    for device in ("cpu", "xpu"):
        t = torch.arange(2.0**16, device=device).view([2] * 16).permute(PERMUTED)
        results.append([OF_SIXTEEN[name](t).cpu(), t.cpu()])
    assert_same(*results)


@pytest.mark.parametrize("place", [0, 9])
def test_bad_index_among_more_than_eight(place: int) -> None:
    t = torch.zeros([2] * 10, device="xpu")
    indices = [torch.tensor([1], device="xpu") for _ in range(10)]
    indices[place] = torch.tensor([2], device="xpu")
    with pytest.raises(IndexError):
        t[tuple(indices)].cpu()


@pytest.mark.parametrize("value", [True, torch.tensor(True), torch.tensor([True])], ids=str)
def test_a_mask_may_be_what_it_writes_to(value: Any) -> None:
    results = []
    for device in ("cpu", "xpu"):
        t = (torch.arange(12, device=device) % 3 == 0).view(3, 4)
        t[t] = value.to(device) if isinstance(value, torch.Tensor) else value
        u = torch.arange(12.0, device=device).view(3, 4)
        u[u > 5] = torch.tensor(-1.0, device=device)
        results.append([t.cpu(), u.cpu()])
    assert_same(*results)
