"""The operators under vllm-xpu-kernels' names: how they enter the dispatcher, and their values against float64."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import xpu_ops
from xpu_ops.vllm import kernels
from xpu_ops.vllm.kernels import common, moe_formats, registry
from xpu_ops.vllm.kernels.interface import flash_attn_varlen_func
from xpu_ops.vllm.kernels.rotary_interface import apply_rotary_emb

for _namespace in ("_C", "_C_cache_ops", "_moe_C", "_xpu_C", "_vllm_fa2_C"):
    kernels.register(_namespace)
C, CACHE, MOE, XPU = (getattr(torch.ops, name) for name in ("_C", "_C_cache_ops", "_moe_C", "_xpu_C"))
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FP8 = torch.float8_e4m3fn


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    torch.manual_seed(0)
    with xpu_ops.fallback.forbid():
        yield


def close(got: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """`expected` in float64, within a few roundings of `dtype`."""
    tolerance = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(got.cpu().double(), expected.double(), atol=tolerance, rtol=tolerance)


def at(*values: object, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.tensor(values[0] if len(values) == 1 else values, dtype=dtype, device="xpu")


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


# ---- how they enter


def test_every_schema_is_there_with_its_kernel() -> None:
    assert len(registry.OPERATORS) == 102
    for qualified, op in registry.OPERATORS.items():
        ours = torch._C.parse_schema(f"{op.namespace}::{op.schema}")
        theirs = torch._C._get_schema(qualified, "")
        assert [str(a.type) for a in ours.arguments] == [str(a.type) for a in theirs.arguments], qualified
        assert [a.name for a in ours.arguments] == [a.name for a in theirs.arguments], qualified
        assert torch._C._dispatch_has_kernel_for_dispatch_key(qualified, op.key), qualified
    assert not kernels.refused()


def test_modules_resolve_on_request_alone() -> None:
    names = [
        "_C",
        "_moe_C",
        "_xpu_C",
        "_vllm_fa2_C",
        "flash_attn_interface",
        "fused_moe_interface",
        "moe_utils",
        "rotary",
    ]
    imports = "; ".join(f"import vllm_xpu_kernels.{n}" for n in names)
    script = f"""
import importlib.util, torch
assert importlib.util.find_spec("vllm_xpu_kernels") is None
from xpu_ops.vllm import kernels
kernels.install()
{imports}
import vllm_xpu_kernels.quantization._quantize_convert
from vllm_xpu_kernels import flash_attn_varlen_func
from xpu_ops.vllm.kernels import interface
assert vllm_xpu_kernels.flash_attn_interface is interface and interface.__spec__.name == "xpu_ops.vllm.kernels.interface"
assert torch.ops._moe_C.topk_softmax and torch.ops._xpu_C.is_pvc(0) is False
assert importlib.util.find_spec("vllm_xpu_kernels.xpumem_allocator") is None
kernels.uninstall()
assert importlib.util.find_spec("vllm_xpu_kernels") is None
print("ok")"""
    assert run(script) == "ok"


def test_environment_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_OPS_VLLM_KERNELS", "1")
    assert run("import torch, vllm_xpu_kernels._C; print(hasattr(torch.ops._C, 'rms_norm'))") == "True"


def test_schemas_of_another_library_stay() -> None:
    script = """
import torch
theirs = torch.library.Library("_C", "DEF")
theirs.define("rms_norm(Tensor! out, Tensor input, Tensor weight, float epsilon) -> ()")
theirs.define("silu_and_mul() -> ()")
theirs.impl("rms_norm", lambda out, x, w, e: (out.fill_(7), None)[1], "CPU")
from xpu_ops.vllm import kernels
kernels.register("_C")
x = torch.randn(3, 8)
cpu, xpu = torch.empty(3, 8), torch.empty(3, 8, device="xpu")
torch.ops._C.rms_norm(cpu, x, torch.ones(8), 1e-6)
torch.ops._C.rms_norm(xpu, x.to("xpu"), torch.ones(8, device="xpu"), 1e-6)
assert (cpu == 7).all()
torch.testing.assert_close(xpu.cpu(), torch.nn.functional.rms_norm(x, (8,), eps=1e-6))
print(list(kernels.refused()))"""
    assert run(script) == "['_C::silu_and_mul']"


# ---- norms, activations, rotations


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_norms(dtype: torch.dtype, weighted: bool) -> None:
    x, residual = torch.randn(5, 70).to(dtype)[:, :64], torch.randn(5, 64).to(dtype)
    weight = torch.randn(64).to(dtype) if weighted else None
    on = None if weight is None else weight.to("xpu")
    w64 = None if weight is None else weight.double()
    out = torch.empty(5, 64, dtype=dtype, device="xpu")
    C.rms_norm(out, x.to("xpu"), on, 1e-6)
    close(out, functional.rms_norm(x.double(), (64,), w64, 1e-6), dtype)
    y, total = x.contiguous().to("xpu"), residual.to("xpu")
    C.fused_add_rms_norm(y, total, on, 1e-6)
    summed = (x.float() + residual.float()).to(dtype)
    assert torch.equal(total.cpu(), summed)
    close(y, functional.rms_norm(summed.double(), (64,), w64, 1e-6), dtype)
    C.rms_norm(out[:0], x[:0].to("xpu"), on, 1e-6)
    with pytest.raises(RuntimeError, match="expected an output of shape"):
        C.rms_norm(out[:1], x.to("xpu"), on, 1e-6)


ACTIVATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "silu_and_mul": lambda a, b: functional.silu(a) * b,
    "mul_and_silu": lambda a, b: a * functional.silu(b),
    "gelu_and_mul": lambda a, b: functional.gelu(a) * b,
    "gelu_tanh_and_mul": lambda a, b: functional.gelu(a, approximate="tanh") * b,
    "situ_and_mul": lambda a, b: torch.tanh(a) * torch.sigmoid(a) * b,
    "swiglustep_and_mul": lambda a, b: functional.silu(a).clamp(max=7) * b.clamp(-7, 7),
}
ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_fast": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
    "relu2_no_mul": lambda x: functional.relu(x).square(),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_gated_units(name: str, dtype: torch.dtype) -> None:
    x = (torch.randn(2, 7, 48) * 4).to(dtype)
    out = torch.empty(2, 7, 24, dtype=dtype, device="xpu")
    op = getattr(C, name)
    op(out, x.to("xpu"))
    close(out / 16, ACTIVATIONS[name](*x.double().chunk(2, -1)) / 16, dtype)
    op(out[:, :0], x[:, :0].to("xpu"))
    with pytest.raises(RuntimeError):
        op(out, x[..., :46].contiguous().to("xpu"))


@pytest.mark.parametrize("name", sorted(ALONE))
def test_activations(name: str) -> None:
    x = torch.randn(3, 33) * 3
    out = torch.empty(3, 33, device="xpu")
    getattr(C, name)(out, x.to("xpu"))
    close(out, ALONE[name](x.double()), torch.float32)
    with pytest.raises(RuntimeError, match="expected an output of"):
        getattr(C, name)(out[:2], x.to("xpu"))


def test_units_with_arguments() -> None:
    x = torch.randn(3, 32) * 4
    out = torch.empty(3, 16, device="xpu")
    C.fatrelu_and_mul(out, x.to("xpu"), 0.5)
    close(out, functional.threshold(x[:, :16].double(), 0.5, 0) * x[:, 16:], torch.float32)
    C.swigluoai_and_mul(out, x.to("xpu"), 1.5, 3.0)
    gate, up = x.double()[:, ::2].clamp(max=3), x.double()[:, 1::2].clamp(-3, 3)
    close(out, (up + 1) * gate * torch.sigmoid(1.5 * gate), torch.float32)


UNITS = {
    "silu": (functional.silu, 0.0, 0.0),
    "gelu": (functional.gelu, 0.0, 0.0),
    "gelu_tanh": (lambda x: functional.gelu(x, approximate="tanh"), 0.0, 0.0),
    "fatrelu": (lambda x: functional.threshold(x, 0.5, 0.0), 0.5, 0.0),
    "situ": (lambda x: torch.tanh(x / 1.5) * 1.5 * torch.sigmoid(x), 1.5, 0.0),
}


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(0, 6), (1, 1), (3, 17), (2, 5, 64), (1, 11008)], ids=str)
@pytest.mark.parametrize("name", sorted(UNITS))
def test_gated_units_are_one_kernel(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """The bits of the activation and the product as two operators, whatever the strides; NaN and infinity are values."""
    activation, first, second = UNITS[name]
    whole = (torch.randn(*shape[:-1], 2 * shape[-1]) * 3).to(dtype)
    if whole.numel() > 60:
        whole[..., 3], whole[..., 5], whole[..., 7] = float("nan"), float("inf"), -float("inf")
    cases = [whole.chunk(2, -1), (whole[..., ::2], whole[..., 1::2])]
    if len(shape) == 3:
        cases.append((whole[..., :32].transpose(0, 1), whole[..., 32:64].transpose(0, 1)))
    on = whole.to("xpu")
    for i, (gate, up) in enumerate(cases):
        mine = (
            on.chunk(2, -1) if i == 0 else (on[..., ::2], on[..., 1::2]) if i == 1
            else (on[..., :32].transpose(0, 1), on[..., 32:64].transpose(0, 1))
        )  # fmt: skip
        wide = torch.promote_types(dtype, torch.float32)
        if name != "situ":
            wide = dtype
        expected = (activation(mine[0].to(wide)) * mine[1].to(wide)).to(dtype).cpu()
        out, cpu = torch.empty(gate.shape, dtype=dtype, device="xpu"), torch.empty(gate.shape, dtype=dtype)
        torch.ops.xpu_ops._gated_unit(out, *mine, name, first, second)
        torch.ops.xpu_ops._gated_unit(cpu, gate, up, name, first, second)
        if name == "situ":  # torch multiplies by the reciprocal of beta
            torch.testing.assert_close(out.cpu(), expected, equal_nan=True)
        else:
            torch.testing.assert_close(out.cpu(), expected, rtol=0, atol=0, equal_nan=True)
        finite = gate.isfinite() & up.isfinite()
        close(cpu[finite] / 16, expected[finite] / 16, torch.float32 if dtype == torch.float64 else dtype)


def test_gated_units_say_what_is_wrong() -> None:
    x, out = torch.randn(16, 96, device="xpu"), torch.empty(16, 48, device="xpu")
    unit, before = torch.ops.xpu_ops._gated_unit, out._version
    unit(out, *x.chunk(2, -1), "silu")
    assert out._version == before + 1
    gate, up = (t.detach().requires_grad_() for t in x.chunk(2, -1))
    result = torch.empty(16, 48, device="xpu")
    unit(result, gate, up, "silu")
    result.sum().backward()
    torch.testing.assert_close(up.grad, functional.silu(gate.detach()))
    with pytest.raises(ValueError, match="unknown activation"):
        unit(out, *x.chunk(2, -1), "tanh")
    with pytest.raises(RuntimeError, match="operands like the output"):
        unit(out.half(), *x.chunk(2, -1), "silu")
    with pytest.raises(RuntimeError, match="operands like the output"):
        unit(out[:1], *x.chunk(2, -1), "silu")


def turn(x: Tensor, cos: Tensor, sin: Tensor, neox: bool) -> Tensor:
    a, b = x.chunk(2, -1) if neox else (x[..., ::2], x[..., 1::2])
    parts = a * cos - b * sin, b * cos + a * sin
    return torch.cat(parts, -1) if neox else torch.stack(parts, -1).flatten(-2)


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flat", [True, False])
def test_rotary_embedding(neox: bool, dtype: torch.dtype, flat: bool) -> None:
    heads = torch.randn(6, 3, 40).to(dtype)
    cache, positions = torch.randn(50, 24).to(dtype), torch.randint(0, 50, (6,))
    cos, sin = cache.double()[positions].unsqueeze(1).chunk(2, -1)
    expected = torch.cat((turn(heads.double()[..., :24], cos, sin, neox), heads.double()[..., 24:]), -1)
    query = heads.flatten(1).to("xpu") if flat else heads.to("xpu")
    key = heads[:, :1].contiguous().to("xpu")
    C.rotary_embedding(positions.to("xpu"), query, key, 40, cache.to("xpu"), neox)
    close(query.view(6, 3, 40), expected, dtype)
    close(key, expected[:, :1], dtype)
    wide = torch.zeros(6, 3, 64, dtype=dtype, device="xpu")[..., :40].copy_(heads)
    C.rotary_embedding(positions.to("xpu"), wide, None, 40, cache.to("xpu"), neox)
    close(wide, expected, dtype)
    with pytest.raises(RuntimeError, match="expected 5 tokens"):
        C.rotary_embedding(positions[:5].to("xpu"), query, None, 40, cache.to("xpu"), neox)
    with pytest.raises(IndexError):
        C.rotary_embedding(positions.to("xpu") + 100, query, None, 40, cache.to("xpu"), neox)
        torch.xpu.synchronize()


def test_other_rotations() -> None:
    x, cos, sin = torch.randn(2, 4, 3, 16), torch.randn(4, 8), torch.randn(4, 8)
    y = apply_rotary_emb(x.to("xpu"), cos.to("xpu"), sin.to("xpu"))
    close(y, turn(x.double(), cos[:, None].double(), sin[:, None].double(), False), torch.float32)
    with pytest.raises(RuntimeError, match="do not divide"):
        apply_rotary_emb(x.to("xpu"), cos[:3].to("xpu"), sin[:3].to("xpu"))
    cache, positions = torch.randn(20, 16), torch.randint(0, 20, (3, 5))
    table = cache.view(20, 2, 8)
    mixed = torch.cat(
        [table[positions[i], :, part] for i, part in enumerate((slice(0, 2), slice(2, 5), slice(5, 8)))], -1
    )
    q = torch.randn(5, 2, 16)
    on = q.to("xpu")
    XPU.multimodal_rotary_embedding(positions.to("xpu"), on, None, 16, cache.to("xpu"), True, [2, 3, 3])
    close(on, turn(q.double(), mixed[:, None, 0].double(), mixed[:, None, 1].double(), True), torch.float32)
    qkv = torch.randn(5, 4 * 16)
    on, weights = qkv.to("xpu"), torch.randn(2, 16)
    C.fused_qk_norm_rope(on, 2, 1, 1, 16, 1e-6, *weights.to("xpu"), cache.to("xpu"), True, positions[0].to("xpu"))
    c, s = cache.double()[positions[0]].unsqueeze(1).chunk(2, -1)
    heads = qkv.double().view(5, 4, 16)
    for i in range(3):
        normed = functional.rms_norm(heads[:, i : i + 1], (16,), weights[i // 2].double(), 1e-6)
        close(on.view(5, 4, 16)[:, i : i + 1], turn(normed, c, s, True), torch.float32)
    assert torch.equal(on.view(5, 4, 16)[:, 3].cpu(), qkv.view(5, 4, 16)[:, 3])


# ---- rounding


def test_floats_of_four_bits() -> None:
    x = torch.tensor([*common.E2M1, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 9.0])
    x = torch.cat((x, -x))
    nearest = [*common.E2M1, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]
    assert common.from_e2m1(common.to_e2m1(x.to("xpu"))).tolist() == nearest + [-v for v in nearest]
    assert common.power_of_two(at(1.0, 1.5, 0.25, 3.0, dtype=torch.float32)).tolist() == [1.0, 2.0, 0.25, 4.0]


@pytest.mark.parametrize("kind", [FP8, torch.float8_e5m2, torch.int8])
@pytest.mark.parametrize("group", [16, 64])
def test_rounding_of_norms_and_units(kind: torch.dtype, group: int) -> None:
    x, residual, weight = torch.randn(6, 64), torch.randn(6, 64), torch.randn(64)
    out = torch.empty(6, 64, dtype=kind, device="xpu")
    scale = torch.empty(6, 64 // group, device="xpu")
    total = residual.to("xpu")
    expected = functional.rms_norm((x + residual).double(), (64,), weight.double(), 1e-6)
    C.rms_norm_per_block_quant(out, x.to("xpu"), weight.to("xpu"), scale, 1e-6, None, total, group, False)
    step = {FP8: 0.04, torch.float8_e5m2: 0.08, torch.int8: 0.005}[kind]

    def restored() -> Tensor:
        return (out.float().unflatten(1, (-1, group)) * scale.view(6, -1, 1)).flatten(1).cpu().double()

    most = expected.abs().amax()
    assert (restored() - expected).abs().max() < step * most
    if group == 64:
        C.rms_norm_dynamic_per_token_quant(out, x.to("xpu"), weight.to("xpu"), scale, 1e-6, None, residual.to("xpu"))
        assert (restored() - expected).abs().max() < step * most
    gate = torch.randn(6, 128)
    C.silu_and_mul_per_block_quant(out, gate.to("xpu"), scale, group)
    expected = functional.silu(gate[:, :64].double()) * gate[:, 64:]
    assert (restored() - expected).abs().max() < step * expected.abs().amax()


def test_rounding_with_scales() -> None:
    x = torch.randn(8, 64)
    out, scale = torch.empty(8, 64, dtype=FP8, device="xpu"), torch.empty(8, 1, device="xpu")
    C.dynamic_per_token_scaled_fp8_quant(out, x.to("xpu"), scale, None)
    torch.testing.assert_close(scale.cpu(), x.abs().amax(1, keepdim=True) / 448)
    assert ((out.float() * scale).cpu() - x).abs().max() < 0.04 * x.abs().max()
    C.dynamic_scaled_fp8_quant(out, torch.zeros(8, 64, device="xpu"), scale[:1, 0])
    assert not out.float().any()
    group = torch.rand(4, 2) + 0.5
    C.static_scaled_fp8_quant(out, x.to("xpu"), group.to("xpu"))
    spread = group.repeat_interleave(2, 0).repeat_interleave(32, 1)
    assert torch.equal(out.float().cpu(), (x * (1 / spread)).to(FP8).float())
    C.per_token_group_fp8_quant(x.to("xpu"), out, scale, 64, 1e-10, -448.0, 448.0, True, False, False)
    assert torch.equal(scale, common.power_of_two(scale)) and (scale.cpu() >= x.abs().amax(1, keepdim=True) / 448).all()
    packed, scales = moe_formats.quant_act_xpu(x.to("xpu"), "mxfp4")
    assert (moe_formats.dequant_mxfp4(packed, scales).cpu() - x).abs().max() < 0.26 * x.abs().max()
    with pytest.raises(RuntimeError, match="do not divide"):
        C.per_token_group_fp8_quant(x.to("xpu"), out, scale, 48, 1e-10, -448.0, 448.0, False, False, False)


def test_nan_is_a_value() -> None:
    nan = float("nan")
    x = torch.ones(3, 64)
    x[1, 5] = nan
    on, scale = x.to("xpu"), torch.empty(3, 2, device="xpu")
    out, packed = torch.empty(3, 64, dtype=FP8, device="xpu"), torch.empty(3, 32, dtype=torch.uint8, device="xpu")
    C.per_token_group_quant_mxfp4(on, packed, scale, 32, 1e-10)
    assert scale.isnan().tolist() == [[False, False], [True, False], [False, False]]
    C.per_token_group_fp8_quant(on, out, scale, 32, 1e-10, -448.0, 448.0, True, False, False)
    assert scale.isnan().tolist() == [[False, False], [True, False], [False, False]]
    C.silu_and_mul_per_block_quant(out.view(torch.int8)[:, :32], on, scale[:, :1], 32)
    assert scale[:, 0].isnan().tolist() == [False, True, False]
    half = torch.empty(3, 32, device="xpu")
    C.swigluoai_and_mul(half, on)
    C.rms_norm(on, on.clone(), None, 1e-6)
    assert half.isnan().any(1).tolist() == on.isnan().any(1).tolist() == [False, True, False]
    parts = torch.ones(2, 1, 4), torch.tensor([[nan, 0.0]])
    merged = torch.empty(2, 1, 4, device="xpu")
    C.merge_attn_states(merged, None, *(p.to("xpu") for p in (*parts, parts[0], torch.zeros(1, 2))))
    assert merged.isnan().all((1, 2)).tolist() == [True, False]
    q = torch.ones(2, 1, 8)
    q[0] = nan
    for cap in (0.0, 3.0):
        y = flash_attn_varlen_func(
            q.to("xpu"), *(torch.ones(3, 1, 8, device="xpu") for _ in range(2)), 2, at(0, 2), 3, at(0, 3), softcap=cap
        )
        assert y.isnan().all((1, 2)).tolist() == [True, False]


# ---- caches and attention


@pytest.mark.parametrize("kind", ["auto", "fp8"])
def test_caches(kind: str) -> None:
    key, value = torch.randn(6, 2, 16), torch.randn(6, 2, 16)
    slots = torch.tensor([3, -1, 17, 8, -1, 0])
    dtype = torch.float32 if kind == "auto" else FP8
    keys, values = (torch.zeros(3, 8, 2, 16, device="xpu").to(dtype) for _ in range(2))
    one = at(0.5, dtype=torch.float32)
    CACHE.reshape_and_cache_flash(key.to("xpu"), value.to("xpu"), keys, values, slots.to("xpu"), kind, one, one)
    for cache, x in ((keys, key), (values, value)):
        expected = torch.zeros(24, 2, 16)
        for i in (0, 2, 3, 5):
            expected[slots[i]] = x[i] if kind == "auto" else (x[i] / 0.5).to(FP8).float()
        assert torch.equal(cache.float().view(24, 2, 16).cpu(), expected)
    split = 16 // keys.element_size()
    split = min(split, 16)
    other = (
        torch.zeros(3, 2, 16 // split, 8, split, device="xpu").to(dtype),
        torch.zeros(3, 2, 16, 8, device="xpu").to(dtype),
    )
    CACHE.reshape_and_cache(key.to("xpu"), value.to("xpu"), *other, slots.to("xpu"), kind, one, one)
    assert torch.equal(other[0].float().permute(0, 3, 1, 2, 4).flatten(3), keys.float())
    assert torch.equal(other[1].float().permute(0, 3, 1, 2), values.float())
    with pytest.raises(RuntimeError, match="expected heads"):
        CACHE.reshape_and_cache_flash(
            key[..., :8].to("xpu"), value.to("xpu"), keys, values, slots.to("xpu"), kind, one, one
        )
    with pytest.raises(RuntimeError, match="not served"):
        CACHE.reshape_and_cache_flash(key.to("xpu"), value.to("xpu"), keys, values, slots.to("xpu"), "int2", one, one)


def test_places_of_other_types_and_layouts() -> None:
    """Every size of an element, caches whose pages lie between each other's, rows of any strides, no row at all."""
    slots, spare = torch.tensor([3, -1, 17, 8, -7, 0]), 2
    pages, place = slots[slots >= 0] // 8, slots[slots >= 0] % 8
    place_rows = torch.ops.xpu_ops._place_rows
    for dtype in (*DTYPES, torch.float64, torch.int8):
        both = torch.zeros(3, 2, 8, 3, 5, dtype=dtype)
        layers = torch.zeros(3, 8, 3, 5, dtype=dtype), torch.zeros(3, 3, 5, 8, dtype=dtype).permute(0, 3, 1, 2)
        rows = [
            (torch.randn(6 + spare, 3, 5) * 9).to(dtype),
            (torch.randn(6, 5, 3) * 9).to(dtype).transpose(1, 2),
            (torch.randn(6, 3, 10) * 9).to(dtype)[..., ::2],
        ]
        joined = both.to("xpu")
        cases = [
            ((both[:, 0], both[:, 1]), (joined[:, 0], joined[:, 1]), (rows[0][:6], rows[1])),
            (layers, tuple(c.to("xpu") for c in layers), (rows[2], rows[0][:6])),
        ]
        for caches, mine, (key, value) in cases:
            for cache, x in zip(caches, (key, value), strict=True):
                cache[pages, place] = x[slots >= 0]
            place_rows(*mine, key.to("xpu"), value.to("xpu"), slots.to("xpu"))
            for got, cache in zip(mine, caches, strict=True):
                assert torch.equal(got.cpu(), cache)
            again = [torch.zeros_like(c) for c in caches]
            place_rows(*again, key, value, slots)
            assert all(torch.equal(a, c) for a, c in zip(again, caches, strict=True))
    cache, x = torch.zeros(3, 8, 3, 5, device="xpu"), torch.randn(6, 3, 5, device="xpu")
    none = at([], dtype=torch.int64)
    place_rows(cache, cache.clone(), x[:0], x[:0], none)
    before = cache._version
    place_rows(cache, cache.clone(), x, x, torch.full((6,), -1).to("xpu"))
    assert not cache.any() and cache._version > before
    with pytest.raises(IndexError, match="index 24 is out of bounds"):
        place_rows(cache, cache.clone(), x[:1], x[:1], at([24], dtype=torch.int64))
        torch.xpu.synchronize()
    for bad in ((x[:5], x), (x[..., :4], x), (x.half(), x)):
        with pytest.raises(RuntimeError, match="expected"):
            place_rows(cache, cache.clone(), *bad, slots.to("xpu"))


def test_gathering_and_moving_pages() -> None:
    cache = torch.randn(6, 4, 5)
    table, begins = torch.tensor([[5, 1, 0], [2, 3, 4]]), torch.tensor([0, 6, 9])
    expected = torch.cat((cache[[5, 1]].flatten(0, 1)[:6], cache[[2, 3]].flatten(0, 1)[:3]))
    out = torch.full((10, 5), 7.0, device="xpu")
    CACHE.gather_cache(cache.to("xpu"), out, table.int().to("xpu"), begins.int().to("xpu"), 2, None)
    assert torch.equal(out[:9].cpu(), expected) and (out[9] == 7).all()
    which = torch.tensor([0] * 6 + [1] * 3).int()
    CACHE.gather_and_maybe_dequant_cache(
        cache.to("xpu"),
        out,
        table.int().to("xpu"),
        begins.int().to("xpu"),
        which.to("xpu"),
        9,
        "auto",
        at(1.0),
        at(4, 4),
    )
    later = torch.cat((cache[[1, 0]].flatten(0, 1)[:6], cache[[3, 4]].flatten(0, 1)[:3]))
    assert torch.equal(out[:9].cpu(), later)
    to = torch.zeros(6, 4, 5)
    CACHE.swap_blocks(cache.to("xpu"), to, 80, torch.tensor([[1, 0], [4, 5]]))
    assert torch.equal(to[[0, 5]], cache[[1, 4]]) and not to[1:5].any()


def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, window: tuple[int, int], sink: Tensor | None, cap: float
) -> tuple[Tensor, Tensor]:
    """Attention of one sequence in float64: outputs (queries, heads, dim) and sums (heads, queries)."""
    group = q.size(1) // k.size(1)
    k, v = (t.double().repeat_interleave(group, 1).transpose(0, 1) for t in (k, v))
    scores = q.double().transpose(0, 1) @ k.mT * q.size(-1) ** -0.5
    if cap:
        scores = cap * torch.tanh(scores / cap)
    place = torch.arange(k.size(1) - q.size(0), k.size(1))[:, None]
    column = torch.arange(k.size(1))
    hidden = column > place + (0 if causal else window[1] if window[1] >= 0 else 1 << 20)
    if window[0] >= 0:
        hidden |= column < place - window[0]
    scores = scores.masked_fill(hidden, float("-inf"))
    if sink is not None:
        scores = torch.cat((scores, sink.double().view(-1, 1, 1).expand(-1, q.size(0), 1)), -1)
    shares = scores.softmax(-1)[..., : k.size(1)]
    return (shares @ v).transpose(0, 1), scores.logsumexp(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [[1, 1, 1], [3, 3, 3], [5, 1, 20]])
@pytest.mark.parametrize(
    ("causal", "window", "sunk", "cap", "width"),
    [
        (True, (-1, -1), False, 0.0, 32),
        (True, (7, 0), True, 0.0, 32),
        (False, (-1, -1), True, 0.0, 32),
        (False, (4, 6), False, 0.0, 32),
        (True, (-1, -1), False, 5.0, 32),
        (True, (-1, -1), True, 0.0, 16),
    ],
)
def test_attention_over_pages(
    dtype: torch.dtype, queries: list[int], causal: bool, window: tuple[int, int], sunk: bool, cap: float, width: int
) -> None:
    lengths = [33, 5, 20]
    k, v = torch.randn(40, 8, 2, 32).to(dtype), torch.randn(40, 8, 2, 32).to(dtype)[..., :width]
    table = torch.randperm(40)[:15].view(3, 5)
    q = torch.randn(sum(queries), 4, 32).to(dtype)
    sink = torch.randn(4) if sunk else None
    begins = torch.tensor([0, *queries]).cumsum(0).int()
    result, sums = flash_attn_varlen_func(
        q.to("xpu"), k.to("xpu"), v.to("xpu"), max(queries), begins.to("xpu"), max(lengths), seqused_k=at(lengths),
        causal=causal, window_size=window, softcap=cap, block_table=table.int().to("xpu"), return_softmax_lse=True,
        s_aux=None if sink is None else sink.to("xpu"),
    )  # fmt: skip
    plain = flash_attn_varlen_func(
        q.to("xpu"), k.to("xpu"), v.to("xpu"), max(queries), begins.to("xpu"), max(lengths), seqused_k=at(lengths),
        causal=causal, window_size=window, softcap=cap, block_table=table.int().to("xpu"),
        s_aux=None if sink is None else sink.to("xpu"),
    )  # fmt: skip
    for i, length in enumerate(lengths):
        mine = slice(int(begins[i]), int(begins[i + 1]))
        keys, values = (t[table[i]].flatten(0, 1)[:length] for t in (k, v))
        out, lse = attention(q[mine], keys, values, causal, window, sink, cap)
        close(result[mine], out, dtype)
        close(plain[mine], out, dtype)
        close(sums[:, mine], lse, dtype)


def test_attention_of_packed_keys_and_of_eight_bits() -> None:
    q, k, v = torch.randn(9, 4, 16), torch.randn(12, 2, 16), torch.randn(12, 2, 16)
    begins, ends = torch.tensor([0, 4, 9]).int(), torch.tensor([0, 5, 12]).int()
    out = flash_attn_varlen_func(
        q.to("xpu"), k.to("xpu"), v.to("xpu"), 5, begins.to("xpu"), 7, ends.to("xpu"), causal=True
    )
    for i in range(2):
        mine, keys = slice(int(begins[i]), int(begins[i + 1])), slice(int(ends[i]), int(ends[i + 1]))
        close(out[mine], attention(q[mine], k[keys], v[keys], True, (-1, -1), None, 0.0)[0], torch.float32)
    pages = [torch.randn(3, 8, 2, 16).to(FP8) for _ in range(2)]
    scales = [at(0.5, dtype=torch.float32), at(2.0, dtype=torch.float32)]
    one = torch.randn(2, 4, 16)
    out = flash_attn_varlen_func(
        one.to("xpu"), *(p.to("xpu") for p in pages), 1, at(0, 1, 2), 8, seqused_k=at(8, 3), block_table=at([[2], [0]]),
        k_descale=scales[0], v_descale=scales[1],
    )  # fmt: skip
    for i, (page, length) in enumerate(((2, 8), (0, 3))):
        keys, values = pages[0][page, :length].float() * 0.5, pages[1][page, :length].float() * 2
        close(out[i : i + 1], attention(one[i : i + 1], keys, values, True, (-1, -1), None, 0.0)[0], torch.float32)
    with pytest.raises(ValueError, match="pages need seqused_k"):
        flash_attn_varlen_func(q.to("xpu"), k.to("xpu"), v.to("xpu"), 5, begins.to("xpu"), 7)
    with pytest.raises(NotImplementedError, match="alibi_slopes"):
        flash_attn_varlen_func(
            q.to("xpu"), k.to("xpu"), v.to("xpu"), 5, begins.to("xpu"), 7, ends.to("xpu"), alibi_slopes=at(1.0)
        )


def test_merging_parts_of_attention() -> None:
    q, k, v = torch.randn(6, 3, 8), torch.randn(11, 3, 8), torch.randn(11, 3, 8)
    whole, sums = attention(q, k, v, False, (-1, -1), None, 0.0)
    first, second = (attention(q, k[s], v[s], False, (-1, -1), None, 0.0) for s in (slice(0, 4), slice(4, 11)))
    parts = [t.float().to("xpu") for pair in (first, second) for t in pair]
    parts[1][:, 5] = float("inf")  # no prefix
    out, lse = torch.empty(6, 3, 8, device="xpu"), torch.empty(3, 6, device="xpu")
    C.merge_attn_states(out, lse, *parts)
    close(out[:5], whole[:5], torch.float32)
    close(lse[:, :5], sums[:, :5], torch.float32)
    close(out[5], second[0][5], torch.float32)
