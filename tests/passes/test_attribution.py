"""Whose lines a node of the last graph is: merged nodes belong to all that wrote them."""

import re
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.io.gather import facts_of

CPU = ll.CPUCompiler(threads=1)


def twice() -> ll.Graph:
    """Return a graph in which two lines write the same norm, and two others use it."""
    cx = ll.Graph()
    x = cx.tensor((8, 32), name="x").set(np.ones((8, 32)))
    w, v = (cx.tensor((32, 32), name=name).set(np.ones((32, 32))) for name in "wv")
    first = x.layer_norm(-1) @ w  # one
    again = x.layer_norm(-1)  # two
    (first + again @ v).retrieve()  # three
    cx.compile(ll.GenericCompiler(), CPU)
    return cx


def marks(launch: Any) -> list[str]:
    """Return the comments at the ends of a launch's lines."""
    return sorted(line.text.rpartition("# ")[2] for line in launch.origins)


def test_what_is_merged_belongs_to_all_lines_that_wrote_it():
    cx = twice()
    norm, one, other = cx.launches
    assert marks(norm) == ["one", "two"]
    shares = cx.compilation.attribution.lines(norm.node)
    assert [round(share, 3) for _, share in shares] == [0.5, 0.5]
    assert marks(one) == ["one"]
    assert marks(other) == ["three"]


def test_a_timing_a_comparison_and_a_recording_have_the_same_lines():
    cx = twice()
    timings = cx.time(rounds=2)
    compared = ll.compare(cx, [ll.CPU(threads=1)])
    by_norm = next(row for row in timings if "layer_norm" in row.name)
    (segment,) = [one for one in compared.segments if sorted(one.lines) == sorted(by_norm.origins)]
    assert segment.parts[0][0].kernel == by_norm.kernel
    facts = facts_of(cx.compilation)
    for launch, row in zip(facts.launches, timings, strict=True):
        files = [re.sub(r"^.*/", "", f"{line.file}:{line.line}") for line in launch.origins]
        assert tuple(files) == row.origins
        assert launch.shares == pytest.approx(row.shares)


def test_shares_add_up_to_the_whole():
    cx = twice()
    for launch in facts_of(cx.compilation).launches:
        assert sum(launch.shares) == pytest.approx(1, abs=1e-5)
        assert len(launch.shares) == len(launch.origins)
    timings = cx.time(rounds=2)
    whole = sum(row.seconds for row in timings)
    lines: dict[str, float] = {}
    for row in timings:
        for line, share in zip(row.origins, row.shares, strict=True):
            lines[line] = lines.get(line, 0.0) + share * row.seconds
    assert sum(lines.values()) == pytest.approx(whole)
    assert "50%; " in str(timings)


def test_what_another_op_was_is_not_its_work():
    cx = ll.Graph()
    h = cx.tensor((4,), name="x").exp()  # the work
    y = (h + 0) * 1  # is nothing
    (y.sin() + h).retrieve()  # the rest
    compilation = cx.compile(ll.GenericCompiler())
    call = next(node for node in compilation.ir if node.op.name in ("call", "exp2"))
    assert [line.text for line, _ in compilation.attribution.lines(call.id)] == [
        'h = cx.tensor((4,), name="x").exp()  # the work'
    ]


def test_views_count_where_nothing_else_is():
    cx = ll.Graph()
    x = cx.tensor((4, 6), name="x")
    t = x.transpose(0, 1)  # a view
    t.retrieve()
    compilation = cx.compile("dce")
    (line,) = compilation.attribution.lines(t.id)
    assert (line.line.text, line.share) == ("t = x.transpose(0, 1)  # a view", 1.0)
