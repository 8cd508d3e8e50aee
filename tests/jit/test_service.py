"""The compiler worker and the disk cache: crashes, time limits, damaged files, folders that cannot be written."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from support import script

from tools.check_gpu import bools_read_as_integers, kernels_of, products_cut_to_32_bits, spirv_of, vectors_of
from xpu_ops import _C, jit
from xpu_ops._paths import package_dir
from xpu_ops.jit import service, worker

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "void fill(float* y, float v) {{ y[xpu::global_id()] = v + {n}; }}"
IN_PROCESS = """
import torch
from xpu_ops import jit, _C
from xpu_ops.jit import service, worker
k = jit.kernel("void fill(float* y, float v) { y[xpu::global_id()] = v + 77; }", "fill", local=4)
y = torch.empty(4, device="xpu")
k(y, 1.0, groups=1)
assert y.tolist() == [78.0] * 4
print(service.records[0].compiled, worker.WORKER.pid is not None)
"""


def fill(n: int) -> None:
    y = torch.empty(4, device="xpu")
    jit.kernel(SOURCE.format(n=n), "fill", local=4)(y, 1.0, groups=1)
    assert y.tolist() == [n + 1.0] * 4


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XPU_OPS_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_found_in_the_cache(cache: Path) -> None:
    fill(1)
    assert service.records[-1].compiled
    fill(1)
    assert not service.records[-1].compiled


def test_a_second_process_compiles_nothing(cache: Path) -> None:
    assert script.out(IN_PROCESS, XPU_OPS_CACHE_DIR=str(cache)) == "True True"
    assert script.out(IN_PROCESS, XPU_OPS_CACHE_DIR=str(cache)) == "False False"


@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_damaged_files_are_made_again(cache: Path, damage: str) -> None:
    fill(2)
    files = list(cache.iterdir())
    assert len(files) == 2  # portable and native
    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data[: len(data) // 2] if damage == "truncated" else data)
    fill(2)
    assert service.records[-1].compiled


def test_native_code_is_linked_from_the_portable_file(cache: Path) -> None:
    fill(3)
    largest_first = sorted(cache.iterdir(), key=lambda f: b" spirv" not in f.read_bytes()[:200])
    for native in largest_first[1:]:
        native.unlink()
    linked = _C.jit_stats()["linked"]
    fill(3)
    assert not service.records[-1].compiled
    assert _C.jit_stats()["linked"] == linked + 1


def test_native_code_that_the_driver_refuses_is_linked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    build = service.build

    def build_for_another_processor(source: str) -> service.Built:
        built = build(source)
        native = bytearray(built.native)
        native[native.index(b"\x7fELF") + 18] ^= 0xFF  # e_machine
        return dataclasses.replace(built, native=bytes(native))

    monkeypatch.setattr(service, "build", build_for_another_processor)
    linked = _C.jit_stats()["linked"]
    fill(time.time_ns() % 10**6 * 10 + 5)  # no earlier run has left it in the cache
    assert service.records[-1].compiled
    assert _C.jit_stats()["linked"] == linked + 1


def test_code_of_the_worker_loads_behind_that_of_a_lower_class(tmp_path: Path) -> None:
    """As from a release's wheel: the driver refuses what is made for the processor, unless both are made for the class."""
    folder, few = tmp_path / "modules", tmp_path / "few"
    folder.mkdir()
    few.mkdir()
    installed = package_dir() / "modules"
    for path in installed.glob("*.spv.syclbin"):
        (folder / path.name).symlink_to(path)
    for path in installed.glob("factory_000.spv.syclbin"):
        (few / path.name).symlink_to(path)
    (few / "modules.tsv").write_text((installed / "modules.tsv").read_text())
    command = [
        sys.executable, "-m", "tools.kernelc.classes", "--worker", str(package_dir() / "kernelc"), "--modules", str(few),
        "--out", str(folder), "-j", "2", "--classes", "core-avx2",
    ]  # fmt: skip
    subprocess.run(command, check=True, cwd=ROOT)
    code = f"""
        import torch
        from xpu_ops import _C, jit
        _C.set_module_dir({str(folder)!r})
        x = torch.arange(200_000.0, device="xpu")  # a kernel of the module factory_000
        y = jit.elementwise("squared", "float a", "a * sycl::tanh(a)")(x)
        print(_C.name_driver_target(), _C.module_stats()["native"] > 0, _C.jit_stats()["linked"], round(y[2].item(), 5))
    """
    assert script.out(code, XPU_OPS_CACHE_DIR=str(tmp_path / "cache"), CL_CONFIG_CPU_TARGET_ARCH="") == (
        "core-avx2 True 0 1.92806"
    )


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_OPS_CACHE_DIR", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("")
    fill(4)


def test_the_worker_is_started_again() -> None:
    unseen = time.time_ns() % 10**6 * 10  # no earlier run has left it in the cache
    fill(unseen)
    pid = worker.WORKER.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    fill(unseen + 1)
    assert worker.WORKER.pid not in (None, pid)


def test_a_crash_is_an_exception(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kernelc"
    program.write_text("#!/bin/sh\nread line\necho 'the compiler fell over' >&2\nkill -SEGV $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(worker, "_program", lambda: program)
    own = worker.Worker()
    with pytest.raises(jit.CompileError, match=r"crashed twice on this source \(exit code -11: the compiler fell over"):
        own.compile(tmp_path / "a.cpp", tmp_path / "a")
    assert own.pid is None


def test_a_hang_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kernelc"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(worker, "_program", lambda: program)
    monkeypatch.setenv("XPU_OPS_JIT_TIMEOUT", "0.2")
    own = worker.Worker()
    with pytest.raises(jit.CompileError, match=r"did not answer in 0.2 s and was ended"):
        own.compile(tmp_path / "a.cpp", tmp_path / "a")


def test_an_interrupted_compilation_does_not_answer_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kernelc"
    program.write_text('#!/bin/sh\nwhile read source prefix; do sleep 0.5; echo "{\\"of\\": \\"$source\\"}"; done\n')
    program.chmod(0o755)
    monkeypatch.setattr(worker, "_program", lambda: program)
    own = worker.Worker()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            own.compile(tmp_path / "a.cpp", tmp_path / "a")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert own.compile(tmp_path / "b.cpp", tmp_path / "b")["of"].endswith("b.cpp")
    own.stop()


def test_no_worker_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "package_dir", lambda: tmp_path)
    with pytest.raises(jit.CompileError, match="is missing; the installation is incomplete"):
        worker.Worker().compile(tmp_path / "a.cpp", tmp_path / "a")


def test_headers_that_changed_under_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as by an upgrade: nothing is kept under the digest of the old ones."""
    service.headers_digest()
    (tmp_path / "kernels" / "sycl").mkdir(parents=True)
    monkeypatch.setattr(service, "include_dir", lambda: tmp_path)
    with pytest.raises(jit.CompileError, match="changed after this process had read them; start Python again"):
        fill(time.time_ns() % 10**6 * 10 + 2)


def compiled(folder: Path, text: str) -> tuple[dict[str, Any], bytes]:
    """The worker's answer, and the SPIR-V."""
    source, prefix = folder / "source.cpp", folder / "module"
    source.write_text(text)
    answer = worker.WORKER.compile(source, prefix)
    assert answer["ok"], answer["log"]
    (spirv,) = spirv_of(Path(f"{prefix}.spv.syclbin").read_bytes())
    return answer, spirv


def test_spirv_of_the_prelude(tmp_path: Path) -> None:
    """Portable: no fp64, the vectors that SPIR-V knows, no bits of bool."""
    answer, spirv = compiled(
        tmp_path,
        "using namespace xpu::gen;\nstruct Args { const float* x; float* y; xpu::DeviceError* e; long n; };\n"
        "XPU_KERNEL_SG(1, 16) sums(Args p) {\n  const long lane = xpu_local_id(0);\n"
        "  const float s = across<Sum>(ld(p.x, lane));\n  if (check(lane < p.n, p.e, 0)) st(p.y, lane, s);\n}\n",
    )
    assert not answer["fp64"]
    assert kernels_of(spirv) == ["__sycl_kernel_sums"]
    assert vectors_of(spirv) <= {2, 3, 4, 8, 16}
    assert bools_read_as_integers(spirv) == 0


@pytest.mark.parametrize(("index", "count"), [("xpu_local_id(0)", 0), ("__spirv_BuiltInLocalInvocationId(0)", 1)])
def test_spirv_of_products_cut_to_32_bits(tmp_path: Path, index: str, count: int) -> None:
    _, spirv = compiled(
        tmp_path,
        "using namespace xpu::gen;\nstruct Args { float* x; long* y; };\n"
        f"XPU_KERNEL_SG(1, 16) doubles(Args p) {{\n  const long i = {index};\n"
        "  p.x[2 * i] = 1;\n  p.y[i] = static_cast<int32_t>(2 * i);\n}\n",
    )
    assert products_cut_to_32_bits(spirv) == count


# Two loops that alternate, in one over rows: the driver's compiler takes them for too tangled for vectors.
TANGLED = """#include "kernels/sycl/source/triton.hpp"
using namespace xpu;
struct Args { float* x; float* y; int64_t n; };
XPU_KERNEL_SG(1, 16) tangled(Args p) {
  const size_t lane = xpu_local_id(0);
  const tri::Rows<int32_t> rows(int32_t(int64_t(__spirv_BuiltInWorkgroupId(0)) % p.n), int32_t(3), int32_t(p.n));
  for (int32_t row = rows.first; row < rows.last; row = tri::add<int32_t>(row, 1)) {
    const int32_t start = tri::mul<int32_t>(row, 64);
    const auto place = [&](size_t c) { return tri::rem_s<int32_t>(tri::add<int32_t>(start, int32_t(c)), 4096); };
    const auto dense = [&](size_t c) { return tri::add<int32_t>(start, int32_t(c)) >= 0 && place(c) + 15 < 4096; };
    const auto all = [&](size_t c) { return dense(c) && dense(c + 16) && dense(c + 32) && dense(c + 48); };
    float sum[4]{};
    size_t c = 0;
    while (c < 256) {
      for (; c < 256 && all(c); c += 64)
        for (size_t way = 0; way < 4; ++way) sum[way] += (p.x + place(c + way * 16))[lane];
      for (; c < 256 && !all(c); c += 64) {}
    }
    float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    TOTAL
    for (size_t k = 0; k < 256; k += 16) (p.y + row * 256 + k)[lane] = total;
  }
}
"""


@pytest.mark.parametrize("exchange", [True, False])
def test_items_that_exchange_but_are_compiled_one_by_one(tmp_path: Path, exchange: bool) -> None:
    """Each item would exchange with itself. Without an exchange such a kernel is right."""
    source = tmp_path / "source.cpp"
    source.write_text(TANGLED.replace("TOTAL", "total += tri::exchange(total, 8);" if exchange else ""))
    answer = worker.WORKER.compile(source, tmp_path / "module")
    assert answer["ok"] is not exchange
    assert ("gave up on vectors in kernel tangled" in answer["log"]) is exchange
