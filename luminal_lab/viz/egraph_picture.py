"""A space of programs as a picture: classes of equal nodes, those of the best program ringed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from typing_extensions import override

from luminal_lab.search.space import Space
from luminal_lab.tables import Table, frame
from luminal_lab.viz.egraph_elements import Element
from luminal_lab.viz.egraph_subject import subject_of_space, winning_costs
from luminal_lab.viz.graphs import GraphPicture, graph_picture
from luminal_lab.viz.stretches import BUDGET

COLUMNS = ("class", "name", "node", "axes", "rule", "best")


class SpacePicture(GraphPicture):
    """A picture that is as wide as its cell at most: classes are wide."""

    @property
    @override
    def html(self) -> str:
        return super().html.replace("max-width:none", "max-width:100%;height:auto")


def space_picture(space: Space, **how: Any) -> SpacePicture:  # display's own
    """Return a picture of the classes of a space, as its rules have left them."""
    subject = subject_of_space(space)
    ir = subject.snapshots[-1].ir
    note = f"after {len(subject.snapshots) - 1} rounds of rules"
    if not how.get("highlight"):
        how["highlight"] = [name for name in winning_costs(space) if name in ir.names]
        note += ", the best program ringed"
    if how.get("depth") is None and how.get("select") is None and len(ir) > BUDGET:
        best = {ir[name].meta.scope or name for name in how["highlight"]}
        how["select"] = [node for node in ir if (node.meta.scope or node.name) in best]
        if len(how["select"]) > 2 * BUDGET:
            how["depth"] = 0
    picture = graph_picture(ir, note=note, **how)
    return SpacePicture(**{field.name: getattr(picture, field.name) for field in fields(picture)})


def space_table(space: Space) -> Table:
    """Return a table with a row for each node of the classes."""
    ir, best = subject_of_space(space).snapshots[-1].ir, {*winning_costs(space)}
    rows = (
        (
            node.meta.scope or node.name,
            *(node.name, node.op.name, ", ".join(map(str, node.shape))),
            "" if node.meta.derivation is None else node.meta.derivation.rule,
            node.name in best,
        )
        for node in ir
        if isinstance(node.op, Element) and node.op.kind != "class"
    )
    return frame("nodes", COLUMNS, rows)
