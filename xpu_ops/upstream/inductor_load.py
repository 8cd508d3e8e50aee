"""Loading a package: the processor's instructions are found out only for a package that depends on them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._inductor import cpu_vec_isa

from xpu_ops.upstream.registry import replaces, temporarily


class Instructions:
    """The processor's instructions by name. Torch builds and runs three programs for the answer, in seconds."""

    def __str__(self) -> str:
        return str(cpu_vec_isa.pick_vec_isa()).upper()

    def __eq__(self, other: object) -> bool:
        return str(self) == other

    __hash__ = None  # type: ignore[assignment]


_instructions = temporarily(
    "torch._inductor.cpu_vec_isa.pick_vec_isa",
    since="2.13",
    why="asked for below, where a package names the processor's instructions",
    test="tests/inductor/test_export.py::test_loading_runs_no_programs",
)


@replaces(
    "torch._inductor.codecache.get_device_information",
    since="2.13",
    why="upstream looks for the processor's instructions at each load, by building and running programs",
    test="tests/inductor/test_export.py::test_loading_runs_no_programs",
)
def information(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def get_device_information(device_type: str) -> dict[str, Any]:
        if device_type != "xpu":
            return dict(upstream(device_type))
        with _instructions(lambda: ""):
            found = upstream(device_type)
        return {**found, "AOTI_CPU_ISA": Instructions()}

    return get_device_information
