"""python -m xpu_ops.coverage: the same as `xpu-ops coverage`."""

from __future__ import annotations

from .commands import app

if __name__ == "__main__":
    app(prog_name="xpu-ops coverage")
