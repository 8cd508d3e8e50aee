"""The HTML page: what it holds, and that a browser shows the document's numbers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from xpu_ops.coverage import html, report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TRACE = {
    "name": "</script><b>program</b>", "operator_ms": 12.5, "fallback_share": 0.25, "native_share": 0.5,
    "operators": [{"name": "sin", "how": "native", "dtypes": ["f32"], "calls": 7, "host_ms": 1.25, "device_ms": 2.5}],
}  # fmt: skip


def recorded(document: dict[str, Any]) -> dict[str, Any]:
    """The document with evidence of every state, so that the page has something to show."""
    states = ("verified", "executed", "unclear", "failed", "fallback")
    native = [r for r in document["overloads"] if r["verdict"] == "native"]
    for i, row in enumerate(native[:60]):
        found = {
            d: {"state": states[(i + k) % 5], "layouts": {"contiguous": states[(i + k) % 5]}}
            for k, d in enumerate(("f32", "i64"))
        }
        row["evidence"] = {"state": "partly", "stale": False, "dtypes": found}
    return document


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return recorded(report.build(with_evidence=False))


@pytest.fixture(scope="module")
def page(document: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "coverage.html"
    path.write_text(html.page(document, [TRACE]))
    return path


def test_json_in_the_page_is_the_document(page: Path, document: Any) -> None:
    scripts = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)
    assert len(scripts) == 1
    data = json.loads(scripts[0])
    assert data["document"] == json.loads(json.dumps(document))
    assert data["traces"] == [TRACE]


def test_needs_nothing_else(page: Path) -> None:
    markup = re.sub(r"<script type=.*?</script>", "", page.read_text(), flags=re.S)
    assert not re.search(r"(?:src|href|url|import|fetch|XMLHttpRequest)\s*[=(]|@import|https?://|<link", markup)
    assert 'name="viewport"' in markup
    assert "prefers-color-scheme: dark" in markup


class Cells(HTMLParser):
    """Text of the elements with data-row and data-column, and of those with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: dict[tuple[str, str], str] = {}
        self.ids: dict[str, str] = {}
        self._into: list[tuple[dict[Any, str], Any]] = []
        self.rows = 0
        self._table = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self._table = named.get("id") or "" if tag == "table" else self._table
        self.rows += tag == "tr" and self._table == "heat"
        if "data-row" in named:
            self._into = [(self.cells, (named["data-row"], named["data-column"]))]
        elif named.get("id") in ("shown", "by-verdict", "recording"):
            self._into = [(self.ids, named["id"])]

    def handle_endtag(self, tag: str) -> None:
        self._into = []

    def handle_data(self, data: str) -> None:
        for target, key in self._into:
            target[key] = target.get(key, "") + data


def check_shown(shown: Cells, document: dict[str, Any]) -> None:
    totals = {**document["totals"], **{f"family:{f}": t for f, t in document["families"].items()}}
    totals |= {f"namespace:{n}": t for n, t in document["namespaces"].items()}
    expected = {}
    for name, t in totals.items():
        values = {"total": t["total"], **t["verdicts"], "verified": t["native_verified"]}
        expected |= {(name, column): str(n) for column, n in values.items()}
    for d in html.dtypes_of(document):
        verified = [
            r
            for r in document["overloads"]
            if r["evidence"] and r["evidence"]["dtypes"].get(d, {}).get("state") == "verified"
        ]
        expected["dtype", d] = str(len(verified))
    assert shown.cells == expected
    assert expected["dtype", "f32"] == "12"
    n = len(document["overloads"])
    assert shown.ids["shown"] == f"{n} of {n} overloads"
    verdicts = Counter(r["verdict"] for r in document["overloads"])
    assert shown.ids["by-verdict"] == ", ".join(f"{verdicts[v]} {v}" for v in report.VERDICTS)
    assert "No recorded run" in shown.ids["recording"]
    assert shown.rows == 2 + 150  # head, sums, the first rows


# Runs behind the page's own script and leaves in the document what a reader would see.
PROBE = """<script>
const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b; };
const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } };
const contrast = e => { const [a, b] = [getComputedStyle(e).color, ground(e)].map(light).sort(); return (b + .05) / (a + .05); };
const seen = [...document.querySelectorAll("h1, p, th, td:first-child, .chip, .cell, button, select")].filter(e => e.offsetWidth && e.textContent.trim());
const out = { theme: document.documentElement.dataset.theme, ground: light(ground(document.body)), width: innerWidth,
  beyond: document.documentElement.scrollWidth - innerWidth, scrolls: document.getElementById("heat-scroll").scrollWidth > innerWidth,
  contrast: seen.map(e => [contrast(e), e.className, e.textContent]).sort((a, b) => a[0] - b[0])[0], texts: seen.length };
const heat = () => document.querySelectorAll("#heat tr").length - 2;
const pick = (id, v) => { const e = document.getElementById(id); e.value = v; e.dispatchEvent(new Event(e.tagName === "INPUT" ? "input" : "change")); };
const shown = () => document.getElementById("shown").textContent;
pick("namespace", "xpu_ops"); out.xpu_ops = [shown(), heat()];
pick("namespace", ""); pick("search", "sinh"); out.sinh = [shown(), heat()];
pick("search", ""); pick("set", "peer"); out.peer = shown(); pick("set", "");
document.getElementById("more").click(); out.more = heat();
document.getElementById("theme").click(); out.other = document.documentElement.dataset.theme;
parent.postMessage(JSON.stringify(out), "*");
</script>"""
# A window of Chromium is no narrower than 500; a frame is as narrow as a phone.
FRAME = """<!doctype html><iframe src="probed.html" style="border: 0" width="WIDTH" height="800"></iframe><script>
onmessage = e => { const pre = document.createElement("pre"); pre.id = "probe"; pre.textContent = e.data; document.body.append(pre); };
</script>"""


def browse(page: Path, folder: Path, *options: str) -> str:
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder}", "--virtual-time-budget=10000", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium to show the page in; apt install chromium")


@needs_browser
def test_browser_shows_the_numbers(page: Path, document: Any, tmp_path: Path) -> None:
    dom = browse(page, tmp_path, "--dump-dom", "--window-size=390,844")
    check_shown(Cells(dom), document)
    assert "</script><b>program" not in dom.replace(TRACE["name"].replace("</", "<\\/"), "")
    assert "&lt;/script&gt;&lt;b&gt;program" in dom
    assert "12.5 ms in operators, 25.0 % of it in fallbacks, 50.0 % of calls native" in dom


@needs_browser
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_looks(page: Path, document: Any, tmp_path: Path, scheme: str, width: int) -> None:
    """Follows the reader's scheme, every text can be read, nothing sticks out of a phone, filters and buttons work."""
    (tmp_path / "probed.html").write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)))
    preferred = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    dom = browse(frame, tmp_path / "profile", "--dump-dom", preferred, "--window-size=1400,900")
    seen = json.loads(unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)[1]))
    assert seen["theme"] == scheme
    assert seen["ground"] < 0.1 if scheme == "dark" else seen["ground"] > 0.9
    assert {seen["theme"], seen["other"]} == {"dark", "light"}
    assert seen["width"] == width
    assert seen["beyond"] <= 0  # the page itself does not scroll sideways; its tables do
    assert seen["contrast"][0] > 3.0, seen["contrast"]  # what WCAG asks of large and bold text and of controls
    assert seen["texts"] > 100
    n = len(document["overloads"])
    of_ours = document["namespaces"]["xpu_ops"]["total"]
    assert seen["xpu_ops"] == [f"{of_ours} of {n} overloads", of_ours]
    sinh = sum("sinh" in r["name"] for r in document["overloads"])
    assert seen["sinh"] == [f"{sinh} of {n} overloads", sinh]
    peers = sum("peer" in r["sets"] for r in document["overloads"])
    assert seen["peer"] == f"{peers} of {n} overloads"
    assert seen["more"] == 300
