"""Operators that name one of equal elements, where which one is not specified: torch's CPU sort depends on the machine."""

from __future__ import annotations

from typing import Any

import torch

NUMBERING = {"_unique", "_unique2"}
PICKING = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"}


def by_elements(name: str, args: dict[str, Any], result: Any) -> Any:
    """The result with its indices replaced by the elements they name, after a check that none names an element twice.

    `args` holds `self`, and where they are given `dim`, `stable`, `sorted`.
    """
    if name in NUMBERING and result[1].numel():  # each NaN is an element of its own
        return result[0], result[0][result[1]], *result[2:]
    if name not in PICKING or args.get("stable") or (name.endswith("median") and isinstance(result, torch.Tensor)):
        return result
    x, dim = args["self"], args.get("dim", -1)
    indices = result if name == "argsort" else result[1]
    full = indices if indices.dim() == x.dim() else indices.unsqueeze(dim)
    if full.dim() and full.numel():
        ordered = full.cpu().sort(dim).values
        assert (ordered.diff(dim=dim) != 0).all(), "an element is named twice"
    elements = x.gather(dim, full)
    if name == "argsort":
        return elements
    values = result[0]
    if name == "topk" and not args.get("sorted", True):
        values, elements = values.sort(dim).values, elements.sort(dim).values
    return values, elements
