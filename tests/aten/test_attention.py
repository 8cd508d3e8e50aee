"""Attention against torch's CPU kernels: masks, grouped heads, gradients, routes."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from support import script
from support.compare import assert_near
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

import xpu_ops

TOL = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def run(q, k, v, g, device, dtype, **kwargs):
    q, k, v = (t.to(device, dtype).requires_grad_() for t in (q, k, v))
    mask = kwargs.pop("attn_mask", None)
    if mask is not None:
        mask = mask.to(device) if mask.dtype == torch.bool else mask.to(device, dtype)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **kwargs)
    return [out, *torch.autograd.grad(out, (q, k, v), g.to(device, dtype))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [(3, 8, 2, 70, 16), (2, 6, 2, 200_000, 16), (2, 8, 4, 37, 72), (1, 32, 4, 513, 40), (1, 3, 1, 1, 64)],
    ids=str,
)
def test_one_query_of_grouped_heads(dtype: torch.dtype, masked: bool, sizes: tuple[int, ...]) -> None:
    """As in generating text, by groups of four, two and one; in the second case a tile holds heads of two groups."""
    b, h, hk, m, d = sizes
    q, k, v = torch.randn(b, h, 1, d).to(dtype), *(torch.randn(b, m, hk, d).to(dtype).transpose(1, 2) for _ in "kv")
    mask = torch.rand(b, h, 1, m) > 0.3 if masked else None
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=mask, enable_gqa=True)
    on_xpu = [t.to("xpu") for t in (q, k, v)]
    with torch.no_grad():
        actual = F.scaled_dot_product_attention(
            *on_xpu, attn_mask=None if mask is None else mask.to("xpu"), enable_gqa=True
        )
    assert_near(actual, expected, rtol=TOL[dtype], atol=TOL[dtype] * expected.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("queries", [1, 14, 40])
@pytest.mark.parametrize("expanded", ["qk", "qkv", "q", "v", "heads"])
def test_expanded_operands(dtype: torch.dtype, queries: int, expanded: str) -> None:
    """One query, key or value for all of the batch, and a gradient that is one for all, too."""
    shapes = {"q": (2, 3, queries, 16), "k": (2, 3, 16, 16), "v": (2, 3, 16, 8), "g": (2, 3, queries, 8)}

    def made(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        torch.manual_seed(0)
        tensors = []
        for name, shape in shapes.items():
            full = torch.randn(shape).to(given).to(device, dtype)
            if expanded == "heads":
                full = full[:, :1].expand(shape)
            elif name in expanded or (name == "g" and "v" in expanded):
                full = full[:1].expand(shape)
            tensors.append(full)
        *leaves, grad = tensors
        leaves = [t.requires_grad_() for t in leaves]
        out = F.scaled_dot_product_attention(*leaves)
        return [out, *torch.autograd.grad(out, leaves, grad)]

    given = dtype
    for actual, expected in zip(made("xpu", dtype), made("cpu", torch.float64), strict=True):
        assert_near(actual, expected, rtol=TOL[dtype], atol=TOL[dtype] * expected.abs().max().item())


@pytest.mark.parametrize("mode", ["plain", "causal", "bool", "float", "scale"])
@pytest.mark.parametrize("dtype", list(TOL), ids=str)
def test_forward_and_backward(dtype, mode) -> None:
    # One tile, ragged sizes, shared key heads, one query, several tiles per head.
    for b, h, hk, n, m, d, dv in [
        (1, 1, 1, 8, 8, 16, 16),
        (2, 3, 3, 65, 130, 40, 24),
        (1, 4, 2, 150, 150, 64, 64),
        (2, 4, 2, 1, 70, 16, 16),
        (1, 2, 2, 600, 700, 24, 8),
    ]:
        q, k, v = torch.randn(b, h, n, d), torch.randn(b, hk, m, d), torch.randn(b, hk, m, dv)
        g = torch.randn(b, h, n, dv)
        kwargs = {"enable_gqa": h != hk}
        if mode == "causal":
            kwargs["is_causal"] = True
        elif mode == "bool":
            mask = torch.rand(b, 1, n, m) > 0.3
            mask[0, 0, 0] = False
            kwargs["attn_mask"] = mask
        elif mode == "float":
            kwargs["attn_mask"] = torch.randn(n, m)
        elif mode == "scale":
            kwargs["scale"] = 0.3
        rounded = [t.to(dtype).float() for t in (q, k, v, g)]
        if "attn_mask" in kwargs and mode == "float":
            kwargs["attn_mask"] = kwargs["attn_mask"].to(dtype).float()
        with sdpa_kernel(SDPBackend.MATH):
            want = run(*rounded, "cpu", torch.float32, **dict(kwargs))
        got = run(*rounded, "xpu", dtype, **dict(kwargs))
        assert_near(got, want, rtol=TOL[dtype], atol=TOL[dtype])


@pytest.mark.parametrize("mode", ["plain", "causal", "bool", "float"])
def test_blocks_of_queries(mode) -> None:
    """The f32 kernels of whole blocks at edges: ends of blocks of queries, keys, vectors; heads split by queries."""
    for b, h, hk, n, m, d, dv in [
        (1, 1, 1, 300, 77, 80, 48),
        (3, 4, 2, 33, 1, 16, 32),
        (2, 2, 2, 16, 9, 48, 16),
        (1, 3, 1, 130, 129, 32, 64),
    ]:
        q, k, v, g = (torch.randn(b, *s) for s in ((h, n, d), (hk, m, d), (hk, m, dv), (h, n, dv)))
        kwargs = {"enable_gqa": h != hk, "is_causal": mode == "causal"}
        if mode == "bool":
            kwargs["attn_mask"] = torch.rand(b, h, n, m) > 0.3
        elif mode == "float":
            kwargs["attn_mask"] = torch.randn(1, h, 1, m)
        with sdpa_kernel(SDPBackend.MATH):
            want = run(*(t.double() for t in (q, k, v, g)), "cpu", torch.float64, **dict(kwargs))
        got = run(q, k, v, g, "xpu", torch.float32, **dict(kwargs))
        assert_near(got, [t.float() for t in want], rtol=1e-5, atol=1e-5)
        again = run(q, k, v, g, "xpu", torch.float32, **dict(kwargs))
        assert all(torch.equal(x, y) for x, y in zip(got, again, strict=True))
        inputs = [t.to("xpu") for t in (q, k, v)]
        mask = kwargs.pop("attn_mask", torch.tensor([])).to("xpu")
        for i in range(3):  # a gradient alone is the one among others
            inputs[i].requires_grad_()
            out = F.scaled_dot_product_attention(*inputs, attn_mask=mask if mask.numel() else None, **kwargs)
            (grad,) = torch.autograd.grad(out, inputs[i], g.to("xpu"))
            assert torch.equal(grad, got[1 + i])
            inputs[i].requires_grad_(False)


def test_a_query_does_not_see_its_block() -> None:
    q, k, v = (torch.randn(3, 24, 100, 64, device="xpu") for _ in range(3))  # blocks for many threads
    whole = F.scaled_dot_product_attention(q, k, v)
    assert torch.equal(F.scaled_dot_product_attention(q[:, :, 21:70], k, v), whole[:, :, 21:70])
    q[0, 0, 40] = float("nan")
    k[0, 1, 99] = float("inf")
    got, want = (F.scaled_dot_product_attention(*(t.to(d) for t in (q, k, v))) for d in ("xpu", "cpu"))
    assert torch.equal(got.cpu().isnan(), want.isnan())


def test_route() -> None:
    q = torch.randn(1, 2, 32, 16).to("xpu")
    assert torch._fused_sdp_choice(q, q, q) == SDPBackend.OVERRIDEABLE.value
    assert torch._fused_sdp_choice(q.double(), q.double(), q.double()) == SDPBackend.MATH.value


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)], ids=["heads", "rows", "batches inside"])
@pytest.mark.parametrize("value_dim", [16, 24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_strides_are_those_of_the_meta_function(order: tuple[int, ...], value_dim: int, dtype: torch.dtype) -> None:
    """torch.compile plans with them."""

    def tensor(*shape: int) -> torch.Tensor:
        back = [order.index(i) for i in range(4)]
        return torch.randn([shape[i] for i in order], device="xpu", dtype=dtype).permute(back).requires_grad_()

    def strides(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[tuple[int, ...]]:
        out = F.scaled_dot_product_attention(q, k, v)
        grads = torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
        return [t.stride() for t in (out, *grads)]

    operands = tensor(3, 2, 33, 16), tensor(3, 2, 20, 16), tensor(3, 2, 20, value_dim)
    got = strides(*operands)
    with FakeTensorMode() as mode:
        assert got == strides(*(mode.from_tensor(t) for t in operands))


@pytest.mark.parametrize("mode", ["plain", "causal", "bool"])
def test_fewer_dimensions_take_the_same_kernels(mode) -> None:
    for shape in ((3, 40, 16), (40, 16)):
        q, k, v, g = (torch.randn(shape, device="xpu") for _ in range(4))
        kwargs = {"is_causal": mode == "causal"}
        if mode == "bool":
            kwargs["attn_mask"] = torch.rand(*shape[:-1], 40, device="xpu") > 0.3
        got = run(q, k, v, g, "xpu", torch.float32, **dict(kwargs))
        want = run(*(t.reshape(1, -1, 40, 16) for t in (q, k, v, g)), "xpu", torch.float32, **dict(kwargs))
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a, b.reshape(shape))


def test_what_is_not_fused_still_works() -> None:
    q = torch.randn(2, 3, 10, 8)
    for x in (q.double(), q[0].double(), q[:, :, :2]):
        want = F.scaled_dot_product_attention(x, x, x)
        assert_near(F.scaled_dot_product_attention(*[x.to("xpu")] * 3), want, rtol=1e-4, atol=1e-5)
    bias = torch.randn(10, 10, requires_grad=True)
    gbias = bias.detach().to("xpu").requires_grad_()
    F.scaled_dot_product_attention(q, q, q, attn_mask=bias).sum().backward()
    F.scaled_dot_product_attention(*[q.to("xpu")] * 3, attn_mask=gbias).sum().backward()
    torch.testing.assert_close(gbias.grad.cpu(), bias.grad, rtol=1e-3, atol=1e-4)
    assert F.scaled_dot_product_attention(*[q.to("xpu")] * 3, dropout_p=0.5).shape == q.shape


def test_runs_are_identical() -> None:
    q = torch.randn(2, 4, 200, 32).to("xpu").requires_grad_()
    grads = []
    for _ in range(5):
        (g,) = torch.autograd.grad(F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum(), q)
        grads.append(g.cpu())
    assert all(torch.equal(grads[0], g) for g in grads)


def test_dropout() -> None:
    n, p = 96, 0.3
    q, k, v, g = (torch.randn(2, 3, n, 16) for _ in range(4))
    eye = torch.eye(n).expand(2, 3, n, n)
    there = [t.to("xpu").requires_grad_() for t in (q, k, v)]

    def attend(value):
        torch.manual_seed(7)
        return F.scaled_dot_product_attention(there[0], there[1], value, dropout_p=p)

    dropped = attend(eye.to("xpu")).detach().cpu()  # the weights themselves
    assert torch.equal(dropped, attend(eye.to("xpu")).detach().cpu())
    kept = dropped != 0
    assert abs(kept.float().mean().item() - (1 - p)) < 0.01
    here = [t.double().requires_grad_() for t in (q, k, v)]
    weights = torch.softmax(here[0] @ here[1].transpose(-1, -2) / 4, -1) * kept / (1 - p)
    torch.testing.assert_close(dropped, weights.detach().float(), rtol=1e-4, atol=1e-5)
    out = attend(there[2])
    torch.testing.assert_close(out.detach().cpu(), (weights @ here[2]).detach().float(), rtol=1e-4, atol=1e-4)
    want = torch.autograd.grad(weights @ here[2], here, g.double())
    got = torch.autograd.grad(out, there, g.to("xpu"))
    for a, e in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu(), e.float(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_mask(causal) -> None:
    shape, p = (2, 3, 40, 90), 0.3
    q, k = (torch.randn(*shape[:2], n, 16).to("xpu") for n in (40, 90))
    eye = torch.eye(90).expand(2, 3, 90, 90).to("xpu")
    weights, _, seed, offset = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, eye, None, False, p, causal)
    mask = torch.full(shape, 9.0, device="xpu")
    drawn = seed.item(), offset.item()
    assert torch._fill_mem_eff_dropout_mask_(mask, p, *drawn) is mask
    assert mask.unique().tolist() == [0, 1]
    seen = torch.ones(40, 90, dtype=torch.bool).tril_() if causal else torch.ones(40, 90, dtype=torch.bool)
    assert torch.equal((mask.cpu() > p) & seen, weights.cpu() != 0)
    assert torch._fill_mem_eff_dropout_mask_(mask, 0.0, *drawn).min() == 1
    assert torch._fill_mem_eff_dropout_mask_(mask, 1.0, *drawn).max() == 0
    assert torch._fill_mem_eff_dropout_mask_(mask[:0], p, *drawn).numel() == 0
    for wrong in (mask.transpose(2, 3), mask.half(), mask[0]):
        with pytest.raises((RuntimeError, IndexError)):
            torch._fill_mem_eff_dropout_mask_(wrong, p, *drawn)


@pytest.mark.parametrize("heads, queries", [(1, 24), (4, 3)], ids=["shared key head", "few queries"])
@pytest.mark.parametrize("dtype", list(TOL), ids=str)
def test_boolean_mask_on_the_composite_route(dtype, heads, queries) -> None:
    q, k, v = torch.randn(2, 4, queries, 16), torch.randn(2, heads, 24, 16), torch.randn(2, heads, 24, 16)
    mask = torch.rand(2, 1, queries, 24) > 0.3
    mask[..., 0] = True
    rounded = [t.to(dtype).double() for t in (q, k, v)]
    with sdpa_kernel(SDPBackend.MATH):
        want = F.scaled_dot_product_attention(*rounded, attn_mask=mask)
    got = F.scaled_dot_product_attention(*[t.to("xpu", dtype) for t in (q, k, v)], attn_mask=mask.to("xpu"))
    assert_near(got, want, rtol=TOL[dtype], atol=TOL[dtype])


@pytest.mark.parametrize("mode", ["plain", "causal", "bias"])
def test_efficient_attention_is_the_same(mode) -> None:
    """The operator that torch declares for CUDA, forward, saved sums and backward."""
    q, k, v, g = (torch.randn(2, 3, n, 16) for n in (37, 50, 50, 37))
    bias = torch.randn(2, 3, 37, 50) if mode == "bias" else None
    causal = mode == "causal"
    with sdpa_kernel(SDPBackend.MATH):
        want = run(q, k, v, g, "cpu", torch.float64, attn_mask=bias, is_causal=causal, scale=0.3)
    leaves = [t.to("xpu").requires_grad_() for t in (q, k, v)]
    there = None if bias is None else bias.to("xpu")
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    out, sums, *_ = efficient(*leaves, there, True, 0.0, causal, scale=0.3)
    assert_near([out, *torch.autograd.grad(out, leaves, g.to("xpu"))], want, rtol=1e-4, atol=1e-4)
    assert sums.shape == (2, 3, 64)
    scores = (q @ k.transpose(2, 3)) * 0.3 + (0 if bias is None else bias)
    scores = scores.masked_fill(torch.ones(37, 50).tril() == 0, -float("inf")) if causal else scores
    assert_near(sums[..., :37], scores.logsumexp(-1))
    assert efficient(*leaves, there, False, 0.0, causal, scale=0.3)[1].shape == (2, 3, 0)


def test_efficient_attention_drops_as_its_backward_does() -> None:
    q, k, v = (torch.randn(1, 2, 24, 8, device="xpu", requires_grad=True) for _ in range(3))
    out, sums, seed, offset = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.5)
    # Linear in v: its gradient meets the result only where both dropped the same weights.
    (grad,) = torch.autograd.grad(out.sum(), v)
    torch.testing.assert_close((grad * v).sum(), out.sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packed_heads_are_split(dtype) -> None:
    qkv, bias = torch.randn(2, 5, 24).to(dtype), torch.randn(24).to(dtype)
    got, want = (torch._transform_bias_rescale_qkv(qkv.to(d), bias.to(d), 4) for d in ("xpu", "cpu"))
    assert_near(got, want, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
    for a, e in zip(got, want, strict=True):
        assert (a.stride(), a.dtype) == (e.stride(), e.dtype)
    for wrong in ((qkv, bias[:23], 4), (qkv, bias, 5), (qkv[0], bias, 4)):
        with pytest.raises(RuntimeError):
            torch._transform_bias_rescale_qkv(wrong[0].to("xpu"), wrong[1].to("xpu"), wrong[2])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_devices_that_differ(context) -> None:
    q = torch.randn(1, 2, 8, 4, device="xpu")
    with context(), pytest.raises(RuntimeError, match="query, key, and value to have the same device type"):
        F.scaled_dot_product_attention(q, q.cpu(), q)


@pytest.mark.parametrize("masked", [False, True], ids=["all", "padded"])
def test_transformer_layers_in_evaluation(masked) -> None:
    """Their fast paths are operators of their own."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    x = torch.randn(3, 7, 16)
    mask = torch.arange(7) >= torch.tensor([7, 4, 5])[:, None] if masked else None
    there = copy.deepcopy(layer).to("xpu"), x.to("xpu"), None if mask is None else mask.to("xpu")
    with torch.no_grad(), xpu_ops.fallback.forbid():
        got, want = (m(t, src_key_padding_mask=p) for m, t, p in (there, (layer, x, mask)))
        keep = torch.ones(3, 7, dtype=torch.bool) if mask is None else ~mask
        assert_near(got * keep.to("xpu").unsqueeze(-1), want * keep.unsqueeze(-1))
        for weights in (True, False):
            got, want = (
                m.self_attn(t, t, t, key_padding_mask=p, need_weights=weights) for m, t, p in (there, (layer, x, mask))
            )
            assert_near([t for t in got if t is not None], [t for t in want if t is not None])


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 0, 8), (2, 3, 4), (2, 3, 8)),
        ((2, 0, 8), (3, 3, 8), (2, 3, 8)),
        ((2, 4, 8), (2, 3, 8), (2, 0, 8)),
        ((2, 4, 8), (2, 3, 9), (2, 3, 0)),
        ((1, 2, 4, 8), (1, 2, 0, 8), (1, 2, 0, 5)),
    ],
)
def test_no_queries_or_values(shapes: tuple[tuple[int, ...], ...]) -> None:
    """Zeros with gradients of zeros, also where the other sizes do not fit, as on torch's CPU."""
    found = []
    for device in ("cpu", "xpu"):
        leaves = [torch.ones(s, device=device, requires_grad=True) for s in shapes]
        out = F.scaled_dot_product_attention(*leaves)
        out.sum().backward()
        found.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])  # type: ignore[union-attr]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


TRANSFORMS = {
    "vmap": lambda f, q: torch.func.vmap(f)(q),
    "vmap of vmap": lambda f, q: torch.func.vmap(torch.func.vmap(f))(q),
    "one operand": lambda f, q: torch.func.vmap(lambda a: F.scaled_dot_product_attention(a, q[0], q[1]))(q),
    "vmap of grad": lambda f, q: torch.func.vmap(torch.func.grad(lambda a: f(a).sin().sum()))(q),
    "grad of vmap": lambda f, q: torch.func.grad(lambda a: torch.func.vmap(f)(a).sin().sum())(q),
    "hessian": lambda f, q: torch.func.hessian(lambda a: f(a).sin().sum())(q[0, 0, 0, :3]),
    "jvp": lambda f, q: torch.func.jvp(f, (q[0, 0],), (q[1, 0],))[1],
}


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"mask": True}], ids=str)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_torch_func(name: str, options: dict) -> None:
    """torch's composite asserted under vmap, and the fused operators have no rule for it."""
    torch.manual_seed(0)
    q = torch.randn(3, 2, 4, 5, 8)

    def result(device: str) -> torch.Tensor:
        given = dict(options)

        def f(a: torch.Tensor) -> torch.Tensor:
            if given.get("mask"):
                allowed = torch.ones(a.shape[-2], a.shape[-2], dtype=torch.bool, device=device).tril()
                return F.scaled_dot_product_attention(a, a, a, allowed)
            return F.scaled_dot_product_attention(a, a, a, **given)

        return TRANSFORMS[name](f, q.to(device))

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = result("cpu")
    torch.testing.assert_close(result("xpu").cpu(), expected, rtol=1e-4, atol=1e-5)


def test_forward_derivative_of_four_dimensions() -> None:
    torch.manual_seed(0)
    q, t = torch.randn(2, 3, 4, 6, 8)[:2]
    f = lambda a: F.scaled_dot_product_attention(a, a, a)  # noqa: E731
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _, expected = torch.func.jvp(f, (q,), (t,))
    torch.testing.assert_close(
        torch.func.jvp(f, (q.to("xpu"),), (t.to("xpu"),))[1].cpu(), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("heads", [4, 2])
def test_decomposed(heads: int) -> None:
    """torch's composite asks a table without this device; torch.export and FlopCounterMode call it."""
    q = torch.randn(1, 4, 6, 16, device="xpu")
    k = torch.randn(1, heads, 6, 16, device="xpu")
    options = {"is_causal": True, "enable_gqa": heads != 4}
    want = F.scaled_dot_product_attention(q, k, k, **options)
    got = torch.ops.aten.scaled_dot_product_attention.default.decompose(q, k, k, **options)
    torch.testing.assert_close(got, want)
    cpu = torch.ops.aten.scaled_dot_product_attention.default.decompose(q.cpu(), k.cpu(), k.cpu(), **options)
    torch.testing.assert_close(got.cpu(), cpu)


def test_exported_and_counted() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, q, q)

    q = torch.randn(1, 2, 8, 16, device="xpu")
    program = torch.export.export(Attention(), (q,)).run_decompositions()
    torch.testing.assert_close(program.module()(q), Attention()(q))
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        y = Attention()(q)
    torch.testing.assert_close(y.cpu(), Attention()(q.cpu()))
    assert counter.get_total_flops() == 2 * (2 * 2 * 8 * 8 * 16)


@pytest.mark.parametrize("causal", [False, True])
def test_by_the_name_of_flash_attention(causal: bool) -> None:
    q, k, v = (torch.randn(2, 3, 7, 16, device="xpu", requires_grad=True) for _ in range(3))
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    out, logsumexp = found[0], found[1]
    want = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(out, want)
    assert logsumexp.shape == (2, 3, 7) and found[4:6] == (7, 7)
    grad = torch.randn_like(out)
    got, expected = (torch.autograd.grad(y, (q, k, v), grad) for y in (out, want))
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


NARROW = """
import torch

def results(device):
    gen = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 48, generator=gen).to(device).requires_grad_() for n in (77, 133, 133))
    mask = torch.rand(77, 133, generator=gen) > 0.2
    for given, causal in ((None, False), (None, True), (mask, False), (mask * 0.5, False)):
        given = given if given is None else given.to(device)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, given, is_causal=causal)
        yield out.detach().cpu()
        yield from (g.cpu() for g in torch.autograd.grad(out.square().sum(), (q, k, v)))

with torch.profiler.profile() as profile:
    ours = list(results("xpu"))
names = {e.name for e in profile.events() if e.name.startswith("attention_block")}
assert names and all("narrow" in name for name in names), names
for actual, wanted in zip(ours, results("cpu"), strict=True):
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)
"""


def test_processors_with_sixteen_vector_registers() -> None:
    """Blocks are computed in smaller tiles there."""
    script.out(NARROW, timeout=300, **script.AVX2)


SECOND = {
    "plain": {},
    "causal": {"is_causal": True},
    "boolean": {"masked": "boolean"},
    "additive": {"masked": "additive", "scale": 0.3},
    "grouped": {"heads": 2, "enable_gqa": True},
    "dropped": {"dropout_p": 0.4},
    "sixteen bits": {"dtype": torch.bfloat16},
    "three dimensions": {"squeezed": True},
}


@pytest.mark.parametrize("mode", SECOND)
def test_gradients_of_gradients(mode) -> None:
    """A gradient penalty, and the penalty of that: the fused operators have no formula beyond the first."""
    given = dict(SECOND[mode])
    masked, heads, dtype = given.pop("masked", None), given.pop("heads", 4), given.pop("dtype", torch.float32)
    squeezed, p = given.pop("squeezed", False), given.get("dropout_p", 0.0)
    torch.manual_seed(0)
    tensors = [torch.randn(2, h, n, 8).to(dtype) for h, n in ((4, 5), (heads, 7), (heads, 7))]
    mask = {"boolean": torch.rand(5, 7) > 0.4, "additive": torch.randn(5, 7)}.get(masked)
    if mask is not None and masked == "boolean":
        mask[1] = False  # a query that sees nothing

    def derivatives(attend, leaves) -> list[torch.Tensor]:
        found = [attend(*[t[0] for t in leaves] if squeezed else leaves)]
        loss = found[0].double().sin().sum()
        for _ in range(3):
            grads = torch.autograd.grad(loss, leaves, create_graph=True)
            found += grads
            loss = sum(g.double().square().sum() for g in grads)
        return found

    there = [t.to("xpu").requires_grad_() for t in tensors]
    given["attn_mask"] = mask if mask is None else mask.to("xpu")

    def fused(*qkv):
        torch.manual_seed(7)
        return F.scaled_dot_product_attention(*qkv, **given)

    kept = torch.ones(2, 4, 5, 7, dtype=torch.bool)
    if p:
        with torch.no_grad():
            kept = fused(*there[:2], torch.eye(7, device="xpu").expand(2, 4, 7, 7)).cpu() != 0

    def composed(q, k, v):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
        scores = q @ k.mT * given.get("scale", 8**-0.5)
        if given.get("is_causal"):
            scores = scores.masked_fill(torch.ones(5, 7).tril() == 0, -float("inf"))
        if masked:
            scores = scores + mask if masked == "additive" else scores.masked_fill(~mask, -float("inf"))
        return torch._safe_softmax(scores, -1) * (kept[0] if squeezed else kept) / (1 - p) @ v

    want = derivatives(composed, [t.double().requires_grad_() for t in tensors])
    got = derivatives(fused, there)
    assert got[0].grad_fn is not None and all(g.dtype == dtype for g in got)
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-3
    for a, e in zip(got, want, strict=True):
        assert_near(a, e, rtol=tolerance, atol=tolerance * max(1.0, e.abs().max().item()))


@pytest.mark.parametrize("name", ["efficient", "flash"])
def test_second_gradients_by_other_names(name) -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(2, 3, 6, 8, device="xpu", requires_grad=True) for _ in range(3)]
    operators = {
        "efficient": lambda *qkv: torch.ops.aten._scaled_dot_product_efficient_attention(*qkv, None, True)[0],
        "flash": lambda *qkv: torch.ops.aten._scaled_dot_product_flash_attention(*qkv)[0],
    }
    results = []
    for attend in (operators[name], F.scaled_dot_product_attention):
        grads = torch.autograd.grad(attend(*leaves).sin().sum(), leaves, create_graph=True)
        results.append(torch.autograd.grad(sum(g.square().sum() for g in grads), leaves))
    torch.testing.assert_close(*results)


def test_first_gradients_stay_fused() -> None:
    q, k, v = (torch.randn(1, 2, 64, 16, device="xpu", requires_grad=True) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v)
    with xpu_ops.trace_ops() as trace:
        torch.autograd.grad(out.sum(), (q, k, v))
    names = [o.name for o in trace.operators]
    assert names and not any("matmul" in name or "softmax" in name for name in names), names
