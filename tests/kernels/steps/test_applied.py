"""Schedules as a user has them: each step's nest, another schedule, what a refused one says."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, LabError, ParseError, RangeError, ScheduleError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.pipeline import parse_pipeline
from tests.expect import error_of

TOTAL = """\
kernel twice(x: f32[n, 8]) -> (y: f32[n, 8])
  y[i < n, j < 8] = x[i, j] * 2.0"""


@pytest.fixture
def kernel() -> Kernel:
    definition = parse_definition(TOTAL)
    steps = parse_schedule("split i by 4\nparallel i.block\nsimd j")
    return make_kernel(definition, "twice", Machine(), steps)


def test_a_step_shows_what_it_made_of_the_nest(kernel: Kernel) -> None:
    assert len(kernel.steps) == 3
    assert kernel.steps.end == kernel.nest
    assert kernel.steps[0].before == kernel.steps.start
    assert (
        str(kernel.steps[1])
        == """\
# parallel i.block
@@ -1,5 +1,5 @@
 nest twice(x: f32[n, 8]) -> (y: f32[n, 8])
-  for i.block < (n + 3)//4:
+  parallel i.block < (n + 3)//4:
     for i.own < min(4, n - 4*i.block):
       for j < 8:
         y[4*i.block + i.own, j] = x[4*i.block + i.own, j] * 2.0""".replace(
            "4*i.block + i.own", "4*i.block + i.own"
        )
    )
    assert repr(kernel.steps) == "<Changes: 3 steps; print(…) shows them, [n] is one>"
    assert repr(kernel.steps[2]).startswith("<Change simd j; print(…)")
    assert str(kernel.steps).startswith("nest twice(x: f32[n, 8])")


def test_a_kernel_by_another_schedule(kernel: Kernel) -> None:
    other = kernel.rescheduled("parallel i")
    assert str(other.schedule) == "parallel i"
    assert (other.definition, other.name) == (kernel.definition, kernel.name)
    assert other != kernel
    assert other.rescheduled(str(kernel.schedule)) == kernel
    assert other.rescheduled("").schedule == parse_schedule("")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "split i by 4\nparallel i.block\nunroll i.own\nsimd j",
            "kernel twice: unroll i.own: its size, min(4, n - 4*i.block), is not known before it "
            "runs\n"
            "    split i by 4\n    parallel i.block\n  > unroll i.own\n    simd j\n"
            "hint: split i.own by a number and unroll the inner loop; round or clamp that first "
            "where the last block may be shorter",
        ),
        (
            "split i by 4\n  paralel i.block",
            "kernel twice: line 2, column 3: there is no step 'paralel'\n    paralel i.block\n"
            "    ^^^^^^^\nhint: did you mean 'parallel'?",
        ),
        (
            "split i by 4\nmerge i.block, j",
            "kernel twice: merge i.block, j: in i.block there is i.own\n"
            "    split i by 4\n  > merge i.block, j\n"
            "hint: it takes loops that stand right inside each other: name i.own, too",
        ),
    ],
)
def test_a_refused_step_is_shown_in_its_schedule(kernel: Kernel, text: str, message: str) -> None:
    with pytest.raises(LabError) as caught:
        kernel.rescheduled(text)
    assert str(caught.value) == message


def test_a_kernel_without_a_nest_says_so() -> None:
    bare = Kernel("mine", None, "", ())
    for ask in (lambda: bare.steps, lambda: bare.rescheduled("")):
        with pytest.raises(ScheduleError, match="kernel mine: it is C that no schedule made, and"):
            ask()


# -- a program with another schedule ---------------------------------------------------------------


def graph() -> tuple[ll.Graph, ll.Tensor]:
    cx = ll.Graph()
    x = cx.tensor((6, 8), name="x").set(np.arange(48, dtype=np.float32).reshape(6, 8))
    return cx, ((x - 1) * 2).retrieve()


def test_a_program_with_an_edited_schedule() -> None:
    cx, y = graph()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    (kernel,) = cx.kernels
    assert cx.kernels[kernel.name] is cx.kernels[0]
    device = ll.CPUCompiler(schedules={kernel.name: ""})
    assert str(device) == f"cpu{{schedules = [{kernel.name}]}}"
    cx.compile(ll.GenericCompiler(), device)
    assert not cx.kernels[0].schedule
    assert cx.kernels[0].definition == kernel.definition
    cx.execute()
    assert y.numpy()[5, 7] == 92


def test_a_schedule_for_no_kernel_and_one_that_does_not_fit() -> None:
    cx, _ = graph()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    (name,) = (kernel.name for kernel in cx.kernels)
    with pytest.raises(LabError) as caught:
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler(schedules={f"{name}x": ""}))
    assert f"cpu: there is a schedule for '{name}x', but no such kernel" in str(caught.value)
    assert f"hint: did you mean '{name}'?" in str(caught.value)
    with pytest.raises(LabError, match=f"kernel {name}: split q by 4: there is no loop q"):
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler(schedules={name: "split q by 4"}))
    with pytest.raises(ParseError, match="which says no schedule"):
        parse_pipeline("cpu{schedules = [softmax]}")
    with pytest.raises(LabError, match="kernels: there is none called 'q'"):
        cx.kernels["q"]


def test_kernels_are_had_by_name_and_by_place(kernel: Kernel) -> None:
    found = Kernels([kernel])
    assert found["twice"] is found[0] is kernel
    assert found[:1] == (kernel,)


def test_a_program_whose_names_are_words_of_c() -> None:
    cx = ll.Graph()
    x = cx.tensor(("int", "LAB_LANES"), name="for").set(np.ones((2, 3), np.float32))
    w = cx.tensor(("int", 1), name="lab_step").set(np.full((2, 1), 3, np.float32))
    y = (x * w).sum(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    assert y.numpy().tolist() == [9, 9]


# -- what a schedule is read from ------------------------------------------------------------------


def test_a_schedule_is_text_or_steps(kernel: Kernel) -> None:
    text = "# by blocks\nsplit i by 4  # four rows\n\nparallel i.block"
    wanted = parse_schedule("split i by 4\nparallel i.block")
    assert parse_schedule(text) == wanted
    assert kernel.rescheduled(text).schedule == wanted
    assert kernel.rescheduled(["split i by 4", "parallel i.block"]).schedule == wanted
    assert kernel.rescheduled(wanted.steps).schedule == wanted
    assert kernel.rescheduled(wanted.steps[:1]).schedule == parse_schedule("split i by 4")
    assert kernel.rescheduled(wanted.steps[0]).schedule == parse_schedule("split i by 4")
    assert ll.CPUCompiler(schedules={"k": ["parallel i"]}).schedules == (
        ("k", parse_schedule("parallel i")),
    )


@pytest.mark.parametrize("choices", [3, "rows", ["rows"], {"rows"}])
def test_choices_are_a_mapping(kernel: Kernel, choices: Any) -> None:
    error = error_of(lambda: kernel.rescheduled(choices=choices), ArgumentError)
    assert error.message == f"kernel twice: choices is {choices!r}, which names no number"
    assert error.hint == (
        'give a dict, as in choices={"rows": 64}; print(kernel.choices) shows names'
    )


def test_what_is_no_schedule(kernel: Kernel) -> None:
    error = error_of(lambda: kernel.rescheduled("split i by x"), ParseError)
    assert str(error) == (
        "kernel twice: line 1, column 12: a number should be here\n"
        "  split i by x\n             ^\n"
        "hint: its form is split {loops} by {by}[ as {words}]"
    )
    wrong: list[tuple[Any, str]] = [(3, "3"), (["split i by 4", 7], "7"), (None, "None")]
    for given, shown in wrong:
        error = error_of(lambda: kernel.rescheduled(given), ArgumentError)  # noqa: B023  # called at once
        assert error.message == f"kernel twice: its schedule has {shown}, which is not a step"


def test_a_step_that_is_not_there(kernel: Kernel) -> None:
    error = error_of(lambda: kernel.steps[99], RangeError)
    assert error.message == f"steps: there is no step 99; there are {len(kernel.steps)}"


@pytest.mark.parametrize(
    ("steps", "hint"),
    [
        ("split i by 8\nvector i.own", "round i.own or clamp i.own first: then its size is 8"),
        ("split j by 3\nvector j.own", "round j.own or clamp j.own first: then its size is 3"),
        ("vector i", "split i by 8 and make the inner loop one"),
        ("split i by 4\nround i.own", "clamp i.own has it read the last place again"),
        ("split i by 4\nclamp i.own", "cut instead of split"),
        ("pack x before i over k as p", "its loops are"),
        ("pack x before j over i as p", "those in it are j"),
        ("fuse j into i", "only loops of the same size"),
        ("parallel j", "parallel i, or reorder them first"),
        ("simd i", "take j, unroll it first, or reorder them"),
    ],
)
def test_a_refusal_has_a_hint(kernel: Kernel, steps: str, hint: str) -> None:
    error = error_of(lambda: kernel.rescheduled(steps), ScheduleError)
    assert hint in (error.hint or "")
