"""tools/gpu as far as it goes without a GPU: recordings replay on the device they were made on, kernels become PTX."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tools.gpu import recording, report, types
from tools.gpu.cases import GOALS, table
from tools.gpu.device import values
from tools.gpu.device.runs import reports
from tools.gpu.ptx import Compiler, Toolchain, ToolchainMissing, finished

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("XPU_OPS_BUILD_DIR", ROOT / "build"))

# Launches with one struct, two dimensions, local memory of tables, an exchange of lanes, an error record, 16-bit floats.
PROGRAM = """
import torch

def test_some():
    a = torch.linspace(-1, 1, 3000, device="xpu").view(30, 100)
    a.add(1)
    a.half().sum(1)
    a.softmax(1)
    torch.cat([a, a.t().contiguous().view(30, 100)])
    torch._foreach_add([a, a[0]], 1.5)
    a[torch.tensor([3, 1], device="xpu")]
    a.sort(1)
    torch.xpu.synchronize()
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{BUILD / 'python'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("gpu")
    program = folder / "test_program.py"
    program.write_text(PROGRAM)
    done = run("-m", "tools.gpu.record", program, "--build", BUILD, "--out", folder / "recordings")
    assert "1 passed" in done.stdout, done.stdout
    run("-m", "tools.gpu.types", "--build", BUILD, "--out", folder / "kernels.json")
    yield folder


def test_recording_holds_what_a_launch_needs(recorded: Path) -> None:
    launches = list(recording.launches(recorded / "recordings" / "test_program.rec.xz"))
    names = {launch.kernel for launch in launches}
    assert {"softmax_row_f32", "add_f32_rows"} <= {
        n.replace("softmax_rows_f32", "softmax_row_f32") for n in names
    } or len(names) > 6
    for launch in launches:
        assert launch.test.endswith("test_program.py::test_some")
        assert launch.blocks and all(b.before is not None and len(b.before) == b.size for b in launch.blocks)
        for change in launch.after:
            before = launch.blocks[change.block].before
            assert before is not None and before[change.offset : change.offset + len(change.data)] != change.data
    # The sizes of a GPU reach the plans: more groups than this machine has processors.
    assert any(launch.after for launch in launches)


def test_recording_replays_with_the_same_bits(recorded: Path) -> None:
    done = run(
        "-m", "tools.gpu.cpu", recorded / "recordings" / "test_program.rec.xz", "--build", BUILD, "--types", recorded / "kernels.json",
    )  # fmt: skip
    launches = list(recording.launches(recorded / "recordings" / "test_program.rec.xz"))
    assert f"gpu-cpu: {len(launches)} launches: {{'same': {len(launches)}}}" in done.stdout


def test_a_changed_result_is_noticed(recorded: Path, tmp_path: Path) -> None:
    """The same recording with one byte of a result turned round."""
    import lzma

    data = bytearray(lzma.open(recorded / "recordings" / "test_program.rec.xz").read())
    at, last = 0, 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        line = json.loads(data[at + 4 : at + 4 + size])
        at += 4 + size
        if "kernel" in line:
            at += line["args"] + sum(line["blocks"][b][1] for b in line["before"]) + sum(n for _, _, n in line["after"])
            last = at - 1 if line["after"] else last
    data[last] ^= 0x40
    (tmp_path / "changed.rec").write_bytes(data)
    command = [sys.executable, "-m", "tools.gpu.cpu", str(tmp_path / "changed.rec"), "--build", str(BUILD)]
    done = subprocess.run(
        [*command, "--types", str(recorded / "kernels.json")], cwd=ROOT, capture_output=True, text=True, timeout=500,
        env={**os.environ, "PYTHONPATH": f"{BUILD / 'python'}:{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 1 and "differs" in done.stdout, done.stdout + done.stderr


def test_modules_become_ptx(tmp_path: Path) -> None:
    try:
        toolchain = Toolchain.prepare(BUILD / "gpu")
    except ToolchainMissing as missing:
        pytest.skip(f"{missing} (make gpu-ptx does)")
    sources = {p.stem: p for p in sorted((BUILD / "gen" / "sycl").glob("scan_*.cpp"))[:1]}
    modules, failed = Compiler(toolchain, [ROOT, BUILD], tmp_path, 1).run(sources)
    assert not failed and len(modules) == 1
    (module,) = modules.values()
    text = (tmp_path / str(module["file"])).read_text()
    assert ".target sm_90" in text and "_with_offset" not in text
    # Half a warp is a sub-group: shuffles in segments of 16, no call of a function that the libraries should have inlined.
    segments = set(re.findall(r"shfl\.sync\.\w+\.b32\s[^;]*, (\d+), [^,;]+;", text))
    assert segments and segments <= {str(16 << 8), str(16 << 8 | 31)}
    assert "__spirv" not in text.replace("__spirv_BuiltIn", "")
    built = dict(line.split("\t") for line in (BUILD / "gen" / "kernel_index.tsv").read_text().splitlines())
    assert sorted(module["kernels"]) == sorted(k for k, m in built.items() if m in sources)  # type: ignore[call-overload]


def test_finished_text() -> None:
    text = (
        ".version 8.3\n.target sm_60\n\t// .globl\t__sycl_kernel_f\n.visible .entry __sycl_kernel_f(\n)\n{\n\tret;\n}\n"
        "\t// .globl\t__sycl_kernel_f_with_offset\n.visible .entry __sycl_kernel_f_with_offset(\n)\n{\n\tret;\n}\n"
    )
    done, kernels = finished(text)
    assert kernels == ["f"] and ".target sm_90" in done and "offset" not in done
    with pytest.raises(ValueError, match="target 0 times"):
        finished(done)


@pytest.mark.parametrize("kind", ["f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"])
def test_float8_is_read_as_torch_reads_it(kind: str) -> None:
    raw = np.arange(256, dtype=np.uint8)
    torch_type = {"f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}.get(kind, kind.replace("f8", "float8_"))
    expected = torch.from_numpy(raw).view(getattr(torch, torch_type)).double().numpy()
    np.testing.assert_array_equal(values.numbers(raw, kind), expected)


def test_values_are_compared_by_their_type() -> None:
    tolerances = types.tolerances()
    a = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    near, far = a * np.float32(1 + 1e-6), a * np.float32(1 + 1e-3)
    assert values.region(near.tobytes(), a.tobytes(), ["f32"], tolerances).excess <= 1
    assert values.region(far.tobytes(), a.tobytes(), ["f32"], tolerances).excess > 1
    # An integer that is off by one is no small float.
    i = np.array([7, 8, 9, 10], np.int32)
    assert values.region((i + 1).tobytes(), i.tobytes(), ["i32"], tolerances).excess == np.inf
    # A wrong bfloat16 in the low half of a word is not taken for the last bits of a float.
    b = torch.ones(64, dtype=torch.bfloat16)
    c = b.clone()
    c[4] = 1.5
    raw = [t.view(torch.uint8).numpy().tobytes() for t in (c, b)]
    assert values.region(*raw, ["bf16"], tolerances).excess > 1
    # NaN of any bits, and zeros of either sign, are the same value.
    n = np.array([np.nan, -0.0, 1, 1], np.float32), np.array([-np.nan, 0.0, 1, 1], np.float32)
    assert values.region(n[0].tobytes(), n[1].tobytes(), ["f32"], tolerances).excess == 0


def test_pointers_find_the_blocks_where_they_are_now() -> None:
    moved = recording.Addresses({0x7F0000001000: (64, 0x10000), 0x7F0000002000: (32, 0x20000)})
    words = [0x7F0000001000, 0x7F000000103F, 0x7F0000001040, 0x7F0000001041, 12345, 0x7F0000002010]
    now = [0x10000, 0x1003F, 0x10040, 0x7F0000001041, 12345, 0x20010]
    assert moved.relocated(struct.pack("<6Q", *words) + b"end") == struct.pack("<6Q", *now) + b"end"


def test_launch_structs_from_debug_information() -> None:
    found = types.layouts(["ScanArgs", "ForeachArgs<3>"])
    assert found["ScanArgs"] == [(0, ""), (8, ""), (16, "i64"), (24, "")]
    assert found["ForeachArgs<3>"] == [(0, "ForeachValueTensor<3>")]


def test_sanitizer_reports_are_counted_by_kernel() -> None:
    text = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at __sycl_kernel_scan_f32+0x340
=========     by thread (3,0,0) in block (0,0,0)
=========
========= Invalid __global__ read of size 4 bytes
=========     at __sycl_kernel_scan_f32+0x340
=========     by thread (4,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
    assert {k: dict(v) for k, v in reports(text).items()} == {
        "scan_f32": {"Invalid __global__ read of size 4 bytes": 2}
    }


def test_ledger_explains_by_state(tmp_path: Path) -> None:
    page = tmp_path / "ledger.yaml"
    page.write_text(
        "- {kernels: ['a_*'], state: differs, reason: known}\n- {kernels: [b], state: fatal, reason: old}\n"
    )
    ledger = report.Ledger(page)
    assert ledger.explains("a_f32", "differs")
    assert not ledger.explains("a_f32", "fatal")
    assert [e.kernels for e in ledger.unused()] == [["b"]]
    report.Ledger()  # the project's own is readable


def test_a_kernel_is_as_good_as_its_worst_launch() -> None:
    base = {"digest": "", "kernel": "k", "test": "t", "number": 0}
    results = [
        {**base, "state": "same"},
        {**base, "state": "within", "excess": 0.4},
        {**base, "state": "within", "excess": 0.9},
        base,
    ]
    assert report.by_kernel(results)["k"]["excess"] == 0.9


def test_cases_of_the_benchmark() -> None:
    cases = table()
    assert len(cases) >= 60 and len({c.name for c in cases}) == len(cases)
    assert {c.group for c in cases} == set(GOALS)
    assert all(c.moved > 0 for c in cases)
