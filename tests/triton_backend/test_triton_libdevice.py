"""Functions of libdevice at special values, against the semantics that NVIDIA documents for CUDA."""

from __future__ import annotations

import importlib.util
import itertools
import math
import statistics
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")
pytest.importorskip("triton.language.extra.libdevice")

INF, NAN = math.inf, math.nan
VALUES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    0.3,
    -0.3,
    1.5,
    -1.5,
    2.5,
    -2.5,
    3.0,
    0.49999997,
    -0.49999997,
    0.9999999,
    10.5,
]
VALUES += [
    0.49999999999999994,
    13.0,
    -13.0,
    -12.3,
    -5.5,
    30.0,
    -30.0,
    88.0,
    90.0,
    -90.0,
    -104.0,
    700.0,
    1e4,
    1e10,
    -1e10,
]
VALUES += [8388607.5, -8388607.5, 8388609.0, 16777217.0, 4503599627370495.5, 9007199254740993.0, 1e30, -1e30]
VALUES += [2.0**31, -(2.0**31), 2.0**31 - 128, 2.0**32, 2.0**32 - 256, 2.0**63, -(2.0**63), 2.0**64, 2.0**63 - 2.0**39]
VALUES += [3.4e38, -3.4e38, 1.1754944e-38, 1e-40, -1e-40, 1.4e-45, INF, -INF, NAN]
INTEGERS = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    127,
    128,
    -149,
    149,
    270,
    -270,
    300,
    -300,
    1100,
    -1100,
    2200,
    4096,
    8191,
    2**24,
    2**24 + 1,
]
INTEGERS += [-(2**24) - 1, 0x01000001, 0x00FFFFFF, 0x7654, 0x12345678, 2**31 - 1, -(2**31)]


def single(x: float) -> float:
    return torch.tensor(x, dtype=torch.float64).float().item()


def away(x: float) -> float:
    if not math.isfinite(x) or abs(x) >= 2.0**52:
        return x
    whole = float(math.trunc(x))
    return math.copysign(abs(whole) + (abs(x - whole) >= 0.5), x)


def rounded(x: float, mode: str) -> float:
    if not math.isfinite(x):
        return x
    r = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[mode](x)
    return math.copysign(float(r), x)


def to_integer(x: float, bits: int, signed: bool, wide: bool) -> int:
    """PTX cvt: saturates; NaN is 0, where 64 bits take part the number with the first bit alone."""
    if x != x:
        n = 1 << (bits - 1) if bits == 64 or wide else 0
    else:
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        n = low if x <= low else high if x >= high else int(x)
    return n - (1 << bits) if n >= 1 << (bits - 1) else n


def ilogb(x: float) -> int:
    if x == 0 or x != x:
        return -(2**31)
    return 2**31 - 1 if math.isinf(x) else math.frexp(x)[1] - 1


def logb(x: float) -> float:
    return -INF if x == 0 else x * x if not math.isfinite(x) else float(math.frexp(x)[1] - 1)


def by_torch(function: Callable[..., torch.Tensor]) -> Callable[..., float]:
    return lambda *x: function(*(torch.tensor(v, dtype=torch.float64) for v in x)).item()


def scaled_bessel(scaled: Callable[..., torch.Tensor], odd: bool) -> Callable[[float], float]:
    def value(x: float) -> float:
        if math.isinf(x):
            return x if odd else INF
        r = scaled(torch.tensor(x, dtype=torch.float64)).item()
        half = math.exp(min(abs(x) / 2, 700.0)) if x == x else x
        return math.copysign(r * half * half, x) if odd else r * half * half

    return value


def powi(x: float, n: int) -> float:
    if n == 0 or x == 1:
        return 1.0
    odd = n % 2 == 1
    if x == 0 or math.isinf(x):
        big = (x == 0) == (n < 0)
        return math.copysign(INF if big else 0.0, x if odd else 1.0)
    if x != x:
        return x
    try:
        size = math.pow(abs(x), n)
    except OverflowError:
        size = INF
    return -size if x < 0 and odd else size


def ldexp(x: float, n: int) -> float:
    try:
        return math.ldexp(x, n)
    except OverflowError:
        return math.copysign(INF, x)


def fmod(x: float, y: float) -> float:
    if x != x or y != y or math.isinf(x) or y == 0:
        return NAN
    return math.fmod(x, y)


def remainder(x: float, y: float) -> float:
    return NAN if x != x or y != y or math.isinf(x) or y == 0 else math.remainder(x, y)


def fdim(x: float, y: float) -> float:
    return NAN if x != x or y != y else x - y if x > y else 0.0


def hypot(*x: float) -> float:
    return INF if any(map(math.isinf, x)) else math.hypot(*x)


def reciprocal(x: float) -> float:
    return 1 / x if x != 0 else math.copysign(INF, x)


def cbrt(x: float) -> float:
    return x if x == 0 or not math.isfinite(x) else math.copysign(abs(x) ** (1 / 3), x)


def positive_zero(x: float) -> float:
    return 0.0 if not x > 0 else min(x, 1.0)


def sine_of_pi(x: float, shift: float) -> float:
    """Zeros as C23 and CUDA have them: that of sinpi with the sign of x, that of cospi positive."""
    if not math.isfinite(x):
        return NAN
    d = math.fmod(x, 2.0) + shift
    n = round(2 * d)
    r = (math.fmod(x, 2.0) - (n / 2 - shift)) * math.pi
    if r == 0 and n % 2 == 0:
        return 0.0 if shift else math.copysign(0.0, x)
    return [math.sin(r), math.cos(r), -math.sin(r), -math.cos(r)][n % 4]


def normcdf(x: float) -> float:
    """The product x / sqrt(2) in two parts; erfc'(t) = -2 / sqrt(pi) exp(-t^2)."""
    if x != x or abs(x) > 60:
        return x if x != x else float(x > 0)
    t = Fraction(-x) / Fraction("1.41421356237309504880168872420969807856967187537694")
    near = float(t)
    return 0.5 * math.erfc(near) - float(t - Fraction(near)) / math.sqrt(math.pi) * math.exp(-near * near)


def normcdfinv(p: float) -> float:
    if not 0 < p < 1:
        return -INF if p == 0 else INF if p == 1 else NAN
    return statistics.NormalDist().inv_cdf(p)


# A looser bound where a function is known to lose digits; what is no number has to agree in any case.
UNARY: dict[str, Callable[[float], float]] = {
    "round": away,
    "rint": lambda x: rounded(x, "rn"),
    "nearbyint": lambda x: rounded(x, "rn"),
    "trunc": lambda x: rounded(x, "rz"),
    "floor": lambda x: rounded(x, "rd"),
    "ceil": lambda x: rounded(x, "ru"),
    "abs": abs,
    "logb": logb,
    "normcdf": normcdf,
    "normcdfinv": normcdfinv,
    "erf": by_torch(torch.erf),
    "erfc": by_torch(torch.erfc),
    "erfcx": by_torch(torch.special.erfcx),
    "erfinv": by_torch(torch.erfinv),
    "lgamma": by_torch(torch.lgamma),
    "cyl_bessel_i0": scaled_bessel(torch.special.i0e, False),
    "cyl_bessel_i1": scaled_bessel(torch.special.i1e, True),
    "sqrt": by_torch(torch.sqrt),
    "rsqrt": by_torch(torch.rsqrt),
    "cbrt": cbrt,
    "rcbrt": lambda x: reciprocal(cbrt(x)),
    "exp": by_torch(torch.exp),
    "exp2": by_torch(torch.exp2),
    "exp10": lambda x: by_torch(torch.pow)(10.0, x),
    "expm1": by_torch(torch.expm1),
    "log": by_torch(torch.log),
    "log2": by_torch(torch.log2),
    "log10": by_torch(torch.log10),
    "log1p": by_torch(torch.log1p),
    "tanh": by_torch(torch.tanh),
    "atan": by_torch(torch.atan),
    "asin": by_torch(torch.asin),
    "acos": by_torch(torch.acos),
    "asinh": lambda x: math.asinh(x) if math.isfinite(x) else x,
    "acosh": by_torch(torch.acosh),
    "atanh": by_torch(torch.atanh),
    "sinh": by_torch(torch.sinh),
    "cosh": by_torch(torch.cosh),
    "sinpi": lambda x: sine_of_pi(x, 0.0),
    "cospi": lambda x: sine_of_pi(x, 0.5),
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "pow": by_torch(torch.pow),
    "atan2": by_torch(torch.atan2),
    "hypot": hypot,
    "rhypot": lambda x, y: reciprocal(hypot(x, y)),
    "copysign": math.copysign,
    "fmod": fmod,
    "remainder": remainder,
    "fdim": fdim,
}
SCALED: dict[str, Callable[[float, int], float]] = {"ldexp": ldexp, "scalbn": ldexp, "pow": powi}
PREDICATES: dict[str, Callable[[float], int]] = {
    "isnan": lambda x: int(x != x),
    "isinf": lambda x: int(math.isinf(x)),
    "signbit": lambda x: int(math.copysign(1.0, x) < 0 and x == x),
    "ilogb": ilogb,
}
LONG: dict[str, Callable[[float, bool], int]] = {
    "llround": lambda x, wide: to_integer(away(x), 64, True, wide),
    "llrint": lambda x, wide: to_integer(rounded(x, "rn"), 64, True, wide),
}
CASTS = [("int", 32, True), ("uint", 32, False), ("ll", 64, True), ("ull", 64, False)]


def unsigned(n: int) -> int:
    return n & 0xFFFFFFFF


def signed(n: int, bits: int = 32) -> int:
    n &= (1 << bits) - 1
    return n - (1 << bits) if n >> (bits - 1) else n


def low24(n: int) -> int:
    n &= 0xFFFFFF
    return n - (1 << 24) if n >> 23 else n


def bits_reversed(n: int, bits: int) -> int:
    return signed(int(f"{n & ((1 << bits) - 1):0{bits}b}"[::-1], 2), bits)


def permuted(a: int, b: int, which: int) -> int:
    data = struct.pack("<II", unsigned(a), unsigned(b))
    return signed(sum(data[which >> (4 * i) & 7] << (8 * i) for i in range(4)))


INTEGRAL: dict[str, Callable[[int, int, int], int]] = {
    "mul24(a, b)": lambda a, b, c: signed(low24(a) * low24(b)),
    "hadd(a, b)": lambda a, b, c: (a + b) >> 1,
    "rhadd(a, b)": lambda a, b, c: (a + b + 1) >> 1,
    "mulhi(a, b)": lambda a, b, c: (a * b) >> 32,
    "byte_perm(a, b, c)": lambda a, b, c: permuted(a, b, unsigned(c)),
    "brev(a)": lambda a, b, c: bits_reversed(a, 32),
    "clz(a)": lambda a, b, c: 32 - unsigned(a).bit_length(),
    "ffs(a)": lambda a, b, c: (a & -a).bit_length(),
    "popc(a)": lambda a, b, c: unsigned(a).bit_count(),
    "abs(a)": lambda a, b, c: signed(abs(a)),
    "mul24(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)": lambda a, b, c: signed((a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "hadd(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)": lambda a, b, c: signed((unsigned(a) + unsigned(b)) >> 1),
    "rhadd(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)": lambda a, b, c: signed(
        (unsigned(a) + unsigned(b) + 1) >> 1
    ),
    "mulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)": lambda a, b, c: signed((unsigned(a) * unsigned(b)) >> 32),
    "sad(a, b, c.to(tl.uint32))": lambda a, b, c: signed(abs(a - b) + c),
    "sad(a.to(tl.uint32), b.to(tl.uint32), c.to(tl.uint32)).to(tl.int32)": lambda a, b, c: signed(
        abs(unsigned(a) - unsigned(b)) + c
    ),
}


def kernel(folder: Path, name: str, calls: list[str], loads: str) -> Any:
    """A kernel that stores the results of `calls`, of the operands that `loads` names, one after the other."""
    lines = ["import triton", "import triton.language as tl", "from triton.language.extra import libdevice", ""]
    lines += ["@triton.jit", f"def {name}({', '.join(f'{x}_' for x in loads)}, o, LENGTH: tl.constexpr):"]
    lines += ["    at = tl.arange(0, LENGTH)", *(f"    {x} = tl.load({x}_ + at)" for x in loads)]
    lines += [f"    tl.store(o + {i} * LENGTH + at, {call})" for i, call in enumerate(calls)]
    path = folder / f"{name}.py"
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def run(folder: Path, name: str, calls: list[str], operands: list[torch.Tensor], out: torch.dtype) -> list[list[Any]]:
    count = operands[0].numel()
    length = 1 << max(count - 1, 15).bit_length()
    padded = [torch.cat([x, x[:1].expand(length - count)]).to("xpu") for x in operands]
    o = torch.empty(len(calls), length, dtype=out, device="xpu")
    kernel(folder, name, calls, "abc"[: len(operands)])[(1,)](*padded, o, LENGTH=length)
    return o[:, :count].cpu().tolist()


def faults(name: str, dtype: torch.dtype, results: list[Any], inputs: list[tuple[Any, ...]], right: Any) -> list[str]:
    wrong = []
    tolerance, least = (2e-5, 1.4e-45 * 4) if dtype == torch.float32 else (1e-11, 1e-320)
    for x, got in zip(inputs, results, strict=True):
        want = right(*x)
        if isinstance(want, float) and dtype == torch.float32:
            want = single(want)
        if isinstance(want, int) or not math.isfinite(want) or not math.isfinite(got) or want == 0:
            same = got == want and (not isinstance(want, float) or math.copysign(1, got) == math.copysign(1, want))
            near = same or (got != got and want != want) or (want == 0 and 0 < abs(got) <= least)
        else:
            near = abs(got - want) <= max(tolerance * abs(want), least)
        if not near:
            wrong.append(f"{name}{x} is {got!r}, right {want!r}")
    return wrong


def floats(dtype: torch.dtype) -> list[float]:
    return [single(v) if dtype == torch.float32 else v for v in VALUES]


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@DTYPES
def test_functions_of_one_operand(tmp_path: Path, dtype: torch.dtype) -> None:
    x = floats(dtype)
    table = dict(UNARY)
    if dtype == torch.float32:
        table["saturatef"] = positive_zero
    results = run(tmp_path, "unary", [f"libdevice.{n}(a)" for n in table], [torch.tensor(x, dtype=dtype)], dtype)
    wrong = []
    for (name, right), got in zip(table.items(), results, strict=True):
        wrong += faults(name, dtype, got, [(v,) for v in x], right)
    assert not wrong, "\n".join(wrong)


@DTYPES
def test_functions_of_two_operands(tmp_path: Path, dtype: torch.dtype) -> None:
    some = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 2.5, -3.5, 1e10, -1e30, 1e-40, 16777216.0, INF, -INF, NAN]
    some = [single(v) if dtype == torch.float32 else v for v in some]
    pairs = list(itertools.product(some, some))
    operands = [torch.tensor([p[k] for p in pairs], dtype=dtype) for k in range(2)]
    results = run(tmp_path, "binary", [f"libdevice.{n}(a, b)" for n in BINARY], operands, dtype)
    wrong = []
    for (name, right), got in zip(BINARY.items(), results, strict=True):
        wrong += faults(name, dtype, got, pairs, right)
    assert not wrong, "\n".join(wrong)


@DTYPES
def test_functions_of_a_float_and_an_integer(tmp_path: Path, dtype: torch.dtype) -> None:
    pairs = list(itertools.product(floats(dtype)[:20] + floats(dtype)[-9:], INTEGERS))
    operands = [torch.tensor([p[0] for p in pairs], dtype=dtype), torch.tensor([p[1] for p in pairs]).int()]
    results = run(tmp_path, "scaled", [f"libdevice.{n}(a, b)" for n in SCALED], operands, dtype)
    wrong = []
    for (name, right), got in zip(SCALED.items(), results, strict=True):
        wrong += faults(name, dtype, got, pairs, right)
    assert not wrong, "\n".join(wrong[:40])


@DTYPES
def test_integers_of_floats(tmp_path: Path, dtype: torch.dtype) -> None:
    wide, x = dtype == torch.float64, floats(dtype)
    source = "double" if wide else "float"
    operand, inputs = [torch.tensor(x, dtype=dtype)], [(v,) for v in x]
    wrong = []
    for bits in (32, 64):
        cases: dict[str, Callable[[float], int]] = {}
        for name, width, has_sign in CASTS:
            for mode in ("rn", "rz", "rd", "ru"):
                if width == bits:
                    cases[f"{source}2{name}_{mode}"] = lambda v, m=mode, w=width, s=has_sign: to_integer(
                        rounded(v, m), w, s, wide
                    )
        others = PREDICATES if bits == 32 else {n: (lambda v, f=f: f(v, wide)) for n, f in LONG.items()}
        cases |= others
        out = torch.int32 if bits == 32 else torch.int64
        results = run(tmp_path, f"cast{bits}", [f"libdevice.{n}(a)" for n in cases], operand, out)
        for (name, right), got in zip(cases.items(), results, strict=True):
            wrong += faults(name, dtype, [int(g) for g in got], inputs, right)
    assert not wrong, "\n".join(wrong)


def test_functions_of_integers(tmp_path: Path) -> None:
    some = [*INTEGERS[:8], *INTEGERS[-8:]]
    triples = [(a, b, c) for a, b in itertools.product(some, some) for c in (0, 5, 0x3210, 0x7654)]
    operands = [torch.tensor([t[k] for t in triples]).int() for k in range(3)]
    results = run(tmp_path, "integral", [f"libdevice.{n}" for n in INTEGRAL], operands, torch.int32)
    wrong = []
    for (name, right), got in zip(INTEGRAL.items(), results, strict=True):
        wrong += faults(name, torch.int32, got, triples, right)
    assert not wrong, "\n".join(wrong[:40])


def test_a_rounded_product_is_not_fused(tmp_path: Path) -> None:
    a = torch.tensor([1 + 2.0**-12, 1 - 2.0**-20], dtype=torch.float32)
    call = ["libdevice.sub_rn(libdevice.mul_rn(a, a), b)", "libdevice.mul_rn(a, a) - b"]
    results = run(tmp_path, "apart", call, [a, a * a], torch.float32)
    assert results == [[0.0, 0.0], [0.0, 0.0]]
