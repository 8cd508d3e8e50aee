"""The manifest's schema. Errors name file, row and field."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .types import GROUPS, TYPES

Expr = str | list[str]
Key = Literal["XPU", "SparseXPU", "SparseCsrXPU", "NestedTensorXPU"]


class ManifestError(ValueError):
    """A manifest file that cannot be used; the message names file, row and field."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _check_types(names: list[str]) -> list[str]:
    for name in names:
        if name not in GROUPS and name not in TYPES:
            raise ValueError(f"unknown element type or group '{name}'")
    return names


class Test(Strict):
    """How the generic tests draw values for a row and how close the result must be."""

    domain: list[float] | dict[str, list[float]] | None = None
    tol: dict[str, list[float]] = Field(default_factory=dict)  # dtype name -> [rtol, atol]
    sample: dict[str, Any] = Field(default_factory=dict)  # values of non-tensor arguments
    args: dict[str, Any] = Field(default_factory=dict)  # tensor argument -> how tests/ops/test_rows.py draws it
    skip_types: list[str] = Field(default_factory=list)
    reference: Literal["cpu", "cpu64"] = "cpu"
    note: str | None = None


class Kernel(Strict):
    """A device function template `xpu::<name>` and the element types it is instantiated with."""

    name: str
    args: str = ""  # the struct host and device share, in namespace xpu_ops
    reduction: bool = False  # three kernels over one functor: row, col, final (kernels/sycl/reduction.hpp)
    sub_group: int | None = None  # sub-group size the kernel is written for
    single: bool = False  # work-groups are one item, which computes in vectors of its own: for a CPU device
    dims: Literal[1, 2, 3] = 1
    types: list[str] = Field(default_factory=list)
    types2: list[str] = Field(default_factory=list)  # second type parameter: every pair is instantiated
    pairs: list[list[str]] = Field(default_factory=list)  # or these pairs only
    variants: dict[str, str] = Field(default_factory=dict)  # name suffix -> further template arguments
    # element types (of pairs the first) that kernels/host/<family>.hpp computes on the calling thread too, bit for bit
    host: list[str] = Field(default_factory=list)
    label: str | None = None  # what a missing type is called in the error; default the name
    fp64: bool = False  # True for an untyped kernel that computes in double
    big: bool = False  # put into its wrapper by force; else each item has a copy of the arguments

    _types = field_validator("types", "types2", "host")(_check_types)

    @model_validator(mode="after")
    def _complete(self) -> Kernel:
        if self.reduction:
            self.args, self.sub_group = "ReductionArgs", 16
            self.variants = {"row": "Row", "col": "Col", "final": "Final"}
        if not self.args:
            raise ValueError("args: needed")
        return self


class Row(Strict):
    """One operator group."""

    op: str
    # pointwise rows
    expr: Expr | dict[str, Expr] | dict[str, dict[str, Expr | dict[str, Expr]]] | None = None
    types: list[str] = Field(default_factory=list)
    scalars: list[str] = Field(default_factory=list)
    inputs: dict[str, str] = Field(default_factory=dict)  # argument -> element type where it is not the common type
    # element types with a second kernel for operands that step through memory, which are copied first without one
    steps: list[str] = Field(default_factory=list)
    operands: int | None = None  # inputs of the iterator where they are not the tensor arguments (glu: two halves)
    result: str | list[str] = "same"
    select: str | None = None
    iter: (
        Literal["unary", "unary_float", "unary_bool", "binary", "binary_float", "comparison", "nary", "where", "same"]
        | None
    ) = None
    kernel: str | None = None  # name of an earlier row whose kernels this one shares
    # multi-tensor operator: the pointwise row whose expressions it applies; `result: float` where integers become floats
    foreach: str | None = None
    # dispatch keys: that of dense tensors, or those of the sparse layouts and of nested tensors; each has functions of its own
    keys: list[Key] = ["XPU"]
    # rows with an adapter in bindings/aten
    impl: str | None = None
    native: str | None = None  # a function of at::native that touches no data and serves every device: a view
    # Register what torch itself registers alike for its CPU and CUDA under each key: functions that call operators only.
    shared: bool = False
    iterator: bool = False  # pass the structured TensorIterator as first argument
    overloads: list[str] = Field(default_factory=list)  # further overloads, each with a function of its own name
    leave: list[str] = Field(default_factory=list)  # overloads of the group that torch's own composite serves
    # An operator outside aten, `op: namespace::name`: the schemas of its overloads, the row's own first. Those of the
    # namespace xpu_ops are defined here. `composite` names the same in differentiable operators: it serves the CPU, and
    # calls that want gradients unless `autograd` names a function for those.
    schemas: list[str] = Field(default_factory=list)
    composite: str | None = None
    autograd: str | None = None
    autocast: bool = False  # casts its float arguments to the lower precision that autocast uses
    kernels: list[Kernel] = Field(default_factory=list)
    # The adapter is composed of differentiable operators, and torch has no formula: it has to run before autograd too.
    above_autograd: bool = False
    # how it is implemented, for the coverage report
    by: Literal["sycl", "onednn", "onemkl", "composite", "host"] = "sycl"
    deterministic: bool = True
    test: Test = Field(default_factory=Test)
    bench: dict[str, Any] = Field(default_factory=dict)
    note: str | None = None

    _types = field_validator("types", "steps")(_check_types)

    @model_validator(mode="after")
    def _declared(self) -> Row:
        namespace = self.op.rpartition("::")[0]
        if bool(namespace) != bool(self.schemas):
            raise ValueError("schemas: needed for operators outside aten, and only there")
        if (self.composite or self.autograd or self.autocast) and namespace != "xpu_ops":
            raise ValueError("composite, autograd, autocast: only for operators of the namespace xpu_ops")
        if namespace == "xpu_ops" and not self.composite:
            raise ValueError("composite: needed for an operator that is defined here")
        if self.shared and (self.pointwise or self.foreach or self.native or self.impl or self.schemas):
            raise ValueError("shared: needs no other implementation")
        if self.keys != ["XPU"] and (self.pointwise or self.foreach or self.iterator or self.schemas):
            raise ValueError("keys: only for rows with adapters or `shared`")
        return self

    @property
    def pointwise(self) -> bool:
        return self.expr is not None or self.kernel is not None


class Manifest(Strict):
    """One file: one family."""

    family: str
    kernels_per_module: int = 160  # fewer where kernels are long: a module is what one process compiles
    header: str | None = None  # device header; default <family>.hpp, pointwise.hpp where every row is pointwise
    rows: list[Row] = Field(default_factory=list)
    kernels: list[Kernel] = Field(default_factory=list)  # kernels that belong to no single row


def load_file(path: Path) -> Manifest:
    """Reads and checks one manifest file.

    Raises ManifestError naming file, row and field.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(path.read_text(), Loader=loader)
    except yaml.YAMLError as error:
        raise ManifestError(f"{path.name}: not YAML: {error}") from error
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        lines = []
        for item in error.errors():
            where = list(item["loc"])
            if len(where) > 1 and where[0] == "rows" and isinstance(where[1], int):
                row = data["rows"][where[1]]
                name = row.get("op", "?") if isinstance(row, dict) else "?"
                where = [f"row {where[1] + 1} ({name})", *where[2:]]
            lines.append(f"{path.name}: {': '.join(str(w) for w in where)}: {item['msg']}")
        raise ManifestError("\n".join(lines)) from error
    if manifest.family != path.stem:
        raise ManifestError(f"{path.name}: family: '{manifest.family}' differs from the file's name")
    return manifest


def load_dir(folder: Path) -> list[Manifest]:
    """Every manifest of a folder, by file name.

    Raises ManifestError, also where two rows name the same operator.
    """
    manifests = [load_file(p) for p in sorted(folder.glob("*.yaml"))]
    seen: dict[tuple[str, str], str] = {}
    for m in manifests:
        for row in m.rows:
            for op, key in product((row.op, *row.overloads), row.keys):
                if (op, key) in seen:
                    raise ManifestError(f"{m.family}.yaml: row {op}: op: also in {seen[op, key]}.yaml")
                seen[op, key] = m.family
    return manifests
