"""The report as one document: registrations, evidence and totals. JSON is its source of truth; see docs/coverage.md."""

from __future__ import annotations

import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from . import dispatcher, evidence
from .evidence import Status, combine

SCHEMA = 3
VERDICTS = ("native", "composite", "failed", "fallback", "missing", "not applicable")
SETS = {
    "torch": "the installed torch",
    "cpu": "torch's CPU backend",
    "cuda": "torch's CUDA backend",
    "peer": "torch-xpu-ops (the peer)",
}


def _overload_evidence(cells: list[tuple[str, str, Status]]) -> dict[str, Any]:
    by_dtype: dict[str, dict[str, Status]] = defaultdict(dict)
    for dtype, layout, status in cells:
        by_dtype[dtype][layout] = status
    dtypes = {}
    for dtype, layouts in sorted(by_dtype.items()):
        all_layouts = combine(layouts.values())
        dtypes[dtype or "-"] = {
            "state": all_layouts.state,
            "direct": all_layouts.direct,
            "backward": all_layouts.backward,
            "layouts": {k or "-": s.state for k, s in sorted(layouts.items())},
        } | ({"why": all_layouts.why} if all_layouts.why else {})
    states = Counter(d["state"] for d in dtypes.values())
    if states["verified"]:
        state = "partly" if states["failed"] or states["fallback"] or states["unclear"] else "verified"
    else:
        state = next(s for s in evidence.ORDER if states[s])
    return {"state": state, "dtypes": dtypes}


def _verdict(registration: str, found: dict[str, Any] | None) -> str:
    """Registration says what should run, evidence what did: nothing that only fell back or failed is native."""
    if found is None or registration not in ("native", "composite"):
        return registration
    return found["state"] if found["state"] in ("fallback", "failed") else registration


def _totals(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    rows = list(rows)
    verdicts = Counter(r["verdict"] for r in rows)
    registered = Counter(r["registration"] for r in rows)
    states = Counter(r["evidence"]["state"] for r in rows if r["evidence"] and not r["evidence"]["stale"])
    native = [r for r in rows if r["verdict"] == "native"]
    return {
        "total": len(rows),
        "verdicts": {v: verdicts[v] for v in VERDICTS},
        "registered": {v: registered[v] for v in dispatcher.REGISTRATIONS},
        "native_by": dict(sorted(Counter(r["by"] for r in native).items())),
        "native_with_backward": sum(r["backward"] != "none" for r in native),
        "native_with_autocast": sum(r["autocast"] for r in native),
        "native_verified": sum(_is_verified(r) for r in native),
        "evidence": {s: states[s] for s in ("verified", "partly", "executed", "unclear", "failed", "fallback")},
    }


def _peer_keys(known: set[str]) -> dict[str, dict[str, Any]]:
    """By dispatch key of XPU: how the overloads that the peer has a kernel of for that key are registered here."""
    by_key: dict[str, dict[str, str]] = defaultdict(dict)
    for name, keys in dispatcher.peer_keys().items():
        for key in keys if name in known else ():
            by_key[key][name] = dispatcher.registration_for(name, key)
    result = {}
    for key, found in sorted(by_key.items(), key=lambda item: -len(item[1])):
        counts = Counter(found.values())
        result[key] = {
            "total": len(found),
            "registered": {r: counts[r] for r in dispatcher.REGISTRATIONS},
            "others": {name: r for name, r in sorted(found.items()) if r != "native"},
        }
    return result


def _is_verified(row: dict[str, Any]) -> bool:
    e = row["evidence"]
    return e is not None and not e["stale"] and e["state"] in ("verified", "partly")


def build(path: Path | None = None, *, with_evidence: bool = True, imports: Iterable[str] = ()) -> dict[str, Any]:
    """The whole document.

    Args:
        path: the recording; the default one if None.
        imports: modules that register further kernels and that the run imported as well.
        with_evidence: False leaves it out, so that the result depends on the build and on torch alone.
    """
    path = path or evidence.reading_path()
    recording = evidence.Evidence.load(path) if with_evidence else None
    for name in imports:
        importlib.import_module(name)
    key = evidence.current_key(imports)
    stale = recording.stale_because(key) if recording else []
    cells: dict[str, list[tuple[str, str, Status]]] = defaultdict(list)
    if recording:
        for (overload, dtype, layout), status in recording.judge().items():
            cells[overload].append((dtype, layout, status))
    rows: list[dict[str, Any]] = []
    for r in dispatcher.scan():
        found = _overload_evidence(cells[r.name]) if r.name in cells else None
        rows.append(
            {
                "name": r.name,
                "namespace": r.namespace,
                "verdict": _verdict(r.registration, None if stale else found),
                "registration": r.registration,
                "reason": r.reason,
                "by": r.by,
                "family": r.family,
                "types": r.types,
                "backward": r.backward,
                "autocast": r.autocast,
                "evidence": {**found, "stale": bool(stale)} if found else None,
            }
        )
    members = {name: dispatcher.reference_set(name) for name in SETS if name != "torch"}
    for row in rows:
        of = [name for name, names in members.items() if row["name"] in names]
        row["sets"] = ["torch", *of] if row["namespace"] == dispatcher.ATEN else []
    aten = [r for r in rows if r["namespace"] == dispatcher.ATEN]
    families = sorted({r["family"] for r in aten})
    others = sorted({r["namespace"] for r in rows} - {dispatcher.ATEN})
    return {
        "schema": SCHEMA,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "torch": torch.__version__,
        "device": key["device"],
        "build": key["build"],
        "recording": {
            "state": "none" if recording is None else "stale" if stale else "current",
            "stale_because": stale,
            "date": recording.header["date"] if recording else None,
            "key": recording.header["key"] if recording else None,
            "tests": recording.outcomes() if recording else {},
        },
        "totals": {"torch": _totals(aten)} | {name: _totals(r for r in aten if name in r["sets"]) for name in members},
        "unknown_to_torch": {name: sorted(names - {r["name"] for r in rows}) for name, names in members.items()},
        "peer_keys": _peer_keys({r["name"] for r in aten}),
        "families": {f: _totals(r for r in aten if r["family"] == f) for f in families},
        "namespaces": {n: _totals(r for r in rows if r["namespace"] == n) for n in others},
        "overloads": rows,
    }


def select(
    document: dict[str, Any],
    *,
    against: str = "",
    family: str = "",
    namespace: str = "",
    dtype: str = "",
    verdicts: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """The overloads of a set, a family or a namespace that know a dtype and have one of the verdicts; empty criteria fit all."""
    wanted = set(verdicts)
    tests: list[Callable[[dict[str, Any]], bool]] = [
        lambda r: not against or against in r["sets"],
        lambda r: not family or r["family"] == family,
        lambda r: not namespace or r["namespace"] == namespace,
        lambda r: not dtype or dtype in r["types"] or dtype in ((r["evidence"] or {}).get("dtypes") or {}),
        lambda r: not wanted or r["verdict"] in wanted,
    ]
    return [r for r in document["overloads"] if all(t(r) for t in tests)]
