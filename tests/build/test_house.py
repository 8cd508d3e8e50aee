"""Rules of the house that a grep can check: docs/architecture.md says why."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Launches that families of bindings/ still plan themselves. The number may only fall; kernels/ops is their place.
LAUNCHES_IN_BINDINGS = 0
# Adapters know no type of oneDNN; its version and its caches are shown to Python by one file.
FILES_WITH_ONEDNN_TYPES = {"bindings/onednn_module.cpp"}
# And none of its functions but those that name kept weights: kernels/products decides what serves a product.
ONEDNN_CALLS_IN_ADAPTERS = 0


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """Path and text of the C++ files below the folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.?pp")):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_kernels_include_no_torch() -> None:
    found = [p for p, text in sources("kernels") if re.search(r'#\s*include\s*[<"](torch|ATen|c10)/', text)]
    assert not found


def test_no_family_asks_for_the_kind_of_device() -> None:
    """They read Policy; the runtime that makes it, oneDNN's CPU engine, the device's own properties and the start of a
    program without Python may ask."""
    allowed = (
        "kernels/runtime/",
        "kernels/onednn/engine.cpp",
        "bindings/runtime/module.cpp",
        "bindings/aoti/runner.cpp",
    )
    found = [
        p
        for p, text in sources("kernels", "bindings")
        if not p.startswith(allowed)
        and re.search(r"(device_info\(.*\)|\bdevice|\binfo)\.(is_cpu|max_compute_units)\b", text)
    ]
    assert not found


def test_vectors_at_any_address_are_declared_so() -> None:
    """clang drops `aligned` behind the = of an alias: a load of the vector then demands its own alignment."""
    found = [
        (p, m.group()) for p, text in sources("kernels") for m in re.finditer(r"using \w+ =[^;]*\baligned\(", text)
    ]
    assert not found, "write `using name __attribute__((ext_vector_type(n), aligned(m))) = type`"


def test_launches_in_bindings_only_fall() -> None:
    count = sum(len(re.findall(r"runtime::launch2?\(", text)) for _, text in sources("bindings"))
    assert count <= LAUNCHES_IN_BINDINGS, "a family launches from kernels/ops"
    assert count == LAUNCHES_IN_BINDINGS, "fewer launches: write the new number down"


def launch_structs(text: str) -> set[str]:
    """Names of launch structs. A template's pack is named Args itself."""
    return set(re.findall(r"\b[A-Z][A-Za-z0-9]*Args\b", text))


def launch_headers() -> str:
    """The text of all headers of launch structs."""
    return "\n".join(text for path, text in sources("kernels/sycl") if path.endswith("_args.hpp"))


def test_adapters_know_no_launch_struct() -> None:
    """An adapter fills a problem of kernels/ops/problem; the plan makes the launch struct from it."""
    declared = set(re.findall(r"\b(?:struct|using) ([A-Z]\w*Args)\b", launch_headers()))
    assert declared
    found = {path: names for path, text in sources("bindings") if (names := launch_structs(text) & declared)}
    assert not found
    assert not [p for p, text in sources("bindings") if '"kernels/sycl/' in text]


def test_indexers_find_the_names_of_families() -> None:
    """A name is written with the namespaces that it has: no inline ones."""
    assert not [
        p for p, text in sources("kernels", "bindings", "tests") if re.search(r"\binline namespace |::inline ", text)
    ]


def constants(text: str) -> set[str]:
    """Names of the constants that a file declares outside of functions."""
    lines = re.findall(r"^(?:inline )?constexpr [^;]*;", text, re.MULTILINE)
    return {name for line in lines for name in re.findall(r"\b(k[A-Z]\w*)(?:\[\w*\])? = ", line)}


def test_constants_of_plans_hide_no_constant_of_launch_structs() -> None:
    """The nearer one is taken without a word: a plan then asks for other sizes than the kernel has."""
    declared = constants(launch_headers())
    assert {"kPoolLine", "kPoolSlack"} <= declared
    hidden = {path: names for path, text in sources("kernels/ops") if (names := constants(text) & declared)}
    assert not hidden


def test_device_code_lies_in_rooms() -> None:
    """kernels/sycl/<room>/<name>.hpp, and a family's name in one room."""
    headers = [p for p in (ROOT / "kernels" / "sycl").rglob("*.hpp") if "shim" not in p.parts]
    assert headers and {len(p.relative_to(ROOT).parts) for p in headers} == {4}
    families = {p.stem for p in (ROOT / "kernels" / "manifest").glob("*.yaml")}
    names = [p.stem for p in headers if p.stem.removesuffix("_args") in families]
    assert len(names) == len(set(names))


def test_problems_are_small_headers() -> None:
    """Adapters and device code both include them: no type of SYCL, and no launch struct."""
    found = [
        (p, name)
        for p, text in sources("kernels/ops/problem")
        for name in re.findall(r"#\s*include\s*[<\"]([^>\"]+)", text)
        if not re.fullmatch(r"cstdint|kernels/ops/problem/\w+\.hpp|kernels/sycl/core/real_args\.hpp", name)
    ]
    assert not found
    assert not [p for p, text in sources("kernels/ops/problem") if launch_structs(text)]


def test_onednn_types_stay_out_of_bindings() -> None:
    found = {p for p, text in sources("bindings") if re.search(r"\bdnnl::|\bDNNL_|dnnl\.hpp", text)}
    assert found == FILES_WITH_ONEDNN_TYPES


def test_adapters_leave_the_choice_to_products() -> None:
    calls = [(p, m) for p, text in sources("bindings/aten") for m in re.findall(r"\bonednn::[a-z]\w*\(", text)]
    assert len(calls) == ONEDNN_CALLS_IN_ADAPTERS, calls
    # The header of a layout's copies knows no type of oneDNN.
    included = {p for p, text in sources("bindings") if '"kernels/onednn/' in text}
    assert included == {"bindings/aten/onednn.cpp", "bindings/onednn_module.cpp"}


def test_plans_of_products_know_no_primitive() -> None:
    """A plan is a pure function: only what runs it may include oneDNN's layer."""
    pure = ("problem.hpp", "plan.hpp", "plan.cpp", "chain.hpp", "chain.cpp", "copies.hpp", "copies.cpp")
    assert not [p for p, text in sources("kernels/products") if Path(p).name in pure and "kernels/onednn/" in text]


# Functions that the class Queue offers, its constructor and what it takes over from Stream included. The number may only
# fall: what else a queue does is a part's (kernels/runtime/queue).
QUEUE_FUNCTIONS = 13


def public_functions(text: str, name: str) -> list[str]:
    """Names of the functions in the public parts of a class, those of `using` included, as often as they are declared."""
    body = re.search(rf"^class {name}\b[^;{{]*{{\n(.*?)^}};", text, re.S | re.M)
    assert body is not None
    parts = re.split(r"^ (public|private|protected):\n", "private:\n" + body.group(1), flags=re.M)
    public = "".join(
        part for access, part in zip(["private", *parts[1::2]], parts[::2], strict=True) if access == "public"
    )
    # Members are indented by two, what is inside of them by more.
    return re.findall(r"^  (?! )(?:using \w+::|(?!//|using|friend|template)[^\n(]*?)(\w+)(?=\(|;$)", public, re.M)


def test_functions_of_queue_only_fall() -> None:
    text = (ROOT / "kernels/runtime/queue/queue.hpp").read_text()
    fields = {"device", "id", "priority"}  # of the identity
    found = [f for f in public_functions(text, "Queue") if f not in fields]
    assert len(found) <= QUEUE_FUNCTIONS, found
    assert len(found) == QUEUE_FUNCTIONS, "fewer functions: write the new number down"


def test_public_functions_are_found() -> None:
    text = """class A final : B {
  int hidden();

 public:
  using B::taken;
  A(int x) : B(x) {}
  // Not f(x); this.
  template <class F>
  auto one(F&& f) {
    return f(two());
  }
  void two() const;
  int& three() { return x_; }

 private:
  void not_this();
  int x_;
};
"""
    assert public_functions(text, "A") == ["taken", "A", "one", "two", "three"]


def test_states_decide_in_one_place() -> None:
    """Who asks what a queue may do asks the table: no part compares modes or counts by itself, but to change them."""
    allowed = ("kernels/runtime/queue/states.hpp", "tests/build/queue_states_test.cpp", "tests/build/queue_test.cpp")
    found = [
        (p, line.strip())
        for p, text in sources("kernels", "bindings")
        if p not in allowed
        for line in text.splitlines()
        if re.search(r"QueueMode::open\b|QueueState::(?!shared)", line)
        and "set_mode" not in line
        and "mode_(" not in line
    ]
    assert not found


def test_headers_open_no_namespace() -> None:
    """Who includes one would have its names, too."""
    headers = ((p, text) for p, text in sources("kernels", "bindings") if p.endswith(".hpp"))
    assert not [p for p, text in headers if re.search(r"^using namespace ", text, re.MULTILINE)]


@pytest.mark.parametrize("folder", ["kernels", "bindings", "tools", "tests"])
def test_includes_are_spelled_from_the_repository(folder: str) -> None:
    tracked = set(
        subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    )
    wrong = [
        (path, name)
        for path, text in sources(folder)
        for name in INCLUDE.findall(text)
        # Headers of models are compiled where a model is exported, with their own folder as the root.
        if not name.startswith("gen/") and name not in tracked and not path.startswith("bindings/aoti/model/")
    ]
    assert not wrong


def test_comments_have_a_subject() -> None:
    """CONTRIBUTING.md: no comment or docstring begins with a headless 'What'."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.?pp", "*.yaml", "*.txt", "Makefile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    headless = re.compile(r'^\s*(//|#|"""|\*) ?What (?!.*\?)', re.MULTILINE)
    assert not [p for p in tracked if headless.search((ROOT / p).read_text())]


# Comments that clang-format has broken: a line of one word, and the next one indented.
def test_comments_are_not_broken() -> None:
    broken = re.compile(r"^ *// ?\w+\.?\n *//   ", re.MULTILINE)
    assert not [p for p, text in sources("kernels", "bindings", "tools", "tests") if broken.search(text)]


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by their base names."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


# C++ as text in the front ends of the run-time compilers: they build nodes, and the printer of xpu_ops/block writes. Exports
# write the host's C++ around kernels.
STATEMENT = re.compile(
    r";(\n|$)|#\s*include|\busing namespace|\bXPU_KERNEL|\bGEN_\w+|\breturn \w|\bstruct \w+ \{|\b(for|if) \("
)


def literals(tree: ast.AST) -> list[str]:
    """The string literals of a file but for docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = (node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body)
    documents = {id(e.value) for e in first if isinstance(e, ast.Expr)}
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in documents)
    return [n.value for n in found if isinstance(n.value, str)]


def statements(text: str) -> list[str]:
    """String literals that hold a statement or a declaration of C++."""
    return [s for s in literals(ast.parse(text)) if STATEMENT.search(s)]


def front_ends() -> Iterator[tuple[str, str]]:
    """Path and text of their files."""
    for folder in ("inductor", "triton", "jit"):
        for path in sorted((ROOT / "xpu_ops" / folder).rglob("*.py")):
            if path.parent.name != "aoti":
                yield str(path.relative_to(ROOT)), path.read_text()


def test_front_ends_write_no_statement() -> None:
    assert not {(path, s) for path, text in front_ends() for s in statements(text)}


def test_statements_are_found() -> None:
    text = 'def f(x):\n    """x = 1;"""\n    return f"{x} = 1;", "xpu::exp(", "struct A {", f"if ({x})"'
    assert sorted(statements(text)) == [" = 1;", "if (", "struct A {"]


# Front ends name operations (xpu_ops/block/ops.py) and functions of the prelude, which the nodes call. Index expressions have a
# printer of their own, after upstream's.
EXPRESSION = re.compile(r"\b(static|reinterpret|bit)_cast\b|\b__builtin_|\b(xpu|sycl|tri)::[\w:<>]*\(")
OPERATOR = re.compile(r" ([-+*/%&|^?:<>]|[<>=!]=|&&|\|\||<<|>>) ")
PRINTER_OF_INDICES = "xpu_ops/inductor/types.py"


def expressions(text: str) -> list[str]:
    """String literals that hold a call, a conversion or an operator of C++ between two values."""
    tree = ast.parse(text)
    between = [
        part
        for n in ast.walk(tree)
        if isinstance(n, ast.JoinedStr)
        for left, part, right in zip(n.values, n.values[1:], n.values[2:], strict=False)
        if isinstance(left, ast.FormattedValue) and isinstance(right, ast.FormattedValue)
    ]
    found = [p.value for p in between if isinstance(p, ast.Constant) and OPERATOR.fullmatch(str(p.value))]
    return found + [s for s in literals(tree) if EXPRESSION.search(s)]


def test_front_ends_write_no_expression() -> None:
    found = {path: texts for path, text in front_ends() if path != PRINTER_OF_INDICES and (texts := expressions(text))}
    assert not found


def test_expressions_are_found() -> None:
    text = 'def f(x):\n    """xpu::exp(x)"""\n    return f"{x} + {x}", "xpu::exp(", "sycl::exp", f"static_cast<{x}>", f"{x}, {x}"'
    assert sorted(expressions(text)) == [" + ", "static_cast<", "xpu::exp("]


# Values of xpu_ops/inductor whose type is not said. The number may only fall.
ANY_IN_INDUCTOR = 39


def test_types_that_inductor_does_not_say_only_fall() -> None:
    texts = (p.read_text() for p in (ROOT / "xpu_ops" / "inductor").rglob("*.py"))
    count = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
    assert count <= ANY_IN_INDUCTOR
    assert count == ANY_IN_INDUCTOR, "fewer: write the new number down"


# Assignments into torch and libraries outside of xpu_ops/upstream. The number stays 0: its registry has a place for each.
FOREIGN_ASSIGNMENTS = 0


def _foreign(node: ast.expr, names: dict[str, bool]) -> bool:
    """Whether an expression is a part of a foreign module."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and names.get(node.id, False)


def _is_library(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in ("xpu_ops", "xpu_ops_pytest", "tools") and top not in sys.stdlib_module_names


def foreign_assignments(text: str) -> list[str]:
    """Assignments, setattr and mock.patch that change something of a library: what is imported, and names for parts of it."""
    tree = ast.parse(text)
    names: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(a.asname or a.name).partition(".")[0]: _is_library(a.name) for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {a.asname or a.name: _is_library(node.module or "") for a in node.names}
    own = {n.name for n in ast.walk(tree) if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    names |= dict.fromkeys(own, False) | {"V": False}  # Inductor's current graph and kernel, objects of one compilation
    for _ in range(3):  # names of names
        for node in ast.walk(tree):
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) and _foreign(value, names):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {t.id: True for t in targets if isinstance(t, ast.Name)}
    found = []
    for node in ast.walk(tree):
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        parts = (ast.Attribute, ast.Subscript)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
            if any(isinstance(t, parts) and _foreign(t, names) for t in targets):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if (function in ("setattr", "delattr") and node.args and _foreign(node.args[0], names)) or re.match(
                r"(unittest\.)?(mock\.)?patch(\.\w+)?$", function
            ):
                found.append(ast.unparse(node))
    return found


def test_libraries_are_changed_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / "xpu_ops").rglob("*.py")
        if path.parent != ROOT / "xpu_ops" / "upstream" and (lines := foreign_assignments(path.read_text()))
    }
    assert sum(map(len, found.values())) == FOREIGN_ASSIGNMENTS, f"declare them in xpu_ops/upstream: {found}"
    waiting = [p for p in (ROOT / "xpu_ops").rglob("*.py") if re.search(r"\bafter_import\(", p.read_text())]
    assert {p.parent.name for p in waiting} == {"upstream"}


def test_changes_go_through_the_registry() -> None:
    own = ("registry.py", "after_import.py")
    folder = ROOT / "xpu_ops" / "upstream"
    assert not {
        p.name: s for p in folder.glob("*.py") if p.name not in own and (s := foreign_assignments(p.read_text()))
    }


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.xpu.x = 1",
        "import torch.xpu as x\nx.y['a'] = 1",
        "from torch._inductor import ir\nir.Scan.create = 1",
        "import torch\nc: Any = torch._C\nd = c.part\nsetattr(d, name, 1)",
        "from unittest import mock\nwith mock.patch.object(a, 'b', c): pass",
        "from torch import nn\nnn.Module.x += 1",
        "def f():\n    from lightning import x\n    del x.y",
    ],
)
def test_an_assignment_into_a_library_is_found(text: str) -> None:
    assert len(foreign_assignments(text)) == 1


def test_an_assignment_into_own_things_is_not() -> None:
    text = "import torch, sys\nt = torch.ones(3)\nt.x = 1\nt[0] = 2\nsys.argv = []\nclass A: pass\nA.x = 1\nself.torch = torch"
    assert foreign_assignments(text) == []


COUNTED = (
    "block|box|byte|bit|call|column|counter|division|element|expression|file|GB|index|instruction|item|kernel|kB|KB|lane|launch|load|MB|module|pass|"
    "point|product|queue|recipe|row|store|stream|sub-group|task|thread|tile|time|token|value|vector|work-group|work-item|worker"
)
EACH = (
    "batch|block|bucket|byte|call|channel|chunk|column|core|cycle|device|dimension|element|entry|file|function|graph|group|head|image|"
    "item|iteration|key|lane|launch|layer|line|matrix|module|operator|output|page|pass|pixel|plane|process|processor|query|"
    "queue|rank|region|row|run|second|segment|sequence|sample|signature|slice|spatial|step|stream|sub-group|target|task|tensor|thread|tile|"
    "token|unit|value|vector|weight|work-group|work-item"
)
NUMBER = r"one|two|three|four|five|eight|ten|sixteen|once|twice|several|many|an?|\d+(?:[.,]\d+)*"
RATE = re.compile(rf"(?<!-)\b(?i:{NUMBER})(?: (?:{COUNTED})(?:e?s)?)? an? (?:{EACH})\b")


def rates(text: str) -> list[str]:
    """Rates that are written as 'one item a line', over the ends of lines too."""
    return RATE.findall(re.sub(r"\n\s*(?://|#|\*)?\s*", " ", text))


def test_rates_say_per() -> None:
    """CONTRIBUTING.md, rule 4."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.?pp", "*.md", "*.yaml", "*.txt", "*.toml", "Makefile"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    # The rule itself has an example of what is wrong; notes are not changed afterwards.
    own = ("CONTRIBUTING.md", "tests/build/test_house.py")
    found = {}
    for name in tracked:
        if name in own or name.startswith("docs/notes/") or not (ROOT / name).is_file():
            continue
        if lines := rates((ROOT / name).read_text()):
            found[name] = lines
    assert found == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One item a line.", 1),
        ("// one sub-group a\n// row", 1),
        ("32 bits an element", 1),
        ("a kernel a step", 1),
        ("one per row of a, one item per line", 0),
        ("1. A row in the manifest", 0),
        ("half a second, times a vector, one by an operator, at -1 a sample", 0),
    ],
)
def test_rates_are_found(text: str, count: int) -> None:
    assert len(rates(text)) == count
