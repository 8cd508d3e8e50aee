"""Comparing what xpu gives with what the CPU gives.

What torch's CPU gives in 16 bit, and in the last digits of float, depends on the machine's instruction set. A value that
is not within tolerance of the CPU's is therefore held against a reference: the same call on the CPU in double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

# rtol, atol; a row or an OpInfo override widens them where it says why
TOLERANCES = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (1.3e-5, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (2e-3, 1e-3),
    torch.complex64: (1.3e-5, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
REAL = (torch.float16, torch.bfloat16, torch.float32)
COMPLEX = (torch.complex32, torch.complex64)


def to_device(x: Any, device: str = "xpu") -> Any:
    """Moves every tensor of a nest; strides, offsets and overlap of views are kept.

    A view is rebuilt over a copy of its storage, so that a non-contiguous input stays one on the other device.
    """

    def move(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        if t.device.type == device:
            return t
        if t.layout != torch.strided or t.is_conj() or t.is_neg():
            return t.detach().to(device).requires_grad_(t.requires_grad)
        base = torch.empty(0, dtype=t.dtype, device=t.device)
        base.set_(t.detach().untyped_storage())
        moved = base.to(device).as_strided(t.size(), t.stride(), t.storage_offset())
        return moved.requires_grad_(t.requires_grad)

    return tree_map(move, x)


def clone(x: Any) -> Any:
    """A copy of every tensor of a nest with its strides."""

    def copy(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        if t.layout != torch.strided or t.is_conj() or t.is_neg():
            return t.detach().clone().requires_grad_(t.requires_grad)
        base = torch.empty(0, dtype=t.dtype, device=t.device)
        base.set_(t.detach().untyped_storage())
        return base.clone().as_strided(t.size(), t.stride(), t.storage_offset()).requires_grad_(t.requires_grad)

    return tree_map(copy, x)


def widen(x: Any, real: torch.dtype = torch.float64) -> Any:
    """The nest with every narrower floating tensor and dtype in `real` or its complex counterpart; integers stay."""
    wide = {**dict.fromkeys(REAL, real), **dict.fromkeys(COMPLEX, real.to_complex())}

    def convert(t: Any) -> Any:
        if isinstance(t, torch.dtype):
            return wide.get(t, t)
        if isinstance(t, torch.Tensor):
            return t.detach().clone().to(wide.get(t.dtype, t.dtype)).requires_grad_(t.requires_grad)
        return t

    return tree_map(convert, x)


def reference(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `function` on the CPU in double, in float where it knows no double, None where it refuses both.

    Integers that promote to float promote to the wide type too.
    """
    usual = torch.get_default_dtype()
    for real in (torch.float64, torch.float32):
        try:
            torch.set_default_dtype(real)
            torch.manual_seed(0)
            return function(*widen(args, real), **widen(kwargs, real))
        except Exception:  # whatever the wide type cannot do: there is no reference then
            continue
        finally:
            torch.set_default_dtype(usual)
    return None


def near(a: torch.Tensor, r: torch.Tensor, dtype: torch.dtype, rtol: float, atol: float) -> torch.Tensor:
    """Elementwise: whether `a` is `r` rounded to `dtype`, infinity included where `r` is at or beyond its range."""
    if a.is_complex():
        parts = near(torch.view_as_real(a), torch.view_as_real(r), dtype.to_real(), rtol, atol).all(-1)
        return parts | torch.isclose(a, r, rtol=rtol, atol=atol, equal_nan=True)
    top = torch.finfo(dtype).max
    overflow = torch.isinf(a) & (r.abs() >= top * (1 - rtol)) & (a.sign() == r.sign())
    return torch.isclose(a, r, rtol=rtol, atol=atol, equal_nan=True) | overflow


def explained(
    a: torch.Tensor, e: torch.Tensor, r: torch.Tensor, rtol: float, atol: float, accumulates: bool
) -> torch.Tensor:
    """Elementwise: whether `a` is right by the CPU's result `e` or by the reference `r`.

    `accumulates`: the operator rounds more than once, so an error up to twice the CPU's largest and one last place passes.
    """
    dtype = e.dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a, e, r = a.to(wide), e.to(wide), r.to(wide)
    good = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True) | near(a, r, dtype, rtol, atol)
    if accumulates:
        finite = torch.isfinite(a) & torch.isfinite(e) & torch.isfinite(r)
        worst = torch.where(finite, (e - r).abs(), 0.0).max() if e.numel() else 0.0
        good |= finite & ((a - r).abs() <= 2 * worst + torch.finfo(dtype).eps * r.abs())
    return good


def assert_values(a: torch.Tensor, e: torch.Tensor, r: Any, tol: tuple[float, float] | None, accumulates: bool) -> None:
    rtol, atol = tol or TOLERANCES.get(e.dtype, (0.0, 0.0))
    if (e.dtype.itemsize == 1 and e.is_floating_point()) or e.dtype == torch.complex32:
        to = torch.complex64 if e.is_complex() else torch.float32
        plain_a, plain_e = a.to(to), e.to(to)
    else:
        plain_a, plain_e = a, e
    try:
        torch.testing.assert_close(plain_a, plain_e, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        r = r() if callable(r) else r
        if not isinstance(r, torch.Tensor) or r.shape != e.shape or a.layout != torch.strided:
            raise
        if e.is_floating_point() or e.is_complex():
            good = explained(a, e, r.detach(), rtol, atol, accumulates)
        elif r.dtype == e.dtype:
            # Whole numbers that hang on a rounding before them: an index, a count, a comparison.
            good = (a == e) | (a == r)
        else:
            raise
        if not good.all():
            at = [tuple(i.tolist()) for i in (~good).nonzero()[:5]]
            lines = "\n".join(f"{i}: {a[i].item()}, CPU {e[i].item()}, reference {r[i].item()}" for i in at)
            raise AssertionError(
                f"{int((~good).sum())} of {e.numel()} values wrong by CPU and reference\n{lines}"
            ) from None


def assert_same(
    actual: Any,
    expected: Any,
    *,
    tol: tuple[float, float] | None = None,
    strides: bool = False,
    reference: Callable[[], Any] | None = None,
    accumulates: bool = False,
) -> None:
    """Structure, dtype, shape, device and values; `strides` also compares layout.

    `reference` gives the same structure in a wider type (None if it cannot); it is called only where values differ, and a
    value passes that is right by either (see `explained` for `accumulates`).
    """
    flat_a, spec_a = tree_flatten(actual)
    flat_e, spec_e = tree_flatten(expected)
    assert len(flat_a) == len(flat_e), f"{spec_a} against {spec_e}"
    wide: list[Any] = []

    def reference_of(i: int) -> Any:
        if not wide and reference is not None:
            flat = tree_flatten(reference())[0]
            wide.extend(flat if len(flat) == len(flat_e) else [None] * len(flat_e))
        return wide[i] if wide else None

    for i, (a, e) in enumerate(zip(flat_a, flat_e, strict=True)):
        if not isinstance(e, torch.Tensor):
            if isinstance(e, float):
                torch.testing.assert_close(a, e, equal_nan=True, rtol=1e-5, atol=1e-5)
            else:
                assert type(a) is type(e) and (a == e or a != a), f"{a} against {e}"
            continue
        if e.device.type == "cpu" and isinstance(a, torch.Tensor) and a.device.type != "cpu":
            assert a.device.type == "xpu"
        assert a.dtype == e.dtype, f"dtype {a.dtype}, expected {e.dtype}"
        assert a.shape == e.shape, f"shape {tuple(a.shape)}, expected {tuple(e.shape)}"
        if strides and e.layout == torch.strided and e.numel() > 1:
            want = [s for s, n in zip(e.stride(), e.shape, strict=True) if n > 1]
            have = [s for s, n in zip(a.stride(), a.shape, strict=True) if n > 1]
            assert have == want, f"strides {a.stride()}, expected {e.stride()}"
        assert_values(a.detach().cpu(), e.detach(), lambda i=i: reference_of(i), tol, accumulates)


def assert_near(actual: Any, expected: Any, *, rtol: float = 1.3e-5, atol: float = 1e-5) -> None:
    """Shapes and values, against references on the CPU that may be of another precision."""
    flat_a, flat_e = tree_flatten(actual)[0], tree_flatten(expected)[0]
    for i, (a, e) in enumerate(zip(flat_a, flat_e, strict=True)):
        assert e.device.type == "cpu"
        wide = torch.complex128 if a.is_complex() or e.is_complex() else torch.float64
        torch.testing.assert_close(
            a.detach().cpu().to(wide), e.detach().to(wide), rtol=rtol, atol=atol, msg=lambda s, i=i: f"result {i}: {s}"
        )


def cpu_refuses(error: BaseException) -> bool:
    """Whether the CPU has no kernel for an element type, which says nothing of what xpu should do with it.

    Its bf16 gelu_backward goes to oneDNN, which fails to make a primitive where operands broadcast. Its fused bf16
    products refuse processors without AVX-512.
    """
    texts = ("not implemented for", "could not create a primitive", "bf16 path needs the cpu support")
    return isinstance(error, RuntimeError) and any(t in str(error) for t in texts)


def narrowed(wide: Any, dtype: torch.dtype) -> Any:
    """A reference as the result expected of a type that the CPU lacks: its floating tensors in `dtype`."""

    def convert(t: Any) -> Any:
        return t.to(dtype) if isinstance(t, torch.Tensor) and t.is_complex() == dtype.is_complex and not exact(t) else t

    return tree_map(convert, wide)


def exact(t: torch.Tensor) -> bool:
    return not (t.is_floating_point() or t.is_complex())
