"""The C functions that a model compiled ahead of time calls for torch's operators, as torchgen writes them for a device.

torch's CPU build has those of the CPU alone. A call goes through the dispatcher, as one of torch.compile does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchgen.aoti.fallback_ops import inductor_fallback_ops
from torchgen.gen_aoti_c_shim import (
    gen_declaration_and_definition,
    gen_static_dispatch_backend_call,
    get_fallback_op_name,
)
from torchgen.model import NativeFunction, Variant

from .torch_ops import Torch

_DEVICE = "xpu"
_HEADER = "aoti/xpu_ops_operators.h"
# Operators that stay whole in graphs for xpu, beside torchgen's: a package calls each by a C function, too. With another
# name it goes through torch's proxy executor.
_MORE = Path(__file__).resolve().parents[2] / "xpu_ops" / "data" / "aoti_operators.txt"


def _callee(f: NativeFunction) -> str:
    call = gen_static_dispatch_backend_call(f)
    if Variant.function in f.variants or not call.startswith("at::") or "symint::" in call:
        return call
    name = call.removeprefix("at::")
    return (
        f"[](const at::Tensor& self, auto&&... args) {{ return self.{name}(std::forward<decltype(args)>(args)...); }}"
    )


def files(torch: Torch) -> dict[str, str]:
    """The header that models include, and the source; by path below the output folder."""
    declarations, definitions, roots = [], [], set()
    by_name = {get_fallback_op_name(f): f for f in torch.functions.values()}
    more: dict[str, Any] = {name: {} for name in _MORE.read_text().split()}
    for name, versions in sorted({**more, **inductor_fallback_ops}.items()):
        f = by_name.get(name)
        if f is None:
            continue  # of another release
        try:
            declaration, definition = gen_declaration_and_definition(f.func, _DEVICE, _callee(f), versions)
        except NotImplementedError:
            continue  # an argument that C does not have; Inductor calls it through the proxy executor
        lines = [line for line in declaration.splitlines() if not line.startswith("#")]
        declarations += lines
        definitions.append(definition)
        roots.add(f.root_name)
    header = [
        "// Generated: torch's operators on tensors of an XPU device, for models compiled ahead of time.",
        "#pragma once",
        "#include <torch/csrc/inductor/aoti_torch/c/shim.h>",
        'extern "C" {',
        *declarations,
        "}",
    ]
    source = [
        "// Generated: see the header.",
        f'#include "gen/{_HEADER}"',
        "",
        "#include <torch/csrc/inductor/aoti_torch/utils.h>",
        *(f"#include <ATen/ops/{root}.h>" for root in sorted(roots)),
        "",
        "namespace xpu_ops::aoti {",
        "using namespace torch::aot_inductor;",
        "#pragma GCC visibility push(default)  // not inherited from the declarations outside of the namespace",
        'extern "C" {',
        *definitions,
        "}",
        "#pragma GCC visibility pop",
        "}  // namespace xpu_ops::aoti",
    ]
    return {_HEADER: "\n".join(header) + "\n", "aten/aoti_operators.cpp": "\n".join(source) + "\n"}
