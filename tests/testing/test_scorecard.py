"""The scorecard: how runs are counted, that sizes alone are changed, and that the page is what the record says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
import yaml

from tools.scorecard import __main__ as scorecard
from tools.scorecard import cts, kernelbench, page
from tools.scorecard.__main__ import RECORD, ROOT, outcomes
from tools.scorecard.suites import SUITES

PROBLEM = """
import torch
batch_size = 128
in_features = 4096 * 2
slope = 0.1 * 3
height = width = 512
image_size = 224
divisor = 2
shape = (batch_size, in_features)

class Model(torch.nn.Module):
    def __init__(self, size=4096, side=224):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x / divisor

def get_inputs():
    count = 2000
    return [torch.zeros(*shape), torch.zeros(count)]

def get_init_inputs():
    return []
"""


def test_a_test_that_ends_the_process_has_failed() -> None:
    found = outcomes([
        {"id": "a", "started": True}, {"id": "a", "when": "call", "outcome": "passed"},
        {"id": "b", "started": True}, {"id": "b", "when": "call", "outcome": "failed", "error": "E"},
        {"id": "b", "when": "teardown", "outcome": "passed"},
        {"id": "c", "started": True}, {"id": "c", "when": "call", "outcome": "passed"},
        {"id": "c", "when": "teardown", "outcome": "failed", "error": "red zone"},
        {"id": "d", "started": True},
    ])  # fmt: skip
    assert {n: t["outcome"] for n, t in found.items()} == {"a": "passed", "b": "failed", "c": "failed", "d": "failed"}
    assert found["d"]["error"] == "the process ended in this test"


def test_sizes_of_a_problem_are_capped_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM)
    names = kernelbench.load(path)
    assert names["shape"] == (4, 1024)
    assert (names["height"], names["width"], names["divisor"]) == (128, 128, 2)
    assert names["image_size"] == 224  # the model's default
    assert names["Model"]().size == 4096
    assert [t.numel() for t in names["get_inputs"]()] == [4096, 2000]


SMALL = """
import torch
batch_size = 2
image_height = 64

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.last = lambda x: self.linear(x)

    def forward(self, x):
        return self.last(torch.nn.functional.avg_pool2d(x, 32).flatten(1))

def get_inputs():
    return [torch.rand(batch_size, 2, image_height, 64)]

def get_init_inputs():
    return []
"""


def test_images_too_small_for_a_model_keep_their_size(tmp_path: Path) -> None:
    """16 x 64 is less than the model's window, and a copy of the model would call the first one's layer on the CPU."""
    path = tmp_path / "problem.py"
    path.write_text(SMALL)
    assert kernelbench.load(path)["image_height"] == 16
    assert kernelbench.load(path, sides=False)["image_height"] == 64
    for compiled in (False, True):
        line = kernelbench.run(path, compiled, 1)
        assert line["outcome"] == "passed" and line["difference"] < 1e-5
        assert len(line["ms"]) == 2 + compiled


def test_the_cpu_is_compiled_where_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "problem.py"
    path.write_text(SMALL)
    devices = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        devices.append(next(t.device.type for t in inputs if isinstance(t, torch.Tensor)))
        return graph

    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model: compile(model, backend=backend))
    line = kernelbench.run(path, True, 1, cpu_compiled=True)
    assert line["outcome"] == "passed" and len(line["ms"]) == 3
    assert devices == ["xpu", "cpu"]


def test_sizes_that_have_to_agree_are_capped_alike(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        "batch_size = 32768\nclasses = 4096\ninput_shape = (32768,)\nother_shape = (4096, 2)\nrest = (70000,)\n"
        "import torch\ndef get_inputs(): return [torch.rand(batch_size, *input_shape, 2)]"
    )
    names = kernelbench.load(path)
    assert names["batch_size"] == 1024 and names["input_shape"] == (1024,)
    assert names["classes"] == 1024 and names["other_shape"] == (1024, 2) and names["rest"] == (70000,)


def test_problems_with_large_inputs_are_capped_further(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        "import torch\nb, c = 8, 8\ni = 600\nj = 512\nk = 900\ndef get_inputs(): return [torch.rand(b, i, j, k)]"
    )
    names = kernelbench.load(path)
    assert (names["b"], names["i"], names["j"], names["k"]) == (8, 128, 128, 128)


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (torch.tensor([1.0, 2.0]), False),
        (torch.tensor([1.0, 2.1]), True),
        (torch.tensor([1.0, float("nan")]), True),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), True),
        (torch.tensor([[1.0, 2.0]]), True),
    ],
)
def test_a_wrong_result_is_seen(found: torch.Tensor, wrong: bool) -> None:
    assert (kernelbench.difference(torch.tensor([1.0, 2.0]), found) > 1e-3) == wrong


def test_the_cpu_is_held_to_what_the_tests_of_torchcts_compare(tmp_path: Path) -> None:
    suite = tmp_path / "torchcts"
    text = 'if torch.device(device).type == "cpu":\n    return\nif device == "cpu":\n    pass\nif a and device != "cpu":\n    pass\n'
    for part in ("operators", "memory"):
        (suite / part).mkdir(parents=True)
        (suite / part / "test_a.py").write_text(text)
    copy = cts.held(suite, tmp_path)
    assert (copy / "operators" / "test_a.py").read_text() == (
        "if False:\n    return\nif False:\n    pass\nif a and True:\n    pass\n"
    )
    assert (copy / "memory" / "test_a.py").read_text() == (suite / "memory" / "test_a.py").read_text() == text


def test_nodes_that_failed_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = next(s for s in SUITES if s.module == "cts")
    old = {
        "mode": "", "counts": {"passed": 7, "failed": 5}, "fails_on_cpu": ["z"],
        "failed": [{"id": n, "error": "E", "reason": "of old"} for n in ("mended", "held", "left", "gone")],
    }  # fmt: skip
    lines = [
        {"id": "mended", "outcome": "passed"}, {"id": "left", "outcome": "failed", "error": "has_inf-addmv-"},
        {"id": "held", "outcome": "failed", "error": "E", "on_cpu": "held"},
    ]  # fmt: skip
    monkeypatch.setattr(scorecard, "execute", lambda *_: (lines, "", ""))
    row = scorecard.again(old, suite, tmp_path, 1)
    assert row["counts"] == {"passed": 8, "failed": 4} and row["again"]["nodes"] == 4
    assert row["fails_on_cpu"] == ["held", "z"] and row["held"] == ["held"]
    assert [(f["id"], f["error"]) for f in row["failed"]] == [("gone", "E"), ("left", "has_inf-addmv-")]


def test_the_page_is_what_the_record_says(tmp_path: Path) -> None:
    rows = json.loads(RECORD.read_text())
    page.write(rows, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "scorecard.md").read_text()
    assert {r["suite"] for r in rows} <= {s.name for s in SUITES}
    # A run of which nothing came is no row.
    assert all(sum(r["counts"].values()) for r in rows)


def test_the_action_runs_the_script_that_is_there() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    assert "$GITHUB_ACTION_PATH/.ci/xpu-test" in step["run"]
    script = ROOT / ".ci" / "xpu-test"
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    assert all(name in text for name in step["env"] if name != "XPU_TEST_ARGUMENTS")
    for name in action["inputs"]:
        assert "${{ inputs." + name + " }}" in (ROOT / "action.yml").read_text()
