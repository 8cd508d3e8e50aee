"""The primitive cache and the cache of packed weights, from Python."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
import torch
from support import script
from support.modes import GPU_POLICY
from torch import nn

from xpu_ops import onednn


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    capacity, budget = onednn.primitive_cache.capacity, onednn.weight_cache.budget
    onednn.primitive_cache.clear()
    onednn.weight_cache.clear()
    yield
    onednn.primitive_cache.capacity = capacity
    onednn.weight_cache.budget = budget


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.linear = nn.Linear(8 * 16 * 16, 32)
        self.head = nn.Linear(32, 2048)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(self.second(self.first(x)))
        return self.head(self.linear(x.flatten(1)))


@pytest.fixture
def net() -> Net:
    return Net().to("xpu")


def batch() -> torch.Tensor:
    return torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(1)).to("xpu")


def test_a_weight_that_is_computed_at_each_call_is_not_packed() -> None:
    x, w = torch.randn(64, 256, device="xpu"), torch.randn(256, 256, device="xpu")
    with torch.no_grad():
        for _ in range(20):
            v = w * 2
            nn.functional.linear(x, v)
            del v  # the next one's storage may have its address
        assert onednn.weight_cache.packs == 0
        for _ in range(3):
            nn.functional.linear(x, w)
        assert onednn.weight_cache.packs == 1


def test_second_pass_creates_and_packs_nothing(net: Net) -> None:
    x = batch()
    with torch.no_grad():
        first = net(x).cpu()
        assert onednn.weight_cache.packs == 5
        created, packed = onednn.primitive_cache.misses, onednn.weight_cache.packs
        second = net(x).cpu()
    assert onednn.primitive_cache.misses == created > 0
    assert onednn.weight_cache.packs == packed
    assert onednn.weight_cache.hits >= 5
    assert torch.equal(first, second)
    with torch.no_grad():
        torch.testing.assert_close(first, net.cpu()(x.cpu()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["add_", "data", "copy_", "set_item", "view", "as_cpu"])
@pytest.mark.parametrize("layer", ["first", "up", "linear"])
def test_update_repacks_exactly_that_weight(net: Net, how: str, layer: str) -> None:
    import xpu_ops

    x = batch()
    weight = getattr(net, layer).weight
    with torch.no_grad():
        net(x)
        packed = onednn.weight_cache.packs
        if how == "add_":
            weight.add_(1)
        elif how == "data":
            weight.data.mul_(2)  # does not move the version of weight
        elif how == "copy_":
            weight.copy_(weight.cpu() + 1)
        elif how == "set_item":
            weight[0] = 3
        elif how == "view":
            weight.detach().view(-1)[5:6].fill_(7)
        elif how == "as_cpu":
            if not xpu_ops._C.host_accessible(0):
                pytest.skip("the host cannot reach device memory")
            alias = xpu_ops.as_cpu(weight.detach())
            net(x)
            alias.add_(1)  # the device's storage sees nothing of this write
            actual = net(x).cpu()
            torch.testing.assert_close(actual, net.cpu()(x.cpu()), rtol=1e-4, atol=1e-3)
            return
        actual = net(x).cpu()
        assert onednn.weight_cache.packs == packed + 1
        net(x)
        assert onednn.weight_cache.packs == packed + 1
        torch.testing.assert_close(actual, net.cpu()(x.cpu()), rtol=1e-4, atol=1e-3)


def test_inference_tensors_are_watched() -> None:
    with torch.inference_mode():
        x, w = batch(), torch.ones(4, 3, 3, 3).to("xpu")
        for _ in range(3):  # kept from the second use on
            before = torch.conv2d(x, w).cpu()
        assert onednn.weight_cache.hits == 1
        w.mul_(2)  # no version counter
        torch.testing.assert_close(torch.conv2d(x, w).cpu(), before * 2, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "conv", "transposed"])
def test_half_weights_are_packed_once(kind: str) -> None:
    """Also where the device computes them in float32: they are converted as they are packed."""
    make = {
        "linear": lambda: nn.Linear(128, 256),
        "conv": lambda: nn.Conv2d(16, 32, 3, padding=1),
        "transposed": lambda: nn.ConvTranspose2d(16, 32, 2, stride=2),
    }
    torch.manual_seed(0)
    layer = make[kind]()
    x = torch.randn(16, 128) if kind == "linear" else torch.randn(2, 16, 12, 12)
    moved, y = make[kind]().to("xpu", torch.float16), x.to("xpu", torch.float16)
    with torch.no_grad():
        for source, target in zip(layer.parameters(), moved.parameters(), strict=True):
            target.copy_(source)
        for _ in range(3):
            torch.testing.assert_close(moved(y).float().cpu(), layer(x), rtol=1e-2, atol=1e-2)
        assert onednn.weight_cache.packs == 1
        assert onednn.weight_cache.hits >= 2
        layer.weight.mul_(2)
        moved.weight.mul_(2)
        torch.testing.assert_close(moved(y).float().cpu(), layer(x), rtol=1e-2, atol=1e-2)
        assert onednn.weight_cache.packs == 2
        # The same storage as numbers of another width is another weight.
        if kind == "linear":
            bits = moved.weight.view(torch.float32)
            assert torch.equal(torch.nn.functional.linear(y[:, :64].float(), bits * 0).cpu(), torch.zeros(16, 256))


def test_replaced_parameter_and_views_of_one_storage() -> None:
    x = torch.randn(32, 128, generator=torch.Generator().manual_seed(0))
    square = nn.Parameter(torch.randn(128, 128, generator=torch.Generator().manual_seed(1)))
    xpu, w = x.to("xpu"), nn.Parameter(square.detach().to("xpu"))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close((xpu @ w.t()).cpu(), x @ square.t(), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close((xpu @ w).cpu(), x @ square, rtol=1e-4, atol=1e-4)
        w.data = torch.eye(128).to("xpu")
        torch.testing.assert_close((xpu @ w.t()).cpu(), x, rtol=1e-4, atol=1e-4)


def test_freed_weights_leave_and_recycled_addresses_are_not_confused() -> None:
    x = batch()
    with torch.no_grad():
        for i in range(20):
            w = nn.Parameter(torch.full((16, 3, 3, 3), float(i)).to("xpu"))
            expected = torch.nn.functional.conv2d(x.cpu(), torch.full((16, 3, 3, 3), float(i)))
            torch.testing.assert_close(torch.nn.functional.conv2d(x, w).cpu(), expected, rtol=1e-4, atol=1e-3)
            del w
    gc.collect()
    assert onednn.weight_cache.packs == 20
    assert onednn.weight_cache.stats()["size"] == 0
    assert onednn.weight_cache.bytes == 0


def test_empty_cache_lets_go_of_dead_weights() -> None:
    native = onednn._native  # stats() would tidy up itself
    x = batch()
    with torch.no_grad():
        kept, dead = (nn.Parameter(torch.ones(16, 3, 3, 3).to("xpu")) for _ in range(2))
        for w in (kept, dead):
            torch.conv2d(x, w)
    del w, dead
    gc.collect()
    assert native.weights.stats()["size"] == 2
    torch.xpu.empty_cache()
    assert native.weights.stats()["size"] == 1
    packed = onednn.weight_cache.packs
    with torch.no_grad():
        torch.conv2d(x, kept)
    assert onednn.weight_cache.packs == packed


def test_packed_weights_are_given_back_before_an_allocation_fails() -> None:
    """In a process of its own: where a memory fraction was set, giving back what does not count cannot help."""
    code = """
        import torch
        from torch import nn
        from xpu_ops import onednn
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3)).to("xpu")
        x = torch.randn(2, 3, 12, 12).to("xpu")
        with torch.no_grad():
            expected = net(x).cpu()
            cache, sizes = onednn.weight_cache, [onednn.weight_cache.size]
            try:
                torch.empty(1 << 55, dtype=torch.uint8, device="xpu")
            except torch.OutOfMemoryError:
                sizes += [cache.size, cache.bytes]
            packed = cache.packs
            print(sizes, torch.equal(net(x).cpu(), expected), cache.packs - packed)
    """
    assert script.out(code) == "[2, 0, 0] True 2"


class Block(nn.Module):
    """One stage of a convolutional network and one transformer layer: what models are made of."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.pointwise = nn.Conv2d(32, 128, 1)
        self.first = nn.LayerNorm(128)
        self.qkv = nn.Linear(128, 384)
        self.out = nn.Linear(128, 128)
        self.second = nn.LayerNorm(128)
        self.up = nn.Linear(128, 512)
        self.down = nn.Linear(512, 128)
        self.head = nn.Linear(128, 600)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        x = self.pointwise(torch.relu(self.depthwise(x))).flatten(2).transpose(1, 2)
        q, k, v = (t.unflatten(-1, (4, 32)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        x = x + self.down(nn.functional.gelu(self.up(self.second(x))))
        return self.head(x.mean(1))


# A 1x1 convolution of NCHW takes its weight plain. A depthwise one has a kernel of its own, which a GPU's policy does not take.
DEPTHWISE_PACKS = int(GPU_POLICY)
PACKED = ["stem", "qkv", "out", "up", "down", "head"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "with_gradients"])
def test_second_pass_over_a_model(dtype: torch.dtype, grad: bool) -> None:
    model = Block().eval().to("xpu", dtype)
    x = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(1)).to("xpu", dtype)
    with torch.set_grad_enabled(grad):
        first = model(x)
        created, packed = onednn.primitive_cache.misses, onednn.weight_cache.packs
        assert created > 0 and packed > 0
        second = model(x)
    assert onednn.primitive_cache.misses == created
    assert onednn.weight_cache.packs == packed
    assert torch.equal(first, second)


@pytest.mark.parametrize("layer", PACKED)
def test_update_of_a_model_repacks_exactly_that_weight(layer: str) -> None:
    model = Block().eval().to("xpu")
    x = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(1)).to("xpu")
    with torch.no_grad():
        model(x)
        created, packed = onednn.primitive_cache.misses, onednn.weight_cache.packs
        assert packed == len(PACKED) + DEPTHWISE_PACKS
        getattr(model, layer).weight.mul_(1.5)
        changed = model(x).cpu()
        assert onednn.weight_cache.packs == packed + 1
        assert onednn.primitive_cache.misses == created
        model(x)
        assert onednn.weight_cache.packs == packed + 1
        torch.testing.assert_close(changed, model.cpu()(x.cpu()), rtol=1e-4, atol=1e-4)


def test_frozen_weights_stay_packed_while_gradients_are_recorded() -> None:
    layer, x = nn.Conv2d(3, 16, 3), torch.randn(2, 3, 12, 12, requires_grad=True)
    layer.requires_grad_(False)
    frozen = nn.Conv2d(3, 16, 3).requires_grad_(False).to("xpu")
    frozen.load_state_dict(layer.state_dict())
    y = x.detach().to("xpu").requires_grad_()
    for i in range(5):
        want, got = layer(x), frozen(y)
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
        (a,), (b,) = torch.autograd.grad(want.sum(), x), torch.autograd.grad(got.sum(), y)
        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-4)
        if i == 2:
            packed = onednn.weight_cache.packs
    assert onednn.weight_cache.packs == packed
    layer.weight.mul_(2)
    frozen.weight.mul_(2)
    torch.testing.assert_close(frozen(y).cpu(), layer(x), rtol=1e-4, atol=1e-4)
    assert onednn.weight_cache.packs == packed + 1


def test_training_step_repacks_once_a_step() -> None:
    model = Block().to("xpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1)).to("xpu")
    packs = []
    for _ in range(4):
        before, created = onednn.weight_cache.packs, onednn.primitive_cache.misses
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        packs.append((onednn.weight_cache.packs - before, onednn.primitive_cache.misses - created))
    assert packs[1][0] == packs[2][0] == packs[3][0]
    assert packs[2][1] == packs[3][1] == 0


def test_a_weight_that_changes_before_each_second_use_is_not_packed() -> None:
    """As in a compiled training step, whose forward pass records no gradients."""
    layer, x = nn.Linear(128, 256), torch.randn(16, 128)
    moved, y = nn.Linear(128, 256).to("xpu"), x.to("xpu")
    moved.load_state_dict(layer.state_dict())
    packs = []
    with torch.no_grad():
        for step in range(8):
            before = onednn.weight_cache.packs
            torch.testing.assert_close(moved(y).cpu(), layer(x), rtol=1e-4, atol=1e-4)
            packs.append(onednn.weight_cache.packs - before)
            layer.weight.mul_(1.5)
            (moved.weight.data if step % 2 else moved.weight).mul_(1.5)
        for _ in range(3):
            before = onednn.weight_cache.packs
            torch.testing.assert_close(moved(y).cpu(), layer(x), rtol=1e-4, atol=1e-3)
            packs.append(onednn.weight_cache.packs - before)
    assert packs[-7:] == [0, 0, 0, 0, 0, 1, 0]  # unchanged at its second use


def test_weights_that_do_not_stay_are_not_kept() -> None:
    x = batch()
    for _ in range(3):
        w = torch.ones(4, 3, 3, 3).to("xpu")
        torch.conv2d(x, w)
    assert onednn.weight_cache.size == 0


def test_budget(net: Net) -> None:
    x = batch()
    with torch.no_grad():
        expected = net(x).cpu()
        onednn.weight_cache.budget = 0
        assert onednn.weight_cache.size == 0
        packed = onednn.weight_cache.packs
        torch.testing.assert_close(net(x).cpu(), expected)
        assert onednn.weight_cache.packs > packed
        assert onednn.weight_cache.bytes == 0
    with pytest.raises(ValueError, match="negative"):
        onednn.weight_cache.budget = -1


def test_capacity_and_eviction() -> None:
    cache = onednn.primitive_cache
    cache.capacity = 2
    for n in (80, 96, 112):  # smaller products do not go through oneDNN
        t = torch.ones(n, n).to("xpu")
        assert torch.mm(t, t).cpu()[0, 0] == n
    assert cache.size == 2
    assert cache.evictions == 1
    misses = cache.misses
    t = torch.ones(112, 112).to("xpu")
    torch.mm(t, t)
    assert cache.misses == misses  # the newest is kept
    t = torch.ones(80, 80).to("xpu")
    torch.mm(t, t)
    assert cache.misses == misses + 1  # the oldest went
    cache.capacity = 0
    assert cache.size == 0
    assert torch.mm(t, t).cpu()[0, 0] == 80
    cache.clear()
    assert cache.stats() == {"capacity": 0, "size": 0, "hits": 0, "misses": 0, "evictions": 0}


def test_threads_wait_for_one_creation() -> None:
    x, barrier = torch.ones(192, 192, device="xpu"), threading.Barrier(6)
    together: list[torch.Tensor] = []

    def work() -> None:
        barrier.wait()
        together.append(torch.mm(x, x))

    for _ in range(3):
        onednn.primitive_cache.clear()
        torch.mm(x, x)
        alone = onednn.primitive_cache.misses
        onednn.primitive_cache.clear()
        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert onednn.primitive_cache.misses == alone
    assert all(torch.equal(t, torch.full_like(t, 192)) for t in together)


def test_entries_name_implementations() -> None:
    t = torch.ones(96, 96).to("xpu")
    torch.mm(t, t)
    entry = onednn.primitive_cache.entries()[0]
    assert entry["op"] == "matmul"
    assert "96x96" in entry["shapes"]
    assert entry["impl"] and not entry["impl"].startswith("ref")


def test_no_reference_implementation_runs(net: Net) -> None:
    x = batch().requires_grad_()
    net(x).sum().backward()
    for entry in onednn.primitive_cache.entries():
        if not entry["impl"].startswith("refused: ") and entry["op"] != "reorder":
            assert "ref" not in entry["impl"].split(":")[0].split("+"), entry


def test_threads(net: Net) -> None:
    x = batch()
    with torch.no_grad():
        expected = net(x).cpu()
    failures: list[str] = []

    def work() -> None:
        for _ in range(10):
            with torch.no_grad():
                if not torch.equal(net(x).cpu(), expected):
                    failures.append("differs")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_verbose(capfd: pytest.CaptureFixture[str]) -> None:
    t = torch.ones(96, 96).to("xpu")
    onednn.set_verbose(True)
    try:
        torch.mm(t, t)
        torch.mm(t, t)
    finally:
        onednn.set_verbose(False)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("xpu_ops,onednn,matmul")]
    assert len(lines) == 2
    assert "96x96" in lines[0] and ",miss," in lines[0] and ",hit," in lines[1]
