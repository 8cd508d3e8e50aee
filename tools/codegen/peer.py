"""The peer's operators: keys of XPU that torch declares for torch-xpu-ops, which the coverage report compares with."""

from __future__ import annotations

from pathlib import Path

from .torch_ops import Torch

DATA = Path(__file__).resolve().parents[2] / "xpu_ops" / "data" / "peer_xpu.tsv"
KEYS = ("XPU", "SparseXPU", "SparseCsrXPU", "NestedTensorXPU")
WITHOUT_KEYS = "2.13"  # the last release whose native_functions.yaml leaves them to torch-xpu-ops


def declared(torch: Torch) -> dict[str, list[str]]:
    """The keys of KEYS that native_functions.yaml gives an overload, those of its structured delegate included."""
    found = {name: [key for key in KEYS if torch.has_kernel_for(f, key)] for name, f in torch.functions.items()}
    return {name: keys for name, keys in sorted(found.items()) if keys}


def listed() -> dict[str, list[str]]:
    """Those of the data file."""
    lines = [line.split("\t") for line in DATA.read_text().splitlines() if not line.startswith("#")]
    return {name: keys.split(",") for name, keys in lines}


def keys(torch: Torch) -> dict[str, list[str]]:
    """The peer's keys by overload: as the installed torch has them, or of the data file."""
    return listed() if torch.series == WITHOUT_KEYS else declared(torch)
