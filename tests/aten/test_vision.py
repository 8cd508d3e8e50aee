"""torchvision's operators: gradients, determinism, errors, autocast, torch.compile. Values are in tests/ops/test_rows.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import vision

import xpu_ops
from xpu_ops.upstream import torchvision as _torchvision

torchvision = pytest.importorskip("torchvision")
ops: Any = torch.ops.torchvision
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def no_fallback() -> Any:
    with xpu_ops.fallback.forbid():
        yield


def regions(k: int = 5, images: int = 2, size: float = 8.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    corner = torch.rand(k, 2, dtype=torch.float64) * size
    extent = torch.rand(k, 2, dtype=torch.float64) * size / 2 + 0.5
    number = torch.randint(0, images, (k, 1)).double()
    return torch.cat([number, corner, corner + extent], 1).to(dtype)


def boxes(n: int) -> torch.Tensor:
    corner = torch.rand(n, 2) * 100
    return torch.cat([corner, corner + torch.rand(n, 2) * 30], 1)


def convolution(
    dtype: torch.dtype = torch.float32, groups: int = 2, offset_groups: int = 1, channels: int = 4
) -> list[torch.Tensor]:
    """Input, weight, offset, mask, bias of a 3x2 kernel."""
    shapes = [
        (2, channels, 5, 6),
        (4, channels // groups, 3, 2),
        (2, 12 * offset_groups, 3, 5),
        (2, 6 * offset_groups, 3, 5),
        (4,),
    ]
    return [torch.randn(s, dtype=torch.float64).to(dtype) for s in shapes]


def deform(*given: torch.Tensor, groups: int = 2, offset_groups: int = 1, use_mask: bool = True) -> torch.Tensor:
    return ops.deform_conv2d(*given, 1, 1, 0, 0, 1, 1, groups, offset_groups, use_mask)


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "roi_align": lambda x, r: ops.roi_align(x, r, 0.7, 2, 3, 2, True),
    "roi_align adaptive": lambda x, r: ops.roi_align(x, r, 0.7, 2, 3, -1, False),
    "roi_pool": lambda x, r: ops.roi_pool(x, r, 0.7, 2, 3)[0],
    "ps_roi_align": lambda x, r: ops.ps_roi_align(x, r, 0.7, 2, 3, -1)[0],
    # The gradient leaves no line out: boxes end before the last one.
    "ps_roi_pool": lambda x, r: ops.ps_roi_pool(x, r, 0.4, 2, 3)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_regions(name: str) -> None:
    x = torch.randn(2, 6, 8, 9, dtype=torch.float64, device="xpu", requires_grad=True)
    rois = regions(dtype=torch.float64).to("xpu")
    torch.autograd.gradcheck(lambda t: CALLS[name](t, rois), (x,), nondet_tol=0.0)


@pytest.mark.parametrize(
    ("groups", "offset_groups", "use_mask"), [(1, 1, True), (2, 1, False), (2, 2, True), (1, 4, True)]
)
def test_gradients_of_deform_conv2d(groups: int, offset_groups: int, use_mask: bool) -> None:
    given = convolution(torch.float64, groups, offset_groups)
    if not use_mask:
        given[3] = torch.zeros(2, 1, dtype=torch.float64)
    leaves = [t.to("xpu").requires_grad_() for t in given]

    def call(*leaves: torch.Tensor) -> torch.Tensor:
        return deform(*leaves, groups=groups, offset_groups=offset_groups, use_mask=use_mask)

    assert torch.autograd.gradcheck(call, leaves, nondet_tol=0.0)


def test_no_double_backward() -> None:
    x = torch.randn(1, 6, 8, 9, device="xpu", requires_grad=True)
    for name, call in CALLS.items():
        out = call(x, regions(images=1).to("xpu"))
        (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=f"double backwards on {name.split()[0]} not supported"):
            grad.sum().backward()
    leaves = [t.to("xpu").requires_grad_() for t in convolution()]
    grads = torch.autograd.grad(deform(*leaves).square().sum(), leaves, create_graph=True)
    with pytest.raises(RuntimeError, match="double backwards on deform_conv2d not supported"):
        grads[0].sum().backward()


@pytest.mark.parametrize("dtype", FLOATS)
def test_same_bits_again(dtype: torch.dtype) -> None:
    """Every sum has one work-item and one order."""
    x = torch.randn(2, 48, 20, 30, device="xpu").to(dtype)
    rois = regions(100, size=20, dtype=dtype).to("xpu")
    made = []
    for _ in range(3):
        x = x.detach().requires_grad_()
        made.append([torch.autograd.grad(call(x, rois).sum(), x)[0] for call in CALLS.values()])
    assert all(torch.equal(a, b) for again in made[1:] for a, b in zip(made[0], again, strict=True))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("channels", [1, 16, 40, 64, 130])
def test_layouts(channels: int, channels_last: bool) -> None:
    """Whole vectors of channels, parts of them, and maps that are worth turning or not."""
    form = torch.channels_last if channels_last else torch.contiguous_format
    for k in (1, 30):
        x, rois = torch.randn(2, channels, 12, 13).to(memory_format=form), regions(k, size=12)
        for args in ((0.9, 3, 2, 2, True), (0.9, 3, 2, -1, False)):
            actual = ops.roi_align(x.to("xpu"), rois.to("xpu"), *args)
            assert actual.is_contiguous()
            torch.testing.assert_close(actual.cpu(), vision.roi_align(x, rois, *args))
        values, index = ops.roi_pool(x.to("xpu"), rois.to("xpu"), 0.9, 3, 2)
        torch.testing.assert_close((values.cpu(), index.cpu()), vision.roi_pool(x, rois, 0.9, 3, 2))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1024, 1025, 2500])
def test_nms_of_many_boxes(n: int) -> None:
    given, scores = boxes(n), torch.rand(n)
    for threshold in (0.0, 0.2) if n > 100 else (0.0, 0.2, 0.7, 1.0):
        keep = ops.nms(given.to("xpu"), scores.to("xpu"), threshold)
        assert torch.equal(keep.cpu(), vision.nms(given, scores, threshold))


def test_nms_keeps_the_order_of_equal_scores_and_puts_nan_first() -> None:
    given, scores = boxes(200), torch.randint(0, 5, (200,)).float()
    scores[::17] = torch.nan
    given[::13] = torch.nan
    keep = ops.nms(given.to("xpu"), scores.to("xpu"), 0.1)
    assert torch.equal(keep.cpu(), vision.nms(given, scores, 0.1))
    assert scores[keep[0].item()].isnan()


def test_nms_at_the_threshold() -> None:
    """An overlap of exactly the threshold does not suppress; one between the double and its float does."""
    pair = torch.tensor([[0.0, 0, 2, 1], [0, 0, 1, 1]], device="xpu")
    scores = torch.tensor([1.0, 0.5], device="xpu")
    assert len(ops.nms(pair, scores, 0.5)) == 2
    assert len(ops.nms(pair, scores, 0.5 - 1e-12)) == 1
    assert len(ops.nms(pair, scores, 0.5 + 1e-12)) == 2


def test_malformed_regions() -> None:
    """No hang and no crash: huge, infinite and NaN boxes pool what they cover, as far as that can be said."""
    x = torch.rand(1, 4, 6, 7)
    rois = torch.tensor(
        [[0.0, 5, 5, 1, 1], [0, 1, 1, 1, 1], [0, -1e8, 1, 1e8, 4], [0, torch.nan, 1, 2, 3], [0, torch.inf, 0, 1, 1],
         [0, 0, 0, torch.inf, 5], [0, -1e30, -1e30, 1e30, 1e30]]
    )  # fmt: skip
    for ratio in (-1, 2):
        for aligned in (False, True):
            out = ops.roi_align(x.to("xpu"), rois.to("xpu"), 1.0, 2, 2, ratio, aligned).cpu()
            assert out[:2].isfinite().all()
        ops.ps_roi_align(x.to("xpu"), rois.to("xpu"), 1.0, 2, 2, ratio)
    ops.roi_pool(x.to("xpu"), rois.to("xpu"), 1.0, 2, 2)
    ops.ps_roi_pool(x.to("xpu"), rois.to("xpu"), 1.0, 2, 2)
    torch.xpu.synchronize()


@pytest.mark.parametrize("number", [-1.0, 2.0, 1e20, torch.nan])
@pytest.mark.parametrize("name", CALLS)
def test_image_out_of_range(name: str, number: float) -> None:
    rois = regions()
    rois[2, 0] = number
    x = torch.rand(2, 6, 8, 9, device="xpu", requires_grad=True)
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 2"):
        CALLS[name](x, rois.to("xpu")).cpu()


def test_empty() -> None:
    x, none = torch.rand(2, 6, 8, 9, device="xpu", requires_grad=True), torch.empty(0, 5, device="xpu")
    for call in CALLS.values():
        out = call(x, none)
        assert out.shape[0] == 0
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert not grad.any()
        assert call(x[:0], none).shape == out.shape
    assert ops.roi_align(x, none, 1.0, 0, 2, 2, False).shape == (0, 6, 0, 2)
    assert ops.nms(torch.empty(0, 4, device="xpu"), torch.empty(0, device="xpu"), 0.5).shape == (0,)
    given = [t[:0].to("xpu") if t.dim() > 1 and i != 1 else t.to("xpu") for i, t in enumerate(convolution())]
    assert deform(*given).shape == (0, 4, 3, 5)


MAP = torch.rand(2, 8, 10, 10)
ROIS = torch.tensor([[0, 1, 1, 5, 5.0]])
GRAD, SMALL = torch.rand(1, 8, 2, 2), torch.rand(1, 2, 2, 2)
INT = torch.zeros(1, 2, 2, 2, dtype=torch.int32)
MIXED = "Expected tensor for argument #1 '{}' to have the same type as tensor for argument #2 'rois'; but type .* does not equal"
FIVE = "rois must have shape as Tensor\\[K, 5\\]"
MULTIPLE = "input channels must be a multiple of pooling height \\* pooling width"


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("nms", (torch.rand(5, 4), torch.rand(5).double(), 0.5), RuntimeError, "dets should have the same type as scores"),
        ("nms", (torch.rand(5, 3), torch.rand(5), 0.5), RuntimeError, "boxes should have 4 elements in dimension 1, got 3"),
        ("nms", (torch.rand(1, 5, 4), torch.rand(5), 0.5), RuntimeError, "boxes should be a 2d tensor, got 3D"),
        ("nms", (torch.rand(5, 4), torch.rand(1, 5), 0.5), RuntimeError, "scores should be a 1d tensor, got 2D"),
        ("nms", (torch.rand(5, 4), torch.rand(3), 0.5), RuntimeError, "same number of elements in dimension 0, got 5 and 3"),
        ("nms", (torch.ones(5, 4).long(), torch.ones(5).long(), 0.5), NotImplementedError, "\"nms_kernel\" not implemented for 'Long'"),
        ("roi_align", (MAP, ROIS.double(), 1.0, 2, 2, 2, False), RuntimeError, MIXED.format("input")),
        ("roi_align", (MAP, ROIS[:, :4], 1.0, 2, 2, 2, False), RuntimeError, FIVE),
        ("roi_align", (MAP[0], ROIS, 1.0, 2, 2, 2, False), IndexError, "Dimension out of range"),
        ("roi_align", (MAP.long(), ROIS.long(), 1.0, 2, 2, 2, False), NotImplementedError, "\"roi_align_forward_kernel\" not implemented for 'Long'"),
        ("roi_align", (MAP, ROIS, 1.0, -1, 2, 2, False), RuntimeError, "negative"),
        ("roi_pool", (MAP, ROIS.double(), 1.0, 2, 2), RuntimeError, MIXED.format("input")),
        ("roi_pool", (MAP, ROIS[:, :4], 1.0, 2, 2), RuntimeError, FIVE),
        ("ps_roi_pool", (MAP, ROIS[:, :4], 1.0, 2, 2), RuntimeError, "Tensor rois should have shape as Tensor\\[K, 5\\]"),
        ("ps_roi_pool", (MAP, ROIS, 1.0, 3, 3), RuntimeError, MULTIPLE),
        ("ps_roi_pool", (MAP, ROIS, 1.0, 0, 2), RuntimeError, MULTIPLE),
        ("ps_roi_align", (MAP, ROIS.half(), 1.0, 2, 2, 2), RuntimeError, MIXED.format("input")),
        ("ps_roi_align", (MAP, ROIS, 1.0, 3, 3, 2), RuntimeError, MULTIPLE),
        ("_roi_align_backward", (GRAD, ROIS.double(), 1.0, 2, 2, 2, 8, 10, 10, 2, False), RuntimeError, MIXED.format("grad")),
        ("_roi_align_backward", (GRAD, ROIS, 1.0, 2, 2, 2, 9, 10, 10, 2, False), RuntimeError, "expected a gradient of shape"),
        ("_roi_pool_backward", (GRAD, ROIS, INT.long(), 1.0, 2, 2, 2, 8, 10, 10), RuntimeError, "expected scalar type Int but found Long"),
        ("_roi_pool_backward", (GRAD, ROIS, INT, 1.0, 2, 2, 2, 8, 10, 10), RuntimeError, "expected an argmax of shape"),
        ("_ps_roi_align_backward", (SMALL, ROIS.double(), INT, 1.0, 2, 2, 2, 2, 8, 10, 10), RuntimeError, MIXED.format("grad")),
        ("_ps_roi_pool_backward", (SMALL, ROIS, INT, 1.0, 3, 3, 2, 8, 10, 10), RuntimeError, MULTIPLE),
    ],
)  # fmt: skip
def test_errors(name: str, args: tuple[Any, ...], error: type[Exception], text: str) -> None:
    given = [a.to("xpu") if isinstance(a, torch.Tensor) else a for a in args]
    with pytest.raises(error, match=text):
        getattr(ops, name)(*given)


def test_regions_on_another_device() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        ops.roi_align(MAP.to("xpu"), ROIS, 1.0, 2, 2, 2, False)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"input": lambda t: t[0]}, "Expected input_c.ndimension\\(\\) == 4 to be true"),
        ({"mask": lambda t: t[0]}, "Expected !use_mask \\|\\| mask_c.ndimension\\(\\) == 4"),
        ({"weight": lambda t: t[:, :1]}, "weight_c.size\\(1\\) \\* n_weight_grps == input_c.size\\(1\\)"),
        ({"weight": lambda t: t[:3]}, "weight_c.size\\(0\\) % n_weight_grps == 0"),
        ({"offset": lambda t: t[:, :6]}, "offset.shape\\[1\\] is not valid: got: 6 expected: 12"),
        ({"mask": lambda t: t[:, :5]}, "mask.shape\\[1\\] is not valid: got: 5 expected: 6"),
        ({"offset": lambda t: t[:1]}, "invalid batch size of offset"),
        ({"offset": lambda t: t[..., :4]}, "offset output dims: \\(3, 4\\) - computed output dims: \\(3, 5\\)"),
        ({"mask": lambda t: t[:1]}, "invalid batch size of mask"),
        ({"mask": lambda t: t[..., :4]}, "mask output dims: \\(3, 4\\) - computed output dims: \\(3, 5\\)"),
        ({"weight": lambda t: t.double()}, "expected scalar type Float but found Double"),
        ({"stride": 0}, "stride_h: 0 stride_w: 0"),
        ({"pad": -1}, "pad_h: -1 pad_w: -1"),
        ({"dilation": 0}, "dilation_h: 0 dilation_w: 0"),
    ],
)  # fmt: skip
def test_errors_of_deform_conv2d(change: dict[str, Any], text: str) -> None:
    given = dict(zip(("input", "weight", "offset", "mask", "bias"), convolution(channels=4), strict=True))
    numbers = {"stride": 1, "pad": 0, "dilation": 1}
    for key, value in change.items():
        if key in numbers:
            numbers[key] = value
        else:
            given[key] = value(given[key])
    pairs = [n for n in numbers.values() for _ in range(2)]
    with pytest.raises(RuntimeError, match=text):
        ops.deform_conv2d(*[t.to("xpu") for t in given.values()], *pairs, 2, 1, True)


def test_autocast_computes_in_float32() -> None:
    x = torch.randn(2, 6, 8, 9, device="xpu")
    rois = regions().to("xpu")
    with torch.autocast("xpu", dtype=torch.bfloat16):
        for call in CALLS.values():
            wide = call(x.bfloat16().float(), rois)
            mixed = call(x.bfloat16(), rois)
            assert mixed.dtype == torch.bfloat16
            assert torch.equal(mixed, wide.bfloat16())
        given = [t.to("xpu") for t in convolution()]
        mixed = deform(given[0].bfloat16(), *given[1:])
        assert mixed.dtype == torch.bfloat16
        torch.testing.assert_close(mixed, deform(given[0].bfloat16().float(), *given[1:]).bfloat16())
        scores = torch.rand(20, device="xpu")
        assert ops.nms(boxes(20).to("xpu"), scores.half(), 0.5).dtype == torch.int64


def samples() -> dict[str, tuple[Any, ...]]:
    """A call of every operator that has a gradient, and of nms."""
    x = torch.randn(2, 8, 10, 10, device="xpu")
    rois = regions().to("xpu")
    return {
        "nms": (boxes(20).to("xpu"), torch.rand(20, device="xpu"), 0.5),
        "roi_align": (x, rois, 0.5, 2, 2, 2, True),
        "roi_pool": (x, rois, 0.5, 2, 2),
        "ps_roi_align": (x, rois, 0.5, 2, 2, 2),
        "ps_roi_pool": (x, rois, 0.5, 2, 2),
        "deform_conv2d": (*[t.to("xpu") for t in convolution()], 1, 1, 0, 0, 1, 1, 2, 1, True),
    }


@pytest.mark.parametrize("name", list(samples()))
def test_opcheck(name: str) -> None:
    args = tuple(
        a.detach().requires_grad_()
        if isinstance(a, torch.Tensor) and (i == 0 or name == "deform_conv2d") and name != "nms"
        else a
        for i, a in enumerate(samples()[name])
    )
    torch.library.opcheck(getattr(ops, name).default, args)


@pytest.mark.parametrize("name", list(samples()))
def test_compile(name: str) -> None:
    args = samples()[name]
    op = getattr(ops, name)

    def call(*given: Any) -> Any:
        result = op(*given)
        return result if name == "nms" else (result[0] if isinstance(result, tuple) else result) * 2

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    if name == "nms":
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            assert torch.equal(compiled(*args), call(*args))
        return
    leaf = args[0].detach().requires_grad_()
    again = args[0].detach().requires_grad_()
    out, expected = compiled(leaf, *args[1:]), call(again, *args[1:])
    assert torch.equal(out, expected)
    out.sum().backward()
    expected.sum().backward()
    assert torch.equal(leaf.grad, again.grad)


def test_functions_of_torchvision() -> None:
    """torchvision.ops as users call it, batched_nms on both of its ways."""
    from torchvision.ops import DeformConv2d, MultiScaleRoIAlign, RoIPool, batched_nms, box_iou, roi_align

    x, rois = torch.randn(2, 4, 10, 10), regions()
    expected = vision.roi_align(x, rois, 0.5, 2, 2, 2, True)
    per_image = [rois[rois[:, 0] == i, 1:].to("xpu") for i in range(2)]
    order = torch.cat([(rois[:, 0] == i).nonzero()[:, 0] for i in range(2)])
    actual = roi_align(x.to("xpu"), per_image, 2, 0.5, 2, True)
    torch.testing.assert_close(actual.cpu(), expected[order])
    assert RoIPool(2, 0.5)(x.to("xpu"), rois.to("xpu")).shape == (5, 4, 2, 2)
    layer = DeformConv2d(4, 6, 3).to("xpu")
    plain = torch.nn.functional.conv2d(x.to("xpu"), layer.weight, layer.bias)
    torch.testing.assert_close(layer(x.to("xpu"), torch.zeros(2, 18, 8, 8, device="xpu")), plain, rtol=1e-4, atol=1e-4)
    scales = MultiScaleRoIAlign(["0", "1"], 2, 2)
    maps = {"0": x.to("xpu"), "1": x[..., :5, :5].to("xpu")}
    assert scales(maps, per_image, [(40, 40)] * 2).shape == (5, 4, 2, 2)
    given, scores, labels = boxes(300), torch.rand(300), torch.randint(0, 3, (300,))
    keep = batched_nms(given.to("xpu"), scores.to("xpu"), labels.to("xpu"), 0.3).cpu()
    apart = torch.cat(
        [(labels == c).nonzero()[:, 0][vision.nms(given[labels == c], scores[labels == c], 0.3)] for c in range(3)]
    )
    assert torch.equal(keep.sort().values, apart.sort().values)
    assert box_iou(given[:3].to("xpu"), given[:3].to("xpu")).diagonal().cpu().allclose(torch.ones(3))


def test_scripted() -> None:
    x, rois = torch.randn(2, 4, 10, 10, device="xpu"), regions().to("xpu")
    layer = torchvision.ops.RoIAlign(2, 0.5, 2)
    assert torch.equal(torch.jit.script(layer)(x, rois), layer(x, rois))


def test_in_a_fresh_process() -> None:
    """`import torch` imports no torchvision, and the operators are there where that is not installed."""
    program = (
        "import sys, torch; assert 'torchvision' not in sys.modules; sys.modules['torchvision'] = None;"
        "from xpu_ops.upstream import torchvision as t; t.make_known(); t.make_known(); x = torch.rand(3, 4, device='xpu').sort().values;"
        "print(torch.ops.torchvision.nms(x, x[:, 0], 0.5).shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("torch.Size"), done.stderr


def test_transforms() -> None:
    """transforms.v2 on xpu tensors, with boxes and masks: the CPU's results."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    image = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
    target = {
        "boxes": tv_tensors.BoundingBoxes(torch.tensor([[4.0, 5, 30, 20]]), format="XYXY", canvas_size=(40, 50)),
        "mask": tv_tensors.Mask(torch.randint(0, 2, (1, 40, 50), dtype=torch.uint8)),
    }
    steps: list[Any] = [
        v2.Resize((32, 48), antialias=True), v2.CenterCrop(24), v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0),
        v2.Pad(3), v2.GaussianBlur(3, sigma=1.0), v2.ColorJitter((1.2, 1.2), (0.8, 0.8), (1.1, 1.1), (0.1, 0.1)),
        v2.RandomGrayscale(1.0), v2.RandomInvert(1.0), v2.RandomPosterize(4, 1.0), v2.RandomSolarize(128, 1.0),
        v2.RandomAutocontrast(1.0), v2.RandomEqualize(1.0), v2.RandomAdjustSharpness(2.0, 1.0),
        v2.RandomAffine((10, 10), (0.1, 0.1), (1.1, 1.1), (5, 5)), v2.RandomRotation((15, 15)),
        v2.RandomPerspective(0.5, 0.0), v2.ElasticTransform(), v2.RandomResizedCrop(24, antialias=True), v2.ToDtype(torch.float32, scale=True),
        v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)]),
    ]  # fmt: skip
    for step in steps:
        results = []
        for device in ("cpu", "xpu"):
            torch.manual_seed(1)
            moved = {k: t.to(device) for k, t in target.items()}
            results.append(step(tv_tensors.Image(image).to(device), moved))
        (expected, wanted), (actual, found) = results
        assert actual.device.type == "xpu"
        whole = not expected.is_floating_point()
        # Rounding to a whole number may go the other way; the CPU rounds uint8 after each of the two passes of a resize.
        difference = (actual.cpu().double() - expected.double()).abs()
        assert difference.max() <= (1 if whole else 1e-4), step
        assert not whole or (difference > 0).double().mean() < 0.25, step
        torch.testing.assert_close(found["boxes"].cpu(), wanted["boxes"])
        assert (found["mask"].cpu() != wanted["mask"]).double().mean() < 0.01, step


def test_namespace() -> None:
    """The hook's registrations: XPU kernels, and autocast for all that torchvision casts on CUDA."""
    for name in vision.REFERENCES:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"{_torchvision.NAMESPACE}::{name}", "XPU")
    for name in samples():
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"{_torchvision.NAMESPACE}::{name}", "AutocastXPU")
