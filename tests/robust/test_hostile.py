"""Calls that nobody means: native overloads on both devices, composites on xpu. `make test-robust` runs 100,000."""

from __future__ import annotations

import os

import pytest
from support import hostile

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
SEED = 7
ROUNDS = 90 if FULL else 2  # of about 1,150 calls
COMPOSITE_ROUNDS = 10
TWISTED_ROUNDS = 10 if FULL else 1

# Calls that crashed, asserted, gave wrong values, refused or took too much, and do so no longer: seed, number, overload.
REGRESSIONS = [
    (2, 6992, "_convert_indices_from_coo_to_csr"),
    (2, 8155, "_convert_indices_from_csr_to_coo"),
    (2, 16500, "_segment_reduce_backward"),
    (2, 6096, "_validate_compressed_sparse_indices"),
    (2, 1452, "_validate_compressed_sparse_indices"),
    (2, 1183, "_cdist_backward"),
    (2, 9310, "_cdist_backward"),
    (2, 13066, "_weight_norm_interface"),
    (2, 17045, "mish_backward"),
    (2, 17332, "std_mean.correction"),
    (2, 233, "_prelu_kernel"),
    (2, 801, "mse_loss_backward.grad_input"),
    (2, 800, "mse_loss_backward"),
    (2, 4112, "huber_loss_backward.out"),
    (2, 11077, "huber_loss.out"),
    (2, 2949, "huber_loss"),
    (2, 10284, "smooth_l1_loss_backward.grad_input"),
    (2, 14337, "binary_cross_entropy_backward"),
    (2, 2554, "_pdist_forward"),
    (2, 18977, "bernoulli_.Tensor"),
    (2, 827, "native_dropout"),
    (2, 3190, "poisson"),
    (2, 3257, "rrelu_with_noise.out"),
    (2, 1094, "threshold"),
    (2, 2258, "threshold_backward"),
    (2, 4094, "hardtanh"),
    (2, 9614, "addcmul"),
    (2, 14379, "clamp_max"),
    (2, 10457, "_adaptive_avg_pool2d"),
    (2, 7590, "histogram.bin_ct_out"),
    (2, 17461, "_fake_quantize_learnable_per_tensor_affine"),
    (2, 14087, "_foreach_norm.Scalar"),
    (3, 441, "clamp"),
    (3, 672, "kaiser_window.beta"),
    (3, 1394, "_prelu_kernel"),
    (7, 83689741209, "triu_indices"),
    (7, 87035236559, "linalg_eigvals.out"),
    (7, 138995711653, "_chunk_cat.out"),
    (7, 142644890004, "norm.ScalarOpt_dim"),
    (7, 142682201796, "quantize_per_tensor_dynamic"),
    (7, 148493343070, "grid_sampler_2d"),
    (7, 157048641923, "grid_sampler_3d_backward"),
    (7, 180643980466, "linalg_vector_norm.out"),
    (7, 218276007416, "smooth_l1_loss.out"),
    (7, 234864668452, "lu_unpack.out"),
    (7, 250473006659, "grid_sampler_2d_backward"),
    (7, 277307726211, "grid_sampler_3d_backward"),
    (7, 281477934588233, "var.correction_out"),
    (7, 281483616903717, "std.correction_out"),
    (7, 281491048350521, "range.out"),
    (7, 281494152435659, "binomial"),
    (7, 281515580234029, "index_fill_.int_Scalar"),
    (7, 281524735522857, "logsumexp.out"),
    (8, 13238909037, "_adaptive_avg_pool2d"),
    (8, 20715893345, "binary_cross_entropy_backward"),
    (8, 31001238159, "logspace.out"),
    (2411, 16841560728, "histogram.bins_tensor_out"),
    (90125, 9530137503, "_linalg_svd.U"),
    (90125, 22069492486, "linspace.out"),
    (90125, 48181107343, "logspace.out"),
    (90125, 62566347329, "scatter.value"),
    (90125, 87780656197, "rsub.Tensor"),
    (90125, 88225701876, "histogram.bin_ct_out"),
    (90125, 159857367432, "batch_norm_backward_reduce"),
]


# The same of composites.
COMPOSITE_REGRESSIONS = [
    (7, 9195543715, "_foreach_sub.Scalar_out"),
    (7, 39260314787, "_foreach_sub.Scalar_out"),
    (7, 55200908401, "_foreach_add.List_out"),
    (7, 55136850619, "_foreach_sub.ScalarList_out"),
    (7, 57610624489, "svd.U"),
    (7, 13490511011, "_foreach_sub.Scalar_out"),
    (7, 60735151267, "_foreach_sub.Scalar_out"),
    (7, 82209987747, "_foreach_sub.Scalar_out"),
    (7, 64194897525, "conj_physical_"),
    (7, 83325984385, "_foreach_powsum.Scalar_out"),
]


def _report(found: list[hostile.Finding]) -> str:
    return "\n".join(f"{f.kind}: {f.overload} (seed {f.seed}, number {f.number}): {f.detail}" for f in found)


def test_regressions() -> None:
    todo = [hostile.Call(*c) for c in REGRESSIONS]
    assert {c.name for c in todo} <= set(hostile.overloads())
    found = list(hostile.campaign(todo, hostile.Figures()))
    assert not found, _report(found)


def test_composite_regressions() -> None:
    todo = [hostile.Call(*c) for c in COMPOSITE_REGRESSIONS]
    assert {c.name for c in todo} <= {*hostile.overloads(), *hostile.overloads(composites=True)}
    found = list(hostile.campaign(todo, hostile.Figures(), composites=True))
    assert not found, _report(found)


def test_native_overloads() -> None:
    figures = hostile.Figures()
    found = list(hostile.campaign(hostile.calls(SEED, 0, ROUNDS), figures))
    assert not found, _report(found)
    assert figures.ended["returned on xpu, returned on the CPU"] > 0.2 * figures.ended.total()
    if FULL:
        wanted = [k.reason for k in hostile.known() if k.seed == SEED and not k.composite]
        unused = [reason for reason in wanted if not figures.explained[reason]]
        assert not unused, f"entries of hostile.yaml that explain no finding: {unused}"


def test_twisted() -> None:
    """A tensor of another device, out= that shares memory with an input, wanted gradients: tests/support/twists.py."""
    found = list(hostile.campaign(hostile.calls(SEED, 0, TWISTED_ROUNDS, twisted=True), hostile.Figures()))
    assert not found, _report(found)


@pytest.mark.slow
def test_composites() -> None:
    todo = hostile.calls(SEED, 0, COMPOSITE_ROUNDS, composites=True)
    found = list(hostile.campaign(todo, hostile.Figures(), composites=True))
    assert not found, _report(found)
