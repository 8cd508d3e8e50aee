"""Families as packages: exported and compiled on xpu, then loaded and run in a process of its own.

`python tests/models/exported.py [FAMILY ...]` runs all or some, prints a line per family and, where all of them ran, writes the
table of docs/export.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import modes
import torch
import zoo
from support import script
from torch import nn
from torch.utils._pytree import tree_map

TOL = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"
BEGIN, END = "<!-- families: written by tests/models/exported.py -->", "<!-- end of families -->"

_RUN = """
    import json, time, torch, xpu_ops
    torch.zeros(1, device="xpu").cpu()
    inputs = torch.load({folder!r} + "/inputs.pt")
    inputs = {{k: v.to("xpu") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}}
    torch.xpu.synchronize()
    xpu_ops.fallback.reset()
    start = time.perf_counter()
    model = torch._inductor.aoti_load_package({folder!r} + "/model.pt2")
    out = model(**inputs)
    torch.xpu.synchronize()
    seconds = time.perf_counter() - start
    again = model(**inputs)
    torch.save([[t.cpu() for t in o] for o in (out, again)], {folder!r} + "/out.pt")
    print(json.dumps([seconds, xpu_ops.fallback.counts()]))
"""


class Plain(nn.Module):
    """A model whose results are tensors: a package then runs where the model's library is not installed."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **data: Any) -> tuple[torch.Tensor, ...]:
        return tuple(modes.results(self.model(**data)))


@dataclass
class Row:
    """What a package did in its own process."""

    family: str
    error: float = 0.0  # as in docs/models.md
    fallbacks: int = 0
    mebibytes: float = 0.0
    seconds: float = 0.0  # load to first result
    refused: str = ""


def package(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """<folder>/model.pt2 of a family on xpu, its inputs beside it."""
    m = modes.cast(modes.model(name, "cpu", dtype), "xpu", dtype).eval()
    config = getattr(m, "config", None)
    if getattr(config, "use_cache", False):
        config.use_cache = False  # the cache is an object of Python
    data = modes.move(modes.batch(name, labels=False), dtype=dtype)
    torch.save(data, folder / "inputs.pt")
    with torch.no_grad():
        program = torch.export.export(Plain(m), (), modes.move(data, "xpu"))
        return Path(torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2")))


def run(name: str, folder: Path) -> tuple[modes.Tensors, modes.Tensors, float, dict[str, int]]:
    """Results of the first and of the second call in a fresh process, seconds to the first, fallbacks."""
    printed = script.out(_RUN.format(folder=str(folder)), XPU_OPS_CACHE_DIR=str(folder / "cache"))
    seconds, fallbacks = json.loads(printed.splitlines()[-1])
    first, second = (
        {f"out{i}": t for i, t in enumerate(out)} for out in torch.load(folder / "out.pt")
    )
    return first, second, seconds, fallbacks


def check(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Row:
    """A family through all of it; an AssertionError where a result is wrong."""
    path = package(name, folder, dtype)
    first, second, seconds, fallbacks = run(name, folder)
    reference, exact = modes.inference_reference(name, dtype)
    tol = zoo.FAMILIES[name].tolerance.get("export", TOL[dtype])
    for out in (first, second):
        modes.check(out, reference, exact, tol)
    return Row(name, modes.error(first, exact), sum(fallbacks.values()), path.stat().st_size / 2**20, seconds)


def main(names: list[str]) -> int:
    rows = []
    for name in names or zoo.FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = check(name, Path(folder))
            except Exception as error:
                row = Row(name, refused=f"{type(error).__name__}: {error}")
        print(json.dumps(asdict(row)), flush=True)
        rows.append(row)
        torch._dynamo.reset()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
