"""Shared set-up: Hypothesis profiles, the failure ledger, the test level."""

from __future__ import annotations

import collections
import ctypes
import gc
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from support import ledger

# Loads a Hypothesis profile of its own, with other draws where CI is set: first, so that it is not loaded over ours.
from torch.testing._internal import common_utils  # noqa: F401

SWEEP = 40  # parametrised tests with more cases are sweeps
os.environ.setdefault("XPU_OPS_COMPILE_ALL", "1")  # operators, too, have kernels generated for them

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("XPU_OPS_TEST_EXAMPLES", "20")),
    suppress_health_check=list(HealthCheck),
    database=None,
)
# For a first look at many tests: few examples, failures as they were drawn.
settings.register_profile("quick", settings.get_profile("ci"), max_examples=8, phases=[Phase.explicit, Phase.generate])
settings.register_profile(
    "random",
    deadline=None,
    max_examples=int(os.environ.get("XPU_OPS_TEST_EXAMPLES", "100")),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
if settings.default is not None and settings.default.derandomize:
    # Hypothesis also draws constants that it finds in the modules imported so far, which hang on the tests that this
    # worker ran before: without them a test draws the same on every machine.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A test draws the same whichever tests ran before, and its kernels' errors show in it, not in the next."""
    if settings.default is None or settings.default.derandomize:
        torch.manual_seed(0)
    yield
    if torch.xpu.is_initialized():
        torch.xpu.synchronize()


def pytest_sessionfinish() -> None:
    """Writes the counts of a build with XPU_OPS_COVERAGE: pytest-xdist ends its workers without their exit handlers."""
    extension = sys.modules.get("xpu_ops._C")
    if extension is None or extension.__file__ is None:
        return
    kernels = ctypes.CDLL(str(Path(extension.__file__).parents[1] / "libxpu_ops_kernels.so"))
    dump = getattr(kernels, "__gcov_dump", None)
    if dump is not None:
        dump()


def pytest_collection_finish() -> None:
    """Leaves the million objects of tests and samples out of each later collection, which take a second with them."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs only with XPU_OPS_TEST_LEVEL=full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what the ledger names as strict expected failures, leaves slow tests to the full level, and takes each n-th of
    all or of the sweeps."""
    entries = ledger.load()
    full = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
    every = int(os.environ.pop("XPU_OPS_TEST_EVERY", "1"))  # not for the runs that tests start
    share = int(os.environ.pop("XPU_OPS_TEST_SWEEPS", "1"))
    cases = collections.Counter(item.nodeid.partition("[")[0] for item in items)
    kept, dropped = [], []
    for item in items:
        name = item.nodeid.partition("[")[0]
        # By the id: the same ones whatever else is collected, and of every element type.
        left = cases[name] > SWEEP and zlib.crc32(item.nodeid.encode()) % share
        if left or (item.get_closest_marker("slow") and not full):
            dropped.append(item)
            continue
        kept.append(item)
        entry = ledger.match(entries, item.nodeid)
        if entry is not None:
            # A skip is for what cannot even start without harm (a hang, gigabytes); it needs a reason all the same.
            if entry.skip:
                item.add_marker(pytest.mark.skip(reason=entry.reason))
            else:
                item.add_marker(pytest.mark.xfail(reason=entry.reason, strict=entry.strict))
    if every > 1:
        dropped += [item for place, item in enumerate(kept) if place % every]
        kept = kept[::every]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
