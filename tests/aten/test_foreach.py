"""Multi-tensor operators, gradient scaling and fused optimizers, against CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.compare import assert_same, reference

SHAPES = [(3,), (0,), (), (5, 7), (4097,), (2, 3, 4), (1,), (100, 130)]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"]


def tensors(dtype: torch.dtype, seed: int = 0, count: int = len(SHAPES)) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    shapes = [SHAPES[i % len(SHAPES)] for i in range(count)]
    if dtype.is_floating_point or dtype.is_complex:
        return [(torch.rand(s, generator=g, dtype=torch.float64) * 0.8 + 0.1).to(dtype) for s in shapes]
    return [torch.randint(1, 10, s, generator=g).to(dtype) for s in shapes]


def to_xpu(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        # as_strided so that the layout of views survives
        return (
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="xpu").copy_(x) if x.dim() else x.to("xpu")
        )
    return [to_xpu(t) for t in x] if isinstance(x, list) else x


def compare(got: Any, want: Any, wide: Callable[[], Any] | None = None) -> None:
    """`wide` gives the reference in double, for where the CPU's rounding depends on the machine."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.device.type == "xpu" and a.stride() == b.stride()
    assert_same(list(got), list(want), reference=wide, accumulates=True)


def agree(f: Callable[..., Any], *args: Any) -> None:
    """f(*args) is the same on both devices."""
    compare(f(*(to_xpu(a) for a in args)), f(*args), lambda: reference(f, *args))


def check(name: str, lists: list[Any], *scalars: Any, inplace: bool = True) -> None:
    """The functional operator and the in-place one, on XPU and CPU copies."""
    host, device = copy.deepcopy(lists), to_xpu(copy.deepcopy(lists))
    f, g = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_", None)
    try:
        want = f(*host, *scalars)
    except (RuntimeError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            f(*device, *scalars)
        return
    compare(f(*device, *scalars), want, lambda: reference(f, *lists, *scalars))
    for a, b in zip(device[0], host[0], strict=True):
        assert torch.equal(a.cpu(), b)
    if not inplace or g is None or any(w.dtype != t.dtype for w, t in zip(want, lists[0], strict=True)):
        return
    addresses = [t.data_ptr() for t in device[0]]
    g(*host, *scalars)
    g(*device, *scalars)
    compare(device[0], host[0], lambda: reference(f, *lists, *scalars))
    assert addresses == [t.data_ptr() for t in device[0]]


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: torch.dtype) -> None:
    if name == "abs" and dtype is torch.bool:  # as CUDA does; the CPU raises
        values = tensors(dtype)
        for a, b in zip(torch._foreach_abs([v.to("xpu") for v in values]), values, strict=True):
            assert torch.equal(a.cpu(), b)
        return
    check(name, [tensors(dtype)])


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, torch.int32, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    a, b = tensors(dtype), tensors(dtype, 1)
    check(name, [a, b])
    check(name, [a], 2)
    check(name, [a], 1.5)
    check(name, [a], [float(i + 1) for i in range(len(a))])
    check(name, [a], list(range(1, len(a) + 1)))
    if name in ("add", "sub"):
        f = getattr(torch, f"_foreach_{name}")
        if dtype not in (torch.bool, torch.uint8):
            agree(lambda a, b: f(a, b, alpha=3), a, b)
    if name in ("add", "mul", "div") and dtype is not torch.bool:
        value = torch.tensor(3, dtype=dtype)
        f = getattr(torch, f"_foreach_{name}")
        agree(f, a, value)
    if name == "pow" and (dtype.is_floating_point or dtype.is_complex):
        agree(torch._foreach_pow, 2.0, a)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, torch.int64], ids=str)
def test_ternary(dtype: torch.dtype) -> None:
    a, b, c = (tensors(dtype, k) for k in range(3))
    n = len(a)
    for name in ("addcmul", "addcdiv"):
        check(name, [a, b, c])
        check(name, [a, b, c], 2)
        check(name, [a, b, c], [i + 1 for i in range(n)])
        check(name, [a, b, c], torch.arange(1, n + 1))
    check("lerp", [a, b], 0.25)
    check("lerp", [a, b, c])
    check("lerp", [a, b], [0.1 * i for i in range(n)])


def test_many_tensors_and_large_ones() -> None:
    a = [torch.full((i % 50 + 1,), float(i)) for i in range(500)] + [torch.ones(300_000)]
    check("add", [a], 1.0)
    check("mul", [a, a])
    check("addcdiv", [a, a, [t + 1 for t in a]], [0.5 * i for i in range(len(a))])
    check("norm", [a], inplace=False)


def test_slow_path() -> None:
    a = [torch.rand(3, 4), torch.rand(3, 4, dtype=torch.float64)]
    check("add", [a, [torch.rand(3, 4), torch.rand(3, 4)]])
    check("mul", [[torch.rand(4, 6)[:, ::2]], [torch.rand(4, 3)]], inplace=False)
    check("add", [[torch.rand(3, 4)], [torch.rand(4, 3).t()]], inplace=False)
    check("add", [[torch.rand(3, 4)], [torch.rand(4)]])
    check("add", [[torch.randint(9, (3,))]], 1.5, inplace=False)
    check("exp", [[torch.rand(4, 4).t(), torch.rand(2, 2, 3, 3).contiguous(memory_format=torch.channels_last)]])
    check("neg", [[torch.view_as_real(torch.rand(3, dtype=torch.complex64)).select(-1, 0)]], inplace=False)


def test_errors() -> None:
    a = [torch.ones(2, device="xpu"), torch.ones(3, device="xpu")]
    for f in (
        lambda t: torch._foreach_add(t, t[:1]),
        lambda t: torch._foreach_add([], 1),
        lambda t: torch._foreach_add(t, [1.0]),
        lambda t: torch._foreach_addcmul(t, t, t[:1]),
        lambda t: torch._foreach_norm([]),
        lambda t: torch._foreach_max([]),
    ):
        with pytest.raises(Exception) as want:
            f([x.cpu() for x in a])
        with pytest.raises(type(want.value)) as got:
            f(a)
        assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


def test_a_bool_is_not_subtracted() -> None:
    """As at::sub, and whether the small operand is computed at once or launched."""
    x = torch.ones(3, device="xpu")
    torch.xpu.synchronize()
    for call in (
        lambda: x - True,
        lambda: x - torch.tensor(True),
        lambda: torch.rsub(x, True),
        lambda: torch._foreach_sub([x], True),
        lambda: torch._foreach_sub([x], [True]),
        lambda: torch._foreach_sub_([x], True),
    ):
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
            call()
    assert (x * True).tolist() == [1.0] * 3 and torch._foreach_mul([x], True)[0].tolist() == [1.0] * 3


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum"])
def test_numbers_that_integers_do_not_hold(name: str, dtype: torch.dtype, number: int) -> None:
    """Sums and products wrap them, maxima refuse them, as the operators of one tensor do."""
    a = torch.tensor([-3, 0, 7], dtype=dtype)

    def outcome(call: Any) -> Any:
        try:
            return call()
        except RuntimeError as e:
            return str(e)

    for f in (getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")):
        for scalar in (number, [number]):
            want, got = [a.clone()], [a.to("xpu")]
            returned = [outcome(lambda t=t: f(t, scalar)) for t in (want, got)]
            if isinstance(returned[0], str):
                assert returned[1] == returned[0]
            elif returned[0] is not None:
                assert torch.equal(returned[1][0].cpu(), returned[0][0])
            assert torch.equal(got[0].cpu(), want[0])


@pytest.mark.parametrize("alpha", [2.5, float("inf"), True])
@pytest.mark.parametrize("f", [torch.add, torch.sub, torch.rsub], ids=lambda f: f.__name__)
def test_alpha_has_a_type_that_integers_take(f: Any, alpha: Any) -> None:
    for n in (0, 3, 5000):
        a = torch.zeros(n, dtype=torch.int8)
        with pytest.raises(RuntimeError) as want:
            f(a, a, alpha=alpha)
        with pytest.raises(RuntimeError) as got:
            f(a.to("xpu"), a.to("xpu"), alpha=alpha)
        assert str(got.value) == str(want.value)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
@pytest.mark.parametrize("order", [0, 1, 2, 3, float("inf"), -float("inf")])
def test_norm(order: float, dtype: torch.dtype) -> None:
    a = [t for t in tensors(dtype, count=20) if t.numel()]
    agree(torch._foreach_norm, a, order)
    if dtype in (torch.bfloat16, torch.float16):
        agree(lambda a: torch._foreach_norm(a, order, torch.float32), a)
    if not dtype.is_complex and order in (1, 2, float("inf")):
        a[0][1] = float("nan")
        agree(torch._foreach_norm, a, order)
        agree(torch._foreach_norm, [a[1][:0]], 2) if a[1].dim() else None


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8, torch.uint8, torch.int64, torch.bool], ids=str)
def test_max(dtype: torch.dtype) -> None:
    a = [t for t in tensors(dtype, count=20) if t.numel()]
    if dtype is torch.int8:
        a = [-t for t in a]
    agree(torch._foreach_max, a)
    if dtype.is_floating_point:
        a[3][1] = float("nan")
        a[1] = torch.tensor([-float("inf")] * 5, dtype=dtype)
        agree(torch._foreach_max, a)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool, torch.complex64], ids=str)
def test_clone(dtype: torch.dtype) -> None:
    a = tensors(dtype)
    given = to_xpu(a)
    with torch.profiler.profile() as profile:
        out = torch.ops.aten._foreach_clone(given)
    compare(out, a)
    assert all(x.data_ptr() != y.data_ptr() for x, y in zip(given, out, strict=True) if x.numel())
    assert sum(e.name.startswith("foreach_copy") for e in profile.events()) == 1
    turned = [t.flip(0).unsqueeze(-1).expand(*t.shape, 3) if t.dim() else t for t in given]
    for form in (None, torch.contiguous_format):
        for x, y in zip(torch.ops.aten._foreach_clone(turned, memory_format=form), turned, strict=True):
            want = y.clone() if form is None else y.clone(memory_format=form)
            assert torch.equal(x, want) and x.stride() == want.stride()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool, torch.complex64], ids=str)
def test_copy_and_zero(dtype: torch.dtype) -> None:
    a, b = to_xpu(tensors(dtype)), tensors(dtype, 1)
    torch._foreach_copy_(a, to_xpu(b))
    compare(a, b)
    torch._foreach_copy_(a, b)
    torch._foreach_copy_(a, [t.to(torch.float32) for t in to_xpu(b)] if not dtype.is_complex else to_xpu(b))
    compare(a, b)
    torch._foreach_zero_(a)
    compare(a, [torch.zeros_like(t) for t in b])


def test_amp_unscale() -> None:
    for bad in (None, float("inf"), float("nan"), -float("inf")):
        for dtype in FLOATS:
            a = [torch.ones(5000), torch.ones(3, 4).t(), torch.ones(8, 8)[:, ::2], torch.ones(0)]
            a = [t.to(dtype) for t in a]
            if bad is not None:
                a[2][3, 1] = bad
            device = [t.to("xpu") for t in a]
            found, inv = torch.zeros(1, device="xpu"), torch.full((1,), 0.25, device="xpu")
            torch._amp_foreach_non_finite_check_and_unscale_(device, found, inv)
            assert found.item() == (0.0 if bad is None else 1.0)
            for x, y in zip(device, a, strict=True):
                torch.testing.assert_close(x.cpu(), y * 0.25, equal_nan=True)


def test_amp_update_scale() -> None:
    for found, tracker in ((1.0, 5), (0.0, 5), (0.0, 1), (0.0, 0)):
        states = []
        for device in ("cpu", "xpu"):
            scale = torch.tensor([1024.0], device=device)
            growth = torch.tensor([tracker], dtype=torch.int32, device=device)
            torch._amp_update_scale_(scale, growth, torch.tensor([found], device=device), 2.0, 0.5, 6)
            states.append((scale.item(), growth.item()))
        assert states[0] == states[1]


def test_grad_scaler() -> None:
    model = torch.nn.Linear(4, 3).to("xpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("xpu", init_scale=1024.0, growth_interval=2)
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(2, 4, device="xpu")).sum()).backward()
        if step == 2:
            model.weight.grad[0, 0] = float("inf")
        before = model.weight.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, model.weight) == (step == 2)
    assert scaler.get_scale() == 1024.0


OPTIMIZERS: list[tuple[type, dict[str, Any]]] = [
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    (torch.optim.AdamW, {"weight_decay": 0.1}),
    (torch.optim.AdamW, {"amsgrad": True, "betas": (0.5, 0.6)}),
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    (torch.optim.Adagrad, {"weight_decay": 0.1, "lr_decay": 0.01}),
    (torch.optim.Adagrad, {"maximize": True, "initial_accumulator_value": 0.1}),
]


def train(
    optimizer: Callable[..., Any], options: dict[str, Any], device: str, dtype: torch.dtype
) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    params = [torch.randn(s, generator=g, dtype=torch.float64).to(device, dtype).requires_grad_() for s in SHAPES]
    params[3] = params[3].detach().t().requires_grad_()
    o = optimizer(params, **options)
    for _ in range(5):
        for p in params:
            p.grad = torch.randn(p.shape, generator=g, dtype=torch.float64).to(device, dtype)
        o.step()
    return [p.detach().cpu() for p in params]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("optimizer", "options"), OPTIMIZERS, ids=lambda x: x.__name__ if isinstance(x, type) else "-".join(x)
)
def test_fused_optimizers(optimizer: type, options: dict[str, Any], dtype: torch.dtype) -> None:
    for lr in (0.01, torch.tensor(0.01)):
        if isinstance(lr, torch.Tensor) and optimizer is torch.optim.Adagrad:
            continue
        want = train(optimizer, {**options, "lr": 0.01, "foreach": False}, "cpu", dtype)
        got = train(optimizer, {**options, "lr": lr, "fused": True}, "xpu", dtype)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-5 if dtype is torch.float32 else 1e-9, atol=1e-6)
        if not isinstance(lr, torch.Tensor):
            got = train(optimizer, {**options, "lr": lr, "foreach": True}, "xpu", dtype)
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b, rtol=2e-5 if dtype is torch.float32 else 1e-9, atol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adagrad"])
def test_fused_scale_and_found_inf(name: str) -> None:
    def step(device: str, scale: float | None, found: float | None) -> list[torch.Tensor]:
        p, g, m, v = (torch.full((5,), x, device=device) for x in (1.0, 8.0, 0.1, 0.2))
        step = torch.tensor(3.0, device=device)
        extra = {
            "grad_scale": None if scale is None else torch.tensor(scale, device=device),
            "found_inf": None if found is None else torch.tensor(found, device=device),
        }
        if name.startswith("adam"):
            options = {
                "lr": 0.1,
                "beta1": 0.9,
                "beta2": 0.99,
                "weight_decay": 0.1,
                "eps": 1e-8,
                "amsgrad": False,
                "maximize": False,
            }
            getattr(torch, f"_fused_{name}_")([p], [g], [m], [v], [], [step], **options, **extra)
        elif name == "sgd":
            options = {
                "weight_decay": 0.1,
                "momentum": 0.9,
                "lr": 0.1,
                "dampening": 0.0,
                "nesterov": False,
                "maximize": False,
            }
            torch._fused_sgd_([p], [g], [m], **options, is_first_step=False, **extra)
        else:
            options = {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}
            torch._fused_adagrad_([p], [g], [v], [step], **options, **extra)
        return [t.cpu() for t in (p, g, m, v)]

    for scale, found in ((None, None), (4.0, None), (4.0, 0.0), (None, 1.0), (4.0, 1.0)):
        for a, b in zip(step("xpu", scale, found), step("cpu", scale, found), strict=True):
            torch.testing.assert_close(a, b)


IN_PLACE = {
    "add": lambda x, y: torch._foreach_add_(x, 1),
    "mul": lambda x, y: torch._foreach_mul_(x, y),
    "neg": lambda x, y: torch._foreach_neg_(x),
    "lerp": lambda x, y: torch._foreach_lerp_(x, y, 0.5),
    "addcmul": lambda x, y: torch._foreach_addcmul_(x, y, y),
    "copy": lambda x, y: torch._foreach_copy_(x, y),
    "zero": lambda x, y: torch._foreach_zero_(x),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_write_in_place_is_counted(name: str) -> None:
    x = torch.ones(3, device="xpu", requires_grad=True)
    saved, empty = x * 2, torch.empty(0, device="xpu")
    square = (saved * saved).sum()
    IN_PLACE[name]([saved.detach(), empty], [torch.ones(3, device="xpu"), torch.ones(0, device="xpu")])
    assert (saved._version, empty._version) == (1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()
