"""The view of a native cache that xpu_ops.onednn and xpu_ops.onemkl offer."""

from __future__ import annotations

from typing import Protocol

Entry = dict[str, str | int]


class NativeCache(Protocol):
    """A submodule that bindings/runtime/cache.hpp made."""

    def stats(self) -> dict[str, int]: ...
    def entries(self) -> list[Entry]: ...
    def clear(self) -> None: ...
    def set_limit(self, limit: int, /) -> None: ...


class CacheView:
    """Entries and counters of a cache. It is shared by all devices and threads of the process."""

    def __init__(self, native: NativeCache) -> None:
        self._native = native

    @property
    def size(self) -> int:
        """Entries held now."""
        return self.stats()["size"]

    @property
    def hits(self) -> int:
        """Look-ups since the last clear() that found their entry, or waited for another thread that made it."""
        return self.stats()["hits"]

    @property
    def misses(self) -> int:
        """Look-ups since the last clear() that had to make their entry, or to learn that there is none."""
        return self.stats()["misses"]

    @property
    def evictions(self) -> int:
        """Entries dropped because of the limit."""
        return self.stats()["evictions"]

    def stats(self) -> dict[str, int]:
        """Return the limit, the size and the counters of one moment."""
        return self._native.stats()

    def entries(self) -> list[Entry]:
        """Return what is held, most recently used first."""
        return self._native.entries()

    def clear(self) -> None:
        """Drop all entries and set the counters to zero."""
        self._native.clear()

    def _set_limit(self, name: str, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"{name} must not be negative, got {limit}")
        self._native.set_limit(limit)


class CountedCache(CacheView):
    """A cache that is limited by its number of entries."""

    @property
    def capacity(self) -> int:
        """Entries kept; the least recently used one goes first. 0 keeps none."""
        return self.stats()["capacity"]

    @capacity.setter
    def capacity(self, entries: int) -> None:
        self._set_limit("capacity", entries)
