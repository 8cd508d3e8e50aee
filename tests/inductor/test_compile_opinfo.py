"""torch's own operator samples (OpInfo) through torch.compile, against eager on xpu.

`make test` draws some operators from a fixed seed, one sample each; XPU_OPS_TEST_LEVEL=full takes all.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from support.compiled_opinfo import Case, backward_cases, check, forward_cases

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
DRAWN = {"forward": 20, "backward": 5}
SAMPLES = 2 if FULL else None


def parameters(kind: str, cases: list[Case]) -> list[Any]:
    if not FULL:
        cases = random.Random(18).sample(cases, DRAWN[kind])
    return [pytest.param(case, id=case.id) for case in cases]


@pytest.mark.parametrize("case", parameters("forward", forward_cases()))
def test_forward(case: Case) -> None:
    check(case, SAMPLES)


@pytest.mark.parametrize("case", parameters("backward", backward_cases()))
def test_backward(case: Case) -> None:
    check(case, SAMPLES)


# A size that is computed before the launch stood in the launch alone.
FOUND = {"native_group_norm-float32-dynamic"}


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in backward_cases() if c.id in FOUND])
def test_found(case: Case) -> None:
    assert check(case, None)
