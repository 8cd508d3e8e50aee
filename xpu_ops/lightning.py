"""Lightning's door: `Trainer(accelerator="xpu")`, `Fabric(accelerator="xpu")`, and "auto" and "gpu" that find the device.

Lightning knows CUDA, MPS and XLA by name. `install` registers an accelerator and teaches the places that ask for a name:
the choice of "auto" and "gpu", the strategy of one device, the device of mixed precision and the device ids of DDP.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import torch

__all__ = ["install"]

# Module whose import completes Lightning's part -> the package above it. Both distributions of the Trainer are served.
CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning.pytorch",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "pytorch_lightning",
    "lightning.fabric.connector": "lightning.fabric",
    "lightning_fabric.connector": "lightning_fabric",
}


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


def _first(*candidates: tuple[Any, str]) -> Any:
    return next(getattr(owner, name) for owner, name in candidates if hasattr(owner, name))


def _teach_connector(connector: ModuleType, accelerator: type) -> None:
    cls = _first((connector, "_AcceleratorConnector"), (connector, "_Connector"))
    auto, gpu = cls._choose_auto_accelerator, cls._choose_gpu_accelerator_backend
    strategy, precision = cls._choose_strategy, cls._check_and_init_precision

    def choose_auto() -> str:
        found = auto()
        return "xpu" if found == "cpu" and torch.xpu.is_available() else found

    def choose_gpu() -> str:
        return "xpu" if torch.xpu.is_available() else gpu()

    def choose_strategy(self: Any) -> Any:
        devices = self._parallel_devices
        chosen = strategy(self)
        if isinstance(self.accelerator, accelerator) and isinstance(chosen, connector.SingleDeviceStrategy):
            return connector.SingleDeviceStrategy(device=devices[0])
        return chosen

    def check_and_init_precision(self: Any) -> Any:
        chosen = precision(self)
        if isinstance(self.accelerator, accelerator) and type(chosen) is connector.MixedPrecision:
            scaler = chosen.scaler and torch.amp.GradScaler("xpu")
            return connector.MixedPrecision(chosen.precision, "xpu", scaler)
        return chosen

    cls._choose_auto_accelerator = staticmethod(choose_auto)
    cls._choose_gpu_accelerator_backend = staticmethod(choose_gpu)
    cls._choose_strategy = choose_strategy
    cls._check_and_init_precision = check_and_init_precision


def _teach_ddp(cls: type, name: str) -> None:
    """DDP on xpu takes its device from the module: Lightning opens a CUDA stream where it names device ids."""
    original = getattr(cls, name)

    def device_ids(self: Any) -> list[int] | None:
        return None if self.root_device.type == "xpu" else original(self)

    setattr(cls, name, device_ids)


def install(connector: ModuleType) -> None:
    """Teach one of Lightning's packages the xpu device, once its module `connector` of CONNECTORS is imported."""
    package = CONNECTORS[connector.__name__]
    accelerators = importlib.import_module(f"{package}.accelerators")
    registry = _first((accelerators, "AcceleratorRegistry"), (accelerators, "ACCELERATOR_REGISTRY"))
    if "xpu" in registry:  # a Lightning that knows the device
        return
    accelerator = _accelerator_class(accelerators.Accelerator)
    registry.register("xpu", accelerator, description="XPUAccelerator")
    _teach_connector(connector, accelerator)
    ddp = importlib.import_module(f"{package}.strategies.ddp").DDPStrategy
    _teach_ddp(ddp, next(n for n in ("determine_ddp_device_ids", "_determine_ddp_device_ids") if hasattr(ddp, n)))
