"""torchvision's detection models, random weights and small images, on xpu without a fallback and on the CPU.

Where torchvision's binary does not load, its operators on the CPU are those of support.vision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import modes
import pytest
import torch
from support import vision

detection = pytest.importorskip("torchvision.models.detection")
from torchvision.models.detection.anchor_utils import AnchorGenerator  # noqa: E402
from torchvision.models.detection.backbone_utils import BackboneWithFPN  # noqa: E402
from torchvision.models.resnet import BasicBlock, ResNet  # noqa: E402

CLASSES, SIZE = 4, 96
FEW = {"rpn_pre_nms_top_n_train": 60, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_train": 20,
       "rpn_post_nms_top_n_test": 20, "box_detections_per_img": 10, "rpn_batch_size_per_image": 6000,
       "box_batch_size_per_image": 400}  # fmt: skip
SIZES = {"min_size": SIZE, "max_size": SIZE}


def pyramid() -> BackboneWithFPN:
    body = ResNet(BasicBlock, [1, 1, 1, 1])
    return BackboneWithFPN(body, {f"layer{i}": str(i - 1) for i in range(1, 5)}, [64, 128, 256, 512], 32)


def anchors(per_place: int = 3) -> AnchorGenerator:
    ratios = (0.5, 1.0, 2.0)[:per_place]
    return AnchorGenerator(tuple((s,) for s in (8, 16, 32, 64, 96)), (ratios,) * 5)


def two_stage(kind: str, **more: Any) -> Callable[[], torch.nn.Module]:
    return lambda: getattr(detection, kind)(pyramid(), CLASSES, rpn_anchor_generator=anchors(), **FEW, **SIZES, **more)


def one_stage(kind: str, per_place: int) -> Callable[[], torch.nn.Module]:
    limits = {"topk_candidates": 40, "detections_per_img": 10, "score_thresh": 0.0}
    return lambda: getattr(detection, kind)(pyramid(), CLASSES, anchor_generator=anchors(per_place), **limits, **SIZES)


def ssd() -> torch.nn.Module:
    model = detection.ssdlite320_mobilenet_v3_large(
        weights=None,
        weights_backbone=None,
        num_classes=CLASSES,
        score_thresh=0.0,
        topk_candidates=20,
        detections_per_img=10,
    )
    return model


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "fasterrcnn": two_stage("FasterRCNN", box_score_thresh=0.0),
    "retinanet": one_stage("RetinaNet", 3),
    "maskrcnn": two_stage("MaskRCNN", box_score_thresh=0.0),
    "keypointrcnn": two_stage("KeypointRCNN", box_score_thresh=0.0, num_keypoints=5),
    "fcos": one_stage("FCOS", 1),
    "ssd": ssd,
}
SAMPLE = ("fasterrcnn", "fcos")
CASES = [pytest.param(n, marks=[] if n in SAMPLE else [pytest.mark.slow]) for n in MODELS]


@pytest.fixture(autouse=True, scope="module")
def cpu_kernels() -> None:
    vision.register_on_cpu()


def build(name: str, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[name]()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.to(dtype)


def data(dtype: torch.dtype, device: str) -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:
    """Two images with two objects each."""
    g = torch.Generator().manual_seed(1)
    images = [torch.rand(3, SIZE, SIZE - 16 * i, generator=g) for i in range(2)]
    targets = []
    for _ in images:
        corner = torch.rand(2, 2, generator=g) * 30 + 2
        boxes = torch.cat([corner, corner + 25 + torch.rand(2, 2, generator=g) * 15], 1)
        masks = torch.zeros(2, SIZE, SIZE, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        points = boxes[:, None, :2] + torch.rand(2, 5, 2, generator=g) * 20
        keypoints = torch.cat([points, torch.ones(2, 5, 1)], 2)
        targets.append({"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": masks, "keypoints": keypoints})
    for target, image in zip(targets, images, strict=True):
        target["masks"] = target["masks"][..., : image.shape[1], : image.shape[2]]

    def move(t: torch.Tensor) -> torch.Tensor:
        return t.to(device, dtype) if t.is_floating_point() else t.to(device)

    return [move(i) for i in images], [{k: move(t) for k, t in target.items()} for target in targets]


def infer(name: str, device: str, dtype: torch.dtype) -> list[dict[str, torch.Tensor]]:
    model = build(name, dtype).to(device).eval()
    with torch.no_grad():
        return [{k: t.cpu() for k, t in out.items()} for out in model(data(dtype, device)[0])]


def step(name: str, device: str, dtype: torch.dtype) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Losses and gradients. All anchors and proposals are taken: which, where some are, is random."""
    model = build(name, dtype).to(device).train()
    losses = model(*data(dtype, device))
    sum(losses.values()).backward()
    grads = {k: p.grad.cpu() for k, p in model.named_parameters() if p.grad is not None}
    return {k: v.item() for k, v in losses.items()}, grads


@pytest.mark.parametrize("name", CASES)
def test_inference(name: str) -> None:
    """In double, so that no box is on the other side of a threshold."""
    expected = infer(name, "cpu", torch.float64)
    with modes.no_fallback():
        actual = infer(name, "xpu", torch.float64)
    assert sum(len(out["boxes"]) for out in expected) > 0
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_training(name: str) -> None:
    expected, expected_grads = step(name, "cpu", torch.float64)
    with modes.no_fallback():
        actual, grads = step(name, "xpu", torch.float64)
    assert actual == pytest.approx(expected, rel=1e-6)
    assert grads.keys() == expected_grads.keys()
    for key, grad in expected_grads.items():
        torch.testing.assert_close(grads[key], grad, rtol=1e-5, atol=1e-5 * float(grad.abs().max()) + 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_mixed_precision(name: str) -> None:
    """A training step and inference under autocast run, with results that are numbers."""
    model = build(name).to("xpu")
    images, targets = data(torch.float32, "xpu")
    with modes.no_fallback(), torch.autocast("xpu", dtype=torch.bfloat16):
        losses = model.train()(images, targets)
        sum(losses.values()).backward()
        outputs = model.eval()(images)
    assert all(v.isfinite() for v in losses.values())
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert all(out["boxes"].isfinite().all() for out in outputs)
