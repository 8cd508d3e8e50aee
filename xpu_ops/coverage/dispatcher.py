"""Verdicts on registrations, read from the live dispatcher and the manifest."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from xpu_ops import _paths
from xpu_ops.upstream import sparse_semi_structured as _sparse_semi_structured
from xpu_ops.upstream import torchvision as _torchvision

DATA = Path(__file__).resolve().parents[1] / "data"
COMPOSITE_KEYS = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
REGISTRATIONS = ("native", "composite", "fallback", "missing", "not applicable")
# Words of a name that bind an operator to what another device alone has, where torch has no kernel of it for the CPU.
VENDORS = {"cudnn": "cuDNN", "miopen": "MIOpen", "mps": "Apple's MPS", "cslt": "cuSPARSELt"}
# Layouts that have dispatch keys of their own: what their tensors are called.
LAYOUTS = {
    "Sparse": "sparse tensors",
    "SparseCsr": "compressed sparse tensors",
    "NestedTensor": "nested tensors",
    "Quantized": "quantized tensors",
}
# Dense operators whose CPU kernel is no fallback: they make MKL-DNN tensors, which the fallback cannot bring back, and refuses.
NO_WAY_BACK = re.compile(r"to_mkldnn$|_reorder_")
# Families of operators that the manifest does not have
PREFIXES = ("fft", "linalg", "nested", "quantized", "sparse", "special", "foreach", "cudnn", "mkldnn", "test")
ATEN = "aten"


@dataclass
class Registration:
    """One overload as the dispatcher has it; `name` is without the namespace where that is aten.

    registration: one of REGISTRATIONS. reason: why it is missing or not applicable. by: who computes a native one: sycl, onednn, onemkl, composite (an XPU kernel made of
    calls of others), host (memory and views, no kernel), extension (a kernel that is not this library's).
    backward: 'formula' where torch has an autograd kernel, 'composite', or 'none'.
    """

    name: str
    namespace: str
    registration: str
    reason: str
    by: str | None
    family: str
    types: list[str] = field(default_factory=list)
    backward: str = "none"
    autocast: bool = False


def manifest() -> list[dict[str, Any]]:
    """The generated manifest rows."""
    rows: list[dict[str, Any]] = _paths.manifest()["rows"]
    return rows


def peer_keys() -> dict[str, list[str]]:
    """The dispatch keys of XPU for which torch-xpu-ops has a kernel of an overload, by overload.

    As native_functions.yaml of the torch of the build declares them; torch 2.13 does not, and gets those of 2.15.
    """
    keys: dict[str, list[str]] = _paths.manifest()["peer"]
    return keys


def reference_set(name: str) -> set[str]:
    """Overload names of a reference: 'cuda', 'peer' (torch-xpu-ops) or 'cpu' (the installed torch)."""
    if name == "cpu":
        return {n for n in overload_names() if _has(n, "CPU")}
    if name == "peer":
        return set(peer_keys())
    lines = (DATA / "cuda_overloads.txt").read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def overload_names(namespace: str = ATEN) -> list[str]:
    """Every overload of a namespace that is declared in this process; those of aten without the namespace."""
    # torch keeps autocast's kernels of operators that it has removed.
    removed = {dump.partition("\n")[0].removeprefix("name: ") for dump in torch._C._dispatch_find_dangling_impls()}
    names = set(torch._C._dispatch_get_all_op_names()) - removed
    return sorted(n.removeprefix("aten::") for n in names if n.startswith(f"{namespace}::"))


def own_namespaces() -> list[str]:
    """Those beside aten that the manifest has rows of."""
    return sorted({o.partition("::")[0] for row in manifest() for o in row["overloads"] if "::" in o})


def _has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name if "::" in name else f"aten::{name}", key)


def _forced_to_fall_back() -> set[str]:
    """Overloads whose XPU kernel is the fallback: what PYTORCH_XPU_FALLBACK_OP names, and oneMKL's rows without oneMKL."""
    from xpu_ops import onemkl

    named = {n.removeprefix("aten::") for n in os.environ.get("PYTORCH_XPU_FALLBACK_OP", "").split(",") if n}
    if onemkl.available():
        return named
    return named | {o for row in manifest() if row["by"] == "onemkl" for o in row["overloads"]}


def _registration(name: str) -> tuple[str, str]:
    """One of REGISTRATIONS, and the reason where there is no kernel.

    An operator of dense tensors is judged by its kernel for those, one of another layout alone by that of this layout.
    """
    if _has(name, "XPU"):
        return ("composite" if name in _sparse_semi_structured.OPERATORS else "native"), ""
    if any(_has(name, key) for key in COMPOSITE_KEYS):
        return "composite", ""
    base = name.rpartition("::")[2].partition(".")[0]
    if _has(name, "CPU"):
        if NO_WAY_BACK.match(base):
            return "not applicable", "makes MKL-DNN tensors, which the fallback cannot bring to xpu"
        return "fallback", ""
    vendor = next((VENDORS[word] for word in base.split("_") if word in VENDORS), None)
    if vendor is not None:
        return "not applicable", f"of {vendor}"
    layouts = [layout for layout in LAYOUTS if _has(name, f"{layout}CPU")]
    if any(_has(name, f"{layout}XPU") for layout in LAYOUTS):
        return "native", ""
    if {"Sparse", "SparseCsr", "Quantized"} & set(layouts):
        return "fallback", ""
    if layouts:
        return "missing", f"takes {' or '.join(LAYOUTS[layout] for layout in layouts)}"
    if _has(name, "MkldnnCPU"):
        return "not applicable", "takes MKL-DNN tensors, which only the CPU has"
    return "missing", "torch has no kernel for the CPU to fall back to"


def registration_for(name: str, key: str) -> str:
    """One of REGISTRATIONS for tensors of one dispatch key of XPU."""
    if _has(name, key):
        return "fallback" if name in _forced_to_fall_back() else "native"
    nested = key == "NestedTensorXPU"
    composites = [*COMPOSITE_KEYS[:2], *(["CompositeImplicitAutogradNestedTensor"] if nested else [])]
    if key in ("XPU", "SparseCsrXPU"):  # torch gives the last kind to no sparse and no nested tensors
        composites.append(COMPOSITE_KEYS[2])
    if any(_has(name, composite) for composite in composites):
        return "composite"
    # The fallback brings no nested tensor to the CPU.
    return "fallback" if not nested and _has(name, key.replace("XPU", "CPU")) else "missing"


def _family(name: str, bases: dict[str, str]) -> str:
    """The manifest's family for every overload of a base name; by the name's prefix for what the manifest lacks."""
    base = name.rpartition("::")[2].split(".")[0]
    for candidate in (base, base.rstrip("_"), base.lstrip("_"), base.strip("_"), base.strip("_").removesuffix("_copy")):
        if candidate in bases:
            return bases[candidate]
    prefix = base.strip("_").split("_")[0]
    return prefix if prefix in PREFIXES else "other"


def _is_ours(name: str) -> bool:
    """Whether the active XPU kernel is one of this library's, by the place of its registration."""
    dump = torch._C._dispatch_dump(name if "::" in name else f"aten::{name}").splitlines()
    keys = ("XPU: ", *(f"{layout}XPU: " for layout in LAYOUTS))
    active = next((line for key in keys for line in dump if line.startswith(key)), "")
    return "gen/aten/register_" in active or "bindings/" in active


def scan() -> list[Registration]:
    """Every overload of aten, then those of the other namespaces, from registrations alone."""
    # An overload of several keys counts as that of dense tensors.
    rows = sorted(manifest(), key=lambda row: bool(row["key"] == "XPU"))
    by_overload = {o: row for row in rows for o in row["overloads"]}
    bases = {o.split(".")[0]: row["family"] for o, row in by_overload.items()}
    forced = _forced_to_fall_back()
    result = []
    _torchvision.make_known()
    for namespace in (ATEN, *own_namespaces()):
        for name in overload_names(namespace):
            row = by_overload.get(name)
            registration, reason = ("fallback", "") if name in forced else _registration(name)
            if row and row["key"] != "XPU" and registration != "native":
                row = None
            composite = _has(name, "CompositeImplicitAutograd")
            formula = _has(name, "AutogradXPU") or _has(name, "Autograd") or _has(name, "AutogradCPU")
            by = None
            if registration == "native":
                by = "extension" if not _is_ours(name) else row["by"] if row else "host"
            result.append(
                Registration(
                    name=name,
                    namespace=namespace,
                    registration=registration,
                    reason=reason,
                    by=by,
                    family=row["family"] if row else _family(name, bases) if namespace == ATEN else namespace,
                    types=row["types"] if row else [],
                    backward="composite" if composite and not formula else "formula" if formula else "none",
                    autocast=_has(name, "AutocastXPU"),
                )
            )
    return result
