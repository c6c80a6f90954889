"""The graphs before and after a pass: each has places of its own, for what it has alone."""

import itertools

import pytest

import luminal_lab as ll
from tests.viz.graphs import gpt2, softmax, some_graph, trained_mlp
from tests.viz.live.bundles import Frame, Run, bare, compiled, run_of
from tests.viz.test_layout import apart

ADDED, REMOVED, PASSING = 1, 2, 4
ABSENT = {"before": {ADDED, PASSING}, "after": {REMOVED, PASSING}}
CASES = {
    "softmax": lambda: compiled(softmax(), ll.GenericCompiler()),
    "gpt2": lambda: compiled(gpt2(3), ll.CPUCompiler()),
    "mlp": lambda: compiled(trained_mlp(), ll.GenericCompiler()),
    "random": lambda: compiled(some_graph(5), "simplify, cse, dce, views, dce"),
}


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest) -> Run:
    return run_of(CASES[request.param]())


def pairs(run: Run) -> list[int]:
    """Return the views of passes that changed something."""
    numbers = range(len(run.header["views"]))
    return [view for view in numbers if f"r0/v{view}/frame.after" in run.bundle.columns]


def present(run: Run, view: int, side: str) -> set[int]:
    """Return the things that a side has: nodes by what became of them, boxes by what is in them."""
    statuses, opens = (run.ints(f"v{view}/thing.{name}") for name in ("status", "opens"))
    frames = list(run.frames(view))

    def has(thing: int) -> bool:
        if opens[thing] < 0:
            return statuses[thing] not in ABSENT[side]
        return any(map(has, frames[opens[thing]].things))

    return {thing for thing in range(len(statuses)) if has(thing)}


@pytest.mark.parametrize("side", ABSENT)
def test_what_a_side_has_stands_apart_and_the_rest_nowhere(run: Run, side: str):
    assert pairs(run)
    for view in pairs(run):
        there = present(run, view, side)
        for frame in run.frames(view, side):
            standing = [rect for rect in frame.rects if rect[2]]
            assert [thing in there for thing in frame.things] == [r[2] > 0 for r in frame.rects]
            width, height = frame.size
            for one, other in itertools.combinations(standing, 2):
                assert apart(one, other)
            for x, y, w, h in standing:
                assert min(x, y) >= 0
                assert x + w <= width + 0.2
                assert y + h <= height + 0.2


@pytest.mark.parametrize("side", ABSENT)
def test_wires_of_a_side_end_at_what_it_has(run: Run, side: str):
    for view in pairs(run):
        for frame in run.frames(view, side):
            rows = zip(frame.wires, frame.courses, frame.said, strict=True)
            for (source, target), course, (status, _) in rows:
                ends = [end for end in (source, target) if end >= 0]
                drawn = status not in ABSENT[side] and all(frame.rects[end][2] for end in ends)
                assert bool(course) == drawn
                if not course:
                    continue
                for end, (x, y) in ((source, course[0][-2:]), (target, course[-1][-2:])):
                    if end < 0:
                        continue
                    left, top, w, h = frame.rects[end]
                    assert left - 0.2 <= x <= left + w + 0.2
                    assert min(abs(y - top), abs(y - top - h)) < 0.2


def area(frames: list[Frame]) -> float:
    return sum(width * height for width, height in (frame.size for frame in frames))


def test_each_side_alone_takes_less_room_than_both():
    run = run_of(CASES["softmax"]())
    recognise = [stage["name"] for stage in run.stages].index("recognise")
    view = run.stages[recognise]["view"]
    both, before, after = (
        area(list(run.frames(view, side))) for side in ("layout", "before", "after")
    )
    assert after < 0.3 * both
    assert before <= both


def test_a_frame_that_did_not_change_has_one_layout(run: Run):
    for view in pairs(run):
        both, before, after = (run.ints(f"v{view}/frame.{side}") for side in ("layout", *ABSENT))
        statuses = run.ints(f"v{view}/thing.status")
        there = [present(run, view, side) for side in ABSENT]
        for at, frame in enumerate(run.frames(view)):
            changes = {status for status, _ in frame.said} | {statuses[t] for t in frame.things}
            if not changes & {ADDED, REMOVED, PASSING} and all(
                inner in things for things in there for inner in frame.things
            ):
                assert both[at] == before[at] == after[at]


def test_a_graph_alone_has_no_sides():
    assert pairs(run_of(bare(softmax().ir))) == []
