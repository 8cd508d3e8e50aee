"""Weights of 4 and 8 bits as the vLLM plugin multiplies with them, without vLLM: against the formula of each format in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from support import vllm_weights as checkpoints
from torch import Tensor

import xpu_ops
from xpu_ops.vllm import fewbits

N, K = 48, 256
BOUND = {torch.float32: 2e-6, torch.bfloat16: 6e-3, torch.float16: 1e-3}


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def off(got: Tensor, expected: Tensor) -> float:
    return float((got.double().cpu() - expected).norm() / expected.norm())


@pytest.mark.parametrize("bits", [4, 8])
def test_unpack(bits: int) -> None:
    values = torch.randint(0, 1 << bits, (16, 24))
    for dim in (0, 1):
        packed = checkpoints.pack(values, bits, dim)
        assert packed.dtype == torch.int32 and packed.numel() == values.numel() * bits // 32
        assert torch.equal(fewbits.unpack(packed.to("xpu"), bits, dim).cpu().long(), values)


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize(("bits", "group"), [(4, 16), (4, 64), (4, -1), (8, 32), (8, -1)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_weights(dtype: torch.dtype, rows: int, bits: int, group: int, symmetric: bool) -> None:
    q, scale, zero, weight = checkpoints.rounded(torch.randn(N, K), bits, group, symmetric)
    packed, scale = checkpoints.pack(q, bits, 1).to("xpu"), scale.t().to("xpu", dtype)
    zeros = None if symmetric else zero.t().int().to("xpu")
    x, bias = torch.randn(2, rows, K).to(dtype), torch.randn(N).to(dtype)
    made = (fewbits.Nibbles if bits == 4 else fewbits.Halves).of(packed, scale, zeros)
    expected = x.double() @ weight.double().t() + bias.double()
    assert off(made.product(x.to("xpu"), bias.to("xpu")), expected) < BOUND[dtype] * (2 if bits == 8 else 1)
    if bits == 8 and symmetric and group == -1:
        by_row = fewbits.Bytes.of(fewbits.centred_bytes(packed), scale, dtype)
        assert off(by_row.product(x.to("xpu"), bias.to("xpu")), expected) < BOUND[dtype]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("rows", [1, 8, 9, 40])
@pytest.mark.parametrize("form", ["w8a8", "w8a8 zeros", "w8a8 static", "w8a8 static zeros"])
def test_inputs_of_8_bits(dtype: torch.dtype, rows: int, form: str) -> None:
    given = checkpoints.FORMATS[form]["config_groups"]["group_0"]["input_activations"]
    tensors, weight = checkpoints.layer(torch.randn(N, K), checkpoints.FORMATS[form])
    on = {k: v.to("xpu") for k, v in tensors.items()}
    made = fewbits.Integers.of(
        fewbits.Bytes.of(on["weight"], on["weight_scale"], dtype), given["symmetric"], on.get("input_scale"), on.get("input_zero_point")
    )  # fmt: skip
    x = torch.randn(rows, K).to(dtype)
    expected = checkpoints.round_inputs(given, x.float()).double() @ weight.double().t()
    assert off(made.product(x.to("xpu")), expected) < BOUND[dtype]
    # A row's values do not depend on how many come with it, but for the last rounding.
    assert off(made.product(x[:1].to("xpu")), expected[:1]) < 2 * BOUND[dtype]


def test_rows_of_zeros_and_of_no_number() -> None:
    weight = fewbits.Bytes.of(
        torch.ones(8, 16, dtype=torch.int8, device="xpu"), torch.ones(8, device="xpu"), torch.float32
    )
    for rows in (3, 12):
        x = torch.randn(rows, 16)
        x[0], x[1, 3], x[2, 5] = 0, float("nan"), float("inf")
        for symmetric in (True, False):
            y = fewbits.Integers.of(weight, symmetric).product(x.to("xpu")).cpu()
            assert (y[0] == 0).all() and not y[1:3].isfinite().any() and y[3:].isfinite().all()


def test_groups_that_do_not_fit() -> None:
    assert fewbits.group_of(512, -1) == 256 and fewbits.group_of(96, 96) == 32 and fewbits.group_of(512, 128) == 128
    assert fewbits.group_of(512, 8) is None
    with pytest.raises(ValueError, match="no kernel has 4 groups of 32 columns"):
        fewbits.Nibbles.of(torch.zeros(8, 4, dtype=torch.int32), torch.ones(4, 8), None)
