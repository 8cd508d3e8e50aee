"""Lightning: `Trainer(accelerator="xpu")`, `Fabric(accelerator="xpu")`, and "auto" and "gpu" that find the device.

Lightning knows CUDA, MPS and XLA by name. `install` registers an accelerator and teaches the places that ask for a name:
the choice of "auto" and "gpu", the strategy of one device, the device of mixed precision and the device ids of DDP.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

from xpu_ops.upstream.registry import apply, replaces

# Module whose import completes Lightning's part -> the package above it. Both distributions of the Trainer are served.
CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning.pytorch",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "pytorch_lightning",
    "lightning.fabric.connector": "lightning.fabric",
    "lightning_fabric.connector": "lightning_fabric",
}
_TRAINER, _FABRIC = ("lightning.pytorch", "pytorch_lightning"), ("lightning.fabric", "lightning_fabric")
_accelerators: list[type] = []


def _in_connectors(name: str) -> tuple[str, ...]:
    """A method of Lightning's connector, in each package."""
    classes = dict.fromkeys(_TRAINER, "_AcceleratorConnector") | dict.fromkeys(_FABRIC, "_Connector")
    return tuple(f"{module}.{classes[package]}.{name}" for module, package in CONNECTORS.items())


def _accelerator_class(base: type) -> type:
    class XPUAccelerator(base):
        """Devices of torch.xpu for Lightning."""

        def setup_device(self, device: torch.device) -> None:
            """Make `device` the current one. Raises ValueError where it is no xpu device."""
            if device.type != "xpu":
                raise ValueError(f"Device should be XPU, got {device} instead.")
            torch.xpu.set_device(device)

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Statistics of the caching allocator, see torch.xpu.memory_stats."""
            return dict(torch.xpu.memory_stats(device))

        def teardown(self) -> None:
            """Return cached memory to the driver."""
            torch.xpu.empty_cache()

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            """Device indices from Lightning's forms: a number, -1 for all, a list, or a comma-separated string."""
            if isinstance(devices, str):
                parts = [int(x) for x in devices.split(",") if x.strip()]
                devices = parts if "," in devices else parts[0]
            count = torch.xpu.device_count()
            if isinstance(devices, int):
                devices = list(range(count if devices == -1 else devices))
            chosen = list(devices)
            if absent := [i for i in chosen if not 0 <= i < count]:
                raise ValueError(f"You requested xpu devices {absent}, but there are {count}.")
            if len(set(chosen)) != len(chosen):
                raise ValueError("Device IDs (XPU) must be unique.")
            return chosen

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device("xpu", i) for i in devices]

        @staticmethod
        def auto_device_count() -> int:
            return torch.xpu.device_count()

        @staticmethod
        def is_available() -> bool:
            return torch.xpu.is_available()

        @staticmethod
        def name() -> str:
            return "xpu"

    return XPUAccelerator


def _is_ours(accelerator: Any) -> bool:
    return isinstance(accelerator, tuple(_accelerators))


@replaces(
    *_in_connectors("_choose_auto_accelerator"),
    since="2.6",
    why='"auto" finds the device',
    test="tests/models/test_lightning.py::test_trainer",
)
def choose_auto(upstream: Any) -> Any:
    def choose() -> str:
        found = upstream()
        return "xpu" if found == "cpu" and torch.xpu.is_available() else found

    return choose


@replaces(
    *_in_connectors("_choose_gpu_accelerator_backend"),
    since="2.6",
    why='"gpu" finds the device',
    test="tests/models/test_lightning.py::test_trainer",
)
def choose_gpu(upstream: Any) -> Any:
    def choose() -> str:
        return "xpu" if torch.xpu.is_available() else upstream()

    return choose


@replaces(
    *_in_connectors("_choose_strategy"),
    since="2.6",
    why="the strategy of one device is chosen by the names of CUDA, MPS and XLA",
    test="tests/models/test_lightning.py::test_trainer",
)
def choose_strategy(upstream: Any) -> Any:
    connector = sys.modules[upstream.__module__]

    def choose(self: Any) -> Any:
        devices = self._parallel_devices
        chosen = upstream(self)
        if _is_ours(self.accelerator) and isinstance(chosen, connector.SingleDeviceStrategy):
            return connector.SingleDeviceStrategy(device=devices[0])
        return chosen

    return choose


@replaces(
    *_in_connectors("_check_and_init_precision"),
    since="2.6",
    why="mixed precision is made for CUDA or the CPU",
    test="tests/models/test_lightning.py::test_mixed_precision_runs_under_autocast_of_the_device",
)
def check_and_init_precision(upstream: Any) -> Any:
    connector = sys.modules[upstream.__module__]

    def check(self: Any) -> Any:
        chosen = upstream(self)
        if _is_ours(self.accelerator) and type(chosen) is connector.MixedPrecision:
            scaler = chosen.scaler and torch.amp.GradScaler("xpu")
            return connector.MixedPrecision(chosen.precision, "xpu", scaler)
        return chosen

    return check


@replaces(
    *(f"{package}.strategies.ddp.DDPStrategy.determine_ddp_device_ids" for package in _TRAINER),
    *(f"{package}.strategies.ddp.DDPStrategy._determine_ddp_device_ids" for package in _FABRIC),
    since="2.6",
    why="DDP on xpu takes its device from the module: Lightning opens a CUDA stream where it names device ids",
    test="tests/distributed/test_launched.py::test_libraries_that_find_the_group_themselves",
)
def device_ids(upstream: Any) -> Any:
    def determine(self: Any) -> list[int] | None:
        return None if self.root_device.type == "xpu" else upstream(self)

    return determine


def install(connector: ModuleType) -> None:
    """Teach one of Lightning's packages the xpu device, once its module `connector` of CONNECTORS is imported."""
    package = CONNECTORS[connector.__name__]
    accelerators = importlib.import_module(f"{package}.accelerators")
    names = ("AcceleratorRegistry", "ACCELERATOR_REGISTRY")
    registry = next(getattr(accelerators, n) for n in names if hasattr(accelerators, n))
    if "xpu" in registry:  # a Lightning that knows the device
        return
    accelerator = _accelerator_class(accelerators.Accelerator)
    _accelerators.append(accelerator)
    registry.register("xpu", accelerator, description="XPUAccelerator")
    apply("lightning", f"{package}.")
