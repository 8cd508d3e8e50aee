"""flex_attention in compiled graphs: one kernel over blocks of queries and the keys that the block mask lists, with the score and
mask functions inside. What that kernel does not take is two products by oneDNN with a softmax in between, of whole matrices."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

import sympy
import torch
from torch import fx
from torch._inductor import ir
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils._sympy.value_ranges import ValueRanges

from xpu_ops.block import ir as block
from xpu_ops.block import parameters, printer
from xpu_ops.block.types import compute_type
from xpu_ops.inductor import flex_launch
from xpu_ops.inductor.kernel import SyclKernel
from xpu_ops.inductor.passes import is_xpu

Box: TypeAlias = ir.TensorBox
Boxes: TypeAlias = Sequence[ir.TensorBox]
BlockMask: TypeAlias = Sequence[ir.TensorBox | ir.Subgraph | sympy.Expr | None]
Lowering: TypeAlias = Callable[..., object]
_LEAST_QUERIES = 24  # fewer are faster as whole products
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_PLACES = dict.fromkeys(("b", "h", "m", "n"), torch.int32)


class _Dense(Exception):
    """The kernel over blocks does not take a call."""


class _Functions(SyclKernel):
    """The functions of one flex_attention, written as lambdas in one kernel."""

    def __init__(self, query: Box, score_buffers: Boxes, mask_buffers: Boxes) -> None:
        super().__init__({"x": sympy.S.One}, features=SIMDKernelFeatures([], sympy.S.One))
        self._given: dict[str, CSEVariable] = {}
        self._functions: list[block.Node] = []
        self._device = query.get_device()
        self.score = {"score": query.get_dtype(), **_PLACES}
        self._read = {"float": _realized(score_buffers), "bool": _realized(mask_buffers)}  # by the function's result

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        return self._given[name] if name in self._given else super().load(name, index)

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if (lower or upper) and not isinstance(expr, sympy.Symbol):
            raise _Dense
        super().check_bounds(expr, size, lower, upper)

    def write(self, name: str, graph: ir.Subgraph, parameters: dict[str, torch.dtype], result: str = "float") -> None:
        """A function whose result is the first of the graph."""
        value = _built(graph, parameters, self._device, self._read[result])
        self.cse.invalidate(OrderedSet())
        self._checked.clear()
        self._given = {
            p: self.cse.newvar(ValueRanges(0, 2**31 - 1) if p in _PLACES else ValueRanges.unknown(), dtype=_register(t))
            for p, t in parameters.items()
        }
        given = tuple(f"{compute_type(v.dtype)} {v}" for v in self._given.values())
        body: list[block.Node] = []
        with self.swap_buffers(body):
            data = value.data
            out = data.make_loader()(()) if isinstance(data, ir.InputBuffer) else data.inner_fn(())
        self._functions.append(block.Function(name, given, tuple(body), block.cast(result, str(out))))

    def kernel(self, entry: str, taken: tuple[str, ...]) -> tuple[str, list[ir.TensorBox], list[sympy.Expr]]:
        """The text and the signature that flex_launch loads, as JSON; the tensors and the sizes that the functions read."""
        fields = self._parameters()
        tensors, sizes = [], []
        for letter, value in self.call_fields:
            if letter == "p":
                buffer = V.graph.get_buffer(value)
                tensors.append(buffer if isinstance(buffer, ir.TensorBox) else ir.TensorBox.create(buffer))
            elif letter == "i" and isinstance(value, sympy.Expr) and not self._hoisted:
                sizes.append(value)
            else:
                raise _Dense
        before = printer.member("flex", "xpu::FlexArgs", 8 * len(flex_launch.SIGNATURE))
        functions = printer.lines(self._functions, block.Kernel("flex", tuple(fields), ()))
        body = [*parameters.values(fields), *functions, printer.call(f"xpu::{entry}", ("p.flex", *taken))]
        text = printer.kernel("flex", fields, body, before=before, inlined=True)
        source = printer.opening("cpu/flex_block.hpp") + text
        kernel = {"source": source, "signature": self.signature, "messages": self.messages}
        return json.dumps(kernel), tensors, sizes


def _register(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in _TYPES else dtype


def _of_mask(block_mask: BlockMask) -> tuple[list[ir.TensorBox | None], tuple[int, int], ir.Subgraph]:
    """The four lists of a BlockMask (counts, indices, and those of blocks that are seen whole), sizes of a block, the function."""
    sizevars = V.graph.sizevars
    query_block, key_block = (sizevars.guard_int(s) for s in block_mask[-3:-1])
    return list(block_mask[2:6]), (query_block, key_block), block_mask[-1]


def _is_whole(size: int | sympy.Expr, step: int) -> bool:
    return isinstance(size, int | sympy.Integer) and int(size) >= step and int(size) % step == 0


def _check(query: Box, key: Box, value: Box, scale: float | sympy.Expr, query_block: int, step: int) -> None:
    """`step`: elements of a head come in multiples of it."""
    dtypes = {t.get_dtype() for t in (query, key, value)}
    dim, value_dim = query.get_size()[-1], value.get_size()[-1]
    queries = V.graph.sizevars.optimization_hint(query.get_size()[2], fallback=64)
    fits = (
        len(dtypes) == 1 and query.get_dtype() in _TYPES and isinstance(scale, float) and query_block % flex_launch.QUERIES == 0
        and isinstance(dim, int | sympy.Integer) and int(dim) >= 16 and _is_whole(value_dim, step) and int(value_dim) >= 16
        and (step < 16 or _is_whole(dim, step)) and queries >= _LEAST_QUERIES
    )  # fmt: skip
    if not fits:
        raise _Dense


def _realized(buffers: Boxes) -> list[Box]:
    from torch._inductor.kernel.flex.common import freeze_irnodes, maybe_realize

    realized = list(maybe_realize(list(buffers)))
    freeze_irnodes(realized)
    return realized


def _built(graph: ir.Subgraph, parameters: dict[str, torch.dtype], device: torch.device, read: list[Box]) -> ir.Buffer:
    """The first result of a graph, whose inputs have the names of the parameters, as a buffer."""
    from torch._inductor.kernel.flex.common import build_subgraph_buffer, create_placeholder, freeze_irnodes

    built = build_subgraph_buffer([*(create_placeholder(n, t, device) for n, t in parameters.items()), *read], graph)
    freeze_irnodes(built)
    return built[0] if isinstance(built, list | tuple) else built


def _call(name: str, tensors: Boxes, blocks: Sequence[Box | None], functions: _Functions, entry: str,
          taken: tuple[str, ...], scale: float, block_sizes: tuple[int, int]) -> tuple[Box, ...]:  # fmt: skip
    from torch._inductor.lowering import fallback_handler

    kernel, captured, sizes = functions.kernel(entry, taken)
    op = getattr(torch.ops.xpu_ops, name).default
    return tuple(
        fallback_handler(op, add_to_fallback_set=False)(*tensors, *blocks, captured, sizes, scale, *block_sizes, kernel)
    )


def _forward_by_blocks(query: Box, key: Box, value: Box, graph: ir.Subgraph, block_mask: BlockMask, scale: float,
                       options: dict[str, object], score_buffers: Boxes, mask_buffers: Boxes) -> tuple[Box, ...]:  # fmt: skip
    blocks, block_sizes, mask_graph = _of_mask(block_mask)
    _check(query, key, value, scale, block_sizes[0], 8)
    with _Functions(query, score_buffers, mask_buffers) as functions:
        functions.write("score", graph, functions.score)
        functions.write("mask", mask_graph, _PLACES, "bool")
    return _call("flex_attention_blocks", (query, key, value), blocks, functions,
                 "flex_forward", ("score", "mask"), scale, block_sizes)  # fmt: skip


def _backward_by_blocks(query: Box, key: Box, value: Box, out: Box, logsumexp: Box, grad: Box | None, grad_logsumexp: Box | None,
                        graph: ir.Subgraph, joint: ir.Subgraph | None, block_mask: BlockMask, scale: float,
                        options: dict[str, object], score_buffers: Boxes,
                        mask_buffers: Boxes) -> tuple[Box | tuple[None, ...], ...]:  # fmt: skip
    blocks, block_sizes, mask_graph = _of_mask(block_mask)
    _check(query, key, value, scale, block_sizes[0], 16)
    if grad is None or joint is None:
        raise _Dense
    joint.graph_module.graph.eliminate_dead_code()
    if any(g is not None for g in _captured_gradients(joint.graph_module)):
        raise _Dense
    with _Functions(query, score_buffers, mask_buffers) as functions:
        functions.write("score", graph, functions.score)
        functions.write("mask", mask_graph, _PLACES, "bool")
        functions.write("slope", joint, {**functions.score, "grad_score_mod": query.get_dtype()})
    results = _call("flex_attention_blocks_backward", (grad, out, logsumexp, grad_logsumexp, query, key, value), blocks,
                    functions, "flex_backward", ("score", "mask", "slope"), scale, block_sizes)  # fmt: skip
    return *results, tuple(None for _ in score_buffers)


def _captured_gradients(joint: fx.GraphModule) -> list[fx.Node | None]:
    """Of the tensors that a score function reads: results of its graph after those of the score and the four places."""
    return list(joint.graph.output_node().args[0][5:])


def _wanted(node: fx.Node) -> list[fx.Node]:
    """The tensors that the score function reads and whose gradients a backward pass returns."""
    if len(node.args) < 14 or not isinstance(node.args[8], fx.Node):
        return []
    joint = getattr(V.graph.module, str(node.args[8].target))
    return [a for a, g in zip(node.args[12], _captured_gradients(joint), strict=True) if g is not None]


def _traced(dense: Callable[..., object], node: fx.Node) -> tuple[fx.GraphModule, list[fx.Node]]:
    """`dense` on the arguments of a node of the graph, as a graph of operators, and the nodes that are its inputs."""
    from torch._functorch.eager_transforms import enable_inplace_requires_grad
    from torch._inductor.pattern_matcher import fwd_only

    flat, spec = tree_flatten(node.args)
    wanted = _wanted(node)
    inputs = [a for a in flat if isinstance(a, fx.Node) and a.op != "get_attr"]
    functions = {a: getattr(V.graph.module, a.target) for a in flat if isinstance(a, fx.Node) and a.op == "get_attr"}

    def run(*values: torch.Tensor) -> object:
        known = {**functions, **dict(zip(inputs, values, strict=True))}
        with enable_inplace_requires_grad(True):
            known |= {a: known[a].detach().requires_grad_() for a in wanted}
        return dense(*tree_unflatten([known.get(a, a) if isinstance(a, fx.Node) else a for a in flat], spec))

    with V.fake_mode, torch.no_grad():
        return fwd_only(torch.func.functionalize(run), [n.meta["val"] for n in inputs]), inputs


def _lowering(upstream: Lowering, by_blocks: Lowering, dense: Callable[..., object]) -> Lowering:
    flex_launch.define()

    def lower(query: Box, *rest: object, **kwargs: object) -> object:
        if not is_xpu(query):
            return upstream(query, *rest, **kwargs)
        try:
            return by_blocks(query, *rest, **kwargs)
        except _Dense:
            pass
        from torch._inductor.lowering import process_subgraph_nodes

        node = V.graph.current_node
        graph, inputs = _traced(dense, node)
        for constant in graph.graph.find_nodes(op="get_attr"):
            name = f"{node.name}_{constant.target}"
            setattr(V.graph.module, name, getattr(graph, constant.target))
            constant.target = name
        return process_subgraph_nodes(graph, [V.graph.env[n] for n in inputs])

    return lower


def forward(upstream: Lowering) -> Lowering:
    """The lowering of flex_attention; `upstream` serves other devices."""
    from torch._higher_order_ops.flex_attention import sdpa_dense

    return _lowering(upstream, _forward_by_blocks, sdpa_dense)


def backward(upstream: Lowering) -> Lowering:
    """The lowering of flex_attention's gradient; `upstream` serves other devices."""
    from torch._higher_order_ops.flex_attention import sdpa_dense_backward

    return _lowering(upstream, _backward_by_blocks, sdpa_dense_backward)
