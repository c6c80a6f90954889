"""Data for showing values: the session's own, or drawn at random."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.errors import LabError
from luminal_lab.passes.draws import Given, drawn
from luminal_lab.tensor.sizes import bind_dims
from luminal_lab.viz.live.backed import Backed, LiveSession


class Inputs(NamedTuple):
    """The data of all inputs that some nodes need, and its origin in words."""

    environment: Environment
    is_drawn: bool
    said: str


def inputs_for(backed: Backed, ir: IR, wanted: Iterable[int]) -> Inputs:
    """Return data for the wanted nodes: the session's where it has some, else drawn."""
    session = backed.session
    given = Given() if session is None else session.given()
    behind = ir.ancestors(wanted)
    needed = [node for node in ir.inputs if node.id in behind]
    known = {} if session is None else _known(session, backed, needed)
    shapes = {node: known[node.id].shape for node in needed if node.id in known}
    sizes = bind_dims(ir, (), shapes, {})
    dims = {**{name: size for name, size in given.dims.items() if name not in sizes}, **sizes}
    missing = [node for node in needed if node.id not in known]
    data = known
    if missing or ir.symbols.keys() - dims.keys():
        requirements = Given(known, dims, given.functions, given.weights)
        data, dims = drawn(ir, requirements, behind)

    def data_of(node: Node) -> Array:
        return data[node.id]

    step = 0 if session is None else session.step
    environment = Environment(data_of, dims, step, given.functions)
    return Inputs(environment, bool(missing), _said(needed, missing))


def _known(session: LiveSession, backed: Backed, needed: Iterable[Node]) -> dict[int, Array]:
    """Return a session's data for inputs, as far as it has some."""
    known: dict[int, Array] = {}
    lent, ours = session.parameters, backed.snapshots[0].ir
    for node in needed:
        name = ours[node.id].name if node.id in ours else node.name
        try:
            # A cell that ran again may have made another input of this name.
            if session[name].id == node.id:
                known[node.id] = lent[name].value if name in lent else session[name].numpy()
        except LabError:
            continue
    return known


def _said(needed: list[Node], missing: list[Node]) -> str:
    if not needed:
        return "it depends on no input"
    if not missing:
        return "with the session's data"
    names = ", ".join(map(str, missing[:3])) + (" and others" if len(missing) > 3 else "")
    rest = "" if len(missing) == len(needed) else "; the rest is the session's"
    return f"with drawn data for {names}, which {'has' if len(missing) == 1 else 'have'} none{rest}"
