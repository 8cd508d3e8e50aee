"""Every family in every mode on xpu, without a single fallback, against the CPU and a reference in double."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import modes
import pytest
import report
import torch
import zoo

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# of torch._dynamo.utils.same, relative to each tensor's size; upstream's benchmarks take 1e-3 and 1e-2
INFERENCE_TOL = {"f32": 1e-4, "bf16": 2e-2, "f16": 2e-3}
TRAINING_TOL, AMP_TOL = 1e-3, 2e-2


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def families(mode: str, sample: bool = True) -> list:
    """All families as parameters; those outside the sample run at the full level only."""
    return [
        pytest.param(
            f.name, marks=[pytest.mark.xdist_group(f.name)] + ([] if f.sample and sample else [pytest.mark.slow])
        )
        for f in zoo.FAMILIES.values()
        if mode != "generate" or f.generate is not None
    ]


def tolerance(name: str, mode: str, usual: float) -> float:
    return zoo.FAMILIES[name].tolerance.get(mode, usual)


@pytest.mark.parametrize("context", list(modes.CONTEXTS))
@pytest.mark.parametrize("dtype", list(DTYPES))
@pytest.mark.parametrize("name", families("inference"))
def test_inference(name: str, dtype: str, context: str, record: Callable) -> None:
    reference, exact = modes.inference_reference(name, DTYPES[dtype])
    with modes.no_fallback():
        actual = modes.infer(name, "xpu", DTYPES[dtype], DTYPES[dtype], context)
    record(name, dtype, modes.error(actual, exact), modes.error(reference, exact))
    modes.check(actual, reference, exact, tolerance(name, dtype, INFERENCE_TOL[dtype]))


@pytest.mark.parametrize("mode", list(modes.TRAINING))
@pytest.mark.parametrize("name", families("training"))
def test_training(name: str, mode: str, record: Callable) -> None:
    training = modes.TRAINING[mode]
    reference, exact = modes.training_reference(name, training)
    with modes.no_fallback():
        actual = modes.train(name, "xpu", training)
    record(name, mode, modes.error(actual, exact), modes.error(reference, exact))
    usual = AMP_TOL if training.autocast else TRAINING_TOL
    modes.check(actual, reference, exact, tolerance(name, mode, usual), noisy=training.autocast)


@pytest.mark.parametrize("name", families("generate"))
def test_generate(name: str, record: Callable) -> None:
    """Greedy, with a key-value cache: the CPU's tokens and scores; without one the same tokens."""
    data = {k: v for k, v in modes.batch(name, labels=False).items() if not k.startswith("decoder_")}
    options = dict(zoo.FAMILIES[name].generate or {}, do_sample=False, output_scores=True, return_dict_in_generate=True)

    def run(device: str, dtype: torch.dtype = torch.float32, **more: bool) -> tuple[torch.Tensor, modes.Tensors]:
        m = modes.model(name, device, dtype).eval()
        with torch.no_grad():
            out = m.generate(**modes.move(data, device, dtype), **{**options, **more})
        return out.sequences.cpu(), {f"score{i}": s.float().cpu() for i, s in enumerate(out.scores)}

    tokens, reference = run("cpu")
    exact_tokens, exact = run("cpu", torch.float64)
    if not torch.equal(tokens, exact_tokens):  # in double a row of padding is NaN in some models
        exact = {k: t.double() for k, t in reference.items()}
    with modes.no_fallback():
        actual_tokens, actual = run("xpu")
        uncached_tokens, _ = run("xpu", use_cache=False)
    assert torch.equal(actual_tokens, tokens)
    assert torch.equal(uncached_tokens, tokens)
    record(name, "generate", modes.error(actual, exact), modes.error(reference, exact))
    modes.check(actual, reference, exact, tolerance(name, "generate", INFERENCE_TOL["f32"]))


@pytest.mark.measure
@pytest.mark.parametrize("name", families("measure", sample=False))
def test_measure(name: str, record: Callable) -> None:
    """Not a test of speed: the numbers go into the table."""
    share = report.native_share(name)
    record(name, "measure", share, *report.step_times(name))
    assert share == 1.0
