"""docs/adding-an-op.md, done: one row in a scratch copy of the manifest becomes an operator that runs.

Only what the row changes is built, with the build folder's own commands: its registration, the kernel tables, one device
module, the two libraries. The build folder itself stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xpu_ops._paths import release_dir

ROOT = Path(__file__).resolve().parents[2]
# torch declares this unary operator for tests of its own, and no device has a kernel for it.
OP = "_test_warn_in_autograd"
ROW = "family: fictitious\nrows:\n  - {{op: {op}, iter: unary_float, expr: {expr}, types: [float]}}\n"
USE = f"""
import torch, xpu_ops
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
    x = torch.arange(-50, 50).to(dtype)
    with xpu_ops.fallback.forbid():
        y = torch.ops.aten.{OP}(x.to("xpu").reshape(10, 10).t())
    assert y.stride() == (1, 10) and y.dtype == (torch.float32 if dtype == torch.int64 else dtype)
    want = VALUE
    torch.testing.assert_close(y.cpu().t().reshape(-1).double(), want.to(y.dtype).double())
print("ran")
"""
FAMILY_USE = f"""
import torch, xpu_ops
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for x in (torch.arange(1000).to(dtype).reshape(10, 100).t()[::2], torch.empty(0, dtype=dtype)):
        with xpu_ops.fallback.forbid():
            y = torch.ops.aten.{OP}(x.to("xpu"))
        assert torch.equal(y.cpu(), 2 * x)
print("ran")
"""


class Scratch:
    """A manifest, its generated sources and a Python tree of their own, on top of a build folder."""

    def __init__(self, root: Path, build: Path) -> None:
        self.root, self.build, self.gen = root, build, root / "gen"
        self.manifest, self.package = root / "kernels" / "manifest", root / "python" / "xpu_ops"
        shutil.copytree(ROOT / "kernels" / "manifest", self.manifest)
        shutil.copytree(build / "python", root / "python", symlinks=True)
        self.listed = self.package / release_dir().name / "manifest.json"
        self.listed.unlink()
        shutil.copytree(build / "gen", self.gen)
        commands = json.loads((build / "compile_commands.json").read_text())
        self.compile = {Path(c["file"]): c["command"] for c in commands}

    def run(self, command: str | list[str], cwd: Path = ROOT, **env: str) -> str:
        """A shell command of the build, in its folder, or a program."""
        done = subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=self.build if isinstance(command, str) else cwd,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def codegen(self) -> list[Path]:
        """Generates; the C++ sources that differ from the build's."""
        tool = [sys.executable, "-m", "tools.codegen", "--manifest", str(self.manifest), "--out", str(self.gen)]
        self.run(tool, PYTHONPATH=str(ROOT))
        shutil.copy(self.gen / "manifest.json", self.listed)
        sources = [*self.gen.glob("aten/*.cpp"), *self.gen.glob("kernels/*.cpp")]
        old = {s: self.build / "gen" / s.relative_to(self.gen) for s in sources}
        return [s for s, o in old.items() if not o.exists() or s.read_bytes() != o.read_bytes()]

    def object(self, source: Path) -> Path:
        """Compiles as the build compiles the sources beside it, bindings in units of several."""
        if source.is_relative_to(self.gen):
            usual = self.build / "gen" / source.relative_to(self.gen)
        else:
            usual = ROOT / source.relative_to(self.root)
        folders = (usual.parent, self.build / "CMakeFiles" / "xpu_ops_torch.dir" / "Unity")
        known = usual if usual in self.compile else next(s for s in self.compile if s.parent in folders)
        out = self.root / f"{usual.parent.name}_{source.stem}.o"
        command = re.sub(r"-o \S+ -c \S+", f"-o {out} -c {source}", self.compile[known])
        command = command.replace(f"-iquote {self.build}", f"-iquote {self.root} -iquote {self.build}")
        self.run(command.replace(str(self.build / "gen"), str(self.gen)))
        return out

    def write(self, files: dict[str, str]) -> list[Path]:
        """Files of the source tree, found before those of the repository; the C++ sources among them."""
        paths = [self.root / name for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [p for p in paths if p.suffix == ".cpp"]

    def link(self, target: str, objects: dict[Path, Path]) -> None:
        """Links `target` with objects (source -> object) in the place of, or beside, the build's."""
        ninja = re.search(r"CMAKE_MAKE_PROGRAM:\S+=(.*)", (self.build / "CMakeCache.txt").read_text())
        assert ninja is not None
        command = self.run(f"{ninja.group(1)} -C {self.build} -t commands {target}").splitlines()[-1]
        for source, built in objects.items():
            usual = f"CMakeFiles/{target}.dir/{source.relative_to(self.root)}.o"
            command = (
                command.replace(usual, str(built)) if usual in command else command.replace(" -o ", f" {built} -o ", 1)
            )
        self.run(command.replace(" python/xpu_ops/", f" {self.package}/"))

    def modules(self) -> str:
        """Runs the device compiler as the build does; it compiles the modules whose sources changed."""
        worker, out = self.build / "kernelc", self.package / "modules"
        includes = ["-I", str(self.root), "-I", str(ROOT)]
        index = str(self.gen / "kernel_index.tsv")
        tool = [sys.executable, "-m", "tools.kernelc", "--worker", str(worker), "--sources", str(self.gen / "sycl")]
        cache = {"XPU_OPS_KERNELC_CACHE": str(self.root / "cache"), "PYTHONPATH": str(ROOT)}
        return self.run([*tool, "--out", str(out), "--index", index, *includes], **cache)

    def make(self, sources: list[Path]) -> str:
        """Compiles, links and runs the device compiler; its report."""
        objects = {s: self.object(s) for s in sources}
        bindings = {s: o for s, o in objects.items() if s.parent.name == "aten"}
        self.link("xpu_ops_kernels", {s: o for s, o in objects.items() if s not in bindings})
        self.link("xpu_ops_torch", bindings)
        return self.modules()

    def use(self, code: str) -> None:
        # Not in the repository: its package would find the build folder.
        out = self.run([sys.executable, "-c", code], cwd=self.root, PYTHONPATH=str(self.root / "python"))
        assert out.strip().endswith("ran")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture
def scratch(tmp_path: Path, build_dir: Path) -> Scratch:
    if not (build_dir / "compile_commands.json").exists():
        pytest.skip("a build folder is needed: this one is not CMake's")
    return Scratch(tmp_path, build_dir.resolve())


@pytest.mark.slow
def test_one_row_is_an_operator(scratch: Scratch) -> None:
    """Also: another expression for the row is built and runs in under a minute of one core."""
    row = scratch.manifest / "fictitious.yaml"
    row.write_text(ROW.format(op=OP, expr='"a * a + M(1)"'))
    changed = scratch.codegen()
    names = {"register_fictitious_0.cpp", "fictitious_kernels.cpp", "fictitious_inline_0.cpp", "kernel_index.cpp"}
    assert {s.name for s in changed} == names
    report = scratch.make(changed)
    assert re.search(r"kernelc: [123] compiled", report), report
    scratch.use(USE.replace("VALUE", "x.double() ** 2 + 1"))

    before = cpu_seconds()
    row.write_text(ROW.format(op=OP, expr='"a * M(3)"'))
    assert {s.name for s in scratch.codegen()} == {s.name for s in changed}  # the C++ is that of the first expression
    scratch.modules()
    scratch.use(USE.replace("VALUE", "x.double() * 3"))
    assert cpu_seconds() - before < 60


def test_a_family_is_seven_files(scratch: Scratch) -> None:
    """The texts of docs/adding-an-op.md, but that the kernel doubles: what torch does anyway is to copy."""
    text = (ROOT / "docs" / "adding-an-op.md").read_text()
    files = dict(re.findall(r"^`(\S+/tutorial\S*)`\n```\w+\n(.*?)^```$", text, re.S | re.M))
    assert {Path(f).parts[1] for f in files} == {"manifest", "sycl", "ops", "aten"} and len(files) == 7
    kernel = "kernels/sycl/elementwise/tutorial.hpp"
    doubled = files[kernel].replace("static_cast<const T*>(p.in)[i];", "T(2) * static_cast<const T*>(p.in)[i];")
    assert doubled != files[kernel]
    written = scratch.write(files | {kernel: doubled})
    generated = scratch.codegen()
    assert {s.name for s in generated} == {"register_tutorial_0.cpp", "tutorial_kernels.cpp", "kernel_index.cpp"}
    scratch.make([*generated, *written])
    scratch.use(FAMILY_USE)


def test_a_wrong_row_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kernels" / "manifest", tmp_path / "manifest")
    (tmp_path / "manifest" / "fictitious.yaml").write_text(ROW.format(op="no_such_operator", expr='"a"'))
    tool = [sys.executable, "-m", "tools.codegen", "--manifest", str(tmp_path / "manifest"), "--check"]
    done = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, shlex.join(tool)
    assert "fictitious.yaml: row no_such_operator: op: the installed torch has no such operator" in done.stderr
