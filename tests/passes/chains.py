"""Random graphs of few kinds of ops, most of which read what was made last."""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, TensorType
from luminal_lab.core.ops import Constant, Input
from tests.core.graphs import Growing, dtypes, shapes

Family = Callable[[DrawFn, Growing, Node], tuple[Op, list[Node]]]


@st.composite
def chains(draw: DrawFn, *families: Family, max_nodes: int = 8) -> IR:
    """Draw a graph of ops of some families on one or two inputs of one type."""
    graph = Growing()
    graph.add(Constant(1.0, DType.float32, ()))
    type = TensorType(draw(dtypes()), draw(shapes()))
    for _ in range(draw(st.integers(1, 2))):
        graph.add(Input(type.dtype, type.shape))
    for _ in range(draw(st.integers(1, max_nodes))):
        nodes = graph.readable
        x = nodes[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(nodes))
        op, read = draw(st.sampled_from(families))(draw, graph, x)
        graph.add(op, *read)
    nodes = graph.readable
    inputs = [node.id for node in nodes if isinstance(node.op, Input)]
    more = draw(st.lists(st.sampled_from([node.id for node in nodes]), max_size=1))
    return IR(graph.table, inputs, [nodes[-1].id, *more])
