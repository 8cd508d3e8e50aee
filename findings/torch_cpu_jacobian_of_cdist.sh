#!/usr/bin/env bash
# torch 2.13, torch.func.jacrev(torch.cdist) on the CPU: vmap over the gradient alone, with points that are not batched, repeats the first
# row of the Jacobian. With chunk_size=1, one gradient at a time, it is right.
#
# Seen: the Jacobian of 3 x 5 distances is off by 0.96.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P'
import torch

torch.manual_seed(0)
x, y = torch.randn(3, 4), torch.randn(5, 4)
wrong = torch.func.jacrev(torch.cdist)(x, y)
right = torch.func.jacrev(torch.cdist, chunk_size=1)(x, y)
print(f"torch {torch.__version__}: the Jacobian of cdist is off by {(wrong - right).abs().max():.2f}")
assert torch.equal(wrong[0, 0], right[0, 0])
assert not torch.allclose(wrong, right)
P
