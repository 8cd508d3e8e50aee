"""All functions that are looked at together: which are collectives, and how arguments and results go between them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tools.lint_collectives.source import Function, Source, Token, Tokens, closing, split
from tools.lint_collectives.walk import GROUPS, LANES, PRIMITIVE, Calls, Walk

PRELUDE = "kernels/sycl/source/generated.hpp"  # of kernels from source


@dataclass
class Summary:
    """Of a function: differences of its result on their own, and those that it lets through from arguments."""

    own: int = 0
    passes: int = LANES | GROUPS


@dataclass(frozen=True, order=True)
class Finding:
    file: str
    line: int
    function: str
    call: str
    level: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.function}: {self.call} is not reached by all items of a {self.level}"


class Program:
    """All sources that are looked at together."""

    def __init__(self, sources: list[Source], base: Program | None = None) -> None:
        self.base = base
        self.by_name: dict[str, list[Function]] = defaultdict(list)
        self.fields: dict[str, list[str]] = dict(base.fields) if base else {}
        self.field_taints: dict[str, int] = dict(base.field_taints) if base else {}
        self.marks = {s.file: s.marks for s in sources}
        self.included: dict[str, set[str]] = included_files(sources) if base is None else base.included
        self.related: dict[str, set[str]] = with_users(self.included) if base is None else dict(base.related)
        self.functions = [f for s in sources for f in s.functions]
        if base:
            # Text of a kernel, compiled after the prelude of kernels from source.
            for s in sources:
                near = {f for f in base.related if any(f.endswith(i) for i in [PRELUDE, *s.includes])}
                self.related[s.file] = {s.file}.union(*(base.included[f] for f in near))
            self.marks.update(base.marks)
            for name, functions in base.by_name.items():
                self.by_name[name] = list(functions)
        for f in self.functions:
            self.by_name[f.name].append(f)
        for s in sources:
            self.fields.update({k: v for k, v in s.fields.items() if v})
        self.summaries: dict[int, Summary] = dict(base.summaries) if base else {}
        self.callbacks: dict[tuple[int, tuple[int, ...]], Calls] = dict(base.callbacks) if base else {}
        self.arguments: dict[int, list[int]] = dict(base.arguments) if base else {}
        self.findings: set[Finding] = set()
        self._find_collectives()

    def candidates(self, name: str, count: int, file: str) -> list[Function]:
        """Functions that a call in the file may mean: of headers that it includes or that include it."""
        near = self.related.get(file)
        fit = [f for f in self.by_name.get(name, ()) if f.least <= count <= len(f.params)]
        return fit if near is None else [f for f in fit if f.file in near]

    def _find_collectives(self) -> None:
        """Helpers that call a collective, by name and number of arguments."""
        calls = [(f, calls_of(f)) for f in self.functions]
        self.collective: set[int] = (
            {id(f) for f in self.base.functions if id(f) in self.base.collective} if self.base else set()
        )
        changed = True
        while changed:
            changed = False
            for f, called in calls:
                if id(f) in self.collective:
                    continue
                if any(
                    PRIMITIVE.fullmatch(n) or any(id(c) in self.collective for c in self.candidates(n, k, f.file))
                    for n, k in called
                ):
                    self.collective.add(id(f))
                    changed = True
        self.group_wide: set[int] = set(self.base.group_wide) if self.base else set()
        changed = True
        while changed:
            changed = False
            for f, called in calls:
                if id(f) not in self.collective or id(f) in self.group_wide:
                    continue
                if takes_group(f.body) or any(
                    id(c) in self.group_wide for n, k in called for c in self.candidates(n, k, f.file)
                ):
                    self.group_wide.add(id(f))
                    changed = True

    def run(self) -> list[Finding]:
        before = None
        while before != (self.arguments, self.field_taints):
            before = ({k: list(v) for k, v in self.arguments.items()}, dict(self.field_taints))
            self.findings.clear()
            for f in self.functions:
                if id(f) in self.collective:
                    Walk(self, f, self.arguments.get(id(f)), True).run()
        return sorted(self.findings)

    def summary(self, f: Function) -> Summary:
        found = self.summaries.get(id(f))
        if found is None:
            found = self.summaries[id(f)] = Summary()
            found.own = Walk(self, f, None, False).run()
            most = Walk(self, f, [LANES | GROUPS] * len(f.params), False)
            most.supposed = True
            found.passes = most.run()
            mark = self.mark(f.file, f.line)
            if mark is not None:
                found.own &= mark
                found.passes &= mark
        return found

    def calls_in(self, f: Function, taints: list[int]) -> Calls:
        """How the function calls its parameters, given such arguments."""
        key = (id(f), tuple(taints))
        found = self.callbacks.get(key)
        if found is None:
            self.callbacks[key] = {}
            walk = Walk(self, f, taints, False)
            walk.supposed = True
            walk.run()
            found = self.callbacks[key] = walk.calls
        return found

    def report(self, f: Function, t: Token, level: str) -> None:
        self.findings.add(Finding(f.file, t.line, f.name, t.name, level))

    def mark(self, file: str, line: int) -> int | None:
        return self.marks.get(file, {}).get(line)


def included_files(sources: list[Source]) -> dict[str, set[str]]:
    """Each file and those that it includes."""
    includes = {
        s.file: [f for f in (t.file for t in sources) if any(f.endswith(i) for i in s.includes)] for s in sources
    }
    closure: dict[str, set[str]] = {}
    for file in includes:
        seen, more = {file}, [file]
        while more:
            for other in includes[more.pop()]:
                if other not in seen:
                    seen.add(other)
                    more.append(other)
        closure[file] = seen
    return closure


def with_users(included: dict[str, set[str]]) -> dict[str, set[str]]:
    """And those that include it: a template calls functions of its arguments."""
    return {file: seen | {other for other in included if file in included[other]} for file, seen in included.items()}


def takes_group(body: Tokens) -> bool:
    """Whether a collective of the body gets a work-group."""
    groups = {
        body[i - 2].name
        for i, t in enumerate(body)
        if t.name == "get_work_group" and i >= 2 and body[i - 1].text == "="
    }
    for i, t in enumerate(body):
        if PRIMITIVE.fullmatch(t.name) and i + 1 < len(body) and body[i + 1].text == "(":
            first = split(body[i + 2 : closing(body, i + 1)], ",")[0]
            if any(x.name == "get_work_group" or x.name in groups for x in first):
                return True
    return False


def calls_of(f: Function) -> set[tuple[str, int]]:
    out = set()
    body = f.body
    for i, t in enumerate(body):
        if t.kind == "name" and i + 1 < len(body) and body[i + 1].text == "(":
            inside = body[i + 2 : closing(body, i + 1)]
            out.add((t.name, len(split(inside, ",")) if inside else 0))
    return out
