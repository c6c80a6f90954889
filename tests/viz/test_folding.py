"""What of a graph is shown: folded views, closed and repeated scopes, and the count of the rest."""

import json

import pytest

import luminal_lab as ll
from luminal_lab.viz.entries import entries_of, union_of
from luminal_lab.viz.folding import payload_of
from luminal_lab.viz.payload import PictureRequest
from luminal_lab.viz.stretches import BUDGET
from tests.viz.graphs import gpt2, softmax, some_graph, trained_mlp


def shown(cx, **asked):
    return payload_of(entries_of(cx.ir), PictureRequest(**asked))


def adds_up(payload):
    nodes = sum(item.kind != "outside" for item in payload.items)
    hidden = payload.folded, payload.scalars, payload.closed, payload.repeated, payload.left_out
    assert min(hidden) >= 0
    return nodes + sum(hidden) == payload.total


@pytest.mark.parametrize(
    ("name", "cx"), [("softmax", softmax()), ("mlp", trained_mlp()), ("gpt2", gpt2(3))]
)
def test_payloads_are_as_recorded(name, cx, golden):
    made = shown(cx).to_json()
    golden(json.dumps(made, indent=1, ensure_ascii=False) + "\n", f"golden/{name}.json")


def test_views_are_in_the_edges_unless_they_are_asked_for():
    folded = shown(softmax())
    assert [link.views for link in folded.links if link.views] == [("expand",), ("expand",)]
    assert folded.shown == "9 of 13 nodes (2 views in the edges, 2 scalars in the ops)"
    unfolded = shown(softmax(), views=True)
    assert (len(unfolded.items), unfolded.shown) == (13, "13 of 13 nodes")
    assert {item.kind for item in unfolded.items} >= {"view", "input", "constant", "reduce", "op"}


def test_a_view_that_is_a_result_is_a_node():
    cx = ll.Graph()
    cx.tensor((2, 3), name="x").T.retrieve()
    assert [(item.label, item.kind) for item in shown(cx).items] == [
        ("x", "input"),
        ("permute axes [1, 0]", "view"),
    ]


def test_equal_layers_are_shown_once_and_counted():
    payload = shown(gpt2())
    times = [(box.name, box.times, len(box.members)) for box in payload.boxes if box.times > 1]
    assert times == [("h.0 … h.11", 12, 12)]
    assert adds_up(payload)
    one = sum(item.scope.startswith("gpt2.h.0") for item in payload.items)
    inside = next(box.nodes for box in payload.boxes if box.times == 12)
    assert payload.repeated == 11 * inside
    assert one < inside == len([i for i in shown(gpt2(), depth=9).items if ".h.0" in i.scope])


def test_what_feeds_the_next_layer_is_no_edge_back():
    payload = shown(gpt2(), depth=9)
    order = {item.id: item.key for item in payload.items}
    assert all(order[link.source] < order[link.target] for link in payload.links)


def test_a_layer_that_differs_is_not_in_the_group():
    cx = ll.Graph()
    x = cx.tensor((4, 4), name="x")
    for k in range(5):
        with cx.scope(f"layers.{k}"):
            x = (x * 2).exp2() + (1 if k != 2 else 3)
    x.retrieve()
    names = [(box.name, box.times) for box in shown(cx).boxes]
    assert names == [("layers.0 … layers.1", 2), ("layers.2", 1), ("layers.3 … layers.4", 2)]


def test_layers_with_other_wiring_are_not_equal():
    cx = ll.Graph()
    x = cx.tensor((4, 4), name="x")
    with cx.scope("one"):
        y = x.exp2() + x
    with cx.scope("two"):
        half = y.exp2()
        z = half + half
    z.retrieve()
    assert [box.times for box in shown(cx).boxes] == [1, 1]


def test_gradients_have_a_box_of_their_own():
    payload = shown(trained_mlp())
    assert "gradients" in {box.path for box in payload.boxes}
    names = {box.id: box.path for box in payload.boxes}
    made = [item for item in payload.items if item.rule.startswith("grad-")]
    assert made
    assert all(names[item.box or 0].startswith("gradients") for item in made)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_depth_opens_so_many_scopes(depth):
    payload = shown(gpt2(), depth=depth)
    levels = {box.id: box.path.count(".") - box.path.count("h.") for box in payload.boxes}
    assert all(box.is_open == (levels[box.id] < depth) for box in payload.boxes)
    assert adds_up(payload)


def test_without_a_depth_it_stays_readable():
    assert len(shown(gpt2()).items) + len(shown(gpt2()).boxes) <= BUDGET + 10
    assert all(box.is_open for box in shown(gpt2(1), depth=9).boxes)


def test_a_large_graph_without_scopes_is_cut_into_stretches():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    for _ in range(500):
        x = x.sin()
    x.retrieve()
    payload = shown(cx)
    assert payload.left_out == 0
    assert 8 <= len(payload.items) + sum(not box.is_open for box in payload.boxes) <= BUDGET
    assert adds_up(payload)
    assert len(shown(cx, depth=1).items) == 501


@pytest.mark.parametrize("seed", range(20))
def test_every_node_is_counted_once(seed):
    cx = some_graph(seed)
    for asked in ({}, {"views": True}, {"depth": 0}, {"depth": 1}, {"select": frozenset({3, 8})}):
        payload = shown(cx, **asked)
        assert adds_up(payload)
        known = {thing.id for thing in (*payload.items, *payload.boxes)}
        assert known == set(range(len(known)))
        assert all({link.source, link.target} <= known for link in payload.links)


def test_marks_say_what_is_special():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    kept = x.sin().keep()
    kept.sqrt().retrieve()
    x.exp2()
    marks = {item.label: item.marks for item in cx.display().payload.items}
    assert marks == {"x": (), "sin": ("kept",), "sqrt": ("retrieved",), "exp2": ("unused",)}


def test_what_is_computed_again_is_marked():
    cx = ll.Graph()
    x = cx.tensor((3,), name="x")
    with cx.scope("part"):
        y = x.exp2().sin()
    loss = y.sum()
    (slope,) = ll.grad(loss, [x], checkpoint=["part"])
    slope.retrieve()
    found = [item.label for item in shown(cx).items if "recomputed" in item.marks]
    assert "exp2" in found


def test_of_a_pair_changed_views_are_nodes_and_statuses_are_on_edges():
    cx = softmax()
    cx.compile("recognise, dce")
    payload = payload_of(union_of(ll.diff(cx.ir, cx.snapshots[-1].ir)))
    assert payload.is_pair
    statuses = {item.status for item in payload.items}
    assert statuses == {"kept", "added", "removed"}
    assert any(item.op.startswith("expand") and item.status == "removed" for item in payload.items)
    assert {link.status for link in payload.links} == {"added", "removed"}
    assert adds_up(payload)


def test_a_rewired_node_has_its_old_and_its_new_edges():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    ((x * 1) + x.sin()).retrieve()
    cx.compile("simplify, dce")
    payload = payload_of(union_of(ll.diff(cx.ir, cx.snapshots[-1].ir)))
    add = next(item for item in payload.items if item.label == "add")
    assert add.status == "rewired"
    into = {link.status for link in payload.links if link.target == add.id}
    assert into == {"added", "removed", "kept"}


def test_a_node_that_becomes_another_under_its_id_is_two():
    before = ll.parse("graph g(%x: f32[2]) -> (%1) { %1 = sin %x : f32[2] }")
    after = ll.parse("graph g(%x: f32[2]) -> (%1) { %1 = sqrt %x : f32[2] }")
    payload = payload_of(union_of(ll.diff(before, after)))
    assert [(item.label, item.status) for item in payload.items] == [
        ("x", "kept"),
        ("sin", "removed"),
        ("sqrt", "added"),
    ]


def test_of_a_large_pair_only_what_changed_and_its_neighbours_is_shown():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    for k in range(100):
        x = x.sin() if k != 50 else x * 1
    x.retrieve()
    cx.compile("simplify, dce")
    payload = payload_of(union_of(ll.diff(cx.ir, cx.snapshots[-1].ir)))
    assert [item.status for item in payload.items].count("kept") <= 2
    assert payload.left_out > 90
    assert adds_up(payload)


def test_equal_changes_in_equal_layers_are_one():
    cx = gpt2()
    cx.compile("recognise, dce")
    recognise = cx.snapshots[1]
    payload = payload_of(union_of(recognise.diff()))
    assert max(box.times for box in payload.boxes) >= 11
