"""mode="reduce-overhead": a static graph of inference is recorded and replayed (xpu_ops/inductor/replay.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xpu_ops.inductor.replay import Recording, Replayed


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """Recordings in the order of their replays."""
    seen: list[Recording] = []
    replay = Recording.replay

    def counted(self: Recording, inputs: list[Any]) -> list[Tensor] | None:
        results = replay(self, inputs)
        if results is not None:
            seen.append(self)
        return results

    monkeypatch.setattr(Recording, "replay", counted)
    return seen


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.b1, self.c2 = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 1)
        self.c3, self.last = nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Linear(16, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.b1(self.c1(x)))
        x = x + F.hardswish(self.c3(F.relu(self.c2(x))))
        return self.last(x.mean((2, 3)))


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval().to("xpu")


def image() -> Tensor:
    return torch.randn(2, 3, 32, 32, device="xpu")


def compiled(f: Any) -> Callable[..., Any]:
    return torch.compile(f, mode="reduce-overhead")


def same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("freezing", [False, True])
def test_a_graph_is_replayed(replays: list[Recording], freezing: bool) -> None:
    model = net()
    with torch._inductor.config.patch(freezing=freezing):
        f = compiled(model)
        images = [image() for _ in range(8)]
        got = [f(x) for x in images]  # results stay: the recording's own are copied
    assert len(replays) >= 5 and len(set(map(id, replays))) == 1
    for x, y in zip(images, got, strict=True):
        same(y, model(x))


@pytest.mark.parametrize("write", [lambda w: w.mul_(2), lambda w: w.data.mul_(2), lambda w: w.detach().neg_()])
def test_written_weights_are_seen(replays: list[Recording], write: Callable[[Tensor], Any]) -> None:
    model, x = net(), image()
    f = compiled(model)
    for _ in range(5):
        f(x)
    for weight in (model.c2.weight, model.last.weight, model.c3.weight):
        write(weight)
        same(f(x), model(x))
    before = len(replays)
    for _ in range(5):
        same(f(x), model(x))
    assert len(replays) > before and replays[-1] is not replays[0]


def test_another_weight_is_seen(replays: list[Recording]) -> None:
    model, x = net(), image()
    f = compiled(model)
    for _ in range(5):
        f(x)
    assert replays
    model.c2.weight.data = torch.randn_like(model.c2.weight)
    same(f(x), model(x))
    model.load_state_dict({k: v + 0.1 if v.is_floating_point() else v for k, v in model.state_dict().items()})
    same(f(x), model(x))


def test_draws_differ_and_follow_the_seed(replays: list[Recording]) -> None:
    x, one = torch.ones(32, 32, device="xpu"), torch.eye(32, device="xpu")
    f = compiled(lambda x: F.dropout(x, 0.5, training=True) @ one @ one @ one + torch.rand_like(x))

    def drawn() -> list[Tensor]:
        torch.manual_seed(3)
        return [f(x) for _ in range(3)]

    for _ in range(2):
        f(x)
    first, second = drawn(), drawn()
    assert len(replays) >= 6
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.add_(1),  # writes its input
        lambda x: (x.t(), x + 1),  # a view
        lambda x: torch.nonzero(x > 0) + 1,  # waits for a count
        lambda x: (x + 1).expand(4, -1, -1),
    ],
)
def test_other_graphs_are_called(replays: list[Recording], f: Callable[[Tensor], Any]) -> None:
    g, x = compiled(f), torch.randn(8, 4, device="xpu")
    other = x.clone()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for _ in range(6):
            torch.testing.assert_close(g(x), f(other))
            torch.testing.assert_close(x, other)
    assert not replays


def test_sizes_that_change(replays: list[Recording]) -> None:
    def g(x: Tensor) -> Tensor:
        return x.sin().sort(0).values.cumsum(1).sort(1).values * 2 + x.sum(0)

    f = compiled(g)
    for rows in (4, 4, 4, 4, 7, 4, 9, 9, 9, 9):
        x = torch.randn(rows, 5, device="xpu")
        same(f(x), g(x))
    assert replays


def test_another_stream_and_a_profile(replays: list[Recording]) -> None:
    model, x = net(), image()
    f, want = compiled(model), model(x)
    for _ in range(5):
        f(x)
    before = len(replays)
    torch.xpu.synchronize()
    with torch.xpu.stream(torch.xpu.Stream()):
        y = f(x)
        torch.xpu.synchronize()
        same(y, want)
    with torch.profiler.profile() as profile:
        same(f(x), want)
    assert len(replays) == before
    assert any("convolution" in e.key for e in profile.key_averages())
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        y = f(x)
    graph.replay()
    same(y, want)


def test_threads_at_once(replays: list[Recording]) -> None:
    model = net()
    f = compiled(model)
    for _ in range(5):
        f(image())
    images = [image() for _ in range(4)]
    wanted = [model(x) for x in images]
    wrong: list[BaseException] = []

    def work(x: Tensor, want: Tensor) -> None:
        try:
            with torch.no_grad():
                for _ in range(20):
                    same(f(x), want)
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=a) for a in zip(images, wanted, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and replays


def test_weights_that_are_written_each_time_are_not_recorded(replays: list[Recording]) -> None:
    model, x = net(), image()
    f = compiled(model)
    for _ in range(8):
        model.c1.bias.add_(0.1)
        same(f(x), model(x))
    assert not replays


def test_recordings_of_a_graph_are_counted() -> None:
    w, x = torch.ones(4, device="xpu"), torch.ones(4, device="xpu")
    ends: list[int] = []
    f = Replayed(lambda inputs: [inputs[0] * inputs[1] * 1 * 1 * 1], [0], lambda: ends.append(1))
    made = 0
    for i in range(60):
        if i % 3 == 0:
            w.add_(1)
        (got,) = f([w, x])
        assert torch.equal(got, w * x)
        made += f._recording is not None
    assert f._left == 0 and made == 15 and ends == [1]


def test_a_few_commands_are_called(replays: list[Recording]) -> None:
    f, x = compiled(lambda x: x.sin() * 2), torch.ones(8, device="xpu")
    for _ in range(5):
        same(f(x), x.sin() * 2)
    assert not replays


def test_inference_mode(replays: list[Recording]) -> None:
    model = net()
    f = compiled(model)
    with torch.inference_mode():
        for _ in range(6):
            x = image()
            same(f(x), model(x))
    assert replays
