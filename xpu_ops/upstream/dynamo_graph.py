"""The code that Dynamo writes around the call of a graph. Runs after torch._dynamo.output_graph."""

from __future__ import annotations

from typing import Any

from torch import fx

from xpu_ops.upstream.registry import replaces


def _names_a_stream(node: fx.Node) -> bool:
    return getattr(node.target, "namespace", "") == "streams" or (
        getattr(node.target, "__name__", "") == "get_external_object_by_index"
    )


@replaces(
    "torch._dynamo.output_graph.has_user_objects",
    since="2.13",
    why="every call of a compiled function asks for the current stream and keeps a reference for the graph, also where the graph "
    "names no stream",
    test="tests/inductor/test_compile_environment.py::test_streams_in_a_graph",
)
def streams_that_are_named(upstream: Any) -> Any:
    def has_user_objects() -> bool:
        from torch._dynamo.graph_bytecode_inputs import index_to_bytecode_constructor
        from torch._dynamo.symbolic_convert import InstructionTranslator  # imports output_graph

        if len(index_to_bytecode_constructor) != 1:
            return bool(upstream())
        tx = InstructionTranslator.current_tx()
        streams = tx.symbolic_stream_state.cur_stream_stack
        looked_at = any(s.is_realized() for s in streams)
        return looked_at or any(map(_names_a_stream, tx.output.graph.nodes))

    return has_user_objects
