"""Strategies that draw tensors: shapes, layouts, values."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import torch

KINDS = ("contiguous", "permuted", "step", "expanded", "offset", "channels_last")
shapes = st.lists(st.integers(1, 6), min_size=0, max_size=5).map(tuple) | st.sampled_from(
    [(), (0,), (3, 0, 2), (1,), (17,), (33, 40), (2, 3, 4, 5), (1025,), (4, 100)]
)


def element_values(
    dtype: torch.dtype, domain: Any, n: int, seed: int, special: bool, extreme: bool = True
) -> torch.Tensor:
    """Random values; `special` puts NaN, infinities and subnormals among them, `extreme` the largest number too."""
    g = torch.Generator().manual_seed(seed)
    low, high = domain or (-5.0, 5.0)
    if dtype == torch.bool:
        return torch.randint(0, 2, (n,), generator=g).bool()
    if dtype.is_complex:
        real = torch.rand(n, generator=g, dtype=torch.float64) * (high - low) + low
        imag = torch.rand(n, generator=g, dtype=torch.float64) * (high - low) + low
        return torch.complex(real, imag).to(dtype)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        lo, hi = max(info.min, math.ceil(low)), min(info.max, math.floor(high))
        return torch.randint(lo, max(lo + 1, hi + 1), (n,), generator=g).to(dtype)
    values = (torch.rand(n, generator=g, dtype=torch.float64) * (high - low) + low).to(dtype)
    if special and domain is None and n:
        extremes = torch.tensor(
            [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, torch.finfo(dtype).tiny / 2, torch.finfo(dtype).max]
        )[: None if extreme else -1]
        where = torch.randint(0, n, (min(n, 4),), generator=g)
        values[where] = extremes[torch.randint(0, len(extremes), (len(where),), generator=g)].to(dtype)
    return values


@st.composite
def views(
    draw: Any,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    domain: Any,
    *,
    extreme: bool = True,
    kinds: tuple[str, ...] = KINDS,
) -> torch.Tensor:
    """A CPU tensor of the shape in one of many layouts."""
    seed, special = draw(st.integers(0, 10**6)), draw(st.booleans())
    kind = draw(st.sampled_from(kinds))

    def values(n: int) -> torch.Tensor:
        return element_values(dtype, domain, n, seed, special, extreme)

    if kind == "permuted" and len(shape) > 1:
        order = draw(st.permutations(range(len(shape))))
        base = values(math.prod(shape)).reshape([shape[i] for i in order])
        return base.permute([order.index(i) for i in range(len(shape))])
    if kind == "step" and shape:
        wide = [*shape[:-1], shape[-1] * 2]
        return values(math.prod(wide)).reshape(wide)[..., ::2]
    if kind == "expanded" and shape:
        d = draw(st.integers(0, len(shape) - 1))
        one = [1 if i == d else n for i, n in enumerate(shape)]
        return values(math.prod(one)).reshape(one).expand(shape)
    if kind == "offset":
        return values(math.prod(shape) + 3)[3:].reshape(shape)
    dense = values(math.prod(shape)).reshape(shape)
    if kind == "channels_last" and len(shape) == 4:
        return dense.contiguous(memory_format=torch.channels_last)
    return dense
