"""Continuous batching of transformers on xpu: tokens equal those of generate, with the defaults; and its server."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

from xpu_ops import _C

ROOT = Path(__file__).resolve().parents[2]
# The cache takes a share of what is free: a small budget keeps a run of the tests small. transformers wants more than 1.2 GB.
BUDGET = {"XPU_OPS_CPU_MEMORY": "2G"}

PROGRAM = """
import json, torch, transformers, xpu_ops
torch.manual_seed(0)
config = transformers.LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128,
    max_position_embeddings=512, eos_token_id=None, bos_token_id=1, pad_token_id=0, initializer_range=0.3,
)
model = transformers.LlamaForCausalLM(config).eval().to("xpu")
if OPTIMIZE:
    xpu_ops.optimize(model)
model.generation_config.do_sample, model.generation_config.max_new_tokens = False, 8
prompts = [torch.randint(1, 128, (n,)).tolist() for n in (5, 17, 9, 1, 30, 12, 3, 8)]
with xpu_ops.fallback.forbid():
    out = model.generate_batch(prompts, generation_config=model.generation_config)
alone = [model.generate(torch.tensor([p], device="xpu"))[0, len(p):].tolist() for p in prompts]
reserved = torch.xpu.max_memory_reserved()
print(json.dumps([[o.generated_tokens for o in out.values()], alone, reserved, torch.xpu.get_device_properties().total_memory]))
"""


@pytest.mark.parametrize("optimized", [pytest.param(False, marks=pytest.mark.slow), True])
def test_batch_gives_the_tokens_of_each_alone(optimized: bool) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("OPTIMIZE", str(optimized))],
        capture_output=True, text=True, env=os.environ | BUDGET, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    together, alone, reserved, total = json.loads(run.stdout.strip().splitlines()[-1])
    assert together == alone
    assert len({tuple(t) for t in alone}) > 4
    assert reserved < total == 2 << 30


@pytest.mark.skipif(not _C.host_accessible(0), reason="a device with memory of its own is planned as torch plans it")
def test_memory_that_others_hold_is_not_planned_with(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.generation.continuous_batching import cache, initialization

    free, total = 3 << 30, 8 << 30
    monkeypatch.setattr(torch.xpu, "mem_get_info", lambda device=None: (free, total))
    _, found, reserved, allocated = cache.get_device_and_memory_breakdown()
    assert found - max(reserved, allocated) <= free
    config = transformers.ContinuousBatchingConfig()
    initialization.resolve_max_memory_percent(cb_config=config, has_logit_processors=False, device=torch.device("xpu"))
    assert config.max_memory_percent == 0.6


MISSING = [n for n in ("fastapi", "uvicorn", "openai") if importlib.util.find_spec(n) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"transformers[serving] is not installed: {', '.join(MISSING)}")
def test_server_with_sixteen_clients() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/serving/chat.py")],
        capture_output=True, text=True, env=os.environ | BUDGET, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "the same answers alone and together: 16 of 16" in run.stdout, run.stdout
