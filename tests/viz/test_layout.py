"""Where things are: nothing overlaps, edges end at their nodes, what stays does not move."""

import itertools
import random
import sys
from dataclasses import replace
from typing import Any, cast

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.viz import layout as module
from luminal_lab.viz.entries import entries_of, union_of
from luminal_lab.viz.folding import payload_of
from luminal_lab.viz.graphs import before_and_after, series
from luminal_lab.viz.layered import layered
from luminal_lab.viz.layers import PlacedBlock, Wire
from luminal_lab.viz.layout import centres, layout
from luminal_lab.viz.payload import PictureRequest
from tests.expect import error_of
from tests.needs import need
from tests.viz.graphs import gpt2, softmax, some_graph, trained_mlp
from tests.viz.models import cnn

ENGINES = ["layered", "dot"]


def apart(one, other):
    (a, b, c, d), (e, f, g, h) = one, other
    slack = 0.2  # places are rounded to a tenth
    return a + c <= e + slack or e + g <= a + slack or b + d <= f + slack or f + h <= b + slack


def within(inner, outer):
    (a, b, c, d), (e, f, g, h) = inner, outer
    slack = 0.2
    return e <= a + slack and f <= b + slack and a + c <= e + g + slack and b + d <= f + h + slack


def points(course):
    """Yield points of a course, those of its curves included."""
    at = course[0]
    yield at
    for step in course[1:]:
        if len(step) == 2:
            yield from (
                (at[0] + (step[0] - at[0]) * k / 8, at[1] + (step[1] - at[1]) * k / 8)
                for k in range(1, 9)
            )
        else:
            (a, b), (c, d, e, f, g, h) = at, step
            for k in range(1, 9):
                t = k / 8
                u = 1 - t
                weights = u**3, 3 * u * u * t, 3 * u * t * t, t**3
                yield (
                    sum(w * v for w, v in zip(weights, (a, c, e, g), strict=True)),
                    sum(w * v for w, v in zip(weights, (b, d, f, h), strict=True)),
                )
        at = step[-2:]


def check(payload, where, tight=True):
    """Hold a layout to what every layout promises."""
    things = [*payload.items, *payload.boxes]
    by_home = {}
    for thing in things:
        by_home.setdefault(thing.box, []).append(thing.id)
        if thing.box is not None:
            assert within(where.places[thing.id], where.places[thing.box])
    for ids in by_home.values():
        for one, other in itertools.combinations(ids, 2):
            assert apart(where.places[one], where.places[other]), (things[one], things[other])
    for x, y, width, height in (where.places[thing.id] for thing in things):
        assert min(x, y) >= 0
        assert x + width <= where.width + 0.2
        assert y + height <= where.height + 0.2
    for link, course in zip(payload.links, where.courses, strict=True):
        for id, (x, y) in ((link.source, course[0]), (link.target, course[-1][-2:])):
            left, top, width, height = where.places[id]
            assert left - 2 <= x <= left + width + 2
            assert top - 2 <= y <= top + height + 2  # dot ends a little before
            if tight:
                assert min(abs(y - top), abs(y - top - height)) < 0.2
    if tight:
        check_free(things, where)


def check_free(things, where):
    """Hold edges to going round nodes and closed boxes."""
    solid = [where.places[t.id] for t in things if not getattr(t, "is_open", False)]
    for course in where.courses:
        for x, y in points(course):
            for left, top, width, height in solid:
                assert not (left + 1 < x < left + width - 1 and top + 1 < y < top + height - 1), (
                    course
                )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cx", [softmax(), gpt2(3), trained_mlp()], ids=["softmax", "gpt2", "mlp"])
def test_models_are_placed_well(cx, engine):
    if engine == "dot":
        need("pygraphviz")
    for asked in (
        PictureRequest(),
        PictureRequest(views=True),
        PictureRequest(depth=0),
        PictureRequest(depth=9),
    ):
        payload = payload_of(entries_of(cx.ir), asked)
        check(payload, layout(payload, engine), tight=engine == "layered")


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_with_scopes_are_placed_well(seed):
    payload = payload_of(entries_of(some_graph(seed).ir), PictureRequest(depth=9))
    check(payload, layout(payload))


@pytest.mark.parametrize("seed", range(8))
def test_random_pairs_are_placed_well(seed):
    cx = some_graph(seed)
    cx.compile("simplify, cse, dce, views, dce")
    payload = payload_of(union_of(ll.diff(cx.ir, cx.snapshots[-1].ir)), PictureRequest(depth=9))
    check(payload, layout(payload))


def test_a_union_with_a_cycle_is_placed_well():
    before = ll.parse("graph g(%x: f32[2]) -> (%2) { %1 = sin %x : f32[2]  %2 = sqrt %1 : f32[2] }")
    after = ll.parse("graph g(%x: f32[2]) -> (%1) { %2 = sqrt %x : f32[2]  %1 = sin %2 : f32[2] }")
    payload = payload_of(union_of(ll.diff(before, after)))
    assert {(link.source, link.target) for link in payload.links} >= {(1, 2), (2, 1)}
    where = layout(payload)
    check(payload, where)
    assert where == layout(payload_of(union_of(ll.diff(before, after))))


def test_what_both_of_a_pair_have_does_not_move():
    cx = trained_mlp()
    cx.compile()
    for snapshot in cx.snapshots[1:]:
        if not snapshot.firings:
            continue
        one, other = before_and_after(snapshot.diff())
        assert (one.width, one.where.places) == (other.width, other.where.places)
        old = {item.key: one.where.places[item.id] for item in one.payload.items}
        new = {item.key: other.where.places[item.id] for item in other.payload.items}
        assert old.keys() & new.keys()
        assert all(old[key] == new[key] for key in old.keys() & new.keys())
        assert not any(item.status == "added" for item in one.payload.items)
        assert not any(item.status == "removed" for item in other.payload.items)
        check(one.payload, one.where)


def swapped(one, other):
    """Return how many pairs of things have changed sides from one picture to the next."""
    both = sorted(one.keys() & other.keys(), key=str)
    pairs = itertools.combinations(both, 2)
    return sum((one[a] - one[b]) * (other[a] - other[b]) < 0 for a, b in pairs)


def test_in_a_series_fewer_things_change_sides():
    chained_swaps, swaps = 0, 0
    for cx in (trained_mlp(), cnn(), some_graph(1), some_graph(2)):
        cx.compile()
        pictures = list(series([s.diff() for s in cx.snapshots[1:] if s.firings]))
        for picture in pictures:
            check(picture.payload, picture.where)
        chained = [centres(one.payload, one.where) for one in pictures]
        alone = [centres(one.payload, layout(one.payload)) for one in pictures]
        chained_swaps += sum(map(swapped, chained, chained[1:]))
        swaps += sum(map(swapped, alone, alone[1:]))
    assert chained_swaps < swaps


def test_blocks_stay_in_the_order_that_they_had():
    wires = [Wire(k, 4) for k in range(4)]
    blocks = [PlacedBlock(40, 20)] * 5
    before = 400.0, 300.0, 200.0, 100.0, None
    order = [x for x, _ in layered(blocks, wires, before).places[:4]]
    assert order == sorted(order, reverse=True)


def test_equal_scopes_have_one_layout():
    cx = ll.Graph()
    x = cx.tensor((4, 4), name="x")
    for k in range(3):
        with cx.scope(f"layers.{k}"):
            x = (x * 2).exp2() + x
        x = x.sin() if k else x.sqrt()  # so that they are no neighbours of one kind
    x.retrieve()
    payload = payload_of(entries_of(cx.ir), PictureRequest(depth=9))
    boxes = tuple(replace(box, times=1, members=()) for box in payload.boxes)
    where = layout(replace(payload, boxes=boxes))
    inside = {}
    for item in payload.items:
        if item.box is not None:
            left, top, *_ = where.places[item.box]
            x, y, *size = where.places[item.id]
            inside.setdefault(item.box, []).append((round(x - left, 1), round(y - top, 1), *size))
    first, *others = inside.values()
    assert all(other == first for other in others)


def test_the_same_graph_has_the_same_places():
    one, other = (payload_of(entries_of(gpt2(2).ir), PictureRequest(depth=9)) for _ in range(2))
    assert one == replace(other, items=one.items)
    assert layout(one) == layout(other)


CROSSINGS = {"softmax": 0, "mlp": 8, "gpt2": 0, "random": 257}


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("softmax", softmax),
        ("mlp", trained_mlp),
        ("gpt2", lambda: gpt2(2)),
        ("random", lambda: some_graph(3, 80)),
    ],
)
def test_no_more_edges_cross_than_before(name, make):
    whole = payload_of(entries_of(make().ir), PictureRequest(depth=9))
    blocks = [PlacedBlock(80, 40) for _ in whole.items]
    wires = [Wire(link.source, link.target) for link in whole.links]
    assert layered(blocks, wires).crossings <= CROSSINGS[name]


def test_a_ladder_and_a_tree_have_no_crossings():
    ladder = [Wire(k, k + 2) for k in range(20)] + [Wire(k, k + 1) for k in range(0, 20, 2)]
    assert layered([PlacedBlock(60, 30)] * 22, ladder).crossings == 0
    draw = random.Random(1)
    tree = [Wire(k, draw.randrange(k)) for k in range(1, 120)]
    assert layered([PlacedBlock(60, 30)] * 120, tree).crossings == 0


def test_a_chain_is_straight():
    placed = layered(
        [PlacedBlock(w, 30) for w in (60, 90, 40, 120)], [Wire(k, k + 1) for k in range(3)]
    )
    assert [len(course) for course in placed.courses] == [2, 2, 2]
    assert all(start[0] == end[0] for start, end in placed.courses)


def test_a_long_edge_goes_straight_past_what_it_skips():
    wires = [*(Wire(k, k + 1) for k in range(6)), Wire(0, 6)]
    course = layered([PlacedBlock(60, 30)] * 7, wires).courses[-1]
    assert sum(len(step) == 6 for step in course) <= 2


def test_of_many_long_edges_the_longest_go_beside_everything():
    chain = [Wire(k, k + 1) for k in range(400)]
    back = [Wire(k, 400 - k) for k in range(190)]
    placed = layered([PlacedBlock(60, 30)] * 401, [*chain, *back])
    right = max(x for x, _ in placed.places) + 60
    beside = [course for course in placed.courses if len(course) == 6 and course[2][0] > right]
    assert 20 < len(beside) < 190
    for course in beside:
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(course))
        for x, y in points(course):
            free = not any(a < x < a + 60 and b < y < b + 30 for a, b in placed.places)
            assert free


def test_boxes_that_are_links_of_a_chain_stand_below_each_other():
    count = 30
    blocks = [PlacedBlock(80 + k % 3, 44, opens=True) for k in range(count)] + [
        PlacedBlock(60, 40)
    ] * 2
    wires = [Wire(k, k + 1) for k in range(count - 1)]
    wires += [Wire(count + side, k) for k in range(count) for side in range(2)]
    placed = layered(blocks, wires)
    assert len({round(x + (80 + k % 3) / 2) for k, (x, _) in enumerate(placed.places[:count])}) == 1
    rectangles = [
        (*place, block.width, block.height)
        for place, block in zip(placed.places, blocks, strict=True)
    ]
    for one, other in itertools.combinations(rectangles, 2):
        assert apart(one, other)


def test_an_empty_graph_and_a_self_loop_have_layouts():
    assert layered([], []).places == ()
    placed = layered([PlacedBlock(10, 10)], [Wire(0, 0)])
    assert (placed.places, placed.courses) == (((0.0, 0.0),), ((),))
    empty = payload_of(entries_of(ll.Graph().ir))
    assert (layout(empty).width, layout(empty).height) == (0, 0)


def test_an_unknown_engine_is_refused():
    payload = payload_of(entries_of(softmax().ir))
    assert str(error_of(lambda: layout(payload, cast(Any, "neato")), ArgumentError)) == (
        'display: the layout is \'neato\'\nhint: give "layered" or "dot"'
    )


def test_dot_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    monkeypatch.setattr(module, "has_dot", lambda: False)
    payload = payload_of(entries_of(softmax().ir))
    assert str(error_of(lambda: layout(payload, "dot"), DeviceError)) == (
        "display: the layout is 'dot', and pygraphviz is not installed\n"
        'hint: pip install pygraphviz, or layout="layered", which needs nothing'
    )
