#!/usr/bin/env bash
# torch 2.13 on a CPU, torch._int_mm of two int8 matrices: exact where the processor has instructions that sum four products of bytes
# in 32 bits (VNNI), wrong with AVX2 alone. oneDNN then adds two products in 16 bits, where they saturate, and nothing is raised: the
# result says int32. Quantized layers that go through it lose large values on such machines only. Small values are right.
# The variable ONEDNN_MAX_CPU_ISA makes a processor with AVX-512 and VNNI compute as one with AVX2.
#
# Seen, 32 x 64 times 64 x 32, every element 127 (exact: 1032256) or 7 (exact: 3136):
#   AVX512_CORE_VNNI   1032256 and 3136
#   AVX2               8160 and 3136
set -euo pipefail
grep -q avx512_vnni /proc/cpuinfo || { echo "not a processor with AVX512-VNNI" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
for isa in AVX512_CORE_VNNI AVX2; do
  ONEDNN_MAX_CPU_ISA=$isa "$folder/venv/bin/python" -W ignore - $isa <<'P'
import sys

import torch


def element(value):
    left, right = (torch.full(shape, value, dtype=torch.int8) for shape in [(32, 64), (64, 32)])
    return torch._int_mm(left, right).unique().tolist()


print(sys.argv[1], element(127), element(7))
P
done | tee "$folder/seen"
diff "$folder/seen" - <<'W'
AVX512_CORE_VNNI [1032256] [3136]
AVX2 [8160] [3136]
W
