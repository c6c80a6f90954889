"""Following a node or a line through all snapshots, and the stories that are told of it."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from luminal_lab.core import ops
from luminal_lab.core.parse import parse
from luminal_lab.errors import GraphError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pattern import variables
from luminal_lab.passes.rule import Rule
from tests.expect import error_of
from tests.passes import running

assert running  # imports all passes
x, y = variables("x y")
TEXT = """graph g(%x: f32[2], %y: f32[2]) -> (%r) {
  %one = constant{value = 1.0} : f32[2] @ block "cell 3":7 "p = x * 1"
  %p = mul %x, %one : f32[2] @ block "cell 3":7 "p = x * 1"
  %s = add %p, %y : f32[2] @ "folder/model.py":12 "s = p + y"
  %dead = sin %s : f32[2] @ "folder/model.py":13 "s.sin()"
  %r = mul %s, %one : f32[2] @ block "cell 3":8 "r = s * 1"
}"""


def compiled():
    swap = Rule("swap", x + y, (y + x) * 2, condition=lambda match: match.root.name == "s")
    return compile_ir(parse(TEXT), Rule("mul-one", x * 1, x), "dce", swap, "dce")


def test_a_line_is_followed_to_the_last_graph():
    trace = compiled().trace("cell 3, line 7")
    assert str(trace) == (
        "cell 3, line 7:  p = x * 1\n"
        "0 written  %one constant, %p mul\n"
        "1 mul-one  %x input, %one constant\n"
        "2 dce … 4  %x input"
    )
    assert [str(line) for line in trace.lines] == ["cell 3, line 7:  p = x * 1"]
    assert str(compiled().trace("model.py:12").last) == "(%9,)"
    assert compiled().trace(trace.lines[0]) == compiled().trace("cell 3:7") or str(
        compiled().trace(trace.lines[0])
    ) == str(trace)


def test_a_node_of_the_last_graph_is_followed_to_the_line():
    result = compiled()
    (last,) = result.ir.outputs
    trace = result.trace(last)
    assert [str(line).split(":")[0] for line in trace.lines] == [
        '"folder/model.py", line 12',
        "cell 3, line 8",
    ]
    assert str(trace.first) == "(%s, %r)"
    assert str(result.trace("%dead").rows[-1][1]) == "()"
    assert "(gone)" in str(result.trace("dead"))


def test_a_trace_in_a_line():
    assert repr(compiled().trace("%dead")) == "<Trace: 1 → 0 nodes; print(…) shows it>"


def test_stories():
    result = compiled()
    assert result.why("p") == (
        "%p = mul %x, %one : f32[2]\n"
        "You wrote it in the scope block in cell 3, line 7:  p = x * 1\n"
        "Pass 1, mul-one, firing 1, mul-one put %x in place of %p.\n"
        "Pass 2, dce, firing 3, unused erased %p.\n"
        "It has been gone since dce."
    )
    (last,) = result.ir.outputs
    assert result.why(last) == (
        "%9 = mul %7, %8 : f32[2]\n"
        'What it was made from was written in "folder/model.py", line 12:  s = p + y\n'
        "Pass 3, swap, firing 1, swap made %9 in place of %s.\n"
        "In the last graph it is an output."
    )
    assert result.why("x") == (
        "%x: f32[2]\n"
        "It was in the given graph.\n"
        "Pass 1, mul-one, firing 1, mul-one put %x in place of %p.\n"
        "In the last graph it is read by %7."
    )


UNKNOWN = {
    "cell 3, line 99": (
        "trace: line 99 of 'cell 3' made no node\nhint: lines near it that did: 7, 8"
    ),
    "modle.py:12": "trace: no node comes from 'modle.py'\nhint: did you mean 'folder/model.py'?",
    "%uvw": "there is no node %uvw in any snapshot\nhint: print(compilation.ir) shows the nodes",
    "%99": "there is no node %99 in any snapshot\nhint: print(compilation.ir) shows the nodes",
    "%ded": "there is no node %ded in any snapshot\nhint: did you mean '%dead'?",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_nobody_wrote(what):
    assert str(error_of(lambda: compiled().trace(what), GraphError)) == UNKNOWN[what]


def test_snapshots_by_name():
    result = compiled()
    assert result["dce"] is result.snapshots[4]
    assert result[-1] is result.snapshots[4]
    assert result[1].name == "mul-one"
    told = str(error_of(lambda: result["dcee"], GraphError))
    assert told == "compilation: no pass 'dcee' ran\nhint: did you mean 'dce'?"
    assert error_of(lambda: result["unused"], GraphError).hint == "unused is a rule; dce fired it"
    assert error_of(lambda: result["?"], GraphError).hint == "there are written, mul-one, dce, swap"
    told = str(error_of(lambda: result[9], GraphError))
    assert told == "compilation: there is no snapshot 9\nhint: they go from 0 to 4"
    assert repr(result) == "<Compilation of g: 4 passes, 7 → 5 nodes>"
    assert [line.split()[:4] for line in str(result).splitlines()] == [
        ["pass", "nodes", "firings", "ms"],
        ["0", "written", "7", "0"],
        ["1", "mul-one", "7", "2"],
        ["2", "dce", "3", "4"],
        ["3", "swap", "6", "1"],
        ["4", "dce", "5", "1"],
    ]
    idle = compile_ir(parse(TEXT), "cse, cse, cse, dce, cse")
    assert [line.split()[:-1] for line in str(idle).splitlines()][2:] == [
        ["1-3", "3", "passes", "without", "a", "change", "7", "0"],
        ["4", "dce", "6", "1"],
        ["5", "cse", "6", "0"],
    ]
    again = compile_ir(parse(TEXT), "cse, dce, cse, dce")
    assert again["dce"] is again.snapshots[2]  # the last that did something
    assert again["cse"] is again.snapshots[3]


def test_a_name_that_went_over_to_another_node_is_followed_back():
    result = compile_ir(
        parse("graph g(%x: f32[2]) -> (%p) {\n  %p = sqrt %x : f32[2]\n}"), Renaming()
    )
    assert result.ir["p"].id != result.written["p"].id
    assert [[n.id for n in nodes] for _, nodes in result.trace("%p").rows] == [[1], [2]]


@dataclass(frozen=True)
class Renaming(Pass):
    """Put a sine, which takes the name, into the place of a root."""

    name: ClassVar[str] = "test-renaming"

    def run(self, ir, edit):
        edit.replace("p", edit.insert(ops.Sin(), "x", like="p"), rule="r", renames=True)


def test_the_table_of_passes_is_as_wide_as_its_longest_title():
    text = "graph g(%x: f32[2]) -> (%2) {\n  %1 = constant{value = 1.0} : f32[2]\n"
    ir = parse(f"{text}  %2 = mul %x, %1 : f32[2]\n}}")
    table = str(compile_ir(ir, "simplify{without = [add-zero, sub-self]}, dce")).splitlines()
    assert table[2].startswith("    1  simplify{without = [add-zero, sub-self]}      3        1 ")
    assert len({len(row) for row in table}) == 1
