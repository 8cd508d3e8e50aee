"""The report against counts made here without it: from the dispatcher, and by calling operators."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import xpu_ops
from xpu_ops.bench import vision
from xpu_ops.coverage import dispatcher, render, report
from xpu_ops.coverage.commands import app
from xpu_ops.upstream import sparse_semi_structured

ROOT = Path(__file__).resolve().parents[2]
HAS = torch._C._dispatch_has_kernel_for_dispatch_key


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return report.build(with_evidence=False)


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """Of a process of its own: tests of torch.compile register operators in this one."""
    code = "import json; from xpu_ops.coverage import report; print(json.dumps(report.build(with_evidence=False)))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built: dict[str, Any] = json.loads(done.stdout)
    return built


def members(name: str) -> list[str]:
    """The overloads of a set as the data files and the dispatcher give them."""
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    declared = {f"{s.name}.{s.overload_name}".rstrip(".") for s in schemas}
    everything = [n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n in declared]
    if name == "torch":
        return everything
    if name == "cpu":
        return [n for n in everything if HAS(f"aten::{n}", "CPU")]
    file = {"cuda": "cuda_overloads.txt", "peer": "peer_xpu.tsv"}[name]
    lines = (ROOT / "xpu_ops" / "data" / file).read_text().split("\n")
    listed = [n.partition("\t")[0] for n in lines if n and not n.startswith("#")]
    return [n for n in listed if f"aten::{n}" in declared]


COMPOSED = sparse_semi_structured.OPERATORS.keys()


def has(name: str, *keys: str) -> bool:
    return any(HAS(name if "::" in name else f"aten::{name}", key) for key in keys)


def counted(names: list[str]) -> tuple[list[str], list[str]]:
    """Native ones and composites, by the dispatcher and the list of what Python composes here."""
    dense = [n for n in names if has(n, "XPU") and n not in COMPOSED]
    composite = [n for n in names if n in COMPOSED or (n not in dense and has(n, *dispatcher.COMPOSITE_KEYS))]
    layouts = [f"{layout}XPU" for layout in dispatcher.LAYOUTS]
    other = [n for n in names if n not in dense and n not in composite and not has(n, "CPU") and has(n, *layouts)]
    return dense + other, composite


@pytest.mark.parametrize("name", list(report.SETS))
def test_totals_equal_a_direct_count(document: Any, name: str) -> None:
    names = members(name)
    native, composite = counted(names)
    totals = document["totals"][name]
    assert totals["total"] == len(names) == len(set(names))
    assert totals["verdicts"]["native"] == totals["registered"]["native"] == len(native)
    assert totals["verdicts"]["composite"] == len(composite)
    rest = totals["total"] - len(native) - len(composite)
    assert rest == sum(totals["verdicts"][v] for v in ("fallback", "missing", "not applicable", "failed"))
    if name == "torch":
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("XPU")
        assert len([n for n in registered if n.startswith("aten::")]) == sum(has(n, "XPU") for n in native) + len(
            COMPOSED
        )
    assert sum(totals["native_by"].values()) == len(native)
    assert totals["native_with_autocast"] == sum(HAS(f"aten::{n}", "AutocastXPU") for n in native)


def test_every_overload_has_one_verdict(document: Any) -> None:
    names = Counter(r["name"] for r in document["overloads"])
    assert set(names.values()) == {1}
    assert {r["name"] for r in document["overloads"] if r["namespace"] == "aten"} == set(members("torch"))
    assert {r["verdict"] for r in document["overloads"]} <= set(report.VERDICTS)
    assert sum(t["total"] for t in document["families"].values()) == len(members("torch"))
    for r in document["overloads"]:
        assert bool(r["reason"]) == (r["registration"] in ("missing", "not applicable")), r


def test_other_namespaces_are_counted_apart(document: Any) -> None:
    listed = {o for row in dispatcher.manifest() for o in row["overloads"] if "::" in o}
    assert {"xpu_ops", "mkldnn", "onednn"} <= set(document["namespaces"])
    verdicts = {r["name"]: r["verdict"] for r in document["overloads"]}
    assert {n for n in listed if verdicts[n] != "native"} == set()
    for namespace, totals in document["namespaces"].items():
        names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith(f"{namespace}::")]
        native, composite = counted(names)
        assert totals["total"] == len(names)
        assert totals["verdicts"]["native"] == len(native)
        assert totals["verdicts"]["composite"] == len(composite)
    assert [r for r in document["overloads"] if r["namespace"] != "aten" and r["sets"]] == []


def unfit() -> dict[str, Any]:
    """A call of every dense operator whose CPU kernel is no fallback because of what it returns."""
    x, one, mask = torch.rand(2, 3, device="xpu"), torch.ones(2, device="xpu"), torch.ones(2, 3, device="xpu") > 0
    zero, sizes = torch.zeros(2, dtype=torch.int64, device="xpu"), torch.tensor([[1, 1], [2, 1]])
    padded, lengths = torch.rand(2, 3, 1, device="xpu"), sizes.to("xpu")
    image = torch.rand(1, 1, 3, 3, device="xpu")
    return {
        "_nested_from_padded": ([padded, lengths], {}),
        "_nested_tensor_from_mask": ([padded, mask], {}),
        "_nested_view_from_buffer": ([one, lengths, lengths, zero], {}),
        "to_mkldnn": ([x], {}),
        "mkldnn::_reorder_linear_weight": ([x], {}),
        "mkldnn::_reorder_convolution_weight": ([image, [0, 0], [1, 1], [1, 1], 1], {}),
        "mkldnn::_reorder_convolution_transpose_weight": ([image, [0, 0], [0, 0], [1, 1], [1, 1], 1], {}),
    }


def overload(name: str) -> Any:
    namespace, _, rest = name.rpartition("::")
    base, _, which = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace or "aten"), base), which or "default")


def test_what_the_fallback_refuses_is_missing(document: Any) -> None:
    """A CPU kernel is registered for these, but what it returns exists on the CPU alone: every call has to raise."""
    calls = unfit()
    found = {r["name"]: r["registration"] for r in document["overloads"] if r["reason"].startswith("makes ")}
    rest = set(found) - set(calls)
    assert rest <= {"mkldnn::_reorder_mkldnn_rnn_layer_weight"}  # needs the weights of a whole layer
    for name, (args, kwargs) in calls.items():
        if name not in found:  # has become native
            assert has(name, "XPU")
            continue
        with pytest.raises(RuntimeError):
            overload(name)(*args, **kwargs)
        assert found[name] == ("not applicable" if "mkldnn" in name else "missing")


def test_what_is_not_applicable_belongs_to_others(document: Any) -> None:
    """No kernel that a dense tensor could reach, and a name or a key that says whose it is."""
    for r in document["overloads"]:
        if r["registration"] != "not applicable" or r["reason"].startswith("makes "):
            continue
        assert not has(r["name"], "XPU", "CPU", *dispatcher.COMPOSITE_KEYS), r["name"]
        words = set(r["name"].rpartition("::")[2].partition(".")[0].split("_"))
        assert words & {"cudnn", "miopen", "mps", "cslt"} or has(r["name"], "MkldnnCPU"), r["name"]
    verdicts = {r["name"]: r["verdict"] for r in document["overloads"]}
    assert verdicts["fake_quantize_per_tensor_affine_cachemask"] == "native"
    assert verdicts["slow_conv_dilated2d"] == "fallback"
    assert verdicts["quantize_per_tensor"] == verdicts["int_repr"] == "native"
    assert verdicts["quantized_max_pool3d"] == "fallback"
    assert verdicts["_efficient_attention_forward"] == "missing"


def test_forced_runs_agree(document: Any) -> None:
    """Every overload that takes one tensor and gives one: what is native never falls back, what falls back always does."""
    seen: Counter[str] = Counter()
    wrong = []
    x = torch.rand(4, 4, device="xpu") + 0.5
    for row in document["overloads"]:
        if "sparse" in row["name"] or row["name"].endswith("_") or row["namespace"] != "aten":
            continue
        op = overload(row["name"])
        schema = op._schema
        needed = [a for a in schema.arguments if not a.has_default_value()]
        if [str(a.type) for a in needed] != ["Tensor"] or [str(r.type) for r in schema.returns] != ["Tensor"]:
            continue
        xpu_ops.fallback.reset()
        try:
            op(x)
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            continue
        fell_back = f"aten::{row['name']}" in xpu_ops.fallback.counts()
        seen[row["registration"]] += 1
        if fell_back != (row["registration"] == "fallback"):
            wrong.append((row["name"], row["registration"], fell_back))
    assert wrong == []
    assert seen["native"] > 60
    assert seen["fallback"] >= 1


def test_forced_fallback_is_no_native_kernel() -> None:
    code = "from xpu_ops.coverage import dispatcher as d; print([r.registration for r in d.scan() if r.name == 'sinh'])"
    env = {**os.environ, "PYTORCH_XPU_FALLBACK_OP": "sinh"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "['fallback']", done.stderr


@pytest.mark.slow
def test_kernels_of_others_are_told_apart(fresh: Any) -> None:
    by = {r["name"]: r["by"] for r in fresh["overloads"]}
    assert (by["sin"], by["mm"], by["empty_strided"], by["linear"]) == ("sycl", "onednn", "host", None)
    assert "extension" not in by.values()
    code = "import torch; from xpu_ops.coverage import dispatcher as d; l = torch.library.Library('aten', 'IMPL');"
    code += "l.impl('sinh', torch.neg, 'XPU'); print([r.by for r in d.scan() if r.name == 'sinh'])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['extension']", done.stderr


def processor_seconds(command: list[str]) -> float:
    """Of a process: the machine that runs the tests does other things as well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_command_is_quick_and_json_is_whole(tmp_path: Path) -> None:
    """It takes less than two seconds besides the imports of torch and torchvision, whose operators it lists."""
    out = tmp_path / "report.json"
    python = [sys.executable, "-W", "ignore"]
    imports = processor_seconds([*python, "-c", "import torch, torchvision"])
    command = processor_seconds([*python, "-m", "xpu_ops.coverage", "report", "--format", "json", "--out", str(out)])
    assert command - imports < 2
    loaded = json.loads(out.read_text())
    assert loaded["schema"] == report.SCHEMA
    outside = sum(t["total"] for t in loaded["namespaces"].values())
    assert len(loaded["overloads"]) == loaded["totals"]["torch"]["total"] + outside


def numbers(line: str) -> list[int]:
    return [int(n) for n in re.findall(r"(?<![\w-])\d+(?![\w-])", line)]


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_rendered_numbers_are_those_of_the_document(document: Any, form: str) -> None:
    if form == "table":
        file = io.StringIO()
        render.table(document, [], Console(file=file, width=160), listing=False)
        text = file.getvalue()
    else:
        text = render.markdown(document, [], listing=False)
    lines = text.splitlines()
    for name, title in report.SETS.items():
        t = document["totals"][name]
        line = next(x for x in lines if title in x)
        assert numbers(line) == [t["total"], *(t["verdicts"][v] for v in report.VERDICTS), t["native_verified"]]
    for name, t in [*document["families"].items(), *document["namespaces"].items()]:
        found = [numbers(x)[: len(report.VERDICTS) + 1] for x in lines if re.match(rf"[|│] {name} ", x)]
        assert [t["total"], *(t["verdicts"][v] for v in report.VERDICTS)] in found


def test_selection(document: Any) -> None:
    peer = report.select(document, against="peer", verdicts=["fallback", "missing"])
    t = document["totals"]["peer"]["verdicts"]
    assert len(peer) == t["fallback"] + t["missing"]
    assert all(r["verdict"] in ("fallback", "missing") and "peer" in r["sets"] for r in peer)
    assert {r["name"] for r in report.select(document, namespace="xpu_ops")} >= {"xpu_ops::linear", "xpu_ops::rms_norm"}
    assert {r["namespace"] for r in report.select(document, against="torch")} == {"aten"}
    halves = report.select(document, family="activation", dtype="f16")
    assert halves
    assert all(r["family"] == "activation" and "f16" in r["types"] for r in halves)


def test_options_that_do_not_exist() -> None:
    run = CliRunner()
    for arguments, word in (
        (["report", "--family", "none"], "families are"),
        (["report", "--namespace", "none"], "namespaces are"),
        (["report", "--verdict", "good"], "verdicts are"),
        (["report", "--format", "xml"], "xml"),
        (["run", "--tests", "/nonexistent/tests"], "does not exist"),
    ):
        result = run.invoke(app, arguments)
        assert result.exit_code == 2
        assert word in result.output.replace("\n", " ")


def counts(text: str) -> str:
    """README without the row of torchvision's operators where its binary loads, which brings some of its own."""
    return re.sub(r"\| `torch.ops.torchvision` .*\n", "", text) if vision.comparable() else text


def test_readme_is_not_stale(fresh: Any) -> None:
    text = (ROOT / "README.md").read_text()
    made = render.replace_between_markers(text, render.readme_table(fresh))
    assert counts(text) == counts(made), "run `make coverage`"


def test_stale_readme_is_noticed(fresh: Any) -> None:
    text = (ROOT / "README.md").read_text()
    native = str(fresh["totals"]["peer"]["registered"]["native"])
    changed = text.replace(f"| {native} |", "| 1 |")
    assert changed != text
    assert all(f"| `torch.ops.{n}` | {t['total']} |" in text for n, t in fresh["namespaces"].items() if n == "xpu_ops")
    assert counts(render.replace_between_markers(changed, render.readme_table(fresh))) == counts(text)
    with pytest.raises(ValueError, match="expected one"):
        render.replace_between_markers(text.replace(render.END, ""), "")


def test_schema_is_documented(document: Any) -> None:
    """Every key of the document stands in docs/coverage.md, as `key`."""
    text = (ROOT / "docs" / "coverage.md").read_text()
    keys = {*document, *document["recording"], *document["totals"]["peer"], *document["overloads"][0]}
    assert {k for k in keys if f"`{k}`" not in text} == set()
    assert f"schema {report.SCHEMA}" in text
