"""The reader of Triton IR and the lowering, on text: no Triton is needed."""

from __future__ import annotations

import pytest

from xpu_ops.block import ir
from xpu_ops.triton import ttir
from xpu_ops.triton.lower import kernel
from xpu_ops.triton.lower.element import Index, const, offset, positions, split

ADD = """
#loc = loc("k.py":10:0)
module {{
  tt.func public @add(%x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}} loc("k.py":10:0), %n: i32 loc("k.py":10:0)) {{
    %c64_i32 = arith.constant 64 : i32 loc(#loc1)
    %pid = tt.get_program_id x : i32 loc(#loc2)
    %base = arith.muli %pid, %c64_i32 : i32 loc(#loc2)
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32> loc(#loc2)
    %b = tt.splat %base : i32 -> tensor<64xi32> loc(#loc2)
    %at = arith.addi %b, %r : tensor<64xi32> loc(#loc2)
    %ns = tt.splat %n : i32 -> tensor<64xi32> loc(#loc2)
    %m = arith.cmpi slt, %at, %ns : tensor<64xi32> loc(#loc2)
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc2)
    %p = tt.addptr %xs, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc2)
    %v = tt.load %p, %m : tensor<64x!tt.ptr<f32>> loc(#loc2)
    {operation}
    tt.store %p, %w, %m : tensor<64x!tt.ptr<f32>> loc(#loc2)
    tt.return loc(#loc2)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc(unknown)
#loc2 = loc(callsite(#loc3 at #loc))
#loc3 = loc("k.py":12:24)
"""


def lowered(operation: str) -> kernel.Lowered:
    return kernel.lower(ttir.parse(ADD.format(operation=operation)))


def test_a_loop_has_a_version_without_masks() -> None:
    out = lowered("%w = arith.addf %v, %v : tensor<64xf32> loc(#loc2)")
    assert (out.name, out.local_bytes, out.messages) == ("add", 0, ())
    assert "[lane];" in out.source and "} else {" in out.source
    assert "<= (INT32_MAX - 15)" in out.source  # the version assumes that the sum does not wrap within 16 lanes


ROWS = """
module {{
  tt.func public @rows(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %n: i32) {{
    %pid = tt.get_program_id x : i32
    %all = tt.get_num_programs {axis} : i32
    scf.for %i = %pid to %n step %all  : i32 {{
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %p : !tt.ptr<f32>
      %q = tt.addptr {out}, {at} : !tt.ptr<f32>, i32
      tt.store %q, %v : !tt.ptr<f32>
    }}
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("changed", "taken"),
    [({}, True), ({"axis": "y"}, False), ({"out": "%x"}, False), ({"at": "%pid"}, False), ({"at": "%all"}, False)],
)
def test_a_program_takes_rows_that_follow_each_other(changed: dict[str, str], taken: bool) -> None:
    """But for another axis's count, memory that is read and written, and a kernel that asks who it is."""
    text = ROWS.format(**({"axis": "x", "out": "%o", "at": "%i"} | changed))
    assert ("tri::Rows" in kernel.lower(ttir.parse(text)).source) == taken


def test_an_unknown_operation_is_named_with_its_line() -> None:
    with pytest.raises(ttir.Unsupported, match="tt.fancy") as error:
        lowered("%w = tt.fancy %v : tensor<64xf32> loc(#loc2)")
    assert error.value.where == "k.py:12"


def test_the_reader_keeps_names_apart() -> None:
    functions = ttir.parse(ADD.format(operation="%w = arith.addf %v, %v : tensor<64xf32> loc(#loc2)"))
    names = [r for op in functions["add"].walk() for r in op.results]
    assert len(names) == len(set(names)) == 12


@pytest.mark.parametrize(
    ("attributes", "volatile"),
    [
        ("", False),
        ("cacheModifier = ca evictionPolicy = evict_first {tt.volatile = 1 : i32}", False),
        ("cacheModifier = cv", True),
        ("evictionPolicy = evict_last {isVolatile = true}", True),
        ("{isVolatile = false}", False),
    ],
)
def test_a_volatile_load_is_known_by_its_attributes(attributes: str, volatile: bool) -> None:
    load = "%v = tt.load %p, %m"
    text = ADD.format(operation="%w = arith.addf %v, %v : tensor<64xf32> loc(#loc2)").replace(
        load, f"{load} {attributes}"
    )
    assert [op.volatile for op in ttir.parse(text)["add"].walk() if op.name == "tt.load"] == [volatile]


def test_locations_hold_brackets() -> None:
    text = ADD.format(operation="%w = tt.fancy %v : tensor<64xf32> loc(#loc2)")
    for location, where in (('"k (1).py":12:24', "k (1).py:12"), ('fused<"a)">["b(":3:1, #loc]', "b(:3")):
        with pytest.raises(ttir.Unsupported, match="tt.fancy") as error:
            kernel.lower(ttir.parse(text.replace("loc(#loc2)", f"loc({location})")))
        assert error.value.where == where


@pytest.mark.parametrize(
    ("text", "elem", "shape"),
    [
        ("tensor<4x8xf32>", "f32", (4, 8)),
        ("tensor<16x!tt.ptr<bf16>>", "ptr<bf16>", (16,)),
        ("!tt.ptr<i1, 1>", "ptr<i1>", None),
        ("tensor<2xf8E4M3FN>", "f8E4M3FN", (2,)),
    ],
)
def test_types(text: str, elem: str, shape: tuple[int, ...] | None) -> None:
    assert ttir.parse_type(text) == ttir.Ty(elem, shape)


def test_indices_stay_linear_in_the_lane() -> None:
    c = ir.name("c")
    chunk = Index(c, 1, 16)
    quotient, rest = split(chunk, 64, 15)
    assert (quotient.step, rest.step) == (0, 1)
    assert split(chunk, 8, 15)[0].step is None
    assert split(Index(c, 4, 64), 4, 15) == (Index(c // 4, 1, 16), const(0))
    assert offset((Index(ir.name("i")), chunk), (4, 32)) == Index(ir.name("i") * 32 + c, 1, 16)
    assert positions(const(13), (4, 4), 15) == (const(3), Index(ir.value(1), 0, 1))
