#!/usr/bin/env bash
# torch.linalg.lu_solve on torch's CPU: of factors with a dimension of size 1 from unsqueeze, only the first matrix is solved right. The kernel
# steps from matrix to matrix by the stride of that dimension, which is that of a column. vmap puts such a dimension there, so Jacobians are
# wrong, too: vmap(jacfwd(torch.linalg.det)).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P'
import torch
from torch.func import jacfwd, jacrev, vmap

torch.manual_seed(0)
a = torch.randn(3, 4, 4, dtype=torch.float64)
b = torch.randn(3, 1, 4, 2, dtype=torch.float64)
factors, pivots = torch.linalg.lu_factor(a)
right = torch.linalg.solve(a[:, None], b)


def wrong(factors, pivots):
    x = torch.linalg.lu_solve(factors, pivots, b)
    return [not torch.allclose(p, q) for p, q in zip(x, right)]


unsqueezed = wrong(factors[:, None], pivots[:, None])
reshaped = wrong(factors[:, None].contiguous(), pivots[:, None])
first, second = (vmap(jac(torch.linalg.det))(a) for jac in (jacfwd, jacrev))
jacobians = [not torch.allclose(p, q) for p, q in zip(first, second)]
print(f"torch {torch.__version__}: wrong are {unsqueezed} of unsqueezed factors, {reshaped} of contiguous ones, {jacobians} of Jacobians")
assert not any(reshaped) and unsqueezed == [False, True, True] and jacobians == [False, True, True]
P
