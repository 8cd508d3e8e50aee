"""torch.compile on xpu: forms of kernels, types, masks, indices, shapes, against eager."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

from xpu_ops.block.device import CPU

Check = Callable[..., Any]


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="xpu").to(dtype)


def _hardswish_backward(a: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return torch.where(a <= -3, 0.0, torch.where(a < 3, g * (a / 3 + 0.5), g))


GRAPHS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "chain": (lambda a, b, c: F.gelu(a * b + c) * 2 + a.tanh(), lambda: (rand(100, 90), rand(100, 90), rand(90))),
    "real numbers to complex, strided": (
        lambda a: (a.t().to(torch.complex64), (a + 1)[::2].to(torch.complex128), a.unfold(0, 3, 1).to(torch.complex64)),
        lambda: (rand(8, 9),),
    ),
    "odd size": (lambda a, b: (a.sigmoid() * b).exp(), lambda: (rand(1003), rand(1003))),
    "broadcast": (lambda a, b: a * b + 1, lambda: (rand(7, 1, 33), rand(5, 1))),
    "transposed": (lambda a, b: a.t() + b, lambda: (rand(100, 70), rand(70, 100))),
    "transposed images": (lambda a: a.permute(0, 2, 3, 1).contiguous() * 2, lambda: (rand(2, 37, 9, 11),)),
    "images of few channels": (lambda a: (a.permute(0, 2, 3, 1) * 2).contiguous(), lambda: (rand(2, 3, 19, 33),)),
    "few channels to images": (lambda a: (a.permute(0, 3, 1, 2) * 2).contiguous(), lambda: (rand(2, 19, 33, 3),)),
    "channels of bytes to images": (
        lambda a: (a.permute(0, 3, 1, 2).float() / 255).contiguous(),
        lambda: (torch.randint(0, 256, (2, 19, 43, 3), dtype=torch.uint8, device="xpu"),),
    ),
    "eight channels to images": (
        lambda a, b: a.permute(0, 3, 1, 2) * b,
        lambda: (rand(2, 19, 33, 8, dtype=torch.bfloat16), rand(2, 8, 19, 33, dtype=torch.bfloat16)),
    ),
    "few channels to images, cut": (
        lambda a: (a[:, 1:, 2:-1].permute(0, 3, 1, 2) * 2).contiguous(),
        lambda: (rand(2, 19, 51, 4),),
    ),
    "transposed, many blocks": (lambda a, b: a.t() + b, lambda: (rand(333, 601), rand(601, 333))),
    "results in two layouts": (
        lambda x, w, m: ((y := (x - m) * torch.rsqrt(w.abs() + 1e-3)).transpose(1, 2).contiguous(), y + 1),
        lambda: (rand(2, 70, 40), rand(40), rand(2, 1, 40)),
    ),
    "channels side by side": (
        lambda a, b: torch.cat([a.relu(), b * 2], 1).contiguous(),
        lambda: tuple(rand(2, c, 9, 11).to(memory_format=torch.channels_last) for c in (17, 40)),
    ),
    "group norm, channels last": (
        lambda x, t, w: F.silu(F.group_norm(x + t[:, :, None, None], 8, w)),
        lambda: (rand(3, 48, 16, 20).to(memory_format=torch.channels_last), rand(3, 48), rand(48)),
    ),
    "softmax with a gathered bias": (
        lambda x, table, index: (x + table[index].permute(2, 0, 1)).softmax(-1),
        lambda: (rand(6, 3, 49, 49), rand(169, 3), torch.randint(0, 169, (49, 49), device="xpu")),
    ),
    "columns from a table": (
        lambda x, table, index: x * table[index].exp() + 1,
        lambda: (rand(200, 48), rand(9), torch.randint(-9, 9, (48,), device="xpu")),
    ),
    "transposed twice": (
        lambda a, b, c: a.t() * b.t() + c + a.t().exp(),
        lambda: (rand(70, 45), rand(70, 45, dtype=torch.bfloat16), torch.rand(45, 70, device="xpu") > 0.5),
    ),
    "permuted": (lambda a: a.permute(2, 0, 1).contiguous() * 2, lambda: (rand(9, 17, 33),)),
    "cat and pad": (lambda a, b: F.pad(torch.cat([a, b], 1), (1, 2)) * 2, lambda: (rand(30, 20), rand(30, 7))),
    "softmax": (lambda a: torch.softmax(a * 2, -1), lambda: (rand(40, 1019),)),
    "softmax of columns": (lambda a: torch.softmax(a * 2, 0), lambda: (rand(40, 119),)),
    "layer norm": (lambda a, w, b: F.layer_norm(a, (257,), w, b), lambda: (rand(40, 257), rand(257), rand(257))),
    "batch moments": (lambda a: torch.var_mean(a, (0, 2, 3)), lambda: (rand(4, 5, 6, 7),)),
    "columns": (lambda a: (a * 2).sum(0) + 1, lambda: (rand(400, 130),)),
    "whole": (lambda a: (a * a).sum(), lambda: (rand(300, 1024),)),
    "product": (lambda a: (a * 0.5 + 1).prod(1), lambda: (rand(30, 21),)),
    "short rows": (lambda a: a.sum(-1), lambda: (rand(5000, 12),)),
    "split with a rest": (lambda a: a.sum(), lambda: (rand(100003),)),
    "extremes": (lambda a: (a.amax(1), a.amin(0), a.argmax(1), a.argmin(0)), lambda: (rand(33, 65),)),
    "argmax of a transpose": (lambda a: (a.t().argmax(), a.t().argmin()), lambda: (rand(40, 102),)),
    "sums over 25 places through branches": (
        lambda *t: (_hardswish_backward(t[0], t[1] * t[2].clamp(0, 6) + t[3]) * (t[4] - t[5])).sum((0, 2)),
        lambda: (*(rand(4, 64, n) * 2 for n in (25, 25, 1, 1, 25)), rand(64, 1)),
    ),
    "any and all": (lambda a: ((a > 2).any(1), (a > -3).all(0)), lambda: (rand(33, 65),)),
    "any of bytes": (lambda a: (a.any(), a.any(1), a.any((0, 1))), lambda: (rand(3, 5).to(torch.uint8),)),
    "gather": (lambda w, i: w[i] * 2, lambda: (rand(50, 64), torch.randint(-50, 50, (30, 4), device="xpu"))),
    "rows by index, normalised": (
        lambda w, i: F.layer_norm(w[i], (64,)),
        lambda: (rand(50, 64), torch.randint(-50, 50, (30, 4), device="xpu")),
    ),
    "masked": (lambda a: torch.where(a > 0, a.log(), a).masked_fill(a > 1, 3.0), lambda: (rand(333),)),
    "rolled": (lambda a: torch.roll(a, 3, 1) + a, lambda: (rand(20, 31),)),
    "cpu scalar": (lambda a, s: a * s + 1, lambda: (rand(50), torch.tensor(3.0))),
    "cpu integer": (lambda a, s: a * s, lambda: (torch.arange(50, device="xpu"), torch.tensor(3))),
    "index_add": (
        lambda a, i, s: a.index_add(0, i, s * 2),
        lambda: (torch.zeros(50, 8, device="xpu"), torch.randint(0, 50, (300,), device="xpu"), rand(300, 8)),
    ),
    "cumsum": (lambda a: (a * 2).cumsum(1) + 1, lambda: (rand(20, 50),)),
    "sort": (lambda a: (a * 2).sort(1)[0] + 1, lambda: (rand(20, 50),)),
    "divisions": (
        lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), a.fmod(b)),
        lambda: (
            torch.randint(-50, 50, (300,), device="xpu"),
            torch.randint(1, 9, (300,), device="xpu") * torch.tensor([-1, 1], device="xpu").repeat(150),
        ),
    ),
    "small integers wrap": (
        lambda a: ((a + 200).to(torch.uint8) + 100, a.to(torch.int8) * 3, a.to(torch.int16) << 9),
        lambda: (torch.randint(-300, 300, (300,), device="xpu"),),
    ),
    "bools": (
        lambda a, b: (a & b, a | ~b, a ^ b, a + b, a.sum(), a.logical_not()),
        lambda: (torch.rand(99, device="xpu") > 0.5, torch.rand(99, device="xpu") > 0.5),
    ),
    "double": (lambda a: (a.exp().sum(1), torch.softmax(a, 0)), lambda: (rand(30, 40, dtype=torch.float64),)),
    "not a number": (
        lambda a: (a.amax(1), a.argmax(1), a.clamp(0, 1), torch.relu(a), a.sign(), a.isnan()),
        lambda: (torch.tensor([[1.0, float("nan"), 3.0], [float("inf"), -1.0, float("nan")]], device="xpu"),),
    ),
    "bits": (lambda a: a.view(torch.int32) >> 3, lambda: (rand(65),)),
    "empty": (lambda a: ((a * 2).sum(1), (a + 1).exp()), lambda: (rand(3, 0),)),
    "zero-dimensional": (lambda a, b: a * b, lambda: (rand(1).squeeze(), rand(1).squeeze())),
    "special": (lambda a: (torch.lgamma(a), torch.special.i0e(a), torch.special.erfcx(a)), lambda: (rand(40).abs(),)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * 2,
        lambda: (rand(2, 3, 17, 16), rand(2, 3, 17, 16), rand(2, 3, 17, 16)),
    ),
}


# Each form of a loop nest with sizes that only the run knows; the full level takes all.
DYNAMIC = {
    "chain",
    "transposed",
    "transposed images",
    "cat and pad",
    "softmax",
    "softmax of columns",
    "layer norm",
    "columns",
    "whole",
    "gather",
}
SLOW = [pytest.param(n, True, marks=pytest.mark.slow, id=f"{n}-dynamic") for n in GRAPHS if n not in DYNAMIC]
FAST = [pytest.param(n, True, id=f"{n}-dynamic") for n in GRAPHS if n in DYNAMIC]


@pytest.mark.parametrize(
    ("name", "dynamic"), [*(pytest.param(n, None, id=f"{n}-static") for n in GRAPHS), *FAST, *SLOW]
)
def test_graph(same: Check, name: str, dynamic: bool | None) -> None:
    f, make = GRAPHS[name]
    same(f, *make(), dynamic=dynamic, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_floats(same: Check, dtype: torch.dtype) -> None:
    w = rand(129, dtype=dtype)
    got = same(
        lambda a, w: F.rms_norm(a, (129,), w).softmax(-1) + a.sum(0),
        rand(33, 129, dtype=dtype),
        w,
        rtol=2e-2,
        atol=2e-2,
    )
    assert got.dtype == dtype


def test_float8(same: Check) -> None:
    a = rand(100)
    same(lambda a: (a * 3).to(torch.float8_e4m3fn).to(torch.float32) + 1, a)


def test_sizes_without_recompilation() -> None:
    def f(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(a @ w, (64,)).mean(0) * a.shape[0]

    compiled, w = torch.compile(f, dynamic=True), rand(32, 64)
    from xpu_ops.jit import service

    compiled(rand(20, 32), w)
    built = len(service.records)
    for n in (7, 33, 100):
        a = rand(n, 32)
        torch.testing.assert_close(compiled(a, w), f(a, w), rtol=1e-4, atol=1e-4)
    assert len(service.records) == built


def test_fused_into_one_kernel(same: Check, kernels: Callable[[], int]) -> None:
    same(lambda a, b: (a * b + 1).relu().sum(1), rand(64, 128), rand(64, 128), rtol=1e-4, atol=1e-4)
    assert kernels() == 1


def test_images_are_read_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels that lie side by side change lanes on a CPU device; those of a cut image are gathered."""
    monkeypatch.setattr("xpu_ops.inductor.forms.policy", lambda device: CPU)
    x = rand(2, 20, 48, 3)
    for cut, wanted in ((0, True), (2, False)):
        torch._dynamo.reset()
        _, codes = run_and_get_code(torch.compile(lambda a: (a.permute(0, 3, 1, 2) * 2).contiguous()), x[:, :, cut:])
        assert any("copy_channels" in code for code in codes) == wanted


def test_in_place() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2).add_(b)
        a[:, 3] = 7
        return a.sum()

    a, b = rand(20, 30), rand(20, 30)
    expected = a.clone()
    result = f(expected, b)
    got = torch.compile(f, fullgraph=True)(a, b)
    torch.testing.assert_close(a, expected)
    torch.testing.assert_close(got, result, rtol=1e-4, atol=1e-4)


def test_in_place_over_what_a_row_kept() -> None:
    """The second softmax computes the exponentials of other values, from the same memory."""

    def f(a: torch.Tensor) -> torch.Tensor:
        a.copy_(torch.softmax(a, -1))
        return torch.softmax(a, -1) * a.exp()

    a = rand(20, 300)
    b = a.clone()
    expected = f(b)
    torch.testing.assert_close(torch.compile(f, fullgraph=True)(a), expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_random_numbers() -> None:
    f = torch.compile(
        lambda a: (torch.rand_like(a), torch.randn_like(a), F.dropout(a, 0.25), torch.randint_like(a, 3, 9))
    )
    a = torch.ones(200, 500, device="xpu")
    torch.manual_seed(3)
    uniform, normal, dropped, integers = f(a)
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01 and abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert abs((dropped == 0).float().mean() - 0.25) < 0.01
    assert sorted(integers.unique().tolist()) == [3, 4, 5, 6, 7, 8]
    torch.manual_seed(3)
    assert torch.equal(f(a)[1], normal)
    assert not torch.equal(f(a)[1], normal)


def test_integers_of_a_wide_range_are_even() -> None:
    """Three quarters of what 32 bits hold: their remainder would take the lower third twice."""
    torch.manual_seed(4)
    high = 3 << 30
    drawn = torch.compile(lambda: torch.randint(high, (80_000,), device="xpu"), fullgraph=True)()
    counts = (drawn // (high // 8)).bincount()
    assert counts.numel() == 8 and (counts - 10_000).abs().max() < 500  # five standard deviations


def test_fallback_random_gives_the_numbers_of_eager() -> None:
    import torch._inductor.config as config

    def f(a: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(a) * 2

    a = torch.ones(1000, device="xpu")
    with config.patch(fallback_random=True):
        torch.manual_seed(5)
        got = torch.compile(f)(a)
    torch.manual_seed(5)
    assert torch.equal(got, f(a))


def test_on_a_stream() -> None:
    f = torch.compile(lambda a: (a * 2).sum(1))
    a = rand(300, 400)
    f(a)
    stream = torch.xpu.Stream()
    stream.wait_stream(torch.xpu.current_stream())
    with torch.xpu.stream(stream):
        got = f(a)
    stream.synchronize()
    torch.testing.assert_close(got, (a * 2).sum(1), rtol=1e-4, atol=1e-4)


def test_graph_break() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        return b + 1 if b.sum().item() > 0 else b - 1

    for sign in (1, -1):
        a = torch.full((10,), float(sign), device="xpu")
        assert torch.equal(torch.compile(f)(a), f(a))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode: str) -> None:
    """A mode that asks for more than it gets says so once."""
    a, w = rand(16, 32), rand(32, 32)
    importlib.import_module("xpu_ops.upstream.inductor")._tell.cache_clear()
    said = []
    for _ in range(2):
        torch._dynamo.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = torch.compile(lambda a, w: (a @ w).relu() + 1, mode=mode)(a, w)
        torch.testing.assert_close(got, (a @ w).relu() + 1, rtol=1e-4, atol=1e-4)
        said.append([str(w.message) for w in caught if "on xpu" in str(w.message)])
    assert len(said[0]) == mode.startswith("max-autotune") and said[1] == []


def test_a_mode_that_records_no_graph_of_training() -> None:
    w = rand(8, 8).requires_grad_()
    importlib.import_module("xpu_ops.upstream.inductor")._tell.cache_clear()
    with pytest.warns(UserWarning, match="records graphs of inference on xpu"):
        torch.compile(lambda w: (w * 2).sin().sum(), mode="reduce-overhead")(w).backward()


def test_a_graph_of_a_compiled_function() -> None:
    a, w = rand(16, 32), rand(32, 32)
    f = torch.compile(lambda a, w: ((a @ w).relu() + 1).softmax(-1))
    with torch.no_grad():
        f(a, w)
        graph = torch.xpu.XPUGraph()
        with torch.xpu.graph(graph):
            out = f(a, w)
        for seed in range(3):
            a.copy_(torch.randn(16, 32, generator=torch.Generator().manual_seed(seed)))
            graph.replay()
            assert torch.equal(out, f(a, w))


@pytest.mark.parametrize("option", ["nan_asserts", "combo_kernels", "benchmark_fusion"])
def test_options(option: str) -> None:
    a = rand(16, 32)
    f = torch.compile(lambda a: (a.sin() + 1, a.t().contiguous() * 2, a.sum(0)), options={option: True})
    torch.testing.assert_close(f(a), (a.sin() + 1, a.t() * 2, a.sum(0)), rtol=1e-4, atol=1e-4)
    if option == "nan_asserts":
        with pytest.raises(AssertionError):
            f(a / 0)


def test_profile_of_bandwidth(tmp_path: Path) -> None:
    import torch._inductor.config as config

    report, a = tmp_path / "report.txt", rand(64, 64)
    chosen = {"profile_bandwidth_regex": "sycl_.*sin", "profile_bandwidth_output": str(report)}
    with config.patch(profile_bandwidth=True, **chosen):
        got = torch.compile(lambda a: (a.sin() + 1, a.sum()))(a)
    torch.testing.assert_close(got, (a.sin() + 1, a.sum()), rtol=1e-4, atol=1e-4)
    lines = [line for line in report.read_text().splitlines() if "sycl_" in line]
    assert lines and all("GB/s" in line and "sin" in line for line in lines)


@pytest.mark.parametrize("form", ["binary", "unpacked"])
def test_standalone_compile(form: Any, tmp_path: Path) -> None:
    from torch._inductor import CompiledArtifact, standalone_compile

    artifacts, path = [], str(tmp_path / "graph")

    def backend(module: Any, inputs: Any) -> Any:
        artifacts.append(standalone_compile(module, inputs))
        return artifacts[0]

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b).relu() * 2 + a.sum()

    a, b = rand(8, 8), rand(8, 8)
    torch.testing.assert_close(torch.compile(f, backend=backend)(a, b), f(a, b), rtol=1e-4, atol=1e-4)
    artifacts[0].save(path=path, format=form)
    (loaded,) = CompiledArtifact.load(path=path, format=form)(a, b)
    torch.testing.assert_close(loaded, f(a, b), rtol=1e-4, atol=1e-4)


def test_export() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).to("xpu")
    a = rand(3, 8)
    program = torch.export.export(model, (a,))
    torch.testing.assert_close(torch.compile(program.module())(a), model(a), rtol=1e-4, atol=1e-5)


def test_cond() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (a,))

    for a in (torch.ones(10, device="xpu"), -torch.ones(10, device="xpu")):
        torch.testing.assert_close(torch.compile(f)(a), f(a))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_scaled_images_of_any_size(mode: str) -> None:
    f = torch.compile(lambda a: F.interpolate(a, scale_factor=1.7, mode=mode), dynamic=True)
    for size in (5, 8):
        a = rand(1, 2, size, size + 1)
        torch.testing.assert_close(f(a), F.interpolate(a, scale_factor=1.7, mode=mode), rtol=1e-4, atol=1e-5)


def test_pooling_of_any_size() -> None:
    f = torch.compile(lambda a, n: F.adaptive_avg_pool2d(a, (n, n)), dynamic=True)
    for size, n in ((7, 3), (9, 5)):
        a = rand(1, 2, size, size)
        torch.testing.assert_close(f(a, n), F.adaptive_avg_pool2d(a, (n, n)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_unpooled_images_stay_channels_last(backend: str) -> None:
    """torch's decomposition of max_unpool2d makes contiguous images of them."""
    a, places = F.max_pool2d(rand(2, 4, 8, 8).to(memory_format=torch.channels_last), 2, return_indices=True)
    got = torch.compile(lambda a, i: F.max_unpool2d(a * 2, i, 2) + 1, backend=backend)(a, places)
    expected = F.max_unpool2d(a * 2, places, 2) + 1
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("scale", [(1.3, 1.2), (2.4, 1.2), (1.3, 0.5)], ids=str)
def test_nearest_pixels_of_a_scale_that_changes_no_size(scale: tuple[float, float]) -> None:
    """torch's decomposition of upsample_nearest2d goes by the scale, where the operator copies or repeats."""
    x = rand(1, 3, 2, 4)
    for dynamic in (False, True):
        f = torch.compile(lambda x: F.interpolate(x, scale_factor=scale) * 2, dynamic=dynamic)
        torch.testing.assert_close(f(x), F.interpolate(x, scale_factor=scale) * 2)


def test_shuffled_pixels_are_contiguous() -> None:
    """torch's decomposition of pixel_shuffle keeps channels last, the operator does not."""
    x = rand(2, 8, 4, 6).to(memory_format=torch.channels_last)
    got, expected = torch.compile(lambda x: F.pixel_shuffle(x * 2, 2))(x), F.pixel_shuffle(x * 2, 2)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager_decomp_partition"])
def test_group_norm_of_permuted_gradients(backend: str) -> None:
    """The gradient arrives with the strides of the permutation, as before attention over frames."""

    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.group_norm(x, 4, w, b).permute(0, 3, 2, 1).contiguous().square()

    operands = [t.requires_grad_() for t in (rand(2, 8, 5, 7), rand(8), rand(8))]
    want = torch.autograd.grad(f(*operands).sum(), operands)
    got = torch.autograd.grad(torch.compile(f, backend=backend)(*operands).sum(), operands)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)


def test_rows_of_reversed_windows() -> None:
    """As in Swin: quotients and remainders of one index overlap, and are no digits of a number."""

    def f(x: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        y = windows.view(-1, 2, 2, 7, 7, 32).permute(0, 1, 3, 2, 4, 5).reshape(-1, 14, 14, 32)
        return F.layer_norm((x + y).reshape(x.shape[0], -1, 32) * 2, (32,))

    x, windows = rand(4, 14, 14, 32), rand(16, 49, 32)
    torch.testing.assert_close(torch.compile(f)(x, windows @ rand(32, 32) * 0 + windows), f(x, windows))
