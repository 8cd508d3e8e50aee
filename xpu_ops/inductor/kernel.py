"""One fused kernel: what Inductor asks for, collected as stages and written as a loop nest of the prelude's loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import config
from torch._inductor.codegen import common, simd
from torch._inductor.codegen.common import (
    CSE,
    CSEProxy,
    CSEVariable,
    DeferredLine,
    IndentedBuffer,
    SizeArg,
    TensorArg,
)
from torch._inductor.codegen.simd import IterationRangesEntry, SIMDKernel
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.utils import sympy_index_symbol, sympy_subs
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from xpu_ops.block import parameters, printer, types
from xpu_ops.block.parameters import Field, number, pointer
from xpu_ops.block.types import compute_type, memory_type
from xpu_ops.inductor import forms
from xpu_ops.inductor.axes import Axis, hint
from xpu_ops.inductor.overrides import SyclOverrides, Variable
from xpu_ops.inductor.scan import Carried, Scan
from xpu_ops.inductor.types import print_index
from xpu_ops.inductor.wrapper import Argument, Scalar, python_argument

_SIZE_SYMBOLS = (SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT, SymT.FLOAT)
_UNBOUNDED: ValueRanges[Any] = ValueRanges.unknown()
_NO_PLACE = "0x7fffffffffffffffL"
_PLAIN_REDUCTIONS = {"sum": "Sum", "prod": "Prod", "any": "Or", "xor_sum": "Xor", "max": "Max", "min": "Min"}


class SyclCSE(CSE):
    """Declares every value with its own type: C++ computes small integers as int."""

    def generate(
        self,
        buffer: IndentedBuffer,
        expr: Any,
        *,
        bounds: ValueRanges[Any] = _UNBOUNDED,
        write: bool = True,
        assignment: bool = True,
        dtype: torch.dtype | None = None,
        shape: Any = None,
    ) -> CSEVariable:
        if not isinstance(expr, str) or not assignment or dtype is None:
            return super().generate(
                buffer, expr, bounds=bounds, write=write, assignment=assignment, dtype=dtype, shape=shape
            )
        ctype = compute_type(dtype)
        key = f"{ctype} {expr}"
        var = self.try_get(key)
        if var:
            var.bounds = var.bounds.tighten(bounds)
            var.use_count += 1
            return var
        var = self.newvar(bounds, dtype, shape)
        self.put(key, var)
        if write:
            buffer.writeline(f"{ctype} {var} = static_cast<{ctype}>({expr});")
        return var


class SyclCSEProxy(CSEProxy):
    """Gives every result its type; upstream's asks for the name of the backend."""

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bounds = self._bound_variable(name, *args, **kwargs)
        value = getattr(self.parent_handler, name)(*args, **kwargs)
        if isinstance(value, CSEVariable) or name in ("masked", "frexp"):
            dtype = None
        else:
            dtype = getattr(DtypePropagationOpsHandler(), name)(*args, **kwargs)

        def declare(v: Any) -> CSEVariable:
            var = V.kernel.cse.generate(V.kernel.compute, v, bounds=bounds, dtype=dtype)
            var.update_on_args(name, args, kwargs)
            return var

        return pytree.tree_map(declare, value)


class Stage:
    """The body between two flushes: one loop over the reduced range, or code outside of it."""

    def __init__(self, loop: bool) -> None:
        self.loop = loop
        self.declarations, self.body, self.after = IndentedBuffer(), IndentedBuffer(), IndentedBuffer()


class Final:
    """An accumulator's result, written in the way of the loop form that is chosen last."""

    def __init__(self, name: str, op: str, field: str = "") -> None:
        self._name, self._op, self._field = name, op, field

    def text(self, form: forms.Form) -> str:
        if form.column_slots:
            return f"{self._name}[j]{self._field}"
        joined = f"join<{self._op}>({self._name})"
        return (f"across<{self._op}>({joined})" if form.across else joined) + self._field


class Step:
    """A load, or the store to buffer `stored`, whose index steps through memory along the row; the form that is chosen
    last says how it is written."""

    def __init__(self, kernel: SyclKernel, var: str, index: sympy.Expr, dtype: torch.dtype, stored: str = "") -> None:
        self._kernel, self.place, self.stored = kernel, index, stored
        self.var, self.index, self.ctype = var, kernel.index_to_str(index), memory_type(dtype)
        self.itemsize = dtype.itemsize
        self.copy, self.pitch = "", 0  # the block's copy, where it has one

    def stride_of_rows(self, length: sympy.Expr) -> int:
        """From one row of that length to the next."""
        at = sympy_subs(self.place, {k: v.expr for k, v in self._kernel.range_tree_nodes.items()})
        x = sympy_index_symbol(self._kernel.range_trees[0].name)
        return V.graph.sizevars.optimization_hint(
            sympy_subs(at, {x: length}) - sympy_subs(at, {x: sympy.S.Zero}), fallback=64
        )

    def text(self, form: forms.Form) -> str:
        """A load, or the beginning of a store up to the value."""
        if form.copied and self.copy:
            place = f"{self.copy} + (xn - n0) * {self.pitch} - c0, xc"
        else:
            place = f"{self.var}, {self.index}"
        return f"st({place}," if self.stored else f"ld({place})"


class SyclKernel(SIMDKernel):
    """The text of one kernel and the call that launches it."""

    overrides = SyclOverrides
    suffix = ";"
    newvar_prefix = "auto "
    sexpr = kexpr = staticmethod(print_index)
    pexpr = staticmethod(simd.pexpr)

    def __init__(self, tiling: dict[str, sympy.Expr], **kwargs: Any) -> None:
        super().__init__(tiling, **kwargs)
        self.inside_reduction: bool
        self.cse = SyclCSE(self.newvar_prefix, self.suffix)
        self.x = Axis(self.numels["x"], self.expr)
        self.r = Axis(self.numels.get("r0_", sympy.S.One), self.expr)
        self.stages: list[Stage] = []
        self.finals: dict[str, Final | Carried] = {}
        self._scans: list[Scan] = []
        self._step_tokens: dict[str, Step] = {}
        self.messages: list[str] = []
        self._accumulators = itertools.count()
        self._declarations, self._after = IndentedBuffer(), IndentedBuffer()
        self._kept: OrderedSet[CSEVariable] = OrderedSet()  # values that outlive a loop over the reduced range
        self._guards: dict[str, str] = {}  # index variable: the variable that says whether it is in bounds
        self._checked: set[str] = set()
        self.mask_depth = 0  # branches around what is being written
        self._hoisted: dict[tuple[sympy.Expr, str], str] = {}
        self.form = forms.Form(outer=False, steps=False)

    # ---- decisions

    def create_cse_var(self, *args: Any, **kwargs: Any) -> CSEVariable:
        return Variable(*args, **kwargs)

    def finalize_indexing(self, indices: Sequence[sympy.Expr]) -> None:
        """Called with every index before code is generated: decides along which range the lanes lie."""
        along_x = along_r = steps = 0
        for index in indices:
            strides = self.get_strides_of_load(index)
            near = {
                t.prefix: V.graph.sizevars.optimization_hint(strides.get(t.index_sym(), 0), fallback=64)
                for t in self.range_trees
            }
            if not self.features.is_reduction():
                steps += abs(near["x"]) > 1
            elif near.get("r0_") == 1 and near.get("x", 0) != 0:
                along_r += 1
            elif near.get("x") == 1 and near.get("r0_", 0) != 0:
                along_x += 1
        outer = self.features.is_reduction() and (along_x > along_r or self._short_rows())
        self.form = forms.Form(outer=outer, steps=steps > 0)

    @property
    def in_order(self) -> bool:
        """Whether all lanes go along a row together, those past its end (`in` is false) on its last element."""
        return self.form.across and self.features.contains_op("scan")

    def _short_rows(self) -> bool:
        """Whether rows leave most lanes idle, and there are enough of them to give each lane one."""
        return hint(self.r.numel) < forms.SHORT_ROW and hint(self.x.numel) >= forms.MANY_ROWS

    def __enter__(self) -> SyclKernel:
        common.CodeGen.__enter__(self)
        self.exit_stack.enter_context(V.set_ops_handler(SyclCSEProxy(self, self.overrides())))
        self.exit_stack.enter_context(V.set_kernel_handler(self))
        return self

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return memory_type(dtype)

    # ---- sizes

    def expr(self, e: sympy.Expr | int) -> str:
        e = sympy.sympify(e)
        text = print_index(self.rename_indexing(e))
        # Sizes that come of floats are computed before the launch: not every device has fp64.
        return self.hoist(e, torch.int64) if "double" in text and self.is_of_sizes(e) else text

    @staticmethod
    def is_of_sizes(expr: sympy.Expr) -> bool:
        return all(symbol_is_type(s, _SIZE_SYMBOLS) for s in expr.free_symbols)

    def hoist(self, expr: sympy.Expr, dtype: torch.dtype) -> str:
        """A parameter with the value of an expression of sizes."""
        return self._hoisted.setdefault((expr, compute_type(dtype)), f"hs{len(self._hoisted)}")

    # ---- loads and stores

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        var = self.args.input(name)
        dtype = V.graph.get_dtype(name)
        if V.graph.is_unspec_arg(name):  # a CPU scalar: its value is passed
            return self.cse.generate(self.loads, var, dtype=dtype)
        index = self.prepare_indexing(index)
        line = self._step(var, index, dtype) if self._steps(index) else f"ld({var}, {self.index_to_str(index)})"
        return self.cse.generate(self.loads, line, dtype=torch.float32 if types.of(dtype).small_float else dtype)

    def _steps(self, index: sympy.Expr) -> bool:
        """Whether a load of a pointwise kernel goes along the rows: no neighbour in memory is the lane's."""
        if self.features.is_reduction() or self.mask_depth or not self.form.steps:
            return False
        if any(s not in self.range_tree_nodes and not symbol_is_type(s, _SIZE_SYMBOLS) for s in index.free_symbols):
            return False
        x = self.range_trees[0].index_sym()
        return abs(V.graph.sizevars.optimization_hint(self.get_strides_of_load(index).get(x, 0), fallback=64)) > 1

    def _step(self, var: str, index: sympy.Expr, dtype: torch.dtype) -> str:
        for token, step in self._step_tokens.items():
            if not step.stored and (step.var, step.index) == (var, self.index_to_str(index)):
                return token
        return self._token(Step(self, var, index, dtype))

    def _token(self, step: Step) -> str:
        token = f"@step{len(self._step_tokens)}@"
        self._step_tokens[token] = step
        return token

    @property
    def steps(self) -> list[Step]:
        return list(self._step_tokens.values())

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        if mode is not None:
            raise NotImplementedError(f"xpu_ops: stores of mode {mode} run as operators")
        var = self.args.output(name)
        index = self.prepare_indexing(index)
        conditions = [self._guards[str(s)] for s in sorted(index.free_symbols, key=str) if str(s) in self._guards]
        if self.features.is_reduction() and not self.inside_reduction and self.form.across:
            conditions.insert(0, "first")
        if self.features.is_reduction() and self.inside_reduction and self.in_order:
            conditions.insert(0, "in")
        if self._steps(index) and not conditions:
            start = self._token(Step(self, var, index, V.graph.get_dtype(name), stored=name))
            self.stores.writeline(DeferredLine(name, f"{start} {value});"))
            return
        self.stores.writeline(DeferredLine(name, self._stored(var, self.index_to_str(index), value, conditions)))

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        var = self.args.output(name)
        was, self.inside_reduction = self.inside_reduction, False
        try:
            text = self.index_to_str(self.prepare_indexing(index))
        finally:
            self.inside_reduction = was
        line = self._stored(var, text, value, ["first"] if self.form.across else [])
        self._after.writeline(DeferredLine(name, line))

    @staticmethod
    def _stored(var: str, index: str, value: CSEVariable, conditions: list[str]) -> str:
        """A store behind conditions. A store of the first lane alone is a scalar one."""
        if conditions == ["first"]:
            return f"st_first({var}, {index}, {value});"
        guard = f"if ({' && '.join(conditions)}) " if conditions else ""
        return f"{guard}st({var}, {index}, {value});"

    # ---- checks

    def _check(self, condition: str, message: str) -> str:
        """A variable that says whether the condition holds; where it does not, the text is raised later."""
        number = self.messages.index(message) if message in self.messages else len(self.messages)
        if number == len(self.messages):
            self.messages.append(message)
        ok = f"ok{next(self._accumulators)}"
        self.compute.writeline(f"const bool {ok} = check({condition}, error, text{number});")
        return ok

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if not (lower or upper):
            return
        index, limit = self.index_to_str(self.prepare_indexing(expr)), self.index_to_str(size)
        tests = [f"{index} >= 0"] * lower + [f"{index} < {limit}"] * upper
        loaded = isinstance(expr, sympy.Symbol) and symbol_is_type(expr, SymT.TMP)
        if loaded and not self.mask_depth:
            key = f"{expr} {size} {lower} {upper}"
            if key in self._checked:
                return
            self._checked.add(key)
        printed = f"{'0 <= ' if lower else ''}{index}{f' < {V.graph.sizevars.simplify(size)}' if upper else ''}"
        ok = self._check(" && ".join(tests), f"index out of bounds: {printed}")
        if loaded:
            # Loads take element 0, stores are skipped: no access leaves the tensor.
            self.compute.writeline(f"{expr} = {ok} ? {expr} : 0;")
            if not self.mask_depth:
                self._guards[str(expr)] = ok
        else:
            self.compute.writeline(f"if (!{ok}) return;")

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        self._check(f"bool({cond})", msg)

    # ---- reductions

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: Any, value: Any) -> Any:
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            result = self._reduce(dtype, src_dtype, reduction_type, value)
            self.cse.reduction_cache[key] = result
            self._kept.update(result if isinstance(result, tuple) else (result,))
        return self.cse.reduction_cache[key]

    def _reduce(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any) -> Any:
        assert self.inside_reduction
        if kind in _PLAIN_REDUCTIONS:
            return self._reduce_plain(dtype, src_dtype, kind, value)
        if kind in ("welford_reduce", "welford_combine"):
            return self._reduce_moments(dtype, src_dtype, kind, value)
        if kind in ("argmax", "argmin"):
            return self._reduce_place(dtype, src_dtype, kind, value)
        raise NotImplementedError(f"xpu_ops: reduction {kind}")

    def _accumulator(self, ctype: str, initial: str) -> str:
        name = f"acc{next(self._accumulators)}"
        self._declarations.writeline(
            f"{ctype} {name}[ACC]; for (int i = 0; i < ACC; ++i) {name}[i] = {ctype}{{{initial}}};"
        )
        return name

    def _accumulate(self, line: str) -> None:
        self.compute.writeline(f"if (in) {line}" if self.in_order else line)

    def _final(self, name: str, op: str, field: str = "") -> str:
        token = f"@{name}{field}@"
        self.finals[token] = Final(name, op, field)
        return token

    def _reduce_plain(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: CSEVariable) -> CSEVariable:
        ctype = "bool" if kind == "any" else compute_type(src_dtype)
        if kind in ("sum", "prod") and not src_dtype.is_floating_point:
            ctype = "uint64_t"  # may overflow
        initial = {
            "prod": "1",
            "max": types.lowest(types.of(src_dtype)),
            "min": types.highest(types.of(src_dtype)),
        }.get(kind, "0")
        name = self._accumulator(ctype, initial)
        element = f"{value} != 0" if kind == "any" else f"static_cast<{ctype}>({value})"
        op = _PLAIN_REDUCTIONS[kind]
        self._accumulate(f"{name}[j] = {op}{{}}({name}[j], {element});")
        return self.cse.generate(self._after, self._final(name, op), dtype=dtype)

    def _reduce_moments(
        self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any
    ) -> tuple[CSEVariable, ...]:
        ctype = compute_type(src_dtype)
        name = self._accumulator(f"Moments<{ctype}>", "0, 0, 0")
        if kind == "welford_reduce":
            self._accumulate(f"add_sample({name}[j], static_cast<{ctype}>({value}));")
        else:
            mean, m2, weight = (f"static_cast<{ctype}>({v})" for v in value)
            self._accumulate(f"{name}[j] = MergeMoments{{}}({name}[j], Moments<{ctype}>{{{mean}, {m2}, {weight}}});")
        joined = f"moments_{name}"
        self._after.writeline(f"const Moments<{ctype}> {joined} = {self._final(name, 'MergeMoments')};")
        return tuple(self.cse.generate(self._after, f"{joined}.{f}", dtype=dtype) for f in ("mean", "m2", "n"))

    def _reduce_place(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any) -> CSEVariable:
        ctype = compute_type(src_dtype)
        if isinstance(value, tuple):
            value, index = value
        else:
            entry = self.range_trees[-1].full_range()
            entry.codegen()
            index = self.index_to_str(entry.symbol())
        worst = (types.lowest if kind == "argmax" else types.highest)(types.of(src_dtype))
        name = self._accumulator(f"Place<{ctype}>", f"{worst}, {_NO_PLACE}")
        op = f"Better<{'true' if kind == 'argmax' else 'false'}>"
        self._accumulate(f"{name}[j] = {op}{{}}({name}[j], Place<{ctype}>{{static_cast<{ctype}>({value}), {index}}});")
        return self.cse.generate(self._after, self._final(name, op, ".index"), dtype=dtype)

    def scan(self, dtypes: tuple[torch.dtype, ...], combine_fn: Any, values: tuple[CSEVariable, ...]) -> Any:
        assert self.inside_reduction and not self.mask_depth
        keys = [f"scan {id(combine_fn)} {[str(v) for v in values]} {i}" for i in range(len(dtypes))]
        if not self.cse.contains(keys[0]):  # each of several results asks for all
            scan = Scan(self, len(self._scans), dtypes)
            self._scans.append(scan)
            token = f"@{scan.carry}@"
            self.finals[token] = Carried(scan.carry)
            self._declarations.writeline(f"Carry<{scan.struct}> {scan.carry}[ACC];")
            for key, result in zip(keys, scan.write(combine_fn, values, token), strict=True):
                self.cse.put(key, result)
        return tuple(self.cse.get(key) for key in keys)

    # ---- stages

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        (self.r if entry.root.is_reduction else self.x).use(entry)

    def codegen_body(self) -> None:
        """End a stage: called wherever a loop over the reduced range begins or ends."""
        parts = (self.loads, self.compute, self.stores, self._declarations, self._after)
        if not any(parts):
            return
        stage = Stage(self.inside_reduction)
        for part in (self.loads, self.compute, self.stores):
            stage.body.splice(part)
        stage.declarations.splice(self._declarations)
        stage.after.splice(self._after)
        for part in parts:
            part.clear()
        self.stages.append(stage)
        if not self.features.is_reduction():
            return
        if stage.loop:
            self.cse.invalidate(self._kept)
            self._checked.clear()
        else:
            self._kept.update(v for v in self.cse._cache.values() if isinstance(v, CSEVariable))

    # ---- text

    def codegen_kernel(self, name: str = "KERNEL_NAME") -> str:
        self.codegen_body()
        body, self.groups, self.form = forms.loops(self)
        text = body.getvalue()
        for token, final in self.finals.items():
            text = text.replace(token, final.text(self.form))
        for token, step in self._step_tokens.items():
            text = text.replace(token, step.text(self.form))
        fields = self._parameters()
        code = IndentedBuffer()
        for scan in self._scans:
            code.writelines(line.replace("KERNEL_NAME", name) for line in scan.declaration())
        body = [
            *parameters.values(fields),
            "const long lane = xpu_local_id(0);",
            "const bool first = xpu::is_first_lane();",
        ]
        code.splice(printer.kernel(name, fields, [*body, *text.splitlines()]))
        return code.getvalue()

    def _parameters(self) -> list[Field]:
        """Fields of the argument struct; sets the letters and values of the call."""
        fields: list[Field] = []
        values: list[str | Scalar | sympy.Expr] = []
        written = OrderedSet(str(v) for v in self.args.output_buffers.values())
        names, calls, kinds, _ = self.args.python_argdefs()
        for arg, call, kind in zip(names, calls, kinds, strict=True):
            if isinstance(kind, TensorArg) and V.graph.is_unspec_arg(kind.buffer):
                ctype = compute_type(kind.dtype)
                fields.append(number(arg.name, ctype if ctype in ("float", "double") else "int64_t"))
                values.append(Scalar(str(call), kind.dtype))
            elif isinstance(kind, TensorArg):
                const = arg.name not in written and not arg.name.startswith("in_out")
                fields.append(pointer(arg.name, memory_type(kind.dtype), const))
                values.append(str(call))
            else:
                assert isinstance(kind, SizeArg), kind
                whole = not isinstance(call, sympy.Expr) or call.is_integer
                fields.append(number(arg.name, "int64_t" if whole else "double"))
                values.append(sympy.sympify(call))
        for (expr, ctype), name in self._hoisted.items():
            fields.append(number(name, ctype))
            values.append(V.graph.sizevars.simplify(expr))
        self.signature = parameters.signature(fields)
        self.call_fields: list[Argument] = list(zip(self.signature, values, strict=True))
        return [*fields, *parameters.reports(len(self.messages))]

    def codegen_nan_check(self) -> None:
        """The checks of config.nan_asserts, over all operands, as upstream writes them."""
        _, calls, kinds, _ = self.args.python_argdefs()
        for call, kind in zip(calls, kinds, strict=True):
            if isinstance(kind, TensorArg):
                V.graph.wrapper_code.writeline(f"assert not {call}.isnan().any().item()")
                V.graph.wrapper_code.writeline(f"assert not {call}.isinf().any().item()")

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        wrapper = V.graph.wrapper_code
        sizes = V.graph.sizevars
        launch = [sizes.simplify(sympy.sympify(e)) for e in (self.groups, *(expr for expr, _ in self._hoisted))]
        for v in (*self.args.sizevars, *(s for e in launch for s in sorted(e.free_symbols, key=str))):
            wrapper.ensure_size_computed(v)
        if V.graph.cpp_wrapper:
            wrapper.launch_kernel(name, launch[0], self.call_fields)
            return
        call = [simd.pexpr(launch[0]), *(python_argument(value) for _, value in self.call_fields)]
        if config.profile_bandwidth:
            name, call = "sycl_timed", [repr(name), name, str(self.estimate_kernel_num_bytes()), *call]
        wrapper.writeline(wrapper.wrap_kernel_call(name, call))
