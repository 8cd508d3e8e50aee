#!/usr/bin/env bash
# torch 2.13 on a CPU with AVX2, cosh and sinh of float32: whole blocks of 16 elements overflow from 88.73 on, where exp(x) does, although
# half of it is a float32 up to 89.41. What is left over behind the last block is right. So one tensor has infinity and 2.24e38 for the
# same 89, and slicing or reshaping in pieces changes values. Without vectors (ATEN_CPU_CAPABILITY=default) every element is right.
#
# Seen, elements that are infinite of a tensor full of 89:
#   avx2      cosh 0 of 15, 16 of 16, 48 of 56; sinh the same
#   default   none
set -euo pipefail
grep -q avx2 /proc/cpuinfo || { echo "not a processor with AVX2" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
for capability in avx2 default; do
  ATEN_CPU_CAPABILITY=$capability "$folder/venv/bin/python" -W ignore - $capability <<'P'
import sys

import torch

exact = torch.tensor(89.0, dtype=torch.float64).cosh().float()
for function in (torch.cosh, torch.sinh):
    counts = []
    for n in (15, 16, 56):
        found = function(torch.full((n,), 89.0))
        counts.append(found.isinf().sum().item())
        torch.testing.assert_close(found[found.isfinite()], exact.expand(n - counts[-1]), rtol=1e-6, atol=0)
    print(sys.argv[1], function.__name__, counts)
P
done | tee "$folder/seen"
diff "$folder/seen" - <<'W'
avx2 cosh [0, 16, 48]
avx2 sinh [0, 16, 48]
default cosh [0, 0, 0]
default sinh [0, 0, 0]
W
