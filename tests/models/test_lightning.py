"""Lightning's Trainer and Fabric find the device by every name, and train as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import xpu_ops

L = pytest.importorskip("lightning")
pytestmark = pytest.mark.filterwarnings("ignore")


class Classifier(L.LightningModule):
    """One linear layer on drawn data; `seen` are the devices of its batches."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 2)
        self.seen: set[str] = set()

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        x, y = batch
        self.seen.add(x.device.type)
        return torch.nn.functional.cross_entropy(self.layer(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def trained(accelerator: str, **options: Any) -> Classifier:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 8, generator=generator), torch.randint(0, 2, (64,), generator=generator)
    model = Classifier()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = L.Trainer(accelerator=accelerator, devices=1, max_epochs=1, **quiet, **options)
    trainer.fit(model, DataLoader(TensorDataset(x, y), 16))
    return model


@pytest.mark.parametrize("accelerator", ["auto", "xpu", "gpu"])
def test_trainer(accelerator: str) -> None:
    """Lightning's Trainer takes `auto`, `xpu` and `gpu`, and trains to the weights of the CPU."""
    with xpu_ops.fallback.forbid():
        model = trained(accelerator)
    assert model.seen == {"xpu"}
    torch.testing.assert_close(model.layer.weight.cpu(), trained("cpu").layer.weight)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_runs_under_autocast_of_the_device(precision: str) -> None:
    """Lightning's `bf16-mixed` and `16-mixed` precisions."""
    model = trained("xpu", precision=precision)
    torch.testing.assert_close(model.layer.weight.cpu(), trained("cpu").layer.weight, atol=2e-2, rtol=0)


def test_fabric() -> None:
    """Lightning Fabric finds the device and sets up a model."""
    fabric = L.Fabric(accelerator="auto", precision="bf16-mixed")
    layer = fabric.setup(torch.nn.Linear(8, 2))
    assert fabric.device == torch.device("xpu", 0)
    assert layer(torch.ones(3, 8, device="xpu")).shape == (3, 2)


@pytest.mark.parametrize(("devices", "message"), [([7], "there are"), ([0, 0], "must be unique")])
def test_devices_that_are_not_there(devices: list[int], message: str) -> None:
    """A device that is not there is refused with a sentence."""
    with pytest.raises(ValueError, match=message):
        L.Trainer(accelerator="xpu", devices=devices, logger=False)
