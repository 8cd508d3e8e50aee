"""Device code as tokens and functions, as far as the lint needs it: names, calls and control flow, no types."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<space>[^\S\n]+|\n+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<directive>\#(?:\\\n|[^\n])*)
    |(?P<string>u?8?R?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)|(?P<name>[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)
    |(?P<op>\.\.\.|<<=|>>=|->|\+\+|--|&&|\|\||::|[-+*/%&|^<>=!]=|<<|>>|.)""",
    re.S | re.X,
)
PAIRS = {"(": ")", "[": "]", "{": "}"}
# On the line of a statement, a condition or a function's head, or above it.
UNIFORM = re.compile(r"//\s*uniform( over the group)?: \S")


class Token(NamedTuple):
    text: str
    line: int
    kind: str

    @property
    def name(self) -> str:
        """The last part of a qualified name, '' for other tokens."""
        return self.text.rsplit("::", 1)[-1] if self.kind == "name" else ""


Tokens = list[Token]


@dataclass
class Function:
    name: str
    file: str
    params: list[str]
    types: list[str]  # of the parameters, '' where not one name
    least: int  # parameters without a default
    body: Tokens
    inits: Tokens  # of a constructor
    line: int
    owner: str = ""  # its struct
    returns: str = ""  # its type, where that is one name
    kernel: bool = False


@dataclass
class Source:
    file: str
    includes: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)  # by struct, in order
    marks: dict[int, int] = field(default_factory=dict)  # line -> which differences remain, by `uniform:` comments
    macros: list[tuple[int, str]] = field(default_factory=list)


def closing(tokens: Tokens, at: int) -> int:
    """The place of what closes the bracket at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].kind == "op":
            depth += tokens[i].text in PAIRS
            depth -= tokens[i].text in PAIRS.values()
            if depth == 0:
                return i
    return len(tokens) - 1


def split(tokens: Tokens, separator: str) -> list[Tokens]:
    """Parts between separators outside of brackets."""
    parts: list[Tokens] = [[]]
    at = 0
    while at < len(tokens):
        if tokens[at].text in PAIRS:
            end = closing(tokens, at)
            parts[-1] += tokens[at : end + 1]
            at = end + 1
            continue
        if tokens[at].text == separator:
            parts.append([])
        else:
            parts[-1].append(tokens[at])
        at += 1
    return parts


def _angle_end(tokens: Tokens, at: int, parameters: bool) -> int:
    """The place of the > that ends the template arguments which the < at `at` begins; -1 where it is a comparison.

    Parameters of a template may have defaults.
    """
    allowed = {"::", ",", "*", "&", "+", "-", "/", "..."} | ({"="} if parameters else set())
    depth, i = 0, at
    while i < len(tokens):
        t = tokens[i]
        if t.text == "<":
            depth += 1
        elif t.text in (">", ">>"):
            depth -= len(t.text)
            if depth <= 0:
                break
        elif t.text in ("(", "["):
            i = closing(tokens, i)
        elif t.text in ("==", "!="):
            pass
        elif t.kind == "op" and t.text not in allowed:
            return -1
        i += 1
    if i >= len(tokens):
        return -1
    if i + 1 == len(tokens):
        return i
    after = tokens[i + 1]
    return i if after.kind == "name" or after.text in {"(", "{", "::", ")", ",", ";", "&", "*", "..."} else -1


def _without_templates(tokens: Tokens) -> Tokens:
    """Without template parameters and arguments, and without attributes."""
    out: Tokens = []
    at = 0
    while at < len(tokens):
        t = tokens[at]
        if t.text == "[" and at + 1 < len(tokens) and tokens[at + 1].text == "[":
            at = closing(tokens, at) + 1
            continue
        if t.text == "__attribute__":
            at = closing(tokens, at + 1) + 1
            continue
        if t.text == "<" and out and (out[-1].kind == "name" or out[-1].text == "]"):
            end = _angle_end(tokens, at, out[-1].text == "template")
            if end >= 0:
                at = end + 1
                if out[-1].text == "template":
                    out.pop()
                elif at < len(tokens) and tokens[at].text == "::" and at + 1 < len(tokens):
                    # name<..>::rest
                    out[-1] = Token(out[-1].text + "::" + tokens[at + 1].text, out[-1].line, "name")
                    at += 2
                continue
        out.append(t)
        at += 1
    return out


def tokens_of(text: str, source: Source) -> Tokens:
    out: Tokens = []
    line, waiting = 1, -1
    for match in TOKEN.finditer(text):
        kind, value = match.lastgroup or "op", match.group()
        if kind == "comment":
            mark = UNIFORM.match(value)
            if mark:
                waiting = 0 if mark.group(1) else 2
                if out and out[-1].line == line:
                    source.marks[line] = waiting
                    waiting = -1
        elif kind == "directive":
            if value.startswith("#define"):
                source.macros.append((line, value))
            elif value.startswith("#include"):
                source.includes += re.findall(r'"([^"]+)"', value)
        elif kind != "space":
            if waiting >= 0:
                source.marks[line] = waiting
                waiting = -1
            out.append(Token("".join(value.split()) if kind == "name" else value, line, kind))
        if kind in ("space", "comment", "directive", "string"):
            line += value.count("\n")
    return _without_templates(out)


def declared(tokens: Tokens) -> str:
    """The name that a declaration without its initial value gives."""
    while tokens and tokens[-1].text == "]":
        depth = 0
        for i in range(len(tokens) - 1, -1, -1):
            depth += (tokens[i].text == "]") - (tokens[i].text == "[")
            if depth == 0:
                tokens = tokens[:i]
                break
    if tokens and tokens[-1].text == ")":  # T (&x)[n], T (*f)(..)
        inner = [t for t in tokens if t.kind == "name"]
        return inner[-1].name if inner else ""
    return tokens[-1].name if tokens else ""


def params_of(tokens: Tokens) -> tuple[list[str], list[str], int]:
    names, types, least = [], [], 0
    for part in split(tokens, ",") if tokens else []:
        parts = split(part, "=")
        names.append(declared(parts[0]))
        kinds = [t.name for t in parts[0] if t.kind == "name" and t.text != "const"]
        types.append(kinds[0] if len(kinds) == 2 else "")
        least += len(parts) == 1
    return names, types, least


def read(text: str, file: str) -> Source:
    source = Source(file)
    _scope(tokens_of(text, source), source, "")
    return source


def _scope(tokens: Tokens, source: Source, owner: str) -> None:
    """Declarations of a namespace or a struct."""
    at = 0
    while at < len(tokens):
        if (
            tokens[at].text in ("public", "private", "protected")
            and at + 1 < len(tokens)
            and tokens[at + 1].text == ":"
        ):
            at += 2
            continue
        start = at
        while at < len(tokens) and tokens[at].text not in (";", "{"):
            at = closing(tokens, at) + 1 if tokens[at].text in ("(", "[") else at + 1
        head = tokens[start:at]
        if at >= len(tokens):
            return
        if tokens[at].text == ";":
            if owner and head and not any(t.text in ("using", "static", "friend", "(") for t in head):
                source.fields[owner] += [declared(split(part, "=")[0]) for part in split(head, ",")]
            at += 1
            continue
        end = closing(tokens, at)
        body = tokens[at + 1 : end]
        words = [t.text for t in head]
        if "namespace" in words or (words[:1] == ["extern"] and len(words) == 2):
            _scope(body, source, "")
        elif any(w in ("struct", "class", "union") for w in words) and "(" not in words:
            place = max(i for i, w in enumerate(words) if w in ("struct", "class", "union"))
            name = next((t.name for t in head[place + 1 :] if t.kind == "name" and t.text != "alignas"), "")
            source.fields.setdefault(name, [])
            _scope(body, source, name)
        elif "(" in words and "=" not in words[: words.index("(")]:
            end = _function(tokens, start, at, source, owner)
        elif owner and "=" not in words and "enum" not in words:  # T x{..};
            source.fields[owner].append(declared(head))
        at = end + 1
        while at < len(tokens) and tokens[at].text not in (";",) and tokens[at - 1].text != "}":
            at += 1
        if at < len(tokens) and tokens[at].text == ";":
            at += 1


def _function(tokens: Tokens, start: int, brace: int, source: Source, owner: str) -> int:
    """Notes the function whose text begins at `start`; returns the place of its last brace."""
    head = tokens[start:brace]
    flat = outside(head)
    groups = [i for i in flat if head[i].text == "("]
    cut = next((i for i in flat if head[i].text in (":", "->") and i > groups[0]), len(head))
    inits: Tokens = []
    if cut < len(head) and head[cut].text == ":":  # T() : a(b), c{d} { .. }
        at = start + cut + 1
        while at < len(tokens):
            at = closing(tokens, at + 1) + 1  # name and its brackets
            if tokens[at].text != ",":
                break
            at += 1
        inits = tokens[start + cut + 1 : at]
        brace = at
    groups = [g for g in groups if g < cut and head[g - 1].text not in ("noexcept", "decltype", "alignas", "requires")]
    end = closing(tokens, brace)
    if not groups:
        return end
    # XPU_KERNEL(1) name(Args p): the last pair of brackets has the parameters.
    place = groups[-1]
    name = head[place - 1].name if head[place - 1].kind == "name" else "operator"
    if place >= 2 and head[place - 2].name == "operator":
        name = "operator"
    params, types, least = params_of(head[place + 1 : closing(head, place)])
    kernel = any(t.text.startswith("XPU_KERNEL") for t in head)
    returns = head[place - 2].name if place >= 2 else ""
    source.functions.append(
        Function(
            name,
            source.file,
            params,
            types,
            least,
            tokens[brace + 1 : end],
            inits,
            head[0].line,
            owner,
            returns,
            kernel,
        )
    )
    return end


def outside(tokens: Tokens) -> list[int]:
    """The places of tokens that stand in no brackets; an opening bracket is one."""
    out, at = [], 0
    while at < len(tokens):
        out.append(at)
        at = closing(tokens, at) + 1 if tokens[at].text in PAIRS else at + 1
    return out
