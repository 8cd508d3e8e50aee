"""Attention of tensors that torch shares over devices: ring attention of context parallelism, heads shared by DTensor."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ranks

BEGIN = """
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
torch.xpu.set_device(rank)
group(60)
mesh = init_device_mesh("xpu", (ranks,))
torch.manual_seed(0)
operands = [torch.randn(2, 4, 64, 16) for _ in range(3)]
alone = [t.clone().requires_grad_() for t in operands]
"""
RING = """
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._context_parallel import _attention
_attention._cp_options.enable_load_balance = CAUSAL
want = F.scaled_dot_product_attention(*alone, is_causal=CAUSAL)
want.sum().backward()
own = [t.to("xpu") for t in operands]
with context_parallel(mesh, buffers=own, buffer_seq_dims=[2, 2, 2]):
    for t in own:
        t.requires_grad_()
    result = F.scaled_dot_product_attention(*own, is_causal=CAUSAL)
    assert result.shape[2] == 64 // ranks
    result.sum().backward()
    whole = _attention.context_parallel_unshard(mesh, [result.detach(), *(t.grad for t in own)], [2] * 4)
    for t in own:
        t.requires_grad_(False)
for got, right in zip(whole, [want.detach(), *(t.grad for t in alone)]):
    torch.testing.assert_close(got.cpu(), right, atol=5e-6, rtol=1e-4)
"""
HEADS = """
from torch.distributed.tensor import Shard, distribute_tensor
want = F.scaled_dot_product_attention(*alone, is_causal=CAUSAL)
want.square().sum().backward()
own = [distribute_tensor(t.to("xpu"), mesh, [Shard(1)]).requires_grad_() for t in operands]
result = F.scaled_dot_product_attention(*own, is_causal=CAUSAL)
result.square().sum().backward()
for got, right in zip([result, *(t.grad for t in own)], [want.detach(), *(t.grad for t in alone)]):
    torch.testing.assert_close(got.full_tensor().detach().cpu(), right, atol=5e-6, rtol=1e-4)
"""
END = """
dist.destroy_process_group()
print("done")
"""


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("body", [RING, HEADS], ids=["ring", "heads"])
@pytest.mark.parametrize("number", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_attention_of_devices(tmp_path: Path, body: str, causal: bool, number: int) -> None:
    code = BEGIN + body.replace("CAUSAL", str(causal)) + END
    for process in ranks.start_code(tmp_path, code, ranks=number, XPU_OPS_CPU_DEVICES=str(number), OMP_NUM_THREADS="1"):
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0 and out.strip() == "done", err[-3000:]
