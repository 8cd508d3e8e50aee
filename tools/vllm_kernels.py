"""python -m tools.vllm_kernels FOLDER [--page]: runs the tests of a checkout of vllm-xpu-kernels, as they are, against this package.

Prints how many cases of each part passed, and the failures with their reasons; --page writes both into docs/vllm.md. The exit code is 1
where a test fails without a reason below, or does not fail although it has one. The scope is the one that the checkout calls mini.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

from tools.doc_tables import filled

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/vllm.md"
COMMAND = "python -m tools.vllm_kernels FOLDER --page"

# Parts of the checkout, by the names of its files; the first that fits takes a file.
PARTS = {
    "attention, block tables": ("flash_attn", "merge_attn"),
    "caches of keys and values": ("cache",),
    "norms": ("layernorm", "norm_quant"),
    "activations": ("activation", "swiglu", "silu_mul"),
    "rotary embeddings": ("rotary", "scaling_rope", "qk_norm_rope"),
    "rounding to 8 and 4 bits": ("fp8_quant", "mxfp4_quant"),
    "products with few bits": ("gemm_onednn",),
    "routing of experts": ("topk.py", "grouped_topk", "softplus", "moe_align", "moe_lora", "moe_sum", "moe_gather", "remap", "reorder"),
    "products of experts": ("fused_moe", "grouped_gemm"),
    "LoRA": ("lora", "punica"),
    "sampling": ("sampler", "exponential", "topk_per_row"),
    "gated delta rule": ("gdn_attn",),
    "DeepSeek: rotations, scores, streams": ("deepseek", "mqa_logits", "mhc"),
    "memory": ("memory_info", "host_register", "memcpy", "mem_alloc", "uva"),
}  # fmt: skip

# Why a test fails, by its function.
REASONS = {
    "test_activation": "its reference rounds to bfloat16 after every step of the polynomial; ours once, nearer to float64",
    "test_apply_rotary_emb_wrapper": "its reference rounds to bfloat16 after every product; ours once, nearer to float64",
    "test_int4_gemm_w4a16": "its reference rounds the weight to float16 before the product; ours is nearer to float64",
    "test_deepseek_scaling_rope": "its reference has a dimension more than its operator",
    "test_fp8_bmm_batched_weight_per_block": "in its mini scope sizes are no multiples of its groups, which it asserts; passes in the full scope",
    "test_fused_moe_clamp_limit": "in its mini scope its own results with and without a limit are equal within its tolerance",
    "test_mla_decode_rejects_large_q_packed": "expects a limit of Xe's local memory; 16 heads are served here",
}


def run(folder: Path, scope: str, chosen: list[str]) -> ET.Element:
    """The report of the checkout's tests, JUnit's XML."""
    environment = os.environ | {
        "XPU_OPS_VLLM_KERNELS": "1",
        "XPU_KERNEL_TEST_SCOPE": scope,
        "PYTORCH_ENABLE_XPU_FALLBACK": "0",  # what runs on the CPU fails
    }
    with tempfile.TemporaryDirectory() as room:
        report = Path(room) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", f"--junitxml={report}"]
        subprocess.run([*command, *(chosen or ["tests"])], cwd=folder, env=environment, check=False)
        if not report.is_file():
            raise FileNotFoundError(f"pytest wrote no report; is {folder} a checkout of vllm-xpu-kernels?")
        return ET.parse(report).getroot()


def part_of(path: str) -> str:
    return next((part for part, keys in PARTS.items() if any(k in path for k in keys)), "others")


def counted(report: ET.Element) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Outcomes of each part and of each test, with how many functions a part has."""
    parts: dict[str, Counter[str]] = defaultdict(Counter)
    tests: dict[str, Counter[str]] = defaultdict(Counter)
    functions: dict[str, set[str]] = defaultdict(set)
    for case in report.iter("testcase"):
        module = case.get("classname", "").replace(".", "/")
        name = case.get("name", "").partition("[")[0]
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        part = part_of(module + ".py" if module else name)
        parts[part][outcome] += 1
        tests[name][outcome] += 1
        functions[part].add(module + name)
    for part, names in functions.items():
        parts[part]["tests"] = len(names)
    return parts, tests


def table(parts: dict[str, Counter[str]], tests: dict[str, Counter[str]]) -> str:
    lines = ["| part | tests | cases passed | failed | skipped |", "|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    columns = ("tests", "passed", "failed", "skipped")
    for part in [*PARTS, "others"]:
        if part in parts:
            lines.append(f"| {part} | " + " | ".join(str(parts[part][c]) for c in columns) + " |")
            total.update(parts[part])
    lines.append("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    lines += ["", "| fails | cases | why |", "|---|---|---|"]
    for name in sorted(n for n, c in tests.items() if c["failed"]):
        count = tests[name]
        lines.append(
            f"| `{name}` | {count['failed']} of {count['failed'] + count['passed']} | {REASONS.get(name, 'unknown')} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.vllm_kernels", description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout of vllm-xpu-kernels")
    parser.add_argument("tests", nargs="*", help="files or tests in it; all where left out")
    parser.add_argument("--scope", default="mini", help="full, ci or mini")
    parser.add_argument("--page", action="store_true", help="write docs/vllm.md")
    options = parser.parse_args()
    parts, tests = counted(run(options.folder, options.scope, options.tests))
    text = table(parts, tests)
    print(text)
    if options.page:
        PAGE.write_text(filled(PAGE.read_text(), "vllm-xpu-kernels", text, COMMAND))
    failing = {n for n, c in tests.items() if c["failed"]}
    wrong = sorted(failing ^ (set(REASONS) & set(tests)))
    for name in wrong:
        print(
            f"{name}: {'fails without a reason' if name in failing else 'has a reason and does not fail'}",
            file=sys.stderr,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
