#!/usr/bin/env bash
# torch 2.13 on a CPU, torch.optim with fused=True: parameter, gradient and state are read as memory, one element after the other. Where
# their strides differ, each element is updated by the gradient of another one, and nothing is raised. A parameter that is a slice of a
# larger tensor is not updated as a whole, and the elements between its rows, which belong to others, are written. So do SGD, Adam,
# AdamW and Adagrad; fused=False is right.
#
# Seen, SGD of 2 x 3 with lr 1, parameters 0, gradients 1 to 6 (laid out by columns), then a slice of 2 x 2 in 2 x 3 with gradients 1:
#   fused=False   [-1, -2, -3, -4, -5, -6]   [-1, -1, 0, -1, -1, 0]
#   fused=True    [-1, -4, -2, -5, -3, -6]   [-1, -1, -1, -1, 0, 0]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P' | tee "$folder/seen"
import torch


def step(parameter, gradient, fused):
    parameter = torch.nn.Parameter(parameter)
    parameter.grad = gradient
    torch.optim.SGD([parameter], lr=1.0, fused=fused).step()
    return parameter.detach()


for fused in (False, True):
    columns = torch.tensor([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]).t()
    whole = torch.zeros(2, 3)
    step(whole[:, :2], torch.ones(2, 2), fused)
    print(fused, step(torch.zeros(2, 3), columns, fused).int().flatten().tolist(), whole.int().flatten().tolist())
P
diff "$folder/seen" - <<'W'
False [-1, -2, -3, -4, -5, -6] [-1, -1, 0, -1, -1, 0]
True [-1, -4, -2, -5, -3, -6] [-1, -1, -1, -1, 0, 0]
W
