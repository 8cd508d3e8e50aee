"""Several kernels of one source as a module, in the manner of torch.utils.cpp_extension.load_inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from xpu_ops.jit.kernels import Kernel, kernel


def load_inline(
    name: str,
    sycl_sources: str | Sequence[str],
    functions: Sequence[str] | Mapping[str, str],
    *,
    local: int = 256,
    sub_group: int | None = None,
) -> ModuleType:
    """Make kernels of the functions of SYCL sources, without icpx and without a C++ compiler.

    torch.utils.cpp_extension.load_inline compiles host code that launches kernels; here the functions are the kernels, as
    :func:`xpu_ops.jit.kernel` takes them, and the module launches them.

    Args:
        name: of the module.
        sycl_sources: C++ text or texts, joined in their order.
        functions: names of `void` functions over pointers and numbers, or names with their docstrings.
        local: items of a work-group.
        sub_group: items of a sub-group, where functions exchange values in it.

    Returns:
        A module with a callable per function, `module.f(x, y, n, items=n)`.

    Raises:
        ValueError: where the sources lack a function or a parameter cannot be read.

    Source: as torch.utils.cpp_extension.load_inline, without a build.
    """
    source = sycl_sources if isinstance(sycl_sources, str) else "\n".join(sycl_sources)
    module = ModuleType(name)
    for function in functions:
        made: Kernel = kernel(source, function, local=local, sub_group=sub_group)
        if isinstance(functions, Mapping):
            made.__doc__ = functions[function]
        setattr(module, function, made)
    return module
