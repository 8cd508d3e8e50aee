"""Families through torch.compile on xpu: inference and training steps with a compiled AdamW, without a fallback."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import modes
import pytest
import torch
import zoo
from test_models import AMP_TOL, DTYPES, INFERENCE_TOL, TRAINING_TOL, tolerance

TRAINING = {
    "adamw": modes.Training(compiled=True),
    "amp_bf16": modes.Training(autocast=True, compiled=True),
}
SAMPLE = {("gpt2", "bf16"), ("mobilenetv3", "f32")}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No graph of an earlier run."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setitem(os.environ, "TORCHINDUCTOR_CACHE_DIR", folder)
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()


def parameters(kinds: Any) -> list[Any]:
    return [
        pytest.param(f.name, k, id=f"{f.name}-{k}", marks=[] if (f.name, k) in SAMPLE else [pytest.mark.slow])
        for f in zoo.FAMILIES.values()
        for k in kinds
        if f.compiled
    ]


@pytest.mark.parametrize(("name", "dtype"), parameters(["f32", "bf16"]))
def test_inference(name: str, dtype: str) -> None:
    reference, exact = modes.inference_reference(name, DTYPES[dtype])
    with modes.no_fallback():
        actual = modes.infer(name, "xpu", DTYPES[dtype], DTYPES[dtype], compiled=True)
    modes.check(actual, reference, exact, tolerance(name, dtype, INFERENCE_TOL[dtype]))


@pytest.mark.parametrize(("name", "kind"), parameters(TRAINING))
def test_training(name: str, kind: str) -> None:
    training = TRAINING[kind]
    reference, exact = modes.training_reference(name, training)
    with modes.no_fallback():
        actual = modes.train(name, "xpu", training)
    usual = AMP_TOL if training.autocast else TRAINING_TOL
    modes.check(actual, reference, exact, tolerance(name, kind, usual), noisy=training.autocast)


def hf(*names: str) -> list[Any]:
    return [pytest.param(n, id=n, marks=[] if n == "gpt2" else [pytest.mark.slow]) for n in names]


@pytest.mark.parametrize("name", hf("bert", "gpt2", "llama", "t5", "vit"))
@pytest.mark.slow
def test_any_batch_and_length(name: str) -> None:
    """Sizes that only the run knows: three shapes, one graph."""
    m = modes.model(name, "xpu").eval()
    compiled = torch.compile(m, dynamic=True)
    data = modes.move(modes.batch(name, labels=False), "xpu")
    with torch.no_grad(), modes.no_fallback():
        for rows, columns in ((2, None), (3, -3), (4, -5)):
            part = {
                k: (v[:, :columns] if v.dim() == 2 else v).repeat(2, *[1] * (v.dim() - 1))[:rows]
                for k, v in data.items()
            }
            expected, actual = modes.named_tensors(m(**part)), modes.named_tensors(compiled(**part))
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", hf("gpt2", "llama"))
def test_generate_with_a_static_cache(name: str) -> None:
    """transformers compiles the decoding step itself on accelerators; here the forward pass is compiled by hand."""
    m = modes.model(name, "xpu").eval()
    data = modes.move(modes.batch(name, labels=False), "xpu")
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad(), modes.no_fallback():
        expected = m.generate(**data, **settings)
        m.forward = torch.compile(m.forward)
        actual = m.generate(**data, **settings, cache_implementation="static")
    assert torch.equal(actual, expected)
