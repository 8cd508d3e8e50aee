"""Differences between two documents, for upgrades and reviews."""

from __future__ import annotations

from typing import Any, NamedTuple

RANK = {"native": 4, "composite": 3, "failed": 2, "fallback": 1, "missing": 0, "not applicable": 0}
GRADIENT = {"none": 0, "composite": 1, "formula": 1}


class Change(NamedTuple):
    name: str
    what: str  # verdict, backward, autocast, dtype, added or removed
    old: str
    new: str
    regression: bool


def _verified(row: dict[str, Any]) -> set[str]:
    e = row["evidence"]
    return {d for d, s in e["dtypes"].items() if s["state"] == "verified"} if e and not e["stale"] else set()


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Every difference, regressions first.

    Verified dtypes are compared only where both documents hold a recording that counts and the new one ran the overload.

    Raises:
        ValueError: where the schemas differ.
    """
    if old["schema"] != new["schema"]:
        raise ValueError(f"schema {old['schema']} cannot be compared with schema {new['schema']}")
    before = {r["name"]: r for r in old["overloads"]}
    after = {r["name"]: r for r in new["overloads"]}
    changes = [Change(n, "removed", before[n]["verdict"], "", False) for n in before.keys() - after.keys()]
    changes += [Change(n, "added", "", after[n]["verdict"], False) for n in after.keys() - before.keys()]
    counted = old["recording"]["state"] == new["recording"]["state"] == "current"
    for name in before.keys() & after.keys():
        a, b = before[name], after[name]
        if a["verdict"] != b["verdict"]:
            worse = RANK[b["verdict"]] < RANK[a["verdict"]]
            changes.append(Change(name, "verdict", a["verdict"], b["verdict"], worse))
        if a["backward"] != b["backward"]:
            worse = GRADIENT[b["backward"]] < GRADIENT[a["backward"]]
            changes.append(Change(name, "backward", a["backward"], b["backward"], worse))
        if a["autocast"] != b["autocast"]:
            changes.append(Change(name, "autocast", str(a["autocast"]), str(b["autocast"]), a["autocast"]))
        if counted and b["evidence"]:
            ran = b["evidence"]["dtypes"]
            for dtype in sorted(_verified(a) - _verified(b)):
                state = ran[dtype]["state"] if dtype in ran else "not run"
                changes.append(Change(name, f"dtype {dtype}", "verified", state, state in ("failed", "fallback")))
            changes += [Change(name, f"dtype {d}", "", "verified", False) for d in sorted(_verified(b) - _verified(a))]
    return sorted(changes, key=lambda c: (not c.regression, c.name, c.what))
