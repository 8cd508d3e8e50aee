"""vLLM's worker: the device of a rank, its memory and its model runner."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from vllm.config import set_current_vllm_config
from vllm.logger import init_logger
from vllm.utils.mem_utils import MemorySnapshot, format_gib
from vllm.utils.torch_utils import set_random_seed
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
from vllm.v1.worker.gpu_worker import Worker, init_worker_distributed_environment
from vllm.v1.worker.worker_base import CompilationTimes

from xpu_ops.vllm import paging

logger = init_logger("vllm.xpu_ops")


def compute_slots(
    num_tokens: int,
    max_num_tokens: int,
    query_start_loc: Tensor,
    positions: Tensor,
    block_table: Tensor,
    block_table_stride: int,
    slot_mapping: Tensor,
    KV_CACHE_BLOCK_SIZE: int,
    TOTAL_CP_WORLD_SIZE: int = 1,
    TOTAL_CP_RANK: int = 0,
    CP_KV_CACHE_INTERLEAVE_SIZE: int = 1,
    PAD_ID: int = -1,
    BLOCK_SIZE: int = 1024,
) -> None:
    """In the place of vLLM's Triton kernel of this signature; tokens past the last go to page 0, which no sequence has."""
    if TOTAL_CP_WORLD_SIZE != 1:
        raise NotImplementedError("xpu_ops.vllm does not serve context parallelism")
    paging.slots(
        query_start_loc, positions[:num_tokens], block_table, KV_CACHE_BLOCK_SIZE, slot_mapping[:max_num_tokens]
    )


class XpuModelRunner(GPUModelRunner):
    """The runner of vLLM without streams of CUDA."""

    def _sync_device(self) -> None:
        torch.xpu.synchronize(self.device)


class XpuWorker(Worker):
    """One device of torch.xpu."""

    def init_device(self) -> None:
        from vllm.platforms import current_platform

        count = torch.xpu.device_count()
        if self.local_rank >= count:
            raise ValueError(
                f"worker {self.local_rank} needs a device of its own, and torch.xpu has {count}; XPU_OPS_CPU_DEVICES=n gives n"
            )
        self.device = torch.device("xpu", self.local_rank)
        torch.xpu.set_device(self.device)
        current_platform.check_if_supports_dtype(self.model_config.dtype)
        self.parallel_config.disable_custom_all_reduce = True
        init_worker_distributed_environment(
            self.vllm_config, self.rank, self.distributed_init_method, self.local_rank, current_platform.dist_backend
        )
        set_random_seed(self.model_config.seed)
        gc.collect()
        torch.xpu.empty_cache()
        self.init_snapshot = MemorySnapshot(device=self.device)
        self.requested_memory = int(self.init_snapshot.free_memory * self.cache_config.gpu_memory_utilization)
        self._init_workspace_and_model_runner()

    def _make_model_runner(self) -> Any:
        return XpuModelRunner(self.vllm_config, self.device)

    def _maybe_get_memory_pool_context(self, tag: str) -> AbstractContextManager[None]:
        return nullcontext()

    @torch.inference_mode()
    def determine_available_memory(self) -> int:
        """Bytes for keys and values: what the user said, or the share of the free memory less what a full step takes.

        The CPU device's memory is the machine's, which other processes take and give back: its own counters tell a step's need.
        """
        torch.xpu.reset_peak_memory_stats(self.device)
        held = torch.xpu.memory_allocated(self.device)
        with set_current_vllm_config(self.vllm_config):
            self.model_runner.profile_run()
        torch.xpu.synchronize(self.device)
        peak = torch.xpu.max_memory_allocated(self.device)
        torch.xpu.empty_cache()
        given = self.cache_config.kv_cache_memory_bytes
        room = given or self.requested_memory - peak
        if room <= 0:
            raise ValueError(
                f"a step takes {format_gib(peak)} GiB and gpu_memory_utilization leaves {format_gib(self.requested_memory)} GiB: "
                "raise it, or lower max_num_batched_tokens"
            )
        logger.info(
            "Memory of %s: weights %s GiB, a full step %s GiB, keys and values %s GiB.",
            self.device, format_gib(held), format_gib(peak - held), format_gib(room),
        )  # fmt: skip
        return room

    def compile_or_warm_up_model(self) -> CompilationTimes:
        """The profiled step has compiled the model and loaded the kernels."""
        set_random_seed(self.model_config.seed, self.parallel_config.data_parallel_index)
        return CompilationTimes(language_model=0.0, encoder=0.0)
