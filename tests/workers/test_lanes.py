"""When workers did what: lanes of a run in parts, whose collectives are those of the table."""

from itertools import pairwise

import pytest

import luminal_lab as ll
from luminal_lab.errors import NotComputedError
from luminal_lab.workers.compiler import ShardedProgram
from luminal_lab.workers.lanes import Track, lanes_of
from luminal_lab.workers.ops import Reading, Visit
from luminal_lab.workers.processes import Processes
from luminal_lab.workers.threads import Boxes, Group, ThreadCommunicator


def summed(how: ll.Sharded) -> tuple[ll.Graph, ShardedProgram]:
    cx = ll.Graph("sum")
    x = cx.tensor((4, 6), name="x").set([[1.0] * 6] * 4)
    x.sum(0).retrieve()
    program = cx.compile(how).runner
    assert isinstance(program, ShardedProgram)
    return cx, program


ROWS = {"x": ("data", None)}


def test_workers_compute_wait_and_send_what_the_table_says() -> None:
    cx, program = summed(ll.Sharded(ll.sharding(ll.Mesh(data=4), ROWS)))
    with pytest.raises(NotComputedError, match="nothing has run yet"):
        _ = program.lanes
    cx.execute()
    lanes = program.lanes
    (met,) = lanes.met
    (row,) = program.communication
    assert (met.op, met.axis, met.bytes, met.workers) == (row.op, row.axis, row.bytes, (0, 1, 2, 3))
    assert {work.worker for work in lanes.work} == {0, 1, 2, 3}
    for worker in range(4):
        mine = [work for work in lanes.work if work.worker == worker]
        assert [work.phase for work in mine] == ["compute", "send", "compute"]
        assert all(one.end <= other.start for one, other in pairwise(mine))
    assert "of it waiting at 1 collective" in str(lanes)


def test_a_worker_that_comes_early_waits() -> None:
    tracks = [
        Track(0.0, 5.0, (Visit("all_reduce", "data", 8, 1.0, 4.0),)),
        Track(0.0, 5.0, (Visit("all_reduce", "data", 8, 3.0, 4.0),)),
    ]
    lanes = lanes_of(ll.Mesh(data=2), tracks)
    assert [(w.worker, w.phase, w.start, w.end) for w in lanes.work] == [
        (0, "compute", 0.0, 1.0),
        (0, "send", 3.0, 4.0),
        (1, "compute", 0.0, 3.0),
        (1, "send", 3.0, 4.0),
        (0, "compute", 4.0, 5.0),
        (1, "compute", 4.0, 5.0),
    ]
    assert lanes.bubbles == pytest.approx(2 / 10)
    assert (lanes.met[0].start, lanes.met[0].bytes) == (3.0, 8)


def test_the_only_one_of_some_processes_has_a_lane() -> None:
    def talk(mesh: ll.Mesh) -> ThreadCommunicator:
        return ThreadCommunicator(0, {"data": Group((0,))}, Boxes())

    plan = ll.sharding(ll.Mesh(data=1), ROWS)
    cx, program = summed(ll.Sharded(plan, engine=Processes(0, 1, talk)))
    cx.execute()
    assert (program.lanes.workers, program.lanes.within) == (1, None)


def test_clocks_that_differ_are_put_right() -> None:
    tracks = [
        Track(
            0.0 + late,
            5.0 + late,
            (Visit("all_reduce", "data", 8, came + late, 4.0 + late),),
            tuple(Reading("data", at + late, at + late + 0.25) for at in (-2.0, -1.0)),
        )
        for came, late in ((1.0, 0.0), (3.0, 1000.0))
    ]
    lanes = lanes_of(ll.Mesh(data=2), tracks)
    assert [(w.worker, w.phase, w.start, w.end) for w in lanes.work] == [
        (0, "compute", 0.0, 1.0),
        (0, "send", 3.0, 4.0),
        (1, "compute", 0.0, 3.0),
        (1, "send", 3.0, 4.0),
        (0, "compute", 4.0, 5.0),
        (1, "compute", 4.0, 5.0),
    ]
    assert lanes.within == 0.25
    assert str(lanes).endswith("20% of it waiting at 1 collective; clocks ± 250.000 ms")
