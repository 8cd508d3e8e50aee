"""The Philox generator: 16-byte state, seeds and offsets as upstream keeps them."""

from __future__ import annotations

import struct

import pytest
import torch

import xpu_ops


def state(g: torch.Generator) -> tuple[int, int]:
    return struct.unpack("<QQ", bytes(g.get_state().tolist()))


def test_state_is_seed_and_offset():
    g = torch.Generator(device="xpu").manual_seed(1234)
    assert g.get_state().dtype == torch.uint8
    assert g.get_state().device.type == "cpu"
    assert g.get_state().shape == (16,)
    assert state(g) == (1234, 0)
    assert g.initial_seed() == 1234
    assert g.device == torch.device("xpu", 0)


def test_offset_advances_in_fours():
    g = torch.Generator(device="xpu").manual_seed(5)
    for asked, offset in ((1, 4), (4, 8), (5, 16), (0, 16)):
        before = g.get_offset()
        assert xpu_ops._C.reserve_philox(g, asked) == (5, before)
        assert g.get_offset() == offset
    g.set_offset(40)
    assert state(g) == (5, 40)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        g.set_offset(41)


def test_set_state():
    g, h = torch.Generator(device="xpu"), torch.Generator(device="xpu")
    g.manual_seed(77)
    torch.rand(1000, device="xpu", generator=g)
    h.set_state(g.get_state())
    assert state(g) == state(h)
    assert torch.rand(100, device="xpu", generator=g).equal(torch.rand(100, device="xpu", generator=h))
    g.set_state(torch.tensor(list(struct.pack("<Q", 9)), dtype=torch.uint8))  # a seed alone
    assert state(g) == (9, 0)
    with pytest.raises(RuntimeError, match="wrong size"):
        g.set_state(torch.zeros(10, dtype=torch.uint8))
    with pytest.raises((RuntimeError, TypeError), match="ByteTensor"):
        g.set_state(torch.zeros(16))


def test_manual_seed_repeats():
    torch.manual_seed(3)
    a = torch.randn(1000, device="xpu")
    torch.manual_seed(3)
    assert torch.randn(1000, device="xpu").equal(a)
    torch.xpu.manual_seed(3)
    assert torch.randn(1000, device="xpu").equal(a)
    torch.xpu.manual_seed_all(3)
    assert torch.randn(1000, device="xpu").equal(a)
    assert not torch.randn(1000, device="xpu").equal(a)
    assert torch.xpu.initial_seed() == 3


def test_rng_state_functions():
    torch.xpu.manual_seed(11)
    saved = torch.xpu.get_rng_state()
    saved_all = torch.xpu.get_rng_state_all()
    a = torch.rand(50, device="xpu")
    torch.xpu.set_rng_state(saved)
    assert torch.rand(50, device="xpu").equal(a)
    torch.xpu.set_rng_state_all(saved_all)
    assert torch.rand(50, device="xpu").equal(a)
    torch.xpu._set_rng_state_offset(8)
    assert torch.xpu._get_rng_state_offset() == 8


def test_seed_is_not_the_same_twice():
    torch.xpu.seed()
    a = torch.xpu.initial_seed()
    torch.xpu.seed_all()
    assert torch.xpu.initial_seed() != a


def test_default_generators():
    assert len(torch.xpu.default_generators) == torch.xpu.device_count()
    g = torch.xpu.default_generators[0]
    torch.xpu.manual_seed(21)
    assert state(g) == (21, 0)
    assert torch.rand(5, device="xpu", generator=g).device.type == "xpu"
    assert g.get_offset() > 0


def test_fork_rng():
    torch.manual_seed(8)
    with torch.random.fork_rng(device_type="xpu"):
        torch.xpu.manual_seed(99)
        torch.rand(10, device="xpu")
    a = torch.rand(10, device="xpu")
    torch.manual_seed(8)
    assert torch.rand(10, device="xpu").equal(a)


def test_clone_and_graphsafe_state():
    g = torch.Generator(device="xpu").manual_seed(4)
    g.set_offset(12)
    c = g.clone_state()
    assert state(c) == (4, 12)
    c.set_offset(16)
    assert g.get_offset() == 12
    h = torch.Generator(device="xpu")
    h.graphsafe_set_state(g)
    g.set_offset(20)
    assert h.get_offset() == 20
    assert g.graphsafe_get_state().get_offset() == 20


def test_wrong_device():
    with pytest.raises(RuntimeError, match="Expected a 'xpu' device type for generator but found 'cpu'"):
        xpu_ops._C.reserve_philox(torch.Generator(), 4)
    with pytest.raises(RuntimeError, match="device"):
        torch.rand(3, generator=torch.Generator(device="xpu"))
