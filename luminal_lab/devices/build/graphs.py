"""Graphs as passes made them, kept on disk, so that the next process need not run the passes.

    ~/.cache/luminal_lab/graphs/<key>/      readable and writable by its owner alone
        graph.txt                           the graph after the last pass, to be read
        nodes.json                          what its text lacks: ids, and the lines of nodes
        entry.json                          the digest of both; when the entry was last used

The key has the graph as written, everything that was asked of the compile, the machine, and the
state of the package's files. If one of these has changed since this process read it, nothing is
read or kept. An entry is text, and is parsed and verified like any other.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.ops import Input
from luminal_lab.core.parse import parse
from luminal_lab.devices.build import cache
from luminal_lab.devices.build.stamp import stamp_of
from luminal_lab.errors import LabError
from luminal_lab.machines.here import this_machine
from luminal_lab.passes.kept import Made
from luminal_lab.reading import read_json

ROOMS: Final = ("algebra", "core", "devices", "kernels", "machines", "passes", "tensor")
"""What decides what passes make of a graph."""
GRAPH, NODES = "graph.txt", "nodes.json"
STAMP: Final = stamp_of(ROOMS)


def folder() -> Path:
    """Return the folder of kept graphs."""
    libraries = cache.user_folder() or cache.spare_folder() / "libraries"
    return libraries.with_name("graphs")


@dataclass(frozen=True)
class Graphs:
    """The graphs that this user's compiles have kept."""

    def find(self, written: IR, asked: str) -> Made | None:
        """Return what passes made of a graph, if it was kept."""
        path = _path(written, asked)
        with suppress(OSError, LabError, ValueError, LookupError, TypeError):
            if path is not None:
                files, _ = cache.read_files(path, (GRAPH, NODES))
                text = files[GRAPH].decode()
                made = _with_facts(parse(text), written, files[NODES])
                return made if str(made.last) == text else None
        return None

    def keep(self, written: IR, asked: str, made: Made) -> None:
        """Keep what passes made of a graph, if its text and some facts have all of it."""
        path, facts = _path(written, asked), _facts_of(written, made)
        if path is not None and facts is not None:
            with suppress(OSError):
                files = {GRAPH: str(made.last).encode(), NODES: facts}
                cache.write_files(path, files, {})


def _path(written: IR, asked: str) -> Path | None:
    """Return where an entry is, or None if the package has changed in the meantime."""
    if stamp_of(ROOMS) != STAMP:
        return None
    made_by = f"{STAMP} {sys.version_info} {np.__version__} {this_machine()!r}"
    ids = str([node.id for node in written.nodes])  # a text has names in the place of some
    return folder() / cache.key_of(made_by, asked, str(written), ids)


def _in_text(ir: IR) -> list[Node]:
    """Return the nodes of a graph in the order of its text."""
    return [*ir.inputs, *(node for node in ir.nodes if not isinstance(node.op, Input))]


def _facts_of(written: IR, made: Made) -> bytes | None:
    """Return what a graph's text lacks: of each node the id, a written node of its line, and so on.

    None if a node is of a line that wrote nothing.
    """
    known = {None: None} | {node.meta.origin: node.id for node in reversed(written.nodes)}
    nodes = _in_text(made.last)
    if not all(node.meta.origin in known for node in nodes):
        return None
    rows = [(n.id, known[n.meta.origin], n.meta.scope, n.meta.name) for n in nodes]
    facts = {"nodes": rows, "schedule": made.last.schedule, "changing": sorted(made.changing)}
    return json.dumps(facts).encode()


def _with_facts(ir: IR, written: IR, data: bytes) -> Made:
    """Return a graph read from its text, with what that lacks."""
    facts = cast("dict[str, list[Any]]", read_json(data))
    table, own = Table(), dict[int, int]()
    for node, (id, line, scope, name) in zip(_in_text(ir), facts["nodes"], strict=True):
        origin = None if line is None else written[line].meta.origin
        sources = tuple(own[source] for source in node.sources)
        table.set(id, node._replace(id=id, sources=sources, meta=Meta(name, origin, scope)))
        own[node.id] = id
    last = IR(
        table,
        [own[id] for id in ir.input_ids],
        [own[id] for id in ir.output_ids],
        name=ir.name,
        carries=[(own[new], own[old]) for new, old in ir.carries],
        schedule=tuple(facts["schedule"]),
    )
    return Made(last, frozenset(facts["changing"]))


GRAPHS: Final = Graphs()
