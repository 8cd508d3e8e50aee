"""python -m tools.gpu.types: how the results of each kernel are to be read, for a replay that compares them.

Writes kernels.json: per kernel its element types, the types of its outputs, its tolerances and its launch struct, all from
the manifest; per launch struct the pointers in it and the types that they point to, from the debug information of the
headers; and the tolerances of the tests.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tools.codegen.device import custom_instances
from tools.codegen.model import Builder, Family, Operator, PointwiseKernel
from tools.codegen.torch_ops import Torch
from tools.codegen.types import TYPES, ElementType

ROOT = Path(__file__).resolve().parents[2]
REAL = {"c64": "f32", "c128": "f64", "c32": "f16"}
COMPLEX = {"f32": "c64", "f64": "c128", "f16": "c32"}
# Of C's types as debug information names them; others are structs of the library.
C_TYPES = {
    "float": "f32", "double": "f64", "long int": "i64", "long unsigned int": "u64", "int": "i32", "unsigned int": "u32",
    "short int": "i16", "short unsigned int": "u16", "signed char": "i8", "unsigned char": "u8", "bool": "b8",
    "void": "", "char": "",
}  # fmt: skip


def output_types(kernel: PointwiseKernel, t: ElementType) -> list[str]:
    def of(kind: str) -> str:
        return {"T": t.name, "R": REAL.get(t.name, t.name), "C": COMPLEX.get(t.name, t.name)}.get(kind, kind)

    return [of(o.kind) for o in kernel.outputs]


def entry(
    family: Family, args: str, dims: int, types: list[str], outputs: list[str], op: Operator | None, cpu_only: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {"family": family.name, "args": args, "dims": dims, "types": types}
    if outputs:
        found["outputs"] = outputs
    if op is not None and op.row.test.tol:
        found["tolerances"] = op.row.test.tol
    if cpu_only:
        found["cpu_only"] = True
    return found


@cache
def cpu_functions() -> set[str]:
    """Kernel functions of the CPU device's folder."""
    texts = (p.read_text() for p in (ROOT / "kernels" / "sycl" / "cpu").glob("*.hpp"))
    return {name for text in texts for name in re.findall(r"\bvoid (\w+)\(", text)}


def kernels_of(family: Family) -> Iterator[tuple[str, dict[str, Any]]]:
    for op in family.operators:
        if not op.row.kernel:
            for p in op.pointwise.values():
                for t in p.types:
                    outputs = output_types(p, t)
                    for form, served in p.forms.items():
                        if t.name in served:  # steps, of one item per element of a column, serve the CPU device alone
                            found = entry(family, "PointwiseArgs", 2, [t.name], outputs, op, form == "steps")
                            yield f"{p.name}_{t.name}_{form}", found
    for each in family.foreach:
        for t in each.types:
            yield each.instance(t), entry(family, each.args, 1, [t.name], [], None, False)
    owners = {id(k): op for op in family.operators for k in op.row.kernels}
    for k in family.kernels:
        for table, types, instance in custom_instances(k):
            by_cpu = k.single or k.cpu_plans or k.name in cpu_functions() or (k.reduction and table.endswith("_row"))
            yield (
                instance.name,
                entry(
                    family,
                    k.args,
                    k.dims,
                    [t.name for t in types],
                    [],
                    owners.get(id(k)),
                    by_cpu,
                ),
            )


DIE = re.compile(r"<\d+><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
ATTRIBUTE = re.compile(r"DW_AT_(\w+)\s*: (.*)")


class Layouts:
    """Structs from the debug information of one translation unit."""

    def __init__(self, dump: str) -> None:
        self._dies: dict[str, tuple[str, dict[str, str], list[str]]] = {}
        depth_of: list[str] = []
        current = ""
        for line in dump.splitlines():
            if m := DIE.search(line):
                depth = int(line.split("<")[1].split(">")[0])
                current = m[1]
                self._dies[current] = (m[2], {}, [])
                del depth_of[depth:]
                if depth_of:
                    self._dies[depth_of[-1]][2].append(current)
                depth_of += [current] * (depth + 1 - len(depth_of))
            elif current and (m := ATTRIBUTE.search(line)):
                # "(indirect string, offset: 0x12): name" or "<0x12>" or a number
                value = m[2].rpartition("): ")[2].strip()
                self._dies[current][1][m[1]] = value.strip("<>").removeprefix("0x") if value.startswith("<") else value

    def _type(self, die: str) -> str | None:
        return self._dies[die][1].get("type")

    def name(self, die: str | None) -> str:
        """The name of a type below its qualifiers and typedefs."""
        while die is not None:
            tag, attributes, _ = self._dies[die]
            if tag in ("const_type", "typedef", "volatile_type"):
                die = attributes.get("type")
                continue
            return attributes.get("name", "")
        return "void"

    def size(self, die: str) -> int:
        tag, attributes, children = self._dies[die]
        if tag in ("const_type", "typedef", "volatile_type"):
            return self.size(attributes["type"])
        if tag == "array_type":
            return self._count(children) * self.size(attributes["type"])
        return int(attributes["byte_size"], 0)

    def _count(self, children: list[str]) -> int:
        count = 1
        for c in children:
            count *= int(self._dies[c][1].get("upper_bound", "-1"), 0) + 1
        return count

    def pointers(self, die: str, at: int = 0) -> Iterator[tuple[int, str]]:
        """Offset and pointed-to type of each pointer in a type."""
        tag, attributes, children = self._dies[die]
        if tag in ("const_type", "typedef", "volatile_type"):
            yield from self.pointers(attributes["type"], at)
        elif tag == "pointer_type":
            yield at, self.name(attributes.get("type"))
        elif tag == "array_type":
            each = self.size(attributes["type"])
            for i in range(self._count(children)):
                yield from self.pointers(attributes["type"], at + i * each)
        elif tag in ("structure_type", "class_type"):
            for c in children:
                member, values, _ = self._dies[c]
                if member in ("member", "inheritance") and "type" in values:
                    yield from self.pointers(values["type"], at + int(values.get("data_member_location", "0"), 0))

    def variables(self) -> Iterator[tuple[str, str]]:
        for tag, attributes, _ in list(self._dies.values()):
            if tag == "variable" and attributes.get("name", "").startswith("layout_"):
                yield attributes["name"].removeprefix("layout_"), attributes["type"]


def layouts(structs: list[str]) -> dict[str, list[tuple[int, str]]]:
    """Pointers of each launch struct: offset, and the element type or the struct that it points to.

    Raises:
        subprocess.CalledProcessError: where the compiler or readelf fails.
    """
    headers = sorted(p.relative_to(ROOT) for p in (ROOT / "kernels" / "sycl").rglob("*_args.hpp"))
    lines = [f'#include "{h}"' for h in headers]
    lines += ["namespace xpu_ops {", *(f"{s} layout_{i};" for i, s in enumerate(structs)), "}"]
    with tempfile.TemporaryDirectory() as folder:
        source, object_file = Path(folder) / "layouts.cpp", Path(folder) / "layouts.o"
        source.write_text("\n".join(lines) + "\n")
        subprocess.run(
            [
                "g++",
                "-std=c++20",
                "-g",
                "-gdwarf-4",
                "-w",
                "-iquote",
                str(ROOT),
                "-c",
                str(source),
                "-o",
                str(object_file),
            ],
            check=True,
        )
        dump = subprocess.run(
            ["readelf", "--debug-dump=info", str(object_file)], check=True, capture_output=True, text=True
        ).stdout
    found = Layouts(dump)
    return {
        structs[int(number)]: [(at, C_TYPES.get(name, name)) for at, name in found.pointers(die)]
        for number, die in found.variables()
    }


def tolerances() -> dict[str, tuple[float, float]]:
    """rtol and atol of the tests, by element type."""
    sys.path.insert(0, str(ROOT / "tests"))
    compare = importlib.import_module("support.compare")
    names = {t.torch: t.name for t in TYPES.values() if t.torch}
    return {names[str(dtype).removeprefix("torch.")]: pair for dtype, pair in compare.TOLERANCES.items()}


def families() -> list[Family]:
    return Builder(Torch()).build(ROOT / "kernels" / "manifest")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.types", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="build folder, whose kernels count")
    parser.add_argument("--jit", type=Path, default=Path("build/gpu/recordings/jit"), help="recorded run-time sources")
    parser.add_argument("--out", type=Path, default=Path("build/gpu/kernels.json"))
    args = parser.parse_args()
    built = {line.split("\t")[0] for line in (args.build / "gen" / "kernel_index.tsv").read_text().splitlines()}
    kernels = {name: e for family in families() for name, e in kernels_of(family) if name in built}
    if missing := sorted(built - set(kernels)):
        print(f"gpu-types: the manifest has no {', '.join(missing[:10])}; build first", file=sys.stderr)
        return 1
    structs = layouts(sorted({e["args"] for e in kernels.values()}))
    doubles = sorted(source.stem for source in args.jit.glob("*.cpp") if "double" in source.read_text())
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(
        json.dumps({"tolerances": tolerances(), "structs": structs, "kernels": kernels, "doubles": doubles})
    )
    by_family: dict[str, int] = defaultdict(int)
    for e in kernels.values():
        by_family["the CPU device's alone" if e.get("cpu_only") else "a GPU's"] += 1
    print(f"gpu-types: {len(kernels)} kernels ({dict(by_family)}), {len(structs)} launch structs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
