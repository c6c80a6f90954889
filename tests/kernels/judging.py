"""What tests of definitions share: random graphs cut to what is definable, and the judge."""

from collections.abc import Iterable, Mapping

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from luminal_lab.core import ops
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.passes.judge import differences
from tests.core.graphs import DIMS, graphs

UNDEFINABLE = ops.Scatter, ops.Update, ops.HostCall


def parts(node: Node, op: type | tuple[type, ...]) -> bool:
    """Return whether a node is of a kind, or calls something of that kind."""
    body = node.op.body_of()
    return isinstance(node.op, op) or (body is not None and any(parts(n, op) for n in body))


@st.composite
def definable(draw: DrawFn, *, inputs: Iterable[TensorType] | None = None) -> IR:
    """Draw a graph whose outputs have a definition."""
    ir = draw(graphs(inputs=inputs))
    good: list[int] = []
    for node in ir.nodes:
        behind = [ir[id] for id in ir.ancestors([node])]
        if not node.extra and not any(parts(one, UNDEFINABLE) for one in behind):
            good.append(node.id)
    wanted = [id for id in ir.output_ids if id in good] or good[-3:]
    return IR(ir.table, ir.input_ids, wanted, name=ir.name)


def interpreted(ir: IR, data: Mapping[str, Array], dims: Mapping[str, int] = DIMS) -> list[Array]:
    """Return what the outputs of a graph are by the interpreter."""
    with np.errstate(all="ignore"):
        found = interpret(ir, Environment(lambda node: data[node.name], dims))
    return [found[id] for id in ir.output_ids]


def defined(
    definition: Definition, ir: IR, data: Mapping[str, Array], dims: Mapping[str, int] = DIMS
) -> list[Array]:
    """Return what the outputs of a definition are, for the data of a graph's inputs."""
    names = [buffer.name for buffer in definition.inputs]
    given = {name: data[node.name] for name, node in zip(names, ir.inputs, strict=True)}
    found = evaluate(definition, given, dims)
    return [found[output.name] for output in definition.outputs]


def sums(ir: IR) -> bool:
    """Return whether any output of a graph is made of a sum."""
    return any(parts(ir[id], ops.SumReduce) for id in ir.ancestors(ir.output_ids))


def check_same(ours: Array, theirs: Array, *, exactly: bool) -> None:
    """Check that two arrays are equal: to the bit but for NaNs, or as sums in another order are."""
    wrong = differences(theirs, ours, scaled=not exactly, exact=exactly, signs=exactly)
    assert not wrong.any(), (ours, theirs)
