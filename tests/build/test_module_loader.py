"""The module loader: native files, the user's cache, linking once, damage, threads and processes."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.kernelc.digest import cpu_runtime
from xpu_ops._paths import cache_dir

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Probe:
    native: int
    cached: int
    linked: int
    same: int
    error: str
    stderr: str


class Loader:
    """A copy of one real module, and a cache folder of its own."""

    def __init__(self, tmp: Path, build: Path) -> None:
        installed = build / "python" / "xpu_ops" / "modules"
        rows = [line.split("\t") for line in (build / "gen" / "kernel_index.tsv").read_text().splitlines()]
        sizes = {m: (installed / f"{m}.spv.syclbin").stat().st_size for _, m in rows}
        self.module = min(sizes, key=lambda m: sizes[m])
        self.kernels = [k for k, m in rows if m == self.module][:5]
        self.modules, self.cache = tmp / "modules", tmp / "cache"
        self.modules.mkdir()
        for path in installed.glob(f"{self.module}.*.syclbin"):
            shutil.copy(path, self.modules)
        lines = (installed / "modules.tsv").read_text().splitlines()
        self.rows = [line for line in lines if line.startswith(("target\t", f"module\t{self.module}\t"))]
        self.write_index(self.rows)
        self._probe = build / "module_probe"

    def write_index(self, rows: list[str]) -> None:
        (self.modules / "modules.tsv").write_text("\n".join(rows) + "\n")

    def forget_native(self) -> None:
        """As on a machine the native files were not made for."""
        self.write_index(["target\tcpu of another kind", *self.rows[1:]])

    def make_native(self, processor: str) -> None:
        """As a wheel that was built on another processor: what it links becomes the installed file."""
        self.forget_native()
        assert self.run(CL_CONFIG_CPU_TARGET_ARCH=processor).linked == 1
        (path,) = self.cached_files()
        data = path.read_bytes()
        key, size = struct.unpack_from("<QQ", data, 16)
        body = data[32:]
        assert len(body) == key + size
        (self.modules / f"{self.module}.native.syclbin").write_bytes(body[key:])
        target = re.sub(r"^schema=\S+ module=\S+ ", "", body[:key].decode())
        self.write_index([f"target\t{target}", *self.rows[1:]])
        path.unlink()

    def start(self, threads: int = 1, kernels: list[str] | None = None, **env: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "OCL_ICD_FILENAMES": str(cpu_runtime()),
            "ONEAPI_DEVICE_SELECTOR": "opencl:cpu",
            "XPU_OPS_CACHE_DIR": str(self.cache),
            **env,
        }
        command = [str(self._probe), str(self.modules), str(threads), *(kernels or self.kernels)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str]) -> Probe:
        out, err = process.communicate(timeout=300)
        assert process.returncode in (0, 1), f"exit code {process.returncode}: {err}"
        rows = dict(line.split("=", 1) for line in out.splitlines())
        counts = [int(rows[k]) for k in ("native", "cached", "linked", "same")]
        return Probe(counts[0], counts[1], counts[2], counts[3], rows["error"], err)

    def run(self, threads: int = 1, kernels: list[str] | None = None, **env: str) -> Probe:
        return self.finish(self.start(threads, kernels, **env))

    def cached_files(self) -> list[Path]:
        return sorted(self.cache.glob("*")) if self.cache.exists() else []


@pytest.fixture
def loader(tmp_path: Path, build_dir: Path) -> Loader:
    return Loader(tmp_path, build_dir)


def test_native_code_holds_no_ir(build_dir: Path) -> None:
    """The OpenCL runtime would parse the LLVM IR at each load; an empty module of 16 bytes stands in its place.

    A module with assembly that the build's target lacks has an empty file, and one of kernels that plans of a GPU alone choose.
    """
    files = sorted((build_dir / "python/xpu_ops/modules").glob("*.native.syclbin"))
    assert files
    wanted = {"attention_amx": "amx", "dot16": "avx512bf16", "dots8": "avx512bf16"}
    table = (build_dir / "python/xpu_ops/modules/modules.tsv").read_text().splitlines()
    target = next(row for row in table if row.startswith("target\t"))
    sets = re.search(r" isa=(\S+)", target)[1].split("+")  # type: ignore[index]
    gpu = [row.split("\t")[1] for row in table if row.endswith("\tgpu")]
    assert "reduction_gpu_fp64" in {re.sub(r"_[01]+", "", name) for name in gpu}
    absent = {f"{name}.native.syclbin" for name in [*gpu, *(n for n, name in wanted.items() if name not in sets)]}
    assert {p.name for p in files if p.stat().st_size == 0} == absent
    for path in (p for p in files if p.name not in absent):
        assert re.findall(rb"BC\xc0\xde.{4}", path.read_bytes(), re.DOTALL) == [b"BC\xc0\xde!\x0c\0\0"], path.name


def test_native_module_of_this_machine(loader: Loader) -> None:
    got = loader.run()
    assert (got.native, got.cached, got.linked, got.error) == (1, 0, 0, "")
    assert loader.cached_files() == []


def test_links_once_then_uses_the_cache(loader: Loader) -> None:
    loader.forget_native()
    first = loader.run()
    assert (first.native, first.cached, first.linked, first.error) == (0, 0, 1, "")
    assert len(loader.cached_files()) == 1
    second = loader.run()
    assert (second.cached, second.linked) == (1, 0)
    assert len(loader.cached_files()) == 1


@pytest.mark.parametrize("processor", ["corei7", "corei7-avx"])
def test_code_for_a_lower_processor_is_taken(loader: Loader, processor: str) -> None:
    loader.make_native(processor)
    for env in ({}, {"CL_CONFIG_CPU_TARGET_ARCH": "core-avx2"}, {"CL_CONFIG_CPU_TARGET_ARCH": processor}):
        got = loader.run(**env)
        assert (got.native, got.cached, got.linked, got.error, got.stderr) == (1, 0, 0, "", "")
    assert loader.cached_files() == []


def test_code_for_a_higher_processor_is_linked_again(loader: Loader) -> None:
    loader.make_native("core-avx2")
    for linked in (1, 0):
        got = loader.run(CL_CONFIG_CPU_TARGET_ARCH="corei7")
        assert (got.native, got.cached, got.linked, got.error) == (0, 1 - linked, linked, "")
        assert "cannot be loaded" not in got.stderr


def test_code_that_the_driver_refuses_is_linked_again(loader: Loader) -> None:
    """The driver knows the code's target whatever modules.tsv says."""
    loader.make_native("core-avx2")
    table = loader.modules / "modules.tsv"
    table.write_text(re.sub(r"isa=\S+", "isa=sse42", table.read_text()))
    got = loader.run(CL_CONFIG_CPU_TARGET_ARCH="corei7")
    assert (got.native, got.linked, got.error) == (0, 1, "")
    assert "cannot be loaded" in got.stderr


def test_no_code_was_made(loader: Loader) -> None:
    """The building processor could not run the module's assembly: its file is empty."""
    (loader.modules / f"{loader.module}.native.syclbin").write_bytes(b"")
    got = loader.run()
    assert (got.native, got.linked, got.error) == (0, 1, "")
    assert "cannot be loaded" not in got.stderr


@pytest.mark.parametrize("name", ["XPU_OPS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_the_cache_folder_is_the_one_python_names(loader: Loader, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folders = dict.fromkeys(("XPU_OPS_CACHE_DIR", "XDG_CACHE_HOME"), "") | {name: str(loader.cache)}
    for variable, value in folders.items():
        monkeypatch.setenv(variable, value)
    loader.forget_native()
    assert loader.run(**folders).linked == 1
    assert len(list(cache_dir().glob("*.bin"))) == 1


def test_progress_line_only_where_it_takes_long(loader: Loader) -> None:
    loader.forget_native()
    start = time.monotonic()
    got = loader.run()
    elapsed = time.monotonic() - start
    if elapsed < 1:
        assert got.stderr == ""
    for line in got.stderr.splitlines():
        assert line.startswith(f"xpu_ops: linking kernel module {loader.module} for ")
    said = re.search(r"done in ([0-9.]+) s", got.stderr)
    assert (said is not None) == (got.stderr != "")
    if said is not None:
        assert 1 <= float(said.group(1)) <= elapsed


def test_native_file_missing_or_damaged(loader: Loader) -> None:
    native = loader.modules / f"{loader.module}.native.syclbin"
    whole = native.read_bytes()
    native.write_bytes(whole[: len(whole) // 2])
    got = loader.run()
    assert (got.native, got.linked, got.error) == (0, 1, "")
    assert "cannot be loaded" in got.stderr
    native.unlink()
    got = loader.run()
    assert (got.cached, got.error, got.stderr) == (1, "", "")


@pytest.mark.parametrize("damage", ["truncate", "flip", "garbage", "empty"])
def test_bad_cache_file_is_replaced(loader: Loader, damage: str) -> None:
    loader.forget_native()
    loader.run()
    (path,) = loader.cached_files()
    good = path.read_bytes()
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    path.write_bytes({"truncate": good[:-7], "flip": flipped, "garbage": b"\0" * 5000, "empty": b""}[damage])
    got = loader.run(threads=3)
    assert (got.cached, got.linked, got.error, got.same) == (0, 1, "", 1)
    assert got.stderr.count("was removed and is made again") == 1
    assert loader.cached_files() == [path]
    assert loader.run().cached == 1


@pytest.mark.slow
def test_no_flipped_byte_is_loaded(loader: Loader) -> None:
    """Thirty places of a cache file, those of its header among them."""
    loader.forget_native()
    loader.run()
    (path,) = loader.cached_files()
    good = path.read_bytes()
    for place in [*range(0, 32, 4), *(len(good) * k // 22 for k in range(1, 22)), len(good) - 1]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1 :])
        got = loader.run()
        assert (got.cached, got.linked, got.error) == (0, 1, ""), place
        assert "was removed and is made again" in got.stderr
    assert loader.run().cached == 1


@pytest.mark.slow
def test_processes_killed_while_they_write(loader: Loader) -> None:
    """Killed at 12 moments from the start to the end of a link: the next process loads a whole file or links."""
    loader.forget_native()
    begin = time.monotonic()
    loader.run()
    whole = time.monotonic() - begin
    (path,) = loader.cached_files()
    for k in range(12):
        path.unlink(missing_ok=True)
        process = loader.start()
        time.sleep(whole * (k + 1) / 11)
        process.kill()
        process.communicate()
        got = loader.run()
        assert got.error == "" and got.cached + got.linked == 1 and "removed" not in got.stderr
        assert loader.run().cached == 1


@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_is_not_run(loader: Loader, what: str, mode: int) -> None:
    loader.forget_native()
    before = os.umask(0o002)
    try:
        assert loader.run().linked == 1
    finally:
        os.umask(before)
    # Made for the user alone, whatever the umask.
    (path,) = loader.cached_files()
    assert path.stat().st_mode & 0o022 == loader.cache.stat().st_mode & 0o022 == 0
    opened = loader.cache if what == "folder" else path
    opened.chmod(opened.stat().st_mode | mode)
    got = loader.run()
    assert (got.cached, got.linked, got.error) == (0, 1, "")
    assert "others can write to it" in got.stderr
    if what == "folder":
        assert f"the cache folder {loader.cache} is not used" in got.stderr and "chmod go-w" in got.stderr
        loader.cache.chmod(0o755)
    assert loader.run().cached == 1


def test_another_module_digest_is_another_entry(loader: Loader) -> None:
    loader.forget_native()
    loader.run()
    (kind, name, digest) = loader.rows[1].split("\t")
    loader.rows[1] = "\t".join([kind, name, digest[::-1]])
    loader.forget_native()
    assert loader.run().linked == 1
    assert len(loader.cached_files()) == 2


def test_threads_load_once(loader: Loader) -> None:
    loader.forget_native()
    got = loader.run(threads=8)
    assert (got.linked, got.cached, got.same, got.error) == (1, 0, 1, "")


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_processes_link_once(loader: Loader, count: int) -> None:
    loader.forget_native()
    results = [loader.finish(p) for p in [loader.start(threads=2) for _ in range(count)]]
    assert all(r.error == "" for r in results)
    assert sum(r.linked for r in results) == 1
    assert sum(r.cached for r in results) == count - 1
    assert len(loader.cached_files()) == 1


def test_cache_folder_that_cannot_be_written(loader: Loader, tmp_path: Path) -> None:
    loader.forget_native()
    blocked = tmp_path / "a_file"
    blocked.write_text("")
    got = loader.run(XPU_OPS_CACHE_DIR=str(blocked / "below"))
    assert (got.linked, got.error) == (1, "")
    assert "Set XPU_OPS_CACHE_DIR" in got.stderr


def test_cache_folder_follows_xdg(loader: Loader, tmp_path: Path) -> None:
    loader.forget_native()
    loader.run(XPU_OPS_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert len(list((tmp_path / "xdg" / "xpu_ops").iterdir())) == 1


def test_errors_say_what_to_do(loader: Loader, tmp_path: Path) -> None:
    got = loader.run(kernels=["no_such_kernel"])
    assert got.error == "xpu_ops: no module holds the kernel 'no_such_kernel'."
    (loader.modules / f"{loader.module}.native.syclbin").unlink()
    (loader.modules / f"{loader.module}.spv.syclbin").unlink()
    assert "the installation is incomplete" in loader.run().error
    loader.write_index(loader.rows[:1])
    assert "the installation is incomplete" in loader.run().error
    (loader.modules / "modules.tsv").unlink()
    assert "no kernel modules in" in loader.run().error


def link_classes(build: Path, modules: Path, *names: str) -> None:
    """As `make dist` does, in the folder of the modules."""
    command = [sys.executable, "-m", "tools.kernelc.classes", "--worker", str(build / "kernelc"), "-j", "2"]
    command += ["--modules", str(modules), "--out", str(modules), "--classes", *names]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def test_the_nearest_class_is_taken(loader: Loader, build_dir: Path, tmp_path: Path) -> None:
    """Whichever class is read is known by code of other kernels in its place."""
    classes = ("corei7-avx", "corei7")
    (loader.modules / f"{loader.module}.native.syclbin").unlink()
    link_classes(build_dir, loader.modules, *classes)
    targets = [row.split("\t") for row in (loader.modules / "modules.tsv").read_text().splitlines()]
    assert [row[2] for row in targets if row[0] == "target"] == list(classes)
    other = tmp_path / "other"
    shutil.copytree(loader.modules, other)
    portable = build_dir / "python/xpu_ops/modules"
    strange = min(p for p in portable.glob("factory*.spv.syclbin") if p.name.split(".")[0] != loader.module)
    shutil.copy(strange, other / f"{loader.module}.spv.syclbin")
    link_classes(build_dir, other, *classes)
    for wrong in classes:
        path = Path(wrong) / f"{loader.module}.native.syclbin"
        right = (loader.modules / path).read_bytes()
        shutil.copy(other / path, loader.modules / path)
        for here, nearest in (("corei7", "corei7"), ("corei7-avx", "corei7-avx"), ("core-avx2", "corei7-avx")):
            got = loader.run(CL_CONFIG_CPU_TARGET_ARCH=here)
            assert (got.native, got.linked) == (1, 0)
            assert ("lacks the kernel" in got.error) == (wrong == nearest), (wrong, here, got.error)
        (loader.modules / path).write_bytes(right)


def test_no_class_has_code_of_a_gpus_plans(loader: Loader, build_dir: Path) -> None:
    """Nor has the build's own: it is nearly half of all code, and a wheel would carry it three times."""
    shutil.copy(loader.modules / f"{loader.module}.spv.syclbin", loader.modules / "factory_gpu_0.spv.syclbin")
    link_classes(build_dir, loader.modules, "core-avx2", "sapphirerapids")
    made = [str(p.relative_to(loader.modules)) for p in loader.modules.glob("*/*.syclbin")]
    assert made == [f"core-avx2/{loader.module}.native.syclbin"]


def test_a_class_takes_what_the_build_made_for_it(loader: Loader, build_dir: Path) -> None:
    """Code for the build's own target is linked once: on a machine of some class a release links a third less."""
    index, native = loader.modules / "modules.tsv", loader.modules / f"{loader.module}.native.syclbin"
    made = loader.modules / "core-avx2" / native.name
    link_classes(build_dir, loader.modules, "core-avx2")
    key = index.read_text().split("\n")[0].removesuffix("\tcore-avx2")
    rows = [row for row in index.read_text().splitlines() if not row.startswith("target")]
    for target, taken in ((key, True), (f"{key}+more", False)):
        index.write_text("\n".join([target, *rows]) + "\n")
        native.write_bytes(b"the build's")
        link_classes(build_dir, loader.modules, "core-avx2")
        assert (made.read_bytes() == b"the build's") == taken


def test_another_class_serves_where_one_cannot(loader: Loader, build_dir: Path) -> None:
    (loader.modules / f"{loader.module}.native.syclbin").unlink()
    link_classes(build_dir, loader.modules, "corei7", "core-avx2")
    nearest = loader.modules / "core-avx2" / f"{loader.module}.native.syclbin"
    nearest.write_bytes(nearest.read_bytes()[:1000])
    got = loader.run()
    assert (got.native, got.linked, got.error, got.stderr) == (1, 0, "", "")
    nearest.unlink()  # a module that the class cannot have
    got = loader.run()
    assert (got.native, got.linked, got.error, got.stderr) == (1, 0, "", "")


def test_no_class_is_low_enough(loader: Loader, build_dir: Path) -> None:
    (loader.modules / f"{loader.module}.native.syclbin").unlink()
    link_classes(build_dir, loader.modules, "core-avx2", "skx")
    got = loader.run(CL_CONFIG_CPU_TARGET_ARCH="corei7")
    assert (got.native, got.linked, got.error) == (0, 1, "") and "cannot be loaded" not in got.stderr
    got = loader.run(CL_CONFIG_CPU_TARGET_ARCH="cascadelake")
    assert (got.native, got.linked, got.error) == (1, 0, "")


def family(loader: Loader, build: Path, name: str) -> list[str]:
    """Every module of a family instead of the one, with the program that links; returns their names, the smallest first."""
    installed = build / "python" / "xpu_ops"
    portable = sorted((installed / "modules").glob(f"{name}_*.spv.syclbin"), key=lambda p: p.stat().st_size)
    for path in portable:
        shutil.copy(path, loader.modules)
    modules = [path.name.split(".")[0] for path in portable]
    loader.write_index(["target\tcpu of another kind", *(f"module\t{m}\t{m}" for m in modules)])
    (loader.modules.parent / "linker").symlink_to(installed / "linker")
    rows = [line.split("\t") for line in (build / "gen" / "kernel_index.tsv").read_text().splitlines()]
    loader.kernels = [k for k, m in rows if m == modules[-1]][:1]
    return modules


def linkers(loader: Loader) -> list[int]:
    """Processes of the program that links for these modules."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if words[0].endswith(b"/linker") and words[1] == str(loader.modules).encode():
            found.append(int(path.parent.name))
    return found


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 120
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return holds


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_other_processes_link_the_rest_of_the_family(loader: Loader, build_dir: Path) -> None:
    modules = family(loader, build_dir, "search")
    got = loader.run()
    assert (got.linked + got.cached, got.error) == (1, "")
    # They end with the program, each after the module that it is at.
    assert until(lambda: linkers(loader) == [])
    names = {f.name.rsplit("-", 1)[0] for f in loader.cached_files()}
    assert len(names) >= 2 and names <= set(modules)
    again = loader.run(XPU_OPS_LINK_AHEAD="0")
    assert (again.cached, again.linked) == (1, 0)


def test_no_other_process_links(loader: Loader, build_dir: Path) -> None:
    """Where the variable says so, and where the process has one core."""
    family(loader, build_dir, "search")
    for core in (None, min(os.sched_getaffinity(0))):
        before = os.sched_getaffinity(0)
        if core is not None:
            os.sched_setaffinity(0, {core})
        try:
            process = loader.start(**({} if core is not None else {"XPU_OPS_LINK_AHEAD": "0"}))
        finally:
            os.sched_setaffinity(0, before)
        assert loader.finish(process).linked == 1
        assert linkers(loader) == []
        (path,) = loader.cached_files()
        path.unlink()
