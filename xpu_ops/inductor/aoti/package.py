"""The file of a model's kernels: the versions that made it, SPIR-V, native code. bindings/aoti/package.cpp reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from zlib import crc32

from xpu_ops._paths import torch_release
from xpu_ops.jit import service

SUFFIX = "xpu_ops"
_FORMAT = "xpu_ops-model 1"
NO_KERNELS = "no_kernels"


def kernel_file(sources: Iterable[str]) -> tuple[str, bytes]:
    """The name of the module of these kernels, without its suffix, and the content of its file.

    The name is that of the content: Inductor's cache, which other releases of torch share, keeps a file that it has.

    Raises:
        CompileError: where a kernel does not compile.
    """
    from xpu_ops._built import VERSION
    from xpu_ops.inductor.compiler import HEADER

    text = "".join(sources)
    built = service.Built(NO_KERNELS, b"", b"", "none")
    if text:
        built = service.build(HEADER + text)
    lines = [
        _FORMAT,
        f"xpu_ops {VERSION}",
        f"torch {torch_release()}",
        f"digest {built.digest}",
        f"target {built.target}",
        f"spirv {len(built.spirv)} {crc32(built.spirv):x}",
        f"native {len(built.native)} {crc32(built.native):x}",
        "\n",
    ]
    content = "\n".join(lines).encode() + built.spirv + built.native
    return hashlib.sha256(content).hexdigest(), content
