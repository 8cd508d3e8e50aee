"""The portable modules are SPIR-V that a GPU's compiler may refuse; `make check-gpu` asks two real tools, where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.check_gpu import bools_read_as_integers, kernels_of, products_cut_to_32_bits, spirv_of, vectors_of

BUILD = Path(os.environ.get("XPU_OPS_BUILD_DIR", "build"))
MODULES = sorted((BUILD / "python/xpu_ops/modules").glob("*.spv.syclbin"))


def test_there_are_modules() -> None:
    assert len(MODULES) > 50


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.name.split(".")[0])
def test_no_module_has_what_a_driver_refuses_or_gets_wrong(module: Path) -> None:
    """Vectors of 2, 3, 4, 8 or 16 and no bits of bool, though this machine's CPU driver takes what else the optimizer
    makes; no sign extension that this driver drops."""
    (spirv,) = spirv_of(module.read_bytes())
    assert kernels_of(spirv)
    assert vectors_of(spirv) <= {2, 3, 4, 8, 16}
    assert bools_read_as_integers(spirv) == 0
    assert products_cut_to_32_bits(spirv) == 0
