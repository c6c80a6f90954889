"""What tests of recognisers share: graphs spelled with tensors, and which calls come of them."""

from collections.abc import Callable, Iterator
from typing import Any

from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Call
from luminal_lab.session import Graph
from tests.passes.running import check_pass

PIPELINE = "cse, dce, recognise"


def spelled(formula: Callable[..., Any], *shapes: Any, dtype: str = "float32") -> IR:
    """Return the graph of a formula of tensors with the given shapes."""
    cx = Graph()
    inputs = [cx.tensor(shape, dtype, name=f"in{k}") for k, shape in enumerate(shapes)]
    results = formula(*inputs)
    for result in results if isinstance(results, tuple) else (results,):
        result.retrieve()
    return cx.ir


def calls(ir: IR) -> Iterator[str]:
    """Yield the names of the bodies that a graph calls, and of what they call in turn."""
    for node in ir:
        if isinstance(node.op, Call):
            inner = sorted(calls(node.op.body))
            yield f"{node.op.body.name}({', '.join(inner)})" if inner else node.op.body.name


def recognised(ir: IR, pipeline: str = PIPELINE) -> list[str]:
    """Return which calls come of a graph, whose bits are checked."""
    return sorted(calls(check_pass(ir, pipeline).ir))


def all_of_it(ir: IR, pipeline: str = PIPELINE) -> str:
    """Return the one call that a graph becomes."""
    after = check_pass(ir, pipeline).ir
    found = list(calls(after))
    rest = [node for node in after if not isinstance(node.op, Call) and node.sources]
    assert len(found) == 1, f"it is more than one call:\n{after}"
    assert not rest, f"it is more than one call:\n{after}"
    return found[0]
