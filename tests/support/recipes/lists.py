"""Recipes of operators over lists of tensors: foreach, gradient scaling, fused optimizers."""

from __future__ import annotations

from typing import Any

import torch

from support.manifest import rows
from support.recipe import recipe

Args = dict[str, Any]


def domain_of(name: str) -> Any:
    """That of the pointwise row whose expressions a list operator applies."""
    base = name.partition(".")[0].removeprefix("_foreach_").removesuffix("_")
    domains = [r["test"]["domain"] for r in rows() if r["op"].partition(".")[0] == base]
    return next((x for x in domains if isinstance(x, list)), None)


def foreach(d: Any) -> Args:
    """Lists of one to four tensors of any layout; further lists have the shapes of the first."""
    # Powers are the only ones that a special value makes hang on which function the CPU takes.
    domain = domain_of(d.name) or ((0.2, 3) if "pow" in d.name else (1, 5) if d.dtype == torch.uint8 else None)
    shapes = [d.any_shape() for _ in range(d.int(1, 4))]
    values: Args = {}
    # The CPU's power of a number by a tensor forgets the layout.
    kinds = {"kinds": ("contiguous",)} if d.name.endswith("ScalarAndTensor") else {}
    whole = not d.dtype.is_floating_point and not d.dtype.is_complex

    def number() -> Any:
        # One to any power the CPU fills in without looking at the layout.
        return d.pick(1, 2, 3) if whole else d.pick(0.5, 3.0 if "pow" in d.name else 1.0, 2.0)

    for i, arg in enumerate(d.schema.arguments):
        kind = str(arg.type)
        if kind == "List[Tensor]":
            values[arg.name] = [(d.own if i == 0 and d.writes else d.tensor)(s, domain=domain, **kinds) for s in shapes]
        elif kind == "List[number]":
            values[arg.name] = [number() for _ in shapes]
        elif kind == "number":
            values[arg.name] = number()
        elif kind == "Tensor":  # one number for all, or a vector of one for each
            size = (len(shapes),) if arg.name == "scalars" else ()
            values[arg.name] = d.plain(*size, low=1, high=3)
    return values


LISTS = sorted({name.partition(".")[0] for r in rows() for name in r["overloads"] if name.startswith("_foreach_")})
for name in LISTS:
    if name not in ("_foreach_copy_", "_foreach_norm"):
        recipe(name, types=("f32", "bf16", "i64", "f64", "c64"),
               bad={"scalars": [[]], "other": [[]], "tensor1": [[]]}, host=("scalars",))(foreach)  # fmt: skip


@recipe("_foreach_copy_", types=("f32", "bf16", "i64", "b8", "f64", "c64"), bad={"src": [[]]})
def foreach_copy(d: Any) -> Args:
    shapes = [d.any_shape() for _ in range(d.int(1, 4))]
    source = d.pick(d.dtype, d.dtype, torch.float32)
    return {"self": [d.own(s) for s in shapes], "src": [d.tensor(s, source, domain=(0, 5)) for s in shapes]}


@recipe("_foreach_norm")
def foreach_norm(d: Any) -> Args:
    tensors = [d.tensor(d.any_shape()) for _ in range(d.int(1, 4))]
    usable = all(t.numel() for t in tensors)  # the largest of nothing is an error that names no tensor of the list
    return {"self": tensors, "ord": d.pick(1, 2, float("inf")) if usable else d.pick(1, 2), "dtype": None}


@recipe("_amp_foreach_non_finite_check_and_unscale_", types=("f32", "bf16", "f16"))
def unscale(d: Any) -> Args:
    tensors = [d.own(d.any_shape()) for _ in range(d.int(1, 4))]
    return {
        "self": tensors,
        "found_inf": torch.tensor([float(d.int(0, 1))]),
        "inv_scale": torch.tensor([d.pick(0.5, 2.0)]),
    }


@recipe("_amp_update_scale_", types=("f32",))
def update_scale(d: Any) -> Args:
    return {"self": torch.tensor([d.pick(1.0, 65536.0)]), "growth_tracker": torch.tensor([d.int(0, 3)], dtype=torch.int32),
            "found_inf": torch.tensor([float(d.int(0, 1))]), "scale_growth_factor": 2.0, "scale_backoff_factor": 0.5,
            "growth_interval": d.int(1, 3)}  # fmt: skip


OPTIMIZERS = [f"_fused_{n}_" for n in ("adam", "adamw", "sgd", "adagrad")]


@recipe(*OPTIMIZERS, types=("f32", "bf16", "f64"))
def optimizer(d: Any) -> Args:
    shapes = [d.any_shape() for _ in range(d.int(1, 3))]

    def some(low: float = -3.0) -> list[torch.Tensor]:
        return [d.tensor(s, kinds=("contiguous",), domain=(low, 3.0)) for s in shapes]

    steps = [torch.tensor(float(d.int(1, 9))) for _ in shapes]
    rate = d.pick(0.1, 0.01)
    amsgrad, momentum = d.flag(), d.pick(0.0, 0.9)
    return {"self": some(), "grads": some(), "exp_avgs": some(), "exp_avg_sqs": some(0.1), "state_sums": some(0.1),
            "max_exp_avg_sqs": some(0.1) if amsgrad else [], "state_steps": steps, "amsgrad": amsgrad,
            "momentum_buffer_list": some() if momentum else [], "momentum": momentum, "dampening": d.pick(0.0, 0.2),
            "nesterov": momentum > 0 and d.flag(), "is_first_step": d.flag(), "maximize": d.flag(),
            "lr": torch.tensor(rate) if d.name.endswith("tensor_lr") else rate, "beta1": 0.9, "beta2": 0.99,
            "weight_decay": d.pick(0.0, 0.1), "lr_decay": d.pick(0.0, 0.1), "eps": 1e-3,
            "grad_scale": None, "found_inf": None}  # fmt: skip
