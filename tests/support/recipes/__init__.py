"""Registers every recipe."""

from support.recipes import fitted, linalg, lists, nn, products, quantized, tensors, vision  # noqa: F401
