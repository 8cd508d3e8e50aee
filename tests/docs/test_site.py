"""The site of the documents: its navigation has every page, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tools.site import __main__ as site
from tools.site.navigation import NAVIGATION, UNLISTED

ROOT = Path(__file__).resolve().parents[2]


def listed() -> list[str]:
    """Pages of the navigation, without their titles."""
    return [re.sub(r"^.*<(.*)>$", r"\1", name) for names in NAVIGATION.values() for name in names]


def test_the_navigation_has_every_page_once() -> None:
    notes = {str(p) for p in site.pages() if p.parent == Path("docs/notes") and p.stem != "index"}
    pages = {str(p.with_suffix("")) for p in site.pages() if str(p) not in notes}
    assert len(pages) > 30
    assert sorted(listed()) == sorted(pages - set(UNLISTED))


def test_a_staged_site(tmp_path: Path) -> None:
    """Every page, every picture and every linked file is there; reports are, where a build has them."""
    build = tmp_path / "build"
    (build / "docs").mkdir(parents=True)
    (build / "docs" / "xpu_ops.html").write_text("the API")
    site.stage(build, tmp_path / "out")
    assert {p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*.md")} == {
        *site.pages(),
        Path("index.md"),
        Path("reports.md"),
    }
    index = (tmp_path / "out" / "index.md").read_text()
    reports = (tmp_path / "out" / "reports.md").read_text()
    assert '<a href="api/xpu_ops.html">' in reports and "Coverage report" not in reports and "scorecard.md" in reports
    assert (tmp_path / "out" / "_extra" / "api" / "xpu_ops.html").is_file()
    for target in re.findall(r"\]\(([^)\s#]+)", index):
        assert re.match(r"[a-z]+:", target) or (tmp_path / "out" / target).is_file(), target
    for page in (tmp_path / "out").rglob("*.md"):
        for file in re.findall(r"\]\(/(_files/[^)#]+)", page.read_text()):
            assert (tmp_path / "out" / file).is_file(), (page, file)


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="docs/x.md: ../nothing.py is no file"):
        site._linked(Path("docs/x.md"), "see [this](../nothing.py)")
    text, files = site._linked(
        Path("docs/x.md"), "[a](gpu.md), [b](../Makefile), `[c](../nothing.py)`, [d](https://x.org/y)"
    )
    assert "(/_files/Makefile)" in text and "(gpu.md)" in text and files == {Path("Makefile")}


def test_the_front_page_is_short() -> None:
    assert len((ROOT / "docs" / "home.md").read_text().splitlines()) <= 50


@pytest.mark.skipif(
    any(importlib.util.find_spec(n) is None for n in ("sphinx", "myst_parser", "furo")),
    reason="the generator is in requirements/site.txt, which `make site` installs in an environment of its own",
)
def test_sphinx_renders_without_warnings(tmp_path: Path) -> None:
    site.stage(tmp_path, tmp_path / "source")
    site.render(tmp_path / "source", tmp_path / "site")
    assert (tmp_path / "site" / "docs" / "architecture.html").is_file()
