"""Writes the dispatcher registrations: structured classes, iterators, wrappers around adapters."""

from __future__ import annotations

from torchgen.model import SchemaKind

from . import foreach
from .host import any_here
from .model import Family, Operator, PointwiseKernel, pow2_shards, shard
from .schema import Library
from .torch_ops import Arg, Overload
from .types import TYPES

OPERATORS_PER_FILE = 24
# Defaults of None scalars; an infinity becomes the integer type's limit.
CONSTANTS = {"inf": "std::numeric_limits<double>::infinity()", "-inf": "-std::numeric_limits<double>::infinity()"}

LIST_REF = "const at::ITensorListRef &"
LIMITS = {"max": "highest", "lowest": "lowest"}


def signature(o: Overload, name: str) -> str:
    return f"{o.return_type} {name}({', '.join(f'{a.ctype} {a.name}' for a in o.args)})"


def convert(arg: Arg, target: str) -> str:
    """A dispatcher argument as the type a structured meta takes."""
    if "OptionalScalarRef" in target:
        return f"({arg.name}.has_value() ? at::OptionalScalarRef(&*{arg.name}) : at::OptionalScalarRef())"
    if "OptionalTensorRef" in target:
        return f"({arg.name}.has_value() && {arg.name}->defined() ? at::OptionalTensorRef(*{arg.name}) : at::OptionalTensorRef())"
    return arg.name


def guarded(body: list[str], o: Overload, op: Operator) -> list[str]:
    """The device guard and, where torch asks for it, the common-device check around a body."""
    tensors = [a for a in o.args if a.tensor_like]
    device = [a for a in o.args if a.name == "device" and "Device" in a.ctype]
    lines = []
    # torch does not check operators that it composes before autograd: the operators below do.
    if not op.row.above_autograd and str(o.fn.device_check).endswith("ExactSame") and len(tensors) > 1:
        lines.append("std::optional<at::Device> common;")
        lines += [
            f'c10::impl::check_and_update_common_device(common, {a.name}, "wrapper_XPU_{o.cpp_name}", "{a.name}");'
            for a in tensors
            if a.name not in op.row.anywhere
        ]
    if any("Generator" in a.ctype for a in o.args) and tensors and "Tensor &" in tensors[0].ctype:
        # A generator's device takes part in dispatch: a CPU tensor can arrive here.
        lines.append(f"check_generator_device({tensors[0].name});")
    names = ", ".join(a.name for a in [*tensors, *device])
    if names:
        lines.append(f"const CallGuard guard({names});")
    return ["try {", *[f"  {x}" for x in [*lines, *body]], "} catch (const Error& e) {", "  rethrow(e);", "}"]


def returned(o: Overload, names: list[str]) -> str:
    if o.return_type == "void":
        return ""
    if len(names) == 1:
        return f"return {names[0]};"
    return f"return {o.return_type}({', '.join(names)});"


def pointwise_op_name(kernel: PointwiseKernel) -> str:
    return f"k_{kernel.name}"


def pointwise_op(kernel: PointwiseKernel) -> str:
    types = [x.host() for x in [*kernel.outputs, *kernel.inputs]]
    types += ["kCommon"] * (6 - len(types))
    tables = ", ".join(f"kernels::{kernel.name}_{layout}" for layout in ("rows", "inline"))
    return (
        f'const PointwiseOp {pointwise_op_name(kernel)}{{"{kernel.name}", {len(kernel.outputs)}, {len(kernel.inputs)}, '
        f"{{{', '.join(types)}}}, {tables}, {str(kernel.exact).lower()}}};"
    )


def chosen_op(op: Operator, o: Overload) -> str:
    """C++ expression for the PointwiseOp of a call."""
    if "" in op.pointwise:
        return pointwise_op_name(op.pointwise[""])
    select = next(a for a in o.args if a.name == op.row.select)
    optional = "optional" in select.ctype
    text = (
        f"{select.name}.has_value() ? std::string_view(*{select.name}) : std::string_view()"
        if optional
        else select.name
    )
    if select.ctype == "bool":
        keys = {k: f"{select.name} == {k}" for k in op.pointwise}
    else:
        quoted = {k: "" if k in ("null", "None") else k for k in op.pointwise}
        keys = {k: f'({text}) == "{q}"' for k, q in quoted.items()}
    out = ""
    items = list(op.pointwise.items())
    for key, kernel in items[:-1]:
        out += f"{keys[key]} ? {pointwise_op_name(kernel)} : "
    return out + pointwise_op_name(items[-1][1])


def select_check(op: Operator, o: Overload) -> list[str]:
    """Refuses, worded as torch, a string that selects no kernel. Optional ones are checked by torch's metas."""
    select = next((a for a in o.args if a.name == op.row.select and a.ctype == "c10::string_view"), None)
    if select is None:
        return []
    known = " || ".join(f'{select.name} == "{key}"' for key in op.pointwise)
    return [f'TORCH_CHECK({known}, "{select.name} argument must be either {" or ".join(op.pointwise)}.");']


def scalar_list(op: Operator, o: Overload) -> str:
    kernel = next(iter(op.pointwise.values()))
    items = []
    args = {a.name: a for a in o.args}
    for scalar in kernel.scalars:
        name = scalar.name
        optional = "optional" in args[name].ctype
        value = f"*{name}" if optional else name
        if "Scalar" not in args[name].ctype:
            value = f"at::Scalar({value})"
        kind = f"ScalarArg::{scalar.kind}"
        if optional and scalar.default is not None:
            if scalar.default in LIMITS:  # of the element type
                kind = f"{name}.has_value() ? {kind} : ScalarArg::{LIMITS[scalar.default]}"
                value = f"{name}.has_value() ? at::Scalar({value}) : at::Scalar()"
            else:
                value = f"{name}.has_value() ? at::Scalar({value}) : at::Scalar({CONSTANTS.get(scalar.default, scalar.default)})"
        items.append(f"ScalarArg{{{value}, {kind}}}")
    return "{" + ", ".join(items) + "}"


def small_dense(o: Overload, kernel: str, operands: list[str], scalars: str) -> list[str]:
    """Small dense work before the iterator is built. Operands are tensors, or numbers in place of one."""
    out = next((a.name for a in o.args if a.is_out), "self" if o.kind == SchemaKind.inplace else None)
    given = f"&{out}" if out else "nullptr"
    scalar = {a.name for a in o.args if "Scalar" in a.ctype}
    inputs = ", ".join("nullptr" if t in scalar else f"&{t}" for t in operands)
    number = "".join(f", &{t}" for t in operands if t in scalar)
    test = f"const SmallDense small({kernel}, {given}, {{{inputs}}}{number}); small"
    numbers = [a for a in o.args if a.name in scalar and a.name not in operands]
    test += "".join(f" && small.takes({a.name})" for a in numbers)
    if numbers and all("optional" in a.ctype for a in numbers):  # metas want one of them
        test += f" && ({' || '.join(f'{a.name}.has_value()' for a in numbers)})"
    if out is None:
        return [f"if ({test}) return small.run({scalars});"]
    return [f"if ({test}) {{", f"  small.run({out}, {scalars});", f"  return {out};", "}"]


def direct_operands(op: Operator) -> list[str]:
    """The operands of work that is done before a meta is asked, in the iterator's order. Metas refuse, beyond shapes and types, values."""
    group = op.structured
    assert group is not None
    if not op.pointwise or op.row.impl or "" not in op.pointwise or group.outputs != 1:
        return []
    kernel = op.pointwise[""]
    if not any_here(kernel):
        return []
    if op.row.direct is not None:
        return op.row.direct
    taken = {"const at::Tensor &", *(["const at::Scalar &"] if op.row.kernel else [])}  # a number in place of a tensor
    operands = [name for name, ctype in group.meta_args if ctype in taken and name != "alpha"]
    rest = {name for name, _ in group.meta_args} - {*operands, "alpha"}
    return operands if not rest and len(operands) == len(kernel.inputs) else []


def structured_wrapper(op: Operator, o: Overload) -> str:
    group = op.structured
    assert group is not None
    meta = group.meta_class
    outs = [a.name for a in o.args if a.is_out]
    if o.kind == SchemaKind.functional:
        lines = [f"Functional<{meta}, {group.outputs}> op;"]
        results = [f"std::move(op.outputs[{i}])" for i in range(group.outputs)]
    elif o.kind == SchemaKind.inplace:
        lines = [f"Inplace<{meta}, 1> op(self);"]
        results = ["self"]
    else:
        lines = [f"Out<{meta}, {group.outputs}> op({', '.join(outs)});"]
        results = outs
    args = {a.name: a for a in o.args}
    if operands := direct_operands(op):
        lines[:0] = small_dense(o, pointwise_op_name(op.pointwise[""]), operands, scalar_list(op, o))
    call = ", ".join(convert(args[name], ctype) for name, ctype in group.meta_args)
    lines.append(("[[maybe_unused]] auto pre = " if group.precomputed else "") + f"op.meta({call});")
    if o.kind == SchemaKind.out:
        read = [a.name for a in o.args if a.is_tensor and not a.is_out]
        lines += [f"check_apart({out}, {name});" for out in op.row.apart for name in read]
    if op.pointwise and not op.row.impl:
        lines += select_check(op, o)
        lines.append(f"pointwise(op, {chosen_op(op, o)}, {scalar_list(op, o)});")
    else:
        values = ["op"] if op.row.iterator else []
        number = 0
        inputs = len(group.impl_args) - group.outputs
        for position, (name, ctype) in enumerate(group.impl_args):
            if position >= inputs:
                values.append(f"op.maybe_get_output({number})")
                number += 1
            elif name in group.precomputed_names:
                values.append(f"pre.{name}")
            else:
                values.append(convert(args[name], ctype))
        lines.append(f"{op.row.impl or op.cpp_name}({', '.join(values)});")
    lines.append("op.finish();")
    lines.append(returned(o, results))
    return wrap(o, guarded(lines, o, op))


def iterator_wrapper(op: Operator, o: Overload) -> str:
    kernel = next(iter(op.pointwise.values()))
    operands = tensors = [a.name for a in o.args if a.is_tensor and not a.is_out]
    if len(tensors) < len(kernel.inputs):  # a shared kernel whose operand is a Scalar here
        operands = [a.name for a in o.args if a.name in tensors or a.schema_type == "Scalar"]
        tensors = [name if name in tensors else f"number({name})" for name in operands]
    outs = [a.name for a in o.args if a.is_out]
    count = len(kernel.outputs)
    plain = all(a.ctype in ("const at::Tensor &", "at::Tensor &") for a in o.args if a.is_tensor)
    direct = "" in op.pointwise and count == 1 and plain and any_here(kernel)
    if o.kind == SchemaKind.inplace:
        given = ["self"]
    elif o.kind == SchemaKind.out:
        given = outs
    else:
        given = ["at::Tensor()"] * count
    # In place, an expression that is its operand leaves real numbers as they are, overlapping ones too.
    real = [t for t in kernel.types if "complex" not in t.groups]
    unchanged = o.kind == SchemaKind.inplace and bool(real) and all(kernel.exprs[t.name] == ["a"] for t in real)
    lines = [
        *[
            f'XPU_OPS_CHECK_TYPE({tensors[0]}.scalar_type() != at::ScalarType::{TYPES[t].scalar}, "{text}");'
            for t, text in op.row.refuses.items()
        ],
        *(["if (!self.is_complex()) return self;"] if unchanged else []),
        *(small_dense(o, pointwise_op_name(kernel), operands, scalar_list(op, o)) if direct else []),
        f"const PointwiseOp& kernel = {chosen_op(op, o)};",
        f"auto it = make_iterator(Promotion::{op.row.iter}, kernel, {{{', '.join(given)}}}, {{{', '.join(tensors)}}});",
        f"pointwise(it, kernel, {scalar_list(op, o)});",
    ]
    results = [f"it.output({i})" for i in range(count)] if o.kind == SchemaKind.functional else given
    lines.append(returned(o, results))
    return wrap(o, guarded(lines, o, op))


def adapter_name(op: Operator, o: Overload) -> str:
    return op.row.impl if op.row.impl and o.name == op.name else o.cpp_name


def shared_wrapper(op: Operator, o: Overload) -> str:
    symbolic = (o.shared or "").endswith("_symint")
    values = [
        f"c10::fromIntArrayRefSlow({a.name})" if symbolic and a.schema_type == "SymInt[]" else a.name for a in o.args
    ]
    return wrap(o, guarded([f"return at::native::{o.shared}({', '.join(values)});"], o, op))


def adapter_signature(op: Operator, o: Overload) -> str:
    """The dispatcher's; adapters without a meta take lists of tensors in one form, whatever torch passes."""
    text = signature(o, adapter_name(op, o))
    return text if op.row.meta else text.replace(LIST_REF, "at::TensorList")


def adapter_wrapper(op: Operator, o: Overload) -> str:
    name = adapter_name(op, o)
    values = [f"listed({a.name})" if a.ctype == LIST_REF and not op.row.meta else a.name for a in o.args]
    call = f"xpu_ops::aten::{name}({', '.join(values)});"
    return wrap(o, guarded([call if o.return_type == "void" else f"return {call}"], o, op))


def wrap(o: Overload, body: list[str]) -> str:
    text = "\n".join(f"  {line}" for line in body)
    return f"{signature(o, 'wrap_' + o.cpp_name)} {{\n{text}\n}}"


def adapter_declarations(op: Operator) -> list[str]:
    if op.row.native or op.row.shared or op.foreach or (op.pointwise and not op.row.impl):
        return []
    if op.structured is not None:
        args = [f"{ctype} {name}" for name, ctype in op.structured.impl_args]
        if op.row.iterator:
            args.insert(0, "at::TensorIteratorBase& iterator")
        structured_names = {o.name for o in op.overloads if o.fn.structured or o.fn.structured_delegate}
        lines = [f"void {op.row.impl or op.cpp_name}({', '.join(args)});"]
        return lines + [signature(o, o.cpp_name) + ";" for o in op.overloads if o.name not in structured_names]
    return [adapter_signature(op, o) + ";" for o in op.overloads]


def foreach_wrapper(op: Operator, o: Overload) -> str:
    return wrap(o, guarded(foreach.body(op, o), o, op))


def registered(op: Operator, o: Overload) -> str:
    """The function that the dispatcher calls."""
    return f"at::native::{op.row.native}" if op.row.native else f"wrap_{o.cpp_name}"


def defined(op: Operator) -> bool:
    return op.overloads[0].namespace == "xpu_ops"


def has_gradients(op: Operator) -> bool:
    return defined(op) or op.row.autograd is not None or op.row.tangents is not None


def above_autograd_signature(o: Overload, name: str) -> str:
    """Sizes may be symbols above autograd: torch.compile traces through it."""
    return o.symbolic(name) if o.namespace == "aten" else signature(o, name)


def gradient_declarations(op: Operator) -> list[str]:
    names = [op.row.composite, op.row.autograd, op.row.tangents]
    return [above_autograd_signature(o, name) + ";" for o in op.overloads for name in names if name]


def autograd_wrapper(op: Operator, o: Overload) -> str:
    """Calls that want gradients go to `autograd`, or are composed of differentiable operators; others go on. Forward
    derivatives take the composition, where there is one."""
    tensors = ", ".join(a.name for a in o.args if a.tensor_like)
    values = ", ".join(a.name for a in o.args)
    wants, tangents = f"wants_gradients({tensors})", f"have_tangents({tensors})"
    targets = {wants: op.row.autograd, tangents: op.row.composite}
    if not (op.row.autograd and op.row.composite):
        targets = {f"{wants} || {tangents}": op.row.autograd or op.row.composite}
    lines = [
        *[
            f"if ({wanted}) return translate([&] {{ return {target}({values}); }});"
            for wanted, target in reversed(targets.items())
        ],
        "const at::AutoDispatchBelowADInplaceOrView below;",
        f'static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("{o.namespace}::{o.base_name}", "")',
        f"                           .typed<{above_autograd_signature(o, '')}>();",
        f"return op.call({values});",
    ]
    return "\n".join([above_autograd_signature(o, f"grad_{o.cpp_name}") + " {", *[f"  {x}" for x in lines], "}"])


def tangents_wrapper(op: Operator, o: Overload) -> str:
    """Calls that carry forward derivatives go to `tangents`, others to torch's formula, which AutogradOther has too."""
    tensors = ", ".join(a.name for a in o.args if a.tensor_like)
    values = ", ".join(a.name for a in o.args)
    arguments = ", ".join(f"{a.ctype} {a.name}" for a in o.args)
    lines = [
        f"if (have_tangents({tensors})) return translate([&] {{ return {op.row.tangents}({values}); }});",
        f'static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("{o.namespace}::{o.base_name}", "")',
        f"                           .typed<{above_autograd_signature(o, '')}>();",
        f"return op.redispatch((keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther), {values});",
    ]
    head = f"{o.return_type} grad_{o.cpp_name}(c10::DispatchKeySet keys, {arguments}) {{"
    return "\n".join([head, *[f"  {x}" for x in lines], "}"])


def autocast_wrapper(o: Overload) -> str:
    values = ", ".join(
        f"at::autocast::cached_cast(type, {a.name}, c10::DeviceType::XPU)" if a.tensor_like else a.name for a in o.args
    )
    lines = [
        "const c10::impl::ExcludeDispatchKeyGuard without(c10::DispatchKey::AutocastXPU);",
        "const auto type = at::autocast::get_autocast_dtype(c10::DeviceType::XPU);",
        f'static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("{o.name}", "")',
        f"                           .typed<{signature(o, '')}>();",
        f"return op.call({values});",
    ]
    return "\n".join([signature(o, f"cast_{o.cpp_name}") + " {", *[f"  {x}" for x in lines], "}"])


def registrations(members: list[Operator]) -> list[str]:
    """The TORCH_LIBRARY blocks, one a namespace and key.

    Functions are given by their address, not as TORCH_FN: torch's templates are then compiled once per signature, not once an
    overload, for one more jump a call.
    """
    blocks: dict[str, list[str]] = {}
    for op in members:
        for o in op.overloads:
            name = o.base_name
            if defined(op):
                blocks.setdefault("TORCH_LIBRARY_FRAGMENT(xpu_ops, m)", []).append(
                    f'  m.def(R"({o.fn.func})", {{at::Tag::pt2_compliant_tag}});'
                )
                blocks.setdefault("TORCH_LIBRARY_IMPL(xpu_ops, CPU, m)", []).append(
                    f'  m.impl("{name}", XPU_OPS_FN({op.row.composite}));'
                )
                blocks.setdefault("TORCH_LIBRARY_IMPL(xpu_ops, Autograd, m)", []).append(
                    f'  m.impl("{name}", &grad_{o.cpp_name});'
                )
            elif op.row.autograd or op.row.tangents:
                blocks.setdefault(f"TORCH_LIBRARY_IMPL({o.namespace}, AutogradXPU, m)", []).append(
                    f'  m.impl("{name}", &grad_{o.cpp_name});'
                )
            if op.row.autocast:
                blocks.setdefault("TORCH_LIBRARY_IMPL(xpu_ops, AutocastXPU, m)", []).append(
                    f'  m.impl("{name}", &cast_{o.cpp_name});'
                )
            keys: list[str] = [op.key]
            if op.row.above_autograd:
                # one key for nested tensors of any device
                keys.append("AutogradNestedTensor" if op.key == "NestedTensorXPU" else "AutogradXPU")
            impl = f'm.impl("{name}", &{registered(op, o)});'
            if op.row.by == "onemkl":
                impl = f'if (mkl::installed()) {impl} else m.impl("{name}", fallback_kernel());'
            for key in keys:
                blocks.setdefault(f"TORCH_LIBRARY_IMPL({o.namespace}, {key}, m)", []).append(f"  {impl}")
    return [line for head, body in blocks.items() for line in (head + " {", *body, "}")]


def wrapper(op: Operator, o: Overload) -> str:
    if op.foreach is not None:
        return foreach_wrapper(op, o)
    if o.shared:
        return shared_wrapper(op, o)
    in_group = op.structured is not None and (o.fn.structured or o.fn.structured_delegate is not None)
    if in_group:
        return structured_wrapper(op, o)
    if op.pointwise and not op.row.impl:
        return iterator_wrapper(op, o)
    return adapter_wrapper(op, o)


def ops_header(family: Family) -> str:
    """Declares the family's pointwise operators for adapters that launch them."""
    kernels = [k for o in family.operators if not o.row.kernel for k in o.pointwise.values()]
    names = "".join(f"extern const PointwiseOp {pointwise_op_name(k)};\n" for k in kernels)
    return (
        '// Generated from kernels/manifest; do not edit.\n#pragma once\n#include "bindings/aten/core/pointwise.hpp"\n\n'
        f"namespace xpu_ops::aten {{\n{names}}}  // namespace xpu_ops::aten\n"
    )


def library_source(family: Family, library: Library) -> str:
    """Makes a library outside torch known, with what defines its operators."""
    schemas = [str(o.fn.func) for op in family.operators for o in op.overloads]
    return "\n".join(
        [
            "// Generated from kernels/manifest; do not edit.",
            '#include "bindings/aten/core/library.hpp"',
            "",
            "namespace xpu_ops::aten {",
            "namespace {",
            f"void define_{library.name}(torch::Library& m) {{",
            f'  m.set_python_module("{library.python_module}");',
            *[f'  m.def(R"({schema})", {{at::Tag::pt2_compliant_tag}});' for schema in schemas],
            *[f'  m.def(R"({schema})");' for schema in library.defines],
            "}",
            f'const KnownLibrary known_{library.name}("{library.name}", &define_{library.name});',
            "}  // namespace",
            "}  // namespace xpu_ops::aten",
            "",
        ]
    )


def files_of(family: Family) -> dict[str, str]:
    """File name -> source."""
    count = pow2_shards(len(family.operators), OPERATORS_PER_FILE)
    result = {f"{family.name}_ops.hpp": ops_header(family)}
    if family.manifest.library is not None:
        result[f"library_{family.name}.cpp"] = library_source(family, family.manifest.library)
    for number in range(count):
        members = [o for o in family.operators if shard(o.name, count) == number]
        if not members:
            continue
        headers = sorted({f"#include <{o.structured.header}>" for o in members if o.structured is not None})
        headers += sorted(
            {
                f"#include <ATen/ops/{o.overloads[0].fn.root_name}_native.h>"
                for o in members
                if o.foreach or o.row.native or o.row.shared
            }
        )
        if any(o.foreach for o in members):
            headers.append('#include "bindings/aten/foreach.hpp"')
        multi = {
            o.foreach.name: foreach.op_definition(o.foreach, o.row.result == "float") for o in members if o.foreach
        }
        if any(o.row.by == "onemkl" for o in members):
            headers += ['#include "bindings/runtime/fallback.hpp"', '#include "kernels/mkl/library.hpp"']
        if any(not o.row.meta or o.row.refuses for o in members):
            headers.append('#include "bindings/torch_compat.hpp"')
        if any(has_gradients(o) for o in members):
            headers += ["#include <ATen/autocast_mode.h>", '#include "bindings/aten/core/tangents.hpp"']
            headers.append('#include "bindings/aten/fused.hpp"')
        declarations = list(dict.fromkeys(d for o in members for d in adapter_declarations(o)))
        declarations += [d for o in members if has_gradients(o) for d in gradient_declarations(o)]
        ops = {k.name: k for o in members if not o.row.kernel for k in o.pointwise.values()}
        shared = {f"{o.kernel_family}_ops.hpp" for o in members if o.row.kernel}
        lines = [
            "// Generated from kernels/manifest; do not edit.",
            *headers,
            "#include <c10/core/impl/DeviceGuardImplInterface.h>",
            "#include <ATen/core/op_registration/adaption.h>",
            "#include <torch/library.h>",
            '#include "bindings/aten/core/small_dense.hpp"',
            '#include "bindings/aten/core/structured.hpp"',
            f'#include "gen/kernels/{family.name}_kernels.hpp"',
            *[f'#include "gen/aten/{n}"' for n in sorted(shared | {f"{family.name}_ops.hpp"})],
            "",
            "namespace xpu_ops::aten {",
            *declarations,
            *[pointwise_op(k) for k in ops.values()],
            "namespace {",
            *multi.values(),
            *[wrapper(op, o) for op in members if not op.row.native for o in op.overloads],
            *[
                (tangents_wrapper if op.row.tangents else autograd_wrapper)(op, o)
                for op in members
                if has_gradients(op)
                for o in op.overloads
            ],
            *[autocast_wrapper(o) for op in members if op.row.autocast for o in op.overloads],
            *registrations(members),
            "}  // namespace",
            "}  // namespace xpu_ops::aten",
            "",
        ]
        result[f"register_{family.name}_{number}.cpp"] = "\n".join(lines)
    return result
