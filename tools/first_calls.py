"""python -m tools.first_calls: the first calls of a process on processors that did not build the kernel modules.

Runs four short programs, each in new processes: on torch's CPU, and on xpu with the native modules that are installed, with those of each
class below --classes while the driver makes code for that class, and with none, where modules are linked at first use into
an empty cache folder and then found there. Prints a table. Beside an installed wheel, outside the
tree, `python first_calls.py` measures what is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = {
    "training step": """
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(256, 64, device=device), torch.randint(10, (256,), device=device)
optimizer.zero_grad()
loss = torch.nn.functional.cross_entropy(model(x), y)
loss.backward()
optimizer.step()
loss.item()
""",
    "AdamW, 200 tensors": """
parameters = [torch.ones(64, 64, device=device).requires_grad_() for _ in range(200)]
for p in parameters:
    p.grad = torch.ones_like(p)
torch.optim.AdamW(parameters).step()
parameters[0].sum().item()
""",
    "sort, 1e6": "torch.rand(1_000_000).to(device).sort().values[0].item()",
    "attention": """
q = torch.randn(2, 8, 512, 64).to(device).requires_grad_()
torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
q.grad.sum().item()
""",
}
# The optimizer's constructor imports for a second on any device.
CHILD = """
import json, sys, time
import torch
device, folder, clock, program = sys.argv[1:]
torch.optim.AdamW([torch.zeros(1)])
if device == "xpu":
    import xpu_ops
    if folder:
        xpu_ops._C.set_module_dir(folder)
clock = getattr(time, clock)
begin = clock()
exec(program)
seconds = clock() - begin
stats = xpu_ops._C.module_stats() if device == "xpu" else {}
print(json.dumps({"seconds": seconds, **stats}))
"""


CLOCKS = {"wall": "perf_counter", "processor": "process_time"}


@dataclass
class State:
    """The surroundings of a process: which modules, for which target of the driver, with which cache folder."""

    modules: str
    cache: str
    device: str = "xpu"
    folder: Path | None = None
    target: str = ""
    alone: bool = False  # no other process links meanwhile


def run(state: State, clock: str, program: str, cache: Path) -> tuple[float, int]:
    """Seconds of the program, and modules that were linked."""
    env = {**os.environ, "XPU_OPS_CACHE_DIR": str(cache), "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}
    if state.target:
        env["CL_CONFIG_CPU_TARGET_ARCH"] = state.target
    if state.alone:
        env["XPU_OPS_LINK_AHEAD"] = "0"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        CHILD,
        state.device,
        str(state.folder or ""),
        CLOCKS[clock],
        program,
    ]
    process = subprocess.run(command, env=env, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{state}: {process.stderr}")
    found = json.loads(process.stdout.splitlines()[-1])
    return found["seconds"], found.get("linked", 0)


def portable_folder(installed: Path, folder: Path, classes: Path | None) -> Path:
    """The portable modules, with the native ones of the classes or with none."""
    folder.mkdir()
    for path in installed.glob("*.spv.syclbin"):
        (folder / path.name).symlink_to(path)
    if classes is None:
        rows = (row for row in (installed / "modules.tsv").read_text().splitlines() if row.startswith("module\t"))
        (folder / "modules.tsv").write_text("\n".join(["target\tnone", *rows]) + "\n")
    else:
        for path in classes.iterdir():
            (folder / path.name).symlink_to(path)
    return folder


def states(installed: Path, classes: Path | None, links: bool, temporary: Path) -> list[State]:
    found = [State("torch CPU", "", device="cpu"), State("installed", "empty")]
    if classes is not None:
        folder = portable_folder(installed, temporary / "classes", classes)
        rows = [row.split("\t") for row in (classes / "modules.tsv").read_text().splitlines()]
        targets = [(row[1], row[2]) for row in rows if row[0] == "target"]
        found += [State(f"class {n}", "empty", folder=folder, target=n) for key, n in targets if runs_here(key)]
    if links:
        folder = portable_folder(installed, temporary / "none", None)
        # linker is one folder above the modules
        (temporary / "linker").symlink_to(installed.parent / "linker")
        found.append(State("none fits, no other process links", "empty", folder=folder, alone=True))
        found.append(State("none fits", "empty", folder=folder))
        found.append(State("none fits", "as the process before left it", folder=folder))
    return found


def cpu_facts(name: str) -> str:
    """Of the first processor in /proc/cpuinfo."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(name)), "")


def runs_here(key: str) -> bool:
    """Whether this processor has the instruction sets of a key of native modules."""
    flags = {flag.replace("_", "") for flag in cpu_facts("flags").split()}
    return all(name in flags or name + "tile" in flags for name in key.split("isa=")[1].split("+"))


def processor() -> str:
    return f"{cpu_facts('model name') or platform.machine()}, {len(os.sched_getaffinity(0))} threads"


def measure(every: list[State], programs: list[str], clock: str, runs: int, temporary: Path) -> str:
    import torch

    what = "Milliseconds" if clock == "wall" else "Milliseconds of the processor, of all threads of the process,"
    lines = [
        f"{what} on {processor()}, torch {torch.__version__}, medians of {runs}; in brackets the modules that were linked.",
        "",
        f"| native modules | cache folder | {' | '.join(programs)} |",
        "|---|---|" + "---|" * len(programs),
    ]
    for number, state in enumerate(every):
        cells = []
        for index, program in enumerate(programs):
            filled = state.cache.startswith("as")
            results = []
            for again in range(runs):
                name = f"{number - 1}-{index}-0" if filled else f"{number}-{index}-{again}"
                results.append(run(state, clock, PROGRAMS[program], temporary / name))
            linked = max(n for _, n in results)
            cells.append(f"{1e3 * statistics.median(s for s, _ in results):.0f}" + (f" ({linked})" if linked else ""))
        lines.append(f"| {state.modules} | {state.cache} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.first_calls", description=__doc__)
    parser.add_argument("--classes", type=Path, help="what `python -m tools.kernelc.classes` wrote")
    parser.add_argument("--links", action="store_true", help="also with no native module that fits: minutes")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="processor: on a machine that others use, too")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), help="default all")
    parser.add_argument("--runs", type=int, default=3, help="of each program")
    args = parser.parse_args()
    from xpu_ops._paths import package_dir

    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        installed = package_dir() / "modules"
        classes = args.classes.resolve() if args.classes else None
        every = states(installed.resolve(), classes, args.links, temporary)
        table = measure(every, args.programs, args.clock, args.runs, temporary)
    print(table, end="")


if __name__ == "__main__":
    main()
