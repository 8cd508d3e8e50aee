"""Statements that leave a loop, and values that a row keeps."""

from __future__ import annotations

from collections.abc import Sequence

from xpu_ops.block import ir, passes, printer
from xpu_ops.block.ir import Accumulate, Assign, Check, Expr, If, Let, Node, Store, name
from xpu_ops.block.ops import GATHER

SOME = ir.Kernel("k", (), ())


def value(op: str, *args: str) -> Expr:
    return Expr(f"{op}({', '.join(args)})", op, tuple(map(name, args)), True)


def let(variable: str, of: Expr, ctype: str = "float") -> Let:
    return Let(variable, ctype, of)


def index(variable: str, of: str) -> Let:
    return Let(variable, "long", name(of))


def load(variable: str, pointer: str, at: str, ctype: str = "float") -> Let:
    return let(variable, Expr(f"ld({pointer}, {at})", "load", (name(pointer), name(at))), ctype)


def store(pointer: str, at: str, of: str, when: tuple[str, ...] = ()) -> Store:
    return Store(name(pointer), name(at), name(of), when=when)


def place(number: int, pointer: str, at: str) -> list[Node]:
    """A loaded place that was checked: 0 where it is out of bounds."""
    tmp, ok = f"tmp{number}", f"ok{number}"
    return [
        load(tmp, pointer, at, "int64_t"),
        Check(ok, value("less", tmp), number),
        Assign(tmp, Expr(f"{ok} ? {tmp} : 0", "where", (name(ok), name(tmp)))),
    ]


def text(nodes: Sequence[Node]) -> list[str]:
    return printer.lines(nodes, SOME)


def add(of: str) -> Accumulate:
    return Accumulate("acc0", "Sum", name(of))


def test_what_a_row_shares_leaves_the_loop() -> None:
    step = let("tmp3", ir.load("c", name("x0"), "step"))
    inside = [index("x0", "xc"), load("tmp1", "b", "x0"), step, store("y", "x0", "tmp2")]
    shared = [index("x1", "xo"), load("tmp0", "a", "x1", "int64_t"), Check("ok0", value("less", "tmp0"), 0)]
    uniform, rest, reports = passes.split([*inside[:1], *shared, *inside[1:]], {"xc"})
    assert uniform == [*shared[:2], Let("ok0", "const bool", value("less", "tmp0"))]
    assert text(reports) == ["check(ok0, error, text0);"]
    assert rest == inside


def test_what_a_branch_assigns_stays() -> None:
    branch = If(name("tmp0"), (Assign("tmp1", ir.value(2)),))
    body = [let("tmp1", ir.value(0)), branch, let("tmp2", name("tmp1"))]
    assert passes.split(body, {"xc"})[0] == []


def test_what_is_assigned_again_with_a_lanes_value_stays() -> None:
    again = Assign("tmp1", Expr("ok0 ? tmp1 : xc", "where", (name("ok0"), name("tmp1"), name("xc"))))
    assert passes.split([load("tmp1", "a", "xo", "int64_t"), again], {"xc"})[0] == []


def test_the_result_of_a_scan_stays() -> None:
    body: list[Node] = [ir.ScanStep("scan0", "carry0", name("tmp0"), "combine0"), let("tmp1", value("field", "scan0"))]
    assert passes.split(body, {"xc"})[0] == []


def test_a_costly_value_is_kept() -> None:
    first = [load("tmp0", "a", "rc"), let("tmp1", value("exp", "tmp0")), add("tmp1")]
    second = [load("tmp4", "a", "rc"), let("tmp5", value("exp", "tmp4")), store("y", "rc", "tmp5")]
    declarations, (one, two) = passes.keep([first, second], 64, "rc")
    assert text(declarations) == ["syclexp::work_group_static<float[64]> kept0; float* const keep0 = kept0;"]
    assert text(one)[2] == "keep0[rc] = tmp1;" and text(two) == ["float tmp5 = keep0[rc];", "st(y, rc, tmp5);"]
    assert passes.keep([first, second], 10**6, "rc")[0] == []


def test_a_value_of_memory_that_was_written_is_another() -> None:
    first = [load("tmp0", "a", "rc"), let("tmp1", value("exp", "tmp0")), store("a", "rc", "tmp1")]
    second = [load("tmp4", "a", "rc"), let("tmp5", value("exp", "tmp4")), store("y", "rc", "tmp5")]
    assert passes.keep([first, second], 64, "rc")[0] == []


def test_the_largest_value_that_is_known_is_kept_and_its_parts_go() -> None:
    """The sum with a gathered element, whose place was checked by the first loop."""

    def part(n: int) -> list[Node]:
        gathered = Expr(f"ld(a, tmp{n})", GATHER, (name("a"), name(f"tmp{n}")))
        added = let(f"tmp{n + 3}", value("add", f"tmp{n + 1}", f"tmp{n + 2}"))
        return [*place(n, "i", "rc"), let(f"tmp{n + 1}", gathered), load(f"tmp{n + 2}", "b", "rc"), added]

    first = [*part(0), add("tmp3")]
    second = [*part(10), let("tmp14", value("sub", "tmp13", "tmp9")), let("tmp15", value("exp", "tmp14")), add("tmp15")]
    third = [*part(20), let("tmp24", value("sub", "tmp23", "tmp9")), let("tmp25", value("exp", "tmp24"))]
    declarations, (one, two, three) = passes.keep([first, second, [*third, store("y", "rc", "tmp25")]], 64, "rc")
    assert len(declarations) == 2
    assert sum("check(" in line for line in text(one)) == 1 and "keep0[rc] = tmp3;" in text(one)
    assert text(two)[:2] == ["float tmp13 = keep0[rc];", "float tmp14 = sub(tmp13, tmp9);"]
    assert text(three) == ["float tmp25 = keep1[rc];", "st(y, rc, tmp25);"]


def test_what_a_branch_changes_is_not_kept() -> None:
    def part(n: int) -> list[Node]:
        branch = If(name("in"), (Assign(f"tmp{n}", value("exp", "rc")),))
        return [let(f"tmp{n}", ir.value(0)), branch, let(f"tmp{n + 1}", value("log", f"tmp{n}"))]

    bodies = [[*part(0), add("tmp1")], [*part(4), store("y", "rc", "tmp5")]]
    assert passes.keep(bodies, 64, "rc") == ([], bodies)


def test_a_check_that_a_store_waits_for_stays() -> None:
    first = [*place(0, "i", "rc")[:2], add("tmp0")]
    second = [*place(1, "i", "rc")[:2], store("y", "tmp1", "tmp1", when=("ok1",))]
    assert any("check(less(tmp1)" in line for line in text(passes.keep([first, second], 64, "rc")[1][1]))


def test_what_a_column_has_at_some_cost_is_computed_before_the_rows() -> None:
    body = [
        index("x0", "xc"),
        load("tmp0", "a", "x0"),
        let("tmp1", value("rsqrt", "tmp0")),
        load("tmp2", "b", "x1"),
        let("tmp3", value("mul", "tmp2", "tmp1")),
        store("y", "x1", "tmp3"),
    ]
    memory, first, rest = passes.columns([index("x1", "xo")], body, {"xo"}, 64, name("xc") - "c0")
    assert len(memory) == 1
    assert first[:-1] == body[:3] and text(first)[-1] == "keep0[xc - c0] = tmp1;"
    assert text(rest)[:2] == ["const long x0 = xc;", "float tmp1 = keep0[xc - c0];"] and rest[2:] == body[3:]


def test_a_column_of_a_buffer_that_is_written_is_read_in_its_row() -> None:
    body = [index("x0", "xc"), load("tmp0", "y", "x0"), let("tmp1", value("exp", "tmp0")), store("y", "x0", "tmp1")]
    assert passes.columns([], body, {"xo"}, 64, name("xc"))[0] == []


def test_a_place_that_is_checked_stays_in_its_row() -> None:
    gathered = let("tmp1", Expr("ld(a, tmp0)", GATHER, (name("a"), name("tmp0"))))
    body = [index("x0", "xc"), *place(0, "i", "x0"), gathered, let("tmp2", value("exp", "tmp1"))]
    body.append(store("y", "x1", "tmp2"))
    memory, _, rest = passes.columns([index("x1", "xo")], body, {"xo"}, 64, name("xc") - "c0")
    assert not memory and rest == body
