"""Frames: nothing overlaps, wires end at their things, all reads are drawn, layouts are shared."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab.core.edit import Edit
from luminal_lab.core.op import View
from luminal_lab.core.ops import Pick, Recip, Sqrt
from luminal_lab.io.facts import Subject
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.viz.stretches import BUDGET
from tests.viz.graphs import gpt2, hostile, softmax, some_graph, trained_mlp
from tests.viz.live.bundles import Frame, Run, bare, compiled, run_of
from tests.viz.models import linear_block
from tests.viz.test_layout import apart

CASES = {
    "softmax": lambda: bare(softmax().ir),
    "gpt2": lambda: compiled(gpt2(3), ll.CPUCompiler()),
    "mlp": lambda: compiled(trained_mlp(), ll.GenericCompiler()),
    "hostile": lambda: bare(hostile()),
    "random": lambda: compiled(some_graph(5), "simplify, cse, dce, views, dce"),
}


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest) -> Run:
    return run_of(CASES[request.param]())


def views(run: Run) -> Iterator[tuple[int, list[Frame]]]:
    for view in range(len(run.header["views"])):
        yield view, list(run.frames(view))


def check_places(frame: Frame) -> None:
    for one, other in itertools.combinations(frame.rects, 2):
        assert apart(one, other)
    width, height = frame.size
    for x, y, w, h in frame.rects:
        assert min(x, y) >= 0
        assert x + w <= width + 0.2
        assert y + h <= height + 0.2
    for (source, target), course in zip(frame.wires, frame.courses, strict=True):
        ends = (source, course[0][-2:]), (target, course[-1][-2:])
        for end, (x, y) in ends:
            if end < 0:
                assert x == pytest.approx(frame.ports[~end], abs=0.2)
                assert y == pytest.approx(height if frame.sides[~end] else 0, abs=0.2)
                continue
            left, top, w, h = frame.rects[end]
            assert left - 0.2 <= x <= left + w + 0.2
            assert min(abs(y - top), abs(y - top - h)) < 0.2


def rooted(sources: list[int], views: dict[int, int]) -> set[int]:
    """Return what a node reads by wires: folded views stand in them."""
    found = set[int]()
    for id in sources:
        while id in views:
            id = views[id]
        found.add(id)
    return found


def check_wires(run: Run, view: int, frames: list[Frame]) -> None:
    """Hold the wires of a view to being what nodes read, and nothing else."""
    v = f"v{view}/"
    row, old, opens = (run.ints(f"{v}thing.{name}") for name in ("row", "old", "opens"))
    box, wire_at = run.ints(f"{v}frame.box"), run.ints(f"{v}frame.wire_at")
    carried, port_at = run.ints(f"{v}wire.carried"), run.ints(f"{v}frame.port_at")
    port_row, home = run.ints(f"{v}port.row"), run.ints(f"{v}thing.frame")
    status, port_status = run.ints(f"{v}wire.status"), run.ints(f"{v}port.status")
    ids = run.ints("node.id")
    folded = dict(zip(run.ints(f"{v}folded.row"), run.ints(f"{v}folded.into"), strict=True))
    views = {ids[one]: run.sources(one)[0] for one in folded if run.sources(one)}
    scalars = {ids[one] for one in folded if not run.sources(one)}
    ends: dict[tuple[int, int, int], set[int]] = {}  # of a frame, who has what carried to it
    starts: dict[tuple[int, int, int], set[int]] = {}
    for at, frame in enumerate(frames):
        for number, (source, target) in enumerate(frame.wires, wire_at[at]):
            key = at, carried[number], status[number]
            ends.setdefault(key, set()).add(target if target < 0 else frame.things[target])
            starts.setdefault(key, set()).add(source if source < 0 else frame.things[source])
            for end in (source, target):
                if end < 0:
                    port = port_at[at] + ~end
                    assert (port_row[port], port_status[port]) == key[1:]
                    assert box[at] >= 0
            if source >= 0 and opens[frame.things[source]] < 0:
                assert row[frame.things[source]] == carried[number]
        # What goes through a border goes on on its other side.
        for number, (source, target) in enumerate(frame.wires, wire_at[at]):
            outer = home[box[at]], carried[number], status[number]
            assert source >= 0 or box[at] in ends[outer]
            assert target >= 0 or box[at] in starts[outer]
    for thing, one in enumerate(row):
        if one < 0:
            continue
        wanted = rooted(run.sources(one), views) - scalars
        wanted |= rooted(run.sources(old[thing]), views) - scalars if old[thing] >= 0 else set()
        drawn = {ids[what] for (at, what, _), things in ends.items()
                 if at == home[thing] and thing in things}  # fmt: skip
        assert wanted <= drawn
        if old[thing] < 0 and not len(run.header["views"]) > 1:
            assert wanted == drawn


def test_frames_are_placed_well(run: Run):
    for _, frames in views(run):
        for frame in frames:
            check_places(frame)


def test_wires_are_what_nodes_read(run: Run):
    for view, frames in views(run):
        check_wires(run, view, frames)


@given(st.integers(0, 10_000))
def test_whatever_the_graph_its_frames_are_right(seed):
    run = run_of(compiled(some_graph(seed, 30), "simplify, cse, dce, views, dce"))
    for view, frames in views(run):
        check_wires(run, view, frames)
        for frame in frames:
            check_places(frame)


def test_each_node_of_each_step_is_one_thing_or_in_a_wire(run: Run):
    ids = run.ints("node.id")
    rows = list(run.stage_rows())
    for stage, said in enumerate(run.stages):
        v = f"v{said['view']}/"
        things = [ids[row] for row in run.ints(f"{v}thing.row") if row >= 0]
        assert len(things) == len(set(things))
        shown = {*things, *(ids[row] for row in run.ints(f"{v}folded.row"))}
        assert shown >= {ids[row] for row in rows[stage]}
        for _, gone, new in run.firings(stage):
            assert shown >= {ids[row] for row in (*gone, *new)}


def test_frames_with_equal_contents_share_one_layout(run: Run):
    for _, frames in views(run):
        known: dict[object, int] = {}
        for frame in frames:
            contents = repr((frame.rects, frame.wires, frame.ports, frame.said))
            assert known.setdefault(contents, frame.layout) == frame.layout


def test_equal_layers_are_laid_out_once():
    run = run_of(bare(gpt2(6).ir))
    paths = ["", *(box["path"] for box in run.header["views"][0]["boxes"])]
    layouts = dict(zip(paths, run.ints("v0/frame.layout"), strict=True))
    assert len({layouts[f"gpt2.h.{k}.attn"] for k in range(6)}) == 1
    group = next(box for box in run.header["views"][0]["boxes"] if box["times"] == 6)
    assert (group["name"], group["path"]) == ("h.0 … h.5", "gpt2.h.0…gpt2.h.5")
    assert group["members"] == [f"gpt2.h.{k}" for k in range(6)]


def test_a_frame_that_a_pass_does_not_touch_stays_as_it_is():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    with cx.scope("a"):
        x = (x * 1).sin() + x
    with cx.scope("b"):
        x = x.exp2() * x + x.sqrt()
    x.retrieve()
    run = run_of(compiled(cx, "simplify, dce"))
    found: list[Frame] = []
    for view, frames in views(run):
        paths = ["", *(box["path"] for box in run.header["views"][view]["boxes"])]
        found.append(frames[paths.index("b")])
    assert len(found) > 1
    assert all(frame.rects == found[0].rects for frame in found)
    assert all(frame.courses == found[0].courses for frame in found)


def test_two_closed_boxes_have_one_course_between_them():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    with cx.scope("a"):
        made = [x * k for k in range(2, 6)]
    with cx.scope("b"):
        (made[0] + made[1] * made[2] + made[3]).retrieve()
    frame = next(iter(run_of(bare(cx.ir)).frames(0)))
    between = [course for (a, b), course in zip(frame.wires, frame.courses, strict=True)
               if a > 0 and b > 0]  # fmt: skip
    assert len(between) == 4
    assert all(course == between[0] for course in between)


def test_views_are_in_wires_and_say_so():
    cx = ll.Graph()
    x = cx.tensor((2, 3), name="x")
    (x.T.reshape(6).exp2() + x.T.reshape(6)).retrieve()
    run = run_of(bare(cx.ir))
    assert "permute reshape" in run.texts("v0/wire.label")
    texts, folded = run.texts("node.op"), run.ints("v0/folded.row")
    assert {texts[row] for row in folded} == {"permute", "reshape"}
    assert all(isinstance(cx.ir[run.ints("node.id")[row]].op, (View, Pick)) for row in folded)
    assert run.header["views"][0]["shown"] == "3 nodes of 7 (4 views in the edges)"


def check_statuses(run: Run) -> set[int]:
    """Hold each thing to what became of it, and return what there was."""
    ids = run.ints("node.id")
    rows = list(run.stage_rows())
    found = set[int]()
    for stage, said in enumerate(run.stages[1:], 1):
        if not said["effect"]:
            continue
        v = f"v{said['view']}/"
        before, after = ({ids[row] for row in rows[k]} for k in (stage - 1, stage))
        things = zip(run.ints(f"{v}thing.row"), run.ints(f"{v}thing.status"), strict=True)
        for row, status in things:
            if row >= 0:
                here = ids[row] in before, ids[row] in after
                wanted = {(True, False): 2, (False, True): 1, (False, False): 4}.get(here)
                assert status == wanted if wanted else status in (0, 3)
                found.add(status)
    return found


def test_what_became_of_things_is_told(run: Run):
    check_statuses(run)


def test_what_comes_and_goes_within_a_pass_is_passing():
    before = ll.parse("graph g(%x: f32[2]) -> (%z) { %y = sin %x : f32[2]  %z = exp2 %y : f32[2] }")
    edit = Edit(before)
    with edit.firing("one"):
        a = edit.insert(Sqrt(), "x", like="y")
        edit.replace("y", a)
    with edit.firing("two"):
        b = edit.insert(Recip(), "x", like=a)
        edit.replace(a, b)
    edit.erase(a, rule="unused")
    first = Snapshot(before, before, Record("written", ()))
    subject = Subject("g", (first, Snapshot(before, edit.ir(), Record("both", edit.log), 1)))
    run = run_of(subject)
    assert check_statuses(run) == {0, 1, 3, 4}
    frame = next(iter(run.frames(1)))
    statuses = dict(zip(frame.wires, run.ints("v1/wire.status"), strict=True))
    ops = [run.texts("node.op")[row] for row in run.ints("v1/thing.row")]
    place = {op: at for at, op in enumerate(ops)}
    assert statuses[place["input"], place["sqrt"]] == 4
    assert statuses[place["sqrt"], place["exp2"]] == 4
    assert statuses[place["recip"], place["exp2"]] == 1
    assert statuses[place["sin"], place["exp2"]] == 2
    check_wires(run, 1, [frame])


def test_what_a_pass_leaves_unused_is_marked_as_left():
    before = ll.parse(
        "graph g(%x: f32[2]) -> (%z) { %o = exp2 %x : f32[2]  %y = sin %x : f32[2]  "
        "%r = recip %y : f32[2]  %z = exp2 %r : f32[2] }"
    )
    edit = Edit(before)
    with edit.firing("one"):
        edit.replace("r", edit.insert(Sqrt(), "x", like="r"))
    first = Snapshot(before, before, Record("written", ()))
    subject = Subject("g", (first, Snapshot(before, edit.ir(), Record("cut", edit.log), 1)))
    run = run_of(subject)
    ops = [run.texts("node.op")[row] for row in run.ints("v1/thing.row")]
    marks = dict(zip(ops, run.ints("v1/thing.marks"), strict=True))
    assert (marks["sin"], marks["recip"], marks["input"], marks["sqrt"]) == (16, 16, 0, 0)
    assert [*run.ints("v1/thing.marks")].count(8) == 1  # what was unused before is so in both


def test_nodes_are_told_apart_by_what_the_session_knows():
    cx = trained_mlp()
    run = run_of(replace(bare(cx.ir), parameters=frozenset(cx._parameters.values())))
    kinds = [run.header["kinds"][kind] for kind in run.ints("node.kind")]
    assert kinds.count("parameter") == len(cx._parameters)
    assert kinds.count("input") == 1


def test_equal_neighbours_that_a_cut_tells_apart_are_all_there():
    run = run_of(compiled(linear_block(), ll.GenericCompiler(), ll.CPUCompiler(threads=1)))
    for view, frames in views(run):
        check_wires(run, view, frames)


def test_a_graph_without_scopes_is_one_frame_as_long_as_one_can_take_it_in():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    for _ in range(29):
        x = x.sin() + x
    x.retrieve()
    run = run_of(bare(cx.ir))
    (frame,) = run.frames(0)
    assert len(frame.things) == 59
    check_wires(run, 0, [frame])


def test_a_large_graph_without_scopes_is_in_frames_of_which_none_is_too_large():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    for _ in range(300):
        x = x.sin() + x
    x.retrieve()
    run = run_of(bare(cx.ir))
    frames = list(run.frames(0))
    assert max(len(frame.things) for frame in frames) <= BUDGET
    assert sum(row >= 0 for row in run.ints("v0/thing.row")) == 601
    check_wires(run, 0, frames)


def test_an_empty_graph_has_one_empty_frame():
    run = run_of(bare(ll.Graph().ir))
    (frame,) = run.frames(0)
    assert (frame.things, frame.wires, frame.size) == ([], [], (0, 0))
