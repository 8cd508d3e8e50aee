"""One process of support.ranks: runs the functions check_* of a program, in order, and prints what failed as JSON.

For one of them by hand: RANK=0 WORLD_SIZE=1 python rank_worker.py PROGRAM FILE CHECK.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def main(path: str, rendezvous: str, *only: str) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where `support` is
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    program: Any = importlib.util.module_from_spec(spec)
    sys.modules["program"] = program
    spec.loader.exec_module(program)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if (count := torch.xpu.device_count()) > 1:
        torch.xpu.set_device(rank % count)
    dist.init_process_group(
        getattr(program, "BACKEND", "cpu:gloo,xpu:xccl"),
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=getattr(program, "TIMEOUT", 60)),
    )
    outcome: dict[str, str] = {}
    for name, check in list(vars(program).items()):
        if not name.startswith("check_"):
            continue
        try:
            torch.manual_seed(0)
            check(rank)
            outcome[name] = ""
        except Exception:
            # The other ranks may wait for this one: the rest cannot run.
            outcome[name] = traceback.format_exc()
            break
    print(json.dumps(outcome), flush=True)
    if all(not message for message in outcome.values()):
        dist.destroy_process_group()
    else:
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
