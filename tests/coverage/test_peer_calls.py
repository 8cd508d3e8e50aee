"""Every (overload, dispatch key) for which the peer has a kernel, called with valid arguments, against the CPU."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support import pair_calls
from support.compare import assert_same, clone, to_device
from support.manifest import overload
from support.recipe import find
from support.sparse import parts
from torch.utils._pytree import tree_leaves, tree_map

import xpu_ops
from xpu_ops.coverage import dispatcher

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
EVERY = 1 if FULL else 5
KNOWN = set(dispatcher.overload_names())
PAIRS = [(n, k) for n, keys in dispatcher.peer_keys().items() if n in KNOWN for k in keys if not n.startswith("_test_")]
# Raise on the CPU whatever they get: no call is valid.
REFUSED = {
    ("_to_sparse.sparse_dim", "SparseXPU"),
    ("norm.ScalarOpt_dim_dtype", "SparseXPU"),
    ("squeeze", "NestedTensorXPU"),
}
# Give tensors of the host: sizes of nested tensors, the state of dropout.
OF_THE_HOST = re.compile("_nested_tensor_(size|strides|storage_offsets)|_scaled_dot_product_")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def moved(args: dict[str, Any], name: str) -> dict[str, Any]:
    how = find(name)
    host = how.host if how is not None else ("cpu_nested_shape_example", "nested_size", "nested_strides", "offsets")

    def move(x: Any) -> Any:
        return x.to("xpu") if isinstance(x, torch.Tensor) and x.is_nested else to_device(x)

    return {k: v if k in host else tree_map(move, v) for k, v in args.items()}


def made(args: dict[str, Any], name: str, device: str) -> dict[str, Any]:
    """With the arguments that are no tensors but of a device."""
    if name.startswith("set_.source_Storage"):
        return args | {"source": args["source"].untyped_storage()}
    if any(a.name == "device" for a in overload(name)._schema.arguments):
        return args | {"device": device}
    if name == "record_stream":
        return args | ({"s": torch.xpu.current_stream()} if device == "xpu" else {})
    return args


def plain(result: Any) -> Any:
    """The dense tensors that a result consists of."""
    return tree_map(lambda x: list(x.unbind()) if isinstance(x, torch.Tensor) and x.is_nested else parts(x), result)


def form(result: Any) -> Any:
    return tree_map(lambda x: (x.dtype, x.shape) if isinstance(x, torch.Tensor) else type(x), plain(result))


def copied(args: dict[str, Any]) -> dict[str, Any]:
    return tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) and x.is_nested else clone(x), args)


def host(args: dict[str, Any], op: Any) -> dict[str, Any]:
    """A copy whose outs are dense: into others torch's CPU writes some results in wrong places, and to some it adds."""
    outs = [a.name for a in op._schema.arguments if a.is_out]
    own = copied(args)
    dense = {o: own[o] for o in outs if isinstance(own.get(o), torch.Tensor) and own[o].layout == torch.strided}
    return own | {o: torch.zeros(x.shape, dtype=x.dtype) for o, x in dense.items() if not x.is_nested}


@pytest.mark.parametrize(("name", "key"), PAIRS[::EVERY], ids=lambda x: x)
def test_pair(name: str, key: str) -> None:
    op, how = overload(name), find(name)
    on_cpu = pair_calls.INSTEAD.get(name) if (name, key) in pair_calls.WRITTEN else getattr(how, "oracle", None)
    for args in pair_calls.calls(name, key):
        try:
            torch.manual_seed(0)
            want = (on_cpu or op)(**made(host(args, op), name, "cpu"))
        except Exception as error:  # not valid
            if (name, key) in REFUSED:
                with pytest.raises(type(error)):
                    op(**made(moved(copied(args), name), name, "xpu"))
                return
            continue
        with xpu_ops.fallback.forbid():
            got = op(**made(moved(copied(args), name), name, "xpu"))
            torch.xpu.synchronize()
        results = [x for x in tree_leaves(got) if isinstance(x, torch.Tensor)]
        assert OF_THE_HOST.match(name) or all(x.device.type == "xpu" for x in results)
        if pair_calls.is_drawn(name):
            assert form(got) == form(want)
        else:
            view = getattr(how, "view", lambda x: x)
            assert_same(plain(view(got)), plain(view(want)), tol=(1e-3, 1e-3), accumulates=True)
        assert (name, key) not in REFUSED
        return
    pytest.fail("no valid call: tests/support/pair_calls.py needs one")
