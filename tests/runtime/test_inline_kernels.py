"""The launches of a small call run on the calling thread as calls of their native code, and nothing else changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support import script
from support.profiles import BOTH, on_device, trace_of
from torch.profiler import profile

import xpu_ops
from xpu_ops import _C

pytestmark = [
    pytest.mark.skipif(not _C.host_accessible(0), reason="nothing runs inline where the host has no device memory"),
    pytest.mark.usefixtures("own_stream"),
]
Call = Callable[..., object]
G = torch.Generator().manual_seed(0)
ROWS, OTHER = torch.randn(31, 33, generator=G), torch.randn(31, 33, generator=G)
IMAGE = torch.randn(1, 4, 9, 10, generator=G)
INDEX, MASK = torch.randint(0, 31, (31, 33), generator=G), ROWS > 0
# One for each family of kernels, and for each form that it takes when it is small.
CALLS: dict[str, tuple[Call, *tuple[torch.Tensor, ...]]] = {
    "sin": (torch.sin, ROWS),
    "sin of double": (torch.sin, ROWS.double()),
    "erfinv of half": (torch.erfinv, ROWS.half()),
    "lgamma": (torch.lgamma, ROWS),
    "atan2": (torch.atan2, ROWS, OTHER),
    "lerp": (torch.lerp, ROWS, OTHER, OTHER),
    "complex exp": (lambda x, y: torch.view_as_real(torch.complex(x, y).exp()), ROWS, OTHER),
    "softmax": (lambda x: x.softmax(-1), ROWS),
    "log_softmax of columns": (lambda x: x.log_softmax(0), ROWS),
    "layer_norm": (lambda x: F.layer_norm(x, (33,)), ROWS),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), IMAGE),
    "var": (lambda x: x.var(), ROWS),
    "argmax": (lambda x: x.argmax(-1), ROWS),
    "max of columns": (lambda x: x.max(0), ROWS),
    "cumprod": (lambda x: x.cumprod(0), ROWS),
    "cummax": (lambda x: x.cummax(1), ROWS),
    "sort": (lambda x: x.sort(-1), ROWS),
    "sort of all": (lambda x: x.flatten().sort(descending=True), ROWS),
    "topk": (lambda x: x.topk(5), ROWS),
    "median": (lambda x: x.median(0), ROWS),
    "unique": (lambda i: i.unique(return_counts=True), INDEX),
    "nonzero": (torch.nonzero, MASK),
    "masked_scatter": (lambda x, m, y: x.masked_scatter(m, y), ROWS, MASK, OTHER),
    "gather": (lambda x, i: x.gather(0, i), ROWS, INDEX),
    "index_put": (lambda x, i, y: x.index_put((i[0], i[1] % 33), y[0], accumulate=True), ROWS, INDEX, OTHER),
    "scatter_add": (lambda x, i, y: x.scatter_add(0, i, y), ROWS, INDEX, OTHER),
    "bincount": (lambda i: i.flatten().bincount(minlength=40), INDEX),
    "searchsorted": (lambda x, y: torch.searchsorted(x.sort(-1)[0], y), ROWS, OTHER),
    "embedding_bag": (lambda i, t: F.embedding_bag(i, t), INDEX, ROWS),
    "cdist": (torch.cdist, ROWS, OTHER),
    "renorm": (lambda x: x.renorm(2, 0, 1.0), ROWS),
    "tril": (torch.tril, ROWS),
    "flip": (lambda x: x.flip(0), ROWS),
    "roll": (lambda x: x.roll(3, 0), ROWS),
    "pad": (lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"), IMAGE),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), IMAGE),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "unfold": (lambda x: F.unfold(x, 3), IMAGE),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g[:, : 2 * 4 * 4].view(1, -1, 4, 2)[:, :4], align_corners=False),
        IMAGE,
        OTHER[:1],
    ),
    "smooth_l1_loss": (F.smooth_l1_loss, ROWS, OTHER),
    "rand": (lambda x: torch.empty_like(x).uniform_(), ROWS),
    "dropout": (lambda x: F.dropout(x, 0.3), ROWS),
    "multinomial": (lambda x: x.abs().multinomial(7), ROWS),
    "to_dense": (lambda x, m: (x * m).to_sparse().to_dense(), ROWS, MASK),
    "foreach": (lambda x, y: torch._foreach_addcdiv([x, y], [y, x], [x, x], 0.5), ROWS, OTHER),
    "gradient of softmax": (
        lambda x, y: torch.autograd.grad(x.requires_grad_().softmax(-1), x, y),
        ROWS,
        OTHER,
    ),
}


def flat(result: object) -> list[torch.Tensor]:
    return [t.detach().cpu() for t in torch.utils._pytree.tree_leaves(result)]


@pytest.mark.parametrize("name", CALLS)
def test_same_bits_as_launched(name: str) -> None:
    """On an idle queue, and behind a kernel."""
    function, *given = CALLS[name]
    args = [t.to("xpu") for t in given]
    results = []
    for inline, busy in ((False, False), (True, False), (True, True)):
        xpu_ops.set_inline(inline)
        torch.manual_seed(1)
        big = torch.ones(1 << 21, device="xpu")
        torch.xpu.synchronize()
        if busy:
            big.sin_()
        results.append(flat(function(*[a.detach() for a in args])))
    for here in results[1:]:
        for a, b in zip(here, results[0], strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
            assert torch.equal(a.flatten().view(torch.uint8), b.flatten().view(torch.uint8))


def commands(folder: Path, function: Call, *args: torch.Tensor) -> list[bool]:
    """Of each command of a call, whether the calling thread ran it."""
    xpu_ops.set_inline(True)
    function(*args)
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        function(*args)
        torch.xpu.synchronize()
    return [e["args"]["inline"] for e in on_device(trace_of(prof, folder)) if e["cat"] == "kernel"]


@pytest.mark.parametrize("name", ["sin", "softmax", "layer_norm", "gather", "tril", "embedding_bag"])
def test_nothing_of_a_small_call_is_launched(name: str, tmp_path: Path) -> None:
    """Of calls that stay far below the time at which a kernel is launched, also on a busy machine."""
    function, *args = CALLS[name]
    found = commands(tmp_path, function, *[a.to("xpu") for a in args])
    assert found and all(found)


def test_large_calls_are_launched(tmp_path: Path) -> None:
    """A large operand, and a large result of a small one."""
    big, one = torch.rand(1 << 20, device="xpu"), torch.rand(16, device="xpu")
    assert not any(commands(tmp_path, torch.sin, big))
    assert not all(commands(tmp_path, lambda x: F.pad(x[None], (0, 15), mode="reflect").repeat(50_000, 1), one))


def test_a_small_call_that_takes_long_is_launched(tmp_path: Path) -> None:
    """Hundreds of microseconds for 32 KiB: all cores are faster. The first calls tell."""
    x = torch.rand(4096, dtype=torch.float64, generator=G).add(1).to("xpu")
    xpu_ops.set_inline(True)
    for _ in range(8):
        torch.lgamma(x)
    assert not any(commands(tmp_path, torch.lgamma, x))


def test_a_compiled_kernel_of_few_elements_runs_here(tmp_path: Path) -> None:
    function = torch.compile(lambda a, b: (torch.sin(a) * b).softmax(-1) + b)
    x, y = ROWS.to("xpu"), OTHER.to("xpu")
    xpu_ops.set_inline(False)
    launched = function(x, y)
    xpu_ops.set_inline(True)
    assert torch.equal(function(x, y), launched)
    assert all(commands(tmp_path, function, x, y))


def test_a_cheap_compiled_kernel_of_more_elements_runs_here(tmp_path: Path) -> None:
    """128 KiB: eager's two operators would be small calls."""
    function = torch.compile(lambda a: a * torch.sigmoid(a))
    assert all(commands(tmp_path, function, torch.rand(16, 1024, generator=G).to("xpu")))


def test_a_triton_kernel_of_few_elements_runs_here(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    from xpu_ops.bench.triton_kernels import add_kernel

    def add(a: torch.Tensor, b: object, out: torch.Tensor) -> None:
        n = a.numel()
        add_kernel[(-(-n // 1024),)](a, b, out, n, BLOCK=1024)

    x, y = ROWS.to("xpu"), OTHER.to("xpu")
    found = torch.empty_like(x)
    assert all(commands(tmp_path, add, x, y, found))
    assert torch.equal(found, x + y)
    big = torch.ones(1 << 20, device="xpu")
    assert not any(commands(tmp_path, add, big, big, big))
    address = triton.reinterpret(y, triton.language.float32)  # whose size the launch does not see
    assert not any(commands(tmp_path, lambda: add(x, address, found)))


@pytest.mark.skipif(shutil.which("g++") is None, reason="exporting a model needs g++")
@pytest.mark.slow
def test_an_exported_kernel_of_few_elements_runs_here(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.sin(a) * b + 1

    rows = torch.export.Dim("rows", min=1, max=1 << 20)
    x, y = ROWS.to("xpu"), OTHER.to("xpu")
    program = torch.export.export(Model(), (x, y), dynamic_shapes=({0: rows}, {0: rows}))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    code = f"""
        import json, torch, xpu_ops
        from torch.profiler import ProfilerActivity, profile
        function = torch._inductor.aoti_load_package({str(path)!r})
        for rows in (31, 1 << 16):
            x = torch.ones(rows, 33, device="xpu")
            results = []
            for inline in (False, True, True):
                xpu_ops.set_inline(inline)
                results.append(function(x, x))
            torch.xpu.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as prof:
                function(x, x)
                torch.xpu.synchronize()
            prof.export_chrome_trace({str(tmp_path / "trace.json")!r})
            events = json.load(open({str(tmp_path / "trace.json")!r}))["traceEvents"]
            print([e["args"]["inline"] for e in events if e.get("cat") == "kernel"], torch.equal(results[0], results[2]))
    """
    lines = [line for line in script.out(code).splitlines() if line.startswith("[")]
    assert lines == ["[True] True", "[False] True"]


@pytest.mark.parametrize("behind", [False, True])
def test_flushed_denormals_of_the_caller_do_not_count(behind: bool) -> None:
    """Kernels, loops of the host and transforms have the state of the device's workers, also where a waiting thread computes."""
    code = f"""
        import torch
        x, large = torch.full((20,), 1e-41, device="xpu"), torch.full((100_000,), 1e-41, device="xpu")
        y = torch.randn(500, 500, device="xpu")
        torch.set_flush_denormal(True)
        for f in (torch.sin, lambda x: x * 1, lambda x: x + x, lambda x: x.cumsum(0), lambda x: x.double().float(),
                  lambda x: x.new_full((20,), -90.0).exp(), lambda x: torch.fft.fft(x.view(20, 1)).real[:, 0].contiguous(),
                  lambda x: large * 1):
            if {behind}:
                y = y @ y * 1e-3
            z = f(x).cpu()
            print(z.view(torch.int32).count_nonzero().item() - len(z))
    """
    assert script.out(code).split() == ["0"] * 8
