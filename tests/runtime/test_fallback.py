"""The CPU fallback: results, in-place and out arguments, counting, and the switches."""

from __future__ import annotations

import threading

import pytest
import torch
from support import script

import xpu_ops

# An operator of our own, with a CPU kernel only, falls back whatever kernels the device gains.
LIB = torch.library.Library("xpu_ops_test", "DEF")
LIB.define("twice(Tensor x) -> Tensor")
LIB.define("twice_(Tensor(a!) x) -> Tensor(a!)")
LIB.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
LIB.define("grow_(Tensor(a!) x, int n) -> Tensor(a!)")
LIB.define("parts(Tensor x) -> (Tensor, int, Tensor[])")
LIB.define("total(Tensor[] xs) -> Tensor")
LIB.define("total_opt(Tensor?[] xs) -> Tensor")
LIB.define("bump_(Tensor(a!)[] xs) -> ()")
LIB.define("noise(Tensor x, *, Generator? generator=None) -> Tensor")
LIB.define("window(Tensor(a) x) -> Tensor(a)")


def impl(name):
    return lambda f: LIB.impl(name, f, "CPU") or f


@impl("twice")
def _twice(x):
    return x * 2


@impl("twice_")
def _twice_inplace(x):
    return x.mul_(2)


@impl("twice.out")
def _twice_out(x, *, out):
    out.resize_(x.shape)
    return torch.mul(x, 2, out=out)


@impl("grow_")
def _grow(x, n):
    return x.resize_(n).fill_(1)


@impl("parts")
def _parts(x):
    return x + 1, x.numel(), [x + 2, x + 3]


@impl("total")
def _total(xs):
    return sum(x.sum() for x in xs)


@impl("total_opt")
def _total_opt(xs):
    return sum(x.sum() for x in xs if x is not None)


@impl("bump_")
def _bump(xs):
    for x in xs:
        x.add_(1)


@impl("noise")
def _noise(x, *, generator=None):
    return torch.randn(x.shape, generator=generator)


@impl("window")
def _window(x):
    return x[:1]


ops = torch.ops.xpu_ops_test


@pytest.fixture(autouse=True)
def reset():
    xpu_ops.fallback.reset()


def x34() -> torch.Tensor:
    return torch.arange(12.0).view(3, 4)


def test_functional():
    r = ops.twice(x34().to("xpu"))
    assert r.device == torch.device("xpu", 0)
    assert r.cpu().equal(x34() * 2)
    assert xpu_ops.fallback.counts() == {"xpu_ops_test::twice": 1}


@pytest.mark.parametrize(
    "view", [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:], lambda t: t[:, :1].expand(3, 5), lambda t: t[:0]]
)
def test_strided_arguments_and_results(view):
    got = ops.twice(view(x34().to("xpu")))
    want = _twice(view(x34()))
    assert got.cpu().equal(want)
    assert got.stride() == want.stride()


def test_inplace_writes_through_views():
    base = x34().to("xpu")
    version = base._version
    r = ops.twice_(base[:, ::2])
    want = x34()
    want[:, ::2] *= 2
    assert base.cpu().equal(want)
    assert r.data_ptr() == base.data_ptr()
    assert base._version >= version


def test_out_argument():
    out = torch.empty(3, 4, device="xpu")
    r = ops.twice(x34().to("xpu"), out=out)
    assert r is out
    assert out.cpu().equal(x34() * 2)
    small = torch.empty(0, device="xpu")
    ops.twice(x34().to("xpu"), out=small)
    assert small.shape == (3, 4)
    assert small.cpu().equal(x34() * 2)


def test_argument_that_the_operator_resizes():
    x = torch.zeros(2, device="xpu")
    ops.grow_(x, 1000)
    assert x.shape == (1000,)
    assert x.cpu().equal(torch.ones(1000))
    ops.grow_(x, 3)
    assert x.cpu().equal(torch.ones(3))


def test_mixed_results():
    a, n, rest = ops.parts(x34().to("xpu"))
    assert n == 12
    assert a.cpu().equal(x34() + 1)
    assert [t.device.type for t in rest] == ["xpu", "xpu"]
    assert rest[1].cpu().equal(x34() + 3)


def test_lists():
    xs = [torch.ones(3, device="xpu"), torch.full((2,), 2.0, device="xpu")]
    assert ops.total(xs).item() == 7
    assert ops.total_opt([xs[0], None, xs[1]]).item() == 7
    ops.bump_(xs)
    assert [t.cpu().tolist() for t in xs] == [[2, 2, 2], [3, 3]]


def test_same_tensor_twice():
    x = torch.ones(3, device="xpu")
    ops.bump_([x, x])
    assert x.cpu().tolist() == [3, 3, 3]


def test_conj_and_neg_bits():
    z = torch.complex(x34(), x34() + 1)
    zx = z.to("xpu")
    assert ops.twice(zx.conj()).cpu().resolve_conj().equal((z.conj() * 2).resolve_conj())
    assert ops.twice(zx.conj().imag).cpu().equal(z.conj().imag * 2)


def test_random_numbers_follow_the_device_generator():
    x = torch.empty(100, device="xpu")
    torch.xpu.manual_seed(1)
    a, b = ops.noise(x).cpu(), ops.noise(x).cpu()
    torch.xpu.manual_seed(1)
    assert ops.noise(x).cpu().equal(a)
    assert not a.equal(b)
    g = torch.Generator(device="xpu").manual_seed(2)
    c = ops.noise(x, generator=g).cpu()
    assert ops.noise(x, generator=g.manual_seed(2)).cpu().equal(c)


def test_views_do_not_fall_back():
    with pytest.raises(RuntimeError, match="is a view and cannot fall back"):
        ops.window(torch.ones(3, device="xpu"))


def test_mixed_devices():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        ops.total([torch.ones(3, device="xpu"), torch.ones(3)])


def test_work_before_and_after_is_ordered():
    x = torch.zeros(1 << 20, device="xpu")
    for _ in range(5):
        x.copy_(torch.full((1 << 20,), 3.0, device="xpu"))
        y = ops.twice(x)
        x.zero_()
        assert bool((y.cpu() == 6).all())


def test_forbid():
    x = torch.ones(2, device="xpu")
    with xpu_ops.fallback.forbid():
        with pytest.raises(NotImplementedError, match="xpu_ops_test::twice' has no kernel for the XPU device"):
            ops.twice(x)
        with xpu_ops.fallback.forbid(), pytest.raises(NotImplementedError):
            ops.twice(x)
        seen = []

        def other_thread():
            try:
                ops.twice(x)
            except NotImplementedError as e:
                seen.append(e)

        t = threading.Thread(target=other_thread)
        t.start()
        t.join()
        assert len(seen) == 1
    assert ops.twice(x).cpu().tolist() == [2, 2]
    assert xpu_ops.fallback.counts() == {"xpu_ops_test::twice": 1}


def test_counts_reset_and_order():
    x = torch.ones(2, device="xpu")
    ops.twice(x)
    for _ in range(3):
        ops.parts(x)
    assert list(xpu_ops.fallback.counts().items()) == [("xpu_ops_test::parts", 3), ("xpu_ops_test::twice", 1)]
    xpu_ops.fallback.reset()
    assert xpu_ops.fallback.counts() == {}


def test_forbid_ends_with_an_error_and_decorates():
    x = torch.ones(2, device="xpu")
    with pytest.raises(KeyError), xpu_ops.fallback.forbid():
        raise KeyError
    ops.twice(x)

    @xpu_ops.fallback.forbid()
    def strict():
        return ops.twice(x)

    for _ in range(2):
        with pytest.raises(NotImplementedError):
            strict()
    ops.twice(x)
    assert xpu_ops.fallback.counts() == {"xpu_ops_test::twice": 2}


def test_counts_are_a_copy():
    ops.twice(torch.ones(2, device="xpu"))
    xpu_ops.fallback.counts().clear()
    assert xpu_ops.fallback.counts() == {"xpu_ops_test::twice": 1}


PRELUDE = """
    import warnings, torch, xpu_ops
    warnings.simplefilter("always")
    lib = torch.library.Library("xpu_ops_test", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    x = torch.ones(3, device="xpu")
"""


def test_switch_off():
    done = script.run(PRELUDE + "    torch.ops.xpu_ops_test.twice(x)", PYTORCH_ENABLE_XPU_FALLBACK="0")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("NotImplementedError: The operator 'xpu_ops_test::twice' has no kernel for the XPU device")
    assert "PYTORCH_ENABLE_XPU_FALLBACK=0" in last


def test_debug_names_every_call():
    code = PRELUDE + "    for _ in range(3): torch.ops.xpu_ops_test.twice(x)"
    text = "'xpu_ops_test::twice' on the XPU backend is falling back to run on the CPU"
    assert script.run(code, PYTORCH_DEBUG_XPU_FALLBACK="1").stderr.count(text) == 3
    quiet = script.run(code, PYTORCH_DEBUG_XPU_FALLBACK="")
    assert text not in quiet.stderr
    assert quiet.stderr.count("has no kernel for the XPU device and runs on the CPU") == 1


def test_forced_operators():
    code = (
        PRELUDE
        + """
    torch.neg(x)
    print(xpu_ops.fallback.counts().get("aten::set_.source_Tensor", 0), xpu_ops.fallback.counts().get("aten::is_set_to", 0))
    x.is_set_to(x)
    print(xpu_ops.fallback.counts().get("aten::is_set_to", 0))
    """
    )
    assert script.out(code, PYTORCH_XPU_FALLBACK_OP="is_set_to").splitlines() == ["0 0", "1"]


def test_results_of_other_layouts_are_refused():
    """An MKL-DNN tensor has no strided image on the device."""
    x = torch.rand(3, 4, device="xpu")
    with pytest.raises(NotImplementedError, match="gave a .* on the CPU, which the XPU device does not have"):
        x.to_mkldnn()


OLD_NAMES = {"fallback_counts": "counts", "forbid_fallback": "forbid", "reset_fallback_counts": "reset"}


@pytest.mark.parametrize("old", [pytest.param(n, marks=pytest.mark.slow if i else ()) for i, n in enumerate(OLD_NAMES)])
@pytest.mark.parametrize(
    "use", ["xpu_ops.{}", "importlib.import_module('xpu_ops').{}", "exec('from xpu_ops import {}')"]
)
def test_old_names_warn_once(old, use):
    """At the user's line, with the new name; the function is the new one."""
    use = use.format(old)
    code = f"""
        import importlib, warnings, torch, xpu_ops
        assert "{old}" not in dir(xpu_ops) and "{old}" not in xpu_ops.__all__
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                {use}
        print([(w.category.__name__, w.filename, str(w.message).split("; ")[0]) for w in caught])
        print(xpu_ops.{old} is xpu_ops.fallback.{OLD_NAMES[old]})
    """
    message = f"xpu_ops.{old} is now xpu_ops.fallback.{OLD_NAMES[old]}"
    warned, same = script.out(code).splitlines()
    assert warned == str([("DeprecationWarning", "<string>", message)])
    assert same == "True"


def test_old_names_still_work():
    code = (
        PRELUDE
        + """
    xpu_ops.reset_fallback_counts()
    torch.ops.xpu_ops_test.twice(x)
    print(xpu_ops.fallback_counts())
    try:
        with xpu_ops.forbid_fallback():
            torch.ops.xpu_ops_test.twice(x)
    except NotImplementedError:
        print("refused")
    from xpu_ops import *
    print("fallback_counts" in globals(), fallback.counts())
    """
    )
    done = script.run(code)
    assert done.stdout.splitlines() == ["{'xpu_ops_test::twice': 1}", "refused", "False {'xpu_ops_test::twice': 1}"]
    assert done.stderr.count("DeprecationWarning: xpu_ops.") == 3


COMPILED = """
    import torch, xpu_ops
    x = torch.ones(3, device="xpu")

    @torch.compile(backend="eager")
    def f(x):
        with xpu_ops.{forbid}():
            return x + 1

    print([f(x).tolist() for _ in range(2)])
"""


@pytest.mark.slow
def test_new_names_do_not_warn_in_a_compiled_function():
    """A warning of ours that is an error would end the program: the listing, a first use and Dynamo's look-ups give none."""
    code = """
    import warnings
    warnings.filterwarnings("error", message="xpu_ops")
    """
    use = """
    import inspect
    inspect.getmembers(xpu_ops), hasattr(xpu_ops, "__warningregistry__"), xpu_ops.fallback.reset()
    """
    assert script.out(code + COMPILED.format(forbid="fallback.forbid") + use) == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]"
    old = script.run(code + COMPILED.format(forbid="forbid_fallback"))
    assert "xpu_ops.forbid_fallback is now xpu_ops.fallback.forbid" in old.stderr
    lenient = script.out(COMPILED.format(forbid="forbid_fallback"), PYTHONWARNINGS="ignore")
    assert lenient == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]"


def test_import_does_not_load_the_module():
    code = "import sys, torch, xpu_ops; print('xpu_ops.fallback' in sys.modules, 'fallback' in dir(xpu_ops))"
    assert script.out(code) == "False True"


def test_the_first_warning_names_the_list():
    done = script.run(PRELUDE + "    torch.ops.xpu_ops_test.twice(x)")
    assert "xpu_ops.fallback.counts() lists them" in done.stderr
