"""KernelBench's problems on xpu against torch's CPU, eager and compiled: `python -m tools.scorecard.kernelbench <clone>`.

The sizes are for an H100: batches, images and features are made smaller in the text of each problem, nothing else is.
"""

from __future__ import annotations

import argparse
import ast
import json
import signal
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SIDES = {"height", "width", "depth", "width_in", "height_in", "H", "W", "D"}
SIDES |= {"image_size", "image_height", "image_width"}
MOST = 1024
ELEMENTS = 1 << 25  # of a problem's inputs
SECONDS = 240


class Smaller(ast.NodeTransformer):
    """Caps the integers that a problem's module assigns, but for sides that a model takes by default."""

    def __init__(self, batch: int, shapes: set[int], defaults: set[int], most: int, sides: bool) -> None:
        self.batch, self.shapes, self.defaults, self.most, self.sides = batch, shapes, defaults, most, sides

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        names = {t.id for t in node.targets if isinstance(t, ast.Name)}
        if isinstance(node.value, ast.Tuple):
            for size in node.value.elts:
                n = number(size)
                if isinstance(size, ast.Constant) and n is not None and n in self.shapes:
                    size.value = min(n, self.most)
            return node
        value = number(node.value)
        if value is None:
            return node
        smaller = min(value, self.most)
        if value in self.shapes:
            pass
        elif any(name.startswith("batch") for name in names):
            smaller = min(value, self.batch)
        elif names & SIDES and value > 32:
            smaller = value if not self.sides or value in self.defaults else max(value // 4, 16)
        elif any(name.startswith("seq") for name in names):
            smaller = min(value, 256)
        node.value = ast.Constant(smaller)
        return node


def number(node: ast.expr) -> int | None:
    """The integer that an expression of numbers is, such as 1024 * 2."""
    if any(isinstance(n, ast.Name | ast.Call | ast.Attribute | ast.Subscript) for n in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "size", "eval"))
    return value if type(value) is int else None


def numbers(nodes: Iterable[ast.expr]) -> set[int]:
    return {n for node in nodes if (n := number(node)) is not None}


def agreeing(tree: ast.Module) -> set[int]:
    """Sizes that a problem assigns both alone and in a tuple, such as a loss's batch and shape: they stay equal."""
    values = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return numbers(values) & numbers(e for value in values if isinstance(value, ast.Tuple) for e in value.elts)


def load(path: Path, sides: bool = True) -> dict[str, Any]:
    """The names of a problem's module, with its sizes capped: by less than MOST where the inputs are large still.

    Args:
        path: the problem.
        sides: whether images are made smaller, too.
    """
    import torch

    text = path.read_text()
    batch = 4 if "conv" in text.lower() or "height" in text else 16
    most = MOST
    while True:
        tree = ast.parse(text)
        shapes = {size for size in agreeing(tree) if size > most}
        defaults = numbers(d for n in ast.walk(tree) if isinstance(n, ast.arguments) for d in n.defaults)
        tree = ast.fix_missing_locations(Smaller(batch, shapes, defaults, most, sides).visit(tree))
        names: dict[str, Any] = {"__name__": path.stem}
        exec(compile(tree, str(path), "exec"), names)
        with torch.device("meta"):
            inputs = names["get_inputs"]()
        if most <= 64 or sum(v.numel() for v in inputs if isinstance(v, torch.Tensor)) <= ELEMENTS:
            return names
        most //= 2


def moved(value: Any, device: str) -> Any:
    import torch

    return value.to(device) if isinstance(value, torch.Tensor | torch.nn.Module) else value


def difference(expected: Any, found: Any) -> float:
    """The largest difference relative to the largest value: the problems' own check allows 1e-2, and 1e-2 of small values."""
    import torch

    if isinstance(expected, tuple | list):
        return max((difference(e, f) for e, f in zip(expected, found, strict=True)), default=0.0)
    if not isinstance(expected, torch.Tensor):
        return 0.0 if expected == found else float("inf")
    found = found.cpu()
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return float("inf")
    if not expected.is_floating_point():
        return float((expected != found).sum())
    if not torch.equal(expected.isnan(), found.isnan()):
        return float("inf")
    e, f = expected.double().nan_to_num(), found.double().nan_to_num()
    return float((e - f).abs().max() / e.abs().max().clamp_min(1e-3)) if e.numel() else 0.0


def measure(calls: list[Any], repeats: int) -> list[float]:
    """The least times of rounds: the CPU's call, then the others forth and back. On a busy machine the first call behind the
    CPU's waits for its turn: it is not counted."""
    import torch

    times: list[list[float]] = [[] for _ in calls]

    def timed(i: int) -> None:
        begin = time.perf_counter()
        calls[i]()
        torch.xpu.synchronize()
        times[i].append(time.perf_counter() - begin)

    for _ in range(repeats):
        timed(0)
        calls[1]()
        for i in (*range(1, len(calls)), *reversed(range(1, len(calls)))):
            timed(i)
    return [min(t) for t in times]


def model_of(names: dict[str, Any]) -> Any:
    """A model with the same parameters each time. A copy of one that keeps functions would call the modules of the first."""
    import torch

    torch.manual_seed(0)
    return names["Model"](*names["get_init_inputs"]()).eval()


def on_cpu(names: dict[str, Any]) -> tuple[Any, Any, list[Any], Any]:
    """The model on the CPU and one for the device, the inputs and the result on the CPU."""
    import torch

    models = model_of(names), model_of(names)
    inputs = names["get_inputs"]()
    with torch.no_grad():
        return *models, inputs, models[0](*inputs)


def run(path: Path, compiled: bool, repeats: int, cpu_compiled: bool = False) -> dict[str, Any]:
    """One problem's outcome, and with repeats its times in ms: the CPU, xpu eager, xpu compiled.

    Args:
        path: the problem.
        compiled: whether xpu runs through torch.compile, too.
        repeats: rounds of the timing; 0 for none.
        cpu_compiled: whether the CPU's time is that of torch.compile. Values are held against the eager CPU in either case.
    """
    import torch

    import xpu_ops

    try:
        cpu, eager, inputs, expected = on_cpu(load(path))
    except (RuntimeError, AssertionError):  # an image too small for the last windows, or no multiple of the patches
        cpu, eager, inputs, expected = on_cpu(load(path, sides=False))
    xpu = eager.to("xpu")
    there = [moved(v, "xpu") for v in inputs]
    if compiled:
        torch._dynamo.reset()
        xpu = torch.compile(xpu)
    xpu_ops.fallback.reset()
    with torch.no_grad():
        error = difference(expected, xpu(*there))
        if compiled:
            error = max(error, difference(expected, eager(*there)))
        fallbacks = xpu_ops.fallback.counts()
        line: dict[str, Any] = {"outcome": "passed", "difference": error}
        if not error <= 1e-3:
            line |= {"outcome": "failed", "error": f"differs by {error:.1e} of the largest value"}
        elif fallbacks:
            line |= {"outcome": "failed", "error": f"ran on the CPU: {', '.join(fallbacks)}"}
        if cpu_compiled:
            cpu = torch.compile(cpu)
            cpu(*inputs)
        if repeats:
            calls = [lambda: cpu(*inputs), lambda: eager(*there), lambda: xpu(*there)]
            own, *device = measure(calls if compiled else calls[:2], repeats)
            line |= {"ratio": own / device[-1], "ms": [round(1e3 * t, 4) for t in (own, *device)]}
    return line


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.scorecard.kernelbench", description=__doc__)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--results", type=Path, required=True, help="file that gets a line per problem")
    parser.add_argument("--each", type=int, default=1, help="take each n-th problem")
    parser.add_argument("--first", type=int, default=0, help="from this one on, counted from 0")
    parser.add_argument("--compiled", action="store_true", help="through torch.compile; the CPU stays eager")
    parser.add_argument("--cpu-compiled", action="store_true", help="the CPU through torch.compile, too")
    parser.add_argument(
        "--repeats", type=int, default=0, help="time it: alternating repeats on the CPU, eager and compiled"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    def late(*_: object) -> None:
        raise TimeoutError(f"no result after {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    paths = [p for level in (1, 2, 3) for p in sorted((args.clone / "KernelBench" / f"level{level}").glob("*.py"))]
    for path in paths[args.first :: args.each]:
        signal.alarm(SECONDS)
        try:
            line = run(path, args.compiled, args.repeats, args.cpu_compiled)
        except Exception as error:
            line = {"outcome": "failed", "error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}
        finally:
            signal.alarm(0)
        line |= {"id": f"{path.parent.name}/{path.stem}", "when": "call"}
        with args.results.open("a") as out:
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
