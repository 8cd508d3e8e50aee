"""Random convolutions in which each dimension has a size, kernel, stride, padding and dilation of its own."""

from __future__ import annotations

import random
from typing import Any


def anisotropic(draw: random.Random) -> dict[str, Any] | None:
    """One convolution; None where it has no result. `channels` are those of its input and its result."""
    spatial = draw.choice((1, 2, 2, 3, 3))
    transposed, groups = draw.random() < 0.3, draw.choice((1, 1, 1, 2, 3))
    channels = groups * draw.choice((1, 1, 2, 3, 17)), groups * draw.choice((1, 2, 16, 17))
    pick = {"kernel": (1, 2, 3, 4, 5), "size": (1, 2, 3, 7, 9), "stride": (1, 2, 3), "padding": (0, 0, 1, 2, 3),
            "dilation": (1, 1, 1, 2)}  # fmt: skip
    call: dict[str, Any] = {name: [draw.choice(values) for _ in range(spatial)] for name, values in pick.items()}
    call |= {"transposed": transposed, "groups": groups, "channels": channels, "batch": draw.choice((1, 2, 5))}
    call |= {"last": draw.random() < 0.4, "bias": draw.random() < 0.4}
    names = ("size", "kernel", "stride", "padding", "dilation")
    for size, kernel, stride, padding, dilation in zip(*(call[name] for name in names), strict=True):
        reach = dilation * (kernel - 1) + 1
        if (size - 1) * stride - 2 * padding + reach < 1 if transposed else size + 2 * padding < reach:
            return None
    return call
