"""The device-compiler driver: what it compiles again, how it reports, what a crash does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kernelc.__main__ import use_cpu_runtime
from tools.kernelc.digest import Includes, cpu_runtime, module_digest, without_comments
from tools.kernelc.pool import Job, Result, run_all

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/kernel_properties/properties.hpp>
#include <sycl/half_type.hpp>
#include "shared.hpp"
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<1>))
void NAME(TYPE* p) { p[sycl::ext::oneapi::this_work_item::get_nd_item<1>().get_global_linear_id()] = TYPE(VALUE); }
"""
# facts about this compiler: this call brings its process down.
CRASH = """#include <sycl/sycl.hpp>
namespace syclexp = sycl::ext::oneapi::experimental;
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>)) void crash(float* p) {
  auto item = sycl::ext::oneapi::this_work_item::get_nd_item<1>();
  auto memory = sycl::ext::oneapi::group_local_memory_for_overwrite<float[16]>(item.get_group());
  (*memory)[item.get_local_linear_id()] = p[0];
  p[0] = (*memory)[0];
}
"""


class Project:
    """A folder of small modules and the driver's view of it."""

    def __init__(self, root: Path, worker: Path) -> None:
        self.sources, self.headers, self.out, self.cache = (root / n for n in ("src", "include", "out", "cache"))
        self.sources.mkdir()
        self.headers.mkdir()
        self.worker = worker
        (self.headers / "shared.hpp").write_text("#pragma once\n#define VALUE 1\n")

    def module(self, name: str, kernel: str, dtype: str = "float") -> Path:
        path = self.sources / f"{name}.cpp"
        path.write_text(KERNEL.replace("NAME", kernel).replace("TYPE", dtype))
        return path

    def run(self, *extra: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tools.kernelc", "--worker", str(self.worker), "--sources", str(self.sources)]
        command += ["--out", str(self.out), "-I", str(self.headers), "-j", "2", *extra]
        env = {**os.environ, "XPU_OPS_KERNELC_CACHE": str(self.cache)}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)

    def modules(self) -> dict[str, str]:
        rows = [line.split("\t") for line in (self.out / "modules.tsv").read_text().splitlines()]
        return {r[1]: r[2] for r in rows if r[0] == "module"}


@pytest.fixture
def project(tmp_path: Path, build_dir: Path) -> Project:
    return Project(tmp_path, build_dir / "kernelc")


def test_compiles_then_does_nothing(project: Project) -> None:
    project.module("one", "k_one")
    project.module("two", "k_two", "sycl::half")
    first = project.run()
    assert first.returncode == 0, first.stderr
    assert "2 compiled, 0 from the cache, 0 failed; 2 modules, 2 kernels" in first.stderr
    assert set(project.modules()) == {"one", "two"}
    times = {p: p.stat().st_mtime_ns for p in project.out.glob("*.syclbin")}
    assert len(times) == 4
    second = project.run()
    assert "0 compiled, 0 from the cache, 0 failed" in second.stderr
    assert {p: p.stat().st_mtime_ns for p in project.out.glob("*.syclbin")} == times


def test_only_what_changed(project: Project) -> None:
    project.module("one", "k_one")
    two = project.module("two", "k_two")
    two.write_text(two.read_text().replace('#include "shared.hpp"\n', "#define VALUE 2\n"))
    assert project.run().returncode == 0
    before = project.modules()
    # A header counts for the modules that include it, however deep, and for no other.
    (project.headers / "deep.hpp").write_text("#define VALUE 1\n")
    (project.headers / "shared.hpp").write_text('#pragma once\n#include "deep.hpp"\n')
    assert "1 compiled" in project.run().stderr
    (project.headers / "deep.hpp").write_text("#define VALUE 3\n")
    assert "1 compiled" in project.run().stderr
    after = project.modules()
    assert before["two"] == after["two"]
    assert before["one"] != after["one"]
    # An option is part of what the output depends on.
    assert "2 compiled" in project.run("--option=-O1").stderr


def test_kernels_for_gpus_have_no_native_code(project: Project) -> None:
    project.module("one", "k_one")
    project.module("one_gpu_01", "k_one_team")
    assert project.run().returncode == 0
    assert (project.out / "one.native.syclbin").stat().st_size > 0
    assert (project.out / "one_gpu_01.native.syclbin").stat().st_size == 0
    assert (project.out / "one_gpu_01.spv.syclbin").stat().st_size > 0
    rows = [line.split("\t") for line in (project.out / "modules.tsv").read_text().splitlines()]
    assert [row[1] for row in rows if row[3:] == ["gpu"]] == ["one_gpu_01"]


def test_removed_module(project: Project) -> None:
    project.module("one", "k_one")
    two = project.module("two", "k_two")
    assert project.run().returncode == 0
    two.unlink()
    assert project.run().returncode == 0
    assert set(project.modules()) == {"one"}
    assert not list(project.out.glob("two.*"))


def test_shared_cache_and_its_damage(project: Project) -> None:
    project.module("one", "k_one")
    assert project.run().returncode == 0
    made = {p.name: p.read_bytes() for p in project.out.glob("*.syclbin")}

    def forget() -> None:
        for path in project.out.iterdir():
            path.unlink()

    forget()
    assert "0 compiled, 1 from the cache" in project.run().stderr
    assert {p.name: p.read_bytes() for p in project.out.glob("*.syclbin")} == made
    for damaged in project.cache.rglob("module.native.syclbin"):
        damaged.write_bytes(damaged.read_bytes()[:-100])
    forget()
    assert "1 compiled, 0 from the cache" in project.run().stderr
    forget()
    assert "0 compiled, 1 from the cache" in project.run().stderr


def test_diagnostics_name_file_and_line(project: Project) -> None:
    project.module("good", "k_good")
    bad = project.module("bad", "k_bad")
    bad.write_text(bad.read_text().replace("TYPE(VALUE)", "").replace("float(VALUE)", "no_such_name"))
    run = project.run()
    assert run.returncode == 1
    assert f"{bad}:6:" in run.stderr
    assert "use of undeclared identifier 'no_such_name'" in run.stderr
    assert "failed: bad" in run.stderr
    assert set(project.modules()) == {"good"}
    # In a header: the header's own name and line.
    bad.unlink()
    header = project.headers / "shared.hpp"
    header.write_text("#pragma once\n#define VALUE 1\nint broken = ;\n")
    run = project.run()
    assert f"{header}:3:" in run.stderr


@pytest.mark.slow
def test_a_crash_is_reported_and_the_rest_goes_on(project: Project) -> None:
    project.module("a_good", "k_a")
    (project.sources / "crash.cpp").write_text(CRASH)
    project.module("z_good", "k_z")
    run = project.run("-j", "1")
    assert run.returncode == 1
    assert "module crash failed" in run.stderr
    assert "device compiler was killed by SIG" in run.stderr or "device compiler exited with code" in run.stderr
    assert set(project.modules()) == {"a_good", "z_good"}


# A compiler that dies once on the module `once`, and always on `always`.
WORKER = """
import pathlib, sys
for line in sys.stdin:
    source, prefix = line.rstrip("\\n").split("\\t")
    mark = pathlib.Path(prefix)
    if "always" in prefix or ("once" in prefix and not mark.exists()):
        mark.touch()
        sys.exit(3)
    print('{"ok": true}', flush=True)
"""


def test_a_crash_is_tried_once_more(tmp_path: Path) -> None:
    source = tmp_path / "source.cpp"
    source.touch()
    found: dict[str, Result] = {}
    jobs = [Job(name, source, tmp_path / name) for name in ("first", "once", "always", "last")]
    run_all([sys.executable, "-c", WORKER], jobs, 1, lambda r: found.__setitem__(r.module, r))
    assert {name: r.ok for name, r in found.items()} == {"first": True, "once": True, "always": False, "last": True}
    assert "exited with code 3" in found["always"].log


def test_double_is_refused_outside_fp64_modules(project: Project) -> None:
    project.module("plain", "k_plain", "double")
    project.module("plain_fp64", "k_fp64", "double")
    run = project.run()
    assert run.returncode == 1
    assert "plain: computes in double outside a *_fp64 module" in run.stderr
    assert set(project.modules()) == {"plain_fp64"}


def test_index_must_match(project: Project, tmp_path: Path) -> None:
    project.module("one", "k_one")
    index = tmp_path / "kernel_index.tsv"
    index.write_text("k_one\tone\nk_lost\tone\n")
    for _ in range(2):  # compiled, then reused from the cache
        run = project.run("--index", str(index))
        assert run.returncode == 1
        assert "missing ['k_lost']" in run.stderr
    index.write_text("k_one\tone\n")
    assert project.run("--index", str(index)).returncode == 0


def test_interrupted_run_leaves_no_half_file(project: Project) -> None:
    project.module("one", "k_one")
    assert project.run().returncode == 0
    state = json.loads((project.out / ".kernelc.json").read_text())
    assert set(state) == {"one"}
    (project.out / "one.native.syclbin").unlink()  # as after a kill between two writes
    assert project.run().returncode == 0
    assert (project.out / "one.native.syclbin").exists()


def test_include_scan(tmp_path: Path) -> None:
    (tmp_path / "a.hpp").write_text('#include "b.hpp"\n#include <sycl/bit_cast.hpp>\n')
    (tmp_path / "b.hpp").write_text('  #  include "a.hpp"\n')
    source = tmp_path / "m.cpp"
    source.write_text('#include "a.hpp"\n#include "absent.hpp"\n')
    closure = Includes([tmp_path]).closure(source)
    assert [p.name for p in closure] == ["a.hpp", "b.hpp"]


@pytest.mark.parametrize(
    ("code", "rest"),
    [
        ("// one\nint a;  // two\n\n/* three\n four */ int b;\n", "int a;\n  int b;"),
        ('const char* u = "// no comment";', 'const char* u = "// no comment";'),
        ("char q = '\"';  // a comment", "char q = '\"';"),
        ("int n = 1'000 * 2'000;  // a comment", "int n = 1'000 * 2'000;"),
        ('auto s = R"(// text)";  // kept', 'auto s = R"(// text)";  // kept'),
    ],
)
def test_comments_are_left_out(code: str, rest: str) -> None:
    assert without_comments(code) == rest


def test_a_comment_compiles_nothing_anew(tmp_path: Path) -> None:
    header, source = tmp_path / "a.hpp", tmp_path / "m.cpp"
    source.write_text('#include "a.hpp"\nint f() { return one; }\n')

    def digest(text: str) -> str:
        header.write_text(text)
        return module_digest(source, Includes([tmp_path]), [], "")

    first = digest("const int one = 1;  // a number\n")
    assert digest("// The number\n// one.\nconst int one = 1;\n") == first
    assert digest("const int one = 2;  // a number\n") != first


@pytest.mark.parametrize("listed", ["", "libpocl.so.2:libnvidia-opencl.so.1", "/nowhere/libintelocl.so"])
def test_links_by_the_own_runtime(monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    monkeypatch.setenv("OCL_ICD_FILENAMES", listed)
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "cuda:gpu")
    monkeypatch.setenv("LD_PRELOAD", "")
    use_cpu_runtime()
    assert os.environ["OCL_ICD_FILENAMES"] == str(cpu_runtime())
    assert os.environ["ONEAPI_DEVICE_SELECTOR"] == "opencl:cpu"


def test_links_by_a_listed_runtime_of_intel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = tmp_path / "libintelocl.so"
    mine.touch()
    monkeypatch.setenv("OCL_ICD_FILENAMES", f"{mine}")
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "")
    monkeypatch.setenv("LD_PRELOAD", "")
    use_cpu_runtime()
    assert os.environ["OCL_ICD_FILENAMES"] == str(mine)
