"""Trains a small GPT to copy sequences, on xpu and on the CPU from the same seed: only the device name differs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, LENGTH, WIDTH, STEPS = 16, 8, 64, 45


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each with a residual: (N, T, WIDTH) -> the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tokens (N, T) -> logits (N, T, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.blocks(x))


def train(device: str) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(STEPS):
        half = torch.randint(VOCABULARY, (64, LENGTH))  # drawn on the CPU, so that both devices see the same
        tokens = half.repeat(1, 2).to(device)
        logits = model(tokens[:, :-1])[:, LENGTH - 1 :]
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, LENGTH:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    xpu, cpu = train("xpu"), train("cpu")
    for step in range(0, STEPS, 15):
        print(f"step {step:3}: xpu {xpu[step]:.4f}, cpu {cpu[step]:.4f}")
    print(f"last step: xpu {xpu[-1]:.4f}, cpu {cpu[-1]:.4f}")
    assert xpu[-1] < xpu[0] / 2, "the model does not learn"
    assert max(abs(a - b) for a, b in zip(xpu[:20], cpu[:20], strict=True)) < 1e-2, "the curves differ"


if __name__ == "__main__":
    main()
