"""Graphs of the CPU device hold more than kernels: products and convolutions of oneDNN, random numbers, copies."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import xpu_ops


@pytest.fixture(autouse=True)
def no_fallback():
    with xpu_ops.fallback.forbid():
        yield


def capture(work: Callable[[], object]) -> torch.xpu.XPUGraph:
    """After three calls on a side stream, as torch.xpu.make_graphed_callables does it."""
    side = torch.xpu.Stream()
    side.wait_stream(torch.xpu.current_stream())
    with torch.xpu.stream(side):
        for _ in range(3):
            work()
    torch.xpu.current_stream().wait_stream(side)
    torch.xpu.synchronize()
    g = torch.xpu.XPUGraph()
    with torch.xpu.graph(g):
        work()
    return g


def values(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to("xpu")


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.cpu().view(torch.uint8), b.cpu().view(torch.uint8))


# ---- oneDNN

X2, X4 = (96, 256), (2, 16, 20, 20)
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(256, 384), nn.GELU(), nn.Linear(384, 128)), X2),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32).eval(), nn.ReLU()), X4),
    "transposed": (lambda: nn.ConvTranspose2d(16, 8, 3, stride=2), X4),
    "lstm": (lambda: nn.LSTM(64, 96), (5, 8, 64)),
    "attention": (lambda: nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True).eval(), (2, 80, 64)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.no_grad()
def test_layers_replay_with_the_bits_of_eager(name: str, dtype: torch.dtype) -> None:
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    module = make().to("xpu", dtype)
    x, out = values(*shape, dtype=dtype), []

    def work() -> None:
        y = module(x)
        out[:] = [y[0] if isinstance(y, tuple) else y]

    g = capture(work)
    for seed in (5, 6):
        x.copy_(values(*shape, seed=seed, dtype=dtype))
        g.replay()
        got = out[0].clone()
        want = module(x.clone())
        assert same_bits(got, want[0] if isinstance(want, tuple) else want)


@torch.no_grad()
def test_weights_that_change_between_replays() -> None:
    layer, x = nn.Linear(256, 320).to("xpu"), values(64, 256)
    out: list[Tensor] = []
    g = capture(lambda: out.__setitem__(slice(None), [layer(x)]))
    for factor in (2.0, -0.5):
        layer.weight.mul_(factor)
        layer.bias.add_(factor)
        g.replay()
        assert same_bits(out[0], layer(x))
    layer.weight.data = values(320, 256, seed=9)  # other memory: the graph keeps the old one
    g.replay()
    assert not same_bits(out[0], layer(x))


def test_a_product_between_kernels_and_copies() -> None:
    a, b, c = values(128, 200), values(200, 160, seed=1), torch.empty(128, 160, device="xpu")
    g = capture(lambda: c.copy_(((a * 2) @ b + 1).relu()))
    for _ in range(3):
        c.zero_()
        a.add_(0.25)
        g.replay()
        assert same_bits(c, ((a * 2) @ b + 1).relu())


def test_replays_in_a_row_need_no_wait() -> None:
    x, w = values(64, 64), values(64, 64, seed=1) * 0.05
    y = x.clone()
    g = capture(lambda: y.copy_(y @ w + x))
    y.copy_(x)
    for _ in range(200):
        g.replay()
    want = x.clone()
    for _ in range(200):
        want = want @ w + x
    assert same_bits(y, want)


def test_other_work_stands_before_and_after() -> None:
    x, w = values(256, 256), values(256, 256, seed=1)
    y = torch.empty_like(x)
    g = capture(lambda: y.copy_(x @ w))
    for i in range(20):
        x.fill_(float(i))
        g.replay()
        x.fill_(-1.0)
        assert same_bits(y, torch.full_like(x, float(i)) @ w)


def test_a_replay_while_a_profile_runs() -> None:
    x, w = values(64, 256), values(256, 256, seed=1)
    y = torch.empty_like(x)
    g = capture(lambda: y.copy_(x @ w))
    with torch.profiler.profile():
        y.zero_()
        g.replay()
    assert same_bits(y, x @ w)


def test_a_replay_on_a_queue_of_others() -> None:
    x, w = values(64, 256), values(256, 256, seed=1)
    y = torch.empty_like(x)
    g = capture(lambda: y.copy_(x @ w))
    stream = torch.xpu.Stream()
    assert stream.sycl_queue
    with torch.xpu.stream(stream):
        g.replay()
    torch.xpu.synchronize()
    assert same_bits(y, x @ w)


# ---- random numbers

N = 5000
DRAWS: dict[str, Callable[[], Tensor]] = {
    "rand": lambda: torch.rand(N, device="xpu"),
    "randn": lambda: torch.randn(N, device="xpu", dtype=torch.bfloat16),
    "double": lambda: torch.rand(N, device="xpu", dtype=torch.float64),
    "randint": lambda: torch.randint(0, 1000, (N,), device="xpu"),
    "bernoulli": lambda: torch.full((N,), 0.3, device="xpu").bernoulli(),
    "exponential": lambda: torch.empty(N, device="xpu").exponential_(),
    "poisson": lambda: torch.poisson(torch.full((N,), 3.0, device="xpu")),
    "gamma": lambda: torch._standard_gamma(torch.full((N,), 0.7, device="xpu")),
    "dropout": lambda: F.dropout(torch.ones(N, device="xpu"), 0.4),
    "rrelu": lambda: F.rrelu(torch.full((N,), -1.0, device="xpu"), training=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_go_on_and_repeat_with_the_seed(name: str) -> None:
    out: list[Tensor] = []
    g = capture(lambda: out.__setitem__(slice(None), [DRAWS[name](), DRAWS[name]()]))

    def replays() -> list[Tensor]:
        torch.xpu.manual_seed(7)
        seen = []
        for _ in range(3):
            g.replay()
            seen += [t.clone() for t in out]
        return seen

    first, second = replays(), replays()
    torch.xpu.manual_seed(7)
    eager = [DRAWS[name]() for _ in range(6)]
    for one, two, three in zip(first, second, eager, strict=True):
        assert same_bits(one, two)
        assert same_bits(one, three)
    assert len({t.cpu().float().sum().item() for t in first}) > 1
    after = DRAWS[name]()  # what is drawn later goes on behind the replays
    torch.xpu.manual_seed(7)
    for _ in range(6):
        DRAWS[name]()
    assert same_bits(after, DRAWS[name]())


def test_generators() -> None:
    own, state = torch.Generator("xpu").manual_seed(3), torch.xpu.default_generators[0].get_state()
    x = torch.empty(1000, device="xpu")
    x.uniform_(generator=own)
    g = torch.xpu.XPUGraph()
    with pytest.raises(RuntimeError, match="register_generator_state"), torch.xpu.graph(g):
        x.uniform_(generator=own)
    g = torch.xpu.XPUGraph()
    g.register_generator_state(own)
    with torch.xpu.graph(g):
        x.uniform_(generator=own)
    own.manual_seed(5)
    g.replay()
    first = x.clone()
    g.replay()
    assert not torch.equal(first, x)
    own.manual_seed(5)
    assert same_bits(first, torch.empty(1000, device="xpu").uniform_(generator=own))
    assert torch.equal(torch.xpu.default_generators[0].get_state(), state)
    with pytest.raises(RuntimeError, match="before the capture begins"):
        g.register_generator_state(own)
    with pytest.raises(RuntimeError, match="Expected a 'xpu' device type"):
        torch.xpu.XPUGraph().register_generator_state(torch.Generator())


def test_attention_dropout_repeats_in_its_backward_graph() -> None:
    q, k, v = (values(2, 4, 40, 32, seed=s).requires_grad_() for s in range(3))
    grad = values(2, 4, 40, 32, seed=4)

    def step() -> tuple[Tensor, ...]:
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        return (y.detach(), *torch.autograd.grad(y, (q, k, v), grad))

    out: list[Tensor] = []
    g = capture(lambda: out.__setitem__(slice(None), step()))
    torch.xpu.manual_seed(11)
    g.replay()
    first = [t.clone() for t in out]
    g.replay()
    second = [t.clone() for t in out]
    assert not torch.equal(first[0], second[0])
    torch.xpu.manual_seed(11)
    for seen in (first, second):
        for one, two in zip(seen, step(), strict=True):
            assert same_bits(one, two)


def encoder(dropout: float) -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(64, 4, 128, dropout, batch_first=True).to("xpu")


def test_graphed_transformer_layer_with_dropout() -> None:
    """Training with forward and backward as graphs: the draws and the bits of eager training."""
    plain, module = encoder(0.2), encoder(0.2)
    sample = values(2, 24, 64).requires_grad_()
    graphed = torch.xpu.make_graphed_callables(module, (sample,))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (plain, module)]
    seen = []
    for step in range(3):
        results = []
        for call, optimizer in zip((plain, graphed), optimizers, strict=True):
            torch.xpu.manual_seed(100 + step)
            x = values(2, 24, 64, seed=step).requires_grad_()
            optimizer.zero_grad()
            y = call(x)
            y.square().mean().backward()
            optimizer.step()
            results.append([y.detach().clone(), x.grad, *(p.detach().clone() for p in call.parameters())])
        for ours, theirs in zip(*results, strict=True):
            assert same_bits(ours, theirs)
        seen.append(results[1][0])
    x = values(2, 24, 64)
    torch.xpu.manual_seed(1)
    first, second = graphed(x).detach().clone(), graphed(x).detach().clone()
    assert not torch.equal(first, second)
    torch.xpu.manual_seed(1)
    assert same_bits(first, graphed(x).detach())


class Decoder(nn.Module):
    """One step of decoding: a layer whose keys and values grow by index."""

    def __init__(self, size: int, heads: int, length: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, length, size // heads))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = torch.arange(self.keys.shape[2], device=x.device) <= place
        a = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen.view(1, 1, 1, -1))
        x = x + F.dropout(self.out(a.transpose(1, 2).reshape(x.shape)), self.dropout)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_step_of_decoding(dropout: float) -> None:
    """The bits of eager; dropout differs from step to step and repeats with the seed; a third of the host's time."""
    torch.manual_seed(0)
    layers = [Decoder(128, 4, 32, dropout).to("xpu", torch.bfloat16) for _ in range(4)]
    x, place = values(1, 1, 128, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.int64, device="xpu")
    result: list[Tensor] = []

    def step() -> None:
        y = x
        for layer in layers:
            y = layer(y, place)
        result[:] = [y]

    def steps(one: Callable[[], None]) -> list[Tensor]:
        torch.manual_seed(7)
        outs = []
        for i in range(4):
            place.fill_(i)
            one()
            outs.append(result[0].clone())
        return outs

    def host_time(one: Callable[[], None]) -> float:
        times = []
        for _ in range(40):
            begin = time.thread_time()
            one()
            times.append(time.thread_time() - begin)
            torch.xpu.synchronize()
        return min(times)

    with torch.no_grad():
        eager = steps(step)
        g = capture(step)
        recorded = result[0]
        replayed, again = steps(g.replay), steps(g.replay)
        assert host_time(g.replay) < host_time(step) / 3
    assert all(same_bits(a, b) for a, b in zip(replayed, again, strict=True))
    assert all(same_bits(a, b) for a, b in zip(eager, replayed, strict=True))
    if dropout:
        drawn = []
        for _ in range(2):
            g.replay()
            drawn.append(recorded.clone())
        assert not same_bits(*drawn)
