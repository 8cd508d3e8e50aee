"""Reads the text of a Triton IR module into plain objects.

The text is what MLIR prints for the module, with or without locations. Names are made unique: sibling regions of the text
reuse them.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


class Unsupported(Exception):
    """An operation, type or form that is not lowered. `where` is file:line of the user's source where it is known."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where


@dataclass(frozen=True)
class Ty:
    """A value's type: the element's name (f32, i1, ptr<f32>) and the shape of a tensor, None for a scalar."""

    elem: str
    shape: tuple[int, ...] | None = None

    @property
    def pointer(self) -> bool:
        return self.elem.startswith("ptr<")

    @property
    def pointee(self) -> str:
        return self.elem[4:-1]

    @property
    def dims(self) -> tuple[int, ...]:
        return self.shape or ()

    @property
    def numel(self) -> int:
        return math.prod(self.dims)

    def of(self, elem: str) -> Ty:
        return Ty(elem, self.shape)


@dataclass
class Block:
    label: str
    args: list[tuple[str, Ty]] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass(eq=False)
class Op:
    """One operation. `words` are the bare words between name and type, `targets` the successors of a branch."""

    name: str
    results: list[str]
    operands: list[str]
    attrs: dict[str, str] = field(default_factory=dict)
    types: list[Ty] = field(default_factory=list)
    in_types: list[Ty] = field(default_factory=list)
    regions: list[list[Block]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    targets: list[tuple[str, list[str]]] = field(default_factory=list)
    text: str = ""
    where: str = ""

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute such as `axis = 0 : i32`."""
        found = self.attrs.get(name)
        return default if found is None else int(found.split(":")[0])

    @property
    def volatile(self) -> bool:
        """Whether a load reads what another thread may just have written."""
        return self.attrs.get("isVolatile", "").startswith("true") or self.attrs.get("cacheModifier") == "cv"

    def fail(self, why: str = "") -> Unsupported:
        return Unsupported(f"{self.name}{': ' + why if why else ''}", self.where)

    def walk(self) -> Iterator[Op]:
        yield self
        for blocks in self.regions:
            for block in blocks:
                for op in block.ops:
                    yield from op.walk()


@dataclass
class Function:
    name: str
    public: bool
    args: list[tuple[str, Ty]]
    blocks: list[Block]

    def walk(self) -> Iterator[Op]:
        for block in self.blocks:
            for op in block.ops:
                yield from op.walk()


# ---- types


def parse_type(text: str) -> Ty:
    """The type of this text.

    Raises:
        Unsupported: for descriptors, pointers to tensors and everything else that no value of ours can have.
    """
    text = text.strip()
    if text.startswith("tensor<"):
        body, dims = text[7:-1], []
        while m := re.match(r"(\d+)x", body):
            dims.append(int(m[1]))
            body = body[m.end() :]
        return Ty(parse_type(split_top(body)[0]).elem, tuple(dims))
    if text.startswith("!tt.ptr<"):
        inner = parse_type(split_top(text[8:-1])[0])
        if inner.shape is not None:
            raise Unsupported("a pointer to a block")
        return Ty(f"ptr<{inner.elem}>")
    if re.fullmatch(r"bf16|f\d+|i\d+|f8\w+|f\d+E\w+", text):
        return Ty(text)
    if text == "index":
        return Ty("i64")
    raise Unsupported(f"type {text}")


_OPEN, _CLOSE = "<([{", ">)]}"


def _levels(text: str) -> Iterator[tuple[int, str, int]]:
    """(position, character, depth of brackets around it), strings passed over."""
    depth, quoted = 0, False
    for i, c in enumerate(text):
        if quoted:
            quoted = c != '"' or text[i - 1] == "\\"
            continue
        if c == '"':
            quoted = True
            continue
        arrow = c == ">" and i > 0 and text[i - 1] == "-"
        if c in _CLOSE and not arrow:
            depth -= 1
        yield i, c, depth
        if c in _OPEN:
            depth += 1


def _closing(text: str, opened: int) -> int:
    """Where the parenthesis is closed that stands at `opened`."""
    return next(opened + i for i, c, depth in _levels(text[opened:]) if c == ")" and depth == 0)


def split_top(text: str, separator: str = ",") -> list[str]:
    """The parts between separators that stand in no bracket."""
    out, start = [], 0
    for i, c, depth in _levels(text):
        if c == separator and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    if text[start:].strip():
        out.append(text[start:].strip())
    return out


def _type_list(text: str) -> list[Ty]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return [parse_type(t) for t in split_top(text)]


def _split_colon(text: str) -> tuple[str, str]:
    """The text before and after the last colon outside of brackets."""
    at = [i for i, c, depth in _levels(text) if c == ":" and depth == 0]
    return (text[: at[-1]].strip(), text[at[-1] + 1 :].strip()) if at else (text.strip(), "")


def _attributes(text: str) -> dict[str, str]:
    out = {}
    for item in split_top(text):
        key, _, value = item.partition("=")
        out[key.strip().strip('"')] = value.strip()
    return out


def _take_location(line: str) -> tuple[str, str]:
    """The line without its locations, and the last of them."""
    last = ""
    while (at := line.find(" loc(")) >= 0:
        end = _closing(line, at + 4)
        last = line[at + 5 : end]
        line = line[:at] + line[end + 1 :]
    return line.rstrip(), last


_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"((?:%[\w$.-]+(?::\d+)?(?:, )?)+) = (.*)$")
_FIRST = "^first"


def _match(pattern: str, text: str, line: str) -> re.Match[str]:
    if (m := re.match(pattern, text)) is None:
        raise Unsupported(f"`{line}`")
    return m


class _Parser:
    def __init__(self, text: str) -> None:
        self.aliases: dict[str, str] = {}
        self.lines: list[tuple[str, str]] = []
        for raw in text.splitlines():
            line = raw.strip()
            if m := re.match(r"(#loc\d*) = loc\((.*)\)$", line):
                self.aliases[m[1]] = m[2]
            elif line and not line.startswith(("//", "#", "!", "module", "{-#")):
                self.lines.append(_take_location(re.sub(r"\s*// (pred|\d+ pred).*$", "", line)))
        self.at = 0
        self.closer = ("", "")

    def where(self, location: str) -> str:
        """file:line, of the innermost frame of a call."""
        for _ in range(20):
            if m := re.search(r'"([^"]*)":(\d+):\d+', location):
                return f"{m[1]}:{m[2]}"
            if m := re.search(r"#loc\d*", location):
                location = self.aliases.get(m[0], "")
            else:
                break
        return ""

    def functions(self) -> dict[str, Function]:
        out = {}
        while self.at < len(self.lines):
            if self.lines[self.at][0].startswith("tt.func"):
                f = self.function()
                out[f.name] = f
            else:
                self.at += 1
        return out

    def function(self) -> Function:
        line = self.lines[self.at][0]
        m = _match(r'tt\.func (public |private )?@("[^"]*"|[\w.$]+)\(', line, line)
        end = _closing(line, m.end() - 1)
        args = []
        for a in split_top(line[m.end() : end]):
            name, _, rest = a.partition(":")
            args.append((name.strip(), parse_type(split_top(rest.split("{")[0])[0])))
        self.at += 1
        name = m[2].strip('"')
        if not line.endswith("{"):  # a declaration
            return Function(name, False, args, [])
        return Function(name, m[1] == "public ", args, self.region([Block("^entry", args)]))

    def region(self, blocks: list[Block]) -> list[Block]:
        """Blocks up to the line that closes the region, which is left in `closer`."""
        while True:
            line, location = self.lines[self.at]
            self.at += 1
            if line.startswith("}"):
                self.closer = line, location
                return blocks
            if line.startswith("^"):
                m = _match(r"(\^\w+)(?:\((.*)\))?:", line, line)
                args = [(a.split(":", 1)[0].strip(), parse_type(a.split(":", 1)[1])) for a in split_top(m[2] or "")]
                if len(blocks) == 1 and blocks[0].label == _FIRST and not blocks[0].ops:
                    blocks[0] = Block(m[1], args)
                else:
                    blocks.append(Block(m[1], args))
                continue
            blocks[-1].ops.append(self.op(line, location))

    def op(self, line: str, location: str) -> Op:
        m = _RESULTS.match(line)
        results: list[str] = []
        body = line
        if m:
            body = m[2]
            for r in m[1].split(","):
                name, _, count = r.strip().partition(":")
                results += [f"{name}#{i}" for i in range(int(count))] if count else [name]
        head = _match(r'"?([\w.]+)"?\s*', body, line)
        name, rest = head[1], body[head.end() :].strip()
        op = Op(name, results, [], text=line)
        handler: Callable[[Op, str], None] = getattr(self, "_" + name.replace(".", "_"), self._plain)
        try:
            handler(op, rest)
        except Unsupported as error:
            raise Unsupported(f"{name}: {error}", error.where or self.where(location)) from None
        op.where = self.where(location or self.closer[1])
        return op

    # ---- operations of the form: operands attributes : types
    def _plain(self, op: Op, rest: str) -> None:
        if rest.endswith("{"):
            raise Unsupported("an unknown operation with a region")
        head, tail = _split_colon(rest)
        m = re.search(r"<?\{(.*)\}>?$", head)
        if m:
            op.attrs = _attributes(m[1])
            head = head[: m.start()].strip()
        op.operands = _VALUE.findall(head)
        for k, v in re.findall(r"(\w+) = (\w+)", head):
            op.attrs.setdefault(k, v)
        op.words = [w for w in re.split(r"[\s,]+", _VALUE.sub(" ", head)) if w]
        if op.name in ("tt.print", "tt.assert") and (m := re.search(r'"((?:[^"\\]|\\.)*)"', head)):
            op.attrs["text"] = m[1]
            op.operands = _VALUE.findall(head[: m.start()] + head[m.end() :])
        ins, outs = _operand_types(tail)
        if op.name == "arith.constant":
            op.attrs["value"] = head
            outs = outs or [Ty("i1")]
        elif op.name in ("arith.cmpi", "arith.cmpf"):
            outs = [ins[0].of("i1")]
        elif op.name == "arith.select":
            outs = [ins[-1]]
        elif op.name == "tt.load":
            outs = [ins[0].of(ins[0].pointee)]
        elif op.name == "tt.addptr":
            outs = [ins[0]]
        elif op.name in ("tt.get_program_id", "tt.get_num_programs"):
            outs = [Ty("i32")]
        elif op.name == "tt.split":
            outs = outs * 2
        elif op.results and len(outs) != len(op.results):
            if not ins or len(set(ins)) != 1:
                raise Unsupported(f"result types of `{op.text}`")
            outs = [ins[0]] * len(op.results)
        op.types, op.in_types = outs if op.results else [], ins

    # ---- operations with regions
    def _combining(self, op: Op, rest: str) -> None:
        m = _match(r"\((.*?)\)\s*(?:<\{(.*)\}>)?\s*\(\{$", rest, op.text)
        op.operands = _VALUE.findall(m[1])
        op.attrs = _attributes(m[2] or "")
        op.regions = [self.region([Block(_FIRST)])]
        ins, outs = _split_colon(self.closer[0].lstrip("})"))[1].split("->", 1)
        op.in_types, op.types = _type_list(ins), _type_list(outs)

    _tt_reduce = _tt_scan = _tt_map_elementwise = _combining

    def _scf_for(self, op: Op, rest: str) -> None:
        m = _match(
            r"(unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)\s*(?:iter_args\((.*?)\) -> \((.*)\))?\s*:?\s*(\w+)?\s*\{$",
            rest,
            op.text,
        )
        pairs = [a.split(" = ") for a in split_top(m[6] or "")]
        op.types = _type_list(m[7] or "")
        op.operands = [m[3], m[4], m[5], *(b.strip() for _, b in pairs)]
        if m[1]:
            op.attrs["unsigned"] = "true"
        args = [(m[2], parse_type(m[8] or "i32"))]
        args += [(a.strip(), t) for (a, _), t in zip(pairs, op.types, strict=True)]
        op.regions = [self.region([Block("^body", args)])]

    def _scf_if(self, op: Op, rest: str) -> None:
        m = _match(r"(%\S+)\s*(?:-> \((.*)\))?\s*\{$", rest, op.text)
        op.operands, op.types = [m[1]], _type_list(m[2] or "")
        op.regions = [self.region([Block("^then")])]
        if "else" in self.closer[0]:
            op.regions.append(self.region([Block("^else")]))

    def _scf_while(self, op: Op, rest: str) -> None:
        m = _match(r"(?:\((.*?)\)\s*)?:\s*\((.*?)\) -> (.*?)\s*\{$", rest, op.text)
        pairs = [a.split(" = ") for a in split_top(m[1] or "")]
        op.operands, op.types = [b.strip() for _, b in pairs], _type_list(m[3])
        args = [(a.strip(), t) for (a, _), t in zip(pairs, _type_list(m[2]), strict=True)]
        before = self.region([Block("^before", args)])
        op.regions = [before, self.region([Block(_FIRST)])]

    def _scf_condition(self, op: Op, rest: str) -> None:
        op.operands = _VALUE.findall(_split_colon(rest)[0])

    def _branch(self, op: Op, rest: str) -> None:
        if op.name == "cf.cond_br":
            cond, _, rest = rest.partition(",")
            op.operands = [cond.strip()]
        for target in split_top(rest):
            m = _match(r"(\^\w+)(?:\((.*)\))?", target, op.text)
            op.targets.append((m[1], _VALUE.findall((m[2] or "").split(" : ")[0])))

    _cf_cond_br = _cf_br = _branch

    def _tt_call(self, op: Op, rest: str) -> None:
        m = _match(r'@("[^"]*"|[\w.$]+)\((.*?)\)\s*(?:\{.*\})?\s*:\s*(.*)$', rest, op.text)
        op.attrs["callee"] = m[1].strip('"')
        op.operands = _VALUE.findall(m[2])
        ins, _, outs = m[3].partition("->")
        op.in_types, op.types = _type_list(ins), _type_list(outs)


def _operand_types(tail: str) -> tuple[list[Ty], list[Ty]]:
    """Types before and after `->` or `to`; where there is neither, the last one is the result's."""
    arrow = [i for i, c, depth in _levels(tail) if c == ">" and tail[i - 1] == "-" and depth == 0]
    if arrow:
        ins, outs = tail[: arrow[-1] - 1].strip(), tail[arrow[-1] + 1 :]
        if ins.startswith("("):
            ins = ins[1:-1]
        return [parse_type(t) for x in split_top(ins, "*") for t in split_top(x)], _type_list(outs)
    if m := re.match(r"(.*)\bto\b(.*)$", tail):
        return _type_list(m[1]), _type_list(m[2])
    types = _type_list(tail)
    return types, types[-1:]


def instance(f: Function, prefix: str) -> Function:
    """A copy of a function whose values have names with this prefix."""
    return _unique(copy.deepcopy(f), prefix)


def _unique(f: Function, prefix: str = "") -> Function:
    """Gives each definition a name of its own."""
    count = 0

    def fresh() -> str:
        nonlocal count
        count += 1
        return f"%{prefix}{count}"

    def region(blocks: list[Block], outer: dict[str, str]) -> None:
        env = dict(outer)
        for b in blocks:  # arguments first: a branch may stand before its target's definition
            new = []
            for name, t in b.args:
                env[name] = fresh()
                new.append((env[name], t))
            b.args = new
        for b in blocks:
            for op in b.ops:
                op.operands = [env[o] for o in op.operands]
                op.targets = [(label, [env[o] for o in values]) for label, values in op.targets]
                for r in op.regions:
                    region(r, env)
                named = [fresh() for _ in op.results]
                env.update(zip(op.results, named, strict=True))
                op.results = named

    region(f.blocks, {})
    if f.blocks:
        f.args = f.blocks[0].args
    return f


def parse(text: str) -> dict[str, Function]:
    """The functions of a module, by name.

    Raises:
        Unsupported: for what the reader does not know.
    """
    return {name: _unique(f) for name, f in _Parser(text).functions().items()}
