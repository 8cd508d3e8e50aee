"""The manifest's schema. Errors name file, row and field."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tools.torch_release import serves

from .types import GROUPS, TYPES

Expr = str | list[str]
Key = Literal["XPU", "SparseXPU", "SparseCsrXPU", "NestedTensorXPU", "QuantizedXPU"]


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

    domain: list[float] | dict[str, list[float]] | None = Field(
        default=None, description="lowest and highest value of drawn inputs; by argument where they differ"
    )
    tol: dict[str, list[float]] = Field(
        default_factory=dict, description="`[rtol, atol]` by element type, where the default is too close"
    )
    sample: dict[str, Any] = Field(default_factory=dict, description="values of arguments that are not tensors")
    args: dict[str, Any] = Field(
        default_factory=dict, description="how `tests/ops/test_rows.py` draws a tensor argument; see the kinds below"
    )
    skip_types: list[str] = Field(default_factory=list, description="element types that are not drawn")
    note: str | None = Field(default=None, description="why the row is drawn so")


TEAM = "Shared"  # the variant of a reduction that the calling thread has no loop for


class Kernel(Strict):
    """A device function template `xpu::<name>` and the element types it is instantiated with."""

    name: str = Field(description="the function template, and the start of the names of its kernels")
    args: str = Field(default="", description="the struct that host and device share, in namespace `xpu_ops`; needed")
    reduction: bool = Field(
        default=False,
        description="three kernels over one functor: `row`, `col`, `final` (`kernels/sycl/reduce/reduction.hpp`); sets `args` and `sub_group`",
    )
    sub_group: int | None = Field(default=None, description="sub-group size that the kernel is written for")
    single: bool = Field(
        default=False, description="work-groups are one item, which computes in vectors of its own; for a CPU device"
    )
    cpu_plans: bool = Field(
        default=False, description="plans of a CPU device alone choose it (a reduction's `row` is such a kernel)"
    )
    gpu_plans: bool = Field(
        default=False,
        description="plans of a GPU alone choose it (a reduction's `team` is such a kernel): it is in a module of such kernels, of which a build makes no native code",
    )
    dims: Literal[1, 2, 3] = Field(default=1, description="dimensions of the launch")
    types: list[str] = Field(
        default_factory=list, description="element types, one kernel each; none: one untyped kernel"
    )
    types2: list[str] = Field(default_factory=list, description="second type parameter: every pair has a kernel")
    pairs: list[list[str]] = Field(default_factory=list, description="these pairs of types only, instead of `types2`")
    variants: dict[str, str] = Field(
        default_factory=dict, description="suffix of the name -> further template arguments"
    )
    host: list[str] = Field(
        default_factory=list,
        description="element types (of pairs the first) that `kernels/host/<family>.hpp` computes inline too, bit for bit",
    )
    label: str | None = Field(
        default=None, description="operator that the error for a missing type names; default the kernel's name"
    )
    fp64: bool = Field(default=False, description="true for an untyped kernel that computes in double")
    big: bool = Field(
        default=False, description="inlined into its wrapper by force; for a kernel that the compiler finds too big"
    )

    _types = field_validator("types", "types2", "host")(_check_types)

    @model_validator(mode="after")
    def _complete(self) -> Kernel:
        if self.reduction:
            self.args, self.sub_group = "ReductionArgs", 16
            self.variants = {"row": "Row", "col": "Col", "final": "Final", "team": TEAM}
        if not self.args:
            raise ValueError("args: needed")
        return self


class Row(Strict):
    """One operator group."""

    op: str = Field(
        description="an overload of the group in native_functions.yaml, or `namespace::name`; a pointwise row and a structured one register all overloads of the group"
    )
    # pointwise rows
    expr: Expr | dict[str, Expr] | dict[str, dict[str, Expr | dict[str, Expr]]] | None = Field(
        default=None,
        description="expression over operands `a`, `b`, `c` ... and scalars `s0`, `s1` ...: one, one by type or group, a list (one per output), or `{select: ...}`",
    )
    types: list[str] = Field(default_factory=list, description="element types and groups that have a kernel")
    scalars: list[str] = Field(
        default_factory=list,
        description="non-tensor arguments passed as `s0`, `s1` ... in the compute type; `n:int64` forces a type, `n:lower` and `n:upper` are bounds as those of clamp, `max=inf` names what None stands for (a number, `inf`, `-inf`, `max`, `lowest`)",
    )
    inputs: dict[str, str] = Field(
        default_factory=dict, description="element type of a tensor argument that is not the common type"
    )
    steps: list[str] = Field(
        default_factory=list,
        description="element types with a second kernel for operands that step through memory; others are copied to rows first",
    )
    quick: bool = Field(
        default=False,
        description="bfloat16 that is moved by fours is computed by the functions of the same name in `xpu::quick` (kernels/sycl/math/quick.hpp)",
    )
    stored: bool = Field(
        default=False,
        description="results are operands or zero: rows of bfloat16 are computed as they are stored, without rounding",
    )
    exact: bool = Field(
        default=False,
        description="a number as second operand keeps its digits beside smaller floats, as on the CPU; others are rounded to the type",
    )
    direct: list[str] | None = Field(
        default=None,
        description="the operands in the iterator's order, where torch's meta refuses none of the row's numbers beside operands of one type: small dense work is done before it is asked. Rows without numbers need none, and an empty list where the meta refuses types that would promote",
    )
    operands: int | None = Field(
        default=None, description="number of operands where they are not the tensor arguments (`glu`: two halves)"
    )
    result: str | list[str] = Field(
        default="same",
        description="type of the outputs: `same`, `bool`, `value` (real type of a complex input), an element type, or a list",
    )
    select: str | None = Field(
        default=None, description="string or bool argument that chooses the expression; `null` is None"
    )
    iter: (
        Literal["unary", "unary_float", "unary_bool", "binary", "binary_float", "comparison", "nary", "where", "same"]
        | None
    ) = Field(
        default=None,
        description="how inputs promote, where torch has no structured meta that says it; `*_float`: integers become float, `where` and `same`: no promotion",
    )
    kernel: str | None = Field(
        default=None,
        description="an earlier row whose kernels this one shares; a Scalar in the place of a tensor becomes an operand",
    )
    foreach: str | None = Field(
        default=None,
        description="multi-tensor operator: the pointwise row that it applies; `result: float` where integers become floats",
    )
    keys: list[Key] = Field(
        default=["XPU"],
        description="dispatch keys: `XPU` (dense), those of the sparse layouts, of nested and of quantized tensors; each has functions of its own",
    )
    # rows with an adapter in bindings/aten
    impl: str | None = Field(
        default=None, description="name of the adapter; default the operator's name with `.` and `::` as `_`"
    )
    native: str | None = Field(
        default=None, description="function of `at::native` that touches no data and serves every device: a view"
    )
    shared: bool = Field(
        default=False,
        description="register the function that torch registers for both CPU and CUDA under the key: it calls operators only",
    )
    apart: list[str] = Field(
        default_factory=list,
        description="outputs of a structured row that may not partly overlap with its tensors, as on the CPU; an iterator sees to it itself",
    )
    refuses: dict[str, str] = Field(
        default_factory=dict,
        description="element type -> text of torch's error for it, where torch has one; for rows with `iter`",
    )
    iterator: bool = Field(default=False, description="pass the structured TensorIterator as first argument")
    overloads: list[str] = Field(default_factory=list, description="further overloads, each with an adapter of its own")
    schemas: list[str] = Field(
        default_factory=list, description="outside aten only: the schemas of the overloads, the row's own first"
    )
    composite: str | None = Field(
        default=None,
        description="namespace `xpu_ops` only: the same in differentiable operators, for the CPU and for gradients",
    )
    autograd: str | None = Field(
        default=None,
        description="the function for calls that want gradients, where torch has no formula; outside of `xpu_ops` without overload names",
    )
    tangents: str | None = Field(
        default=None,
        description="the function for calls that carry forward derivatives, of which torch's formula has none; in differentiable operators, without overload names",
    )
    autocast: bool = Field(
        default=False, description="namespace `xpu_ops` only: casts float arguments as torch's matmul does"
    )
    kernels: list[Kernel] = Field(default_factory=list, description="the kernels that the adapter launches; see below")
    above_autograd: bool = Field(
        default=False,
        description="registers the adapter for AutogradXPU too: torch has no formula, and it is differentiable itself; with `NestedTensorXPU` for AutogradNestedTensor, where the adapter gets tensors of any device",
    )
    anywhere: list[str] = Field(
        default_factory=list, description="tensor arguments that may lie on another device than the others"
    )
    by: Literal["sycl", "onednn", "onemkl", "composite", "host"] = Field(
        default="sycl", description="what implements it, for the coverage report"
    )
    deterministic: bool = Field(default=True, description="false where two calls differ, as draws of random numbers do")
    test: Test = Field(default_factory=Test, description="how the generic tests call it; see below")
    torch: str | None = Field(
        default=None,
        description="the releases of torch that have the operators, such as `<2.14` or `>=2.15`; the row is left out for others, and an error where that is not so",
    )
    meta: bool = Field(
        default=True,
        description="false: the adapters have the dispatcher's signatures, also where a release of torch has a structured meta",
    )
    note: str | None = Field(default=None, description="for the reader: what a stranger would stumble over")

    _types = field_validator("types", "steps")(_check_types)

    @model_validator(mode="after")
    def _declared(self) -> Row:
        namespace = self.op.rpartition("::")[0]
        if bool(namespace) != bool(self.schemas):
            raise ValueError("schemas: needed for operators outside aten, and only there")
        if (self.composite or self.autocast) and namespace != "xpu_ops":
            raise ValueError("composite, autocast: only for operators of the namespace xpu_ops")
        if namespace == "xpu_ops" and not self.composite:
            raise ValueError("composite: needed for an operator that is defined here")
        if self.tangents and (self.autograd or self.above_autograd or namespace == "xpu_ops"):
            raise ValueError("tangents: only beside a formula of torch")
        if self.shared and (self.pointwise or self.foreach or self.native or self.impl or self.schemas):
            raise ValueError("shared: needs no other implementation")
        if self.keys != ["XPU"] and (self.pointwise or self.foreach or self.iterator or self.schemas):
            raise ValueError("keys: only for rows with adapters or `shared`")
        return self

    @model_validator(mode="after")
    def _modules_are_the_same(self) -> Row:
        if self.torch and (self.kernels or self.pointwise):
            raise ValueError(
                "torch: not for a row with kernels; device modules are the same for every torch: list them under the file's `kernels`"
            )
        return self

    @field_validator("torch")
    @classmethod
    def _releases(cls, text: str | None) -> str | None:
        serves(text, "0.0")
        return text

    @property
    def pointwise(self) -> bool:
        return self.expr is not None or self.kernel is not None


class Library(Strict):
    """A library outside torch whose operators the rows implement."""

    name: str = Field(description="its namespace; every row of the file is in it")
    python_module: str = Field(description="the module of the library that registers its fake functions")
    defines: list[str] = Field(
        default_factory=list, description="schemas that its Python code names and no row implements"
    )


class Manifest(Strict):
    """One file: one family."""

    family: str = Field(description="the file's name")
    kernels_per_module: int = Field(
        default=20,
        description="at most, unless one table has more; fewer where kernels are long: the first call of one loads its module",
    )
    header: str | None = Field(
        default=None,
        description="device header of its kernels that no expression gives: room and name below `kernels/sycl`",
    )
    library: Library | None = Field(
        default=None,
        description="the library outside torch that the operators belong to; its schemas are defined where its own binary does not load",
    )
    rows: list[Row] = Field(default_factory=list, description="one per operator group")
    kernels: list[Kernel] = Field(default_factory=list, description="kernels that belong to no single row")

    @model_validator(mode="after")
    def _kernels_have_a_header(self) -> Manifest:
        if self.header is None and (self.kernels or any(r.kernels for r in self.rows)):
            raise ValueError("header: kernels of the file have none")
        return self

    @model_validator(mode="after")
    def _one_library(self) -> Manifest:
        strangers = [r.op for r in self.rows if self.library and r.op.partition("::")[0] != self.library.name]
        if strangers:
            raise ValueError(f"library: rows of another namespace: {', '.join(strangers)}")
        return self


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
