#!/usr/bin/env bash
# torch 2.13 on a CPU, the gradient of instance_norm for one image: where the gradient of its result is channels last, that of its input is
# wrong, and nothing is raised. A channels-last convolution behind the norm is enough. Two images are right, and so is a contiguous gradient.
#
# Seen, the largest difference of gradients between a channels-last and a contiguous convolution (float64, 3 channels of 4 x 4):
#   1 image    above 0.1
#   2 images   below 1e-12
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P' | tee "$folder/seen"
import torch

torch.manual_seed(0)
convolution = torch.nn.Conv2d(3, 3, 1, dtype=torch.float64)


def gradient(x, layout):
    leaf = x.clone().requires_grad_()
    convolution.to(memory_format=layout)(torch.nn.functional.instance_norm(leaf)).square().sum().backward()
    return leaf.grad


for images in (1, 2):
    x = torch.randn(images, 3, 4, 4, dtype=torch.float64)
    apart = (gradient(x, torch.channels_last) - gradient(x, torch.contiguous_format)).abs().max().item()
    print(images, "differs" if apart > 0.1 else "same" if apart < 1e-12 else apart)
P
diff "$folder/seen" - <<'W'
1 differs
2 same
W
