"""Exports a model for run_model.cpp: python export.py [model.pt2]."""

import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.norm(x + self.down(nn.functional.gelu(self.up(x)))), -1)


path = sys.argv[1] if len(sys.argv) > 1 else "model.pt2"
torch.manual_seed(0)
model = Model().eval().to("xpu")
x = torch.ones(4, 64, device="xpu")
with torch.no_grad():
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=4096)},))
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    expected = model(x).sum().item()
    again = torch._inductor.aoti_load_package(path)(x).sum().item()
print(f"{path}: sum {again:.6g}, of the model itself {expected:.6g}")
