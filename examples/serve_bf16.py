"""Serves a bf16 decoder layer with fused operators: fewer passes over memory than the same layer one operator at a time."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F

import xpu_ops
from xpu_ops import fused, onednn

TOKENS, WIDTH, HIDDEN, HEADS = 256, 512, 1376, 8
HEAD = WIDTH // HEADS


def weights(device: str) -> dict[str, torch.Tensor]:
    shapes = {"qkv": (3 * WIDTH, WIDTH), "out": (WIDTH, WIDTH), "gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH)}
    shapes |= {"down": (WIDTH, HIDDEN), "norm": (WIDTH,)}
    drawn = {n: torch.randn(s) * s[-1] ** -0.5 if len(s) == 2 else torch.ones(s) for n, s in shapes.items()}
    return {n: t.to(device, torch.bfloat16) for n, t in drawn.items()}


def rotation(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, (TOKENS, HEAD / 2)."""
    angles = torch.arange(TOKENS)[:, None] * 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    return angles.cos().to(device, torch.bfloat16), angles.sin().to(device, torch.bfloat16)


def attention(x: torch.Tensor, w: dict[str, torch.Tensor], rotate) -> torch.Tensor:
    q, k, v = (t.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for t in F.linear(x, w["qkv"]).chunk(3, -1))
    mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
    return F.linear(mixed.transpose(1, 2).flatten(2), w["out"])


def fused_layer(x: torch.Tensor, w: dict[str, torch.Tensor], cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    mixed = attention(fused.rms_norm(x, w["norm"], 1e-6), w, lambda t: fused.rotary_embedding(t, cos, sin))
    normed, total = fused.add_rms_norm(mixed, x, w["norm"], 1e-6)
    gated = fused.gated_linear(normed, w["gate"], w["up"])
    return fused.linear(gated, w["down"], post_ops=["add"], operands=[total])


def plain_layer(x: torch.Tensor, w: dict[str, torch.Tensor], cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    def rotate(t: torch.Tensor) -> torch.Tensor:
        a, b = t.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    total = attention(F.rms_norm(x, (WIDTH,), w["norm"], 1e-6), w, rotate) + x
    normed = F.rms_norm(total, (WIDTH,), w["norm"], 1e-6)
    return F.linear(F.silu(F.linear(normed, w["gate"])) * F.linear(normed, w["up"]), w["down"]) + total


def milliseconds(call, rounds: int = 10) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        torch.xpu.synchronize()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    w, (cos, sin) = weights("xpu"), rotation("xpu")
    x = torch.randn(1, TOKENS, WIDTH).to("xpu", torch.bfloat16)
    with xpu_ops.fallback.forbid():  # an operator without a kernel would raise
        expected, got = plain_layer(x, w, cos, sin), fused_layer(x, w, cos, sin)
        error = ((got - expected).float().norm() / expected.float().norm()).item()
        one, all_at_once = (milliseconds(lambda f=f: f(x, w, cos, sin)) for f in (plain_layer, fused_layer))
    print(f"one by one {one:.2f} ms, fused {all_at_once:.2f} ms, relative difference {error:.1e}")
    cache = onednn.primitive_cache
    print(f"oneDNN primitives: {cache.size} created, {cache.hits} reused")
    assert error < 2e-2


if __name__ == "__main__":
    main()
