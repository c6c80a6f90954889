"""Why a recogniser found nothing: how far it got, and at which node it stopped."""

import pytest

import luminal_lab as ll
from luminal_lab.errors import GraphError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.recognition.recognise import RECOGNISERS
from tests.expect import error_of
from tests.passes.recognition.spelled import spelled


def over_other_axes(x):
    powers = (x - x.max(-1, keepdim=True)).exp()
    return powers / powers.sum(0, keepdim=True)


def of_a_shifted_maximum(x):
    powers = (x - (x + 1.5).max(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def by_another_count(x):
    return x.sum(-1) * 0.25


def with_an_offset(x):
    return (x + 1) / ((x * x).mean(-1, keepdim=True) + 1e-5).sqrt()


def told(formula, search, shape=(4, 8)):
    compilation = compile_ir(spelled(formula, shape), "generic")
    (output,) = compilation.written.outputs
    return str(compilation.why_not(search, output))


@pytest.mark.parametrize(
    ("formula", "search", "expected"),
    [
        (
            over_other_axes,
            "softmax",
            "%1 is a maximum over axes [1], and the sum is over axes [0].",
        ),
        (of_a_shifted_maximum, "softmax", "%2 is not %in0, from which the maximum is subtracted."),
        (
            lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
            "softmax",
            "%in0 is input, not a difference: x + y · -1.",
        ),
        (by_another_count, "mean", "%3 is 0.25, not 1/8."),
        (with_an_offset, "std_norm", "which is divided."),
        (lambda x: (x * x).sum(-1), "matmul", "%in0 and %in0 have the same axes."),
        (lambda x: x.exp().sum(-1), "matmul", "is a call of exp, and a sum of products is wanted."),
    ],
)
def test_it_names_the_node_where_it_stops(formula, search, expected):
    said = told(formula, search)
    assert said.startswith(f"{search} gets ")
    assert said.splitlines()[1].startswith("It stops there: ")
    assert said.endswith(expected), said


def test_the_steps_are_the_answers_on_the_way():
    assert told(over_other_axes, "softmax").splitlines()[0] == (
        "softmax gets through 6 steps: %22 is mul; %27 is recip of %19; %23 is exp of %5; "
        "%19 is sum_reduce; %5 is a difference; %1 is max_reduce."
    )


def test_a_value_that_others_read_is_named():
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    total = x.sum(-1, keepdim=True).named("total")
    (total * 0.125).named("mean").retrieve()
    total.sin().named("other").retrieve()
    cx.compile("recognise")
    assert str(cx.compilation.why_not("mean", "mean")).splitlines()[1] == (
        "It stops there: %other reads %total, too, and a call would compute it twice."
    )


def test_what_fired_and_what_does_not_begin():
    assert told(lambda x: x.softmax(-1), "softmax").startswith("softmax did fire: Pass ")
    assert told(lambda x: x.sin(), "softmax") == (
        "softmax does not begin: %1 is sin, and it ends in mul."
    )
    inside = compile_ir(spelled(lambda x: x.softmax(-1), (4, 8)), "cse, recognise")
    power = next(node for node in inside.written if node.op.name == "exp2")
    assert "is part of" in str(inside.why_not("softmax", power)) or "did fire" in str(
        inside.why_not("softmax", power)
    )


def test_the_name_of_a_pass_stands_for_all_its_searches():
    said = told(over_other_axes, "recognise")
    for recogniser in RECOGNISERS:
        assert f"{recogniser.name} " in said
    only = compile_ir(spelled(over_other_axes, (4, 8)), "recognise{only = [mean, softmax]}")
    (output,) = only.written.outputs
    names = [line.split()[0] for line in str(only.why_not("recognise", output)).splitlines()]
    assert [name for name in names if name != "It"] == ["mean", "softmax"]


def test_hostile_questions():
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    y = (x + 1).named("y").retrieve()
    compilation = cx.compile("recognise{only = [softmax]}")
    said = error_of(lambda: compilation.why_not("men", y.id), ll.errors.DefinitionError)
    assert str(said).startswith("why_not: no pass of this compile has a rule or a search 'men'")
    error_of(lambda: compilation.why_not("softmax", 99), GraphError)
    other = ll.Graph().tensor((2,), name="z")
    error_of(lambda: compilation.why_not("softmax", other.sin().exp().log().id), GraphError)
    dead = (x * 2).named("dead")
    cx.compile("recognise")
    assert "leaves %dead to dce: no output needs it" in str(cx.compilation.why_not("mean", dead.id))


def test_nothing_is_changed_by_a_question():
    compilation = compile_ir(spelled(over_other_axes, (4, 8)), "generic")
    before = [str(snapshot.ir) for snapshot in compilation.snapshots]
    (output,) = compilation.written.outputs
    compilation.why_not("recognise", output)
    assert [str(snapshot.ir) for snapshot in compilation.snapshots] == before
