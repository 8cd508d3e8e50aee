"""The surroundings of a model: loaders, files, accelerate, Trainer, functional transforms, compilation, averages."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path

import modes
import pytest
import torch
import torch.nn.functional as F
import zoo
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from xpu_ops import onednn


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def small_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def compiled_families() -> list:
    return [
        pytest.param(
            f.name, marks=[pytest.mark.xdist_group(f.name)] + ([] if f.name == "llama" else [pytest.mark.slow])
        )
        for f in zoo.FAMILIES.values()
        if f.compiled
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers: int) -> None:
    """DataLoader with worker processes and pinned memory gives the batches, moved without blocking."""
    x, y = torch.randn(40, 8), torch.arange(40)
    loader = DataLoader(
        TensorDataset(x, y), batch_size=16, num_workers=workers, pin_memory=True, persistent_workers=workers > 0
    )
    for _ in range(2):
        seen = []
        for bx, by in loader:
            assert bx.is_pinned()
            moved = bx.to("xpu", non_blocking=True)
            torch.testing.assert_close(moved.cpu(), x[by])
            seen.append(by)
        assert torch.equal(torch.cat(seen), y)


def test_save_and_load(tmp_path: Path) -> None:
    """torch.save and torch.load with every map_location keep a model and its optimizer bit for bit."""
    m = modes.model("bert", "xpu")
    optimizer = torch.optim.AdamW(m.parameters())
    modes.loss_of("bert", m, modes.move(modes.batch("bert", labels=True), "xpu")).backward()
    optimizer.step()
    torch.save({"model": m.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "all.pt")
    for where in ("xpu", "cpu", None):
        state = torch.load(tmp_path / "all.pt", map_location=where)
        other = modes.model("bert", where or "xpu")
        other.load_state_dict(state["model"])
        again = torch.optim.AdamW(other.parameters())
        again.load_state_dict(state["optimizer"])
        assert {p.device.type for p in other.parameters()} == {where or "xpu"}
        assert {s["exp_avg"].device.type for s in again.state.values()} == {where or "xpu"}
        for a, b in zip(m.parameters(), other.parameters(), strict=True):
            assert torch.equal(a.cpu(), b.cpu())


def test_safetensors(tmp_path: Path) -> None:
    """safetensors files of a state and of a model load onto the device."""
    from safetensors.torch import load_file, load_model, save_file, save_model

    state = {"a": torch.randn(3, 4, device="xpu"), "b": torch.randn(5, device="xpu", dtype=torch.bfloat16)}
    save_file(state, tmp_path / "x.safetensors")
    for device in ("cpu", "xpu", "xpu:0"):
        for k, t in load_file(tmp_path / "x.safetensors", device=device).items():
            assert t.device.type == device.split(":")[0]
            assert torch.equal(t.cpu(), state[k].cpu())
    m, other = small_net().to("xpu"), nn.Sequential(*small_net()).to("xpu")
    nn.init.zeros_(other[0].weight)
    save_model(m, tmp_path / "m.safetensors")
    load_model(other, tmp_path / "m.safetensors", device="xpu")
    assert torch.equal(m[0].weight, other[0].weight)


def test_pretrained_round_trip(tmp_path: Path) -> None:
    """save_pretrained and from_pretrained, straight onto the device and in bf16."""
    import transformers

    m = modes.model("bert", "xpu").eval()
    m.save_pretrained(tmp_path)
    other = transformers.BertForMaskedLM.from_pretrained(tmp_path, device_map="xpu").eval()
    assert {p.device.type for p in other.parameters()} == {"xpu"}
    data = modes.move(modes.batch("bert", labels=False), "xpu")
    with torch.no_grad(), modes.no_fallback():
        assert torch.equal(m(**data).logits, other(**data).logits)
    half = transformers.BertForMaskedLM.from_pretrained(tmp_path, dtype=torch.bfloat16).to("xpu")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}


def test_state_dict_between_devices() -> None:
    """State dicts move between CPU and device in both directions."""
    m, x = small_net(), torch.randn(5, 8)
    on_xpu = nn.Sequential(*small_net()).to("xpu")
    for p in on_xpu.parameters():
        nn.init.zeros_(p)
    on_xpu.load_state_dict(m.state_dict())
    torch.testing.assert_close(on_xpu(x.to("xpu")).cpu(), m(x))
    back = small_net()
    back.load_state_dict(on_xpu.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(back.parameters(), m.parameters(), strict=True))
    with torch.device("xpu"):
        assert nn.Linear(3, 3).weight.is_xpu
    meta = nn.Linear(3, 3, device="meta").to_empty(device="xpu")
    assert meta.weight.is_xpu


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate(precision: str) -> None:
    """Accelerator() finds the device by itself, prepares, trains and clips."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState

    AcceleratorState._reset_state(reset_partial_state=True)
    PartialState._reset_state()
    accelerator = Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
    try:
        assert accelerator.device.type == "xpu"
        x = torch.randn(32, 8)
        data = DataLoader(TensorDataset(x, x[:, :4].sum(1, keepdim=True).expand(-1, 4)), batch_size=8)
        net = small_net()
        m, optimizer, loader = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=2e-2), data)
        losses = []
        with modes.no_fallback():
            for _ in range(6):
                for bx, by in loader:
                    assert bx.is_xpu
                    with accelerator.accumulate(m):
                        loss = F.mse_loss(m(bx), by)
                        accelerator.backward(loss)
                        if accelerator.sync_gradients:
                            accelerator.clip_grad_norm_(m.parameters(), 1.0)
                        optimizer.step()
                        optimizer.zero_grad()
                    losses.append(loss.item())
        assert losses[-1] < 0.7 * losses[0]
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_trainer(tmp_path: Path, precision: str) -> None:
    """20 steps of transformers' Trainer, with evaluation, a checkpoint and a resumed run."""
    import transformers
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    rows = [{k: v[0] for k, v in modes.batch("gpt2", labels=False, seed=i).items()} for i in range(4)]
    rows = [{**r, "labels": r["input_ids"]} for r in rows] * 10

    def trainer(steps: int) -> transformers.Trainer:
        args = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=steps, per_device_train_batch_size=4, learning_rate=5e-3, report_to=[],
            logging_steps=5, save_steps=10, bf16=precision == "bf16", disable_tqdm=True, dataloader_pin_memory=True,
            optim="adamw_torch_fused", seed=0,
        )  # fmt: skip
        m = modes.model("gpt2", "cpu")
        return transformers.Trainer(m, args, train_dataset=rows, eval_dataset=rows[:4])

    try:
        first = trainer(20)
        assert first.args.device.type == "xpu"
        with modes.no_fallback():
            first.train()
            metrics = first.evaluate()
        losses = [e["loss"] for e in first.state.log_history if "loss" in e]
        assert first.state.global_step == 20
        assert losses[-1] < 0.8 * losses[0]
        resumed = trainer(20)
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))
        assert resumed.evaluate()["eval_loss"] == pytest.approx(metrics["eval_loss"], rel=5e-2)
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


def test_functional_transforms() -> None:
    """torch.func: per-sample gradients, jvp, vjp, Jacobian and Hessian, against the CPU."""
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    net = small_net()
    x, y, t = torch.randn(6, 8), torch.randn(6, 4), torch.randn(6, 8)

    def run(device: str) -> list[torch.Tensor]:
        params = {k: v.detach().to(device) for k, v in net.named_parameters()}
        m = copy.deepcopy(net).to(device)
        a, b, tangent = x.to(device), y.to(device), t.to(device)

        def loss(p: dict, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return F.mse_loss(functional_call(m, p, (u,)), v)

        per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(params, a, b)
        value, tangents = jvp(lambda u: functional_call(m, params, (u,)), (a,), (tangent,))
        _, pull = vjp(lambda u: functional_call(m, params, (u,)), a)
        one = lambda u: functional_call(m, params, (u,)).square().sum()  # noqa: E731
        return [
            *per_sample.values(), value, tangents, pull(b)[0], jacrev(one)(a[0]), jacfwd(one)(a[0]), hessian(one)(a[0]),
            vmap(lambda u: F.linear(u, params["0.weight"]).softmax(-1))(a),
        ]  # fmt: skip

    want = run("cpu")
    with modes.no_fallback():
        got = run("xpu")
    for a, e in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


def test_model_ensembling() -> None:
    """torch.func.stack_module_state and vmap run an ensemble of models."""
    from torch.func import functional_call, stack_module_state, vmap

    nets = []
    for seed in range(3):
        torch.manual_seed(seed)
        nets.append(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    x = torch.randn(5, 8)
    want = torch.stack([n(x) for n in nets])
    params, buffers = stack_module_state([n.to("xpu") for n in nets])
    base = copy.deepcopy(nets[0]).to("meta")
    with modes.no_fallback():
        got = vmap(lambda p, b, u: functional_call(base, (p, b), (u,)), in_dims=(0, 0, None))(
            params, buffers, x.to("xpu")
        )
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_keeps_the_random_state(reentrant: bool) -> None:
    """The recomputed forward draws the dropout mask of the first one: gradients equal those without checkpointing."""
    from torch.utils.checkpoint import checkpoint

    net = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, 4)).to("xpu")
    x = torch.randn(16, 8).to("xpu").requires_grad_()

    def gradients(use: bool) -> list[torch.Tensor]:
        torch.manual_seed(7)
        out = checkpoint(net, x, use_reentrant=reentrant, preserve_rng_state=True) if use else net(x)
        torch.rand(3, device="xpu")  # moves the generator on between forward and backward
        return (
            list(torch.autograd.grad(out.square().sum(), list(net.parameters()))) if not reentrant else reference(out)
        )

    def reference(out: torch.Tensor) -> list[torch.Tensor]:
        net.zero_grad()
        out.square().sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    for a, e in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(a, e)


def test_parametrize() -> None:
    """weight_norm and spectral_norm of torch.nn.utils.parametrizations: weights and gradients as on the CPU."""
    from torch.nn.utils import parametrizations, parametrize

    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        first = parametrizations.weight_norm(nn.Linear(8, 8))
        second = parametrizations.spectral_norm(nn.Linear(8, 6))
        m = nn.Sequential(first, nn.Tanh(), second).to(device)
        assert parametrize.is_parametrized(m[0])
        m(torch.ones(4, 8, device=device)).square().sum().backward()
        return [m[0].weight, m[2].weight, *(p.grad for p in m.parameters())]

    want = run("cpu")
    with modes.no_fallback():
        got = run("xpu")
    for a, e in zip(got, want, strict=True):
        torch.testing.assert_close(a.detach().cpu(), e.detach(), rtol=1e-4, atol=1e-5)


def test_averaged_models() -> None:
    """EMA and SWA of torch.optim.swa_utils, with batch norm statistics averaged or computed anew."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
        x = torch.randn(32, 8)
        m, x = m.to(device), x.to(device)
        ema = AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
        swa = AveragedModel(m)
        counted = AveragedModel(m, use_buffers=True)
        optimizer = torch.optim.SGD(m.parameters(), lr=1e-3)
        for _ in range(5):
            optimizer.zero_grad()
            m(x).square().sum().backward()
            optimizer.step()
            ema.update_parameters(m)
            swa.update_parameters(m)
            counted.update_parameters(m)
        update_bn([x], swa)
        return [v for averaged in (ema, swa, counted) for v in averaged.state_dict().values()]

    want = run("cpu")
    with modes.no_fallback():
        got = run("xpu")
    for a, e in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", compiled_families())
def test_compile_aot_eager(name: str) -> None:
    """torch.compile(backend="aot_eager"): forward and gradients equal eager's within rounding."""
    torch._dynamo.reset()
    data = modes.move(modes.batch(name, labels=True), "xpu")
    m = modes.model(name, "xpu").train()
    with modes.no_fallback():
        want = modes.loss_of(name, m, data)
        want.backward()
        expected = {k: p.grad.clone() for k, p in m.named_parameters() if p.grad is not None}
        m.zero_grad(set_to_none=True)
        m = modes.model(name, "xpu").train()
        compiled = torch.compile(m, backend="aot_eager")
        got = modes.loss_of(name, compiled, data)
        got.backward()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    for k, p in m.named_parameters():
        if k in expected:
            size = expected[k].abs().max().clamp(min=1e-3)
            torch.testing.assert_close(p.grad / size, expected[k] / size, rtol=1e-3, atol=1e-3)
    torch._dynamo.reset()


def test_static_cache() -> None:
    """A preallocated key-value cache gives the tokens of the growing one."""
    m = modes.model("llama", "xpu").eval()
    data = modes.move(modes.batch("llama", labels=False), "xpu")
    with torch.no_grad(), modes.no_fallback():
        grown = m.generate(**data, max_new_tokens=8, do_sample=False)
        static = m.generate(
            **data, max_new_tokens=8, do_sample=False, cache_implementation="static", disable_compile=True
        )
    assert torch.equal(grown, static)


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"do_sample": True, "top_k": 20, "top_p": 0.9}], ids=str)
def test_generation_strategies(options: dict) -> None:
    """Beam search and sampling of transformers: repeatable, and beams equal to the CPU's."""
    m = modes.model("gpt2", "xpu").eval()
    data = modes.move(modes.batch("gpt2", labels=False), "xpu")
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        with torch.no_grad(), modes.no_fallback():
            outputs.append(m.generate(**data, max_new_tokens=8, **options))
    assert torch.equal(*outputs)
    if "num_beams" in options:
        reference = modes.model("gpt2", "cpu").eval().generate(**modes.move(data, "cpu"), max_new_tokens=8, **options)
        assert torch.equal(outputs[0].cpu(), reference)


def test_diffusion_loop() -> None:
    """A scheduler's loop over the UNet, all on the device."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(4)
    data = modes.batch("unet", labels=False)

    def run(device: str) -> torch.Tensor:
        m, hidden = modes.model("unet", device).eval(), data["encoder_hidden_states"].to(device)
        x = data["sample"].to(device)
        with torch.no_grad():
            for t in scheduler.timesteps:
                x = scheduler.step(m(x, t.to(device), encoder_hidden_states=hidden).sample, t, x).prev_sample
        return x.cpu()

    want = run("cpu")
    with modes.no_fallback():
        got = run("xpu")
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


def test_hooks_and_empty_cache() -> None:
    """Memory of a trained model returns to the allocator."""
    before = torch.xpu.memory_allocated()
    m = modes.model("vit", "xpu")
    modes.loss_of("vit", m, modes.move(modes.batch("vit", labels=True), "xpu")).backward()
    assert torch.xpu.memory_allocated() > before
    assert torch.xpu.max_memory_allocated() >= torch.xpu.memory_allocated()
    del m
    onednn.weight_cache.clear()
    torch.xpu.empty_cache()
    assert torch.xpu.memory_allocated() <= before
