"""What `ll.trace()` records: graphs and compiles, nested, at once, in threads, and at what cost."""

import asyncio
import copy
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import pytest

import luminal_lab as ll
from luminal_lab import session, session_compile
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.errors import ArgumentError, GraphError, PassError
from luminal_lab.listeners import LISTENERS
from luminal_lab.passes import compile as manager
from luminal_lab.passes.base import Pass
from tests.expect import error_of


def twice(name: str = "twice") -> ll.Graph:
    cx = ll.Graph(name)
    (cx.tensor((2,), name="x") * 1 + 0).retrieve()
    return cx


@dataclass(frozen=True)
class Failing(Pass):
    """Fail."""

    name: ClassVar[str] = "failing"

    def run(self, ir: IR, edit: Edit) -> None:
        raise ValueError("not today")


@pytest.fixture(autouse=True)
def _nothing_stays_open():
    yield
    assert LISTENERS.get() == ()


def test_graphs_and_compiles_are_recorded_in_order():
    before = twice()
    with ll.trace() as t:
        one = twice("one")
        first = one.compile("simplify, dce")
        second = before.compile("dce")
        two = twice("two")
    after = twice()
    after.compile("dce")
    assert t.graphs == (one, before, two)
    assert t.compilations == (first, second)
    assert t.errors == ()
    assert repr(t) == "<Traced: 3 graphs, 2 compiles; .workbench() shows them>"
    assert str(t).splitlines()[1:] == [
        "<Compilation of one: 2 passes, 5 → 1 nodes>",
        "<Compilation of twice: 1 passes, 5 → 5 nodes>",
        "<Graph two: 5 nodes, 1 input, 1 output; print(cx) shows it>",
    ]
    assert len(t) == 3
    assert [one.title for one in t.workbench().subjects] == ["one", "twice", "two"]


def test_compiles_without_a_session_are_recorded_too():
    ir = twice().ir
    with ll.trace() as t:
        made = ll.compile_ir(ir, "simplify")
    assert t.compilations == (made,)
    assert t.graphs == ()
    assert len(t.workbench().subjects[0].snapshots) == 2


def test_a_compile_that_fails_is_recorded_as_far_as_it_came():
    cx = twice("bad")
    with ll.trace() as t:
        error = error_of(lambda: cx.compile("simplify", Failing()), PassError)
    assert t.compilations == ()
    assert t.errors == (error,)
    (subject,) = t.workbench().subjects
    assert subject.title == (
        "bad, which failed: pass failing: it failed with ValueError: not today"
    )
    assert [one.name for one in subject.snapshots] == ["written", "simplify"]
    assert t.graphs == (cx,)


def test_an_error_ends_the_trace_and_goes_on():
    t = ll.trace()

    def fail() -> None:
        with t:
            twice()
            raise ZeroDivisionError

    error_of(fail, ZeroDivisionError)
    twice()
    assert len(t.graphs) == 1


def test_nested_traces_have_what_is_made_inside_each():
    with ll.trace() as outer:
        a = twice("a")
        with ll.trace() as inner:
            b = twice("b")
        c = twice("c")
    assert outer.graphs == (a, b, c)
    assert inner.graphs == (b,)


def test_traces_may_end_in_any_order():
    one, two = ll.trace(), ll.trace()
    one.__enter__()
    two.__enter__()
    a = twice("a")
    one.__exit__(None, None, None)
    b = twice("b")
    two.__exit__(None, None, None)
    assert (one.graphs, two.graphs) == ((a,), (a, b))


def test_a_trace_that_is_entered_twice_records_once():
    t = ll.trace()
    with t, t:
        cx = twice()
        made = cx.compile("dce")
    with t:
        other = twice()
    assert t.graphs == (cx, other)
    assert t.compilations == (made,)


def test_each_thread_has_its_own_and_may_join_another():
    seen: dict[str, ll.Graph] = {}
    with ll.trace() as mine:
        with ll.trace() as shared:
            pass

        def alone() -> None:
            with ll.trace() as theirs:
                seen["alone"] = twice("alone")
            assert theirs.graphs == (seen["alone"],)

        def joined() -> None:
            with shared:
                seen["joined"] = twice("joined")

        threads = [threading.Thread(target=target) for target in (alone, joined)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        here = twice("here")
    assert mine.graphs == (here,)
    assert shared.graphs == (seen["joined"],)


def test_tasks_have_what_was_open_when_they_began():
    async def write(name: str) -> ll.Graph:
        await asyncio.sleep(0)
        return twice(name)

    async def main():
        with ll.trace() as outer:
            task = asyncio.create_task(write("inside"))
            with ll.trace() as inner:
                other = await write("both")
        late = await task
        return outer.graphs, inner.graphs, late, other

    # In a thread: Playwright, which other tests use, keeps a loop running in the first one.
    with ThreadPoolExecutor() as pool:
        outer, inner, late, other = pool.submit(lambda: asyncio.run(main())).result()
    assert set(outer) == {late, other}
    assert inner == (other,)


def test_graphs_that_stay_empty_are_not_shown():
    with ll.trace() as t:
        ll.Graph("empty")
    assert len(t) == 0
    assert t  # it is still a trace
    error = error_of(t.workbench, GraphError)
    assert str(error) == (
        "workbench: nothing was recorded\n"
        "hint: write or compile a graph inside: with ll.trace() as t: …"
    )


def test_equal_names_are_numbered():
    with ll.trace() as t:
        cx = twice()
        cx.compile("dce")
        cx.compile("simplify")
        twice()
    assert [one.title for one in t.workbench().subjects] == ["twice", "twice #2", "twice #3"]


def test_copies_of_graphs_are_not_new_graphs_of_the_users():
    cx = twice()
    with ll.trace() as t:
        copy.deepcopy(cx)
    assert t.graphs == ()


def test_it_can_be_saved_and_opened(tmp_path):
    with ll.trace() as t:
        twice("one").compile("simplify, dce")
        twice("two")
    t.save(tmp_path / "run.lab")
    opened = ll.open(tmp_path / "run.lab")
    assert [one.title for one in opened.subjects] == ["one", "two"]
    assert [len(one.snapshots) for one in opened.subjects] == [3, 1]


def test_times_belong_to_the_last_compile():
    with ll.trace() as t:
        cx = ll.Graph("timed")
        y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        cx.compile("dce")
        cx.compile("simplify")
    assert y is not None
    subjects = t.workbench(cx.time(rounds=2, warm_up=0)).subjects
    assert [len(one.facts.times) for one in subjects] == [0, 1]


def test_it_takes_nothing():
    cx = twice()
    error = error_of(lambda: ll.trace(cx), ArgumentError)
    assert str(error).startswith("trace: it takes nothing, and got <Graph twice")
    assert "cx.trace(x) follows a node" in error.hint


def test_what_was_recorded_goes_with_the_trace():
    with ll.trace() as t:
        gone = weakref.ref(twice())
    gc.collect()
    assert gone() is not None
    del t
    gc.collect()
    assert gone() is None


def test_a_compile_without_a_trace_asks_once_and_makes_nothing(monkeypatch):
    asked = []

    class Asked:
        def get(self):
            asked.append(1)
            return ()

    monkeypatch.setattr(session, "LISTENERS", Asked())
    monkeypatch.setattr(session_compile, "LISTENERS", Asked())
    monkeypatch.setattr(manager, "LISTENERS", Asked())
    twice().compile("simplify, dce")
    assert len(asked) == 3  # for the graph, before the compile and after it
