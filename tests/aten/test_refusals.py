"""Types that an operator has no kernel for: the error has the type and the text of the CPU's."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F


def bag(weight: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(torch.tensor([[1, 2]], device=weight.device), weight)


CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu_": torch.relu_,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "exponential_": lambda x: x.exponential_(),
    "bernoulli": torch.bernoulli,
    "dropout": lambda x: F.dropout(x, 0.5),
    "embedding_bag": bag,
}
BOOL = ("relu", "relu_", "hardtanh", "relu6")
CASES = [(name, torch.bool) for name in CALLS] + [
    (name, t) for name in CALLS if name not in BOOL for t in (torch.int64, torch.int32, torch.uint8)
]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_the_error_is_the_cpus(name: str, dtype: torch.dtype) -> None:
    x = torch.ones(4, 3).to(dtype)
    with pytest.raises(Exception) as wanted:  # whichever the CPU raises
        CALLS[name](x.clone())
    with pytest.raises(type(wanted.value)) as got:
        CALLS[name](x.to("xpu"))
    assert type(got.value) is type(wanted.value)
    # Behind "but got" stands a name of the tensor's type that both devices spell in their own way.
    texts = [re.split(r"\n|; but got", str(e.value))[0].replace("XPU", "CPU") for e in (got, wanted)]
    assert texts[0] == texts[1]
