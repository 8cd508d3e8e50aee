"""The platform that vLLM asks about the device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from vllm.logger import init_logger
from vllm.platforms.interface import Platform, PlatformEnum

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.config.kernel import IrOpPriorityConfig

logger = init_logger("vllm.xpu_ops")


class XpuPlatform(Platform):
    """Devices of torch.xpu as xpu_ops gives them."""

    _enum = PlatformEnum.OOT
    device_name: str = "xpu"
    device_type: str = "xpu"
    dispatch_key: str = "XPU"
    dist_backend: str = "xccl"
    simple_compile_backend: str = "eager"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return torch.xpu.get_device_name(device_id)

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        return str(device_id)

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        return torch.xpu.get_device_properties(device_id).total_memory

    @classmethod
    def get_current_memory_usage(cls, device: Any = None) -> float:
        torch.xpu.reset_peak_memory_stats(device)
        return torch.xpu.max_memory_allocated(device)

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        torch.xpu.set_device(device)

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        torch.xpu.manual_seed_all(seed)

    @classmethod
    def device_count(cls) -> int:
        return torch.xpu.device_count()

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        return torch.xpu.get_device_properties(device_id).max_compute_units

    @classmethod
    def inference_mode(cls) -> Any:
        return torch.no_grad()

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        if dtype not in (torch.bfloat16, torch.float16, torch.float32):
            raise ValueError(f"xpu_ops.vllm serves bfloat16, float16 and float32, not {dtype}")

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        if parser is None:  # the command line needs the names alone, which vLLM has
            import xpu_ops.vllm.quantised  # noqa: F401

    @classmethod
    def verify_quantization(cls, quant: str) -> None:
        from xpu_ops.vllm.quantised import METHODS

        if quant not in METHODS:
            raise ValueError(
                f"xpu_ops.vllm does not serve weights of {quant}; XPU_OPS_VLLM=0 takes vLLM's own CPU platform"
            )

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        return False

    @classmethod
    def opaque_attention_op(cls) -> bool:
        return True

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        return True

    @classmethod
    def check_runner_kv_caches_multi_layer(cls) -> None:
        return None

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "vllm.distributed.device_communicators.xpu_communicator.XpuCommunicator"

    @classmethod
    def import_kernels(cls) -> None:
        """No kernels of vLLM's own."""

    @classmethod
    def import_ir_kernels(cls) -> None:
        import xpu_ops.vllm.layers  # noqa: F401

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: VllmConfig) -> IrOpPriorityConfig:
        from vllm.config.kernel import IrOpPriorityConfig

        return IrOpPriorityConfig.with_default(["xpu_ops", "native"], gelu_and_mul_sparse=["native"])

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        from vllm.triton_utils.dispatcher import register_kernels

        from xpu_ops.vllm.worker import compute_slots

        register_kernels({"vllm.v1.worker.block_table.ComputeSlotMappingKernel.kernel": compute_slots})

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        config = attn_selector_config
        for name, given in (("MLA", config.use_mla), ("sparse attention", config.use_sparse)):
            if given:
                raise NotImplementedError(
                    f"xpu_ops.vllm does not serve {name}; XPU_OPS_VLLM=0 takes vLLM's own CPU platform"
                )
        return "xpu_ops.vllm.attention.XpuAttentionBackend"

    @classmethod
    def get_compile_backend(cls) -> str:
        return "inductor"

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: VllmConfig) -> None:
        operators = vllm_config.compilation_config.custom_ops
        if not {"all", "none"} & set(operators):
            operators.append("all")  # fused operators stay so in a compiled model

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        from vllm.config import CompilationMode, CUDAGraphMode

        compilation, parallel = vllm_config.compilation_config, vllm_config.parallel_config
        if parallel.worker_cls == "auto":
            parallel.worker_cls = "xpu_ops.vllm.worker.XpuWorker"
        compilation.cudagraph_mode = CUDAGraphMode.NONE
        if vllm_config.lora_config is not None:
            compilation.mode = CompilationMode.NONE
        if compilation.mode == CompilationMode.VLLM_COMPILE:
            # One graph for all numbers of tokens. vLLM's own way cuts it at each layer's attention, for graphs of CUDA.
            compilation.mode = CompilationMode.DYNAMO_TRACE_ONCE
        if compilation.mode != CompilationMode.NONE:
            compilation.ir_enable_torch_wrap = False
            compilation.inductor_compile_config |= {"size_asserts": False, "nan_asserts": False}
        if compilation.compile_sizes is None:
            compilation.compile_sizes = []
        vllm_config.scheduler_config.async_scheduling = False
        # A graph that vLLM has stored does not load again; Inductor's own cache keeps its kernels.
        os.environ.setdefault("VLLM_USE_AOT_COMPILE", "0")
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
