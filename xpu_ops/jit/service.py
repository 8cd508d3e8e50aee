"""Source text to kernels: by the digest of everything it depends on from the disk cache, or by the compiler worker."""

from __future__ import annotations

import functools
import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from xpu_ops import _autoload
from xpu_ops.block import ir
from xpu_ops.block.parameters import signature
from xpu_ops.jit.worker import WORKER, CompileError, compiler_version, include_dir, options

_SCHEMA = "1"  # raise it when the meaning of a cached module changes


@dataclass(frozen=True)
class KernelSpec:
    """A kernel of a module: its name in the source, the items of a work-group, the letters of its arguments.

    The kernel takes one struct of 8-byte fields, one per letter of `signature`: p pointer, i integer of 64 bits, f
    float, d double. With `messages` an address of the error record and one int64 number per text follow.
    """

    name: str
    local: int
    signature: str
    messages: tuple[str, ...] = ()


def spec(kernel: ir.Kernel) -> KernelSpec:
    """How a kernel of the block language is launched."""
    return KernelSpec(kernel.name, kernel.items, signature(kernel.fields))


@dataclass(frozen=True)
class BuildRecord:
    """How a module came to be: kernels, whether the compiler ran, seconds, processor milliseconds of the compiler."""

    digest: str
    kernels: int
    compiled: bool
    seconds: float
    compile_ms: int = 0
    link_ms: int = 0


records: list[BuildRecord] = []


@functools.cache
def headers_digest() -> str:
    """Digest of the headers that device code can include."""
    digest = hashlib.sha256()
    root = (include_dir() / "kernels" / "sycl").resolve()  # a link in a source tree, which rglob does not follow
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def source_digest(source: str) -> str:
    """Digest of a source and everything its code is made with. Where the package is installed does not count."""
    flags = (option.replace(str(include_dir()), "") for option in options())
    parts = [_SCHEMA, compiler_version(), headers_digest(), *flags, source]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@functools.cache
def generator_digest(*packages: str) -> str:
    """Digest of packages that write kernels, and of everything that the code of a kernel is made with."""
    digest = hashlib.sha256(source_digest("").encode())
    for package in packages:
        for path in sorted((Path(__file__).resolve().parents[1] / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Built:
    """A compiled module: SPIR-V, and native code for the device that `target` names (kernels/runtime/module/target_key.hpp)."""

    digest: str
    spirv: bytes
    native: bytes
    target: str
    compile_ms: int = 0
    link_ms: int = 0


def build(source: str) -> Built:
    """Compile a module, whether the cache has it or not.

    Raises:
        CompileError: where the source does not compile.
    """
    digest = source_digest(source)
    # Else the digest of the module would name headers that it was not made with.
    if headers_digest.__wrapped__() != headers_digest():
        raise CompileError("xpu_ops: the package's files changed after this process had read them; start Python again.")
    with tempfile.TemporaryDirectory(prefix="xpu_ops-") as folder:
        path, prefix = Path(folder) / "source.cpp", Path(folder) / "module"
        path.write_text(source)
        answer = WORKER.compile(path, prefix)
        if not answer["ok"]:
            log = str(answer["log"]).replace(f"{path}", "source.cpp").strip()
            raise CompileError(_explain(log))
        spirv = Path(f"{prefix}.spv.syclbin").read_bytes()
        native = Path(f"{prefix}.native.syclbin").read_bytes()
    return Built(digest, spirv, native, answer["target"], answer["compile_ms"], answer["link_ms"])


_DIAGNOSTIC = re.compile(r"source\.cpp:\d+:(\d+): ((?:fatal )?error|warning|note): (.*)\n(\s*(\d+) \|(.*))")


def _explain(log: str) -> str:
    """The compiler's text, after the first error and its line. Beside a source line stands the number that #line gave it;
    the number in front of the message counts what the service put before the source."""
    log = _DIAGNOSTIC.sub(r"source.cpp:\5:\1: \2: \3\n\4", log)
    first = next((m for m in _DIAGNOSTIC.finditer(log) if "error" in m[2]), None)
    if first is None:
        return f"xpu_ops: a kernel does not compile:\n{log}"
    return f"xpu_ops: a kernel does not compile, line {first[5]}: {first[3]}\n    {first[6].strip()}\n{log}"


def load(source: str, kernels: Sequence[KernelSpec], device: int = -1) -> list[Callable[..., None]]:
    """Compile a module, or find it in the cache, and return its kernels in the order of `kernels`.

    Args:
        source: C++ after the prelude kernels/sycl/source/generated.hpp; every kernel is `XPU_KERNEL(1)` or `XPU_KERNEL_SG(1, lanes)`.
        kernels: what to take out of the module.
        device: XPU device, -1 for the current one.

    Returns:
        Callables `kernel(groups, *arguments)` that launch on the current stream of the device.

    Raises:
        CompileError: where the source does not compile.
        RuntimeError: where a name is not in the module.
    """
    c: Any = _autoload.load()
    torch.xpu.init()
    start = time.perf_counter()
    device = torch.xpu.current_device() if device < 0 else device
    digest = source_digest(source)
    module = c.JitModule.find(digest, device)
    built = None
    if module is None:
        built = build(source)
        module = c.JitModule.add(digest, device, built.spirv, built.native, built.target)
    launchers = [module.kernel(k.name, k.local, k.signature, k.messages) for k in kernels]
    times = (built.compile_ms, built.link_ms) if built else (0, 0)
    records.append(BuildRecord(digest, len(kernels), built is not None, time.perf_counter() - start, *times))
    return launchers
