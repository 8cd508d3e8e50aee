"""SciPy's own tests of its array-API functions, on tensors of this device; docs/onemkl.md has the shares."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from xpu_ops import onemkl

pytest.importorskip("scipy", reason="SciPy is not installed")
pytestmark = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
SUITES = yaml.safe_load(Path(__file__).with_name("scipy.yaml").read_text())


def run(parts: list[str], folder: Path) -> dict[str, str]:
    """Outcome of every test of these parts of SciPy: passed, failed or skipped."""
    report = folder / "report.xml"
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
               "--tb=short", "-m", "array_api_backends and not slow", f"--junitxml={report}"]  # fmt: skip
    env = os.environ | {"SCIPY_ARRAY_API": '["torch"]', "SCIPY_DEVICE": "xpu", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, "--pyargs", *parts], cwd=folder, env=env, capture_output=True, text=True, timeout=7200
    )
    assert done.returncode in (0, 1), f"exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    (folder / "output.txt").write_text(done.stdout)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        states = {child.tag for child in case}
        name = f"{case.get('classname')}::{case.get('name')}"
        outcomes[name] = "failed" if states & {"failure", "error"} else "skipped" if "skipped" in states else "passed"
    return outcomes


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, tmp_path: Path) -> None:
    """All pass but those of scipy.yaml, and none of these passes."""
    wanted = SUITES[suite]
    if not FULL and "sample" not in wanted:
        pytest.skip("make test runs a sample; XPU_OPS_TEST_LEVEL=full runs them all")
    outcomes = run(wanted["parts"] if FULL else wanted["sample"], tmp_path)
    shares = {state: sum(o == state for o in outcomes.values()) for state in ("passed", "failed", "skipped")}
    print(suite, shares)  # docs/onemkl.md has them
    assert shares["passed"] > 0
    known = [pattern for entry in wanted.get("fail", []) for pattern in entry["tests"]]
    failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
    surprises = [name for name in failed if not any(fnmatch.fnmatchcase(name, k) for k in known)]
    assert not surprises, f"{shares}; output in {tmp_path / 'output.txt'}\n" + "\n".join(surprises)
    passed = [name for name, outcome in outcomes.items() if outcome == "passed"]
    listed = [name for name in passed if any(fnmatch.fnmatchcase(name, k) for k in known)]
    assert not listed, f"listed in scipy.yaml, but they pass: {listed}"
