"""torchao's quantised linear layers on xpu: values of torchao's own formula, by the kernels for weights of few bits."""

from __future__ import annotations

import copy
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import xpu_ops

torchao = pytest.importorskip("torchao")
from torchao.quantization import (  # noqa: E402
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    PerGroup,
    quantize_,
)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128, bias=False)).bfloat16().eval()


def off(a: Tensor, b: Tensor) -> float:
    return float((a.double().cpu() - b.double()).norm() / b.double().norm())


def operators(model: nn.Module, x: Tensor) -> tuple[Tensor, set[str]]:
    with xpu_ops.trace_ops() as trace, torch.no_grad():
        out = model(x)
    return out, {operator.name for operator in trace.operators}


CASES: dict[str, tuple[Any, str, float]] = {
    "int8": (Int8WeightOnlyConfig(), "_weight_int8pack_mm", 0.02),
    "int8 dynamic": (Int8DynamicActivationInt8WeightConfig(), "_int_mm", 0.04),
} | {
    f"int4 {form}": (
        Int4WeightOnlyConfig(group_size=64, int4_packing_format=form),
        "_weight_int4pack_mm_with_scales_and_zeros",
        0.2,
    )
    for form in ("plain", "plain_int32", "preshuffled", "tile_packed_to_4d")
}


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("case", CASES)
def test_layers(case: str, rows: int) -> None:
    config, operator, bound = CASES[case]
    reference, x = net().float(), torch.randn(rows, 256).bfloat16()
    model = net().to("xpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_(model, config)
    out, names = operators(model, x.to("xpu"))
    assert operator in names
    assert not names & {"mm", "addmm"}
    assert 0 < off(out, reference(x.float())) < bound


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.skipif(shutil.which("g++") is None, reason="exporting a model needs g++")
def test_packages(case: str, tmp_path: Path) -> None:
    config, operator, bound = CASES[case]
    model, x = net().to("xpu"), torch.randn(4, 256, device="xpu").bfloat16()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_(model, config)
    with torch.no_grad(), xpu_ops.fallback.forbid():
        expected = model(x)
        program = torch.export.export(model, (x,))
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))
        assert off(torch._inductor.aoti_load_package(path)(x), expected.float().cpu()) < bound
    with zipfile.ZipFile(path) as archive:
        assert any(operator.encode() in archive.read(n) for n in archive.namelist() if n.endswith(".so"))


def test_int8_equals_torchaos_formula() -> None:
    model = net()
    quantize_(model, Int8WeightOnlyConfig())
    x = torch.randn(3, 2, 256).bfloat16()
    with torch.no_grad():
        expected = model(x)
        out = copy.deepcopy(model).to("xpu")(x.to("xpu"))
    assert out.shape == expected.shape
    assert off(out, expected.float()) < 1e-2


def test_groups_of_int8_stay_torchaos() -> None:
    model = net().to("xpu")
    quantize_(model, Int8WeightOnlyConfig(granularity=PerGroup(64)))
    x = torch.randn(2, 256).bfloat16()
    out, names = operators(model, x.to("xpu"))
    assert "_weight_int8pack_mm" not in names
    assert off(out, net().float()(x.float())) < 0.02


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_pass_a_layer_of_8_bits(compiled: bool) -> None:
    """Adapters train beside frozen weights, and a bias before the layer asks for gradients of its input."""
    grads = []
    for device in ("cpu", "xpu"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 8)).to(device)
        quantize_(model[2], Int8WeightOnlyConfig())
        x = torch.randn(4, 16).to(device)
        run = torch.compile(model) if compiled and device == "xpu" else model
        run(x).square().sum().backward()
        grads.append(model[0].weight.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])
