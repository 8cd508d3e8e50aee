"""One fused kernel: what Inductor asks for, collected as stages and written as a loop nest of the prelude's loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sympy
import torch
from torch._inductor import config
from torch._inductor.codegen import common, simd
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer, SizeArg, TensorArg, is_buffer_removed
from torch._inductor.codegen.simd import IterationRangesEntry, SIMDKernel
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.utils import sympy_index_symbol, sympy_subs
from torch._inductor.virtualized import OpsValue, V
from torch.utils import _pytree as pytree
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.symbol import SymT, free_symbol_is_type, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from xpu_ops.block import ir, parameters, printer, types
from xpu_ops.block.ir import Expr, Let, Store
from xpu_ops.block.ops import GATHER
from xpu_ops.block.parameters import Field, number, pointer
from xpu_ops.block.types import compute_type, memory_type
from xpu_ops.inductor import forms
from xpu_ops.inductor.axes import Axis, equals, hint, multiple
from xpu_ops.inductor.overrides import SyclOverrides, Variable, expression
from xpu_ops.inductor.scan import Scan
from xpu_ops.inductor.types import asks_floats, print_index
from xpu_ops.inductor.wrapper import Argument, Scalar, python_argument

_SIZE_SYMBOLS = (SymT.SIZE, SymT.PRECOMPUTED_SIZE, SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT, SymT.FLOAT)
_UNBOUNDED: ValueRanges[sympy.Expr] = ValueRanges.unknown()
Values: TypeAlias = CSEVariable | tuple[CSEVariable, ...]
Body: TypeAlias = list[ir.Node]
_NO_PLACE = "0x7fffffffffffffffL"
_PLAIN_REDUCTIONS = {"sum": "Sum", "prod": "Prod", "any": "Or", "xor_sum": "Xor", "max": "Max", "min": "Min"}


class SyclCSE(common.CSE):
    """Declares every value with its own type: C++ computes small integers as int."""

    def generate(
        self,
        buffer: Body,
        expr: Expr | CSEVariable | OpsValue,
        *,
        bounds: ValueRanges[sympy.Expr] = _UNBOUNDED,
        dtype: torch.dtype | None = None,
        **kwargs: object,
    ) -> CSEVariable:
        if not isinstance(expr, Expr):
            return super().generate(buffer, expr, bounds=bounds, dtype=dtype, **kwargs)
        assert dtype is not None
        ctype = compute_type(dtype)
        key = f"{ctype} {expr.text}"
        if self.contains(key):
            return super().generate(buffer, self.get(key), bounds=bounds)
        var = self.newvar(bounds, dtype)
        self.put(key, var)
        buffer.append(Let(str(var), ctype, expr, cast=True))
        return var


class SyclCSEProxy(common.CSEProxy):
    """Gives every result its type; upstream's asks for the name of the backend."""

    def _default(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        bounds = self._bound_variable(name, *args, **kwargs)
        value = getattr(self.parent_handler, name)(*args, **kwargs)
        if isinstance(value, CSEVariable) or name in ("masked", "frexp"):
            dtype = None
        else:
            dtype = getattr(DtypePropagationOpsHandler(), name)(*args, **kwargs)

        def declare(v: Expr | CSEVariable | str) -> CSEVariable:
            if isinstance(v, str):
                v = expression(name, v, *args, *(x for item in sorted(kwargs.items()) for x in item))
            var = V.kernel.cse.generate(V.kernel.compute, v, bounds=bounds, dtype=dtype)
            var.update_on_args(name, args, kwargs)
            return var

        return pytree.tree_map(declare, value)


@dataclass(frozen=True)
class Stage:
    """The body between two flushes: one loop over the reduced range, or code outside of it."""

    loop: bool
    declarations: Body
    body: Body
    after: Body


@dataclass(frozen=True)
class Step:
    """A load or a store whose index steps through memory along the row."""

    pointer: str
    at: Expr
    place: sympy.Expr
    dtype: torch.dtype
    buffer: str = ""  # that is stored to

    def stride_of_rows(self, kernel: SyclKernel, length: sympy.Expr) -> int:
        """From one row of that length to the next."""
        at = sympy_subs(self.place, {k: v.expr for k, v in kernel.range_tree_nodes.items()})
        x = sympy_index_symbol(kernel.range_trees[0].name)
        return V.graph.sizevars.optimization_hint(
            sympy_subs(at, {x: length}) - sympy_subs(at, {x: sympy.S.Zero}), fallback=64
        )


class SyclKernel(SIMDKernel):
    """The text of one kernel and the call that launches it."""

    overrides = SyclOverrides
    kexpr = staticmethod(print_index)

    simplify_indexing: Callable[[sympy.Expr], sympy.Expr]

    def __init__(self, tiling: dict[str, sympy.Expr], **kwargs: object) -> None:
        super().__init__(tiling, **kwargs)
        self.inside_reduction: bool
        self.cse = SyclCSE()
        self.x = Axis(self.numels["x"], self.expr)
        self.r = Axis(self.numels.get("r0_", sympy.S.One), self.expr)
        self.loads: Body = []
        self.compute: Body = []
        self.stores: Body = []
        self.stages: list[Stage] = []
        self._scans: list[Scan] = []
        self.steps: dict[tuple[str, str, bool], Step] = {}
        self.messages: list[str] = []
        self._accumulators = itertools.count()
        self._declarations: Body = []
        self._after: Body = []
        self._kept: OrderedSet[CSEVariable] = OrderedSet()  # values that outlive a loop over the reduced range
        self._guards: dict[str, str] = {}  # index variable: the variable that says whether it is in bounds
        self._checked: set[str] = set()
        self.mask_depth = 0  # branches around what is being written
        self._hoisted: dict[tuple[sympy.Expr, str], str] = {}
        self.outer = False  # one lane per column of a reduction, not one sub-group per row
        simplify: Callable[[sympy.Expr], sympy.Expr] = self.simplify_indexing  # upstream sets it for each kernel
        self.simplify_indexing = lambda index: self._by_entries(simplify(index))
        self.strided = False  # a pointwise operand steps through memory along the row

    @property
    def device(self) -> int:
        return V.graph.get_current_device_or_throw().index or 0

    # ---- decisions

    def create_cse_var(self, *args: object, **kwargs: object) -> CSEVariable:
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
        self.outer = self.features.is_reduction() and (along_x > along_r or self._short_rows())
        self.strided = steps > 0

    @property
    def in_order(self) -> bool:
        """Whether all lanes go along a row together, those past its end (`in` is false) on its last element."""
        return not self.outer and self.features.contains_op("scan")

    def _by_entries(self, index: sympy.Expr) -> sympy.Expr:
        """The index with quotients and remainders of a range as entries of that range, of which rows are made."""
        found = {part: self._entry_of(part) for part in index.atoms(ModularIndexing, FloorDiv)}
        known = {part: entry.symbol() for part, entry in found.items() if entry is not None}
        return sympy_subs(index, known) if known else index

    def _combine_contiguous_dims(self, index: sympy.Expr, tree: simd.IterationRangesRoot) -> sympy.Expr:
        """Upstream takes the entries of an index for digits of one number: entries that overlap are not, and stay."""
        entries = [e for s in index.free_symbols if (e := self.range_tree_nodes.get(s)) and e.root is tree]
        entries.sort(key=lambda e: (hint(e.divisor), hint(e.length)))
        for inner, outer in itertools.pairwise(entries):
            if hint(inner.divisor * inner.length) > hint(outer.divisor):
                return index
        return super()._combine_contiguous_dims(index, tree)

    def _entry_of(self, part: sympy.Expr) -> IterationRangesEntry | None:
        base, divisor, *modulus = part.args
        entry = self.range_tree_nodes.get(base)
        if entry is None or not divisor.is_Integer or not all(m.is_Integer for m in modulus):
            return None
        length = modulus[0] if modulus else FloorDiv(entry.length, divisor)
        last = bool(modulus) and equals(entry.divisor * entry.length, entry.root.numel)
        if not last and not multiple(entry.length, divisor * length):
            return None
        return entry.root.lookup(entry.divisor * divisor, length)

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
        # Sizes that come of floats are computed before the launch: not every device has fp64.
        hoisted = asks_floats(e) and self.is_of_sizes(e)
        return self.hoist(e, torch.int64) if hoisted else print_index(self.rename_indexing(e))

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
            return self.cse.generate(self.loads, ir.name(var), dtype=dtype)
        index = self.prepare_indexing(index)
        at = self.place(index)
        if self._steps(index):
            value = ir.load(var, at, "step")
            self.steps.setdefault((var, at.text, False), Step(var, at, index, dtype))
        else:
            apart = index.has(FloorDiv, ModularIndexing) or free_symbol_is_type(index, SymT.TMP)
            value = ir.load(var, at, GATHER if apart else "load")
        return self.cse.generate(self.loads, value, dtype=torch.float32 if types.of(dtype).small_float else dtype)

    def place(self, index: sympy.Expr) -> Expr:
        """An index expression. Equal ones differ in nothing but the names of what was loaded."""
        symbols = sorted(index.free_symbols, key=str)
        loaded = [s for s in symbols if symbol_is_type(s, SymT.TMP)]
        text = self.index_to_str(index)
        same = str(index.xreplace({s: sympy.Symbol(f"loaded{i}") for i, s in enumerate(loaded)})) if loaded else text
        return Expr(text, "index", (same, *(ir.name(str(s)) for s in symbols)), text.rstrip("L").isalnum())

    def _steps(self, index: sympy.Expr) -> bool:
        """Whether a load of a pointwise kernel goes along the rows: no neighbour in memory is the lane's."""
        if self.features.is_reduction() or self.mask_depth or not self.strided:
            return False
        if any(s not in self.range_tree_nodes and not symbol_is_type(s, _SIZE_SYMBOLS) for s in index.free_symbols):
            return False
        x = self.range_trees[0].index_sym()
        return abs(V.graph.sizevars.optimization_hint(self.get_strides_of_load(index).get(x, 0), fallback=64)) > 1

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: str | None = None) -> None:
        if mode is not None:
            raise NotImplementedError(f"xpu_ops: stores of mode {mode} run as operators")
        var = self.args.output(name)
        index = self.prepare_indexing(index)
        when = [self._guards[str(s)] for s in sorted(index.free_symbols, key=str) if str(s) in self._guards]
        first = self.features.is_reduction() and not self.inside_reduction and not self.outer
        if self.features.is_reduction() and self.inside_reduction and self.in_order:
            when.insert(0, "in")
        at = self.place(index)
        if self._steps(index) and not when:
            self.steps[var, at.text, True] = Step(var, at, index, V.graph.get_dtype(name), name)
        self.stores.append(Store(ir.name(var), at, ir.name(str(value)), first, tuple(when), name))

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        var = self.args.output(name)
        was, self.inside_reduction = self.inside_reduction, False
        try:
            at = self.place(self.prepare_indexing(index))
        finally:
            self.inside_reduction = was
        self._after.append(Store(ir.name(var), at, ir.name(str(value)), first=not self.outer, buffer=name))

    # ---- checks

    def _check(self, condition: Expr, message: str) -> str:
        """A variable that says whether the condition holds; where it does not, the text is raised later."""
        if message not in self.messages:
            self.messages.append(message)
        ok = f"ok{next(self._accumulators)}"
        self.compute.append(ir.Check(ok, condition, self.messages.index(message)))
        return ok

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if not (lower or upper):
            return
        at, limit = self.place(self.prepare_indexing(expr)), self.place(size)
        tests = [ir.infix(">=", at, 0)] * lower + [ir.infix("<", at, limit)] * upper
        loaded = isinstance(expr, sympy.Symbol) and symbol_is_type(expr, SymT.TMP)
        if loaded and not self.mask_depth:
            key = f"{expr} {size} {lower} {upper}"
            if key in self._checked:
                return
            self._checked.add(key)
        printed = f"{'0 <= ' if lower else ''}{at.text}{f' < {V.graph.sizevars.simplify(size)}' if upper else ''}"
        ok = self._check(ir.every(tests), f"index out of bounds: {printed}")
        if loaded:
            # Loads take element 0, stores are skipped: no access leaves the tensor.
            inside = ir.choice(ir.name(ok), ir.name(str(expr)), ir.value(0))
            self.compute.append(ir.Assign(str(expr), inside))
            if not self.mask_depth:
                self._guards[str(expr)] = ok
        else:
            self.compute.append(ir.Leave(ok))

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        self._check(ir.call("bool", str(cond)), msg)

    # ---- reductions

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Values) -> Values:
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            result = self._reduce(dtype, src_dtype, reduction_type, value)
            self.cse.reduction_cache[key] = result
            self._kept.update(result if isinstance(result, tuple) else (result,))
        return self.cse.reduction_cache[key]

    def _reduce(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Values) -> Values:
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
        self._declarations.append(ir.Accumulator(name, ctype, initial))
        return name

    def _accumulate(self, accumulator: str, op: str, element: Expr) -> None:
        self.compute.append(ir.Accumulate(accumulator, op, element, ("in",) if self.in_order else ()))

    def _reduce_plain(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: CSEVariable) -> CSEVariable:
        ctype = "bool" if kind == "any" else compute_type(src_dtype)
        if kind in ("sum", "prod") and not src_dtype.is_floating_point:
            ctype = "uint64_t"  # may overflow
        bound = types.bound(types.of(src_dtype), above=kind == "min")
        initial = {"prod": "1", "max": bound, "min": bound}.get(kind, "0")
        name, op = self._accumulator(ctype, initial), _PLAIN_REDUCTIONS[kind]
        self._accumulate(name, op, ir.infix("!=", str(value), 0) if kind == "any" else ir.cast(ctype, str(value)))
        return self.cse.generate(self._after, ir.result(name, op), dtype=dtype)

    def _reduce_moments(
        self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Values
    ) -> tuple[CSEVariable, ...]:
        ctype = compute_type(src_dtype)
        name = self._accumulator(f"Moments<{ctype}>", "0, 0, 0")
        if kind == "welford_reduce":
            self._accumulate(name, "add_sample", ir.cast(ctype, str(value)))
        else:
            parts = (ir.cast(ctype, str(v)) for v in value)
            self._accumulate(name, "MergeMoments", ir.struct(f"Moments<{ctype}>", *parts))
        joined = f"moments_{name}"
        result = ir.result(name, "MergeMoments")
        self._after.append(Let(joined, f"const Moments<{ctype}>", result))
        fields = ("mean", "m2", "n")
        return tuple(self.cse.generate(self._after, ir.member(joined, f), dtype=dtype) for f in fields)

    def _reduce_place(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Values) -> CSEVariable:
        ctype = compute_type(src_dtype)
        if isinstance(value, tuple):
            value, index = value
        else:
            entry = self.range_trees[-1].full_range()
            entry.codegen()
            index = self.place(entry.symbol())
        worst = types.bound(types.of(src_dtype), above=kind == "argmin")
        name = self._accumulator(f"Place<{ctype}>", f"{worst}, {_NO_PLACE}")
        op = f"Better<{'true' if kind == 'argmax' else 'false'}>"
        at = index if isinstance(index, Expr) else str(index)
        self._accumulate(name, op, ir.struct(f"Place<{ctype}>", ir.cast(ctype, str(value)), at))
        return self.cse.generate(self._after, ir.result(name, op, ".index"), dtype=dtype)

    def scan(
        self, dtypes: tuple[torch.dtype, ...], combine_fn: Callable[..., object], values: tuple[CSEVariable, ...]
    ) -> tuple[CSEVariable, ...]:
        assert self.inside_reduction and not self.mask_depth
        keys = [f"scan {id(combine_fn)} {[str(v) for v in values]} {i}" for i in range(len(dtypes))]
        if not self.cse.contains(keys[0]):  # each of several results asks for all
            scan = Scan(self, len(self._scans), dtypes)
            self._scans.append(scan)
            self._declarations.append(ir.Accumulator(scan.carry, f"Carry<{scan.struct}>", ""))
            for key, result in zip(keys, scan.write(combine_fn, values), strict=True):
                self.cse.put(key, result)
        return tuple(self.cse.get(key) for key in keys)

    # ---- stages

    def codegen_iteration_ranges_entry(self, entry: IterationRangesEntry) -> None:
        (self.r if entry.root.is_reduction else self.x).entries.add(entry)

    def codegen_body(self) -> None:
        """End a stage: called wherever a loop over the reduced range begins or ends."""
        parts = (self.loads, self.compute, self.stores, self._declarations, self._after)
        if not any(parts):
            return
        body = [*self.loads, *self.compute, *self.stores]
        self.stages.append(Stage(self.inside_reduction, [*self._declarations], body, [*self._after]))
        for part in parts:
            part.clear()
        if not self.features.is_reduction():
            return
        if self.inside_reduction:
            self.cse.invalidate(self._kept)
            self._checked.clear()
        else:
            self._kept.update(v for v in self.cse._cache.values() if isinstance(v, CSEVariable))

    # ---- text

    def codegen_kernel(self, name: str = "KERNEL_NAME") -> str:
        self.codegen_body()
        for stage in self.stages:
            for part in (stage.body, stage.after):
                part[:] = [n for n in part if not (isinstance(n, Store) and is_buffer_removed(n.buffer))]
        self.steps = {k: s for k, s in self.steps.items() if not (s.buffer and is_buffer_removed(s.buffer))}
        nest = forms.nest(self)
        self.groups, self.items = nest.groups, nest.form.items
        fields = self._parameters()
        code = IndentedBuffer()
        for scan in self._scans:
            code.writelines(line.replace("KERNEL_NAME", name) for line in scan.declaration())
        code.splice(printer.source(nest.kernel(name, fields), named=True))
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

    def call_kernel(self, name: str, node: object = None, deallocate_ws: bool = True) -> None:
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
