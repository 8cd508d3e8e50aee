"""The document as a table for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from .dispatcher import REGISTRATIONS, own_namespaces
from .report import SETS, VERDICTS

BEGIN, END = "<!-- coverage: begin, written by `make coverage` -->", "<!-- coverage: end -->"


GROUPS = {"families": "family", "namespaces": "outside aten"}  # keys of the document and their titles


def _columns(verdicts: Iterable[str]) -> list[str]:
    return ["total", *verdicts]


def _cells(totals: dict[str, Any]) -> list[str]:
    return [str(totals["total"]), *(str(totals["verdicts"][v]) for v in VERDICTS)]


def _recording(document: dict[str, Any]) -> str:
    r = document["recording"]
    if r["state"] == "none":
        return "No recorded run: verdicts are registrations, nothing is verified. `xpu-ops coverage run` records one."
    tests = ", ".join(f"{n} {outcome}" for outcome, n in r["tests"].items())
    line = f"Recorded {r['date']} on {r['key']['device']}: {tests}."
    if r["state"] == "stale":
        line += f" Stale, so nothing counts as verified: changed since are {', '.join(r['stale_because'])}."
    return line


def _evidence(row: dict[str, Any]) -> str:
    e = row["evidence"]
    if e is None:
        return ""
    return ("stale: " if e["stale"] else "") + " ".join(
        f"{d}:{'ok' if s['state'] == 'verified' else s['state']}" for d, s in e["dtypes"].items()
    )


def table(document: dict[str, Any], rows: list[dict[str, Any]], console: Console, *, listing: bool) -> None:
    """Totals by set and by family; `listing` adds the rows one by one."""
    sets = Table("overloads of", *_columns(VERDICTS), "verified", title=f"torch {document['torch']}")
    for name, title in SETS.items():
        t = document["totals"][name]
        sets.add_row(title, *_cells(t), str(t["native_verified"]))
    console.print(sets)
    for key, title in GROUPS.items():
        group = Table(title, *_columns(VERDICTS), "verified", "with backward", "with autocast")
        for name, t in document[key].items():
            more = (t["native_verified"], t["native_with_backward"], t["native_with_autocast"])
            group.add_row(name, *_cells(t), *map(str, more))
        console.print(group)
    if listing:
        listed = Table("overload", "verdict", "by or why not", "family", "types", "backward", "autocast", "evidence")
        for r in rows:
            types, autocast = " ".join(r["types"]), "yes" if r["autocast"] else ""
            listed.add_row(
                r["name"],
                r["verdict"],
                r["by"] or r["reason"],
                r["family"],
                types,
                r["backward"],
                autocast,
                _evidence(r),
            )
        console.print(listed)
    console.print(_recording(document))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def markdown(document: dict[str, Any], rows: list[dict[str, Any]], *, listing: bool) -> str:
    """Totals by set and by family; `listing` adds the rows one by one."""
    lines = [_line(["overloads of", *_columns(VERDICTS), "verified"]), _line(["---"] * (len(VERDICTS) + 3))]
    for name, title in SETS.items():
        t = document["totals"][name]
        lines.append(_line([title, *_cells(t), str(t["native_verified"])]))
    for key, title in GROUPS.items():
        lines += ["", _line([title, *_columns(VERDICTS), "verified"]), _line(["---"] * (len(VERDICTS) + 3))]
        for name, t in document[key].items():
            lines.append(_line([name, *_cells(t), str(t["native_verified"])]))
    if listing:
        lines += ["", _line(["overload", "verdict", "by or why not", "family", "backward", "autocast", "evidence"])]
        lines += [_line(["---"] * 7)]
        for r in rows:
            autocast = "yes" if r["autocast"] else ""
            lines.append(
                _line(
                    [
                        f"`{r['name']}`",
                        r["verdict"],
                        r["by"] or r["reason"],
                        r["family"],
                        r["backward"],
                        autocast,
                        _evidence(r),
                    ]
                )
            )
    return "\n".join([*lines, "", _recording(document)]) + "\n"


def _registered(title: str, totals: dict[str, Any]) -> str:
    return _line([title, str(totals["total"]), *(str(totals["registered"][v]) for v in REGISTRATIONS)])


def readme_table(document: dict[str, Any]) -> str:
    """README's table: registrations alone, which are the same on every machine with this torch."""
    lines = [_line(["overloads of", "total", *REGISTRATIONS]), _line(["---"] * (len(REGISTRATIONS) + 2))]
    for name in ("peer", "cuda", "cpu", "torch"):
        lines.append(_registered(SETS[name], document["totals"][name]))
        if name == "peer":
            lines += [_registered(f"its kernels for `{key}`", t) for key, t in document["peer_keys"].items()]
    for name in own_namespaces():
        lines.append(_registered(f"`torch.ops.{name}`", document["namespaces"][name]))
    return "\n".join(lines) + "\n"


def replace_between_markers(text: str, table: str) -> str:
    """`text` with what stands between the two markers replaced. Raises ValueError where they are not there once each."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"expected one '{BEGIN}' and, after it, one '{END}'")
    return text[: text.index(BEGIN) + len(BEGIN)] + "\n" + table + text[text.index(END) :]
