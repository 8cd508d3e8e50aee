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
