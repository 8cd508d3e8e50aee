"""Makes torchvision importable on a CPU torch: its PyPI build links CUDA, so its operators' schemas are declared here.

The Python layers of torchvision then work (timm needs them); calling one of these operators raises NotImplementedError.
Sources of the signatures: torchvision 0.28's TORCH_LIBRARY fragments.
"""

from __future__ import annotations

import torch

_ROI = "Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZE = "float spatial_scale, SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_CONV = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, "
    "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, {_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"qroi_align(Tensor input, {_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {_SIZE}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool(Tensor input, {_ROI}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_SIZE}) -> Tensor",
    f"ps_roi_align(Tensor input, {_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_SIZE}, int sampling_ratio) -> Tensor",
    f"ps_roi_pool(Tensor input, {_ROI}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_SIZE}) -> Tensor",
    f"deform_conv2d({_CONV}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_CONV}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
)

_library: torch.library.Library | None = None


def declare() -> None:
    """Declares the schemas where torchvision's own library does not load; must come before torchvision is imported."""
    global _library
    if _library is not None or _usable():
        return
    _library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        _library.define(schema)


def _usable() -> bool:
    """Whether torchvision's compiled operators load with this torch."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    try:
        torch.ops.load_library(str(Path(spec.origin).with_name("_C.so")))
    except OSError:
        return False
    return True
