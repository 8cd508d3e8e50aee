"""Operators of OpInfo in every form and dtype, without the fallback: torch composes none down to a table without this device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support import opinfo
from torch.testing._internal.common_methods_invocations import op_db

import xpu_ops

DTYPES = (
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
SAMPLES = 3
SHARDS = 12


def forms(op: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operator, its in-place form, and its out= form with results of the right and of no size."""
    yield "call", lambda: op(*args, **kwargs)
    if op.inplace_variant is not None:
        yield "in place", lambda: op.inplace_variant(args[0].clone(), *args[1:], **kwargs)
    if op.supports_out:

        def out(size: bool) -> Any:
            results = op(*args, **kwargs)
            make = torch.empty_like if size else lambda t: t.new_empty(0)
            single = isinstance(results, torch.Tensor)
            return op(*args, **kwargs, out=make(results) if single else tuple(map(make, results)))

        yield "out=", lambda: out(True)
        yield "empty out=", lambda: out(False)


def asserts(op: Any, dtype: torch.dtype) -> Iterator[str]:
    """Calls that fail an assertion of torch's, of some samples of a dtype, also one that the operator is not meant for."""
    try:
        # Of a dtype that the CPU lacks, samples of float32 are converted.
        own = dtype in op.supported_dtypes("cpu")
        samples = list(op.sample_inputs("cpu", dtype if own else torch.float32))[:SAMPLES]
    except Exception:
        return
    for sample in samples:
        args, kwargs = opinfo.arguments(sample)
        try:
            args, kwargs = opinfo.to_xpu(op, args, kwargs)
            if not own and isinstance(args[0], torch.Tensor):
                args = (args[0].to(dtype), *args[1:])
        except Exception:
            continue
        for form, call in forms(op, args, kwargs):
            try:
                call()
                torch.xpu.synchronize()
            except Exception as error:
                if "INTERNAL ASSERT" in str(error):
                    yield f"{opinfo.op_id(op)} {dtype} {form}: {str(error).splitlines()[0][:200]}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_form_asserts(shard: int) -> None:
    found, count = [], 0
    with xpu_ops.fallback.forbid():
        for op in op_db[shard::SHARDS]:
            for dtype in DTYPES:
                count += 1
                found += asserts(op, dtype)
    assert count > 500 and not found, "\n".join(found)


def test_conj_physical_in_place() -> None:
    """at::native calls its table directly; so did svd with out=."""
    x = torch.tensor([1 + 2j, 3 - 1j], device="xpu")
    assert x.conj_physical_().tolist() == [1 - 2j, 3 + 1j]
    y = torch.ones(2, device="xpu")
    assert y.conj_physical_() is y
    a = torch.randn(3, 3, dtype=torch.complex64)
    outs = tuple(torch.empty(0, dtype=t, device="xpu") for t in (torch.complex64, torch.float32, torch.complex64))
    u, s, v = torch.svd(a.to("xpu"), out=outs)
    torch.testing.assert_close((u * s) @ v.mH, a.to("xpu"), rtol=1e-4, atol=1e-5)
