"""The first picture means something: of any graph it shows 8 to 60 things, everywhere alike."""

from collections.abc import Set as AbstractSet
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core.ops import Constant
from luminal_lab.io.facts import Subject
from luminal_lab.viz.graphs import before_and_after
from luminal_lab.viz.stretches import BUDGET, LEAST
from tests.viz.live.bundles import Run, bare, run_of
from tests.viz.models import MODELS, snapshots

SMALL = [name for name in MODELS if name != "large"]


def in_sight(run: Run, view: int, alive: AbstractSet[int] | None = None) -> int:
    """Return how many nodes and closed boxes a view shows at first of some nodes' graph."""
    v = f"v{view}/"
    ids, row, opens = run.ints("node.id"), run.ints(f"{v}thing.row"), run.ints(f"{v}thing.opens")
    box, at = run.ints(f"{v}thing.box"), run.ints(f"{v}frame.thing_at")
    header = run.header["views"][view]
    is_open = [one["path"] in header["open"] for one in header["boxes"]]

    def has(thing: int) -> bool:
        if row[thing] >= 0:
            return alive is None or ids[row[thing]] in alive
        return any(map(has, range(at[opens[thing]], at[opens[thing] + 1])))

    count, todo = 0, [0]
    for frame in todo:
        for thing in filter(has, range(at[frame], at[frame + 1])):
            if opens[thing] >= 0 and is_open[box[thing]]:
                todo.append(opens[thing])
            else:
                count += 1
    return count


def all_shown(run: Run, view: int, alive: AbstractSet[int] | None = None) -> int:
    """Return how many nodes of a graph have a thing of their own."""
    ids = run.ints("node.id")
    keys = {ids[row] for row in run.ints(f"v{view}/thing.row") if row >= 0}
    return len(keys if alive is None else keys & alive)


@pytest.mark.parametrize("name", MODELS)
def test_the_first_picture_has_enough_to_see_and_not_too_much(name):
    cx = MODELS[name]()
    payload = cx.display().payload
    count = len(payload.items) + sum(not box.is_open for box in payload.boxes)
    run = run_of(bare(cx.ir))
    fewest = min(LEAST, all_shown(run, 0))
    assert fewest <= count <= BUDGET
    assert fewest <= in_sight(run, 0) <= BUDGET


@pytest.mark.parametrize("name", SMALL)
def test_each_pass_begins_with_enough_before_and_after(name):
    run = run_of(Subject(name, snapshots(name)))
    ids, rows = run.ints("node.id"), list(run.stage_rows())
    for at, stage in enumerate(run.stages):
        if not stage["effect"]:
            continue
        before, after = ({ids[row] for row in rows[k]} for k in (at - 1, at))
        assert in_sight(run, stage["view"], before) <= BUDGET
        least = min(LEAST, all_shown(run, stage["view"], after))
        assert least <= in_sight(run, stage["view"], after) <= BUDGET, stage["name"]


def test_a_lone_box_opens_itself_however_deep():
    payload = MODELS["lone"]().display().payload
    assert [(box.name, box.is_open) for box in payload.boxes] == [("outer.inner.core", True)]
    run = run_of(bare(MODELS["one_scope"]().ir))
    assert "model" in run.header["views"][0]["open"]


def test_what_one_forward_wrote_is_in_its_lines():
    payload = MODELS["block"]().display().payload
    names = [box.name for box in payload.boxes]
    assert names[0] == "block"
    assert any(name.endswith("hidden = (normal @ self.up).gelu()") for name in names)
    assert len(names) == 9


def test_a_loop_of_a_script_is_shown_once():
    payload = MODELS["without_scopes"]().display().payload
    loop = next(box for box in payload.boxes if box.times > 1)
    assert loop.times == 6
    assert loop.name.startswith("lines ")
    assert loop.name.endswith(" #1 … #6")


def test_of_equal_layers_some_are_open():
    payload = MODELS["equal_layers"]().display().payload
    assert [(box.name, box.times, box.is_open) for box in payload.boxes] == [
        ("layers.0", 1, True),
        ("layers.1 … layers.39", 39, True),
    ]


def test_what_is_selected_of_a_stretch_are_its_nodes():
    cx = MODELS["block"]()
    live = cx.explore()
    path = next(
        box["path"] for box in run_of(bare(cx.ir)).header["views"][0]["boxes"] if "@" in box["path"]
    )
    live._selects({"new": {"kind": "scope", "stage": 0, "path": path}})
    selected: Any = live.selected
    assert len({node.meta.origin.line for node in selected}) == 1
    assert len(selected) == 15


# -- scalars ---------------------------------------------------------------------------------------


def shared() -> ll.Graph:
    cx = ll.Graph("shared")
    x = cx.tensor((4,), name="x")
    half = cx.constant(0.5)
    y = (x * half).sin() + 1e-5
    ((y - half).relu() * half).retrieve()
    return cx


def test_scalars_stand_in_each_op_that_reads_them():
    items = shared().display().payload.items
    assert not [item for item in items if item.kind == "constant"]
    labels = {item.label for item in items}
    assert {"mul × 0.5", "add + 1e-5"} <= labels
    run = run_of(bare(shared().ir))
    texts = run.texts("node.label")
    shown = {texts[row] for row in run.ints("v0/thing.row") if row >= 0}
    assert shown == {"x" if label == "x" else label for label in labels}
    # One constant, and all ops that have it.
    row = texts.index("0.5")
    into = [b for a, b in zip(run.ints("v0/folded.row"), run.ints("v0/folded.into"), strict=True)
            if a == row]  # fmt: skip
    assert len(into) >= 2
    assert all("0.5" in texts[reader] for reader in into)


def test_a_scalar_that_is_a_result_or_asked_for_is_a_node():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    (x * 3).retrieve()
    cx.constant(7.0).retrieve()
    kinds = {item.label: item.kind for item in cx.display().payload.items}
    assert kinds == {"x": "input", "mul × 3": "op", "7": "constant"}
    (three,) = [node.id for node in cx.ir if isinstance(node.op, Constant) and node.op.value == 3]
    assert "3" in {item.label for item in cx.display(highlight=three).payload.items}
    assert "constant" in {item.kind for item in cx.display(show_views=True).payload.items}


def test_layers_with_other_scalars_are_not_equal():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    for k in range(4):
        with cx.scope(f"h.{k}"):
            x = (x * (2 if k < 2 else 3)).sin() + x
    x.retrieve()
    assert [box.times for box in cx.display(depth=0).payload.boxes] == [2, 2]


# -- numbers ---------------------------------------------------------------------------------------


def test_each_side_of_a_pair_counts_what_it_has():
    cx = MODELS["block"]()
    cx.compile("recognise, dce")
    changes = ll.diff(cx.ir, cx.snapshots[-1].ir)
    for side, ir in zip(before_and_after(changes), (cx.ir, cx.snapshots[-1].ir), strict=True):
        payload = side.payload
        assert payload.total == len(ir)
        hidden = payload.folded, payload.scalars, payload.closed, payload.repeated, payload.left_out
        assert len(payload.items) + sum(hidden) == len(ir)
        for box in payload.boxes:
            assert box.nodes <= len(ir)
