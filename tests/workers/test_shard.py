"""The passes one by one: what they write, and what they leave alone."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.op import size_of
from luminal_lab.errors import ParseError
from luminal_lab.workers.bucket import Bucketing
from luminal_lab.workers.compiler import ShardedProgram
from luminal_lab.workers.layout import Layout, parse_layout, steps
from luminal_lab.workers.ops import AllReduce
from luminal_lab.workers.rules import groups
from luminal_lab.workers.shard import Shard


def program(compiled: ll.Compilation) -> ShardedProgram:
    assert isinstance(compiled.program, ShardedProgram)
    return compiled.program


def summed() -> ll.Graph:
    cx = ll.Graph("g")
    x = cx.tensor((4, 8), name="x").set([[float(k + 8 * j) for k in range(8)] for j in range(4)])
    (x * x).named("s").sum(0).named("y").retrieve()
    return cx


PLAN = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})


def test_a_change_of_layout_is_written_where_it_is_needed() -> None:
    compiled = summed().compile(ll.Sharded(PLAN), check="values")
    assert str(compiled.ir).splitlines() == [
        "graph g(%x: f32[4, 8]) -> (%4) {",
        "  %s = mul %x, %x : f32[4, 8]",
        "  %2 = sum_reduce{axis = 0} %s : f32[1, 8]",
        "  %y = reshape{shape = [8]} %2 : f32[8]",
        '  %4 = reshard{old = "- sum data", new = "-"} %y : f32[8]',
        "}",
    ]
    assert ll.parse(str(compiled.ir)) == compiled.ir
    (firing,) = compiled["shard"].firings
    assert firing.rule == "change-of-layout"
    assert str(program(compiled).worker.written).splitlines() == [
        "graph g(%x: f32[2, 8]) -> (%4) {",
        "  %s = mul %x, %x : f32[2, 8]",
        "  %2 = sum_reduce{axis = 0} %s : f32[1, 8]",
        "  %y = reshape{shape = [8]} %2 : f32[8]",
        '  %4 = all_reduce{axis = "data", kind = sum} %y : f32[8]',
        "}",
    ]


def test_the_table_says_what_is_sent_why_and_where() -> None:
    compiled = summed().compile(ll.Sharded(PLAN))
    line = summed.__code__.co_firstlineno + 3
    assert str(compiled.communication).splitlines() == [
        "node  op          axis  of  type    bytes  why"
        "                                                          line",
        "%4    all_reduce  data  %y  f32[8]     32  each has a term of "
        f"%2 sum_reduce along axis 0, which is cut  test_shard.py:{line}",
        "1 collective; each of 2 workers sends 32 bytes",
    ]
    table = compiled.communication.to_pandas()  # pyright: ignore[reportAttributeAccessIssue]
    assert table[["op", "bytes"]].values.tolist() == [["all_reduce", 32]]


def test_a_constant_that_is_annotated_is_cut() -> None:
    cx = ll.Graph("g")
    ones = cx.ones((4, 3))
    y = (ones.sum(0) * 2).retrieve()
    plan = ll.sharding(ll.Mesh(data=2), {ones: ("data", None)})
    compiled = cx.compile(ll.Sharded(plan), check="values")
    assert [row.op for row in compiled.communication] == ["all_reduce"]
    cx.execute()
    assert y.tolist() == [8, 8, 8]


def test_values_on_the_way_can_be_seen() -> None:
    cx, told = summed(), list[float]()
    cx.probe(cx["s"], lambda value: told.append(float(value.sum())))
    cx.compile(ll.Sharded(PLAN))
    cx.execute()
    assert told == [float(sum(k * k for k in range(32)))]


def test_what_cannot_be_cut_is_gathered_and_said() -> None:
    cx = ll.Graph("g")
    x = cx.tensor((8, 4), name="x")
    x.cumsum(0).named("y").retrieve()
    plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})
    (row, *_) = cx.compile(ll.Sharded(plan), check="values").communication
    assert row.op == "all_gather"
    assert row.why.endswith("whole")


@pytest.mark.parametrize(
    ("old", "new", "sent"),
    [
        ("-, - sum a", "-, -", ["all_reduce"]),
        ("-, - sum a, b", "-, a", ["all_reduce", "reduce_scatter"]),
        ("-, - max a", "a, -", ["reduce_scatter"]),
        ("a, -", "-, a", ["all_to_all"]),
        ("a, b", "b, a", ["all_gather", "all_to_all", "own_part"]),
        ("a, -", "-, -", ["all_gather"]),
        ("-, -", "a, b", ["own_part", "own_part"]),
    ],
)
def test_layouts_change_by_what_costs_least(old: str, new: str, sent: list[str]) -> None:
    before, after = parse_layout(old), parse_layout(new)
    assert (str(before), str(after)) == (old, new)
    assert sorted(step.sent for step, _ in steps(before, after)) == sorted(sent)


def test_a_layout_is_text() -> None:
    for layout in (Layout(()), Layout((), ("a",), "max"), Layout(("a", "-"), ("b", "c"))):
        assert parse_layout(str(layout)) == layout


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((4, 6), (24,), [([0, 1], [0])]),
        ((24,), (4, 6), [([0], [0, 1])]),
        ((1, 4, 6), (4, 1, 6), [([1], [0]), ([2], [2])]),
        ((4, 6), (6, 4), [([0, 1], [0, 1])]),
        ((), (1, 1), []),
    ],
)
def test_a_reshape_has_groups(
    old: tuple[int, ...], new: tuple[int, ...], expected: list[tuple[list[int], list[int]]]
) -> None:
    assert [*groups(old, new)] == expected


def test_sums_of_sums_are_joined_in_turns() -> None:
    cx = ll.Graph("g")
    x, y = cx.tensor((2, 3), name="x"), cx.tensor((4,), name="y")
    first = x.apply(AllReduce("data", "sum"))
    (first.sin().apply(AllReduce("data", "sum")) + 1).retrieve()
    (y.apply(AllReduce("data", "sum")) + 1).retrieve()
    y.apply(AllReduce("data", "max")).retrieve()
    compiled = cx.compile(Bucketing(), "dce")
    reduced = [node for node in compiled.ir if isinstance(node.op, AllReduce)]
    assert sorted(node.shape for node in reduced) == [(2, 3), (4,), (10,)]
    assert str(Bucketing(bytes=64)) == "bucket{bytes = 64}"
    apart = cx.compile(Bucketing(bytes=30), "dce")
    assert sum(isinstance(node.op, AllReduce) for node in apart.ir) == 4


def test_the_pass_alone_leaves_a_graph_that_means_the_same() -> None:
    cx = summed()
    compiled = cx.compile(Shard(PLAN), ll.GenericCompiler(), ll.CPUCompiler(), check="values")
    assert "reshard" in str(compiled.ir)
    assert str(Shard(PLAN)) == "shard{mesh = [data.2]}"
    assert str(ll.Sharded(PLAN, ll.CPUCompiler())) == "sharded{mesh = [data.2], device = cpu}"


def test_a_text_that_has_them_is_read_anywhere() -> None:
    code = "import luminal_lab as ll; print(ll.parse(input()).outputs[0].op.name)"
    text = 'graph g(%x: f32[4]) -> (%y) { %y = reshard{old = "a", new = "-"} %x : f32[4] }'
    run = subprocess.run(  # ours
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    assert run.stdout == "reshard\n"


@pytest.mark.parametrize("device", [None, ll.CPUCompiler(threads=1)], ids=["interpreter", "cpu"])
def test_workers_make_their_own_parts_of_numbers(device: ll.CPUCompiler | None) -> None:
    def numbers() -> tuple[ll.Graph, list[ll.Tensor]]:
        cx = ll.Graph("numbers", seed=3)
        x = cx.tensor((8, 6), name="x").set(np.ones((8, 6), "float32"))
        half = cx.arange(8).cast("float16").reshape((8, 1))
        return cx, [(x * cx.rand((8, 6)) + half).retrieve(), (x * cx.arange(6)).retrieve()]

    cx, made = numbers()
    alone, expected = numbers()
    mesh = ll.Mesh(data=2, model=3)
    how = ll.Sharded(ll.sharding(mesh, {"x": ("data", "model")}), device)
    compiled = cx.compile(how)
    for _ in range(2):
        cx.execute()
        alone.execute()
        for one, other in zip(made, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert not [*compiled.communication]
    local = program(compiled).workers.partitioned.ir
    assert not any(node.op.name == "own_part" for node in local)
    if device is not None:  # no kernel makes more numbers than its worker reads
        sizes = [size_of(node.shape) for node in program(compiled).worker.ir]
        assert max(size for size in sizes if isinstance(size, int)) == 8


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("sharded", "ll.Sharded(ll.sharding(mesh, {…}))"),
        ("generic, sharded{mesh = [data.2]}", "ll.Sharded(ll.sharding(mesh, {…}))"),
        ("pipelined", "ll.Pipelined({…}, batch=…)"),
    ],
)
def test_a_text_is_told_what_to_write_instead(text: str, call: str) -> None:
    with pytest.raises(ParseError, match=re.escape(f"hint: {call}")):
        summed().compile(text)


def test_a_maximum_is_not_cut_twice_over_one_axis_when_it_is_joined() -> None:
    def made() -> tuple[ll.Graph, ll.Tensor]:
        cx, rng = ll.Graph("twice"), np.random.default_rng(0)
        shapes = {"x": (3, 33, 1, 3), "w": (3, 1), "k": (2, 33, 1, 3)}
        x, w, k = (cx.tensor(shape, name=name) for name, shape in shapes.items())
        for tensor, shape in zip((x, w, k), shapes.values(), strict=True):
            tensor.set(rng.standard_normal(shape).astype("f"))
        return cx, (x.logsumexp(0, keepdim=True) @ w).conv2d(k, padding=2).retrieve()

    (cx, found), (alone, expected) = made(), made()
    cut = {"x": ("b", None, None, None), "w": ("b", None), "k": ("a", "b", None, None)}
    cx.compile(ll.Sharded(ll.sharding(ll.Mesh(a=2, b=3), cut)))
    cx.execute()
    alone.execute()
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
