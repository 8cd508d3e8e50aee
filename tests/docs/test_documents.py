"""The documents: generated tables, links, lengths, and the tutorial's manifest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import hostile

from tools import doc_tables
from tools.codegen import fields

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
# Longer ones are not read.
MOST_LINES = {"README.md": 80, "docs/performance.md": 150, "docs/architecture.md": 180}


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+)$", re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def test_generated_tables_are_up_to_date() -> None:
    assert [str(p.relative_to(ROOT)) for p in doc_tables.stale()] == [], "run `make tables`"


def test_a_stale_table_is_noticed() -> None:
    text = (ROOT / "docs" / "environment.md").read_text()
    changed = text.replace("| 1024 |", "| 1023 |")
    assert changed != text
    assert doc_tables.filled(changed, "environment", doc_tables.TABLES["environment"][1]()) == text
    with pytest.raises(ValueError, match="expected one"):
        doc_tables.filled(text.replace("<!-- environment: end -->", ""), "environment", "")


@pytest.mark.parametrize("kind", ["native", "composite"])
def test_figures_of_hostile_calls_have_a_place(kind: str) -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert "\nx\n" in doc_tables.filled(text, f"hostile {kind}", "x\n", hostile.WRITER)


def test_fields_are_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.codegen", "--fields"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == fields.table()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(), flags=re.S)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


def test_dates_are_in_notes() -> None:
    """Pages keep the command and the last verdict. The scorecard's dates are those of suites."""
    documents = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    pages = [p for p in documents if p.name != "scorecard.md"]
    dated = [f"{p.name}: {date}" for p in pages for date in re.findall(r"20\d\d-\d\d-\d\d", p.read_text())]
    assert dated == []


@pytest.mark.parametrize("name", MOST_LINES)
def test_short_documents_stay_short(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= MOST_LINES[name]


def test_every_note_is_in_the_index() -> None:
    index = (ROOT / "docs" / "notes" / "index.md").read_text()
    notes = {p.name for p in (ROOT / "docs" / "notes").glob("*.md")} - {"index.md"}
    assert notes
    assert {n for n in notes if f"]({n})" not in index} == set()


@pytest.mark.parametrize("document", ["docs/adding-an-op.md", "examples/own_operator.md"])
def test_the_manifest_of_a_tutorial_is_accepted(tmp_path: Path, document: str) -> None:
    found = re.search(
        r"`kernels/manifest/(\w+)\.yaml`:\n( *)```yaml\n(.*?)^\2```", (ROOT / document).read_text(), re.S | re.M
    )
    assert found is not None
    family, indent, text = found.groups()
    (tmp_path / f"{family}.yaml").write_text(re.sub(f"^{indent}", "", text, flags=re.M))
    tool = [sys.executable, "-m", "tools.codegen", "--manifest", str(tmp_path), "--stats"]
    done = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # One row of four element types.
    assert re.search(rf"^{family} +1 +\d+ +7$", done.stdout, re.M), done.stdout


# Of a build or a wheel, of files that a tutorial has one write, of others' suites, and of older trees.
OTHER_TREES = {"environment.md", "adding-an-op.md", "own_operator.md", "scorecard.md", "CHANGELOG.md"}
FOLDERS = "kernels|bindings|xpu_ops|tools|tests|docs|examples|findings|requirements"


def test_paths_in_pages_exist() -> None:
    """A path may leave the ending out: `kernels/ops/linalg` are two files."""
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
    gone = [
        (page.name, path)
        for page in pages
        if page.name not in OTHER_TREES
        for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", page.read_text())
        if not (ROOT / path).exists() and not list(ROOT.glob(f"{path}.*"))
    ]
    assert gone == []
