"""The kernels that are lowered from Triton IR, for a CPU device and for a GPU. No Triton is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import golden

from xpu_ops.block.device import CPU, GPU, Policy
from xpu_ops.block.nests import program
from xpu_ops.triton import ttir
from xpu_ops.triton.lower import kernel

POLICIES = {"cpu": CPU, "gpu": GPU}
KERNELS = sorted((Path(__file__).parent / "ttir").glob("*.ttir"))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernel(path: Path, policy: Policy, request: pytest.FixtureRequest) -> None:
    lowered = kernel.lower(ttir.parse(path.read_text()), program(policy, warps=4))
    golden.check(f"triton_{request.node.callspec.id.replace('-', '.')}.expected", lowered.source)
