"""Writes device modules, kernel tables and the index from kernel name to module."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product

from . import foreach, sharing
from .model import Family, Owner, PointwiseKernel, split
from .schema import TEAM, Kernel
from .types import TYPES, ElementType, expand, slots


@dataclass(frozen=True)
class Instance:
    """One kernel of one name."""

    name: str
    text: str
    owner: Owner  # what decides the module
    fp64: bool
    host: str = ""  # the definition of the same for the calling thread
    form: str = ""  # of a pointwise kernel
    gpu: bool = False  # plans of a GPU alone choose it


# Of a pointwise kernel: the macro that it is declared by, and the header of pointwise_<form>.
FORMS = {
    "rows": ("XPU_KERNEL(2)", "elementwise/pointwise.hpp"),
    "steps": ("XPU_KERNEL_SINGLE_2", "cpu/pointwise_steps.hpp"),
    "fours": ("XPU_KERNEL(2)", "elementwise/pointwise_fours.hpp"),
}


def device_include(header: str) -> str:
    """The directive for a device header: `room/name.hpp`."""
    return f'#include "kernels/sycl/{header}"'


# Element types for which kernels that move fours take the functions of xpu::quick: f16 would show the errors of native
# functions, whose 14 bits are all that some devices give.
QUICK = ("bf16",)


def functor(kernel: PointwiseKernel, index: int, exprs: list[str]) -> str:
    computed = ", class M = opmath_t<T>" if kernel.stored else ""
    lines = [
        f"template <class T{computed}> struct {kernel.name}_f{index} {{",
        *([] if kernel.stored else ["  using M = opmath_t<T>;"]),
        f"  static constexpr int kIn = {len(kernel.inputs)}, kOut = {len(kernel.outputs)};",
        "  template <class X> [[gnu::always_inline]] static void run(const X& x) {",
    ]
    for i, operand in enumerate(kernel.inputs):
        letter = "abcdef"[i]
        lines.append(
            f"    [[maybe_unused]] const {operand.compute()} {letter} = "
            f"x.template in<{i}, {operand.device()}, {operand.compute()}>();"
        )
    kinds = {"compute": "M", "int64": "int64_t", "boolean": "bool", "lower": "M", "upper": "M"}
    for i, scalar in enumerate(kernel.scalars):
        kind = kinds[scalar.kind]
        lines.append(f"    [[maybe_unused]] const {kind} s{i} = x.template scalar<{i}, {kind}>();")
    for i, (operand, expr) in enumerate(zip(kernel.outputs, exprs, strict=True)):
        lines.append(f"    x.template out<{i}, {operand.device()}>({expr});")
    lines.append("  }")
    held = "".join(f" x.template hold<{i}, {o.device()}, {o.compute()}>();" for i, o in enumerate(kernel.inputs))
    lines.append(f"  template <class X> [[gnu::always_inline]] static void hold([[maybe_unused]] X& x) {{{held} }}")
    for verb, operands in (("read", kernel.inputs), ("write", kernel.outputs)) if kernel.fours else ():
        calls = "".join(f" x.template {verb}<{i}, {o.device()}>();" for i, o in enumerate(operands))
        lines.append(f"  template <class X> [[gnu::always_inline]] static void {verb}(const X& x) {{{calls} }}")
    lines.append("};")
    return "\n".join(lines)


def pointwise_module_parts(kernel: PointwiseKernel) -> tuple[list[str], list[Instance], dict[str, int]]:
    """Functors (by expression), and the kernels of every type."""
    by_expr: dict[tuple[str, ...], int] = {}
    instances, uses = [], {}
    for t in kernel.types:
        for form, types in kernel.forms.items():
            if t.name in types:
                exprs = kernel.exprs[t.name]
                if kernel.quick and form == "fours" and t.name in QUICK:
                    exprs = [e.replace("xpu::", "xpu::quick::") for e in exprs]
                index = by_expr.setdefault(tuple(exprs), len(by_expr))
                computed = ", bf16" if kernel.stored and form == "rows" and t.name == "bf16" else ""
                functor_type = f"{kernel.name}_f{index}<{sharing.device_type(kernel, t)}{computed}>"
                name = f"{kernel.name}_{t.name}_{form}"
                uses[name] = index
                macro = "XPU_KERNEL_SG(2, kByteVector)" if form == "rows" and kernel.of_bytes(t) else FORMS[form][0]
                text = f"{macro} {name}(PointwiseArgs p) {{ pointwise_{form}<{functor_type}>(p); }}"
                instances.append(Instance(name, text, Owner(kernel.name), t.fp64, form=form, gpu=form == "fours"))
    functors = [functor(kernel, i, list(e)) for e, i in by_expr.items()]
    return functors, instances, uses


def table_names(kernel: Kernel) -> list[tuple[str, str]]:
    """Table name and further template arguments, one a variant."""
    if not kernel.variants:
        return [(kernel.name, "")]
    return [(f"{kernel.name}_{suffix}", extra) for suffix, extra in kernel.variants.items()]


def type_tuples(kernel: Kernel) -> list[tuple[ElementType, ...]]:
    if kernel.pairs:
        return [tuple(TYPES[n] for n in pair) for pair in kernel.pairs]
    first = expand(kernel.types)
    if kernel.types2:
        return [(a, b) for a in first for b in expand(kernel.types2)]
    return [(t,) for t in first] if first else [()]


def custom_instances(kernel: Kernel) -> list[tuple[str, tuple[ElementType, ...], Instance]]:
    out = []
    for table, extra in table_names(kernel):
        for types in type_tuples(kernel):
            name = "_".join([table, *(t.name for t in types)])
            arguments = ", ".join([*(t.device for t in types), *([extra] if extra else [])])
            call = f"xpu::{kernel.name}<{arguments}>" if arguments else f"xpu::{kernel.name}"
            macro = (
                f"XPU_KERNEL_SG({kernel.dims}, {kernel.sub_group})"
                if kernel.sub_group
                else f"XPU_KERNEL_SINGLE_{kernel.dims}"
                if kernel.single
                else f"XPU_KERNEL({kernel.dims})"
            )
            if kernel.big:
                macro += " __attribute__((always_inline))"
            text = f"{macro} {name}(xpu_ops::{kernel.args} p) {{ {call}(p); }}"
            fp64 = kernel.fp64 or any(t.fp64 for t in types)
            on_host = ""
            if types and types[0].name in kernel.host and extra != TEAM:
                place = ", ".join([*(t.device for t in types), *([f"host::{extra}"] if extra else [])])
                on_host = (
                    f"XPU_OPS_VECTOR void host_{name}(const void* p, [[maybe_unused]] uint32_t groups) {{ "
                    f"host::{kernel.name}<{place}>(*static_cast<const {kernel.args}*>(p), groups); }}"
                )
            owner = Owner(table, types[0].name if types else "")
            out.append(
                (table, types, Instance(name, text, owner, fp64, on_host, gpu=kernel.gpu_plans or extra == TEAM))
            )
    return out


def module_name(stem: str, bits: str, fp64: bool) -> str:
    return "_".join([stem, *([bits] if bits else []), *(["fp64"] if fp64 else [])])


def modules_of(family: Family) -> dict[str, tuple[str, list[str]]]:
    """Module name -> source, kernel names."""
    shared = sharing.Sharing(family.own_pointwise)
    functors: dict[str, list[str]] = {}
    uses: dict[str, int] = {}
    pointwise: list[Instance] = []
    for op in family.operators:
        if op.row.kernel:
            continue
        for kernel in op.pointwise.values():
            functors[kernel.name], instances, used = pointwise_module_parts(kernel)
            uses |= used
            pointwise += [i for i in instances if shared.owner_of(i.name) == i.name]
    custom = [inst for k in family.kernels for _, _, inst in custom_instances(k)]
    result: dict[str, tuple[str, list[str]]] = {}
    for instances, gpu, fp64 in product((pointwise, custom), (False, True), (False, True)):
        group = [i for i in instances if (i.gpu, i.fp64) == (gpu, fp64)]
        parts = [family.name, *(["pw"] if instances is pointwise and custom else []), *(["gpu"] if gpu else [])]
        stem = "_".join(parts)
        for bits, owners in split(Counter(i.owner for i in group), family.manifest.kernels_per_module).items():
            members = [i for i in group if i.owner in owners]
            module = module_name(stem, bits, fp64)
            lines = ["// Generated from kernels/manifest; do not edit."]
            if any("f8e" in m.text for m in members):
                lines.append(device_include("core/float8.hpp"))
            if instances is pointwise:
                form = next((f for f in ("steps", "fours") if any(m.form == f for m in members)), "rows")
                texts = []
                for owner in owners:
                    wanted = {uses[m.name] for m in members if m.owner == owner}
                    texts += [text for i, text in enumerate(functors[owner.name]) if i in wanted]
                quick = [device_include("math/quick.hpp")] if any("xpu::quick::" in t for t in texts) else []
                lines += [device_include(FORMS[form][1]), *quick, "using namespace xpu;", *texts]
            else:
                lines += [device_include(family.manifest.header or ""), "using namespace xpu;"]
            lines += [m.text for m in members]
            result[module] = ("\n".join(lines) + "\n", [m.name for m in members])
    return result | foreach_modules(family)


def foreach_modules(family: Family) -> dict[str, tuple[str, list[str]]]:
    """Modules of multi-tensor kernels: the functors of pointwise rows under another access to memory."""
    result: dict[str, tuple[str, list[str]]] = {}
    for fp64 in (False, True):
        chosen = {k.name: [t for t in k.types if t.fp64 == fp64] for k in family.foreach}
        sizes = {Owner(name): len(types) for name, types in chosen.items() if types}
        for bits, owners in split(sizes, family.manifest.kernels_per_module).items():
            lines: list[str] = []
            names: list[str] = []
            for kernel in family.foreach:
                if Owner(kernel.name) not in owners:
                    continue
                types = chosen[kernel.name]
                functors, _, uses = pointwise_module_parts(kernel.base)
                used = {t.name: uses[f"{kernel.base.name}_{t.name}_rows"] for t in types}
                lines += [functors[i] for i in sorted(set(used.values()))]
                for t in types:
                    names.append(kernel.instance(t))
                    struct = f"{kernel.base.name}_f{used[t.name]}<{t.device}>"
                    lines.append(foreach.kernel_text(kernel, names[-1], struct))
            head = [
                "// Generated from kernels/manifest; do not edit.",
                device_include("elementwise/foreach.hpp"),
                "using namespace xpu;",
            ]
            module = module_name(f"{family.name}_op", bits, fp64)
            result[module] = ("\n".join([*head, *lines]) + "\n", names)
    return result


def tables_of(family: Family) -> tuple[str, str]:
    """Header and source of the family's kernel tables."""
    shared = sharing.Sharing(family.own_pointwise)
    declarations: list[str] = []
    defined: list[str] = []
    definitions: list[str] = []
    made: set[str] = set()  # kernels with a slot

    on_host = {inst.name for k in family.kernels for _, _, inst in custom_instances(k) if inst.host}
    defined_elsewhere = "\n".join(f"void host_{name}(const void*, uint32_t);" for name in sorted(on_host))

    def slot(name: str) -> str:
        return f'KernelSlot slot_{name}("{name}"{f", &host_{name}" if name in on_host else ""});'

    def table(name: str, label: str, members: dict[str, str], forms: str = "") -> None:
        declarations.append(f"extern const runtime::KernelTable {name};")
        defined.extend(slot(k) for k in dict.fromkeys(members.values()) if k not in made)
        made.update(members.values())
        entries = slots({t: f"&slot_{kernel}" for t, kernel in members.items()}, "nullptr")
        definitions.append(f"KernelSlot* const table_{name}[kDTypeSlots] = {{{entries}}};")
        definitions.append(f'}}\nconst runtime::KernelTable {name}{{"{label}", table_{name}{forms}}};\nnamespace {{')

    for op in family.operators:
        if op.row.kernel:
            continue
        for kernel in op.pointwise.values():
            others = [f"&{kernel.name}_{f}" if kernel.forms[f] else "nullptr" for f in ("steps", "fours")]
            for form, served in kernel.forms.items():
                if served:
                    owners = {t: shared.owner_of(f"{kernel.name}_{t}_{form}") for t in kernel.exprs if t in served}
                    table(f"{kernel.name}_{form}", kernel.name, owners, f", {', '.join(others)}" * (form == "rows"))
    for each in family.foreach:
        table(each.name, each.base.name, {t.name: each.instance(t) for t in each.types})
    for k in family.kernels:
        grouped: dict[str, list[tuple[tuple[ElementType, ...], Instance]]] = defaultdict(list)
        for name, types, inst in custom_instances(k):
            grouped[name].append((types, inst))
        for name, members in grouped.items():
            label = k.label or name
            arity = len(members[0][0])
            if arity == 0:
                declarations.append(f"extern runtime::KernelSlot {name};")
                definitions.append(f'}}\nruntime::KernelSlot {name}("{members[0][1].name}");\nnamespace {{')
            elif arity == 1:
                table(name, label, {types[0].name: inst.name for types, inst in members})
            else:
                declarations.append(f"extern const runtime::KernelTable2 {name};")
                defined.extend(slot(inst.name) for _, inst in members)
                entries = ", ".join(
                    f"{{DType::{types[0].name}, DType::{types[1].name}, &slot_{inst.name}}}" for types, inst in members
                )
                definitions.append(f"const runtime::KernelTable2::Entry table_{name}[] = {{{entries}}};")
                definitions.append(
                    f'}}\nconst runtime::KernelTable2 {name}{{"{label}", table_{name}, {len(members)}}};\nnamespace {{'
                )
    declarations += [f"extern const host::Kernel {k.name}_inline[kDTypeSlots];" for k in family.own_pointwise]
    head = "// Generated from kernels/manifest; do not edit.\n"
    header = (
        head + '#pragma once\n#include "kernels/host/table.hpp"\n#include "kernels/runtime/module/module.hpp"\n\nnamespace xpu_ops::kernels {\n' + "\n".join(declarations)
        + "\n}  // namespace xpu_ops::kernels\n"
    )  # fmt: skip
    source = (
        head + f'#include "gen/kernels/{family.name}_kernels.hpp"\n\nnamespace xpu_ops::kernels {{\n{defined_elsewhere}\nnamespace {{\n'
        "using runtime::KernelSlot;\n" + "\n".join(defined) + "\n" + "\n".join(definitions)
        + "\n}  // namespace\n}  // namespace xpu_ops::kernels\n"
    )  # fmt: skip
    return header, source


def index_source(index: dict[str, str]) -> str:
    """The sorted index from kernel name to module name."""
    rows = "\n".join(f'    {{"{name}", "{module}"}},' for name, module in sorted(index.items()))
    return (
        "// Generated from kernels/manifest; do not edit.\n"
        '#include "kernels/runtime/module/kernel_index.hpp"\n\nnamespace xpu_ops::runtime {\n'
        f"const KernelIndexEntry kKernelIndex[] = {{\n{rows}\n    {{nullptr, nullptr}},\n}};\n"
        f"const size_t kKernelIndexSize = {len(index)};\n}}  // namespace xpu_ops::runtime\n"
    )
