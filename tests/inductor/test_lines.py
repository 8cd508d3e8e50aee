"""Statements that leave a loop, and values that a row keeps."""

from __future__ import annotations

from torch._inductor.codegen.common import DeferredLine, IndentedBuffer

from xpu_ops.inductor import lines


class Store(DeferredLine):
    """A store whose buffer nobody removes."""

    def __call__(self) -> str | None:
        return self.line

    def _new_line(self, line: str) -> Store:
        return Store(self.name, line)


def body(*text: str) -> IndentedBuffer:
    buffer = IndentedBuffer()
    for t in text:
        buffer.writeline(Store("buf", t) if t.startswith("st(") else t)
    return buffer


def test_what_a_row_shares_leaves_the_loop() -> None:
    inside = ["const long x0 = xc;", "float tmp1 = ld(b, x0);", "float tmp3 = @step0@;", "st(y, x0, tmp2);"]
    shared = ["const long x1 = xo;", "int64_t tmp0 = ld(a, x1);", "const bool ok0 = check(tmp0 < 4, error, text0);"]
    uniform, rest, reports = lines.split(body(*inside[:1], *shared, *inside[1:]), {"xc"})
    assert uniform == [*shared[:2], "const bool ok0 = tmp0 < 4;"]
    assert reports == ["check(ok0, error, text0);"]
    assert rest.getvalue().split("\n")[:-1] == inside


def test_what_a_branch_assigns_stays() -> None:
    text = ["float tmp1 = 0.0f;", "if (tmp0) {", "tmp1 = 2.0f;", "}", "float tmp2 = tmp1;"]
    assert lines.split(body(*text), {"xc"})[0] == []


def test_what_is_assigned_again_with_a_lanes_value_stays() -> None:
    text = ["int64_t tmp1 = ld(a, xo);", "tmp1 = ok0 ? tmp1 : xc;"]
    assert lines.split(body(*text), {"xc"})[0] == []


def test_a_costly_value_is_kept() -> None:
    first = body("float tmp0 = ld(a, rc);", "float tmp1 = xpu::exp(tmp0);", "acc0[j] = tmp1;")
    second = body("float tmp4 = ld(a, rc);", "float tmp5 = xpu::exp(tmp4);", "st(y, rc, tmp5);")
    declarations, (one, two) = lines.keep([first, second], 64)
    assert len(declarations) == 1
    assert "keep0[rc] = tmp1;" in one.getvalue() and "float tmp5 = keep0[rc];" in two.getvalue()
    assert lines.keep([first, second], 10**6)[0] == []


def test_a_value_of_memory_that_was_written_is_another() -> None:
    first = body("float tmp0 = ld(a, rc);", "float tmp1 = xpu::exp(tmp0);", "st(a, rc, tmp1);")
    second = body("float tmp4 = ld(a, rc);", "float tmp5 = xpu::exp(tmp4);", "st(y, rc, tmp5);")
    assert lines.keep([first, second], 64)[0] == []


def test_the_largest_value_that_is_known_is_kept_and_its_parts_go() -> None:
    """The sum with a gathered element, whose place was checked by the first loop."""

    def part(n: int) -> list[str]:
        return [
            f"int64_t tmp{n} = ld(i, rc);",
            f"const bool ok{n} = check(tmp{n} < 4, error, text{n});",
            f"tmp{n} = ok{n} ? tmp{n} : 0;",
            f"float tmp{n + 1} = ld(a, tmp{n});",
            f"float tmp{n + 2} = ld(b, rc);",
            f"float tmp{n + 3} = tmp{n + 1} + tmp{n + 2};",
        ]

    first = body(*part(0), "acc0[j] = tmp3;")
    second = body(*part(10), "float tmp14 = tmp13 - tmp9;", "float tmp15 = xpu::exp(tmp14);", "acc1[j] = tmp15;")
    third = body(*part(20), "float tmp24 = tmp23 - tmp9;", "float tmp25 = xpu::exp(tmp24);", "st(y, rc, tmp25);")
    declarations, (one, two, three) = lines.keep([first, second, third], 64)
    assert len(declarations) == 2
    assert one.getvalue().count("check(") == 1 and "keep0[rc] = tmp3;" in one.getvalue()
    assert two.getvalue().split("\n")[:2] == ["float tmp13 = keep0[rc];", "float tmp14 = tmp13 - tmp9;"]
    assert three.getvalue().split("\n")[0] == "float tmp25 = keep1[rc];" and "check(" not in three.getvalue()


def test_what_a_branch_changes_is_not_kept() -> None:
    def part(n: int) -> list[str]:
        return [
            f"float tmp{n} = 0.0f;",
            "if (in) {",
            f"tmp{n} = xpu::exp(ld(a, rc));",
            "}",
            f"float tmp{n + 1} = xpu::log(tmp{n});",
        ]

    bodies = [body(*part(0), "acc0[j] = tmp1;"), body(*part(4), "st(y, rc, tmp5);")]
    declarations, changed = lines.keep(bodies, 64)
    assert not declarations and [b.getvalue() for b in changed] == [b.getvalue() for b in bodies]


def test_a_check_that_a_store_waits_for_stays() -> None:
    first = body("int64_t tmp0 = ld(i, rc);", "const bool ok0 = check(tmp0 < 4, error, text0);", "acc0[j] = tmp0;")
    second = body(
        "int64_t tmp1 = ld(i, rc);", "const bool ok1 = check(tmp1 < 4, error, text1);", "if (ok1) st(y, tmp1, 2);"
    )
    assert "check(tmp1" in lines.keep([first, second], 64)[1][1].getvalue()


def test_what_a_column_has_at_some_cost_is_computed_before_the_rows() -> None:
    text = [
        "const long x0 = xc;",
        "float tmp0 = ld(a, x0);",
        "float tmp1 = float(1) / sycl::sqrt(tmp0);",
        "float tmp2 = ld(b, x0 + x1);",
        "float tmp3 = tmp2 * tmp1;",
        "st(y, x0 + x1, tmp3);",
    ]
    memory, first, rest = lines.columns(["const long x1 = xo;"], body(*text), {"xo"}, 64, "c0")
    assert len(memory) == 1
    assert first.getvalue().split("\n")[:-1] == [*text[:3], "keep0[xc - c0] = tmp1;"]
    assert rest.getvalue().split("\n")[:-1] == [text[0], "float tmp1 = keep0[xc - c0];", *text[3:]]


def test_a_column_of_a_buffer_that_is_written_is_read_in_its_row() -> None:
    text = ["const long x0 = xc;", "float tmp0 = ld(y, x0);", "float tmp1 = xpu::exp(tmp0);", "st(y, x0, tmp1);"]
    assert lines.columns([], body(*text), {"xo"}, 64, "0")[0] == []


def test_a_place_that_is_checked_stays_in_its_row() -> None:
    text = [
        "const long x0 = xc;",
        "int64_t tmp0 = ld(i, x0);",
        "const bool ok0 = check(tmp0 < 4, error, text0);",
        "tmp0 = ok0 ? tmp0 : 0;",
        "float tmp1 = ld(a, tmp0);",
        "float tmp2 = xpu::exp(tmp1);",
        "st(y, x0 + x1, tmp2);",
    ]
    memory, _, rest = lines.columns(["const long x1 = xo;"], body(*text), {"xo"}, 64, "c0")
    assert not memory and rest.getvalue().split("\n")[:-1] == text
