"""The library's own functions of float: their accuracy, and that device and calling thread give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.manifest import TORCH_TYPES, overload, rows

import xpu_ops
from tools.codegen.host import own_cost
from tools.codegen.schema import load_dir
from xpu_ops import _C

pytestmark = pytest.mark.usefixtures("own_stream")
# Units in the last place of float. All patterns of bits in steps of 101 show no more, but of the last two, tried in 2003s.
BOUNDS: dict[Callable[[torch.Tensor], torch.Tensor], float] = {
    torch.exp: 1.0,
    torch.exp2: 1.1,
    torch.expm1: 1.5,
    torch.log: 0.9,
    torch.log2: 1.2,
    torch.log10: 1.0,
    torch.log1p: 1.5,
    torch.tanh: 1.5,
    torch.sigmoid: 2.2,
    torch.nn.functional.silu: 2.2,
}
PIECE = 2048  # runs on the calling thread, whatever the operator costs


def dense_sample(step: int) -> torch.Tensor:
    """Floats of every exponent and both signs, `step` apart in their bits, and those at the edges of ranges."""
    every = torch.arange(-(1 << 31), 1 << 31, step).to(torch.int32)
    limits = [0.0, 1.0, 2.0, 0.5, 2**-0.5, 2**0.5, 2.0**-126, 2.0**-149, 2.0**127, 20.0, 30.0, 86.0, 87.33655, 88.0]
    limits += [88.37627, 88.72284, 89.0, 89.4, 103.97208, 104.0, 126.0, 127.0, 128.0, 149.0, 150.0, 151.0, float("inf")]
    edges = torch.tensor([*limits, float("nan")]).view(torch.int32)
    around = (edges[:, None] + torch.arange(-3, 4, dtype=torch.int32)).flatten()
    bits = torch.cat([every, edges, around, around ^ -(1 << 31)])
    return bits.view(torch.float32)


def pieces(x: torch.Tensor, inline: bool) -> Iterator[torch.Tensor]:
    xpu_ops.set_inline(inline)
    for piece in x.split(PIECE):
        on_xpu = piece.to("xpu")
        torch.xpu.synchronize()
        assert _C.inline_ready() == inline or not _C.host_accessible(0)
        yield on_xpu


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(x.isnan(), float("nan")).view({2: torch.int16, 4: torch.int32}[x.element_size()])


@pytest.mark.parametrize("function", BOUNDS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("inline", [False, True], ids=["device", "inline"])
def test_accuracy(function: Callable[[torch.Tensor], torch.Tensor], inline: bool) -> None:
    x = dense_sample(2003)
    y = torch.cat([function(p).cpu() for p in pieces(x, inline)])
    want = function(x.double())
    rounded = want.float()
    if function in (torch.sigmoid, torch.nn.functional.silu):
        # 1 + exp(-x) overflows, as torch CPU's does: subnormal results are lost.
        far = x < -88.72
        assert (y[far & x.isfinite()].abs() <= 1e-36).all()
        at_infinity = x == -torch.inf
        assert torch.equal(bits(y[at_infinity]), bits(function(x[at_infinity])))
        x, y, want, rounded = x[~far], y[~far], want[~far], rounded[~far]
    assert torch.equal(y.isnan(), rounded.isnan())
    special = rounded.isinf() | (want == 0)
    # A result that rounds to infinity may be the largest number.
    edge = rounded.isinf() & want.isfinite() & (y.abs() == torch.finfo(torch.float32).max)
    assert torch.equal(bits(y[special & ~edge]), bits(rounded[special & ~edge]))
    rest = ~special & ~rounded.isnan()
    exponent = torch.frexp(want[rest]).exponent.clamp(min=-125)
    error = (y[rest].double() - want[rest]).abs() * torch.exp2(24 - exponent.double())
    worst = int(error.argmax())
    assert error[worst] <= BOUNDS[function], (float(error[worst]), float(x[rest][worst]), float(y[rest][worst]))


def own_rows() -> list[dict[str, Any]]:
    """The rows whose kernels have such a function."""
    root = Path(__file__).resolve().parents[2]
    manifest = [row for family in load_dir(root / "kernels" / "manifest") for row in family.rows]
    own = {row.op for row in manifest if own_cost([str(row.expr)])}
    # _gated_unit writes into its first argument: models/test_vllm_kernels.py
    return [r for r in rows() if r["op"] in own and overload(r["functional"])._schema.returns]


def arguments(row: dict[str, Any], x: torch.Tensor) -> list[dict[str, Any]]:
    """Argument lists with `x` in every tensor, in other orders, and the samples of the row in turn."""
    generator = torch.Generator().manual_seed(0)
    sample = row["test"]["sample"]
    longest = max((len(v) for v in sample.values() if isinstance(v, list)), default=1)
    halves = [name for name, kind in row["test"]["args"].items() if kind == "half"]
    result = []
    for turn in range(longest):
        args: dict[str, Any] = {}
        for arg in overload(row["functional"])._schema.arguments:
            if str(arg.type) == "Tensor":
                # as many numbers near 1 as at the ends of the range
                near = (torch.randn(x.shape, generator=generator) * 3).to(x.dtype)
                other = torch.where(torch.rand(x.shape, generator=generator) < 0.5, near, x)
                value = x if not args else other[torch.randperm(len(x), generator=generator)]
                args[arg.name] = value if not halves or arg.name in halves else torch.cat([value, value.flip(0)])
            elif arg.name in sample:
                choice = sample[arg.name]
                args[arg.name] = choice[turn % len(choice)] if isinstance(choice, list) else choice
            elif arg.has_default_value():
                args[arg.name] = arg.default_value
            else:
                args[arg.name] = 0.5
        result.append(args)
    return result


@pytest.mark.skipif(not _C.host_accessible(0), reason="nothing runs inline where the host has no device memory")
@pytest.mark.parametrize("type_name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("row", own_rows(), ids=lambda r: r["op"])
def test_inline_has_the_bits_of_the_device(row: dict[str, Any], type_name: str) -> None:
    if type_name not in row["types"]:
        return
    op = overload(row["functional"])
    x = dense_sample(100003).to(TORCH_TYPES[type_name])
    for args in arguments(row, x[: len(x) // PIECE * PIECE]):
        count = len(x) // PIECE

        def results(inline: bool, args: dict[str, Any] = args, count: int = count) -> list[torch.Tensor]:
            xpu_ops.set_inline(inline)
            out = []
            for i in range(count):
                here = {
                    name: a.chunk(count)[i].contiguous().to("xpu") if isinstance(a, torch.Tensor) else a
                    for name, a in args.items()
                }
                torch.xpu.synchronize()
                assert _C.inline_ready() == inline
                made = op(**here)
                out += [r.cpu() for r in (made if isinstance(made, tuple) else (made,)) if r.numel()]
            return out

        for a, b in zip(results(False), results(True), strict=True):
            assert torch.equal(bits(a), bits(b))
