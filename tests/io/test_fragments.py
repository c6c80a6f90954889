"""Types and ops are read alone, and what nobody has defined keeps its text."""

import pytest

import luminal_lab as ll
from luminal_lab.core.op import OPS, TensorType
from luminal_lab.core.ops import Pad, SumReduce
from luminal_lab.core.printer import op_text
from luminal_lab.errors import DefinitionError, ParseError
from luminal_lab.io.fragments import Fragments, absent

F32 = TensorType(ll.DType.float32, (2,))


def test_types_and_ops_share_their_dims():
    parts = Fragments(["n: 1..64 by 8"])
    (x,) = parts.types("f32[n, 4]")
    assert str(parts.types("(f32[n], i64[])")) == "(f32[n], i64[])"
    assert parts.op("sum_reduce{axis = 1}", x) == SumReduce(1)
    pad = parts.op("pad{before = [0, n], after = [1, 0]}", x)
    assert isinstance(pad, Pad)
    assert pad.symbols()[0] == x.shape[0]


@pytest.mark.parametrize("text", ["f32", "f32[", "f99[2]", "f32[2]]", "", "(f32[2]"])
def test_what_is_no_type_is_refused(text):
    with pytest.raises(ParseError):
        Fragments([]).types(text)


@pytest.mark.parametrize(
    "text", ["", "a b", "op{", "op{}}", "op{1}", "op{x y = 1}", "op{eval = 1}"]
)
def test_what_is_no_op_is_refused(text):
    with pytest.raises((ParseError, DefinitionError)):
        Fragments([]).op(text, F32)


@pytest.mark.parametrize("text", ["swirl", "swirl{axis = 1}", 'swirl{a = [1, n], how = "a, b"}'])
def test_an_op_in_name_alone_keeps_its_text(text):
    before = dict(OPS)
    op = absent(text, F32)
    assert op_text(op) == text
    assert op.name == "swirl"
    assert op == absent(text, F32)
    assert op.infer(F32) == F32
    assert before == OPS  # the real one may be defined yet


def test_what_a_known_op_does_not_take_is_an_op_in_name_alone():
    op = Fragments([]).op("sum_reduce{axes = [1, 2]}", F32)
    assert not isinstance(op, SumReduce)
    assert op_text(op) == "sum_reduce{axes = [1, 2]}"
