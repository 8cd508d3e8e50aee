"""The portable modules are SPIR-V that a GPU's compiler may refuse; `make check-gpu` asks two real tools, where they are."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tools.check_gpu import OP_FUNCTION, kernels_of, spirv_of

BUILD = Path(os.environ.get("XPU_OPS_BUILD_DIR", "build"))
MODULES = sorted((BUILD / "python/xpu_ops/modules").glob("*.spv.syclbin"))
OP_TYPE_VECTOR = 23


def vectors_of(spirv: bytes) -> set[int]:
    """The numbers of components of the vector types."""
    found, at = set(), 20
    while at + 4 <= len(spirv):
        word = struct.unpack_from("<I", spirv, at)[0]
        op, words = word & 0xFFFF, word >> 16
        if op == OP_FUNCTION or words == 0:
            break
        if op == OP_TYPE_VECTOR:
            found.add(struct.unpack_from("<I", spirv, at + 12)[0])
        at += 4 * words
    return found


def test_there_are_modules() -> None:
    assert len(MODULES) > 50


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.name.split(".")[0])
def test_vectors_have_lengths_that_spirv_knows(module: Path) -> None:
    """Of 2, 3, 4, 8 or 16: the optimizer joins vectors, and this machine's CPU driver takes what it makes of them."""
    (spirv,) = spirv_of(module.read_bytes())
    assert kernels_of(spirv)
    assert vectors_of(spirv) <= {2, 3, 4, 8, 16}
