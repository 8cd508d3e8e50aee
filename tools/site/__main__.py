"""python -m tools.site BUILD: renders the documents, the API pages and the reports of a build folder into BUILD/site.

Pages keep their places in the tree, so that links between them are those of the repository. A file that a page links to, such as
an example, is copied; a link to a folder, or to what is not there, is an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site.navigation import NAVIGATION, UNLISTED

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md")
PICTURES = ("docs/**/*.svg", "docs/**/*.png")
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_REPORTS_PAGE = """\
# API and reports

| page | made by |
|---|---|
{rows}| [Performance picture](docs/performance.md#the-last-table) | `xpu-ops bench --docs docs/performance.md` |
| [Scorecard](docs/scorecard.md) | `make scorecard` |
"""
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)
# Of the build folder: what, from where, to where on the site.
REPORTS = (
    ("API of the Python package", "make docs", "docs", "api", "xpu_ops.html"),
    ("Coverage report", "make coverage", "coverage/report.html", "coverage", "report.html"),
)


def pages() -> list[Path]:
    """The pages of the repository, as they lie in it."""
    found = {p for pattern in PAGES for p in ROOT.glob(pattern)}
    return sorted(p.relative_to(ROOT) for p in found)


def _linked(page: Path, text: str) -> tuple[str, set[Path]]:
    """The text with links to files as downloads, and these files."""
    files: set[Path] = set()

    def link(m: re.Match[str]) -> str:
        target = m[1]
        if re.match(r"[a-z]+:", target) or target.endswith((".md", ".svg", ".png")):
            return m[0]
        path = (ROOT / page.parent / target).resolve()
        if not path.is_file():
            raise ValueError(f"{page}: {target} is no file; link to a page or to a file")
        files.add(path.relative_to(ROOT))
        return "/_files/" + str(path.relative_to(ROOT))

    def outside_code(part: str) -> str:
        return part if part.startswith("`") else _LINK.sub(link, part)

    return "".join(map(outside_code, _CODE.split(text))), files


def _toctrees() -> str:
    out = []
    for title, names in (NAVIGATION | {"Generated": ("reports",)}).items():
        out.append(f"```{{toctree}}\n:caption: {title}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n")
    return "\n".join(out)


def stage(build: Path, folder: Path) -> None:
    """Write the sources of the site to `folder`: pages, pictures, linked files, what the build folder has of REPORTS.

    Raises ValueError for a link that leads nowhere.
    """
    shutil.rmtree(folder, ignore_errors=True)
    extra = folder / "_extra"
    extra.mkdir(parents=True)
    for page in pages():
        text, files = _linked(page, (ROOT / page).read_text())
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        if str(page.with_suffix("")) in UNLISTED:
            text = "---\norphan: true\n---\n" + text
        (folder / page).write_text(text)
        for file in files:
            (folder / "_files" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / "_files" / file)
    for picture in {p for pattern in PICTURES for p in ROOT.glob(pattern)}:
        shutil.copy(picture, folder / picture.relative_to(ROOT))
    (folder / "_static").mkdir()
    shutil.copy(Path(__file__).parent / "site.css", folder / "_static")
    shutil.copy(Path(__file__).parent / "conf.py", folder)
    rows = ""
    for title, command, source, place, page_name in REPORTS:
        if (build / source).is_dir():
            shutil.copytree(build / source, extra / place)
        elif (build / source).is_file():
            (extra / place).mkdir(exist_ok=True)
            shutil.copy(build / source, extra / place / page_name)
        else:
            print(f"{title}: {build / source} is not there, and left out", file=sys.stderr)
            continue
        # Pages that Sphinx does not know: only a link in HTML is left as it is.
        rows += f'| <a href="{place}/{page_name}">{title}</a> | `{command}` |\n'
    (folder / "reports.md").write_text(_REPORTS_PAGE.format(rows=rows))
    home = re.sub(r"(?<=\]\()(?![a-z]+:|\.\./)", "docs/", (ROOT / "docs" / "home.md").read_text())
    home = home.replace("](../", "](")
    notes = sorted(p.stem for p in (ROOT / "docs" / "notes").glob("*.md") if p.stem != "index")
    with (folder / "docs" / "notes" / "index.md").open("a") as index:
        index.write("\n```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(notes) + "\n```\n")
    (folder / "index.md").write_text(home + "\n" + _toctrees())


def render(source: Path, out: Path) -> None:
    """Render a staged folder. A warning of Sphinx, such as a link that leads nowhere, is an error.

    Raises CalledProcessError.
    """
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    subprocess.run([*command, str(source), str(out)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("build", type=Path, help="a build folder, for the API pages and the coverage report")
    build = parser.parse_args().build
    stage(build, build / "site-source")
    render(build / "site-source", build / "site")
    print(f"{build}/site/index.html: {len(list((build / 'site').rglob('*.html')))} pages")


if __name__ == "__main__":
    main()
