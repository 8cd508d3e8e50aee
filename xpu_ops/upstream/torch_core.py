"""torch._C and torch.xpu get what a build of torch with XPU has. Runs while torch is imported."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from xpu_ops import _streams
from xpu_ops.upstream.registry import adds, replaces, uses


def _extension() -> Any:
    return sys.modules["xpu_ops._C"]


@adds(
    "torch._C._xpu_*",
    "torch._C._Xpu*",
    "torch._C._XPU*",
    since="2.13",
    why="torch.xpu calls these functions; a CPU build has none, or types that raise",
    test="tests/runtime/test_torch_xpu.py::test_public_name",
)
def names_of_an_xpu_build() -> dict[str, Any]:
    extension = _extension()
    names = {f"torch._C.{n}": getattr(extension, n) for n in dir(extension) if n.startswith(("_xpu_", "_Xpu", "_XPU"))}
    bases = {"_XpuStreamBase": _streams.stream_base(extension), "_XpuEventBase": _streams.event_base(extension)}
    return names | {f"torch._C.{n}": base for n, base in bases.items()}


@replaces(
    "torch._C._has_xpu",
    since="2.13",
    why="torch.xpu asks it whether the build has the device",
    test="tests/runtime/test_torch_xpu.py::test_import_alone_brings_the_device",
)
def has_xpu(upstream: bool) -> bool:
    return True


@replaces(
    "torch._C._dynamo.guards._empty_strided_xpu",
    since="2.13",
    why="Inductor's wrappers allocate with it; torch's raises in a build without XPU",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def empty_strided(upstream: Any) -> Any:
    return _extension()._empty_strided_xpu


@uses(
    "torch.xpu",
    since="2.13",
    why="its modules read torch._C when they are imported, so they are run again",
    test="tests/runtime/test_torch_xpu.py::test_public_name",
)
def run_again(xpu: Any) -> None:
    for name in ("_utils", "streams", "graphs", "memory", "random"):
        if module := sys.modules.get(f"torch.xpu.{name}"):
            # graphs and memory import names of torch.xpu that a reload of it refreshes below
            importlib.reload(module)
    importlib.reload(xpu)
