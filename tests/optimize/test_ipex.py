"""Scripts of IPEX with one changed import."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn

import xpu_ops.ipex as ipex
from xpu_ops import optimize


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))


def llama() -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
    )
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def test_inference_in_bf16() -> None:
    model, x = net().eval(), torch.randn(3, 8)
    optimized = ipex.optimize(model, dtype=torch.bfloat16, sample_input=x.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        out = optimized(x)
    assert out.dtype == torch.bfloat16
    assert out.device.type == "cpu"
    torch.testing.assert_close(out.float(), model(x), rtol=2e-2, atol=2e-2)
    assert model[0].weight.dtype == torch.float32  # not in place
    assert ipex.optimize(model, inplace=True) is model


def test_training() -> None:
    model, reference = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = torch.optim.SGD(reference.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="parameters stay float32"):
        model, optimizer = ipex.optimize(model, dtype=torch.bfloat16, optimizer=optimizer)
    x, y = torch.randn(16, 8), torch.randn(16, 4)
    for m, step in ((model, optimizer), (reference, expected)):
        for _ in range(3):
            step.zero_grad()
            F.mse_loss(m(x), y).backward()
            step.step()
    torch.testing.assert_close(model(x), reference(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", [8, 4])
def test_llm_with_weights_of_few_bits(bits: int) -> None:
    weight_dtype = ipex.quantization.WoqWeightDtype.INT8 if bits == 8 else ipex.quantization.WoqWeightDtype.INT4
    config = ipex.quantization.get_weight_only_quant_qconfig_mapping(
        weight_dtype=weight_dtype, group_size=-1 if bits == 8 else 32
    )
    reference = llama()
    model = ipex.llm.optimize(copy.deepcopy(reference), dtype=torch.float32, quantization_config=config, inplace=True)
    ids = torch.randint(1, 128, (1, 6))
    tokens = model.generate(ids, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)
    assert tokens.device.type == "cpu"
    assert tokens.shape == (1, 12)
    assert any(f"weights of {bits} bits" in e.text for e in optimize.report(model).replaced)
    with torch.no_grad():
        off = (model(ids).logits - reference(ids).logits).norm() / reference(ids).logits.norm()
    assert 0 < off < (0.03 if bits == 8 else 0.25)


def test_levels_and_refusals() -> None:
    model = net()
    with pytest.raises(ValueError, match="not optimized"):
        optimize.report(ipex.optimize(model, level="O0"))
    with pytest.raises(ValueError, match="level must be"):
        ipex.optimize(model, level="O2")
    with pytest.raises(NotImplementedError, match="qconfig_summary_file has no counterpart"):
        ipex.llm.optimize(model, qconfig_summary_file="x.json")
    with pytest.raises(NotImplementedError, match="weights of INT8 and INT4"):
        ipex.quantization.get_weight_only_quant_qconfig_mapping(weight_dtype=ipex.quantization.WoqWeightDtype.NF4)
    with pytest.raises(NotImplementedError, match="weights of INT8 are symmetric"):
        ipex.quantization.get_weight_only_quant_qconfig_mapping(group_size=128)
