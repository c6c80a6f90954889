"""What keeps a run in Python: the user's functions in the middle of it, and probes.

y = cx.function(np.tanh, x, shape=x.shape)     kernels wait for NumPy, and NumPy for kernels
h.print()                                      the run stops, and h is handed to Python
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from luminal_lab.advice.suspect import Case, Suspect, Variant, by_line, called, edited
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import HostCall
from luminal_lab.errors import LabError
from luminal_lab.interrupts import opened
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.store import Store


def calls(case: Case) -> Iterator[Suspect]:
    """Yield the user's functions that NumPy runs between kernels."""
    ir = case.written
    hosted = [node for node in ir if isinstance(node.op, HostCall)]
    for nodes in by_line(ir, hosted):
        node = nodes[0]
        assert isinstance(node.op, HostCall)
        name = node.op.function
        bodies = {call.id: _as_graph(case, call) for call in nodes}
        seconds = sum(case.touched.get(call.id, 0.0) for call in nodes)
        total = case.timings.seconds
        known = {id: body for id, body in bodies.items() if body is not None}
        can = len(known) == len(nodes)
        spelled = f"x.{name}()" if hasattr(Tensor, name) else "operators and methods of tensors"
        yield Suspect(
            "host-call",
            f"{name} is a Python function in the middle of the graph",
            "kernels before it must end, and its arrays go through memory, before it can begin on "
            "one core",
            f"write it with tensors: {spelled}" if can else "write it with tensors, if you can",
            tuple(call.id for call in nodes),
            partial(_written_out, ir, known) if can else None,
            total / (total - seconds) if 0 < seconds < total else None,
        )


def _as_graph(case: Case, node: Node) -> IR | None:
    """Return what a function writes when it is given tensors; None if it cannot take them."""
    assert isinstance(node.op, HostCall)
    function: Callable[..., object] | None = case.environment.functions.get(node.op.function)
    scratch = Store("function", 0)
    given = [
        scratch.tensor(case.written[id].shape, case.written[id].dtype, name=f"x{number}")
        for number, id in enumerate(node.sources)
    ]
    if function is None or not given:
        return None
    if isinstance(function, np.ufunc):
        function = getattr(Tensor, function.__name__, None)
    if function is None:
        return None
    try:
        result = opened(partial(function, *given))
        if not isinstance(result, Tensor) or result.graph is not scratch:
            return None
        if result.type != node.type:
            result = result.cast(node.dtype)
        result.retrieve()
        ir = scratch.ir
    except (LabError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # it needs arrays
    return ir if ir.outputs[0].type == node.type else None


def _written_out(ir: IR, bodies: dict[int, IR]) -> Variant:
    """Return a graph in which functions are written out as nodes."""

    def change(edit: Edit) -> None:
        for id, body in bodies.items():
            now = dict(zip(body.input_ids, edit[id].sources, strict=True))
            for node in body.nodes:
                if node.id not in now:
                    sources = [now[source] for source in node.sources]
                    now[node.id] = edit.insert(node.op, *sources, like=id).id
            edit.replace(id, now[body.output_ids[0]])

    return Variant(edited(ir, change), is_exact=False)


def probes(case: Case) -> Iterator[Suspect]:
    """Yield values that are handed to Python during a run."""
    ir = case.written
    probed = [ir[id] for id in case.probed if id in ir]
    for nodes in by_line(ir, probed):
        name = called(nodes[0]) if len(nodes) == 1 else f"{len(nodes)} values"
        yield Suspect(
            "probe",
            f"{name} {'is' if len(nodes) == 1 else 'are'} printed, compared or probed in each run",
            "the run stops there, between two kernels that could be one, until Python has looked",
            "take out print(), check() or probe() once you have seen it; the time that your "
            "function takes comes on top",
            tuple(node.id for node in nodes),
            partial(_unprobed, ir, {node.id for node in nodes}, case),
        )


def _unprobed(ir: IR, ids: set[int], case: Case) -> Variant:
    asked = set(case.asked)
    wanted = tuple(id for id in ir.output_ids if id not in ids or id in asked)
    signature = ir.signature._replace(outputs=wanted)
    return Variant(IR(ir.table, name=ir.name, **signature._asdict()), keeps_probes=False)
