"""Parts of a random program's statements: names of operators, the pool of tensors, and expressions."""

from __future__ import annotations

import contextlib
import copy
import io
import math
import pickle
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)
LIMIT = 4000  # elements of a tensor of the pool

UNARY = [
    "abs",
    "neg",
    "exp",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "ceil",
    "floor",
    "round",
    "trunc",
    "sign",
    "sqrt",
    "rsqrt",
    "log1p",
    "expm1",
    "reciprocal",
    "square",
    "erf",
    "frac",
    "sgn",
    "nan_to_num",
    "asinh",
    "atan",
    "sinh",
    "exp2",
    "log",
    "log2",
    "digamma",
    "lgamma",
    "erfinv",
    "acos",
    "tan",
    "cosh",
    "i0",
    "sinc",
    "deg2rad",
]
UNARY_ONLY = ["logical_not", "isnan", "isfinite", "isinf", "signbit", "positive", "isposinf", "isneginf", "angle"]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "atan2",
    "fmod",
    "remainder",
    "floor_divide",
    "pow",
    "hypot",
    "copysign",
    "xlogy",
    "nextafter",
]
BINARY_ONLY = [
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "logaddexp",
    "logaddexp2",
    "heaviside",
    "true_divide",
    "float_power",
    "rsub",
    "ldexp",
]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm"]
ACTIVATIONS = [
    "relu",
    "gelu",
    "silu",
    "hardswish",
    "softplus",
    "mish",
    "elu",
    "selu",
    "leaky_relu",
    "hardtanh",
    "hardsigmoid",
    "relu6",
    "celu",
    "logsigmoid",
    "softsign",
    "tanhshrink",
    "softshrink",
    "hardshrink",
]
REDUCE = ["sum", "mean", "amax", "amin", "prod", "std", "var", "logsumexp", "nansum", "all", "any", "count_nonzero"]


def make(shape: tuple[int, ...], dtype: torch.dtype, seed: int, kind: str = "plain") -> torch.Tensor:
    """Values of the CPU: multiples of 1/8 near zero, some special ones, or indices below a bound."""
    g = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=g).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        low = 0 if dtype == torch.uint8 else -5
        return torch.randint(low, 9, shape, generator=g).to(dtype)
    if dtype.is_complex:
        real = torch.randint(-24, 25, (*shape, 2), generator=g, dtype=torch.float64) / 8
        return torch.view_as_complex(real).to(dtype)
    x = torch.randint(-24, 25, shape, generator=g, dtype=torch.float64) / 8
    if kind == "special" and x.numel():
        flat = x.view(-1)
        where = torch.randint(0, flat.numel(), (3,), generator=g)
        flat[where] = torch.tensor([math.nan, math.inf, -math.inf], dtype=torch.float64)
    return x.to(dtype) if dtype != torch.float64 else x.clone()


def environment(device: str) -> dict[str, Any]:
    """The names that statements use, with tensors made on the CPU and moved."""

    def mk(shape: tuple[int, ...], dtype: torch.dtype, seed: int, kind: str = "plain") -> torch.Tensor:
        return make(shape, dtype, seed, kind).to(device)

    def ix(shape: tuple[int, ...], bound: int, seed: int, unique: bool = False, negative: bool = True) -> torch.Tensor:
        g = torch.Generator().manual_seed(seed)
        if unique and len(shape) == 1:
            i = torch.randperm(bound, generator=g)[: shape[0]]
        else:
            i = torch.randint(0, max(bound, 1), shape, generator=g)
        if negative:
            i = torch.where(torch.randint(0, 3, i.shape, generator=g) == 0, i - bound, i)
        return i.to(device)

    def safe(x: torch.Tensor) -> torch.Tensor:
        """Within every integer type's range, since what a cast does outside is open."""
        if x.is_complex():
            x = x.real
        return x.nan_to_num(0, 3, -3).clamp(0, 100).trunc() if x.is_floating_point() else x

    def tame(x: torch.Tensor) -> torch.Tensor:
        return x.nan_to_num(0, 1, -1).clamp(-9, 9) if not x.is_complex() else x.sgn()

    def spd(x: torch.Tensor) -> torch.Tensor:
        x = tame(x)
        return x @ x.mH + 40 * torch.eye(x.shape[-2], dtype=x.dtype, device=x.device)

    def reload(x: torch.Tensor) -> torch.Tensor:
        file = io.BytesIO()
        torch.save(x, file)
        file.seek(0)
        return torch.load(file, map_location=device)

    return {
        "torch": torch, "F": F, "math": math, "copy": copy, "pickle": pickle, "dev": device, "mk": mk, "ix": ix, "safe": safe,
        "tame": tame, "spd": spd, "reload": reload,
    }  # fmt: skip


def execute(line: str, env: dict[str, Any]) -> BaseException | None:
    try:
        exec(line, env)
    except Exception as e:
        return e
    return None


# -- comparing -----------------------------------------------------------------------------------------------------


def share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


class Pool:
    """A program while it is drawn: its statements so far, and the CPU's tensors under their names."""

    def __init__(self, seed: int, *, compiled: bool = False) -> None:
        self.rng = random.Random(seed)
        self.compiled = compiled
        self.grad = self.rng.random() < 0.35
        self.special = self.rng.random() < 0.25
        self.env = environment("cpu")
        self.lines: list[str] = []
        self.count = 0
        self.focus = self.rng.choice(
            [None, None, None, FLOATS[2], FLOATS[3], torch.float32, torch.int64, torch.complex64]
        )

    # -- what is in the pool -------------------------------------------------------------------------------------
    def names(self, ok: Callable[[torch.Tensor], bool] = lambda t: True) -> list[str]:
        return [n for n, t in self.env.items() if n[0] == "v" and isinstance(t, torch.Tensor) and ok(t)]

    def pick(self, ok: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        """A tensor that fits, later ones sooner; a new one of the pool where none does."""
        names = self.names(ok)
        if not names:
            raise LookupError
        if self.rng.random() < 0.5:
            names = names[-4:]
        return self.rng.choice(names)

    def t(self, name: str) -> torch.Tensor:
        return self.env[name]

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    # -- parts of statements ---------------------------------------------------------------------------------------
    def dtype(self) -> torch.dtype:
        r = self.rng
        if self.focus is not None and r.random() < 0.6:
            return self.focus
        return r.choice([*FLOATS, *FLOATS[:1] * 3, *INTS, torch.bool, *COMPLEX])

    def shape(self) -> tuple[int, ...]:
        r = self.rng
        if r.random() < 0.08:
            return r.choice([(0,), (0, 3), (2, 0, 3), (), ()])
        n = r.choice([1, 1, 2, 2, 2, 3, 3, 4])
        sizes = [r.choice([1, 2, 3, 4, 5, 7, 8]) for _ in range(n)]
        if r.random() < 0.25:
            sizes[r.randrange(n)] = r.choice([16, 17, 31, 33, 64, 65, 70])
        return tuple(sizes)

    def seed(self) -> int:
        return self.rng.randrange(10**6)

    def make(self, shape: Any = None, dtype: torch.dtype | None = None) -> str:
        kind = "special" if self.special and self.rng.random() < 0.4 else "plain"
        shape = self.shape() if shape is None else tuple(shape)
        return f"mk({shape}, {dtype or self.dtype()}, {self.seed()}, {kind!r})"

    def index(self, shape: Any, bound: int, unique: bool = False, negative: bool = True) -> str:
        return f"ix({tuple(shape)}, {bound}, {self.seed()}, {unique}, {negative})"

    def mask(self, shape: Any) -> str:
        return f"mk({tuple(shape)}, torch.bool, {self.seed()})"

    def dim(self, x: torch.Tensor) -> int:
        n = max(x.dim(), 1)
        return self.rng.randrange(-n, n)

    def number(self, x: torch.Tensor | None = None) -> str:
        r = self.rng
        choices = ["2", "-1", "0", "3", "1"] if x is None or x.dtype != torch.uint8 else ["2", "0", "3", "1"]
        if x is None or x.is_floating_point() or x.is_complex():
            choices += ["0.5", "-1.25", "2.0", "1e-3"]
        if x is not None and x.is_complex():
            choices += ["(1-2j)"]
        if r.random() < 0.1:
            choices += ["True", "False"]
        return r.choice(choices)

    def view(self, name: str) -> str:
        """An expression: the tensor, or a view of it."""
        r = self.rng
        if r.random() < 0.6:
            return name
        return self.view_of(name)

    def view_of(self, name: str) -> str:
        r, x = self.rng, self.t(name)
        n = x.dim()
        c: list[str] = [
            f"{name}[None]",
            f"{name}.unsqueeze({r.randrange(-n - 1, n + 1)})",
            f"{name}[...]",
            f"{name}.squeeze()",
        ]
        if n:
            d = self.dim(x)
            size = x.shape[d]
            c += [f"{name}.movedim({d}, {self.dim(x)})", f"{name}.unflatten({d}, (1, -1))" if size else name]
            c += [
                f"{name}.squeeze({d})",
                f"{name}.flatten()",
                f"{name}.reshape(-1)",
                f"{name}.expand(2, *{name}.shape)",
            ]
            if size:
                a = r.randrange(size)
                b = r.randint(a, size)
                c += [f"{name}.select({d}, {r.randrange(-size, size)})", f"{name}.narrow({d}, {a}, {b - a})"]
                c += [f"{name}.narrow({d}, {a}, {b - a})"]
                k = r.randint(1, size)
                c += [f"{name}.unfold({d}, {k}, {r.randint(1, 3)})"]
                parts = [":"] * (d % n)
                c += [f"{name}[{', '.join([*parts, f'{a}::{r.randint(1, 3)}'])}]"] * 2
                c += [
                    f"torch.chunk({name}, 2, {d})[-1]",
                    f"torch.split({name}, {k}, {d})[0]",
                    f"{name}.unbind({d})[-1]",
                ]
        if n >= 2:
            c += [f"{name}.transpose({self.dim(x)}, {self.dim(x)})"] * 3 + [f"{name}.mT"]
            perm = list(range(n))
            r.shuffle(perm)
            c += [f"{name}.permute({tuple(perm)})"] * 2
            d1, d2 = r.sample(range(n), 2)
            c += [f"{name}.diagonal({r.randint(-1, 1)}, {d1}, {d2})"] * 2
        if x.numel() and x.is_contiguous() and n:
            size = r.randint(1, 4)
            room = x.numel()
            s0 = r.randint(0, 3)
            s1 = r.randint(0, 3)
            if (size - 1) * (s0 + s1) < room and not self.grad:
                off = r.randint(0, room - 1 - (size - 1) * (s0 + s1))
                c += [f"{name}.as_strided(({size}, {size}), ({s0}, {s1}), {name}.storage_offset() + {off})"] * 2
        if x.is_complex():
            c += [f"{name}.real", f"{name}.imag", f"{name}.conj()", f"{name}.mH" if n >= 2 else f"{name}.conj()"] * 2
            c += [f"torch.view_as_real({name})"] if not x.is_conj() else []
        elif n and x.shape[-1] == 2 and x.dtype in (torch.float32, torch.float64):
            c += [f"torch.view_as_complex({name}.contiguous())"] * 2
        if not self.grad and not self.compiled and x.dtype in (torch.int32, torch.int64, torch.int16, torch.uint8):
            to = {
                torch.int32: "torch.int16",
                torch.int64: "torch.int32",
                torch.int16: "torch.uint8",
                torch.uint8: "torch.int8",
            }
            c += [f"{name}.view({to[x.dtype]})"] * 2
        return r.choice(c)

    def peer(self, x: torch.Tensor, same: bool = False) -> str:
        """An operand that broadcasts with `x`."""
        r = self.rng
        for _ in range(6):
            if r.random() < 0.5:
                break
            name = r.choice(self.names())
            e = self.view(name)
            with contextlib.suppress(Exception):
                y = eval(e, self.env)
                shape = torch.broadcast_shapes(x.shape, y.shape)
                if math.prod(shape) <= LIMIT and (not same or shape == x.shape):
                    return e
        shape = [s if r.random() < 0.8 else 1 for s in x.shape]
        if not same and r.random() < 0.2:
            shape = [2, *shape] if x.numel() < LIMIT / 2 else shape
        elif r.random() < 0.2:
            shape = shape[1:]
        return self.make(shape, x.dtype if r.random() < 0.6 else None)
