"""Every (overload, dispatch key) for which the peer has a kernel has one here, or a call that shows the composite right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.compare import assert_near

import xpu_ops
from tools.codegen import peer
from tools.codegen.torch_ops import Torch
from xpu_ops.coverage import dispatcher

aten = torch.ops.aten
X = torch.tensor([[1.0, -2.0, 0.0], [0.0, 3.0, 0.5]])

# Pairs without a kernel: torch puts them together from other operators.
COMPOSITES: dict[tuple[str, str], Callable[[torch.Tensor], Any]] = {
    ("_safe_softmax", "XPU"): lambda x: aten._safe_softmax(x.where(x != 0, -torch.inf), 1),
    ("linalg__powsum", "XPU"): lambda x: aten.linalg__powsum(x, 3, [1]),
    ("_foreach_powsum.Scalar", "XPU"): lambda x: aten._foreach_powsum([x, x[0]], 3),
}
# torch's tests of its own dispatcher
NO_OPERATORS = "_test_"


def pairs() -> list[tuple[str, str]]:
    known = set(dispatcher.overload_names())
    return [(name, key) for name, keys in dispatcher.peer_keys().items() if name in known for key in keys]


def test_no_pair_falls_back_or_is_missing() -> None:
    found = {pair: dispatcher.registration_for(*pair) for pair in pairs() if not pair[0].startswith(NO_OPERATORS)}
    assert len(found) > 1500
    assert {pair: r for pair, r in found.items() if r not in ("native", "composite")} == {}
    assert {pair for pair, r in found.items() if r == "composite"} <= set(COMPOSITES)


@pytest.mark.parametrize("pair", COMPOSITES, ids=str)
def test_composites(pair: tuple[str, str]) -> None:
    if pair not in pairs():
        pytest.skip(f"torch {torch.__version__} does not declare {pair[0]} for the peer")
    call = COMPOSITES[pair]
    with xpu_ops.fallback.forbid():
        got = call(X.to("xpu"))
    assert_near(got, call(X))


def test_norms_of_sparse_tensors() -> None:
    """Of all elements, equal indices summed, as the CPU of torch 2.15 has them."""
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([3.0, 4.0, 5.0]), (2, 3))
    with xpu_ops.fallback.forbid():
        for order in (2, 1, 0, 3, -1, torch.inf):
            got = torch.linalg.vector_norm(s.to("xpu"), order)
            assert_near(got, torch.linalg.vector_norm(torch.tensor([3.0, 9.0]), order))
        for words, wrong in (("full reductions", {"dim": 0}), ("keepdim=True", {"keepdim": True})):
            with pytest.raises(RuntimeError, match=words):
                torch.linalg.vector_norm(s.to("xpu"), **wrong)


def test_keys_are_read_from_declarations() -> None:
    """torch 2.13 declares few for XPU, so that the data file serves; of a structured operator its delegate declares them."""
    installed = Torch()
    declared = peer.declared(installed)
    assert declared["addmm.out"] == declared["addmm"]
    assert {"XPU"} <= set(declared["addmm_"]) <= set(declared["addmm"])  # torch 2.15 has addmm_ not of compressed ones
    assert set(peer.keys(installed)) == set(dispatcher.peer_keys())
    if installed.series == peer.WITHOUT_KEYS:
        assert peer.keys(installed) == peer.listed()
        assert len(declared) < 100 < len(peer.listed())
    assert {key for keys in dispatcher.peer_keys().values() for key in keys} == set(peer.KEYS)


def test_registrations_by_key() -> None:
    assert dispatcher.registration_for("mm", "XPU") == "native"
    assert dispatcher.registration_for("mm", "SparseXPU") == "native"
    assert dispatcher.registration_for("relu", "NestedTensorXPU") == "native"
    assert dispatcher.registration_for("linalg_vector_norm", "SparseXPU") == "native"
    assert dispatcher.registration_for("slow_conv_dilated2d", "XPU") == "fallback"
    assert dispatcher.registration_for("_fft_c2c", "NestedTensorXPU") == "missing"
