"""Breakpoints: the firings that touch a node, a line or a rule."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError, RangeError
from luminal_lab.passes.compilation import Compilation
from tests.expect import error_of


@pytest.fixture
def compilation() -> Compilation:
    """Return a compile whose two lines become one."""
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    h = (x + 0) * 2
    y = ((x + 0) * 2).sin()
    (h.sin() + y).named("y").retrieve()
    return cx.compile("simplify, cse, dce")


def test_a_node_is_followed_through_the_passes(compilation: Compilation) -> None:
    stops = compilation.stops("%8")
    assert [str(stop).split(":")[0] for stop in stops] == [
        "Pass 1, simplify, firing 2",
        *[str(stop).split(":")[0] for stop in stops[1:]],
    ]
    first = stops[0]
    assert first.firing.rule == "add-zero"
    assert first.before == compilation.written or len(first.before) == len(compilation.written)
    assert first.after["%8"].sources != first.before["%8"].sources
    assert first.diff().rewired
    assert stops[-1].snapshot.name in ("cse", "dce")


def test_a_rule_alone_and_a_rule_at_a_node(compilation: Compilation) -> None:
    assert [stop.number for stop in compilation.stops(rule="duplicate")] == [1, 2, 3, 4, 5]
    (only,) = compilation.stops("%8", rule="add-zero")
    assert str(only) == "Pass 1, simplify, firing 2: add-zero: %6 → %x"
    assert repr(compilation.stops(rule="add-zero")[:1]) == (
        "<Stops: 1 firing; print(…) shows them, [0] is the first>"
    )


def test_a_line_is_all_its_nodes(compilation: Compilation) -> None:
    file = compilation.written["y"].meta.origin
    assert file is not None
    line = compilation.stops(f"{file.file}:{file.line - 1}")
    touched = {node.id for stop in line for node in stop.firing.before}
    assert {6, 7, 8} <= touched
    assert len(line) > len(compilation.stops("%8", rule="add-zero"))


def test_after_the_last_stop_the_graph_is_as_it_is(compilation: Compilation) -> None:
    last = compilation.stops("%y")[-1]
    assert "%y" in last.after


def test_hostile_questions(compilation: Compilation) -> None:
    wrong: Any = compilation.stops
    assert "neither a node nor a line nor a rule" in str(error_of(wrong, ArgumentError))
    assert str(error_of(lambda: wrong(rule="add-zer"), GraphError)) == (
        "stops: no firing of this compile is by 'add-zer'\nhint: did you mean 'add-zero'?"
    )
    error_of(lambda: wrong(rule=3), ArgumentError)
    error_of(lambda: wrong("%nothing"), GraphError)
    none = compilation.stops("%x", rule="duplicate")
    assert str(none) == "no firing touches it"
    assert "no firing touches it" in str(error_of(lambda: none[0], RangeError))
