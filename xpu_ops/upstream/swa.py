"""Averaged models of torch.optim.swa_utils. Runs after torch.optim.swa_utils."""

from __future__ import annotations

import functools
from typing import Any

import torch

from xpu_ops.upstream.registry import replaces


@replaces(
    "torch.optim.swa_utils.get_swa_multi_avg_fn",
    since="2.13",
    why="of integer buffers, such as the count of batch norm, it asks addcdiv, which refuses integers; CPU models take another way",
    test="tests/models/test_ecosystem.py::test_averaged_models",
)
def average_integers(upstream: Any) -> Any:
    @functools.wraps(upstream)
    def get_swa_multi_avg_fn() -> Any:
        average = upstream()

        @functools.wraps(average)
        @torch.no_grad()
        def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
            first = averaged_param_list[0]
            if first.device.type != "xpu" or first.is_floating_point() or first.is_complex():
                average(averaged_param_list, current_param_list, num_averaged)
                return
            for averaged, current in zip(averaged_param_list, current_param_list, strict=True):
                averaged.copy_(averaged + (current - averaged) / (num_averaged + 1))

        return swa_update

    return get_swa_multi_avg_fn
