"""Follows which values differ between the items of a sub-group, or of a work-group, through a function and its branches.

A value's differences are bits: LANES between the items of a sub-group, GROUPS between the sub-groups of a work-group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.lint_collectives.source import PAIRS, Function, Token, Tokens, closing, declared, outside, params_of, split

if TYPE_CHECKING:
    from tools.lint_collectives.program import Program

LANES, GROUPS = 1, 2
PRIMITIVE = re.compile(
    r"\w+_over_group|(?:any|all|none)_of_group|joint_(?:any_of|all_of|none_of|reduce|\w+_scan)|group_broadcast|group_barrier"
    r"|select_from_group|permute_group_by_xor|shift_group_(?:left|right)|__spirv_ControlBarrier|__spirv_Group\w+"
    r"|__spirv_Subgroup\w+"
)
# Of these every item has the same result.
SAME = re.compile(
    r"reduce_over_group|(?:any|all|none)_of_group|joint_(?:any_of|all_of|none_of|reduce)|group_broadcast|group_barrier"
    r"|__spirv_GroupBroadcast|__spirv_Group(?:All|Any|[FISU](?:Add|Min|Max))|__spirv_ControlBarrier"
)
LANE_SOURCES = frozenset(
    [
        "get_local_id",
        "get_local_linear_id",
        "get_global_id",
        "get_global_linear_id",
        "__spirv_BuiltInLocalInvocationId",
        "__spirv_BuiltInGlobalInvocationId",
        "__spirv_BuiltInGlobalLinearId",
        "__spirv_BuiltInLocalInvocationIndex",
    ]
)
OWN_LANE = frozenset(["__spirv_BuiltInSubgroupLocalInvocationId"])
LANE_NAMES = frozenset(["lane"])  # of parameters
ASSIGN = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="])
# A parameter that is called -> (differences of the branch that it is called in, of the arguments that it gets).
Calls = dict[int, tuple[int, list[int]]]


@dataclass
class Lambda:
    params: list[str]
    body: Tokens


class Walk:
    """One way through a function: in the order of its text, loops until nothing changes."""

    def __init__(self, program: Program, f: Function, arguments: list[int] | None, report: bool) -> None:
        self.program, self.f, self.report = program, f, report
        given = arguments or []
        self.state: dict[str, int] = {}
        for i, name in enumerate(f.params):
            taint = given[i] if i < len(given) else 0
            self.state[name] = taint | (LANES | GROUPS if name in LANE_NAMES else 0)
        self.lambdas: dict[str, Lambda] = {}
        self.arrays: set[str] = set()
        self.groups: set[str] = set()
        self.calls: Calls = {}
        self.branch = 0
        self.result = 0
        self.depth = 0
        self.supposed = False  # arguments are no caller's: fields stay as they are
        self.locals: set[str] = set(f.params)
        self.types: dict[str, str] = dict(zip(f.params, f.types, strict=True))
        self.own_fields = set(program.fields.get(f.owner, ())) if f.owner else set()
        self.exits: dict[str, int] = {}

    def run(self) -> int:
        for part in split(self.f.inits, ",") if self.f.inits else []:
            if len(part) > 2:
                self._field(self.f.owner, part[0].name, self.value(part[2:-1]))
        self.block(self.f.body)
        return self.result

    # ---- statements

    def block(self, tokens: Tokens) -> None:
        at = 0
        saved = self.branch
        while at < len(tokens):
            self.exits, outer = {}, self.exits
            at = self.statement(tokens, at)
            for kind, taint in self.exits.items():
                self.branch |= taint
                outer[kind] = outer.get(kind, 0) | taint
            self.exits = outer
        self.branch = saved

    def statement(self, tokens: Tokens, at: int) -> int:
        """Goes through the statement at `at`; returns where the next begins."""
        t = tokens[at]
        if t.text == "{":
            end = closing(tokens, at)
            self.block(tokens[at + 1 : end])
            return end + 1
        if t.text == "if":
            return self._if(tokens, at)
        if t.text in ("for", "while", "switch"):
            end = closing(tokens, at + 1)
            head = tokens[at + 2 : end]
            after = self._end(tokens, end + 1)
            body = tokens[end + 1 : after]
            if t.text == "switch":
                self._branch(self._condition(head, t.line), body)
            else:
                self._loop(t, head, body)
            return after
        if t.text == "do":
            after = self._end(tokens, at + 1)
            body = tokens[at + 1 : after]
            end = closing(tokens, after + 1)
            self._loop(t, tokens[after + 2 : end], body)
            return end + 2
        if t.text in ("case", "default"):
            while tokens[at].text != ":":
                at += 1
            return at + 1
        end = min(self._end(tokens, at), len(tokens))  # a body of one expression has no end of its own
        text = tokens[at : end - 1] if tokens[end - 1].text == ";" else tokens[at:end]
        if t.text == "return":
            if len(text) > 1 and text[1].text == "{":
                self.result |= self._made(self.f.returns if self.depth == 0 else "", text[2:-1]) | self.branch
            else:
                self.result |= self.value(text[1:]) | self.branch
            self._leave("return")
        elif t.text in ("break", "continue"):
            self._leave(t.text)
        elif t.text not in ("using", "typedef", "static_assert", "struct") and text:
            self.declaration(text)
        return end

    def _leave(self, kind: str) -> None:
        if self.branch:
            self.exits[kind] = self.exits.get(kind, 0) | self.branch

    def _end(self, tokens: Tokens, at: int) -> int:
        """Behind the statement at `at`."""
        if at >= len(tokens):
            return at
        t = tokens[at]
        if t.text == "{":
            return closing(tokens, at) + 1
        if t.text in ("if", "for", "while", "switch"):
            start = at + 2 if t.text == "if" and tokens[at + 1].text == "constexpr" else at + 1
            after = self._end(tokens, closing(tokens, start) + 1)
            while t.text == "if" and after < len(tokens) and tokens[after].text == "else":
                after = self._end(tokens, after + 1)
            return after
        while at < len(tokens) and tokens[at].text != ";":
            at = closing(tokens, at) + 1 if tokens[at].text in PAIRS else at + 1
        return at + 1

    def _condition(self, tokens: Tokens, line: int) -> int:
        parts = split(tokens, ";")
        for part in parts[:-1]:
            if part:
                self.declaration(part)
        taint = self.declaration(parts[-1]) if parts[-1] else 0
        mark = self.program.mark(self.f.file, line)
        return taint if mark is None else taint & mark

    def _if(self, tokens: Tokens, at: int) -> int:
        constant = tokens[at + 1].text == "constexpr"
        start = at + 2 if constant else at + 1
        end = closing(tokens, start)
        taint = 0 if constant else self._condition(tokens[start + 1 : end], tokens[at].line)
        after = self._end(tokens, end + 1)
        other = self._end(tokens, after + 1) if after < len(tokens) and tokens[after].text == "else" else after
        before = dict(self.state)
        self._branch(taint, tokens[end + 1 : after])
        then = self.state
        self.state = before
        if other > after:
            self._branch(taint, tokens[after + 1 : other])
        self._join(then)
        return other

    def _branch(self, taint: int, body: Tokens) -> None:
        saved = self.branch
        self.branch |= taint
        before = dict(self.state) if taint else None
        self.block(body)
        self.branch = saved
        if before is not None:
            self._join(before)

    def _join(self, other: dict[str, int]) -> None:
        for name, taint in other.items():
            self.state[name] = self.state.get(name, 0) | taint

    def _loop(self, word: Token, head: Tokens, body: Tokens) -> None:
        parts = split(head, ";") if word.text == "for" else [[], head, []]
        if len(parts) == 1:  # for (x : range)
            names, source = [*split(parts[0], ":"), []][:2]
            self.assign(names, self.value(source))
            parts = [[], [], []]
        if parts[0]:
            self.declaration(parts[0])
        outer, saved, leaves = self.exits, self.branch, 0
        for _ in range(6):
            before = dict(self.state)
            self.exits = {}
            mark = self.program.mark(self.f.file, word.line)
            taint = self.value(parts[1]) if parts[1] else 0
            self.branch |= taint if mark is None else taint & mark
            self.block(body)
            if len(parts) > 2 and parts[2]:
                self.declaration(parts[2])
            # Who has left the loop is not in its next round.
            more = self.exits.get("break", 0) | self.exits.get("return", 0)
            leaves |= self.exits.get("return", 0)
            self._join(before)
            stable = self.state == before and not more & ~self.branch
            self.branch |= more
            if stable:
                break
        self.branch, self.exits = saved, outer
        if leaves:
            self.exits["return"] = self.exits.get("return", 0) | leaves

    # ---- expressions

    def declaration(self, tokens: Tokens) -> int:
        taint = 0
        first = True
        for part in split(tokens, ","):
            if not part:
                continue
            taint |= self._declaration(part, first)
            first = False
        return taint

    def _declaration(self, tokens: Tokens, first: bool) -> int:
        flat = outside(tokens)
        place = next((i for i in flat if tokens[i].text in ASSIGN), -1)
        question = next((i for i in flat if tokens[i].text == "?"), len(tokens))
        if 0 < place < question:
            return self._assignment(tokens, place)
        # T name{..}, T name(..), T name[..], T name
        names = [i for i in flat if tokens[i].kind == "name"]
        if (len(names) >= 2 and names[-1] == names[-2] + 1) or (
            len(names) >= 2
            and tokens[names[-1] - 1].text in ("&", "*")
            and names[-1] - 2 == names[-2]
            and tokens[-1].text != ")"
        ):
            at = names[-1]
            name, rest = tokens[at].name, tokens[at + 1 :]
            self.locals.add(name)
            self.types[name] = tokens[names[-2]].name
            if rest and rest[0].text == "[":
                self.arrays.add(name)
                self.state[name] = self.value(rest)
                return 0
            kind = tokens[names[-2]].name
            taint = self._made(kind, rest[1:-1]) if rest and rest[0].text in ("{", "(") else 0
            self.state[name] = taint
            return taint
        return self.value(tokens)

    def _made(self, kind: str, arguments: Tokens) -> int:
        """T{..}: a known struct holds its differences by field."""
        fields = self.program.fields.get(kind) if kind else None
        taints = [self.value(part) for part in split(arguments, ",") if part]
        makers = [f for f in self.program.by_name.get(kind, ()) if f.owner == kind]
        if self.depth < 8:
            for f in makers:
                made = Walk(self.program, f, taints, False)
                made.depth = self.depth + 1
                made.run()
        if makers or fields is None or len(taints) > len(fields):
            return 0 if makers else _all(taints)
        for name, taint in zip(fields, taints, strict=False):
            self._field(kind, name, taint)
        return 0

    def _field(self, owner: str, name: str, taint: int) -> None:
        taints = self.program.field_taints
        key = f"{owner}.{name}"
        if not self.supposed and taint & ~taints.get(key, 0):
            taints[key] = taints.get(key, 0) | taint

    def _assignment(self, tokens: Tokens, place: int) -> int:
        target, rest = tokens[:place], tokens[place + 1 :]
        found = self._lambda(rest)
        if found is not None:
            self.lambdas[declared(target)] = found
            return 0
        if any(t.name == "get_work_group" for t in rest):
            self.groups.add(declared(target))
        kind = target[-2].name if len(target) >= 2 else ""
        if kind:
            self.types[declared(target)] = kind
        taint = self._made(kind, rest[1 : closing(rest, 0)]) if rest and rest[0].text == "{" else self.value(rest)
        if tokens[place].text != "=":
            taint |= self.value(target)
        mark = self.program.mark(self.f.file, tokens[0].line)
        branch = self.branch
        if mark is not None:
            taint, branch = taint & mark, branch & mark
        self.assign(target, taint | branch)
        return taint

    def assign(self, target: Tokens, taint: int) -> None:
        if not target:
            return
        if target[-1].text == "]" and target[0].text in ("auto", "const") and target[-2].kind == "name":
            start = max(i for i, t in enumerate(target) if t.text == "[")
            for t in target[start:]:
                if t.kind == "name":
                    self.state[t.name] = taint
            return
        flat = [target[i] for i in outside(target)]
        if any(t.text in (".", "->") for t in flat):
            base = next((t.name for t in flat if t.kind == "name"), "")
            through = flat[0].text == "*" or any(t.text == "->" for t in flat)
            if not through and base in self.locals and not (target[-1].text == "]" and base in self.f.params):
                self.state[base] = self.state.get(base, 0) | taint
            return
        if target[0].text == "*" or (target[0].text == "(" and target[-1].text in (")", "]")):
            self.value(target)
            return
        name = declared(target)
        if target[-1].text == "]":
            self.value(target)
            if len([t for t in flat if t.kind == "name"]) > 1:  # T x[n] = ..
                self.arrays.add(name)
                self.locals.add(name)
                self.state[name] = taint
            elif name in self.arrays:
                self.state[name] = self.state.get(name, 0) | taint
            return
        if name in self.own_fields and name not in self.locals:
            self._field(self.f.owner, name, taint)
            return
        if len([t for t in flat if t.kind == "name"]) > 1 or name not in self.state:
            self.locals.add(name)
        self.state[name] = taint

    def value(self, tokens: Tokens) -> int:
        """Differences of an expression; goes through the calls in it."""
        if not tokens:
            return 0
        parts = split(tokens, ",")
        if len(parts) > 1:
            return _all([self.value(part) for part in parts])
        flat = [(i, tokens[i].text) for i in outside(tokens) if tokens[i].kind == "op"]
        question = next((i for i, text in flat if text == "?"), -1)
        place = next((i for i, text in flat if text in ASSIGN), -1)
        if place > 0 and (question < 0 or place < question):
            return self._assignment(tokens, place)
        if question >= 0:
            depth, colon = 0, len(tokens)
            for i, text in flat:
                if i > question:
                    depth += (text == "?") - (text == ":")
                    if depth < 0:
                        colon = i
                        break
            taint = self.value(tokens[:question])
            saved = self.branch
            self.branch |= taint
            taint |= self.value(tokens[question + 1 : colon]) | self.value(tokens[colon + 1 :])
            self.branch = saved
            return taint
        for operator in ("||", "&&"):
            if any(text == operator for _, text in flat):
                saved, taint = self.branch, 0
                for part in split(tokens, operator):
                    taint |= self.value(part)
                    self.branch = saved | taint
                self.branch = saved
                return taint
        return self._terms(tokens)

    def _terms(self, tokens: Tokens) -> int:
        taint, at = 0, 0
        while at < len(tokens):
            t = tokens[at]
            after = tokens[at + 1].text if at + 1 < len(tokens) else ""
            if t.kind == "name" and after == "(":
                end = closing(tokens, at + 1)
                receiver = 0
                if at and tokens[at - 1].text in (".", "->"):
                    receiver = taint
                taint |= self.call(t, tokens[at + 2 : end], receiver, tokens[:at])
                at = end + 1
                continue
            if t.kind == "name" and after == "{":
                end = closing(tokens, at + 1)
                taint |= self._made(t.name, tokens[at + 2 : end])
                at = end + 1
                continue
            if t.kind == "name":
                member = at and tokens[at - 1].text in (".", "->")
                if member:
                    owner = self.f.owner if tokens[at - 2].text == "this" else self.types.get(tokens[at - 2].name, "")
                    taint |= self.program.field_taints.get(f"{owner}.{t.name}", 0)
                elif t.name in self.own_fields and t.name not in self.locals:
                    taint |= self.program.field_taints.get(f"{self.f.owner}.{t.name}", 0)
                else:
                    taint |= self.state.get(t.name, 0) | (LANES if t.name in OWN_LANE else 0)
            elif t.text == "[" and (
                at == 0 or (tokens[at - 1].kind != "name" and tokens[at - 1].text not in (")", "]"))
            ):
                found = self._lambda(tokens[at:])
                if found is not None:
                    self.invoke(found, [], 0)
                    return taint
            elif t.text in PAIRS:
                end = closing(tokens, at)
                taint |= self.value(tokens[at + 1 : end])
                at = end + 1
                continue
            elif t.text in ("++", "--"):
                neighbour = tokens[at + 1] if at + 1 < len(tokens) and tokens[at + 1].kind == "name" else tokens[at - 1]
                if self.branch and neighbour.name in self.state:
                    self.state[neighbour.name] |= self.branch
            at += 1
        return taint

    def _lambda(self, tokens: Tokens) -> Lambda | None:
        if not tokens or tokens[0].text != "[":
            return None
        at = closing(tokens, 0) + 1
        params: list[str] = []
        if at < len(tokens) and tokens[at].text == "(":
            end = closing(tokens, at)
            params = params_of(tokens[at + 1 : end])[0]
            at = end + 1
        while at < len(tokens) and tokens[at].text != "{":
            at = closing(tokens, at) + 1 if tokens[at].text == "(" else at + 1
        if at >= len(tokens):
            return None
        return Lambda(params, tokens[at + 1 : closing(tokens, at)])

    def invoke(self, found: Lambda, arguments: list[int], branch: int) -> int:
        """Runs the body where the lambda is called."""
        if self.depth > 8:
            return LANES | GROUPS
        hidden = {name: self.state.get(name) for name in found.params}
        for i, name in enumerate(found.params):
            taint = arguments[i] if i < len(arguments) else 0
            self.state[name] = taint | (LANES | GROUPS if name in LANE_NAMES else 0)
        saved = self.branch, self.result, self.exits
        self.branch |= branch
        self.result, self.exits = 0, {}
        before = dict(self.state)
        self.depth += 1
        self.block(found.body)
        self.depth -= 1
        result = self.result
        self.branch, self.result, self.exits = saved
        self._join(before)
        for name, old in hidden.items():
            if old is None:
                self.state.pop(name, None)
            else:
                self.state[name] = old
        return result

    def call(self, t: Token, arguments: Tokens, receiver: int, before: Tokens) -> int:
        name = t.name
        parts = split(arguments, ",") if arguments else []
        callables = {i: self._callable(part) for i, part in enumerate(parts)}
        taints = [0 if callables[i] is not None else self.value(part) for i, part in enumerate(parts)]
        if name in self.lambdas:
            return self.invoke(self.lambdas[name], taints, 0)
        if name in self.f.params and name not in self.program.by_name:
            self._note(self.f.params.index(name), self.branch, taints)
            return _all(taints)
        of_sub_group = (
            bool(before)
            and before[-1].text in (".", "->")
            and any(
                x.name in ("get_sub_group", "sg", "sub_group") or (x.name in ("group",) and x.name not in self.groups)
                for x in before[-4:]
            )
        )
        if name in LANE_SOURCES:
            return LANES if of_sub_group else LANES | GROUPS
        if name in ("get_group_linear_id", "get_group_id") and of_sub_group:
            return GROUPS
        candidates = self.program.candidates(name, len(parts), self.f.file)
        if PRIMITIVE.fullmatch(name):
            wide = bool(parts) and any(x.name == "get_work_group" or x.name in self.groups for x in parts[0])
            self._found(t, LANES | GROUPS if wide else LANES)
            if SAME.fullmatch(name):
                return 0 if wide else _all(taints) & GROUPS
            return LANES | _all(taints)
        if not candidates:
            for given_call in callables.values():
                if isinstance(given_call, Lambda):
                    self.invoke(given_call, [], 0)
            return receiver | _all(taints)
        result = 0
        for f in candidates:
            if id(f) in self.program.collective:
                self._found(t, LANES | GROUPS if id(f) in self.program.group_wide else LANES)
                self._arguments(f, taints)
            summary = self.program.summary(f)
            result |= summary.own | (summary.passes & (_all(taints) | receiver))
            calls = self.program.calls_in(f, taints) if any(part is not None for part in callables.values()) else {}
            for i, handed in callables.items():
                branch, given = calls.get(i, (0, []))
                if isinstance(handed, Lambda):
                    result |= summary.passes & self.invoke(handed, given, branch)
                elif handed is not None and i in calls:
                    self._note(handed, self.branch | branch, given)
        return result

    def _callable(self, tokens: Tokens) -> Lambda | int | None:
        """A lambda, or the number of the parameter that is handed on."""
        found = self._lambda(tokens)
        if found is not None:
            return found
        if len(tokens) == 1 and tokens[0].name in self.lambdas:
            return self.lambdas[tokens[0].name]
        if len(tokens) == 1 and tokens[0].name in self.f.params and self.state.get(tokens[0].name) == 0:
            return self.f.params.index(tokens[0].name)
        return None

    def _note(self, place: int, branch: int, taints: list[int]) -> None:
        old, given = self.calls.get(place, (0, []))
        size = max(len(given), len(taints))
        joined = [(given[i] if i < len(given) else 0) | (taints[i] if i < len(taints) else 0) for i in range(size)]
        self.calls[place] = (old | branch, joined)

    def _arguments(self, f: Function, taints: list[int]) -> None:
        if not self.report:
            return
        known = self.program.arguments.setdefault(id(f), [0] * len(f.params))
        for i, taint in enumerate(taints):
            known[i] |= taint

    def _found(self, t: Token, scope: int) -> None:
        bad = self.branch & scope
        if bad and self.report:
            level = "sub-group" if bad & LANES else "work-group"
            self.program.report(self.f, t, level)


def _all(taints: list[int]) -> int:
    out = 0
    for taint in taints:
        out |= taint
    return out
