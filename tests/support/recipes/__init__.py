"""Registers every recipe."""

from support.recipes import fitted, lists, nn, products, tensors, vision  # noqa: F401
