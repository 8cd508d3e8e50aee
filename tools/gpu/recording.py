"""Reads what tools/gpu/record.cpp writes. Standard library only: the machine with the GPU has no xpu_ops."""

from __future__ import annotations

import json
import lzma
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast


@dataclass
class Block:
    """Memory that a launch reaches: where it was, and its bytes before the launch, None where the recording has none."""

    address: int
    size: int
    before: bytes | None


@dataclass
class Change:
    """Bytes that a launch has written, from `offset` of a block on."""

    block: int
    offset: int
    data: bytes


@dataclass
class Launch:
    """One launch with the memory that it reaches."""

    kernel: str
    digest: str  # of the source of a kernel compiled at run time, else ""
    groups: tuple[int, int]
    local: tuple[int, int]
    args: bytes
    blocks: list[Block]
    after: list[Change]
    test: str
    number: int  # in its file

    @property
    def module(self) -> str:
        """The module that holds the kernel where it was compiled at run time."""
        return self.digest

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return self.local[0] * self.local[1]


@dataclass
class Command:
    """A copy (kind 2) or a fill (3) by the driver, which a plan does not execute."""

    kind: int
    size: int


@dataclass
class Case:
    """The launches from one mark to the next."""

    name: str
    steps: list[Launch | Command] = field(default_factory=list)

    @property
    def launches(self) -> list[Launch]:
        return [s for s in self.steps if isinstance(s, Launch)]


def opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", lzma.open(path, "rb") if path.suffix == ".xz" else open(path, "rb"))


def read(path: Path) -> Iterator[str | Launch | Command]:
    """Names of tests, launches and commands, in the order of the file. A file that was cut off ends at its last record."""
    test, number = "", 0
    with opened(path) as file:
        while len(head := file.read(4)) == 4:
            line = file.read(struct.unpack("<I", head)[0])
            try:
                record = json.loads(line)
            except ValueError:
                return
            if "test" in record:
                test = record["test"]
                yield test
                continue
            if "command" in record:
                yield Command(record["command"], record["bytes"])
                continue
            args = file.read(record["args"])
            blocks = [Block(address, size, None) for address, size in record["blocks"]]
            for b in record["before"]:
                blocks[b].before = file.read(blocks[b].size)
            after = [Change(b, offset, file.read(size)) for b, offset, size in record["after"]]
            if len(args) != record["args"] or (after and len(after[-1].data) != record["after"][-1][2]):
                return
            groups, local = tuple(record["groups"]), tuple(record["local"])
            yield Launch(record["kernel"], record["digest"], groups, local, args, blocks, after, test, number)
            number += 1


def launches(path: Path) -> Iterator[Launch]:
    return (r for r in read(path) if isinstance(r, Launch))


def cases(path: Path) -> dict[str, Case]:
    found: dict[str, Case] = {}
    case = Case("")
    for r in read(path):
        if isinstance(r, str):
            case = found.setdefault(r, Case(r))
        else:
            case.steps.append(r)
    return found


class Addresses:
    """Where the blocks of a recording are now."""

    def __init__(self, moved: dict[int, tuple[int, int]]) -> None:
        """`moved`: address in the recording -> size, address now."""
        self._old = sorted(moved)
        self._moved = moved

    def of(self, word: int) -> int | None:
        """The address that stands for this one; None where it points into no block. The end of a block belongs to it."""
        i = bisect_right(self._old, word) - 1
        if i < 0:
            return None
        base = self._old[i]
        size, now = self._moved[base]
        return now + word - base if word <= base + size else None

    def relocated(self, data: bytes) -> bytes:
        """The bytes with every aligned word that is an address replaced."""
        whole = len(data) // 8
        words = list(struct.unpack_from(f"<{whole}Q", data))
        low = self._old[0] if self._old else 0
        changed = False
        for i, word in enumerate(words):
            if word < low or word >> 47:
                continue
            now = self.of(word)
            if now is not None:
                words[i], changed = now, True
        return struct.pack(f"<{whole}Q", *words) + data[8 * whole :] if changed else data
