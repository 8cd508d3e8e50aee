"""The functions of the CUDA driver that a replay needs."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p
from functools import cache

MAX_THREADS = 0  # CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
MOST_GROUPS_Y = 65535


class CudaError(RuntimeError):
    """A call of the driver failed; after most errors of a launch the process can do nothing more with the device."""


@cache
def driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    code = getattr(driver(), name)(*arguments)
    if code:
        text = c_char_p()
        driver().cuGetErrorName(code, byref(text))
        raise CudaError(f"{name}: {(text.value or b'?').decode()} ({code})")


class Function:
    """A kernel of a loaded module."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle

    @property
    def most_items(self) -> int:
        """Work-items of a work-group that the kernel's registers leave room for."""
        value = c_int()
        call("cuFuncGetAttribute", byref(value), c_int(MAX_THREADS), self.handle)
        return value.value


class Module:
    """A cubin on the device."""

    def __init__(self, image: bytes) -> None:
        self._handle = c_void_p()
        call("cuModuleLoadData", byref(self._handle), image)

    def function(self, kernel: str) -> Function:
        handle = c_void_p()
        call("cuModuleGetFunction", byref(handle), self._handle, f"__sycl_kernel_{kernel}".encode())
        return Function(handle)


class Launcher:
    """A launch that can be repeated: one struct by value is the kernel's only parameter."""

    def __init__(self, function: Function, groups: tuple[int, int], local: tuple[int, int], args: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(args, len(args))
        self._parameters = (c_void_p * 1)(ctypes.addressof(self._buffer))
        shape = (groups[0], groups[1], 1, local[0], local[1], 1, 0)
        self._function, self._shape = function, [c_uint(n) for n in shape]

    def __call__(self, stream: int) -> None:
        call("cuLaunchKernel", self._function.handle, *self._shape, c_void_p(stream), self._parameters, None)
