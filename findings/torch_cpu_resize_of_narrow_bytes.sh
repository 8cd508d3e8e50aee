#!/usr/bin/env bash
# interpolate() of uint8 images on torch's CPU: five channels or more that are one pixel wide come out wrong, where four do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P'
import torch
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.randint(0, 256, (2, 5, 39, 1), dtype=torch.uint8)


def error(x):
    kwargs = dict(size=(35, 1), mode="bilinear", antialias=False)
    return (F.interpolate(x, **kwargs).float() - F.interpolate(x.float(), **kwargs)).abs().max().item()


four, five, last = error(x[:, :4].contiguous()), error(x), error(x.contiguous(memory_format=torch.channels_last))
print(f"torch {torch.__version__}: off by {four:.2f} of four channels, {five:.2f} of five, {last:.2f} of five channels-last")
assert four < 1 and last < 1 and five > 50
P
