"""Native code for processors with AVX2 and without AVX-512: how an operand is read costs no branch per step.

A choice between two vectors by a condition of the whole loop is a masked move with AVX-512 and a branch with AVX2.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import script

ROOT = Path(__file__).resolve().parents[2]
NARROW = "core-avx2"


def native_code(build: Path, kernel: str, folder: Path) -> list[str]:
    """The instructions of a kernel as linked for a processor with AVX2."""
    index = dict(line.split("\t") for line in (build / "gen/kernel_index.tsv").read_text().splitlines())
    modules, module = build / "python/xpu_ops/modules", index[kernel]
    (folder / "in").mkdir()
    shutil.copy(modules / f"{module}.spv.syclbin", folder / "in")
    shutil.copy(modules / "modules.tsv", folder / "in")
    command = [sys.executable, "-m", "tools.kernelc.classes", "--worker", str(build / "kernelc"), "-j", "1"]
    command += ["--modules", str(folder / "in"), "--out", str(folder / "out"), "--classes", NARROW]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    file = (folder / "out" / NARROW / f"{module}.native.syclbin").read_bytes()
    (folder / "code.o").write_bytes(file[file.rindex(b"\x7fELF") :])  # the code is an object in the object
    command = ["objdump", "-d", "--no-show-raw-insn", "-M", "intel", str(folder / "code.o")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _, _, code = text.partition(f"<__sycl_kernel_{kernel}>:\n")
    return [line.partition("\t")[2].strip() for line in code.partition("\n\n")[0].splitlines()]


def straight(code: list[str]) -> Iterator[list[str]]:
    """The instructions from one jump to the next."""
    run: list[str] = []
    for instruction in code:
        if re.match(r"j\w+ ", instruction):
            yield run
            run = []
        else:
            run.append(instruction)
    yield run


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
@pytest.mark.parametrize(
    ("kernel", "inputs", "operation"),
    [
        ("add_Tensor_f32_rows", 2, "vaddps"),
        ("addcmul_f32_rows", 3, "vf[n]?madd"),
        ("bitwise_and_Tensor_i32_rows", 2, "vp?and"),
        ("add_Tensor_c64_rows", 4, "vaddps"),  # two vectors of pairs per input; gathers of single floats before
    ],
)
def test_a_step_is_straight(kernel: str, inputs: int, operation: str, build_dir: Path, tmp_path: Path) -> None:
    """A vector of every input is read, the result computed and stored without a jump between them."""
    runs = list(straight(native_code(build_dir, kernel, tmp_path)))
    assert len(runs) > 1, "no such kernel in the disassembly"

    def whole(run: list[str]) -> bool:
        vectors = [i for i in run if "YMMWORD PTR" in i and "mask" not in i and "rsp" not in i]
        stores = [i for i in vectors if re.match(r"vmov\w+\s+YMMWORD", i)]
        return len(vectors) - len(stores) >= inputs and bool(stores) and any(re.match(operation, i) for i in run)

    assert any(whole(run) for run in runs)


VALUES = """
import itertools
import torch

torch.manual_seed(0)
N = 100_000  # launched, not computed on the calling thread; the last step of a row is not whole
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128, torch.int64, torch.int16, torch.bool)

def numbers(*shape, dtype):
    values = torch.randn(shape, dtype=dtype) if dtype.is_floating_point or dtype.is_complex else torch.randint(-3, 4, shape)
    return values.to(dtype)

for dtype in KINDS:
    # By element, one value per row, one value for all, a number of the host.
    forms = [numbers(3, N + 5, dtype=dtype), numbers(3, 1, dtype=dtype), numbers(1, 1, dtype=dtype), numbers(dtype=dtype)]
    if dtype.is_floating_point:
        forms[0][:, :4] = torch.tensor([float("nan"), float("inf"), -0.0, 0.0], dtype=dtype)
    for a, b in itertools.product(forms, forms):
        for name in ("add", "eq", "mul"):
            if a.numel() < 10 and b.numel() < 10:
                continue
            call = getattr(torch, name)
            wanted, got = call(a, b), call(a.xpu() if a.dim() else a, b.xpu() if b.dim() else b).cpu()
            torch.testing.assert_close(got, wanted, equal_nan=True, msg=lambda m: f"{name} {dtype} {a.shape} {b.shape}: {m}")
lists = [numbers(50_000, dtype=torch.float32) for _ in range(3)]
there = [x.xpu() for x in lists]
for got, wanted in zip(torch._foreach_add(there, there, alpha=3.0), torch._foreach_add(lists, lists, alpha=3.0), strict=True):
    torch.testing.assert_close(got.cpu(), wanted)
for got, wanted in zip(torch._foreach_mul(there, 0.5), torch._foreach_mul(lists, 0.5), strict=True):
    torch.testing.assert_close(got.cpu(), wanted)
"""


def test_values_of_every_way_to_read_an_operand() -> None:
    script.out(VALUES, timeout=500, XPU_OPS_POLICY="", CL_CONFIG_CPU_TARGET_ARCH=NARROW)
