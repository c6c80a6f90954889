"""The proof of memory plans: each planted fault is found, and said."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.dims import Symbol
from luminal_lab.errors import VerifyError
from luminal_lab.kernels.memory.check import check, check_bound
from luminal_lab.kernels.memory.plan import Carry, InPlace, MemoryPlace, MemoryPlan, plan
from luminal_lab.kernels.memory.program import MemoryStep as Step, MemoryValue as Value
from tests.expect import error_of

# %x is read by both, %a and %b are there at one time, %o is what becomes %s.
VALUES = [
    Value(0, 64, "input", name="x"),
    Value(1, 64, "input", name="s"),
    Value(2, 64, name="a"),
    Value(3, 64, name="b"),
    Value(4, 64, alias_of=2, name="v"),
    Value(5, 64, name="c"),
    Value(6, 64, "output", name="o"),
]
STEPS = [Step((0, 1), (2,)), Step((2,), (3,)), Step((4, 3), (5,)), Step((5, 0), (6,))]
GOOD = plan(VALUES, STEPS, donated={6: 1}, in_place=[(5, 3)])


def placed(*groups: Any, **changes: Any) -> MemoryPlan:
    """Return the plan with other places: (kind, the values there, what is below)."""
    places = tuple(MemoryPlace(kind, 64, ids, tuple(below)) for kind, ids, *below in groups)
    return replace(GOOD, places=places, **changes)


A, BC = ("arena", (2,)), ("arena", (3, 5), 0)
X, S = ("input", (0,)), ("input", (1, 6))


def test_a_good_plan_is_accepted():
    check(GOOD)
    check(placed(A, BC, X, S))
    check(placed(A, ("arena", (3,), 0), ("arena", (5,), 0, 1), X, S, in_place=()))


@pytest.mark.parametrize(
    ("faulty", "text"),
    [
        (placed(A, ("arena", (3, 5)), X, S),
         "step 1 needs %a and %b, and neither lies above the other"),
        (placed(A, ("arena", (3,), 0), ("arena", (5,), 0), X, S),
         "step 2 needs %b and %c, and neither lies above the other"),
        (placed(("arena", (2,), 1), ("arena", (3, 5)), X, S),
         "place 0 has place 1 below it, which does not come before it"),
        (placed(A, BC, X, S, in_place=()), "step 2 writes %c over %b, which it reads"),
        (placed(("arena", (2, 3)), ("arena", (5,), 0), X, S),
         "step 1 writes %b over %a, which it reads"),
        (placed(("arena", (2, 3)), ("arena", (5,), 0), X, S, in_place=(InPlace(3, 2, 1),)),
         "step 2 reads %v, and its place holds %b"),
        (placed(("arena", (2,)), ("arena", (3, 6), 0), ("arena", (5,), 0, 1), X, ("input", (1,))),
         "the output %o is in a place of the kind 'arena'"),
        (placed(("arena", (3, 5)), X, ("input", (1, 2, 6))),
         "step 0 writes %a over %s, which it reads"),
        (placed(("arena", (3,)), ("input", (0, 2)), ("input", (1, 5, 6))),
         "step 0 writes %a over %x, which it reads"),
        (placed(A, BC, X, ("input", (1,))), "step 3 writes %o, which has no place"),
        (placed(A, BC, S), "%x has no place"),
        (placed(A, BC, X, S, ("output", (2,))), "%a has two places"),
        (placed(A, BC, ("input", (0, 1, 6))), "%x and %s have one place"),
        (placed(A, BC, ("output", (0,)), S), "%x is in a place of the kind 'output'"),
        (placed(A, X, S, BC), "the places of the arena do not come first"),
        (placed(A, BC, X, S, carries=(Carry(6, 1, "no"),)), "the places of %o and %s are one"),
        (placed(A, BC, X, ("input", (1,)), ("output", (6,))), "the places of %o and %s are two"),
        (replace(GOOD, places=tuple(replace(p, bytes=32) for p in GOOD.places)),
         "%a has 64 bytes, and its place 32"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(faulty: MemoryPlan, text: str):
    assert str(error_of(lambda: check(faulty), VerifyError)) == f"memory plan: {text}"


def test_what_is_needed_after_the_run_is_kept():
    values = [Value(0, 64, "output", name="o"), Value(1, 64, "output", name="p")]
    made = plan(values, [Step((), (0,)), Step((), (1,))])
    faulty = replace(made, places=(MemoryPlace("output", 64, (0, 1)),))
    text = "memory plan: %o is needed after the run, and its place holds %p"
    assert str(error_of(lambda: check(faulty), VerifyError)) == text


def test_what_is_read_in_two_places_is_not_written_over():
    values = [Value(0, 64, name="a"), Value(1, 64, name="b")]
    made = plan(values, [Step((), (0,)), Step((0, 0), (1,))])
    faulty = replace(made, places=(MemoryPlace("arena", 64, (0, 1)),), in_place=(InPlace(1, 0, 1),))
    text = "memory plan: step 1 writes %b over %a and %a, which it reads"
    assert str(error_of(lambda: check(faulty), VerifyError)) == text


def test_the_place_of_an_input_is_no_place_for_another_output():
    values = [Value(0, 64, "input", name="s"), *(Value(k, 64, "output") for k in (1, 2))]
    made = plan(values, [Step((0,), ()), Step((), (1,)), Step((), (2,))], donated={2: 0})
    assert made.carries == (Carry(2, 0),)
    faulty = replace(
        made, places=(MemoryPlace("input", 64, (0, 1)), MemoryPlace("output", 64, (2,)))
    )
    text = "memory plan: the output %1 is in a place of the kind 'input'"
    assert str(error_of(lambda: check(faulty), VerifyError)) == text


def test_two_results_of_a_step_are_not_one():
    made = plan([Value(0, 64), Value(1, 64)], [Step((), (0, 1))])
    faulty = replace(made, places=(MemoryPlace("arena", 64, (0, 1)),))
    text = "memory plan: step 0 writes %0 and %1 to one place"
    assert str(error_of(lambda: check(faulty), VerifyError)) == text


@pytest.mark.parametrize(
    ("starts", "text"),
    [
        ((0, 0), "step 1 needs %a at 0 to 64 and %b at 0 to 64"),
        ((0, 32), "%b begins at 32, no multiple of 64"),
        ((-64, 0), "%a begins at -64, no multiple of 64"),
    ],
)
def test_wrong_offsets_are_found(starts: Any, text: str):
    bound = placed(A, BC, X, S).bind()
    object.__setattr__(bound, "starts", starts)
    assert str(error_of(lambda: check_bound(bound), VerifyError)) == f"memory plan: {text}"


def test_an_arena_that_is_too_small_is_found():
    bound = placed(A, BC, X, S).bind()
    bound.__dict__["arena_bytes"] = 64
    text = "memory plan: %b ends at 128, and the arena at 64"
    assert str(error_of(lambda: check_bound(bound), VerifyError)) == text


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9), st.data())
def test_bytes_that_can_meet_are_seen_without_sizes(spans: Any, data: Any):
    size = Symbol("n") * 64
    steps = [Step((), ()) for _ in range(10)]
    for id, (one, other) in enumerate(spans):
        first, last = sorted((one, other))
        steps[first] = steps[first]._replace(writes=(*steps[first].writes, id))
        if last > first:
            steps[last] = steps[last]._replace(reads=(*steps[last].reads, id))
    made = plan([Value(id, size) for id in range(len(spans))], steps)
    index = data.draw(st.integers(0, len(made.places) - 1))
    place = made.places[index]
    faulty = replace(place, below=())
    faulty = replace(made, places=(*made.places[:index], faulty, *made.places[index + 1 :]))
    spoiled = False
    try:
        check_bound(faulty.bind({"n": 3}))
    except VerifyError:
        spoiled = True
    if spoiled:
        error_of(lambda: check(faulty), VerifyError)
