"""Copies, zero-copy aliases, DLPack, pickling, save and load, DataLoader."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import weakref

import numpy as np
import pytest
import torch
from support.modes import GPU_POLICY

import xpu_ops

DISCRETE = (
    os.environ.get("XPU_OPS_DISCRETE", "0") not in ("", "0")
    or GPU_POLICY
    or torch.xpu.get_device_properties().type != "cpu"
)
shared_only = pytest.mark.skipif(DISCRETE, reason="the host cannot read device memory here")


def samples() -> list[torch.Tensor]:
    base = torch.arange(24.0).view(2, 3, 4)
    return [
        base,
        base.permute(2, 0, 1),
        base[:, ::2],
        base[:, 1:2].expand(2, 5, 4),
        base[..., 0],
        torch.tensor(3.5),
        torch.empty(0, 3),
        base.to(memory_format=torch.contiguous_format).unsqueeze(0).to(memory_format=torch.channels_last),
    ]


@pytest.mark.parametrize("i", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64])
def test_to_device_and_back(i, dtype):
    t = samples()[i].to(dtype)
    x = t.to("xpu")
    assert x.device == torch.device("xpu", 0)
    assert x.stride() == t.to("cpu", copy=True).stride()
    assert x.cpu().equal(t)
    assert x.cpu().stride() == x.stride()


@pytest.mark.parametrize("i", range(8))
def test_copies_into_strided_destinations(i):
    t = samples()[i]
    for source in (t, t.to("xpu"), t.double(), t.to("xpu").to(torch.int32)):
        for target_device in ("xpu", "cpu"):
            big = torch.zeros([2 * s for s in t.shape], device=target_device)
            view = big[tuple(slice(None, None, 2) for _ in t.shape)] if t.dim() else big
            view.copy_(source)
            want = torch.zeros([2 * s for s in t.shape])
            wview = want[tuple(slice(None, None, 2) for _ in t.shape)] if t.dim() else want
            wview.copy_(source.cpu())
            assert big.cpu().equal(want)


def test_copy_broadcasts_and_checks():
    x = torch.zeros(3, 4, device="xpu")
    x.copy_(torch.arange(4.0))
    assert x.cpu().equal(torch.arange(4.0).expand(3, 4))
    with pytest.raises(RuntimeError, match=r"size of tensor a \(4\) must match the size of tensor b \(5\)"):
        x.copy_(torch.zeros(5))
    with pytest.raises(RuntimeError, match=r"output with shape \[3, 4\] doesn't match the broadcast shape \[2, 3, 4\]"):
        x.copy_(torch.zeros(2, 3, 4))
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single"
    ):
        x.view(12)[1:].copy_(x.view(12)[:11])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        torch.zeros(1, device="xpu").expand(4).copy_(torch.zeros(4))
    assert x.copy_(x) is x


def test_conj_and_neg_bits_cross_over():
    z = torch.randn(4, 3, dtype=torch.complex64)
    x = z.to("xpu")
    assert x.conj().is_conj()
    assert x.conj().cpu().equal(z.conj())
    assert z.conj().to("xpu").cpu().equal(z.conj())
    assert x.conj().imag.cpu().equal(z.conj().imag)
    y = torch.empty(4, 3, dtype=torch.complex64, device="xpu")
    y.conj().copy_(z)
    assert y.cpu().equal(z.conj().resolve_conj())
    y.copy_(x.conj())
    assert y.cpu().equal(z.conj().resolve_conj())


def test_non_blocking():
    host = torch.randn(1 << 16).pin_memory()
    x = host.to("xpu", non_blocking=True)
    back = torch.empty(1 << 16, pin_memory=True)
    back.copy_(x, non_blocking=True)
    torch.xpu.current_stream().synchronize()
    assert back.equal(host)
    pageable = torch.randn(1 << 16)
    y = pageable.to("xpu", non_blocking=True)
    want = pageable.clone()
    pageable.zero_()  # must not reach the device any more
    assert y.cpu().equal(want)


def test_item():
    for value, dtype in (
        (3, torch.int32),
        (2.5, torch.float64),
        (True, torch.bool),
        (1 - 2j, torch.complex64),
        (1.5, torch.bfloat16),
    ):
        assert torch.tensor(value, dtype=dtype, device="xpu").item() == value
    assert torch.tensor(1 + 2j, device="xpu").conj().item() == 1 - 2j
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.zeros(2, device="xpu").item()
    assert torch.arange(6, device="xpu").view(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_views_are_views():
    x = torch.zeros(4, 6, device="xpu")
    with xpu_ops.fallback.forbid():
        for v in (
            x.view(24),
            x.t(),
            x[1:3, ::2],
            x.reshape(6, 4),
            x.unfold(1, 2, 2),
            x.as_strided((2, 2), (1, 2)),
            x.expand(2, 4, 6),
            x.unsqueeze(0),
            x.diagonal(),
            x.chunk(2)[0],
            x.detach(),
            x.view(torch.int32),
            x.narrow(0, 0, 2),
            torch.view_as_complex(x.view(12, 2)),
        ):
            assert v.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert v._base is x or not v._is_view() or v._base is not None
        assert torch.view_as_real(torch.empty(3, dtype=torch.complex64, device="xpu")).shape == (3, 2)


def test_resize_and_set():
    x = torch.arange(6.0, device="xpu")
    x.resize_(2, 3)
    assert x.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    x.resize_(4, 5)
    assert x.shape == (4, 5)
    assert x.flatten()[:6].cpu().tolist() == [0, 1, 2, 3, 4, 5]
    x.resize_(1, 2, 3, 1, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    y = torch.empty(0, device="xpu")
    y.set_(x.untyped_storage(), 1, (2,), (1,))
    assert y.data_ptr() == x.data_ptr() + 4
    y.set_(x)
    assert y.is_set_to(x)
    y.set_()
    assert y.numel() == 0
    assert y.device.type == "xpu"
    with pytest.raises(RuntimeError):
        torch.empty(0).set_(x)
    s = torch.ones(4, device="xpu").untyped_storage()
    s.resize_(64)
    assert s.nbytes() == 64
    assert torch.empty(0, device="xpu").set_(s, 0, (4,)).cpu().tolist() == [1, 1, 1, 1]


def test_factories_check_their_options():
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(2, device="xpu", pin_memory=True)
    assert torch.empty(2, 3, device="xpu", memory_format=torch.contiguous_format).is_contiguous()
    assert torch.empty_strided((2, 3), (1, 2), device="xpu").stride() == (1, 2)
    assert torch.empty_like(torch.empty(2, 3, device="xpu").t()).stride() == (1, 3)
    assert torch.zeros(3, device="xpu").cpu().tolist() == [0, 0, 0]


def test_deterministic_fill():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(5, device="xpu").isnan().all().item()
        assert torch.empty(5, dtype=torch.int32, device="xpu").cpu().tolist() == [torch.iinfo(torch.int32).max] * 5
    finally:
        torch.use_deterministic_algorithms(False)


@shared_only
def test_alias_on_the_host():
    x = torch.zeros(3, 4, device="xpu")
    c = xpu_ops.as_cpu(x.t())
    assert c.device.type == "cpu"
    assert c.shape == (4, 3)
    assert c.stride() == (1, 4)
    assert c.data_ptr() == x.data_ptr()
    c[1, 2] = 7
    assert x[2, 1].item() == 7
    x.fill_(2)
    torch.xpu.synchronize()
    assert c.eq(2).all()
    del x
    gc.collect()
    assert c.eq(2).all()  # the alias keeps the memory


@shared_only
def test_alias_on_the_device():
    c = torch.arange(12.0).view(3, 4)
    x = xpu_ops.as_xpu(c[:, 1:])
    assert x.device == torch.device("xpu", 0)
    assert x.data_ptr() == c.data_ptr() + 4
    assert x.stride() == (4, 1)
    x.add_(1)
    torch.xpu.synchronize()
    assert c[0].tolist() == [0, 2, 3, 4]
    y = x * 2
    storage = weakref.ref(c.untyped_storage())
    del c, x
    assert y.cpu().tolist()[0] == [4, 6, 8]
    del storage


@shared_only
def test_alias_is_cheap():
    x = torch.zeros(1 << 24, device="xpu")
    torch.xpu.synchronize()
    before = torch.xpu.memory_allocated()
    xpu_ops.as_cpu(x)
    xpu_ops.as_xpu(xpu_ops.as_cpu(x))
    assert torch.xpu.memory_allocated() == before


def test_alias_refuses():
    with pytest.raises(TypeError, match="expects a tensor on an XPU device"):
        xpu_ops.as_cpu(torch.zeros(2))
    with pytest.raises(TypeError, match="expects a CPU tensor"):
        xpu_ops.as_xpu(torch.zeros(2, device="xpu"))
    if DISCRETE:
        with pytest.raises(RuntimeError, match="cannot read the memory"):
            xpu_ops.as_cpu(torch.zeros(2, device="xpu"))
        with pytest.raises(RuntimeError, match="does not work on host memory"):
            xpu_ops.as_xpu(torch.zeros(2))


def test_cpu_keeps_copy_semantics():
    x = torch.zeros(4, device="xpu")
    c = x.cpu()
    c[0] = 1
    assert x[0].item() == 0
    assert x.to("xpu") is x
    assert x.to("xpu", copy=True).data_ptr() != x.data_ptr()


def test_numpy():
    x = torch.tensor([1.0, 2.0], device="xpu")
    assert np.array_equal(x.cpu().numpy(), [1, 2])
    with pytest.raises(TypeError, match="can't convert xpu:0 device type tensor to numpy"):
        x.numpy()


def test_dlpack():
    x = torch.arange(6.0, device="xpu").view(2, 3).t()
    kind, index = x.__dlpack_device__()
    assert (int(kind), index) == (14, 0)  # kDLOneAPI
    y = torch.from_dlpack(x)
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    assert y.stride() == x.stride()
    y.add_(1)
    assert x.cpu().equal(y.cpu())
    z = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert z.data_ptr() == x.data_ptr()
    del x, y
    gc.collect()
    assert z[0, 0].item() == 1


def test_deepcopy_pickle_and_storage():
    x = torch.arange(6.0, device="xpu").view(2, 3)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert y.device == x.device
        assert y.data_ptr() != x.data_ptr()
        assert y.cpu().equal(x.cpu())
    assert x.untyped_storage().device == x.device
    assert x.untyped_storage().cpu().device.type == "cpu"
    assert x.is_xpu


@pytest.mark.parametrize("weights_only", [True, False])
def test_save_and_load(weights_only):
    x = torch.randn(3, 4, device="xpu")
    file = io.BytesIO()
    torch.save({"x": x, "view": x.t()}, file)

    def load(**kwargs):
        file.seek(0)
        return torch.load(file, weights_only=weights_only, **kwargs)

    got = load()
    assert got["x"].device == torch.device("xpu", 0)
    assert got["x"].cpu().equal(x.cpu())
    assert got["view"].data_ptr() == got["x"].data_ptr()
    assert load(map_location="cpu")["x"].equal(x.cpu())
    assert load(map_location="xpu:0")["view"].device.type == "xpu"
    assert load(map_location={"xpu:0": "cpu"})["x"].device.type == "cpu"
    assert load(map_location=lambda storage, where: storage)["x"].cpu().equal(x.cpu())
    file = io.BytesIO()
    torch.save(x.cpu(), file)
    assert load(map_location="xpu").cpu().equal(x.cpu())
    assert load(map_location=torch.device("xpu")).device == torch.device("xpu", 0)


def test_module_state_crosses_devices():
    m = torch.nn.Linear(3, 2).to("xpu")
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    n = torch.nn.Linear(3, 2)
    n.load_state_dict(torch.load(file))
    assert n.weight.equal(m.weight.cpu())


def test_data_loader_pins():
    data = torch.utils.data.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
    seen = []
    for x, y in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
        assert x.is_pinned()
        assert y.is_pinned()
        seen += y.to("xpu", non_blocking=True).cpu().tolist()
    assert seen == list(range(10))
