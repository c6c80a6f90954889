"""Stored values: made when inputs change and kept; errors; what a run reads."""

import numpy as np
import pytest

from luminal_lab import Graph, Parameter
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ops import Stored
from luminal_lab.core.parse import parse
from luminal_lab.core.verify import verify
from luminal_lab.errors import GraphError, ParseError
from luminal_lab.passes.half import HalfPrecision
from luminal_lab.passes.stored import Storage, live
from luminal_lab.tensor.running import run
from tests.expect import error_of

TEXT = """graph g(%w: f32[2], %x: f32[2]) -> (%y, %z) {
  %h = stored{body = half} %w : bf16[2]
  %f = cast{dtype = f32} %h : f32[2]
  %y = add %f, %x : f32[2]
  %k = stored{body = half} %x : bf16[2]
  %z = cast{dtype = f32} %k : f32[2]
}

graph half(%w: f32[2]) -> (%h) {
  %h = cast{dtype = bf16} %w : bf16[2]
}"""
ROUGH = 1 + 2.0**-10  # which bfloat16 rounds to 1


def floats(values):
    """Numbers as float32."""
    return np.array(values, np.float32)


def test_a_stored_node_is_what_its_body_makes():
    ir = parse(TEXT)
    verify(ir)
    assert str(ir) == TEXT
    y, z = run(ir, {"w": [ROUGH, 2], "x": [1, ROUGH]})
    np.testing.assert_array_equal(y, floats([2, 3 + 2.0**-10]))
    np.testing.assert_array_equal(z, floats([1, 1]))


def test_its_type_is_checked():
    message = error_of(
        lambda: parse(
            TEXT.replace(
                "%h = stored{body = half} %w : bf16[2]", "%h = stored{body = half} %w : f32[2]"
            )
        )
    )
    assert isinstance(message, ParseError)
    ir = parse("""graph two(%w: f32[2]) -> (%w, %h) { %h = cast{dtype = bf16} %w : bf16[2] }""")
    error = error_of(lambda: Stored(ir).types([parse(TEXT)["w"]]), GraphError)
    assert error.message == "stored: two has 2 outputs, and not one"
    error = error_of(lambda: Stored(ir).types([]), GraphError)
    assert error.message == "stored: the inputs of two are %w, but the number of sources is 0"


def test_a_run_reads_nothing_behind_what_is_stored():
    ir = parse(TEXT)
    assert {ir[id].name for id in live(ir, ir.output_ids)} == {"h", "f", "y", "k", "z", "x"}
    assert {ir[id].name for id in live(ir, [ir["z"].id])} == {"k", "z"}


def test_it_is_made_again_when_versions_change_or_are_not_known():
    ir = parse(TEXT)
    storage, asked = Storage(ir), list[str]()
    values = {"w": floats([1, 2]), "x": floats([3, 4])}

    def data(node):
        asked.append(node.name)
        return values[node.name]

    w, x, h, k = (ir[name].id for name in "wxhk")
    first = storage.values(Environment(data, versions={w: 1}), ir.output_ids)
    assert first.keys() == {h, k}
    assert sorted(asked) == ["w", "x"]
    asked.clear()
    second = storage.values(Environment(data, versions={w: 1}), ir.output_ids)
    assert second[h] is first[h]
    assert asked == ["x"], "of x nothing is known, and so it may be another one"
    asked.clear()
    values["w"] = floats([5, 6])
    third = storage.values(Environment(data, versions={w: 2, x: 0}), [ir["y"].id])
    assert third.keys() == {h}
    np.testing.assert_array_equal(third[h].astype(np.float32), [5, 6])


def test_a_session_makes_it_when_a_weight_was_set_and_not_at_each_run():
    asked = list[int]()

    def provide():
        asked.append(1)
        return np.full((4, 32), ROUGH, np.float32)

    weight = Parameter((4, 32), provider=provide, name="w")
    cx = Graph()
    x = cx.tensor((2, 32), name="x")
    y = (x @ cx.parameter(weight).T).retrieve()
    cx.compile(HalfPrecision())
    for value in (1.0, 2.0):
        x.set(np.full((2, 32), value))
        cx.execute()
        np.testing.assert_array_equal(y.numpy(), np.full((2, 4), 32 * value, np.float32))
        weight.unload()  # what is stored is all that the runs need
    assert asked == [1]
    weight.set(np.full((4, 32), 3.0, np.float32))
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), np.full((2, 4), 192, np.float32))


def test_a_compile_anew_has_a_storage_of_its_own():
    weight = Parameter((4, 32), value=np.full((4, 32), ROUGH, np.float32))
    cx = Graph()
    x = cx.tensor((2, 32), name="x").set(np.ones((2, 32)))
    y = (x @ cx.parameter(weight).T).retrieve()
    cx.compile(HalfPrecision())
    cx.execute()
    assert y.numpy()[0, 0] == 32
    z = (y * 2).retrieve()
    with pytest.warns(match="compiled again"):
        cx.execute()
    assert z.numpy()[0, 0] == 64
