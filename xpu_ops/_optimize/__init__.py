"""`xpu_ops.optimize`: fused operators and weights of few bits in an existing model."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from . import experts
from .boundary import host
from .classes import swap
from .patterns import PATTERNS, Attention, GatedUnit, Merged, Pattern
from .report import Entry, Report
from .weights import Quantized, WeightFormat, is_linear, quantize, weight_format, why_not

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Report", "WeightFormat", "optimize"]

_ATTRIBUTE = "_xpu_ops_report"
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def _error(out: Any, expected: Any) -> float:
    """The largest relative error, by norm, over the tensors of two results."""
    pairs = zip(_pytree.tree_leaves(out), _pytree.tree_leaves(expected), strict=True)
    errors = [0.0]
    for a, b in pairs:
        if isinstance(a, Tensor) and a.is_floating_point():
            wanted = b.detach().double()
            errors.append(float((a.detach().double() - wanted).norm() / wanted.norm().clamp(min=1e-30)))
    return max(errors)


def _tolerance(module: nn.Module) -> float:
    types = {p.dtype for p in module.parameters()}
    return 3e-2 if types & {torch.bfloat16, torch.float16} else 1e-4


def _run(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            out = module(*args, **kwargs)
    finally:
        module.train(training)
    return out


class _Passes:
    """One run of `optimize` over a model."""

    def __init__(self, model: nn.Module, report: Report) -> None:
        self.model, self.report = model, report
        self.tried: dict[tuple[Any, ...], str | None] = {}

    def add(self, path: str, module: nn.Module, text: str, undo: Callable[[], None]) -> None:
        self.report.replaced.append(Entry(path, type(module).__name__, text))
        self.report.steps.append(undo)

    def leave(self, path: str, module: nn.Module, reason: str) -> None:
        self.report.left.append(Entry(path, type(module).__name__, reason))

    def fuse(self) -> None:
        for pattern in PATTERNS:
            for path, module in list(self.model.named_modules()):
                if not isinstance(module, pattern.mixin) and pattern.matches(module):
                    if reason := self.refused(pattern, module):
                        self.leave(path, module, reason)
                    else:
                        self.add(path, module, pattern.name, swap(module, pattern.mixin))

    def refused(self, pattern: Pattern, module: nn.Module) -> str | None:
        """The reason not to replace the module: the pattern gives other values. The first of each kind is run both ways."""
        if pattern.inputs is None:
            return None
        kinds = tuple(type(m).__name__ for m in module.modules())
        key = (pattern.name, type(module), kinds)
        if key not in self.tried:
            args, kwargs = pattern.inputs(module)
            expected = _run(module, args, kwargs)
            restore = swap(module, pattern.mixin)
            try:
                error = _error(_run(module, args, kwargs), expected)
            finally:
                restore()
            passes = error <= _tolerance(module)
            self.tried[key] = None if passes else f"{pattern.name} gives other values: relative error {error:.2g}"
        return self.tried[key]

    def attention(self) -> None:
        """torch's attention in place of products and a softmax, where the model has the choice."""
        config = getattr(self.model, "config", None)
        if getattr(config, "_attn_implementation", None) != "eager" or not hasattr(
            self.model, "set_attn_implementation"
        ):
            return
        model: Any = self.model
        try:
            model.set_attn_implementation("sdpa")
        except ValueError as error:
            self.leave("", model, f"attention: {error}")
            return
        self.add("", model, "scaled_dot_product_attention", functools.partial(model.set_attn_implementation, "eager"))

    def quantize(self, form: WeightFormat, skip: Sequence[str]) -> None:
        users = Counter(id(p) for m in self.model.modules() for p in m._parameters.values() if p is not None)
        for path, module in list(self.model.named_modules()):
            linear = is_linear(module)
            if not linear and not experts.is_experts(module):
                continue
            skipped = any(part in path for part in skip)
            reason = "named by skip" if skipped else (why_not if linear else experts.why_not)(module, form)
            shared = any(users[id(p)] > 1 for p in module._parameters.values() if p is not None and p.dim() > 1)
            if not reason and shared and not linear:
                reason = "its weights are those of another layer, too"
            if reason:
                self.leave(path, module, reason)
                continue
            undo = quantize(module, form, shared) if linear else experts.quantize(module, form)
            self.add(path, module, f"weights of {form.text}", undo)

    def merge(self) -> None:
        """Products of one input become one where a fused forward asks for them together."""
        for path, module in list(self.model.named_modules()):
            names = (
                ("q_proj", "k_proj", "v_proj")
                if isinstance(module, Attention)
                else ("gate_proj", "up_proj")
                if isinstance(module, GatedUnit)
                else ()
            )
            layers: list[Any] = [getattr(module, n) for n in names]
            if not layers or not all(isinstance(layer, Quantized) for layer in layers):
                continue
            module.xpu_ops_merged = Merged(layers)
            self.add(path, module, f"{len(layers)} products in one", functools.partial(_split, module, layers))

    def rest(self) -> None:
        """Modules with parameters that no operator of this package serves run as the model has them."""
        known = {e.path for e in self.report.replaced} | {e.path for e in self.report.left}
        for path, module in self.model.named_modules():
            if path in known or not module._parameters or isinstance(module, (nn.Linear, nn.Embedding, Merged)):
                continue
            self.leave(path, module, "runs as it is")


def _split(module: nn.Module, layers: list[Any]) -> None:
    del module.xpu_ops_merged
    for layer in layers:
        layer.set_operands(*(t.clone(memory_format=torch.contiguous_format) for t in layer.operands()))


def _call(model: nn.Module, example: Any) -> Any:
    args, kwargs = ((), dict(example)) if hasattr(example, "keys") else (tuple(example), {})
    return _run(model, args, kwargs)


def optimize(
    model: nn.Module,
    dtype: torch.dtype | None = None,
    weights: str | WeightFormat | None = None,
    example: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    skip: Sequence[str] = (),
) -> nn.Module:
    """Replace parts of a model by fused operators and weights of few bits, in place, and return it.

    Patterns are modules of Llama's, Mistral's, Qwen's, BERT's and GPT-2's form in transformers, and a linear layer with an
    activation behind it in an nn.Sequential. The first module of each kind runs both ways, and is left where values differ.
    `print(xpu_ops.optimize.report(model))` says what was replaced and what was left; `xpu_ops.optimize.undo(model)` takes it back.

    Keys and values of state_dict() stay, except where `weights` is given: `weight` of a linear layer becomes `packed` and
    `scale` (8 bits) or `scales` (4 bits); a weight of experts buffers of these names behind its own. load_state_dict() takes both.

    Args:
        model: on xpu; or on the CPU: it moves to xpu, and takes and gives CPU tensors, in O(1) where memory is shared.
        dtype: torch.bfloat16, torch.float16 or torch.float32 for all floating parameters; None leaves them.
        weights: "int8", "int4" (groups of 128), or a :class:`WeightFormat`, for all linear layers and for the experts of
            transformers' layers; None leaves them.
        example: arguments of the model in the new dtype, as a tuple or by name. It runs before parts are replaced and after:
            packs weights, loads kernels, and gives `report(model).error`.
        skip: layers whose path contains one of these words keep their weights, for example "lm_head".

    Raises:
        TypeError: where `model` is no nn.Module or `dtype` none of these.
        ValueError: for a model that is optimized already, on another device, or in training with `weights`.

    Source: modules of transformers; weights of few bits by at::_weight_int8pack_mm and at::_weight_int4pack_mm.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"optimize: expected an nn.Module, got {type(model).__name__}")
    if dtype is not None and dtype not in _DTYPES:
        raise TypeError(f"optimize: dtype must be one of {', '.join(map(str, _DTYPES))} or None, got {dtype}")
    form = weight_format(weights)
    if _ATTRIBUTE in model.__dict__:
        raise ValueError("optimize: the model is optimized already; take that back with xpu_ops.optimize.undo(model)")
    if form is not None and model.training:
        raise ValueError("optimize: weights of few bits are for inference; call model.eval() first")
    devices = {t.device.type for t in (*model.parameters(), *model.buffers())}
    if not devices <= {"xpu", "cpu"} or len(devices) > 1:
        raise ValueError(f"optimize: expected a model on xpu or on the CPU, got one on {', '.join(sorted(devices))}")
    if form is not None and not torch.xpu.is_available():
        raise ValueError("optimize: weights of few bits need the xpu device; xpu-ops doctor says why it is missing")

    if dtype is not None:
        model.to(dtype)
    expected = None if example is None else _call(model, example)
    report = Report()
    if devices == {"cpu"}:
        report.steps.append(host(model))
    passes = _Passes(model, report)
    passes.attention()
    passes.fuse()
    if form is not None:
        passes.quantize(form, skip)
        passes.merge()
    passes.rest()
    model.__dict__[_ATTRIBUTE] = report
    if example is not None:
        report.error = _error(_call(model, example), expected)
        _call(model, example)  # weights that need no gradients are packed when they come by a second time
    return model


def undo(model: nn.Module) -> nn.Module:
    """Take back what :func:`optimize` did, and return the model.

    Element types stay, and so do the values that few bits have left of a weight.

    Args:
        model: that :func:`optimize` returned.

    Raises:
        ValueError: where the model is not optimized.

    Source: the steps that :func:`optimize` noted in its :class:`Report`, in reverse.
    """
    taken = report(model)
    del model.__dict__[_ATTRIBUTE]
    for step in reversed(taken.steps):
        step()
    return model


def report(model: nn.Module) -> Report:
    """Return the :class:`Report` of an optimized model.

    Args:
        model: that :func:`optimize` returned.

    Raises:
        ValueError: where the model is not optimized.

    Source: an attribute of the model, which :func:`optimize` sets.
    """
    if _ATTRIBUTE not in model.__dict__:
        raise ValueError("the model is not optimized: xpu_ops.optimize(model) was not called with it")
    return model.__dict__[_ATTRIBUTE]


class _Optimize:
    """The function :func:`optimize`, with :func:`undo` and :func:`report` beside it."""

    undo = staticmethod(undo)
    report = staticmethod(report)

    @functools.wraps(optimize)
    def __call__(self, *args: Any, **kwargs: Any) -> nn.Module:
        return optimize(*args, **kwargs)


function = functools.update_wrapper(_Optimize(), optimize)
