"""torchvision's operators in Triton (xpu_ops.vision.use) against the native kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from xpu_ops import vision
from xpu_ops.upstream import torchvision as _torchvision

pytest.importorskip("triton")
pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


def regions(count: int, size: float, dtype: torch.dtype) -> torch.Tensor:
    corner, extent = torch.rand(count, 2) * size, torch.rand(count, 2) * size
    return torch.cat([torch.randint(0, 2, (count, 1)).float(), corner, corner + extent], 1).to(dtype).to("xpu")


def call(name: str, dtype: torch.dtype) -> Callable[[], Any]:
    ops = torch.ops.torchvision
    x, r = torch.randn(2, 18, 20, 24).to(dtype).to("xpu"), regions(13, 30, dtype)
    if name == "nms":
        boxes, scores = regions(300, 60, dtype)[:, 1:].contiguous(), torch.rand(300).to(dtype).to("xpu")
        return lambda: ops.nms(boxes, scores, 0.3)
    if name == "deform_conv2d":
        shapes = ((9, 6, 3, 3), (2, 54, 20, 24), (2, 27, 20, 24), (9,))
        w, offset, mask, bias = (torch.randn(s).to(dtype).to("xpu") for s in shapes)
        return lambda: ops.deform_conv2d(x, w, offset, mask, bias, 1, 1, 1, 1, 1, 1, 3, 3, True)
    function = getattr(ops, name)
    more = {"roi_align": (-1, True), "ps_roi_align": (2,)}.get(name, ())
    return lambda: function(x, r, 0.7, 3, 2, *more)


@pytest.fixture
def both() -> Iterator[None]:
    _torchvision.make_known()
    yield
    vision.use("native")


NAMES = ("nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_as_the_native_kernels(both: None, name: str, dtype: torch.dtype) -> None:
    function = call(name, dtype)
    expected = function()
    vision.use("triton")
    assert vision.current() == "triton"
    tolerance = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(function(), expected, atol=tolerance, rtol=tolerance)


def test_native_again(both: None) -> None:
    function = call("roi_align", torch.float32)
    expected = function()
    vision.use("triton")
    vision.use("native")
    assert vision.current() == "native"
    assert torch.equal(function(), expected)


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="native"):
        vision.use("cuda")
