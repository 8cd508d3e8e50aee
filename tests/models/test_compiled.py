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
SAMPLE = {("bert", "adamw"), ("gpt2", "bf16"), ("mobilenetv3", "f32")}


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
