"""xpu_ops.optimize: weights of few bits of layers of experts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import xpu_ops
from xpu_ops import WeightFormat, optimize
from xpu_ops._optimize.experts import QuantizedExperts
from xpu_ops._optimize.weights import Quantized, dequantize

_SIZES = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 128, "max_position_embeddings": 128,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Mixtral": ("MixtralExperts", {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "Qwen2Moe": ("Qwen2MoeExperts", {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64}),
}  # fmt: skip
FORMS = [WeightFormat(8), WeightFormat(4, 32), WeightFormat(4, 32, symmetric=True)]


def model_of(name: str) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**_SIZES, **MODELS[name][1])
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def tokens(rows: int = 2, length: int = 9) -> Tensor:
    return torch.randint(1, 128, (rows, length), generator=torch.Generator().manual_seed(1))


def off(a: Tensor, b: Tensor) -> float:
    wanted = b.double().cpu()
    return float((a.double().cpu() - wanted).norm() / wanted.norm())


def with_weights_of(model: nn.Module, quantized: nn.Module) -> nn.Module:
    """The floating model with the weights that the quantised one multiplies with."""
    layers: dict[str, Any] = dict(quantized.named_modules())
    for path, module in model.named_modules():
        layer = layers[path]
        if isinstance(layer, Quantized):
            module.weight = nn.Parameter(layer.dequantize().cpu())
        if isinstance(layer, QuantizedExperts):
            for name in ("gate_up_proj", "down_proj"):
                shape = getattr(module, name).shape[1:]
                each = [dequantize(p, s, layer.form, shape) for p, s in zip(*layer.operands(name), strict=True)]
                setattr(module, name, nn.Parameter(torch.stack(each).cpu()))
    return model


@pytest.mark.parametrize("form", FORMS, ids=["int8", "int4", "int4-symmetric"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_experts(name: str, form: WeightFormat) -> None:
    """One token and several; the report, the state and the way back."""
    reference = model_of(name)
    model = optimize(copy.deepcopy(reference).to("xpu"), weights=form)
    replaced = [e for e in optimize.report(model).replaced if e.kind == MODELS[name][0]]
    assert [e.text for e in replaced] == [f"weights of {form.text}"] * 2
    exact = with_weights_of(copy.deepcopy(reference), model)
    for ids in (tokens(), tokens(1, 1)):
        with xpu_ops.fallback.forbid():
            out = model(ids.to("xpu")).logits
        assert off(out, exact(ids).logits) < 1e-4
    state = {k: v.clone() for k, v in model.state_dict().items()}
    prefix = next(k for k in state if "gate_up_proj_packed" in k).removesuffix("packed")
    assert state[prefix + "packed"].dtype == (torch.int8 if form.bits == 8 else torch.int32)
    assert prefix.removesuffix("_") not in state
    ids = tokens().to("xpu")
    before = model(ids).logits
    model.load_state_dict(reference.state_dict())  # of a floating model: quantised as it comes
    assert off(model(ids).logits, before) < 1e-5
    model.load_state_dict(state)
    assert torch.equal(model(ids).logits, before)
    optimize.undo(model)
    assert list(model.state_dict()) == list(reference.state_dict())
    assert off(model(ids).logits, exact(tokens()).logits) < 1e-4


@torch.no_grad()
def test_experts_in_bfloat16_generate() -> None:
    model = model_of("Mixtral").to("xpu", torch.bfloat16)
    want = with_weights_of(copy.deepcopy(model).cpu(), optimize(copy.deepcopy(model), weights="int8"))
    optimize(model, weights="int8", example=(tokens().to("xpu"),))
    assert optimize.report(model).error < 0.1
    assert off(model(tokens().to("xpu")).logits, want(tokens()).logits) < 0.05
    assert model.generate(tokens().to("xpu"), max_new_tokens=4, do_sample=False, pad_token_id=0).shape == (2, 13)


def test_experts_that_stay_are_in_the_report() -> None:
    model = model_of("Mixtral").to("xpu")
    optimize(model, weights=WeightFormat(4, 256), skip=["layers.1"])
    left = {e.path: e.text for e in optimize.report(model).left if e.kind == "MixtralExperts"}
    assert left == {
        "model.layers.0.mlp.experts": "64 columns are no multiple of the group, 256",
        "model.layers.1.mlp.experts": "named by skip",
    }

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj = nn.Parameter(torch.zeros(2, 64, 64))

    other = optimize(nn.Sequential(Other()).eval().to("xpu"), weights="int8")
    (entry,) = optimize.report(other).left
    assert entry.text == "expert weights of another form than gate_up_proj and down_proj of transformers"
