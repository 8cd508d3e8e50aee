"""Kernels from source, in all tests of this folder."""

from __future__ import annotations

from support.collectives import converged  # noqa: F401
