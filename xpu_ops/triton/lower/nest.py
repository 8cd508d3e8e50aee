"""Elements of values inside one loop over a block.

The body of a loop is written twice. The first version assumes that comparisons with uniform values hold in all lanes and
that lanes do not cross a multiple of a divisor; `conditions` says when that is so, tested once per 16 elements.
"""

from __future__ import annotations

from collections.abc import Callable

from xpu_ops.block import ir
from xpu_ops.block.ir import FALSE, TRUE, Expr, Node
from xpu_ops.triton.lower import element
from xpu_ops.triton.lower.element import LANE, Element, Index
from xpu_ops.triton.lower.scalar import constant, expression
from xpu_ops.triton.lower.state import Shape, State
from xpu_ops.triton.lower.types import cpp, integer_of, number
from xpu_ops.triton.ttir import Op, Ty

Key = tuple[str, tuple[Index, ...]]
_WIDE_LANE = ir.call("ptrdiff_t", LANE)


class Nest:
    """One position of a loop over `shape`: `ident` are the indices there."""

    def __init__(
        self, state: State, shape: Shape, ident: tuple[Index, ...], flat: Index | None, last_lane: int
    ) -> None:
        self.state, self.shape, self.ident, self.flat, self.last_lane = state, shape, ident, flat, last_lane
        self.before: list[Node] = []  # uniform statements, in front of both versions
        self.body: list[Node] = []
        self.conditions: list[Expr] = []
        self.assume = True
        self.results: dict[Expr, Expr] = {}  # where the element of an array is put instead
        self.scattered = 0  # accesses whose lanes are not neighbours in memory
        self._shared: dict[Key, Element] = {}
        self._memo: dict[Key, Element] = {}

    def version(self, assume: bool) -> None:
        """Begin the first or the second version of the body."""
        self.assume, self.body, self._memo = assume, [], {}

    # ---- code
    def name(self, elem: str, code: Expr, uniform: bool) -> Expr:
        """A constant for a value."""
        if code.op in ("name", "constant"):
            return code
        return self.state.let(elem, code, into=self.before if uniform else self.body)

    def code(self, e: Element) -> Expr:
        """The element itself."""
        if e.exact is not None:
            return e.exact
        if not e.step:
            return e.code
        if e.elem.startswith("ptr<"):
            return e.code + ir.value(e.step) * _WIDE_LANE
        T = cpp(e.elem)
        return ir.call(f"tri::add<{T}>", e.code, ir.call(T, LANE if e.step == 1 else ir.value(e.step) * _WIDE_LANE))

    def place(self, e: Element) -> Expr:
        """The memory a pointer points to."""
        self.scattered += e.step not in (0, 1)
        if e.step:
            return ir.at(e.code, LANE if e.step == 1 else ir.value(e.step) * _WIDE_LANE)
        return ir.pointed(e.code)

    def array_place(self, array: Expr, idx: tuple[Index, ...], shape: Shape) -> tuple[Expr, bool]:
        """An element of an array, and whether it is the same for all lanes."""
        at = self.flat if self.flat is not None and idx == self.ident and shape == self.shape else None
        at = at or element.offset(idx, shape)
        self.scattered += at.step not in (0, 1)
        if at.step == 1:
            return ir.at(array + at.code, LANE), False
        return ir.at(array, at.value), at.step == 0

    # ---- values
    def define(self, name: str, e: Element) -> None:
        """The element of a value that the loop itself computes."""
        self._memo[name, self.ident] = e

    def get(self, name: str, idx: tuple[Index, ...] | None = None) -> Element:
        """The element of a value at these indices, by default where the loop is."""
        idx = self.ident if idx is None else idx
        v = self.state.values[name]
        if v.kind == "scalar":
            return Element(v.code, v.ty.elem)
        key = (name, idx)
        found = self._memo.get(key) or self._shared.get(key)
        if found is None:
            found = self._compute(name, idx)
            before = found.step is not None and not found.assumed and not found.exact  # its code is
            (self._shared if before else self._memo)[key] = found
        return found

    def _compute(self, name: str, idx: tuple[Index, ...]) -> Element:
        v = self.state.values[name]
        if v.kind == "array":
            place, uniform = self.array_place(v.code, idx, v.ty.dims)
            return Element(self.name(v.ty.elem, place, uniform), v.ty.elem, 0 if uniform else None)
        if v.kind == "moved":
            return self._moved(v.ty, self.get(v.init, idx), v.code)
        if v.kind != "lazy" or v.op is None:
            raise AssertionError(f"{name} is {v.kind} and used before its loop")
        op = v.op
        if op.name == "tt.load":
            return self.load(op, idx)
        if op.name == "arith.constant":
            return Element(constant(op), op.types[0].elem, small=True)
        if op.name == "tt.split":
            return self.get(op.operands[0], (*idx, element.const(op.results.index(name))))
        view = _VIEWS.get(op.name)
        return view(self, op, idx) if view else self.apply(op, [self.get(o, idx) for o in op.operands])

    def load(self, op: Op, idx: tuple[Index, ...] | None = None) -> Element:
        """The element that a tt.load reads, or that its copy has."""
        copy = self.state.values[op.results[0]].copy
        pointer = self.get(op.operands[0], idx)
        mask = self.mask(self.get(op.operands[1], idx) if len(op.operands) > 1 else None)
        place = self.place(pointer)
        if copy is not None:
            at = element.offset(idx or self.ident, self.shape)
            if pointer.step == 1 == at.step:
                place = ir.at(ir.choice(copy[0], pointer.code, copy[1] + at.code), LANE)
            else:
                place = ir.choice(copy[0], place, ir.at(copy[1], at.value))
        elem = op.types[0].elem
        if mask == TRUE:
            return Element(self.state.let(elem, place, into=self.body), elem, None)
        other = self.code(self.get(op.operands[2], idx)) if len(op.operands) > 2 else ir.call(cpp(elem), 0)
        out = self.state.variable(elem, value=other, into=self.body)
        if mask != FALSE:
            self.body.append(ir.Put(out, place, when=mask))
        return Element(out, elem, None)

    def _moved(self, ty: Ty, e: Element, by: Expr) -> Element:
        if ty.pointer:
            code, step = e.code + by, e.step
        else:
            code = ir.call(f"tri::add<{cpp(ty.elem)}>", self.code(e) if e.exact is not None else e.code, by)
            step = None if e.exact is not None else e.step
        return Element(self.name(ty.elem, code, step is not None), ty.elem, step).taking(e)

    # ---- elementwise operations
    def apply(self, op: Op, args: list[Element]) -> Element:
        """The result of an elementwise operation on these elements."""
        special = _FORMS.get(op.name)
        if special is not None and (e := special(self, op, args)) is not None:
            return e.taking(*args)
        out = op.types[0]
        uniform = all(a.uniform for a in args)
        code = expression(op, [self.code(a) for a in args], [Ty(a.elem) for a in args], out)
        return Element(self.name(out.elem, code, uniform), out.elem, 0 if uniform else None).taking(*args)

    def no_wrap(self, e: Element) -> list[Expr]:
        """Conditions under which code + step * lane is what it says."""
        if e.small:
            return []
        bits = 64 if e.elem == "i64" else 32
        far = self.last_lane * (e.step or 0)
        if far > 0:
            return [ir.infix("<=", e.code, ir.name(f"INT{bits}_MAX") - far), *e.guard]
        return [ir.infix(">=", e.code, ir.name(f"INT{bits}_MIN") + -far), *e.guard]

    def mask(self, e: Element | None) -> Expr:
        """A mask; a uniform one is assumed to hold in the first version."""
        if e is None:
            return TRUE
        if self.assume and e.uniform and e.code not in (TRUE, FALSE):
            self.conditions.append(e.code)
            return TRUE
        return self.code(e)


def _sum(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    a, b = args
    elem = op.types[0].elem
    if elem not in ("i32", "i64") or a.step is None or b.step is None or (a.uniform and b.uniform):
        return None
    sign = -1 if op.name == "arith.subi" else 1
    function, exact = f"tri::{'sub' if sign < 0 else 'add'}<{cpp(elem)}>", None
    code = nest.name(elem, ir.call(function, a.code, b.code), True)
    if a.exact is not None or b.exact is not None:
        exact = ir.call(function, nest.code(a), nest.code(b))
        if len(exact.text) > 200:
            exact = nest.name(elem, exact, False)
    return Element(code, elem, a.step + sign * b.step, exact, (*a.guard, *b.guard))


def _product(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    elem = op.types[0].elem
    if elem not in ("i32", "i64") or all(a.uniform for a in args):
        return None
    a, b = args if args[1].uniform else (args[1], args[0])
    factor = integer_of(b.code) if b.uniform else None
    if factor is not None and op.name == "arith.shli":
        if args[0] is not a or not 0 <= factor < 31:
            return None
        factor = 1 << factor
    if a.step is None or factor is None or a.exact is not None or abs(a.step * factor) > 1 << 20:
        return None
    code = nest.name(elem, ir.call(f"tri::mul<{cpp(elem)}>", a.code, number(factor, elem)), True)
    return Element(code, elem, a.step * factor)


def _address(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    p, by = args
    if p.step is None or by.step is None or by.elem in ("i8", "i16"):
        return None
    elem = op.types[0].elem
    return Element(nest.name(elem, p.code + by.code, True), elem, p.step + by.step)


def _widen(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    a = args[0]
    if not a.step or op.types[0].elem != "i64" or a.elem != "i32":
        return None
    code = nest.name("i64", ir.call("int64_t", a.code), True)
    if a.small:
        return Element(code, "i64", a.step, small=True)
    return Element(code, "i64", a.step, ir.call("int64_t", nest.code(a)), tuple(nest.no_wrap(a)))


def _widen_unsigned(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    return _widen(nest, op, args) if args[0].small else None


def _narrow(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    a = args[0]
    if not a.step or a.exact is not None or op.types[0].elem != "i32" or a.elem != "i64":
        return None
    return Element(nest.name("i32", ir.call("int32_t", a.code), True), "i32", a.step)


_MIRROR = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
_SIGN = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}


def _compare(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    a, b = args
    predicate = op.words[0]
    if not nest.assume or predicate not in _SIGN or a.elem not in ("i32", "i64"):
        return None
    if a.uniform and b.step:
        a, b, predicate = b, a, _MIRROR[predicate]
    if not a.step or not b.uniform:
        return None
    sign = _SIGN[predicate]
    far = nest.last_lane * (max(a.step, 0) if sign[0] == "<" else min(a.step, 0))
    nest.conditions += nest.no_wrap(a)
    nest.conditions.append(ir.infix(sign, ir.call("int64_t", a.code) + far, ir.call("int64_t", b.code)))
    return Element(TRUE, "i1", assumed=True)


def _divide(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    a, d = args
    elem = op.types[0].elem
    if not nest.assume or elem not in ("i32", "i64") or not a.step or a.step < 0 or not d.uniform:
        return None
    far = nest.last_lane * a.step
    known = integer_of(d.code)
    if known is not None and known <= far:
        return None
    T = cpp(elem)
    rest = nest.name(elem, ir.call(f"tri::rem_s<{T}>", a.code, d.code), True)
    nest.conditions += [*nest.no_wrap(a), ir.infix(">=", a.code, 0)]
    nest.conditions.append(ir.infix("<", ir.call("int64_t", rest) + far, ir.call("int64_t", d.code)))
    if op.name in ("arith.remsi", "arith.remui"):
        return Element(rest, elem, a.step, assumed=True)
    return Element(nest.name(elem, ir.call(f"tri::div_s<{T}>", a.code, d.code), True), elem, assumed=True)


def _quotient(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    """By one float32 for all lanes: the product with its reciprocal, which is off by 1.5 units in the last place where a
    GPU's `/` may be by 2. tl.div_rn divides."""
    a, d = args
    if op.types[0].elem != "f32" or a.uniform or not d.uniform:
        return None
    scale = nest.name("f32", ir.call("tri::scale_of", d.code), True)
    inverse = nest.name("f32", ir.name("1.0f") // (d.code * scale), True)
    return Element(nest.name("f32", nest.code(a) * scale * inverse, False), "f32", None)


def _both(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    a, b = args
    if op.types[0].elem != "i1":
        return None
    unit, zero = (TRUE, FALSE) if op.name == "arith.andi" else (FALSE, TRUE)
    for x, y in ((a, b), (b, a)):
        if x.code == unit:
            return y
        if x.code == zero:
            return x
    return None


def _select(nest: Nest, op: Op, args: list[Element]) -> Element | None:
    return args[1] if args[0].code == TRUE else args[2] if args[0].code == FALSE else None


_FORMS: dict[str, Callable[[Nest, Op, list[Element]], Element | None]] = {
    "arith.addi": _sum,
    "arith.subi": _sum,
    "arith.muli": _product,
    "arith.shli": _product,
    "tt.addptr": _address,
    "arith.extsi": _widen,
    "arith.extui": _widen_unsigned,
    "arith.trunci": _narrow,
    "arith.cmpi": _compare,
    "arith.divf": _quotient,
    "arith.divsi": _divide,
    "arith.remsi": _divide,
    "arith.divui": _divide,
    "arith.remui": _divide,
    "arith.andi": _both,
    "arith.ori": _both,
    "arith.select": _select,
}


# ---- operations that move elements


def _make_range(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    at = element.add(idx[0], element.const(op.integer("start")))
    if at.known is not None and at.step is not None:
        return Element(number(at.known, "i32"), "i32", at.step, small=True)
    code = nest.name("i32", ir.call("int32_t", at.code), at.step is not None)
    return Element(code, "i32", at.step, small=at.step is not None)


def _splat(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    source = nest.state.values[op.operands[0]]
    return nest.get(op.operands[0], () if source.kind == "scalar" else (element.const(0),) * len(source.ty.dims))


def _expand_dims(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    axis = op.integer("axis")
    return nest.get(op.operands[0], idx[:axis] + idx[axis + 1 :])


def _source_shape(nest: Nest, op: Op) -> Shape:
    return nest.state.values[op.operands[0]].ty.dims


def _broadcast(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    shape = _source_shape(nest, op)
    return nest.get(op.operands[0], tuple(element.const(0) if s == 1 else i for i, s in zip(idx, shape, strict=True)))


def _trans(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    order = [int(x) for x in op.attrs["order"].split(":")[-1].rstrip("> ").split(",")]
    source = [element.const(0)] * len(idx)
    for i, d in zip(idx, order, strict=True):
        source[d] = i
    return nest.get(op.operands[0], tuple(source))


def _reshape(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    shape = op.types[0].dims
    if nest.flat is not None and idx == nest.ident and shape == nest.shape:
        flat = nest.flat
    else:
        flat = element.offset(idx, shape)
    return nest.get(op.operands[0], element.positions(flat, _source_shape(nest, op), nest.last_lane))


def _choose(nest: Nest, which: Expr, uniform: bool, a: Element, b: Element) -> Element:
    code = ir.choice(which, nest.code(b), nest.code(a))
    all_uniform = uniform and a.uniform and b.uniform
    return Element(nest.name(a.elem, code, all_uniform), a.elem, 0 if all_uniform else None).taking(a, b)


def _join(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    last = idx[-1]
    if last.known is not None and last.step == 0:
        return nest.get(op.operands[last.known], idx[:-1])
    a, b = (nest.get(o, idx[:-1]) for o in op.operands)
    return _choose(nest, ir.infix("&", last.value, 1), last.step == 0, a, b)


def _cat(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    n = _source_shape(nest, op)[0]
    half, at = element.split(idx[0], n, nest.last_lane)
    a, b = (nest.get(o, (at, *idx[1:])) for o in op.operands)
    return _choose(nest, ir.infix("!=", half.value, 0), half.step == 0, a, b)


def _gather(nest: Nest, op: Op, idx: tuple[Index, ...]) -> Element:
    at = nest.get(op.operands[1], idx)
    axis = op.integer("axis")
    position = Index(ir.call("size_t", nest.code(at)), 0 if at.uniform else None)
    return nest.get(op.operands[0], (*idx[:axis], position, *idx[axis + 1 :]))


_VIEWS: dict[str, Callable[[Nest, Op, tuple[Index, ...]], Element]] = {
    "tt.make_range": _make_range,
    "tt.splat": _splat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.cat": _cat,
    "tt.gather": _gather,
}
VIEWS = frozenset((*_VIEWS, "tt.split"))
