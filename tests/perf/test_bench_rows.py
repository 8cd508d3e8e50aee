"""The benchmark has a row for every native operator of the manifest, and every row's result agrees with the CPU's."""

from __future__ import annotations

import warnings

import pytest
import torch

import xpu_ops
from xpu_ops._paths import manifest
from xpu_ops.bench import cases, core, element_types, vision

# Why an operator has no row. Names as in the manifest.
WITHOUT_ROW = {
    "nothing is computed": """
        _copy_from _copy_from_and_resize _assert_async _efficientzerotensor set_.source_Storage_storage_offset
        set_.source_Storage set_.source_Tensor set_ is_set_to record_stream view_as_complex _dimI _dimV
        resize_as_sparse_ sparse_resize_ sparse_resize_and_clear_ ccol_indices col_indices row_indices copy_sparse_to_sparse_
        _sparse_coo_tensor_with_dims _fused_sdp_choice _reshape_alias _validate_sparse_coo_tensor_args sparse_coo_tensor.indices
        sparse_coo_tensor.indices_size _empty_affine_quantized _empty_per_channel_affine_quantized""",
    "torch has no kernel of it for the CPU": """
        batch_norm_stats batch_norm_elemt batch_norm_gather_stats batch_norm_backward_reduce batch_norm_backward_elemt
        _fused_dropout _masked_scale _weight_int4pack_mm_with_scales_and_zeros _scaled_mm_v2 _scaled_grouped_mm _scaled_grouped_mm_v2
        _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward _nested_tensor_from_mask_left_aligned
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward _spsolve
        _jagged_to_padded_dense_forward _padded_dense_to_jagged_forward _scaled_dot_product_fused_attention_overrideable
        _fill_mem_eff_dropout_mask_ _flash_attention_forward _flash_attention_backward _philox_key_fold_in _philox_key_split
        _philox_normal_ _philox_uniform_""",
    "another row times the same kernels": """
        glu_backward_jvp range.out _compute_linear_combination onednn::qconv1d_pointwise onednn::qconv2d_pointwise
        onednn::qconv3d_pointwise onednn::qconv2d_pointwise.tensor onednn::qconv2d_pointwise.binary _unique
        unique_dim_consecutive _sparse_mask_projection _sparse_csr_sum.dim_dtype rad2deg select_copy.int _conj_physical
        _sparse_broadcast_to _embedding_bag_dense_backward _histogramdd_from_bin_tensors _transform_bias_rescale_qkv
        kaiser_window _nested_tensor_from_mask _nested_from_padded _nested_view_from_buffer
        _nested_compute_contiguous_strides_offsets quantize_per_tensor_dynamic _make_per_tensor_quantized_tensor
        _grouped_mm _nested_sum_backward _make_per_channel_quantized_tensor addr _chunk_cat _stack.out split_with_sizes_copy.out
        _saturate_weight_to_fp16 tensor_split.tensor_indices_or_sections xpu_ops::conv_norm""",
    "torch has no operator of it: docs/notes/fused.md times it against compositions": """
        xpu_ops::_align_experts xpu_ops::_choose_experts xpu_ops::_round_by xpu_ops::_round_rows xpu_ops::_spread_rows
        xpu_ops::_sum_experts xpu_ops::_swiglu_pairs""",
}  # fmt: skip
if not vision.comparable():
    WITHOUT_ROW["the CPU's kernels are in torchvision's binary, which does not load here"] = """
        torchvision::nms torchvision::roi_align torchvision::_roi_align_backward torchvision::roi_pool
        torchvision::_roi_pool_backward torchvision::ps_roi_align torchvision::_ps_roi_align_backward torchvision::ps_roi_pool
        torchvision::_ps_roi_pool_backward torchvision::deform_conv2d torchvision::_deform_conv2d_backward"""


def base(name: str) -> str:
    return name.removeprefix("aten::").split(".")[0].rstrip("_")


@pytest.mark.filterwarnings("ignore")
def test_every_native_operator_has_a_row() -> None:
    called, wrong = set(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases.cases("sample"):
            given = core.to_xpu(case.args)
            with xpu_ops.trace_ops(timed=False) as trace:
                case.function(*given)
            called |= {base(o.name) for o in trace.operators}
            wrong += [f"{case.section}, {case.name} falls back: {o.name}" for o in trace.fallbacks]
            if case.check and case.unfused is None and (error := core.check(case, given)):
                wrong.append(f"{case.section}, {case.name}: {error}")
    assert not wrong
    rows = manifest()["rows"]
    # Strided nested and quantized tensors compute with the kernels of dense ones.
    others = ("NestedTensorXPU", "QuantizedXPU")
    nested = {r["op"] for r in rows if r["key"] in others} - {r["op"] for r in rows if r["key"] == "XPU"}
    names = {r["op"]: {base(n) for n in (r["op"], r["functional"], *r["overloads"])} for r in rows}
    without = {name for names in WITHOUT_ROW.values() for name in names.split()}
    missing = sorted(op for op, known in names.items() if not known & called and op not in without | nested)
    assert missing == []
    assert sorted(op for op in without if op not in names or names[op] & called) == [], "these have a row now"
    torch.xpu.synchronize()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", element_types.TYPES)
def test_rows_of_an_element_type_agree(label: str) -> None:
    wrong = []
    for case in element_types.cases(20, (label,)):
        given = core.to_xpu(case.args)
        with xpu_ops.trace_ops(timed=False) as trace:
            case.function(*given)
        wrong += [f"{case.name} falls back: {o.name}" for o in trace.fallbacks]
        if case.check and (error := core.check(case, given)):
            wrong.append(f"{case.name}: {error}")
    assert not wrong
