"""Tokens per second of one sequence by the format of the weights: `python -m xpu_ops.bench.formats`.

The step is that of the section `generation` with a static cache, compiled, as `generate` compiles it. Formats with scales go through
`torch.nn.functional.scaled_mm`, which wants both operands in the format: the layers quantise their input at each call.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import ScalingType, scaled_mm

from xpu_ops.vllm.kernels.common import to_e2m1

from . import generation

# How many times the tokens of bf16 each format is meant to give.
WANTED = {"mxfp8": 1.6, "fp8 block": 1.6, "mxfp4": 2.5, "nvfp4": 2.5, "int8": 1.7, "int4": 2.8}
PROMPT = 64
_E4M3_MOST, _E2M1_MOST = 448.0, 6.0
Quantised = tuple[Tensor, Tensor]


def _e2m1(x: Tensor) -> Tensor:
    return to_e2m1(x).view(torch.float4_e2m1fn_x2)


def _e4m3(x: Tensor) -> Tensor:
    return x.clamp(-_E4M3_MOST, _E4M3_MOST).to(torch.float8_e4m3fn)


def mx(x: Tensor, nibbles: bool) -> Quantised:
    """Codes and scales of e8m0 per 32 values of a matrix: the exponent of the largest less that of the format's largest."""
    blocks = x.float().unflatten(1, (-1, 32))
    largest = blocks.abs().amax(2, keepdim=True)
    exponent = ((largest.view(torch.int32) >> 23) - (2 if nibbles else 8)).clamp(1, 254)
    values = (blocks * ((254 - exponent) << 23).view(torch.float32)).flatten(1)
    return (_e2m1 if nibbles else _e4m3)(values), exponent.squeeze(2).to(torch.uint8).view(torch.float8_e8m0fnu)


def nv(x: Tensor) -> Quantised:
    """Nibbles and scales of e4m3 per 16 values of a matrix."""
    blocks = x.float().unflatten(1, (-1, 16))
    scale = _e4m3((blocks.abs().amax(2, keepdim=True) / _E2M1_MOST).clamp(min=2.0**-6))
    return _e2m1((blocks / scale.float()).flatten(1)), scale.squeeze(2)


def block(x: Tensor, rows: int) -> Quantised:
    """e4m3 and a scale of float32 per `rows` x 128 values of a matrix."""
    blocks = x.float().unflatten(1, (-1, 128)).unflatten(0, (-1, rows))
    scale = blocks.abs().amax((1, 3), keepdim=True).clamp(min=1e-12) / _E4M3_MOST
    return _e4m3(blocks / scale).flatten(2).flatten(0, 1), scale.squeeze(3).squeeze(1)


class Scaled(nn.Module):
    """A linear layer without a bias by `scaled_mm`.

    Args:
        layer: the layer whose weight, (outputs, inputs), is quantised; both multiples of 128.
        left: codes and scales of the input.
        right: codes and scales of the weight.
        recipes: the recipes of both.
    """

    def __init__(
        self,
        layer: nn.Linear,
        left: Callable[[Tensor], Quantised],
        right: Callable[[Tensor], Quantised],
        recipes: tuple[ScalingType, ScalingType],
    ) -> None:
        super().__init__()
        self.quantise, self.recipes = left, recipes
        codes, scales = right(layer.weight.detach())
        self.register_buffer("codes", codes)
        # `scaled_mm` takes the scales of blocks of 128 x 128 columns first, as the weight itself.
        self.register_buffer("scales", scales.t() if recipes[1] == ScalingType.BlockWise128x128 else scales)

    def forward(self, x: Tensor) -> Tensor:
        codes, scales = self.quantise(x.flatten(0, -2))
        left, right = self.recipes
        out = scaled_mm(codes, self.codes.t(), scales, left, self.scales, right, output_dtype=x.dtype)
        return out.unflatten(0, x.shape[:-1])


_32, _16 = ScalingType.BlockWise1x32, ScalingType.BlockWise1x16
_128, _SQUARE = ScalingType.BlockWise1x128, ScalingType.BlockWise128x128
_MX8, _MX4 = partial(mx, nibbles=False), partial(mx, nibbles=True)
FORMATS: dict[str, Callable[[nn.Linear], nn.Module] | None] = generation.WEIGHTS | {
    "mxfp8": lambda layer: Scaled(layer.to("xpu"), _MX8, _MX8, (_32, _32)),
    "fp8 block": lambda layer: Scaled(
        layer.to("xpu"), partial(block, rows=1), partial(block, rows=128), (_128, _SQUARE)
    ),
    "mxfp4": lambda layer: Scaled(layer.to("xpu"), _MX4, _MX4, (_32, _32)),
    "nvfp4": lambda layer: Scaled(layer.to("xpu"), nv, nv, (_16, _16)),
}


def in_turns(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds per step of each, and seconds of them in which this thread computed; all steps in turn in each round."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            step()  # the first behind another's finds the caches with the other's data
            torch.xpu.synchronize()
            begin, host = time.perf_counter(), time.thread_time()
            step()
            queued = time.thread_time() - host
            torch.xpu.synchronize()
            times[name][0].append(time.perf_counter() - begin)
            times[name][1].append(queued)
    return times


def main(
    only: Annotated[str, typer.Option(help="formats with commas between; bf16 is always there")] = ",".join(FORMATS),
    rounds: Annotated[int, typer.Option(help="turns of each format")] = 15,
    layers: Annotated[
        int, typer.Option(help="layers of the model; its other sizes are those of llama of 1.1 billion")
    ] = 3,
) -> None:
    """Prints tokens per second of a llama-like model by the format of its weights. All of the models are held at once."""
    names = list(dict.fromkeys(["bf16", *only.split(",")]))
    if unknown := [name for name in names if name not in FORMATS]:
        raise typer.BadParameter(f"--only: {unknown[0]!r} is none of {', '.join(FORMATS)}")
    steps: dict[str, Callable[[], object]] = {}
    megabytes = {}
    token = torch.zeros((1, 1), dtype=torch.int64, device="xpu")
    base = generation.model(layers)
    for name in names:
        print(f"{name}: quantised and compiled", file=sys.stderr, flush=True)
        made = generation.replaced(copy.deepcopy(base), FORMATS[name]).to("xpu")
        megabytes[name] = generation.bytes_read(made) / 1e6
        steps[name] = partial(generation.Step({"xpu": made}, torch.zeros((1, PROMPT), dtype=torch.int64), True), token)
        with torch._dynamo.config.patch(recompile_limit=4 * len(FORMATS)):  # all models run the code of one class
            steps[name]()
    times = in_turns(steps, rounds)
    table = Table("weights", "MB per step", "tokens/s", "of bf16", "wanted", "ms", "host ms", "GB/s")
    wide = times["bf16"][0]
    for name, (walls, hosts) in times.items():
        ratio = statistics.median(w / s for w, s in zip(wide, walls, strict=True))
        step = statistics.median(walls)
        table.add_row(
            name, f"{megabytes[name]:.0f}", f"{1 / step:.0f}", f"{ratio:.2f}", f"{WANTED.get(name, 1):.1f}",
            f"{1e3 * step:.2f}", f"{1e3 * statistics.median(hosts):.2f}", f"{megabytes[name] / step / 1e3:.1f}",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
