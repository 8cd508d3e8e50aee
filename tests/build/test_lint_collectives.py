"""tools/lint_collectives: collectives that not all items reach, in snippets and in the device headers."""

from __future__ import annotations

import pytest

from tools.lint_collectives import check_text, headers, hidden_in_macros, program_of
from tools.lint_collectives.program import Program

HEAD = """
template <class T> T lanes_sum(T v) { return sycl::reduce_over_group(syclex::this_work_item::get_sub_group(), v, sycl::plus<T>()); }
template <class T> T lanes_before(T v) {
  return sycl::exclusive_scan_over_group(syclex::this_work_item::get_sub_group(), v, sycl::plus<T>());
}
struct Row {
  const float* in;
  size_t lane;
  uint32_t length;
  uint32_t before(uint32_t v) const { return lanes_before(v); }
  float total() const { return lanes_sum(in[lane]); }
};
template <class F> void each(uint32_t n, size_t lane, F f) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) f(i);
  if (i + lane < n) f(i);
}
template <class T, bool kWide = false> T lanes_total(T v) { return lanes_sum(v); }
template <class F> void every(uint32_t n, F f) {
  for (uint32_t i = 0; i < n; ++i) f(i);
}
"""
BAD = {
    "and": "if (x[lane] > 0 && lanes_sum(1u) > 3) p.out[0] = 1;",
    "and, method": "bool hit = true; uint32_t tie = x[lane] > 0; if (tie && n + r.before(tie) >= p.n) hit = false; p.out[lane] = hit;",
    "or": "const bool all = x[lane] > 0 || lanes_sum(1u) > 3; p.out[lane] = all;",
    "choice": "p.out[lane] = x[lane] > 0 ? lanes_sum(x[lane]) : 0;",
    "template with a default": "if (lane < p.n) p.out[lane] = lanes_total(x[lane]);",
    "if": "if (lane < p.n) p.out[lane] = lanes_sum(x[lane]);",
    "else": "if (lane < p.n) {} else { lanes_sum(x[lane]); }",
    "primitive": "if (lane == 0) sycl::group_barrier(sg);",
    "loop by lane": "for (size_t i = lane; i < p.n; i += 16) p.out[i] = lanes_sum(x[i]);",
    "loop by data": "uint32_t k = p.keys[lane]; while (k > 0) { k /= 2; lanes_sum(k); }",
    "return": "if (lane >= p.n) return; p.out[lane] = lanes_sum(x[lane]);",
    "return in a block": "{ if (x[lane] < 0) return; } lanes_before(1u);",
    "break": "for (uint32_t i = 0; i < p.n; ++i) { if (x[lane] > i) break; lanes_sum(i); }",
    "break, next round": "for (uint32_t i = 0; i < p.n; ++i) { lanes_sum(i); if (x[lane] > i) break; }",
    "continue": "for (uint32_t i = 0; i < p.n; ++i) { if (x[lane] > i) continue; lanes_sum(i); }",
    "switch": "switch (p.keys[lane]) { case 0: lanes_sum(1u); break; default: break; }",
    "assigned in a branch": "bool some = false; if (x[lane] > 0) some = true; if (some) lanes_sum(1u);",
    "flag of an earlier round": "bool done = false; for (uint32_t i = 0; i < p.n; ++i) { if (!done) lanes_sum(i); done = x[lane] > i; }",
    "through a scan": "if (lanes_before(1u) > 3) lanes_sum(1u);",
    "through a member": "Row s{x, lane, p.n}; if (s.lane == 0) s.total();",
    "through an array": "float v[4] = {}; v[1] = x[lane]; if (v[0] > 0) lanes_sum(1u);",
    "through a pointer": "const float* y = x + lane; if (*y > 0) lanes_sum(1u);",
    "global id": "if (xpu_global() < p.n) lanes_sum(1u);",
    "lambda": "auto sum = [&](float v) { return lanes_sum(v); }; if (lane < 3) sum(1.0f);",
    "lambda, its argument": "auto take = [&](bool hit) { if (hit) lanes_sum(1u); }; take(x[lane] > 0);",
    "callback in the rest": "each(p.n, lane, [&](size_t i) { p.out[i] = lanes_sum(x[i + lane]); });",
    "callback, its argument": "every(lane, [&](uint32_t i) { lanes_sum(i); });",
    "barrier of the group by sub-group": "if (sg.get_group_linear_id() == 0) sycl::group_barrier(syclex::this_work_item::get_work_group<1>());",
    "barrier of the group by a sub-group's sum": "if (lanes_sum(x[lane]) > 0) sycl::group_barrier(syclex::this_work_item::get_work_group<1>());",
    "triton": "if (lane < 3) __spirv_GroupNonUniformShuffleXor(3, 1u, 2u);",
}
GOOD = {
    "arguments": "if (p.n > 3 && lanes_sum(1u) > 3) p.out[0] = 1;",
    "first": "const uint32_t ahead = r.before(x[lane] > 0); if (x[lane] > 0 && ahead > p.n) p.out[lane] = 1;",
    "group's id": "if (item.get_group(0) >= p.n) return; lanes_sum(1u);",
    "sub-group's id": "if (sg.get_group_linear_id() >= p.n) return; lanes_sum(1u);",
    "result of a sum": "uint32_t k = x[lane] > 0; k = lanes_sum(k); if (k > 3) lanes_sum(k);",
    "any": "if (!sycl::any_of_group(sg, x[lane] > 0)) return; lanes_sum(1u);",
    "loop": "for (uint32_t i = 0; i + 16 <= p.n; i += 16) p.out[i + lane] = lanes_sum((x + i)[lane]);",
    "load by the group": "if (p.keys[item.get_group(0)] == 0) return; lanes_sum(1u);",
    "store by a lane": "const float sum = lanes_sum(x[lane]); if (lane == 0) p.out[0] = sum;",
    "converged again": "if (lane < 3) p.out[lane] = 1; lanes_sum(1u);",
    "lambda": "auto take = [&](bool hit) { lanes_sum(hit ? 1u : 0u); }; take(x[lane] > 0);",
    "callback": "every(p.n, [&](uint32_t i) { lanes_sum(x[i + lane]); });",
    "left callback": "each(p.n, lane, [&](size_t i) { if (x[i + lane] < 0) return; p.out[i] = 1; }); lanes_sum(1u);",
    "barrier of the group": "for (uint32_t i = 0; i < p.n; ++i) { sycl::group_barrier(syclex::this_work_item::get_work_group<1>()); }",
    "constant": "if constexpr (sizeof(lane) == 8) lanes_sum(1u);",
    "marked": "if (x[lane] > 0)  // uniform: all lanes hold the row's first element\n lanes_sum(1u);",
    "marked value": "// uniform: all lanes hold the row's first element\nconst float v = x[lane];\nif (v > 0) lanes_sum(1u);",
}


def kernel(body: str) -> str:
    return f"""
inline uint32_t xpu_global() {{ return item.get_global_linear_id(); }}
struct SnippetArgs {{ const float* x; const uint32_t* keys; float* out; uint32_t n; }};
XPU_KERNEL_SG(1, 16) snippet(SnippetArgs p) {{
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  const size_t lane = item.get_local_id(0), n = p.n;
  const float* x = p.x + item.get_group(0) * n;
  Row r{{x, lane, p.n}};
  {body}
}}
"""


@pytest.mark.parametrize("name", BAD)
def test_finds(name: str) -> None:
    assert program_of({"snippet.hpp": HEAD + kernel(BAD[name])}).run()


@pytest.mark.parametrize("name", GOOD)
def test_allows(name: str) -> None:
    assert program_of({"snippet.hpp": HEAD + kernel(GOOD[name])}).run() == []


def test_names_the_place() -> None:
    text = HEAD + kernel(BAD["if"])
    (found,) = program_of({"snippet.hpp": text}).run()
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "lane < p.n)" in row)
    assert str(found) == f"snippet.hpp:{line}: snippet: lanes_sum is not reached by all items of a sub-group"


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(headers())


def test_device_headers(program: Program) -> None:
    assert [str(f) for f in program.run()] == []
    assert hidden_in_macros(headers()) == []
    # The list of collectives did not shrink to nothing.
    names = {f.name for f in program.functions if id(f) in program.collective}
    assert {"lane_sum", "topk_collect", "scan_line", "transpose_lanes", "softmax_row", "across"} <= names


def test_finds_the_scan_behind_a_tie() -> None:
    """The defect that a real GPU stopped at: with it back in place the lint speaks."""
    files = headers()
    name = "kernels/sycl/index/sort.hpp"
    old = files[name]
    files[name] = old.replace("if (tie && equal + ahead >= ties)", "if (tie && equal + r.before(tie) >= ties)")
    assert files[name] != old
    (found,) = program_of(files).run()
    assert (found.function, found.call) == ("topk_collect", "before")


def test_text_of_a_kernel(program: Program) -> None:
    text = "XPU_KERNEL(1) k(Args p) { const long lane = xpu::local_id(); if (lane < p.n) BODY; }"
    assert check_text(text.replace("BODY", "xpu::gen::across<xpu::gen::Sum>(p.x[lane])"), program)
    assert check_text(text.replace("BODY", "p.out[lane] = 1"), program) == []


def test_macro() -> None:
    assert hidden_in_macros({"a.hpp": "#define SUM(x) sycl::reduce_over_group(sg, x, plus)\n"})
