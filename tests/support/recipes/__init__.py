"""Registers every recipe."""

from support.recipes import fitted, linalg, lists, nn, products, tensors, vision  # noqa: F401
