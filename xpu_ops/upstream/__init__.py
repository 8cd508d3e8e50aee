"""Changes in torch and in other libraries: one file per part, one registry (registry.py) of all changes.

`python -m xpu_ops.upstream` prints the table, docs/upstream.md has it. A file is imported when the library is: `open_doors`
waits for the module that a part belongs to, so that `import torch` brings in no library that the program may never use.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from xpu_ops.upstream import registry
from xpu_ops.upstream.after_import import after_import

if TYPE_CHECKING:
    from collections.abc import Callable

# Files that are installed while torch is imported: what torch.xpu needs, then what uses it.
CORE = ("profiler", "torch_core")
AFTER_CORE = ("distributed", "multiprocessing", "dlpack", "data_parallel")
# Module -> the file that is installed after its import.
DOORS = {
    "torch._decomp.decompositions": "decompositions",
    "torch._dynamo.decorators": "dynamo_call",
    "torch._dynamo.output_graph": "dynamo_graph",
    "torch._dynamo.utils": "dynamo",
    "torch._functorch._aot_autograd.schemas": "aot_autograd",
    "torch._higher_order_ops.associative_scan": "higher_order",
    "torch._inductor.codecache": "inductor_load",
    "torch._inductor.compile_fx": "inductor",
    "torch._meta_registrations": "meta",
    "torch._native": "native",
    "torch.nested._internal.sdpa": "nested",
    "torch.distributed._symmetric_memory": "symmetric_memory",
    "torch.optim.swa_utils": "swa",
    "torch.sparse.semi_structured": "sparse_semi_structured",
    "torch.utils.flop_counter": "flop_counter",
    "torchao.kernel.intmm": "torchao",
    "torchao.quantization.quant_api": "torchao",
    "torchao.quantization.quantize_.workflows.int4.int4_plain_int32_tensor": "torchao",
    "torchao.quantization.quantize_.workflows.int8.int8_tensor": "torchao",
    "torchvision._autograd_registrations": "torchvision",
    "torchvision.extension": "torchvision",
    "transformers.generation.continuous_batching.cache": "transformers",
    "transformers.generation.continuous_batching.initialization": "transformers",
    "transformers.integrations.moe": "transformers",
    "vllm.entrypoints.cli.main": "vllm",
    "lightning.fabric.connector": "lightning",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning",
    "lightning_fabric.connector": "lightning",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "lightning",
}
# Installed by others: a CUDA build's by the autoload, Inductor's with its door, one with the first graph that needs it.
ON_REQUEST = (
    "cuda_build",
    "inductor_export",
    "inductor_linear",
    "inductor_lowering",
    "inductor_operator",
    "inductor_operators",
    "inductor_passes",
)
# A door of a library that has several changes only those whose names begin with it.
_BY_DOOR = ("torchao", "transformers")


def _file(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


@functools.cache
def install_once(file: str) -> None:
    """Make the changes of a file of CORE, AFTER_CORE or ON_REQUEST."""
    getattr(_file(file), "install", functools.partial(registry.apply, file))()


def _action(file: str) -> Callable[[ModuleType], None]:
    def run(module: ModuleType) -> None:
        try:
            ours = _file(file)
            if hasattr(ours, "install"):
                ours.install(module)
            else:
                registry.apply(file, f"{module.__name__}." if file in _BY_DOOR else "")
        except Exception as error:  # the import must succeed: what was not changed serves other devices
            import warnings

            text = f"xpu_ops could not change {module.__name__} for xpu: {type(error).__name__}: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    return run


def open_doors() -> None:
    """Make the changes to other parts of torch and to libraries when the program imports them."""
    for module, file in DOORS.items():
        after_import(module, _action(file))


def changes() -> list[registry.Change]:
    """All changes, by file. Imports what Inductor's need, and no other library."""
    for file in sorted({*CORE, *AFTER_CORE, *DOORS.values(), *ON_REQUEST}):
        _file(file)
    return sorted(registry.CHANGES, key=lambda c: c.file)


def table() -> str:
    """The changes as a table in Markdown, by file."""
    lines: list[str] = []
    file = ""
    for c in changes():
        if c.file != file:
            file = c.file
            summary = (_file(file).__doc__ or "").strip().splitlines()[0]
            lines += ["", f"### `{file}.py`", summary, ""]
            lines += ["| target | kind | releases | why | test |", "|---|---|---|---|---|"]
        names = "<br>".join(f"`{t}`" for t in c.targets)
        releases = f"{c.library()} {c.since}-{c.until or ''}"
        lines.append(f"| {names} | {c.kind} | {releases} | {c.why} | `{c.test}` |")
    return "\n".join(lines[1:]) + "\n"
