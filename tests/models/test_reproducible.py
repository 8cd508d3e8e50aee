"""The random state of the device: seeds, forks, saved states, dropout and sampling through whole models."""

from __future__ import annotations

from collections.abc import Callable

import modes
import pytest
import torch
import torch.nn.functional as F
import zoo
from torch import nn


def step(m: nn.Module, name: str) -> list[torch.Tensor]:
    m.zero_grad()
    loss = modes.loss_of(name, m, modes.move(modes.batch(name, labels=True), "xpu"))
    loss.backward()
    return [loss.detach().cpu(), *(p.grad.cpu() for p in m.parameters() if p.grad is not None)]


def with_dropout(name: str) -> nn.Module:
    """The family's model with dropout of 0.2 wherever it has a dropout layer."""
    m = modes.model(name, "xpu").train()
    found = [d for d in m.modules() if isinstance(d, nn.Dropout)]
    assert found
    for d in found:
        d.p = 0.2
    return m


@pytest.mark.parametrize("seed", [torch.manual_seed, torch.xpu.manual_seed], ids=["torch", "torch.xpu"])
@pytest.mark.parametrize("name", ["bert", "t5", "vit"])
def test_training_with_dropout_repeats(name: str, seed: Callable[[int], object]) -> None:
    """The same seed gives bit-equal losses and gradients; another seed does not."""
    m = with_dropout(name)
    runs = []
    for value in (5, 5, 6):
        seed(value)
        runs.append(step(m, name))
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not torch.equal(runs[0][0], runs[2][0])


@pytest.mark.parametrize("name", [f.name for f in zoo.FAMILIES.values() if f.sample])
def test_training_is_deterministic(name: str) -> None:
    """Without randomness two runs are equal to the bit: no kernel sums in an order of chance."""
    m = modes.model(name, "xpu").train()
    state = {k: v.clone() for k, v in m.state_dict().items()}
    first = step(m, name)
    m.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(first, step(m, name), strict=True))


def test_fork_rng() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="xpu"):
        torch.manual_seed(99)
        torch.rand(10, device="xpu")
    after = torch.rand(10, device="xpu").cpu()
    torch.manual_seed(1)
    assert torch.equal(torch.rand(10, device="xpu").cpu(), after)


def test_saved_state() -> None:
    m = with_dropout("bert")
    state = torch.xpu.get_rng_state()
    first = step(m, "bert")
    torch.xpu.set_rng_state(state)
    assert all(torch.equal(a, b) for a, b in zip(first, step(m, "bert"), strict=True))


def test_generators_are_independent() -> None:
    a, b = (torch.Generator("xpu").manual_seed(3) for _ in range(2))
    torch.manual_seed(0)
    x = torch.randn(100, device="xpu", generator=a)
    torch.randn(7, device="xpu")
    assert torch.equal(x, torch.randn(100, device="xpu", generator=b))
    assert not torch.equal(x, torch.randn(100, device="xpu", generator=a))


def test_sampling() -> None:
    """multinomial and generate(do_sample=True) repeat by seed and follow the distribution."""
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], device="xpu")
    draws = []
    for _ in range(2):
        torch.manual_seed(11)
        draws.append(torch.multinomial(p, 20000, replacement=True).cpu())
    assert torch.equal(*draws)
    frequency = torch.bincount(draws[0], minlength=4) / 20000
    torch.testing.assert_close(frequency, p.cpu(), atol=0.015, rtol=0)
    m = modes.model("llama", "xpu").eval()
    data = modes.move(modes.batch("llama", labels=False), "xpu")
    texts = []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        texts.append(m.generate(**data, max_new_tokens=8, do_sample=True).cpu())
    assert torch.equal(texts[0], texts[1]) and not torch.equal(texts[0], texts[2])


@pytest.mark.parametrize("kind", ["dropout", "dropout2d", "alpha", "attention", "gumbel", "rrelu"])
def test_random_layers_repeat(kind: str) -> None:
    x = torch.randn(2, 4, 16, 16, device="xpu")
    layers: dict[str, Callable[[], torch.Tensor]] = {
        "dropout": lambda: F.dropout(x, 0.3),
        "dropout2d": lambda: F.dropout2d(x, 0.3),
        "alpha": lambda: F.alpha_dropout(x, 0.3, training=True),
        "attention": lambda: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3),
        "gumbel": lambda: F.gumbel_softmax(x, hard=True),
        "rrelu": lambda: F.rrelu(x, training=True),
    }
    runs = []
    for _ in range(2):
        torch.manual_seed(2)
        runs.append(layers[kind]())
    assert torch.equal(*runs)
    assert not torch.equal(runs[0], layers[kind]())
