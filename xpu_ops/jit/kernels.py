"""Kernels that a user writes as a function over pointers and numbers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import torch

from xpu_ops.block import parameters, printer
from xpu_ops.jit import service
from xpu_ops.jit.service import KernelSpec
from xpu_ops.jit.signature import parse
from xpu_ops.jit.tensors import check_number, check_tensor

_PREFACE = printer.opening() + "#line 1\n"


def function_parameters(source: str, name: str) -> str:
    """The parameter list of `void name(...)`.

    Raises:
        ValueError: where the source defines no such function.
    """
    found = re.search(rf"\bvoid\s+{re.escape(name)}\s*\(([^)]*)\)\s*\{{", source)
    if not found:
        raise ValueError(f"xpu_ops.jit.kernel: the source defines no function 'void {name}(...)'")
    return re.sub(r"\s+", " ", found[1])


def _count(value: Any, what: str) -> int:
    """The value as a count. Raises TypeError for what is no integer, ValueError for a negative one."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{what} must not be negative, got {value}")
    return operator.index(value)


class Kernel:
    """A compiled function; calling it launches work-groups on the current stream. Made by :func:`kernel`."""

    def __init__(self, source: str, name: str, local: int, sub_group: int | None) -> None:
        if _count(local, f"{name}: local") == 0:
            raise ValueError(f"{name}: local must be at least 1")
        self.name, self._local, self._sub_group = name, local, sub_group
        self.parameters = parse(function_parameters(source, name), name)
        fields, entry = [p.field for p in self.parameters], f"{name}_kernel"
        called = printer.call(name, (f.value for f in fields))
        self._source = f"{_PREFACE}{source}\n{printer.kernel(entry, fields, [called], lanes=sub_group)}"
        self._spec = KernelSpec(entry, local, parameters.signature(fields))
        self._launch: dict[int, Callable[..., None]] = {}

    def compile(self, device: int = -1) -> None:
        """Compile now rather than at the first call.

        Raises:
            CompileError: where the source has an error; the message has the compiler's text and the line.
        """
        device = torch.xpu.current_device() if device < 0 else device
        if device not in self._launch:
            sizes = torch.xpu.get_device_properties(device).sub_group_sizes
            if self._sub_group is not None and self._sub_group not in sizes:
                known = ", ".join(map(str, sizes))
                raise ValueError(f"{self.name}: sub_group must be one of {known}, not {self._sub_group}")
            (self._launch[device],) = service.load(self._source, [self._spec], device)

    def __call__(self, *args: Any, groups: int | None = None, items: int | None = None) -> None:
        """Launch `groups` work-groups, or as many as hold `items` work-items.

        Raises:
            TypeError, ValueError: where an argument does not fit its parameter; the message names it.
        """
        if (groups is None) == (items is None):
            raise TypeError(f"{self.name}: give either groups= or items=")
        count = _count(items, f"{self.name}: items") if groups is None else _count(groups, f"{self.name}: groups")
        if groups is None:
            count = -(-count // self._local)
        self._check(args)
        devices = {a.device for a in args if isinstance(a, torch.Tensor)}
        if len(devices) > 1:
            found = ", ".join(sorted(map(str, devices)))
            raise ValueError(f"{self.name}: expected all tensors on one device, got {found}")
        device = (devices.pop().index or 0) if devices else torch.xpu.current_device()
        if device not in self._launch:
            self.compile(device)
        self._launch[device](count, *args)

    def _check(self, args: tuple[Any, ...]) -> None:
        if len(args) != len(self.parameters):
            raise TypeError(f"{self.name}: expected {len(self.parameters)} arguments, got {len(args)}")
        for p, a in zip(self.parameters, args, strict=True):
            if not p.pointer:
                check_number(self.name, p, a)
                continue
            check_tensor(self.name, p, a)
            if p.dtype is not None and a.dtype != p.dtype:
                raise TypeError(f"{self.name}: argument {p.name} must be {p.dtype}, not {a.dtype}")
            if not a.is_contiguous():
                raise ValueError(f"{self.name}: argument {p.name} must be contiguous; call .contiguous()")


def kernel(source: str, name: str, *, local: int = 256, sub_group: int | None = None) -> Kernel:
    """Make a kernel of a function over pointers and numbers.

    Args:
        source: C++ with `void name(parameters)`. Parameters are pointers (`const float* x`; also half, bf16, double,
            bool, the sized integers, void) and numbers (float, double, int, long). The headers of kernels/sycl can be
            included; xpu::global_id(), local_id(), group_id() say where an item is, `syclexp::work_group_static<T[n]>`
            is memory of a work-group, `sycl::group_barrier(sycl::work_group{})` its barrier. Nothing of the C++ library.
        name: of the function.
        local: items of a work-group.
        sub_group: items of a sub-group, where the function exchanges values in it.

    Returns:
        A callable; `k(x, y, n, items=n)` checks the arguments and launches. It compiles at its first call.

    Raises:
        ValueError: where the source has no such function or a parameter cannot be read.

    Source: the SYCL compiler of libsycl-jit (sycl_ext_oneapi_kernel_compiler); the form follows CuPy's RawKernel.
    """
    return Kernel(source, name, local, sub_group)
