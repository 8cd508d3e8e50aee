"""xpu_ops.optimize: values against the CPU, the report, the state, undo, and what comes before and after."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import xpu_ops
from xpu_ops import WeightFormat, optimize
from xpu_ops._optimize.weights import Quantized, to_bytes, to_nibbles

_SIZES = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128,
    "max_position_embeddings": 128,
}  # fmt: skip
_HEADS = {"num_key_value_heads": 2}
# By name: class of the model, its configuration, and how many modules of each kind are replaced.
FAMILIES: dict[str, tuple[str, str, dict[str, Any], dict[str, int]]] = {
    "llama": (
        "LlamaForCausalLM", "LlamaConfig", _SIZES | _HEADS,
        {"LlamaRMSNorm": 5, "LlamaMLP": 2, "LlamaAttention": 2, "LlamaDecoderLayer": 2},
    ),
    "mistral": (
        "MistralForCausalLM", "MistralConfig", _SIZES | _HEADS | {"sliding_window": 4},
        {"MistralRMSNorm": 5, "MistralMLP": 2, "MistralAttention": 2, "MistralDecoderLayer": 2},
    ),
    "qwen2": (
        "Qwen2ForCausalLM", "Qwen2Config", _SIZES | _HEADS,
        {"Qwen2RMSNorm": 5, "Qwen2MLP": 2, "Qwen2Attention": 2, "Qwen2DecoderLayer": 2},
    ),
    "qwen3": (
        "Qwen3ForCausalLM", "Qwen3Config", _SIZES | _HEADS | {"head_dim": 16},
        {"Qwen3RMSNorm": 9, "Qwen3MLP": 2, "Qwen3Attention": 2, "Qwen3DecoderLayer": 2},
    ),
    # Its norm multiplies with 1 + weight: found by running it.
    "gemma": (
        "GemmaForCausalLM", "GemmaConfig", _SIZES | _HEADS | {"head_dim": 16}, {"GemmaMLP": 2, "GemmaAttention": 2},
    ),
    "bert": (
        "BertForMaskedLM", "BertConfig", _SIZES, {"BertIntermediate": 2, "BertSelfOutput": 2, "BertOutput": 2},
    ),
    "gpt2": (
        "GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 128},
        {"GPT2MLP": 2},
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(before)


def family(name: str, **options: Any) -> Any:
    model, config, sizes, _ = FAMILIES[name]
    torch.manual_seed(0)
    return getattr(transformers, model)(getattr(transformers, config)(**sizes, **options)).eval()


def tokens(rows: int = 2, length: int = 9) -> Tensor:
    return torch.randint(1, 128, (rows, length), generator=torch.Generator().manual_seed(1))


def kinds(model: nn.Module) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in optimize.report(model).replaced:
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
    return counts


def off(a: Tensor, b: Tensor) -> float:
    wanted = b.double().cpu()
    return float((a.double().cpu() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("device", ["xpu", "cpu"])
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_values_report_state_and_undo(name: str, device: str) -> None:
    reference = family(name)
    model = copy.deepcopy(reference).to(device)
    ids = tokens().to(device)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert optimize(model, example=(ids,)) is model
    with xpu_ops.fallback.forbid():
        out = model(ids).logits
    assert out.device.type == device
    assert off(out, reference(tokens()).logits) < 1e-5
    assert optimize.report(model).error < 1e-5
    assert kinds(model) == FAMILIES[name][3]
    state = model.state_dict()
    assert list(state) == list(before)
    assert all(torch.equal(state[k], before[k]) and state[k].device.type == device for k in before)
    model.load_state_dict(before)
    assert optimize.undo(model) is model
    assert {type(m) for m in model.modules()} == {type(m) for m in reference.modules()}
    assert list(model.state_dict()) == list(before)
    assert off(model(ids).logits, reference(tokens()).logits) < 1e-5


@pytest.mark.parametrize("device", ["xpu", "cpu"])
@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "bert"])
def test_generate_gives_the_tokens_of_the_cpu(name: str, device: str) -> None:
    reference = family(name)
    model = optimize(copy.deepcopy(reference).to(device))
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :3] = 0
    expected = reference.generate(tokens(), attention_mask=mask, **options)
    out = model.generate(tokens().to(device), attention_mask=mask.to(device), **options)
    assert out.device.type == device
    assert torch.equal(out.cpu(), expected)


def with_weights_of(model: nn.Module, quantized: nn.Module) -> nn.Module:
    """The floating model with the weights that the quantised one multiplies with."""
    layers = dict(quantized.named_modules())
    for path, module in model.named_modules():
        layer = layers[path]
        if isinstance(layer, Quantized):
            module.weight = nn.Parameter(layer.dequantize().cpu().to(module.weight.dtype))
    return model


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "weights",
    [WeightFormat(8), WeightFormat(4, 32), WeightFormat(4, 64, symmetric=True)],
    ids=["int8", "int4", "int4-symmetric"],
)
@torch.no_grad()
def test_weights_of_few_bits(name: str, weights: WeightFormat) -> None:
    reference = family(name, tie_word_embeddings=False)
    model = optimize(copy.deepcopy(reference).to("xpu"), weights=weights)
    with xpu_ops.fallback.forbid():
        out = model(tokens().to("xpu")).logits
    exact = with_weights_of(copy.deepcopy(reference), model)(tokens()).logits
    assert off(out, exact) < 1e-4
    assert off(out, reference(tokens()).logits) < (0.03 if weights.bits == 8 else 0.25)
    optimize.undo(model)
    assert list(model.state_dict()) == list(reference.state_dict())
    assert off(model(tokens().to("xpu")).logits, exact) < 1e-4


def test_a_shared_weight_comes_back_as_it_was() -> None:
    model: Any = optimize(family("gemma").to("xpu"), weights="int8")
    assert model.model.embed_tokens.weight.dtype == torch.float32
    optimize.undo(model)
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_dtype(dtype: torch.dtype) -> None:
    reference = family("llama")
    model = optimize(copy.deepcopy(reference).to("xpu"), dtype=dtype, example={"input_ids": tokens().to("xpu")})
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert kinds(model) == FAMILIES["llama"][3]
    assert off(model(tokens().to("xpu")).logits, reference(tokens()).logits) < 2e-2


def test_rounding_of_weights() -> None:
    torch.manual_seed(0)
    weight = torch.randn(6, 64)
    weight[2] = 0
    weight[3, :32] = 5  # a group of one value
    weight[4, :32] = torch.linspace(0, 1, 32)
    int8 = to_bytes(weight)
    step = int8["scale"][:, None]
    assert ((int8["packed"] * step - weight).abs() <= step / 2 * (1 + 1e-5)).all()
    for symmetric in (False, True):
        buffers = to_nibbles(weight, WeightFormat(4, 32, symmetric))
        q = buffers["packed"].view(torch.uint8)
        values = torch.stack([q & 15, q >> 4], -1).view(6, 2, 32).float() - 8
        scale, offset = buffers["scales"].transpose(0, 1).unbind(-1)
        back = values * scale[..., None] + offset[..., None]
        steps = scale.abs()[..., None] * (1 if symmetric else 0.5)  # 7 is the end of one side, -8 of the other
        assert ((back - weight.view(6, 2, 32)).abs() <= steps * (1 + 1e-4) + 1e-6).all()
        assert torch.equal(back[2], torch.zeros(2, 32))


@torch.no_grad()
def test_quantized_state() -> None:
    model = optimize(family("llama").to("xpu"), weights=WeightFormat(4, 32))
    other = family("llama")
    for p in other.parameters():
        p.mul_(1.5)
    floating = {k: v.clone() for k, v in other.state_dict().items()}
    twin = optimize(other.to("xpu"), weights=WeightFormat(4, 32))
    state = model.state_dict()
    prefix = "model.layers.0.self_attn.q_proj."
    assert state[prefix + "packed"].dtype == torch.int32
    assert state[prefix + "scales"].shape == (2, 64, 2)
    assert prefix + "weight" not in state
    ids = tokens().to("xpu")
    of_twin = twin(ids).logits.clone()
    twin.load_state_dict({k: v.clone() for k, v in state.items()})
    assert torch.equal(twin(ids).logits, model(ids).logits)
    twin.load_state_dict(floating)  # of a floating model: quantised as it comes
    assert off(twin(ids).logits, of_twin) < 1e-5


@torch.no_grad()
def test_skip_and_reasons() -> None:
    model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 8)).eval().to("xpu")
    optimize(model, weights=WeightFormat(4, 32), skip=["2"])
    left = {e.path: e.text for e in optimize.report(model).left}
    assert left == {"0": "48 columns are no multiple of the group, 32", "2": "named by skip"}
    assert "left: 2 modules" in str(optimize.report(model))


ACTIVATIONS = [
    nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.Mish(), nn.LeakyReLU(0.2), nn.ELU(0.7),
    nn.ReLU6(), nn.Hardswish(),
]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_sequential(activation: nn.Module) -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(
        nn.Linear(16, 32), activation, nn.Linear(32, 8, bias=False), nn.Linear(8, 8), nn.Dropout(0.0)
    )
    model = copy.deepcopy(reference).to("xpu")
    optimize(model)
    assert kinds(model) == {"Sequential": 1}
    x = torch.randn(5, 16)
    torch.testing.assert_close(model(x.to("xpu")).cpu(), reference(x), rtol=1e-5, atol=1e-5)
    loss, expected = model(x.to("xpu")).square().sum(), reference(x).square().sum()
    loss.backward()
    expected.backward()
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-4, atol=1e-4)
    seen = []
    handle = model[1].register_forward_hook(lambda *_: seen.append(1))
    model(x.to("xpu"))
    handle.remove()
    assert seen == [1]  # a hook on the activation still runs


class OwnRMSNorm(nn.Module):
    """Looks like the norm of Llama and subtracts the mean, too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(16)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (16,), self.weight, None, self.eps)


def test_another_function_under_the_name_is_left() -> None:
    model = nn.Sequential(OwnRMSNorm()).to("xpu")
    x = torch.randn(3, 16) + 2
    expected = model(x.to("xpu"))
    optimize(model)
    (entry,) = optimize.report(model).left
    assert entry.kind == "OwnRMSNorm"
    assert "other values" in entry.text
    assert torch.equal(model(x.to("xpu")), expected)


def test_training_of_a_cpu_model_reaches_its_optimizer() -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    model = copy.deepcopy(reference)
    steps = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference)]
    optimize(model)
    x, y = torch.randn(32, 8), torch.randn(32, 1)
    for _ in range(5):
        for m, step in zip((model, reference), steps, strict=True):
            step.zero_grad()
            F.mse_loss(m(x), y).backward()
            step.step()
    torch.testing.assert_close(model(x), reference(x), rtol=1e-4, atol=1e-5)
    assert all(v.device.type == "cpu" for v in model.state_dict().values())


def test_autocast_of_the_cpu_goes_along() -> None:
    model = optimize(nn.Sequential(nn.Linear(8, 8)))
    with torch.autocast("cpu", torch.bfloat16):
        assert model(torch.randn(2, 8)).dtype == torch.bfloat16
    assert model(torch.randn(2, 8)).dtype == torch.float32


@pytest.mark.parametrize("weights", [None, WeightFormat(4, 32)], ids=["float", "int4"])
@torch.no_grad()
def test_compile_afterwards(weights: WeightFormat | None) -> None:
    model = optimize(family("llama").to("xpu"), weights=weights)
    expected = model(tokens().to("xpu")).logits
    out = torch.compile(model, fullgraph=True)(tokens().to("xpu"), use_cache=False).logits
    assert off(out, expected) < 1e-5


def test_copies_are_optimized_models() -> None:
    model = optimize(family("llama").to("xpu"), weights="int8")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        assert torch.equal(twin(tokens().to("xpu")).logits, model(tokens().to("xpu")).logits)


def test_refusals() -> None:
    with pytest.raises(TypeError, match=r"expected an nn\.Module, got list"):
        optimize([])
    with pytest.raises(TypeError, match="dtype must be one of"):
        optimize(nn.Linear(2, 2), torch.float64)
    with pytest.raises(ValueError, match="weights must be None, int8, int4 or a WeightFormat, got 'int2'"):
        optimize(nn.Linear(2, 2), weights="int2")
    with pytest.raises(ValueError, match=r"call model\.eval\(\) first"):
        optimize(nn.Linear(2, 2), weights="int8")
    with pytest.raises(ValueError, match="bits must be 4 or 8, got 2"):
        WeightFormat(2)
    with pytest.raises(ValueError, match="group must be one of"):
        WeightFormat(4, 48)
    with pytest.raises(ValueError, match="got one on meta"):
        optimize(nn.Linear(2, 2, device="meta"))
    model = optimize(nn.Linear(2, 2).to("xpu"))
    with pytest.raises(ValueError, match="optimized already"):
        optimize(model)
    optimize.undo(model)
    with pytest.raises(ValueError, match="not optimized"):
        optimize.undo(model)


def test_import_of_torch_brings_nothing_in() -> None:
    code = "import sys, torch; print([m for m in sys.modules if m.startswith(('xpu_ops._optimize', 'xpu_ops.ipex'))])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
