"""Sizes that a compilation gets code for."""

import luminal_lab as ll
from luminal_lab.core.dims import Symbol
from luminal_lab.errors import DimError
from luminal_lab.passes.sizes import without_a_shape
from tests.expect import error_of


def windowed() -> ll.Graph:
    """Return a graph whose windows need an image of at least three rows."""
    cx = ll.Graph()
    image = cx.tensor(("n", "n", "n", "m"), name="image")
    image.conv2d(cx.tensor((1, "n", 1, 3), name="kernel")).named("y").retrieve()
    return cx


def test_sizes_that_no_run_has_are_refused_by_node_and_line():
    cx = windowed()
    error = error_of(
        lambda: cx.compile("recognise", ll.CPUCompiler(), specialise={"m": 1}), DimError
    )
    assert "specialise gives sizes that no run has" in error.message
    assert "-1" in error.message
    assert "image.conv2d(" in str(error)
    assert error.hint == "a dim cannot be negative; ask for larger sizes"


def test_a_graph_is_looked_at_with_the_bodies_of_its_calls():
    cx = windowed()
    cx.compile("recognise, fuse-contractions")
    ir = cx.ir
    assert without_a_shape(ir, {"m": 1}) is not None
    assert without_a_shape(ir, {"m": 2}) is None  # a picture of no columns
    assert without_a_shape(ir, {"n": 1}) is None  # which m decides
    assert without_a_shape(ir, {"m": Symbol("m", 1, 2)}) is None
    assert without_a_shape(ir, {"m": Symbol("m", 0, 1)}) is not None
