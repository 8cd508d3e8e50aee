#!/usr/bin/env bash
# torch.compile on the CPU: index_put, index_add and index_fill of an expanded tensor, out of place, change all rows, since Inductor's pass
# "reinplace" writes into the expanded tensor itself. scatter_add is right. And x * 0, with a whole number, is 0 where x is infinite or NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
"$folder/venv/bin/python" -W ignore - <<'P'
import torch

row, index, values = torch.zeros(2), torch.tensor([1]), torch.tensor([[5.0, 6.0]])


def wrong(f):
    def g(x, i, v):
        return f((x + 1).expand(3, 2), i, v)

    return not torch.equal(torch.compile(g)(row, index, values), g(row, index, values))


found = {
    "index_put": wrong(lambda x, i, v: x.index_put((i,), v)),
    "index_add": wrong(lambda x, i, v: x.index_add(0, i, v)),
    "index_fill": wrong(lambda x, i, v: x.index_fill(0, i, 5.0)),
    "scatter_add": wrong(lambda x, i, v: x.scatter_add(0, i[:, None], v)),
}
zero = {str(z): torch.compile(lambda x, z=z: x * z)(torch.tensor([float("inf"), float("nan")])).tolist() for z in (0, 0.0)}
print(f"torch {torch.__version__}: wrong {found}; inf and nan times {zero}")
assert found == {"index_put": True, "index_add": True, "index_fill": True, "scatter_add": False}
assert zero["0"] == [0, 0] and all(z != z for z in zero["0.0"])
P
