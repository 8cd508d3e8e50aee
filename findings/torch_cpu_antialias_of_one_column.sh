#!/usr/bin/env bash
# torch 2.13 on a CPU, interpolate(..., antialias=True) of images one column wide: every row of the result is the first, and nothing is
# raised. An image whose two columns are the same has the right rows.
#
# Seen, rows 0 to 7 (contiguous, float32) resized to 4 rows by bilinear, as one column and as two:
#   1 column    [0.714, 0.714, 0.714, 0.714]
#   2 columns   [0.714, 2.5, 4.5, 6.286]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P' | tee "$folder/seen"
import torch


def rows(columns):
    x = torch.arange(8.0).reshape(1, 1, 8, 1).repeat(1, 1, 1, columns)
    return torch.nn.functional.interpolate(x, size=(4, columns), mode="bilinear", antialias=True)[0, 0, :, 0].tolist()


print(1, [round(v, 3) for v in rows(1)])
print(2, [round(v, 3) for v in rows(2)])
P
diff "$folder/seen" - <<'W'
1 [0.714, 0.714, 0.714, 0.714]
2 [0.714, 2.5, 4.5, 6.286]
W
