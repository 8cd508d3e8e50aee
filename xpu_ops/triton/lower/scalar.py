"""One element of an elementwise operation, by the table of xpu_ops/block/ops.py."""

from __future__ import annotations

from collections.abc import Sequence

from xpu_ops.block import ops
from xpu_ops.block.ir import FALSE, TRUE, Expr
from xpu_ops.block.types import BY_MLIR
from xpu_ops.triton.lower.types import cpp, literal
from xpu_ops.triton.ttir import Op, Ty

_LIBRARY = "tt.extern_elementwise"
ELEMENTWISE = frozenset([".".join(name.split(".")[:2]) for name in ops.MLIR] + [_LIBRARY])
# Operations that cost little more than a load of their result would.
_DEAR = ("arith.divf", "arith.remf", "tt.precise_divf", "tt.precise_sqrt", _LIBRARY)
CHEAP = frozenset(n for n in ELEMENTWISE if n not in _DEAR and not n.startswith("math."))
_TRUTH = {"true": TRUE, "false": FALSE}


def expression(op: Op, operands: Sequence[Expr], types: Sequence[Ty], out: Ty) -> Expr:
    """An element of `out`.

    Raises:
        Unsupported: for an operation that has no expression.
    """
    texts = [o.text if o.atom else f"({o.text})" for o in operands]
    elements = [BY_MLIR.get(t.elem) for t in types]
    if op.name == _LIBRARY:
        texts = [ops.write("{0:wide}", [o], [e]) for o, e in zip(texts, elements, strict=True)]
        template = f"{{T}}({_library(op, types)})"
    else:
        template = _template(op, types, out)
    result = BY_MLIR.get(out.elem)
    text = ops.write(template, texts, elements, T=cpp(out.elem), U=result.unsigned if result else "")
    return _TRUTH.get(text) or Expr(text, op.name, (text, *operands), True)


def _template(op: Op, types: Sequence[Ty], out: Ty) -> str:
    """The entry that says most: by a word of the operation, the first operand and the result."""
    word, to = _word(op), f"to.{out.elem}"
    first = "ptr" if out.pointer or types[0].pointer else types[0].elem
    if word == "rtz" and out.elem.startswith("f8"):
        raise op.fail("rounding towards zero to 8 bits")
    for kind in (f".{word}.{to}", f".{word}.{first}", f".{word}", f".{first}", f".{to}", ""):
        if op.name + kind in ops.MLIR:
            return ops.MLIR[op.name + kind]
    raise op.fail()


def _word(op: Op) -> str:
    """The predicate of a comparison, rtz where a conversion rounds towards zero, all where a clamp keeps NaN."""
    if op.name.startswith("arith.cmp"):
        return op.words[0]
    if op.name == "tt.clampf":
        return "all" if op.attrs.get("propagateNan") == "all" else ""
    return "rtz" if "rtz" in op.words or op.attrs.get("rounding", "") == "rtz" else ""


def _library(op: Op, types: Sequence[Ty]) -> str:
    """A call of a function of CUDA's library."""
    symbol = op.attrs["symbol"].split(" :")[0].strip('"')
    name = symbol.removeprefix("__nv_").removeprefix("__xpu_")
    if name in ops.LIBRARY:
        return ops.LIBRARY[name]
    bare = name if any(t.elem == "f64" for t in types) else name.removesuffix("f")
    if bare not in ops.LIBRARY_FUNCTIONS:
        raise op.fail(f"libdevice function {symbol}")
    return ops.called(ops.LIBRARY_FUNCTIONS[bare], len(types))


def constant(op: Op) -> Expr:
    """The value of an arith.constant, of one element where it is a tensor."""
    try:
        return literal(op.attrs["value"], op.types[0].elem)
    except (ValueError, KeyError):
        raise op.fail(op.attrs.get("value", "")) from None
