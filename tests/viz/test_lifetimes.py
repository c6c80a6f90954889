"""A memory plan as a picture: rectangles that do not overlap, and words for what is not drawn."""

import random
import re
from xml.etree import ElementTree as ET

import pytest

from luminal_lab.core.dims import Symbol
from luminal_lab.kernels.memory.plan import plan
from luminal_lab.kernels.memory.program import MemoryStep as Step, MemoryValue as Value
from luminal_lab.viz.lifetimes import MOST, lifetimes
from tests.viz.graphs import HOSTILE

VALUES = [Value(0, 400, "input"), Value(1, 400), Value(2, 800), Value(3, 400, "output")]
SVG = "{http://www.w3.org/2000/svg}"
STEPS = [Step((0,), (1,)), Step((1,), (2,)), Step((2,), (3,))]
PLAN = plan(VALUES, STEPS)


def rectangles(svg):
    """Return what each rectangle is called, and where it lies."""
    found = {}
    for one in ET.fromstring(svg).iter(f"{SVG}g"):
        title, rect = (
            one.find(f"{{http://www.w3.org/2000/svg}}{tag}") for tag in ("title", "rect")
        )
        if title is not None and rect is not None:
            numbers = [float(rect.get(name, "")) for name in ("x", "y", "width", "height")]
            found[str(title.text).partition(":")[0]] = numbers
    return found


def test_a_plan_is_as_recorded(golden):
    picture = lifetimes(PLAN, theme="light")
    golden(picture.svg.replace("><", ">\n<") + "\n", "golden/plan.svg")
    words = "Memory plan: 3 steps, 4 values; arena 1.25 KiB, 1.25 KiB if none were reused."
    assert picture.text == words


def test_a_value_is_as_wide_as_it_is_needed_and_as_high_as_it_is_large():
    found = rectangles(lifetimes(PLAN).svg)
    assert found.keys() == {"%0", "%1", "%2", "%3"}
    assert found["%2"][3] == pytest.approx(2 * found["%1"][3], abs=0.2)
    widths = {name: round(width / found["%3"][2], 1) for name, (_, _, width, _) in found.items()}
    assert widths == {"%0": 3, "%1": 2, "%2": 2, "%3": 1}


def test_values_that_are_needed_at_one_time_do_not_overlap():
    draw = random.Random(4)
    values = [Value(0, 64, "input"), *(Value(k, 64 * draw.randint(1, 9)) for k in range(1, 30))]
    values.append(Value(30, 64, "output"))
    reads = [{draw.randrange(max(0, k - 5), k) for _ in "ab"} for k in range(1, 31)]
    steps = [Step(tuple(read), (k,)) for k, read in enumerate(reads, 1)]
    drawn = list(rectangles(lifetimes(plan(values, steps)).svg).values())
    assert len(drawn) > 5
    for k, (a, b, c, d) in enumerate(drawn):
        for e, f, g, h in drawn[k + 1 :]:
            assert a + c <= e + 0.3 or e + g <= a + 0.3 or b + d <= f + 0.3 or f + h <= b + 0.3


def test_what_is_there_throughout_is_counted():
    many = [Value(k, 64, "input") for k in range(20)]
    steps = [Step(tuple(range(20)), (20,)), Step((20, *range(20)), (21,))]
    svg = lifetimes(plan([*many, Value(20, 64), Value(21, 64, "output")], steps)).svg
    assert "and 20 that are needed throughout, 1.25 KiB in all" in svg


def test_too_many_bars_are_counted():
    outputs = [Value(k, 64, "output") for k in range(1, MOST + 12)]
    steps = [Step((0,), (one.id,)) for one in outputs]
    svg = lifetimes(plan([Value(0, 64, "input"), *outputs], steps)).svg
    assert "and 12 more with places of their own" in svg


def test_a_plan_with_symbolic_sizes_says_that_they_are_not_known():
    n = Symbol("n")
    made = plan([Value(0, 4 * n, "input"), Value(1, 4 * n), Value(2, 4 * n, "output")], STEPS[:2])
    assert "sizes are known when dims are bound" in lifetimes(made).text
    assert "arena 64 B" in lifetimes(made.bind({"n": 4})).text


def test_a_hostile_name_is_shown():
    made = plan([Value(0, 64, "input", name=HOSTILE), Value(1, 64, "output")], [Step((0,), (1,))])
    svg = lifetimes(made).svg
    assert not re.search("<script", svg)
    ET.fromstring(svg)
