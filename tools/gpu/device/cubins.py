"""Kernels by name: PTX assembled by ptxas in parallel, kept by digest, loaded when a kernel is first used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.gpu.device.cuda import Function, Module

ARCH = "sm_90"
# Registers that leave room for a work-group of 1,024 items on a multiprocessor with 65,536.
FEW_REGISTERS = 64
PROPERTIES = re.compile(
    r"Function properties for __sycl_kernel_(\w+)\n\s+(\d+) bytes stack frame, (\d+) bytes spill stores.*\n.*Used (\d+) registers"
)


@dataclass
class Assembled:
    """The words of ptxas on a module."""

    module: str
    seconds: float
    failed: str  # its error, "" where it went well
    kernels: dict[str, tuple[int, int, int]]  # stack, spilled bytes, registers


class Cubins:
    """The kernels of a folder that tools/gpu/ptx.py wrote."""

    def __init__(self, ptx: Path, cache: Path, ptxas: str = "ptxas") -> None:
        self._ptx, self._cache, self._ptxas = ptx, cache, shutil.which(ptxas) or "/usr/local/cuda/bin/ptxas"
        cache.mkdir(parents=True, exist_ok=True)
        self.modules: dict[str, dict[str, Any]] = json.loads((ptx / "modules.json").read_text())
        self._module_of: dict[tuple[str, str], str] = {}
        for name, module in self.modules.items():
            digest = name if re.fullmatch(r"[0-9a-f]{40}", name) else ""
            for kernel in module["kernels"]:
                self._module_of[digest, kernel] = name
        self._loaded: dict[tuple[str, bool], Module] = {}
        self._functions: dict[tuple[str, str, bool], Function] = {}

    def module_of(self, kernel: str, digest: str = "") -> str | None:
        return self._module_of.get((digest, kernel))

    def kernels(self) -> int:
        return len(self._module_of)

    def _cubin(self, module: str, few_registers: bool) -> Path:
        stem = Path(str(self.modules[module]["file"])).stem
        return self._cache / f"{stem}-{ARCH}{f'-{FEW_REGISTERS}' if few_registers else ''}.cubin"

    def assemble_one(self, module: str, few_registers: bool = False) -> Assembled:
        out = self._cubin(module, few_registers)
        if out.exists():
            return Assembled(module, 0.0, "", {})
        start = time.monotonic()
        limit = [f"-maxrregcount={FEW_REGISTERS}"] if few_registers else []
        partial = out.with_suffix(f".{os.getpid()}.tmp")
        command = [
            self._ptxas,
            f"-arch={ARCH}",
            "-v",
            *limit,
            str(self._ptx / str(self.modules[module]["file"])),
            "-o",
            str(partial),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        text = done.stdout + done.stderr
        seconds = time.monotonic() - start
        if done.returncode:
            return Assembled(module, seconds, text[:500] or f"exit code {done.returncode}", {})
        partial.rename(out)
        found = PROPERTIES.findall(text)
        return Assembled(
            module, seconds, "", {k: (int(stack), int(spills), int(regs)) for k, stack, spills, regs in found}
        )

    def assemble(self, modules: list[str] | None = None, jobs: int | None = None) -> list[Assembled]:
        """All modules, or these; the slow ones first, so that none is last alone."""
        names = list(self.modules) if modules is None else modules
        names.sort(key=lambda m: -(self._ptx / str(self.modules[m]["file"])).stat().st_size)
        with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
            return list(pool.map(self.assemble_one, names))

    def _function(self, kernel: str, digest: str, few_registers: bool) -> Function:
        key = (digest, kernel, few_registers)
        if key not in self._functions:
            module = self._module_of[digest, kernel]
            if (module, few_registers) not in self._loaded:
                done = self.assemble_one(module, few_registers)
                if done.failed:
                    raise RuntimeError(f"ptxas: {done.failed}")
                self._loaded[module, few_registers] = Module(self._cubin(module, few_registers).read_bytes())
            self._functions[key] = self._loaded[module, few_registers].function(kernel)
        return self._functions[key]

    def function(self, kernel: str, items: int, digest: str = "") -> Function:
        """The kernel for work-groups of so many items.

        Raises:
            KeyError: where no module has it.
            RuntimeError: where its module is not assembled.
        """
        function = self._function(kernel, digest, False)
        return function if items <= function.most_items else self._function(kernel, digest, True)
