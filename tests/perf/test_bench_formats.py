"""The layers of the command for formats: codes, scales, products, and the table."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from xpu_ops.bench import formats, generation

ERRORS = {"mxfp8": 0.1, "fp8 block": 0.06, "mxfp4": 0.3, "nvfp4": 0.2, "int8": 0.02, "int4": 0.12}


def test_nibbles_are_the_nearest() -> None:
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
    x = torch.linspace(-8, 8, 4002)
    both = formats._e2m1(x).view(torch.uint8)
    codes = torch.stack([both & 15, both >> 4], 1).flatten().long()
    got = torch.where(codes > 7, -values[codes & 7], values[codes & 7])
    distance = (x.double().clamp(-6, 6)[:, None].abs() - values).abs().amin(1)
    assert torch.equal((got - x.double().clamp(-6, 6)).abs(), distance)
    ties = formats._e2m1(torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0])).view(torch.uint8)
    assert ties.tolist() == [0x20, 0x42, 0x64, 0xE6]  # the even code of two


@pytest.mark.parametrize("name", ERRORS)
def test_layers(name: str) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(256, 384, bias=False).bfloat16()
    x = torch.randn(1, 1, 256).bfloat16()
    make = formats.FORMATS[name]
    assert make is not None
    made = make(copy.deepcopy(layer)).to("xpu")
    with torch.no_grad():
        expected, got, compiled = layer(x).float(), made(x.to("xpu")), torch.compile(made)(x.to("xpu"))
    assert got.shape == expected.shape and got.dtype == torch.bfloat16
    assert 0 < float((got.cpu().float() - expected).norm() / expected.norm()) < ERRORS[name]
    assert float((got - compiled).float().norm() / got.float().norm()) < 0.02


def test_the_table_has_a_line_per_format(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    small = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "vocab_size": 128}
    monkeypatch.setattr(generation, "_SIZES", generation._SIZES | small | {"num_attention_heads": 4})
    monkeypatch.setattr(torch, "compile", lambda model: model)
    import typer

    app = typer.Typer()
    app.command()(formats.main)
    done = CliRunner().invoke(app, ["--only", "mxfp4", "--rounds", "2"])
    assert done.exit_code == 0, done.output
    lines = [line.split("│")[1].strip() for line in done.output.splitlines() if "│" in line]
    assert lines == ["bf16", "mxfp4"]
    assert CliRunner().invoke(app, ["--only", "mxfp5"]).exit_code == 2
