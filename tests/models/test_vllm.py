"""vLLM with the platform plugin: tokens of tiny models equal those of transformers, its command serves, and it can be turned off.

Each test starts vLLM in a process of its own. Where vLLM is not installed, test_paging.py has what the plugin computes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.vllm_process import BUDGET, needs_vllm

ROOT = Path(__file__).resolve().parents[2]
pytestmark = needs_vllm

PROGRAM = """
import json, sys, torch, transformers
path, family, dtype, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
extra = {"mixtral": {"num_local_experts": 4}, "qwen3": {"head_dim": 32}}.get(family, {})
config = transformers.AutoConfig.for_model(
    family, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=320,
    max_position_embeddings=256, initializer_range=0.2, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, **extra,
)
torch.manual_seed(0)
model = transformers.AutoModelForCausalLM.from_config(config).eval()
model.save_pretrained(path)
prompts = [torch.randint(3, 300, (n,)).tolist() for n in (5, 100, 1, 40)]
prompts.append(prompts[1][:80] + [7])  # begins as another does
with torch.no_grad():
    expected = [model.generate(torch.tensor([p]), max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0)[0, len(p):].tolist() for p in prompts]
if __name__ == "__main__":
    from vllm import LLM, SamplingParams, platforms
    llm = LLM(path, dtype=dtype, max_model_len=200, max_num_seqs=4, kv_cache_memory_bytes=32 << 20, skip_tokenizer_init=True, **options)
    wanted = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True, detokenize=False)
    got = []
    for _ in range(2):
        out = llm.generate([{"prompt_token_ids": p} for p in prompts], wanted, use_tqdm=False)
        got.append([list(o.outputs[0].token_ids) for o in out])
    cached = [o.num_cached_tokens for o in out]
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    print(json.dumps([type(platforms.current_platform).__name__, expected, *got, cached, graphs]))
"""


def generate(folder: Path, family: str, dtype: str = "float32", **options: object) -> list:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(folder), family, dtype, json.dumps(options)],
        capture_output=True, text=True, env=os.environ | BUDGET, timeout=900,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    # A worker that is stopped may write a line behind the answer.
    return json.loads(next(line for line in run.stdout.splitlines() if line.startswith('["')))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mixtral"])
def test_tokens(tmp_path: Path, family: str) -> None:
    platform, expected, first, second, cached, graphs = generate(tmp_path, family)
    assert platform == "XpuPlatform"
    assert first == expected and second == expected
    assert cached[1] == 64, "the second run finds the first page of the long prompt"
    assert graphs == 1, "the model is compiled as one graph"


@pytest.mark.parametrize("family", ["llama", "mixtral"])
def test_eager(tmp_path: Path, family: str) -> None:
    _, expected, first, second, _, graphs = generate(tmp_path, family, enforce_eager=True)
    assert first == expected and second == expected and graphs == 0


def test_two_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_OPS_CPU_DEVICES", "2")
    _, expected, first, second, *_ = generate(tmp_path, "llama", tensor_parallel_size=2)
    assert first == expected and second == expected


def test_prompts_in_pieces(tmp_path: Path) -> None:
    _, expected, first, second, *_ = generate(tmp_path, "llama", max_num_batched_tokens=32, enable_prefix_caching=False)
    assert first == expected and second == expected


def test_bfloat16(tmp_path: Path) -> None:
    _, expected, first, second, *_ = generate(tmp_path, "llama", "bfloat16")
    assert first == second
    assert sum(a[0] == b[0] for a, b in zip(first, expected, strict=True)) >= 4


def test_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_OPS_VLLM", "0")
    platform, expected, first, *_ = generate(tmp_path, "llama", enforce_eager=True)
    assert platform == "CpuPlatform" and first == expected


def test_what_is_not_served_is_said(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"xpu_ops\.vllm does not serve a cache of fp8"):
        generate(tmp_path, "llama", kv_cache_dtype="fp8")


def test_command(tmp_path: Path) -> None:
    command = "import sys, vllm.entrypoints.cli.main as m; sys.argv = ['vllm', '--version']; m.main()"
    run = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, env=os.environ | BUDGET, timeout=300
    )
    assert run.returncode == 0 and run.stdout.strip()[:2] == "0.", run.stderr


def test_server_and_clients() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/serving/vllm_chat.py")],
        capture_output=True,
        text=True,
        env=os.environ | BUDGET,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "the same answers alone and together: 16 of 16" in run.stdout, run.stdout
