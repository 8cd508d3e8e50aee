"""The options of `pytest --xpu`, its fixtures and markers. Without an option of ours nothing changes and torch is not imported.

This is a package of its own because an entry point in `xpu_ops` would import torch into every run of pytest. What the
options do is in `xpu_ops.testing`, which is imported with `--xpu`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch

# Named by other projects' tests to learn their device; a value that is set already stays.
DEVICE_VARIABLES = {
    "TRANSFORMERS_TEST_DEVICE": "xpu",
    "DIFFUSERS_TEST_DEVICE": "xpu",
    "PYTORCH_TESTING_DEVICE_ONLY_FOR": "xpu",
}
STRICT_VARIABLES = {"XPU_OPS_DISCRETE": "1", "XPU_OPS_POLICY": "gpu", "XPU_OPS_REDZONE": "1", "XPU_OPS_POISON": "1"}
SHUFFLERS = ("randomly", "random_order")
MARKERS = (
    "xpu_known_difference(reason): with --xpu the test is expected to fail, and fails where it passes",
    "xpu_allow_fallback(*operators): with --xpu these operators, or all, may run on the CPU",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xpu", "the xpu device of xpu_ops")
    group.addoption(
        "--xpu", action="store_true", help="test on xpu: a device has to be there, and a fallback to the CPU fails"
    )
    group.addoption(
        "--xpu-strict",
        action="store_true",
        help="--xpu with a GPU's plans, memory that the host cannot reach, red zones, poisoned memory, two devices and a seed per test",
    )
    group.addoption(
        "--xpu-devices",
        type=_count,
        metavar="N",
        help="--xpu with a CPU that stands for N devices (1; 2 with --xpu-strict)",
    )
    group.addoption(
        "--xpu-emulate",
        type=_name,
        metavar="NAME",
        help="--xpu with the properties and refusals of a GPU: a770, b580, max1550",
    )
    group.addoption(
        "--xpu-allow-fallback",
        action="append",
        metavar="OP",
        help="an operator that may run on the CPU in any test, such as aten::histc; `all` for all; may be repeated",
    )
    group.addoption(
        "--xpu-known-differences",
        action="append",
        metavar="FILE",
        help="lines `test id: reason`, `*` for any text: as the marker xpu_known_difference, for suites that stay unmodified",
    )
    parser.addini("xpu_allow_fallback", "as --xpu-allow-fallback", type="linelist", default=[])


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of devices from 1 on, got {text!r}")
    return int(text)


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a GPU, got ''")
    return text


def wanted(options: object) -> bool:
    return any(getattr(options, name, None) for name in ("xpu", "xpu_strict", "xpu_emulate", "xpu_devices"))


def variables(options: object) -> dict[str, str]:
    """The environment that the options ask for. A variable that is set by hand counts more."""
    strict = bool(getattr(options, "xpu_strict", False))
    found = dict(DEVICE_VARIABLES)
    if strict:
        found |= STRICT_VARIABLES
    name = getattr(options, "xpu_emulate", None)
    if name:
        found["XPU_OPS_EMULATE"] = name
    count = getattr(options, "xpu_devices", None)
    if count or (strict and not name):
        found["XPU_OPS_CPU_DEVICES"] = str(count or 2)
    return found


# Before the conftest.py files, which may import torch and look for a device. Workers of pytest-xdist come here, too.
@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    options = early_config.known_args_namespace
    if not wanted(options):
        return
    missing = {name: value for name, value in variables(options).items() if name not in os.environ}
    late = [f"{name}={value}" for name, value in missing.items() if name.startswith("XPU_OPS_")]
    core = sys.modules.get("xpu_ops._C")
    if late and core is not None and core.initialized():
        raise pytest.UsageError(
            f"--xpu: the device was used before {' '.join(late)} could be set, as by a plugin of `-p` that is imported "
            "before: set them in the environment"
        )
    os.environ.update(missing)
    if getattr(options, "xpu_strict", False):
        for name in SHUFFLERS:
            early_config.pluginmanager.set_blocked(name)


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    if wanted(config.option):
        from xpu_ops import testing

        testing.install(config)


@pytest.fixture
def xpu_device() -> Iterator[torch.device]:
    """The first xpu device. The test is skipped where there is none; with --xpu there is one."""
    yield _devices(1)[0]


@pytest.fixture
def two_xpu_devices() -> Iterator[tuple[torch.device, torch.device]]:
    """Two xpu devices: see --xpu-devices. The test is skipped where there are fewer."""
    first, second = _devices(2)
    yield first, second


def _devices(count: int) -> list[torch.device]:
    import torch

    there = torch.xpu.device_count() if torch.xpu.is_available() else 0
    if there < count:
        hint = "run pytest with --xpu" if count == 1 else "run pytest with --xpu-devices 2"
        pytest.skip(
            f"needs {count} xpu device{'s' if count > 1 else ''}, there {'is' if there == 1 else 'are'} {there}: {hint}"
        )
    return [torch.device("xpu", index) for index in range(count)]
