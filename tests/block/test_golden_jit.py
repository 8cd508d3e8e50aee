"""The kernels that xpu_ops.jit writes for its two operators, for a CPU device and for a GPU."""

from __future__ import annotations

import pytest
import torch
from support import golden

from xpu_ops import jit
from xpu_ops.block import printer
from xpu_ops.block.device import CPU, GPU, Policy
from xpu_ops.block.nests import Problem, choose

POLICIES = {"cpu": CPU, "gpu": GPU}
POINTWISE = {
    "one_dimension": ("float a, float b, float alpha = 1", "a + alpha * b", (torch.float32, torch.bfloat16), 1),
    "three_dimensions": ("T a", "xpu::exp(a)", (torch.float16,), 3),
    "integers": ("T a, T b, int shift = 1", "(a ^ b) << shift", (torch.int32, torch.int32), 2),
}
REDUCTIONS = {
    "sum_of_short_rows": (Problem(1000, 64, reduce=True), "T a", "a", "a + b", "0", False),
    "norm_of_long_rows": (Problem(4, 5000, reduce=True), "float a, float b", "a * b", "a + b", "0", False),
    "largest_of_parts": (Problem(64, 64, reduce=True), "T a", "a", "xpu::maximum(a, b)", "-xpu::inf<T>()", True),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str, policy: Policy, request: pytest.FixtureRequest) -> None:
    declared, expression, dtypes, dims = POINTWISE[name]
    op = jit.elementwise(name, declared, expression)
    form = choose(Problem(100, 1000), policy)
    kernel = op._block(form, dtypes[0], list(dtypes), torch.float32 if dims < 3 else torch.float16, dims)
    golden.check(f"jit_{name}.{request.node.callspec.id.split('-')[-1]}.expected", printer.source(kernel))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str, policy: Policy, request: pytest.FixtureRequest) -> None:
    problem, declared, expression, combine, identity, partial = REDUCTIONS[name]
    op = jit.reduction(name, declared, expression, combine=combine, identity=identity, finish="x / n")
    types = [torch.float32] * len(op.operands)
    kernel = op._block(choose(problem, policy), types, torch.float32, None if partial else torch.float32, partial)
    golden.check(f"jit_{name}.{request.node.callspec.id.split('-')[-1]}.expected", printer.source(kernel))
