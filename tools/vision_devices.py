"""The operators of xpu_ops/vision/kernels.py on any device of Triton, against torchvision's CPU kernels, and the benchmark's kernels.

    python -m tools.vision_devices make cases.pt      # where torchvision's CPU operators load
    python tools/vision_devices.py check cases.pt xpu   # or cuda; needs torch, triton and this checkout, not the package
    python tools/vision_devices.py benchmark xpu        # or cuda: xpu_ops/bench/triton_kernels.py

The kernels' files are loaded by path, so that the identical source runs on a machine without xpu_ops.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

PACKAGE = Path(__file__).resolve().parents[1] / "xpu_ops"
DTYPES = (torch.float32, torch.float64, torch.float16)


def regions(count: int, size: float) -> torch.Tensor:
    """Boxes with the number of their image in front: (count, 5), pixels."""
    corner, extent = torch.rand(count, 2) * size, torch.rand(count, 2) * size
    return torch.cat([torch.randint(0, 2, (count, 1)).float(), corner, corner + extent], 1)


def inputs() -> dict[str, tuple[Any, ...]]:
    """Arguments of each operator, tensors in float32 that float16 holds exactly."""
    torch.manual_seed(0)

    def exact(t: torch.Tensor) -> torch.Tensor:
        return t.half().float()

    x, r = exact(torch.randn(2, 18, 40, 48)), exact(regions(64, 60))
    boxes, scores = exact(regions(500, 60))[:, 1:].contiguous(), torch.rand(500).argsort().float() / 1024
    deform = [exact(torch.randn(s)) for s in ((9, 6, 3, 3), (2, 54, 40, 48), (2, 27, 40, 48), (9,))]
    return {
        "nms": (boxes, scores, 0.5),
        "roi_align": (x, r, 0.5, 3, 2, -1, True),
        "roi_pool": (x, r, 0.5, 3, 2),
        "ps_roi_align": (x, r, 0.5, 3, 2, 2),
        "ps_roi_pool": (x, r, 0.5, 3, 2),
        "deform_conv2d": (x, *deform, 1, 1, 1, 1, 1, 1, 3, 3, True),
    }


def first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def make(path: str) -> None:
    """Writes the arguments and torchvision's results in float32 and float64."""
    import torchvision  # noqa: F401

    cases, expected = inputs(), {}
    for name, args in cases.items():
        for dtype in (torch.float32, torch.float64):
            given = [a.to(dtype) if isinstance(a, torch.Tensor) else a for a in args]
            expected[f"{name} {dtype}"] = first(getattr(torch.ops.torchvision, name)(*given))
    torch.save({"cases": cases, "expected": expected}, path)


def load(file: str) -> Any:
    """A module of the package's folder, without the package."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, PACKAGE / file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def benchmark(device: str) -> None:
    """Prints the largest difference of the benchmark's kernels from torch in float64 on the device, over its largest magnitude."""
    kernels = load("bench/triton_kernels.py")
    torch.manual_seed(0)

    def row(name: str, expected: Callable[..., torch.Tensor], *args: torch.Tensor) -> None:
        got = getattr(kernels, name)(*(a.to(device) for a in args)).double()
        want = expected(*(a.to(device).double() for a in args))
        print(f"{name} {'x'.join(map(str, args[0].shape))}: {((got - want).abs().max() / want.abs().max()).item():.1e}")

    x, rows, w = torch.randn(10**6), torch.randn(4096, 1024), torch.rand(1024)
    row("add", torch.add, x, x.flip(0))
    row("gelu", F.gelu, x)
    row("softmax", lambda t: t.softmax(-1), rows)
    row("softmax", lambda t: t.softmax(-1), torch.randn(4096, 1000))
    row("layer_norm", lambda t, w, b: F.layer_norm(t, (1024,), w, b), rows, w, w.flip(0))
    row("matmul", torch.mm, torch.randn(512, 512), torch.randn(512, 512))
    q, k, v = torch.randn(3, 1, 12, 512, 64)
    row("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)


def check(path: str, device: str) -> None:
    """Prints the largest difference from the expected results, over their largest magnitude, for each dtype.

    Results in float16 are compared with float32's: the edges of bins are decided in float32 there.
    """
    kernels = load("vision/kernels.py")
    data = torch.load(path, weights_only=True)
    for name, args in data["cases"].items():
        cells = []
        for dtype in DTYPES:
            want = data["expected"][f"{name} {torch.float32 if dtype == torch.float16 else dtype}"]
            here = [a.to(dtype).to(device) if isinstance(a, torch.Tensor) else a for a in args]
            got = first(kernels.OPERATORS[name](*here)).cpu()
            if name == "nms":
                cells.append("equal" if got.shape == want.shape and bool((got == want).all()) else "differs")
            else:
                cells.append(f"{((got.double() - want.double()).abs().max() / want.abs().max()).item():.1e}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    elif sys.argv[1] == "benchmark":
        benchmark(sys.argv[2])
    else:
        check(sys.argv[2], sys.argv[3])
