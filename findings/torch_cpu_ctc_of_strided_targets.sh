#!/usr/bin/env bash
# torch 2.13, ctc_loss on the CPU: where the targets of all sequences are concatenated into one tensor that steps through memory, the
# first sequence is read right, and each later one from a place that the step was forgotten for. The loss is wrong without an error.
#
# Seen, losses of two sequences of 20 labels: 106.26 and 95.11 of dense targets, 106.26 and 94.84 of equal ones in steps of two.
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
