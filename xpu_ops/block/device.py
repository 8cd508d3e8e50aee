"""The device policy as generators of kernels see it (kernels/runtime/device/policy.hpp; XPU_OPS_POLICY=gpu gives a GPU's)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from xpu_ops.block.types import LANES


@dataclass(frozen=True)
class Policy:
    """Sizes of work-groups. `single_items`: a work-group is one thread, so that one sub-group does."""

    single_items: bool = True
    units: int = 1
    lanes: int = LANES
    tile_items: int = LANES  # of a work-group that goes through a piece of memory, side by side
    row_items: int = LANES  # of a work-group whose sub-groups take a row each
    team_items: int = LANES  # most items of a work-group that share one long row


CPU = Policy()
GPU = Policy(single_items=False, tile_items=256, row_items=128, team_items=256)


def _read(device: int) -> Policy:
    from xpu_ops import _autoload

    c: Any = _autoload.load()
    fields = c.device_policy(device)
    return Policy(**(fields | {"single_items": bool(fields["single_items"])}))


_of = functools.cache(_read)


def policy(device: int | None = None) -> Policy:
    """Of an XPU device, None for the current one, which may be another at the next call."""
    return _read(-1) if device is None else _of(device)
