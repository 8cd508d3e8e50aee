"""LSTM and GRU cells and layers against the CPU in double, without a fallback."""

from __future__ import annotations

import copy

import pytest
import torch
from support import script
from support.compare import assert_near
from torch import nn

import xpu_ops

TOL = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def tensors(nest) -> list[torch.Tensor]:
    if isinstance(nest, torch.Tensor):
        return [nest]
    return [t for part in nest for t in tensors(part)] if isinstance(nest, (tuple, list)) else []


def compare(module: nn.Module, inputs: tuple, dtype: torch.dtype) -> None:
    """Outputs and every gradient, of weights and inputs; all outputs count in the loss with different weights."""
    module = module.to(dtype)
    results = []
    for device, computed in (("cpu", torch.float64), ("xpu", dtype)):
        m = copy.deepcopy(module).to(device, computed)
        args = torch.utils._pytree.tree_map(
            lambda t: t.detach().to(dtype).to(device, computed).requires_grad_(), inputs
        )
        outputs = tensors(m(*args))
        sum((o.double() * (i + 1)).square().sum() for i, o in enumerate(outputs)).backward()
        grads = [p.grad for p in m.parameters()] + [t.grad for t in tensors(args)]
        results.append([t.detach().double() for t in [*outputs, *grads]])
    want, got = results
    sizes = [max(1.0, t.abs().max().item()) for t in want]
    of_one = [[t / size for t, size in zip(ts, sizes, strict=True)] for ts in (got, want)]
    assert_near(*of_one, rtol=TOL[dtype], atol=TOL[dtype])


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("dtype", list(TOL), ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers(kind, dtype, bias) -> None:
    for batch, hidden, layers, both, first in [(3, 17, 2, True, True), (1, 300, 1, False, False)]:
        m = kind(11, hidden, layers, bias=bias, bidirectional=both, batch_first=first)
        with xpu_ops.fallback.forbid():
            compare(m, (torch.randn(batch, 5, 11) if first else torch.randn(5, batch, 11),), dtype)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind) -> None:
    state = torch.randn(4, 9)
    with xpu_ops.fallback.forbid():
        compare(
            kind(6, 9), (torch.randn(4, 6), (state, torch.randn(4, 9)) if kind is nn.LSTMCell else state), torch.float32
        )


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_inference(kind, context) -> None:
    """Without gradients torch's composite would take a kernel that only its own XPU build has."""
    for dtype in TOL:
        for options in ({}, {"num_layers": 2, "bidirectional": True, "batch_first": True}):
            m, x = kind(5, 7, **options).eval().to(dtype), torch.randn(3, 4, 5, dtype=dtype)
            with context(), xpu_ops.fallback.forbid():
                want = tensors(copy.deepcopy(m).double()(x.double()))
                got = tensors(copy.deepcopy(m).to("xpu")(x.to("xpu")))
            assert {t.dtype for t in got} == {dtype}
            assert_near(got, want, rtol=TOL[dtype], atol=TOL[dtype])


def test_projection_dropout_and_unbatched() -> None:
    m, x = nn.LSTM(5, 7, num_layers=2, proj_size=3, dropout=0.5), torch.randn(4, 5)
    want = tensors(copy.deepcopy(m).eval()(x))
    on = copy.deepcopy(m).to("xpu")
    assert_near(tensors(on.eval()(x.to("xpu"))), want)
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        runs.append(on.train()(x.to("xpu"))[0])
    assert torch.equal(*runs) and not torch.equal(runs[0], on(x.to("xpu"))[0])


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("lengths", [[5, 3, 2], [5, 5, 5]], ids=str)
def test_packed_sequences(lengths, context) -> None:
    torch.manual_seed(0)
    m, x = nn.LSTM(4, 6, bidirectional=True), torch.randn(5, 3, 4)
    with xpu_ops.fallback.forbid(), context():
        want = m(nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths)))
        got = copy.deepcopy(m).to("xpu")(nn.utils.rnn.pack_padded_sequence(x.to("xpu"), torch.tensor(lengths)))
    assert_near([got[0].data, *got[1]], [want[0].data, *want[1]])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize(("batch", "hidden", "options"), [
    (1, 16, {}), (5, 48, {"bias": False}), (13, 32, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    (64, 16, {"bidirectional": True}), (65, 16, {}),
], ids=str)  # fmt: skip
def test_step_by_step(kind, batch, hidden, options) -> None:
    """Small float32 batches take a kernel per step; states with gradients, some weights without, bits that stay."""
    torch.manual_seed(0)
    m = kind(11, hidden, **options)
    x = torch.randn(batch, 6, 11) if options.get("batch_first") else torch.randn(6, batch, 11)
    many = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    states = [torch.randn(many, batch, hidden) for _ in "hc"]
    inputs = (x, tuple(states) if kind is nn.LSTM else states[0])
    with xpu_ops.fallback.forbid():
        compare(m, inputs, torch.float32)
    on = copy.deepcopy(m).to("xpu")
    kept = tensors(on(x.to("xpu")))
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(kept, tensors(on(x.to("xpu"))), strict=True))
    m.weight_hh_l0.requires_grad_(False)
    wanted = []
    for device in ("cpu", "xpu"):
        on = copy.deepcopy(m).to(device)
        tensors(on(x.to(device)))[-1].square().sum().backward()  # the last state alone
        wanted.append([p.grad.cpu() for p in on.parameters() if p.grad is not None])
    torch.testing.assert_close(wanted[1], wanted[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "dtype", "hidden"), [
    (nn.LSTM, torch.float64, 4), (nn.LSTM, torch.float32, 16), (nn.GRU, torch.float32, 16),
], ids=str)  # fmt: skip
def test_second_derivative(kind, dtype, hidden) -> None:
    """create_graph takes torch's differentiable backward instead of the fused one."""
    results = []
    for device in ("cpu", "xpu"):
        torch.manual_seed(0)
        m = kind(3, hidden).to(device, dtype)
        x = torch.randn(4, 2, 3, dtype=dtype).to(device).requires_grad_()
        (g,) = torch.autograd.grad(m(x)[0].square().sum(), x, create_graph=True)
        g.square().sum().backward()
        results.append([t.grad.cpu() for t in (x, *m.parameters())])
    torch.testing.assert_close(
        results[1], results[0], **({} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4})
    )


@pytest.mark.parametrize("hidden", [4, 16])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_forward_derivatives_and_batches_of_gradients(dtype, kind, hidden) -> None:
    torch.manual_seed(0)
    m, x, tangent = kind(3, hidden).double(), torch.randn(4, 2, 3).double(), torch.randn(4, 2, 3).double()
    on = copy.deepcopy(m).to("xpu", dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {}
    results = []
    for module, kind_of in ((m, torch.float64), (on, dtype)):
        device = next(module.parameters()).device
        given, direction = x.to(device, kind_of), tangent.to(device, kind_of)
        found = []
        for wants in (True, False):
            module.requires_grad_(wants)
            with torch.autograd.forward_ad.dual_level():
                out = module(torch.autograd.forward_ad.make_dual(given, direction))[0]
                found.append(torch.autograd.forward_ad.unpack_dual(out).tangent.detach())
        leaf = given.clone().requires_grad_()
        out = module(leaf)[0]
        (grads,) = torch.autograd.grad(out, leaf, torch.stack([out, out.cos()]).detach(), is_grads_batched=True)
        found.append(grads)
        results.append([t.cpu().double() for t in found])
    for got, want in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, want, **tolerance)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_forward_derivatives_of_cells(kind, bias) -> None:
    torch.manual_seed(0)
    m, x, along = kind(3, 4, bias=bias).double(), torch.randn(2, 3).double(), torch.randn(5, 2, 3).double()
    results = []
    for module in (m, copy.deepcopy(m).to("xpu")):
        device = next(module.parameters()).device
        given, directions = x.to(device), along.to(device)

        def output(t: torch.Tensor, module: nn.Module = module) -> torch.Tensor:
            return torch.cat(tensors(module(t)))

        def tangent(v: torch.Tensor, f=output, given=given) -> torch.Tensor:
            return torch.func.jvp(f, (given,), (v,))[1]

        found = [tangent(directions[0]), torch.func.vmap(tangent)(directions), torch.func.jacfwd(output)(given)]
        found.append(torch.func.hessian(lambda t, f=output: f(t).square().sum())(given))
        found += torch.autograd.grad(found[0].square().sum(), list(module.parameters()))
        results.append([t.cpu() for t in found])
    for got, want in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_cell_with_a_tangent_has_the_workspace_of_the_kernel(kind) -> None:
    torch.manual_seed(0)
    parts = 4 if kind == "lstm" else 3
    given = [torch.randn(2, n * 5, device="xpu") for n in (parts, parts, 1)]
    given += [torch.randn(parts * 5, device="xpu") for _ in range(2)]
    cell = getattr(torch.ops.aten, f"_thnn_fused_{kind}_cell")
    with torch.autograd.forward_ad.dual_level():
        dual = cell(torch.autograd.forward_ad.make_dual(given[0], given[1]), *given[1:])
        for got, want in zip(dual, cell(*given), strict=True):
            torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(got).primal, want)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_empty_batch_and_wrong_shape(kind) -> None:
    m = kind(3, 4).to("xpu")
    assert m(torch.empty(2, 0, 3, device="xpu"))[0].shape == (2, 0, 4)
    gates = torch.randn(2, 16, device="xpu")
    with pytest.raises(RuntimeError, match="expected a tensor of size"):
        torch.ops.aten._thnn_fused_lstm_cell(gates, torch.randn(3, 16, device="xpu"), torch.randn(2, 4, device="xpu"))
    with pytest.raises(RuntimeError, match="gates"):
        torch.ops.aten._thnn_fused_gru_cell(gates, gates, torch.randn(2, 4, device="xpu"))


NARROW = """
import torch

def results(device):
    torch.manual_seed(0)
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        layer = kind(48, 32)
        x = torch.randn(5, 7, 48)
        layer, x = layer.to(device), x.to(device).requires_grad_()
        y, _ = layer(x)
        yield y.detach().cpu()
        yield from (g.cpu() for g in torch.autograd.grad(y.square().sum(), [x, *layer.parameters()]))

with torch.profiler.profile() as profile:
    ours = list(results("xpu"))
names = {e.name.split()[0] for e in profile.events() if "_step" in e.name}
assert {f"{kind}_step{way}_narrow" for kind in ("lstm", "gru") for way in ("", "_backward")} == names, names
for actual, wanted in zip(ours, results("cpu"), strict=True):
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)
"""


def test_processors_with_sixteen_vector_registers() -> None:
    """Fewer sums at once there, in the same order."""
    script.out(NARROW, timeout=300, **script.AVX2)
