"""Which expressions may run on the calling thread: those that no compiler contracts."""

from __future__ import annotations

import pytest

from tools.codegen.host import cost, feeds_sum, same_everywhere


@pytest.mark.parametrize(
    "expr",
    [
        "a * b + c", "a + b * c", "c - a * b", "a - -b * c", "-a * b - c", "(a * b) + c", "((a)) * (b) + c", "M(a * b) - c",
        "c + -(a * b)", "(c ? a * b : d) + e", "a / b * c + d", "a * (M(1) - b * b)", "c - (a + b) * d", "c ? d : a * b + e",
    ],
)  # fmt: skip
def test_a_product_that_feeds_a_sum(expr: str) -> None:
    assert feeds_sum(expr)
    assert not same_everywhere([expr], "f32")
    assert same_everywhere([expr], "i32")


@pytest.mark.parametrize(
    "expr",
    [
        "a + b", "a * (M(1) - b) * b", "a + s0 * b / c", "(a + b) * c", "-(a * b)", "sycl::fma(s0 * b, c, a)",
        "a * xpu::minimum(xpu::maximum(a + M(3), M(0)), M(6)) / M(6)", "sycl::fabs(a * b) - c",
        "b <= M(-3) ? M(0) : b >= M(3) ? a : a * (b / M(3) + M(0.5))", "a > s0 ? a - s0 : a < -s0 ? a + s0 : a * M(0)",
    ],
)  # fmt: skip
def test_nothing_to_contract(expr: str) -> None:
    assert not feeds_sum(expr)
    assert same_everywhere([expr], "f32")


def test_approximated_functions_run_on_the_device_only() -> None:
    assert not same_everywhere(["sycl::exp(a)"], "f32")
    assert not same_everywhere(["xpu::sigmoid(a)"], "f64")
    assert not same_everywhere(["xpu::sinc(a)"], "f32")
    assert not same_everywhere(["xpu::fmod(a, b)"], "f64")


@pytest.mark.parametrize("type_name", ["f32", "f16", "bf16"])
def test_own_functions_of_float_run_on_both(type_name: str) -> None:
    assert same_everywhere(["xpu::sigmoid(a)"], type_name)
    assert not same_everywhere(["xpu::exp(a) * b + c"], type_name)
    assert same_everywhere(["xpu::remainder(a, b)"], type_name)
    assert 1 < cost(["xpu::exp(a)"], type_name) < cost(["xpu::exp(a)", "xpu::log(b)"], type_name)
