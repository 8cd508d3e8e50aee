"""Who stores after an exchange between items of a sub-group is decided by kernels/sycl/core/lanes.hpp.

The CPU device's compiler narrows a kernel without loops whose stores are all behind a test of the work-item's local id
to the items that pass it. A shuffle before that test then reads what nobody wrote.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.check_gpu import kernels_of_unknown_width, spirv_of
from tools.kernelc.digest import cpu_runtime

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("XPU_OPS_BUILD_DIR", ROOT / "build"))
DEVICE = ROOT / "kernels" / "sycl"
MODULES = sorted((BUILD / "python/xpu_ops/modules").glob("*.spv.syclbin"))

GROUPS, LANES = 6, 16
KERNELS = """#include "kernels/sycl/core/row.hpp"
struct ProbeArgs { const float* x; float* out; uint32_t groups, columns; };
using namespace xpu;
inline size_t local() { return syclex::this_work_item::get_nd_item<1>().get_local_id(0); }
inline size_t group() { return syclex::this_work_item::get_nd_item<1>().get_group(0); }
#define KERNEL(NAME, GUARD)                                     \\
  XPU_KERNEL_SG(1, 16) NAME(ProbeArgs p) {                      \\
    const float sum = lane_sum((p.x + group() * 16)[local()]);  \\
    if (GUARD) p.out[group()] = sum;                            \\
  }
KERNEL(old_equal, local() == 0)
KERNEL(old_below, local() < p.columns - 15)
KERNEL(new_first, is_first_lane())
KERNEL(new_equal, sub_group_lane() == 0)
KERNEL(new_below, sub_group_lane() < p.columns - 15)
XPU_KERNEL_SG(1, 16) new_store(ProbeArgs p) { store_first(p.out + group(), lane_sum((p.x + group() * 16)[local()])); }
KERNEL(new_edge, is_first_lane() && group() < p.groups)
XPU_KERNEL_SG(1, 16) new_fixed(ProbeArgs p) {  // a row of known length: no loop is left
  float s[4] = {0, 0, 0, 0};
  for_row(16, local(), [&](size_t r, int j) { s[j] += (p.x + group() * 16 + r)[local()]; });
  const float sum = lane_sum((s[0] + s[1]) + (s[2] + s[3]));
  if (is_first_lane()) p.out[group()] = sum;
}
"""
SUMS = [sum(range(g * LANES, (g + 1) * LANES)) for g in range(GROUPS)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The value that each kernel of KERNELS stores."""
    folder = tmp_path_factory.mktemp("lanes")
    (folder / "src").mkdir()
    (folder / "src" / "guards.cpp").write_text(KERNELS)
    command = [sys.executable, "-m", "tools.kernelc", "--worker", str(BUILD / "kernelc"), "-j", "1"]
    command += [
        "--sources",
        str(folder / "src"),
        "--out",
        str(folder / "out"),
        "--preamble",
        "kernels/sycl/core/device.hpp",
    ]
    command += ["-I", str(ROOT)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    names = re.findall(r"^(?:KERNEL\(|XPU_KERNEL_SG\(1, 16\) )(\w+)", KERNELS, re.M)
    env = {**os.environ, "OCL_ICD_FILENAMES": str(cpu_runtime()), "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}
    command = [str(BUILD / "launch_probe"), str(folder / "out" / "guards.native.syclbin"), str(GROUPS), *names]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    return {row[0]: [float(v) for v in row[1:]] for row in rows}


@pytest.mark.parametrize("kernel", re.findall(r"(new_\w+)", KERNELS))
def test_guard_of_the_device_headers(stored: dict[str, list[float]], kernel: str) -> None:
    assert stored[kernel] == SUMS


@pytest.mark.parametrize("kernel", re.findall(r"(old_\w+)", KERNELS))
def test_guard_by_local_id(
    stored: dict[str, list[float]], kernel: str, record_property: Callable[[str, object], None]
) -> None:
    """Records whether this driver still gets it wrong. A driver that gets it right is welcome."""
    wrong = stored[kernel] != SUMS
    record_property("driver_narrows_to_the_guard", wrong)
    print(f"{kernel}: {'still wrong' if wrong else 'right'} with this driver")
    assert len(stored[kernel]) == GROUPS


# ---- the rule, in the sources
EXCHANGE = re.compile(
    r"\b(exchange|from_lane|store_first|lane_sum|lane_max|lane_shift|lane_last|permute_group_by_xor|shift_group_(?:left|right)|"
    r"select_from_group|group_broadcast|\w+_over_group|(?:any|all|none)_of_group)\s*(?:<[\w:, ]+>\s*)?\("
)
LOCAL = r"(?:get_local_id\(\s*\d\s*\)|get_local_linear_id\(\)|(?<!sub_group_)\blocal_id\(\))"


def closing(text: str, at: int, pair: str) -> int:
    """The place of what closes the bracket at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text)


def functions(source: str) -> Iterator[tuple[str, str]]:
    """Name and text of each function of a header; members of a class stand in the class's text."""
    text = re.sub(r"//[^\n]*", "", source)
    at = 0
    for open_brace in iter(lambda: text.find("{", at), -1):
        head = text[at:open_brace]
        if re.search(r"\bnamespace\b[^;{}]*$", head):
            at = open_brace + 1
            continue
        end = closing(text, open_brace, "{}")
        name = re.findall(r"(\w+)\s*(?:\(|$|:)", head.strip())
        yield (name[-1] if name else "?"), head[head.rfind(";") + 1 :] + text[open_brace : end + 1]
        at = end + 1


def local_ids(text: str) -> re.Pattern[str]:
    """Finds the local id in a function: the call, and the variables and parameters made of it by arithmetic."""
    names = set(re.findall(r"\bsize_t\s+(lane|id)\s*[,)]", text))
    while True:
        local = re.compile("|".join([LOCAL, *(rf"(?<!->)(?<!\w){n}\b" for n in sorted(names))]))
        sums = re.findall(r"(?<![.\w])(\w+)\s*=\s*((?:[\w\s:.+*/&<>-]|static_cast<\w+>\(|\(\s*\d*\s*\)|\))+)[,;]", text)
        more = {name for name, value in sums if local.search(value)} - names
        if not more:
            return local
        names |= more


def guards_by_local_id(source: str) -> list[str]:
    """Tests of the work-item's local id after an exchange: 'function: if (condition)'."""
    found = []
    for name, text in functions(source):
        plain = re.sub(r"\b(?:sg|group|get_sub_group\(\))\.get_local_linear_id\(\)", "sub_group_lane()", text)
        exchange = EXCHANGE.search(plain)
        if exchange is None:
            continue
        local = local_ids(plain)
        for test in re.finditer(r"\bif\s*\(", plain[exchange.start() :]):
            begin = exchange.start() + test.end() - 1
            condition = plain[begin + 1 : closing(plain, begin, "()")]
            if local.search(condition):
                found.append(f"{name}: if ({condition})")
    return found


BAD = """namespace xpu {
template <class T> void f(const Args& p) {
  const size_t lane = item.get_local_id(0), n = p.n;
  const float sum = lane_sum(p.x[lane]);
  if (GUARD) p.out[0] = sum;
}
}
"""


@pytest.mark.parametrize("guard", ["lane == 0", "lane < p.n", "p.totals && lane == 0", "local_id() == 0", "!lane"])
def test_rule_finds(guard: str) -> None:
    assert guards_by_local_id(BAD.replace("GUARD", guard)) == [f"f: if ({guard})"]


@pytest.mark.parametrize("guard", ["is_first_lane()", "sub_group_lane() < p.n", "p.n == 0"])
def test_rule_allows(guard: str) -> None:
    assert guards_by_local_id(BAD.replace("GUARD", guard)) == []


@pytest.mark.parametrize("header", sorted(DEVICE.rglob("*.hpp")), ids=lambda p: str(p.relative_to(DEVICE)))
def test_no_guard_by_local_id_after_an_exchange(header: Path) -> None:
    assert guards_by_local_id(header.read_text()) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.name.split(".")[0])
def test_kernels_that_rely_on_a_width_name_it(module: Path) -> None:
    """`sub_group: 16` in the manifest: else the compiler chooses, with AVX2 8 lanes, which exchange with the wrong ones."""
    (spirv,) = spirv_of(module.read_bytes())
    assert kernels_of_unknown_width(spirv) == []
