"""The manifest joined with torch's declarations: what the writers work from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torchgen.model import DeviceCheckType, FunctionSchema, NativeFunctionsGroup, SchemaKind

from tools.torch_release import serves

from .schema import Expr, Kernel, Key, Manifest, ManifestError, Row, load_dir
from .torch_ops import Arg, Declared, Overload, StructuredGroup, Torch
from .types import TYPES, ElementType, expand

OPERANDS = "abcdef"
# of the names of adapters and wrappers, by dispatch key
PREFIXES: dict[Key, str] = {
    "XPU": "", "SparseXPU": "sparse_", "SparseCsrXPU": "sparse_csr_", "NestedTensorXPU": "nested_",
    "QuantizedXPU": "quantized_",
}  # fmt: skip


# Element types of which a GPU moves four per load (kernels/sycl/elementwise/pointwise_fours.hpp).
FOURS = frozenset({"f16", "bf16", "f32"})


@dataclass(frozen=True)
class Operand:
    """One operand of a pointwise kernel: 'T' (common), 'R' (its real type), 'C' (its complex type) or a fixed one."""

    kind: str

    def device(self) -> str:
        return {"T": "T", "R": "real_t<T>", "C": "cplx<T>"}.get(self.kind) or TYPES[self.kind].device

    def compute(self) -> str:
        return {"T": "M", "R": "real_t<M>", "C": "cplx<M>"}.get(self.kind) or f"opmath_t<{TYPES[self.kind].device}>"

    def host(self) -> str:
        if self.kind in ("T", "R", "C"):
            return {"T": "kCommon", "R": "kReal", "C": "kComplex"}[self.kind]
        return f"static_cast<int8_t>(DType::{self.kind})"


@dataclass(frozen=True)
class ScalarSpec:
    """A non-tensor argument as the manifest writes it: name[:kind][=default of a None]."""

    name: str
    kind: str  # compute | int64 | boolean | lower | upper: a bound of clamp
    default: str | None


@dataclass(frozen=True)
class PointwiseKernel:
    """One expression set of a row; `name` is the stem of its kernels' names."""

    name: str
    inputs: list[Operand]
    outputs: list[Operand]
    scalars: list[ScalarSpec]
    exprs: dict[str, list[str]]  # element type -> one expression per output
    steps: frozenset[str] = frozenset()  # element types with a kernel for operands that step through memory
    fours: frozenset[str] = frozenset()  # element types with a kernel that moves four elements per load
    quick: bool = False  # of these, bf16 is computed by xpu::quick
    stored: bool = False  # rows of bf16 are computed in bf16
    exact: bool = False  # a number as second operand is not rounded

    @property
    def types(self) -> list[ElementType]:
        return [TYPES[t] for t in self.exprs]

    def of_bytes(self, t: ElementType) -> bool:
        """Whether every operand's element is a byte."""
        sizes = [
            t.size if o.kind in ("T", "R") else 2 * t.size if o.kind == "C" else TYPES[o.kind].size
            for o in [*self.inputs, *self.outputs]
        ]
        return all(size == 1 for size in sizes)

    @property
    def forms(self) -> dict[str, frozenset[str]]:
        """The element types that each way through memory has a kernel for."""
        return {"rows": frozenset(self.exprs), "steps": self.steps, "fours": self.fours}


@dataclass(frozen=True)
class ForeachKernel:
    """The expressions of a pointwise row as a multi-tensor kernel."""

    base: PointwiseKernel
    types: list[ElementType]

    @property
    def name(self) -> str:
        return f"foreach_{self.base.name}"

    @property
    def args(self) -> str:
        return f"ForeachArgs<{1 + len(self.base.inputs)}>"

    def instance(self, t: ElementType) -> str:
        return f"{self.name}_{t.name}"


@dataclass
class Operator:
    """One manifest row with the overloads it registers."""

    family: str
    row: Row
    overloads: list[Overload]
    structured: StructuredGroup | None
    key: Key = "XPU"
    pointwise: dict[str, PointwiseKernel] = field(default_factory=dict)  # by select value; "" where there is none
    kernel_family: str = ""  # whose kernels a row with `kernel:` shares
    foreach: ForeachKernel | None = None
    composite: dict[str, str] = field(default_factory=dict)  # foreach overload -> torch's own composition of it

    @property
    def name(self) -> str:
        return self.row.op

    @property
    def cpp_name(self) -> str:
        return self.row.op.replace(".", "_").replace("::", "_")


@dataclass
class Family:
    """One manifest file."""

    name: str
    manifest: Manifest
    operators: list[Operator]

    @property
    def kernels(self) -> list[Kernel]:
        return [k for row in self.manifest.rows for k in row.kernels] + self.manifest.kernels

    @property
    def foreach(self) -> list[ForeachKernel]:
        """Multi-tensor kernels, each once: several rows may use one."""
        return list({o.foreach.name: o.foreach for o in self.operators if o.foreach}.values())

    @property
    def own_pointwise(self) -> list[PointwiseKernel]:
        """Pointwise kernels with expressions in this family."""
        return [k for o in self.operators if not o.row.kernel for k in o.pointwise.values()]


def shard(name: str, count: int) -> int:
    """A stable bucket for a name: adding a row does not move the others."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") % count


@dataclass(frozen=True)
class Owner:
    """Kernels that stay together: those of one name and, where kernels of one type are used together, of one type."""

    name: str
    type: str = ""

    @cached_property
    def bits(self) -> str:
        """Owners that begin with the same bits stand together: first those of one type."""
        if not self.type:
            return f"{shard(self.name, 2**32):032b}"
        return f"{list(TYPES).index(self.type):05b}{shard(self.name, 2**27):027b}"


def split(sizes: Mapping[Owner, int], most: int) -> dict[str, list[Owner]]:
    """Groups of owners with at most `most` kernels each where an owner has no more, by the bits that they begin with.

    A group that grows too large becomes two, and the others stay as they are.
    """
    result: dict[str, list[Owner]] = {}
    waiting = [("", list(sizes))] if sizes else []
    while waiting:
        prefix, owners = waiting.pop()
        if len(owners) < 2 or sum(sizes[o] for o in owners) <= most or len(prefix) == 32:
            result[prefix] = owners
            continue
        halves = {prefix + bit: [o for o in owners if o.bits.startswith(prefix + bit)] for bit in "01"}
        waiting += [(p, members) for p, members in halves.items() if members]
    return dict(sorted(result.items()))


def pow2_shards(items: int, per_shard: int) -> int:
    """The number of shards, a power of two so that it rarely changes."""
    n = 1
    while n * per_shard < items:
        n *= 2
    return n


class Builder:
    """Resolves rows; every error names file, row and field."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch

    def fail(self, family: str, row: Row, field_name: str, text: str) -> ManifestError:
        return ManifestError(f"{family}.yaml: row {row.op}: {field_name}: {text}")

    def build(self, folder: Path) -> list[Family]:
        families = []
        for manifest in load_dir(folder):
            own = manifest.library is not None
            manifest.rows = [row for row in manifest.rows if self.serves(manifest.family, row)]
            operators = [self.operator(manifest.family, row, key, own) for row in manifest.rows for key in row.keys]
            families.append(Family(manifest.family, manifest, operators))
        by_row = {o.name: o for f in families for o in f.operators if o.key == "XPU"}
        for f in families:
            for o in f.operators:
                if o.row.kernel:
                    if o.row.kernel not in by_row or not by_row[o.row.kernel].pointwise:
                        raise self.fail(f.name, o.row, "kernel", f"no pointwise row '{o.row.kernel}'")
                    o.pointwise = by_row[o.row.kernel].pointwise
                    o.kernel_family = by_row[o.row.kernel].family
                if o.row.foreach:
                    o.foreach = self.foreach(f.name, o.row, by_row)
                    o.composite = {x.name: self.torch.composite_kernel(x.fn) for x in o.overloads}
        self.check_unique(families)
        return families

    def serves(self, family: str, row: Row) -> bool:
        """Whether the row is for this torch: it says so, and torch has the operators or has them not, as the row says."""
        meant = serves(row.torch, self.torch.series)
        if not meant and any(name in self.torch.functions for name in (row.op, *row.overloads)):
            raise self.fail(family, row, "torch", f"{row.torch}, but torch {self.torch.series} has the operator")
        return meant

    def foreach(self, family: str, row: Row, by_row: dict[str, Operator]) -> ForeachKernel:
        base = by_row[row.foreach].pointwise.get("") if row.foreach in by_row else None
        if base is None or by_row[row.foreach or ""].row.kernel:
            raise self.fail(family, row, "foreach", f"no pointwise row '{row.foreach}' with an expression of its own")
        wanted = [t for t in expand(row.types or ["float", "complex"]) if t.name in base.exprs]
        same = {"T"} if any("complex" in t.groups for t in wanted) else {"T", "R"}
        if {x.kind for x in [*base.inputs, *base.outputs]} - same or len(base.outputs) != 1 or len(base.scalars) > 1:
            raise self.fail(family, row, "foreach", "needs operands of one type, one result and at most one scalar")
        return ForeachKernel(base, wanted)

    def check_unique(self, families: list[Family]) -> None:
        seen: dict[str, str] = {}
        names = [(f.name, k.name) for f in families for k in f.kernels]
        names += [
            (f.name, k.name) for f in families for o in f.operators if not o.row.kernel for k in o.pointwise.values()
        ]
        names += [(f.name, k.name) for f in families for k in f.foreach]
        for family, name in names:
            if name in seen:
                raise ManifestError(f"{family}.yaml: kernel {name}: also in {seen[name]}.yaml")
            seen[name] = family

    def declared(self, family: str, row: Row, library: bool) -> Operator:
        """A row whose schemas the manifest gives."""
        namespace, _, name = row.op.partition("::")
        # torch's own operators take scales and zero points from anywhere
        check = DeviceCheckType.ExactSame if library or namespace == "xpu_ops" else DeviceCheckType.NoCheck
        overloads = []
        for text in row.schemas:
            try:
                overloads.append(Overload(Declared(namespace, FunctionSchema.parse(text), check)))
            except (AssertionError, RuntimeError, ValueError) as error:
                raise self.fail(family, row, "schemas", f"{text}: {error}") from error
        if overloads[0].base_name != name:
            raise self.fail(family, row, "schemas", f"the first has to be that of {name}")
        op = Operator(family, row, overloads, None)
        if row.expr is not None:
            if row.impl is None or row.operands is None:
                raise self.fail(family, row, "expr", "outside aten it needs `impl` and `operands`")
            op.pointwise = self.pointwise(family, row, overloads[0])
        return op

    def shared(self, family: str, row: Row, key: Key) -> Operator:
        """A row of torch's own functions: those of the whole group that torch gives to both its devices."""
        group = self.torch.groups.get(row.op)
        members = list(group.functions()) if group is not None else [self.torch.function(row.op)]
        names = [(f, self.torch.shared_kernel(f, key)) for f in members]
        overloads = [Overload(f, PREFIXES[key], name) for f, name in names if name is not None]
        if not overloads:
            raise self.fail(family, row, "shared", f"torch has no function for both its devices where xpu has {key}")
        return Operator(family, row, overloads, None, key)

    def operator(self, family: str, row: Row, key: Key, library: bool = False) -> Operator:
        if row.schemas:
            return self.declared(family, row, library)
        for name in (row.op, *row.overloads):
            if name not in self.torch.functions:
                field_name = "op" if name == row.op else "overloads"
                raise self.fail(
                    family, row, field_name, f"the installed torch has no such operator or overload: {name}"
                )
        if row.shared:
            return self.shared(family, row, key)
        if key != "XPU":
            named = [Overload(self.torch.function(n), PREFIXES[key]) for n in (row.op, *row.overloads)]
            return Operator(family, row, named, None, key)
        fn = self.torch.function(row.op)
        group = self.torch.groups.get(row.op)
        structured = StructuredGroup(group) if group is not None and group.structured and row.meta else None
        if structured is not None and row.iter is None:
            overloads = [Overload(f) for f in structured.group.functions()]
        elif row.pointwise:
            structured = None
            members = list(group.functions()) if isinstance(group, NativeFunctionsGroup) else [fn]
            # A CompositeImplicit overload decomposes before dispatch to xpu unless torch itself overrides it for CPU.
            chosen = [f for f in members if not f.has_composite_implicit_autograd_kernel or self.torch.has_kernel(f)]
            overloads = [Overload(f) for f in chosen if "generated" not in f.tags]
            if not overloads:
                raise self.fail(family, row, "op", "torch composes it from other operators: it needs no row")
        else:
            structured = None
            overloads = [Overload(fn)]
        if row.foreach and not row.overloads:
            base = str(fn.func.name.name.base)
            members = [f for f in self.torch.functions.values() if str(f.func.name.name.base) == base]
            overloads = [Overload(f) for f in members if "generated" not in f.tags]
        overloads += [Overload(self.torch.function(n)) for n in row.overloads if n not in {o.name for o in overloads}]
        op = Operator(family, row, overloads, structured)
        if row.pointwise:
            if structured is not None and not structured.is_iterator and row.impl is None:
                raise self.fail(family, row, "expr", "its meta builds no TensorIterator: name one with `iter`")
            if structured is None and row.iter is None and row.impl is None:
                raise self.fail(
                    family, row, "iter", "needed: torch does not describe this operator by a structured meta"
                )
            if row.impl is not None and structured is not None and structured.is_iterator and not row.iterator:
                raise self.fail(family, row, "impl", "the adapter of a structured pointwise row needs `iterator: true`")
            optional = any(a.is_optional_tensor for a in self.tensor_args(overloads[0]))
            if optional and row.impl is None:
                raise self.fail(
                    family, row, "impl", "an optional tensor argument needs an adapter that chooses the kernel"
                )
            if row.expr is not None:
                op.pointwise = self.pointwise(family, row, overloads[0])
        return op

    def tensor_args(self, overload: Overload) -> list[Arg]:
        return [a for a in overload.args if (a.is_tensor or a.is_optional_tensor) and not a.is_out]

    def pointwise(self, family: str, row: Row, overload: Overload) -> dict[str, PointwiseKernel]:
        args = self.tensor_args(overload)
        inputs = []
        for a in args:
            kind = row.inputs.get(a.name, "T")
            if kind == "bool":
                kind = "b8"
            if kind not in ("T", "R", "C") and kind not in TYPES:
                raise self.fail(family, row, "inputs", f"unknown element type '{kind}'")
            inputs.append(Operand(kind))
        if row.operands is not None:
            inputs = [Operand("T")] * row.operands
        unknown = set(row.inputs) - {a.name for a in args}
        if unknown:
            raise self.fail(family, row, "inputs", f"no tensor argument {sorted(unknown)}")
        results = [row.result] if isinstance(row.result, str) else row.result
        names = {"same": "T", "bool": "b8", "value": "R", "complex": "C"}
        outputs = []
        for r in results:
            kind = names.get(r, r)
            if kind not in ("T", "R", "C") and kind not in TYPES:
                raise self.fail(family, row, "result", f"unknown result '{r}'")
            outputs.append(Operand(kind))
        arg_names = {a.name for a in overload.args}
        scalars = []
        for item in row.scalars:
            spec, _, default = item.partition("=")
            name, _, kind = spec.partition(":")
            if name not in arg_names:
                raise self.fail(family, row, "scalars", f"no argument '{name}'")
            kinds = {"": "compute", "double": "compute", "int64": "int64", "bool": "boolean"}
            kinds |= {"lower": "lower", "upper": "upper"}
            if kind not in kinds:
                raise self.fail(family, row, "scalars", f"unknown kind '{kind}'")
            scalars.append(ScalarSpec(name, kinds[kind], default or None))
        if isinstance(row.expr, dict) and "select" in row.expr:
            if row.select is None or row.select not in arg_names:
                raise self.fail(family, row, "select", f"no argument '{row.select}'")
            variants = row.expr["select"]
            if not isinstance(variants, dict):
                raise self.fail(family, row, "expr", "select needs one expression for each value")
            named: dict[str, tuple[str, object]] = {
                key: (kernel_stem(row) + "_" + key, value) for key, value in variants.items()
            }
        else:
            named = {"": (kernel_stem(row), row.expr)}
        result: dict[str, PointwiseKernel] = {}
        for key, (name, expr) in named.items():
            exprs = {}
            for t in expand(row.types):
                chosen = self.choose(expr, t)
                if chosen is None:
                    if key:  # a variant may leave out types that its meta never hands it
                        continue
                    raise self.fail(family, row, "expr", f"no expression for {t.name}")
                exprs[t.name] = [chosen] if isinstance(chosen, str) else list(chosen)
                if len(exprs[t.name]) != len(outputs):
                    raise self.fail(family, row, "expr", f"{len(outputs)} results need as many expressions")
            steps = frozenset(t.name for t in expand(row.steps)) & exprs.keys()
            if steps and any(o.kind != "T" for o in [*inputs, *outputs]):
                raise self.fail(family, row, "steps", "needs operands and results of the common type")
            result[key] = PointwiseKernel(
                name, inputs, outputs, scalars, exprs, steps, FOURS & exprs.keys(), row.quick, row.stored, row.exact
            )
        return result

    def choose(self, expr: object, t: ElementType) -> Expr | None:
        """The most specific expression for a type: its name, its groups, `default`."""
        if isinstance(expr, (str, list)):
            return expr
        if isinstance(expr, dict):
            for key in (t.name, *t.groups, "default"):
                if key in expr:
                    value = expr[key]
                    return value if isinstance(value, (str, list)) else str(value)
        return None


def kernel_stem(row: Row) -> str:
    """The start of the names of a pointwise row's kernels."""
    return row.op.replace("xpu_ops::_", "").replace("::", "_").replace(".", "_")


def functional_of(op: Operator) -> Overload:
    """The overload whose arguments tests and benchmarks call."""
    for o in op.overloads:
        if o.kind == SchemaKind.functional:
            return o
    return op.overloads[0]
