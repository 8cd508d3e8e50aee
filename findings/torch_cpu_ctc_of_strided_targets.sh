#!/usr/bin/env bash
# ctc_loss on torch's CPU: concatenated targets that step through memory are read from wrong places. xpu reads them right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P'
import torch
import torch.nn.functional as F

torch.manual_seed(0)
log_probs, targets = torch.randn(50, 2, 15).log_softmax(2), torch.randint(1, 15, (40,))
steps = torch.stack([targets, targets % 14 + 1], 1)[:, 0]
assert torch.equal(steps, targets)
lengths = torch.tensor([50, 50]), torch.tensor([20, 20])
dense, strided = (F.ctc_loss(log_probs, t, *lengths, reduction="none") for t in (targets, steps))
print(f"torch {torch.__version__}: {dense.tolist()} of dense targets, {strided.tolist()} of the same ones in steps of two")
assert dense[0] == strided[0] and dense[1] != strided[1]
P
