"""Products of few rows with operands of 8 and 4 bits on a processor with AVX2 and no AVX-512, which the driver's target makes of any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import script

HERE = Path(__file__).parent
CHOSEN = """
import torch
from torch.nn.functional import ScalingType as Type, scaled_mm

def names(call):
    call()
    with torch.profiler.profile() as profile:
        call()
    return {e.name.replace(" ", "_") for e in profile.events() if e.name.startswith(("narrow_", "block", "weight_int4"))}

one = torch.ones((), device="xpu")
for scale, block, type in ((torch.float8_e8m0fnu, 32, Type.BlockWise1x32), (torch.float8_e4m3fn, 16, Type.BlockWise1x16)):
    a, b = (torch.ones(n, 128, dtype=torch.uint8, device="xpu").view(torch.float4_e2m1fn_x2) for n in (3, 32))
    sa, sb = (torch.ones(n, 256 // block, device="xpu").to(scale) for n in (3, 32))
    (name,) = names(lambda: scaled_mm(a, b.t(), sa, type, sb, type))
    assert name == f"narrow_dots_e2m1_{'e8m0' if block == 32 else 'e4m3'}", name
a, b = (torch.ones(n, 256, device="xpu").to(torch.float8_e4m3fn) for n in (3, 32))
assert names(lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)) == {"narrow_dots_e4m3"}  # the profile leaves out "rows"
for scale, block, type, name in ((torch.float8_e8m0fnu, 32, Type.BlockWise1x32, "e8m0"), (torch.float32, 128, Type.BlockWise1x128, "f32")):
    sa, sb = (torch.ones(n, 256 // block, device="xpu").to(scale) for n in (3, 32))
    assert names(lambda: scaled_mm(a, b.t(), sa, type, sb, type)) == {"narrow_dots_e4m3_" + name}
w, both = torch.ones(32, 32, dtype=torch.int32, device="xpu"), torch.ones(2, 32, 2, device="xpu")
for dtype, name in ((torch.bfloat16, "narrow_int4_bf16"), (torch.float16, "narrow_int4_f16"), (torch.float32, "weight_int4_f32")):
    x = torch.ones(2, 256, device="xpu", dtype=dtype)
    assert names(lambda: torch._weight_int4pack_mm(x, w, 128, both.to(dtype))) == {name}
"""


def test_which_kernels_are_chosen() -> None:
    script.out(CHOSEN, timeout=300, **script.AVX2)


@pytest.mark.parametrize(
    ("file", "chosen"),
    [
        ("test_blockscale.py", "test_products or nan or special or extreme or few or outputs"),
        pytest.param("test_lowprecision.py", "int4pack or test_scaled_mm", marks=pytest.mark.slow),
    ],
)
def test_values(file: str, chosen: str) -> None:
    """The tests of the other processors."""
    env = {k: v for k, v in {**os.environ, **script.AVX2}.items() if v}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        HERE / file,
        "-k",
        chosen,
    ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
