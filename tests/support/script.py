"""Runs a snippet in a process of its own: for what happens at import, at exit, or once in a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

# A processor with AVX2 and no AVX-512, as which the driver's target takes any.
AVX2 = {"XPU_OPS_POLICY": "", "CL_CONFIG_CPU_TARGET_ARCH": "core-avx2", "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}


def run(
    code: str, *, python: str = sys.executable, timeout: float = 120, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process of an interpreter; keyword arguments are environment variables, an empty one unsets it."""
    full = dict(os.environ)
    for key, value in env.items():
        full.pop(key, None)
        if value:
            full[key] = value
    return subprocess.run(
        [python, "-c", textwrap.dedent(code)], env=full, capture_output=True, text=True, timeout=timeout
    )


def out(code: str, *, timeout: float = 120, **env: str) -> str:
    """Standard output of a snippet that must succeed."""
    done = run(code, timeout=timeout, **env)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()
