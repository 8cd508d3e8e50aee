"""torch.compile for xpu on a stock torch: Inductor writes SYCL kernels, xpu_ops.jit compiles them.

Nothing is to be imported or called: `import torch` registers ACTIONS, which wait for torch._inductor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any


def _on_inductor(module: ModuleType) -> None:
    try:
        from xpu_ops.inductor.install import install

        install()
    except Exception as error:  # torch.compile on the CPU must go on working
        import warnings

        warnings.warn(f"torch.compile is not available on xpu: {type(error).__name__}: {error}", stacklevel=2)


def _on_dynamo(module: Any) -> None:
    """`is_compile_supported("xpu")` asks for Triton."""
    upstream = module.is_compile_supported

    def is_compile_supported(device_type: Any) -> Any:
        import torch

        if torch.device(device_type).type == "xpu":
            return module.is_compile_supported("cpu")
        return upstream(device_type)

    module.is_compile_supported = is_compile_supported


def _on_decompositions(module: Any) -> None:
    _keep_channels_last(module)
    _contiguous_group_norm(module)


def _is_xpu(tensor: Any) -> bool:
    return getattr(tensor, "fake_device", tensor.device).type == "xpu"


def _keep_channels_last(module: Any) -> None:
    """max_unpool2d keeps channels last, as its kernels do; the decomposition, which also serves fake tensors, does not."""
    upstream = module._max_unpoolnd

    def max_unpoolnd(self: Any, indices: Any, output_size: Any, dim: int) -> Any:
        out = upstream(self, indices, output_size, dim)
        if dim != 2 or not _is_xpu(self):
            return out
        return out.contiguous(memory_format=module.utils.suggest_memory_format(self))

    module._max_unpoolnd = max_unpoolnd


def _contiguous_group_norm(module: Any) -> None:
    """The gradient's decomposition takes views; torch's autograd makes its operands contiguous on every device but xpu."""
    import torch
    from torch._decomp import decomposition_table

    op = torch.ops.aten.native_group_norm_backward.default
    upstream = decomposition_table[op]

    @functools.wraps(upstream)
    def decompose(grad_output: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_xpu(input):
            grad_output, input = grad_output.contiguous(), input.contiguous()
        return upstream(grad_output, input, *args, **kwargs)

    decomposition_table[op] = decompose


def _on_associative_scan(module: ModuleType) -> None:
    from xpu_ops.inductor.scan_gradient import install

    install(module)


# Run when the module has been imported, see xpu_ops/_after_import.py.
ACTIONS: dict[str, Callable[[ModuleType], None]] = {
    "torch._inductor.compile_fx": _on_inductor,
    "torch._decomp.decompositions": _on_decompositions,
    "torch._dynamo.utils": _on_dynamo,
    "torch._higher_order_ops.associative_scan": _on_associative_scan,
}
