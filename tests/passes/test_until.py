"""A compile until a firing: what it runs and leaves, and what is said where nothing is touched."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.errors import GraphError, LabWarning
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.simplify import Simplify
from tests.expect import error_of

PASSES = "simplify, cse, dce"


@dataclass(frozen=True)
class FailsAtLast(Pass):
    """Drop each sum with zero, and fail at the end."""

    name: ClassVar[str] = "fails-at-last"

    def run(self, ir: IR, edit: Edit) -> None:
        Simplify().run(ir, edit)
        raise ValueError("too late")


def two_lines() -> ll.Graph:
    """Return a graph whose two lines become one."""
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    h = (x + 0) * 2
    y = ((x + 0) * 2).sin()
    (h.sin() + y).named("y").retrieve()
    return cx


@pytest.fixture
def cx() -> ll.Graph:
    return two_lines()


def line_of(cx: ll.Graph, name: str) -> str:
    origin = cx.ir[name].meta.origin
    assert origin is not None
    return f"{origin.file}:{origin.line}"


def asked(cx: ll.Graph) -> dict[str, Any]:
    rule = next(rule for rule in Simplify().rules() if getattr(rule, "name", "") == "add-zero")
    return {
        "node": "%8",
        "id": 8,
        "record": cx.ir["%8"],
        "tensor": cx["8"],
        "line": line_of(cx, "%8"),
        "origin": cx.ir["%8"].meta.origin,
        "rule": "rule add-zero",
        "bare rule": "add-zero",
        "the rule": rule,
    }


@pytest.mark.parametrize("how", asked(two_lines()))
def test_it_ends_at_the_first_firing_that_touches_it(cx: ll.Graph, how: str) -> None:
    until = asked(cx)[how]
    stopped = cx.compile(PASSES, until=until)
    assert stopped.stop is not None
    whole = compile_ir(cx.ir, PASSES)
    stops = whole.stops(rule="add-zero") if "rule" in how else whole.stops(asked(cx)["node"])
    if "line" not in how and "origin" not in how:
        assert str(stopped.stop) == str(stops[0])
        assert str(stopped.ir) == str(stops[0].after)
    assert stopped.stop.firing == stopped.snapshots[-1].firings[-1]
    assert stopped.stop.after == stopped.ir


def test_the_passes_after_it_do_not_run_and_values_are_the_same(cx: ll.Graph) -> None:
    cx.execute()
    before = cx["y"].numpy()
    stopped = cx.compile(PASSES, until="rule duplicate", check="values")
    assert [shot.name for shot in stopped.snapshots] == ["written", "simplify", "cse"]
    last = stopped.snapshots[-1]
    assert (last.verified, last.checked, len(last.firings)) == (True, True, 1)
    assert str(stopped).splitlines()[-1] == (
        "stopped at the first firing that is by the rule duplicate: "
        "Pass 2, cse, firing 1: duplicate: %5 → %1"
    )
    assert repr(stopped).endswith("; stopped: " + str(stopped.stop) + ">")
    cx.execute()
    assert np.array_equal(cx["y"].numpy(), before)


def test_a_node_that_a_pass_makes_is_waited_for() -> None:
    cx = ll.Graph()
    cx.tensor((2, 4), name="x").softmax(-1).retrieve()
    whole = cx.compile()
    new = next(node for node in whole.ir if node.id not in whole.written)
    for until in (f"%{new.name}", new.id, new):
        stop = cx.compile(until=until).stop
        assert stop is not None
        assert new.id in {node.id for node in stop.firing.after}


def test_a_node_is_followed_through_the_passes(cx: ll.Graph) -> None:
    (y,) = cx.ir.outputs
    stop = cx.compile(PASSES, until=y).stop
    assert stop is not None
    assert stop.snapshot.name == "cse"
    assert stop.firing.rule == "duplicate"


def test_no_kernels_are_made(cx: ll.Graph) -> None:
    stopped = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), until="rule add-zero")
    assert stopped.program is None
    assert not cx.kernels
    assert len(stopped.snapshots) < 10
    assert "stopped: " in repr(stopped)
    assert len(cx.workbench().subjects[0].snapshots) == len(stopped.snapshots)


def test_what_fails_later_in_the_pass_does_not_matter(cx: ll.Graph) -> None:
    stopped = cx.compile(FailsAtLast(), until="rule add-zero")
    assert str(stopped.stop) == "Pass 1, fails-at-last, firing 1: add-zero: %2 → %x"
    error = error_of(lambda: cx.compile(FailsAtLast(), until="rule duplicate"))
    assert "it failed with ValueError: too late" in error.message
    assert isinstance(error.__cause__, ValueError)


def test_an_old_compile_ends_there_again(cx: ll.Graph) -> None:
    cx.compile(PASSES, until="rule duplicate")
    (cx["y"] * 3).named("z").retrieve()
    with pytest.warns(LabWarning, match="has changed since it was compiled"):
        cx.execute()
    assert cx.compilation.stop is not None


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("rule duplicatt", "no firing is by the rule duplicatt, so all passes have run; did you"),
        ("rule merge", "no firing is by the rule merge, so all passes have run"),
        ("%yy", "no firing touches %yy, so all passes have run; did you mean '%y'?"),
        (77, "no firing touches %77, so all passes have run"),
    ],
)
def test_where_nothing_touches_it_a_warning_says_so(
    cx: ll.Graph, until: str | int, said: str
) -> None:
    with pytest.warns(LabWarning, match="compile: ") as caught:
        compilation = cx.compile(PASSES, until=until)
    assert str(caught[0].message).startswith(f"compile: {said}")
    assert compilation.stop is None
    assert str(compilation) == str(compilation).split("stopped")[0]
    assert len(compilation.snapshots) == 4


@pytest.mark.parametrize(
    ("until", "message"),
    [
        ("", "compile: until is ''"),
        ("rule ", "compile: until is 'rule '"),
        (True, "compile: until is True"),
        (3.5, "compile: 3.5 is not a node, launch or kernel of this compile"),
        ("elsewhere.py:3", "compile: no node comes from 'elsewhere.py'"),
    ],
)
def test_hostile_breakpoints(cx: ll.Graph, until: Any, message: str) -> None:
    assert error_of(lambda: cx.compile(PASSES, until=until)).message == message


def test_a_graph_without_a_session_takes_a_tensor_too(cx: ll.Graph) -> None:
    before = len(cx.ir)
    tensor: Any = cx["8"]
    stop = compile_ir(cx.ir, PASSES, until=tensor).stop
    assert str(stop) == str(cx.compile(PASSES, until="%8").stop)
    assert len(cx.ir) == before


def test_a_tensor_of_another_graph_is_refused(cx: ll.Graph) -> None:
    other = ll.Graph().tensor((2,), name="x")
    assert error_of(lambda: cx.compile(PASSES, until=other)).message.startswith("compile: ")


def test_a_node_of_another_graph_is_told(cx: ll.Graph) -> None:
    other = ll.Graph()
    for number in range(9):
        other.tensor((number + 1,), "int32").named(f"n{number}")
    node = other.ir["n5"]
    compilation = cx.compile(PASSES)
    for ask in (
        lambda: cx.compile(PASSES, until=node),
        lambda: compilation.stops(node),
        lambda: compilation.trace(node),
        lambda: compile_ir(cx.ir, PASSES, until=other["n5"]),  # pyright: ignore[reportArgumentType]  # a tensor
    ):
        error = error_of(ask, GraphError)
        assert "%n5 is not a node of this compile, where %5 is" in error.message
    own = cx.ir.nodes[-1]
    assert compilation.stops(own) == compilation.stops(own.id)
    assert compilation.stops(compilation.snapshots[-1].ir.nodes[-1]) is not None
