"""Declarations of the installed torch: operator groups, signatures, structured metas, read through torchgen."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torchgen
from torchgen import local
from torchgen.api import meta, structured
from torchgen.api.types import DispatcherSignature
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import (
    BaseTy,
    BaseType,
    DeviceCheckType,
    DispatchKey,
    FunctionSchema,
    NativeFunction,
    NativeFunctionsGroup,
    OptionalType,
    SchemaKind,
)

from tools.torch_release import series_of, version_of

# Lists that torchgen has no dispatcher type for.
UNBOXED_LISTS = {"Scalar?[]": "c10::List<std::optional<at::Scalar>>", "str[]": "c10::List<std::string>"}
# All kernels of an operator must agree in their C++ types: those of torch's own hand-written ones, by namespace.
_BY_VALUE = {"Scalar?": "std::optional<at::Scalar>"}
HAND_WRITTEN = {
    "mkldnn": _BY_VALUE,
    "onednn": {
        **_BY_VALUE, "Tensor": "at::Tensor", "Tensor(a!)": "at::Tensor", "Tensor?": "std::optional<at::Tensor>",
        "int[]": "c10::List<int64_t>", "int[]?": "std::optional<c10::List<int64_t>>",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Arg:
    """One argument as the dispatcher passes it."""

    name: str
    ctype: str
    is_tensor: bool  # a plain Tensor
    is_optional_tensor: bool  # Tensor?
    tensor_like: bool  # Tensor, Tensor? or a list of them
    is_out: bool
    schema_type: str


class Torch:
    """The operators of the installed torch."""

    def __init__(self) -> None:
        package = Path(torchgen.__file__).parent
        self.series = series_of(version_of(package.parent / "torch"))
        native = package / "packaged" / "ATen" / "native"
        parsed = parse_native_yaml(native / "native_functions.yaml", native / "tags.yaml")
        self.functions: dict[str, NativeFunction] = {str(f.func.name): f for f in parsed.native_functions}
        self.groups: dict[str, NativeFunctionsGroup] = {}
        for g in get_grouped_native_functions(parsed.native_functions):
            if isinstance(g, NativeFunctionsGroup):
                for f in g.functions():
                    self.groups[str(f.func.name)] = g
        self._indices = parsed.backend_indices
        self._cpu = parsed.backend_indices[DispatchKey.CPU]
        self._composite = parsed.backend_indices[DispatchKey.CompositeExplicitAutograd]

    def has_kernel(self, f: NativeFunction) -> bool:
        """Whether torch gives the CPU a kernel of its own."""
        return self._cpu.has_kernel(f)

    def has_kernel_for(self, f: NativeFunction, key: str) -> bool:
        """Whether torch declares a kernel of a dispatch key; of a dense one a structured overload has its delegate's."""
        index = self._indices[DispatchKey.parse(key)]
        dense = key in ("CPU", "CUDA", "XPU")
        declared = self.functions[str(f.structured_delegate)] if dense and f.structured_delegate is not None else f
        return index.has_kernel(f) or index.has_kernel(declared)

    def composite_kernel(self, fn: NativeFunction) -> str:
        """The at::native function that computes `fn` from other operators. Raises KeyError where there is none."""
        metadata = self._composite.get_kernel(fn)
        if metadata is None:
            raise KeyError(str(fn.func.name))
        return metadata.kernel

    def shared_kernel(self, fn: NativeFunction, key: str) -> str | None:
        """The at::native function that torch registers for both its devices where XPU has `key`, if it is one."""
        found = [
            self._indices[DispatchKey.parse(key.replace("XPU", device))].get_kernel(fn) for device in ("CPU", "CUDA")
        ]
        names = {m.kernel if m is not None and not m.structured else None for m in found}
        return names.pop() if len(names) == 1 else None

    def function(self, name: str) -> NativeFunction:
        """Raises KeyError for a name that torch does not declare."""
        return self.functions[name]


@dataclass(frozen=True)
class Declared:
    """An operator outside native_functions.yaml: the manifest gives its schema.

    The dispatcher compares schema and kernel when the library is loaded, so a schema that torch has changed is seen.
    """

    namespace: str
    func: FunctionSchema
    device_check: DeviceCheckType
    use_const_ref_for_mutable_tensors: bool = False
    part_of_structured_group: bool = False
    structured: bool = False
    structured_delegate: None = None

    @property
    def root_name(self) -> str:
        return str(self.func.name.name.base)


@dataclass(frozen=True)
class Overload:
    """One overload with its C++ signature, symbolic integers as plain ones."""

    fn: NativeFunction | Declared
    prefix: str = ""  # of its functions' names: tells dispatch keys apart
    shared: str | None = None  # the at::native function that serves it

    @property
    def namespace(self) -> str:
        return self.fn.namespace

    @property
    def base_name(self) -> str:
        """The name inside its namespace."""
        return str(self.fn.func.name)

    @property
    def name(self) -> str:
        """The name that the manifest uses: with the namespace unless that is aten."""
        return self.base_name if self.namespace == "aten" else f"{self.namespace}::{self.base_name}"

    @property
    def cpp_name(self) -> str:
        return self.prefix + self.name.replace(".", "_").replace("::", "_")

    @property
    def kind(self) -> SchemaKind:
        return self.fn.func.kind()

    def _locals(self) -> AbstractContextManager[None]:
        """torch's own kernels of structured groups take ITensorListRef; every kernel of an operator must agree."""
        return local.parametrize(
            use_const_ref_for_mutable_tensors=self.fn.use_const_ref_for_mutable_tensors,
            use_ilistref_for_tensor_lists=self.fn.part_of_structured_group,
        )

    @cached_property
    def args(self) -> list[Arg]:
        outs = {a.name for a in self.fn.func.arguments.out}
        with self._locals():
            sig = DispatcherSignature.from_schema(self.fn.func, symint=False)
            bindings = sig.arguments()
            types = [b.nctype.cpp_type() for b in bindings]
        by_name = {a.name: a for a in self.fn.func.arguments.flat_all}
        overrides = {**UNBOXED_LISTS, **HAND_WRITTEN.get(self.namespace, {})}
        result = []
        for b, ctype in zip(bindings, types, strict=True):
            schema = by_name[b.name].type
            result.append(
                Arg(
                    name=b.name,
                    ctype=overrides.get(str(schema), ctype),
                    is_tensor=schema == BaseType(BaseTy.Tensor),
                    is_optional_tensor=is_optional_tensor(schema),
                    tensor_like=schema.is_tensor_like(),
                    is_out=b.name in outs,
                    schema_type=str(schema),
                )
            )
        return result

    @cached_property
    def return_type(self) -> str:
        with self._locals():
            return DispatcherSignature.from_schema(self.fn.func, symint=False).returns_type().cpp_type()

    def symbolic(self, name: str) -> str:
        """The signature that takes symbolic integers."""
        with self._locals():
            return DispatcherSignature.from_schema(self.fn.func, symint=True).decl(name)


@dataclass(frozen=True)
class StructuredGroup:
    """The meta class of a structured group."""

    group: NativeFunctionsGroup

    @property
    def meta_class(self) -> str:
        return f"at::meta::structured_{meta.name(self.group)}"

    @property
    def header(self) -> str:
        return f"ATen/ops/{self.group.root_name}_meta.h"

    @property
    def is_iterator(self) -> bool:
        return self.group.out.structured_inherits == "TensorIteratorBase"

    @property
    def outputs(self) -> int:
        return len(self.group.functional.func.returns)

    @property
    def precomputed(self) -> bool:
        return self.group.out.precomputed is not None

    @cached_property
    def meta_args(self) -> list[tuple[str, str]]:
        with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=True):
            return [(b.name, b.nctype.cpp_type()) for b in structured.meta_arguments(self.group)]

    @cached_property
    def impl_args(self) -> list[tuple[str, str]]:
        """Inputs (after precomputation), then outputs."""
        with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=True):
            return [(b.name, b.nctype.cpp_type()) for b in structured.impl_arguments(self.group)]

    @cached_property
    def precomputed_names(self) -> set[str]:
        pre = self.group.out.precomputed
        if pre is None:
            return set()
        names = {a.name for args in pre.replace.values() for a in args}
        return names | {a.name for a in pre.add or []}


def is_optional_tensor(schema_type: object) -> bool:
    """Whether a schema type is Tensor?."""
    return isinstance(schema_type, OptionalType) and schema_type.elem == BaseType(BaseTy.Tensor)
