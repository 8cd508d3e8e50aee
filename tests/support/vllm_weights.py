"""A random Llama in a format of few bits, and the same with its weights as floats: what vLLM makes of the one, transformers of the other.

As a program: `vllm_weights.py FOLDER FORMAT DTYPE [OPTIONS]` prints the largest difference of the log-probabilities of first tokens, and the
number of first tokens that are equal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which value lies at each place of an int32
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def pack(values: Tensor, bits: int, dim: int, order: tuple[int, ...] | None = None) -> Tensor:
    """Values of `bits` bits along `dim` as int32, the first of them in the lowest bits."""
    values = values.movedim(dim, -1).long().unflatten(-1, (-1, 32 // bits))
    if order is not None:
        values = values[..., list(order)]
    words = (values << torch.arange(0, 32, bits)).sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).int().movedim(-1, dim).contiguous()


def rounded(weight: Tensor, bits: int, group: int, symmetric: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Unsigned values (N, K), scales (N, G) and zeros (N, G) of a weight, and the weight they stand for."""
    groups = weight.float().unflatten(1, (-1, weight.size(1) if group == -1 else group))
    top = (1 << bits) - 1
    if symmetric:
        scale = groups.abs().amax(-1) / (top >> 1)
        zero = torch.full_like(scale, (top + 1) >> 1)
    else:
        low, high = groups.amin(-1), groups.amax(-1)
        scale = (high - low) / top
        zero = (-low / scale).round().clamp(0, top)
    scale = scale.bfloat16().float()  # exact in every type that a model has
    q = ((groups / scale[..., None]).round() + zero[..., None]).clamp(0, top)
    return q.flatten(1), scale, zero, ((q - zero[..., None]) * scale[..., None]).flatten(1)


def compressed(bits: int, group: int = -1, symmetric: bool = True, **inputs: Any) -> dict[str, Any]:
    strategy = {"strategy": "channel"} if group == -1 else {"strategy": "group", "group_size": group}
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "dynamic": False} | strategy
    form = "int-quantized" if inputs else "pack-quantized"
    given = {"symmetric": inputs.pop("symmetric_inputs", True)}
    given |= {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True} | inputs
    part = {"targets": ["Linear"], "weights": weights, "format": form}
    part["input_activations"] = given if form == "int-quantized" else None
    return {
        "quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
        "ignore": ["lm_head"], "config_groups": {"group_0": part},
    }  # fmt: skip


def gptq(bits: int, group: int) -> dict[str, Any]:
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False, "sym": True}


FORMATS: dict[str, dict[str, Any]] = {
    "floats": {"quant_method": "none"},
    "w8a8": compressed(8, dynamic=True),
    "w8a8 zeros": compressed(8, symmetric_inputs=False),
    "w8a8 static": compressed(8, dynamic=False, strategy="tensor"),
    "w8a8 static zeros": compressed(8, dynamic=False, strategy="tensor", symmetric_inputs=False),
    "w8a16": compressed(8),
    "w4a16": compressed(4, 32),
    "w4a16 rows": compressed(4),
    "w4a16 zeros": compressed(4, 64, False),
    "gptq": gptq(4, 32),
    "gptq 128": gptq(4, 128),
    "gptq 8": gptq(8, -1),
    "gptq 8 groups": gptq(8, 32),
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"},
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic"},
    "w8a16 groups": compressed(8, 32),
    "w8a16 zeros": compressed(8, 64, False),
    "w4a16 groups of 8": compressed(4, 8),
    "w3a16": compressed(3, 32),
    "fp8 compressed": compressed(8),
}
FORMATS["fp8 compressed"]["config_groups"]["group_0"] |= {
    "weights": {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True},
    "format": "float-quantized",
}
RANGE = 4.0  # of inputs with one scale for all of them


def readable(config: dict[str, Any]) -> bool:
    """Whether a checkpoint is written in the format: those that vLLM refuses by their description keep floats."""
    if config["quant_method"] != "compressed-tensors":
        return config["quant_method"] not in ("none", "fp8")
    weights = config["config_groups"]["group_0"]["weights"]
    return weights["type"] == "int" and weights["num_bits"] in (4, 8)


def layer(weight: Tensor, config: dict[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
    """A linear layer's tensors in a format, and the weight they stand for."""
    method = config["quant_method"]
    if not readable(config):
        return {"weight": weight}, weight
    if method == "compressed-tensors":
        part = config["config_groups"]["group_0"]
        w, given = part["weights"], part["input_activations"]
        q, scale, zero, floats = rounded(weight, w["num_bits"], w.get("group_size", -1), w["symmetric"])
        if given is not None:
            tensors = {"weight": (q - zero).to(torch.int8), "weight_scale": scale}
            if not given["dynamic"]:
                tensors["input_scale"] = torch.tensor([RANGE / 127])
                if not given["symmetric"]:
                    tensors["input_zero_point"] = torch.tensor([-3], dtype=torch.int8)
            return tensors, floats
        tensors = {
            "weight_packed": pack(q, w["num_bits"], 1), "weight_scale": scale,
            "weight_shape": torch.tensor(weight.shape),
        }  # fmt: skip
        if not w["symmetric"]:
            tensors["weight_zero_point"] = pack(zero, w["num_bits"], 0)
        return tensors, floats
    bits, group = config["bits"], config["group_size"]
    q, scale, zero, floats = rounded(weight, bits, group, method == "gptq")
    if method == "gptq":
        return {
            "qweight": pack(q.t(), bits, 0), "scales": scale.t(), "qzeros": pack(zero.t() - 1, bits, 1),
            "g_idx": torch.arange(weight.size(1), dtype=torch.int32) // (weight.size(1) if group == -1 else group),
        }, floats  # fmt: skip
    return {
        "qweight": pack(q.t(), bits, 1, AWQ_ORDER), "scales": scale.t(), "qzeros": pack(zero.t(), bits, 1, AWQ_ORDER),
    }, floats  # fmt: skip


def round_inputs(given: dict[str, Any], x: Tensor) -> Tensor:
    """Inputs of a layer as the numbers that their 8 bits stand for."""
    if not given["dynamic"]:
        scale, zero = torch.tensor(RANGE / 127), torch.tensor(0.0 if given["symmetric"] else -3.0)
    elif given["symmetric"]:
        scale, zero = x.abs().amax(-1, keepdim=True) / 127, torch.tensor(0.0)
    else:
        low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
        scale = (high - low) / 255
        zero = (-128 - low / scale).round()
    return (((x / scale).round() + zero).clamp(-128, 127) - zero) * scale


def write(folder: Path, form: str, dtype: torch.dtype, **sizes: int) -> Any:
    """Write the checkpoint, and give the model of transformers with the weights it stands for."""
    import transformers
    from safetensors.torch import save_file

    shape = {
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 256,
    }  # fmt: skip
    config = transformers.LlamaConfig(
        **(shape | sizes), initializer_range=0.1, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    tensors = {}
    for name, value in list(model.state_dict().items()):
        head, _, last = name.rpartition(".")
        if last == "weight" and head.rpartition(".")[2] in LAYERS:
            made, floats = layer(value, FORMATS[form])
            tensors |= {f"{head}.{k}": v.contiguous() for k, v in made.items()}
            value.copy_(floats)
            given = FORMATS[form].get("config_groups", {"group_0": {}})["group_0"].get("input_activations")
            if given is not None:
                model.get_submodule(head).register_forward_pre_hook(
                    lambda _, args, given=given: round_inputs(given, *args)
                )
        else:
            tensors[name] = value
    folder.mkdir(exist_ok=True)
    typed = {k: v.to(dtype) if v.is_floating_point() and "input_scale" not in k else v for k, v in tensors.items()}
    save_file(typed, folder / "model.safetensors", metadata={"format": "pt"})
    named = config.to_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": str(dtype).partition(".")[2]}
    if form != "floats":
        named["quantization_config"] = FORMATS[form]
    (folder / "config.json").write_text(json.dumps(named))
    return model


def main(folder: str, form: str, dtype: str, options: str = "{}") -> None:
    model = write(Path(folder), form, getattr(torch, dtype))
    torch.manual_seed(1)
    prompts = [torch.randint(3, 300, (n,)).tolist() for n in (5, 100, 1, 40, 17)]
    with torch.no_grad():
        expected = [model(torch.tensor([p])).logits[0, -1].log_softmax(-1) for p in prompts]

    from vllm import LLM, SamplingParams

    llm = LLM(
        folder, dtype=dtype, max_model_len=200, max_num_seqs=8, kv_cache_memory_bytes=32 << 20,
        skip_tokenizer_init=True, max_logprobs=20, **json.loads(options),
    )  # fmt: skip
    wanted = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True, detokenize=False, logprobs=20)
    out = llm.generate([{"prompt_token_ids": p} for p in prompts], wanted, use_tqdm=False)
    errors, same = [], 0
    for got, row in zip(out, expected, strict=True):
        assert got.outputs[0].logprobs is not None
        first = got.outputs[0].logprobs[0]
        errors += [abs(given.logprob - float(row[token])) for token, given in first.items()]
        same += got.outputs[0].token_ids[0] == int(row.argmax())
    print(json.dumps({"error": max(errors), "same": same}))


if __name__ == "__main__":
    main(*sys.argv[1:])
