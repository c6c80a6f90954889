"""Functions of one value: each by its formula, in each float dtype, and by no other numbers."""

import math

import pytest

from luminal_lab.core.ops import Constant
from luminal_lab.core.parse import parse
from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled

METHODS = {
    "exp": lambda x: x.exp(),
    "cos": lambda x: x.cos(),
    "sigmoid": lambda x: x.sigmoid(),
    "silu": lambda x: x.silu(),
    "gelu": lambda x: x.gelu(),
    "gelu_tanh": lambda x: x.gelu("tanh"),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
def test_methods_of_tensors(name, pipeline):
    assert all_of_it(spelled(METHODS[name], ("n", 3)), pipeline) == name


@pytest.mark.parametrize("name", METHODS)
def test_in_float64(name):
    assert all_of_it(spelled(METHODS[name], (5,), dtype="float64")) == name


@pytest.mark.parametrize("name", METHODS)
def test_halves_are_computed_in_float32_by_the_same_formula(name):
    assert recognised(spelled(METHODS[name], (5,), dtype="float16")) == [name]


def test_by_hand():
    assert all_of_it(spelled(lambda x: (x * math.log2(math.e)).exp2(), (3,))) == "exp"
    assert all_of_it(spelled(lambda x: (x + math.pi / 2).sin(), (3,))) == "cos"


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu", "gelu_tanh"])
def test_every_number_of_a_formula_counts(name):
    ir = spelled(METHODS[name], (3,))
    for node in ir:
        if isinstance(node.op, Constant):
            line = f"%{node.name} = constant{{value = {node.op.value}}}"
            wrong = f"%{node.name} = constant{{value = {float(str(node.op.value)) + 0.5}}}"
            assert line in str(ir)
            assert name not in recognised(parse(str(ir).replace(line, wrong)), "recognise")


def test_near_misses():
    assert recognised(spelled(lambda x: (x * 1.4427).exp2(), (3,))) == []
    assert recognised(spelled(lambda x: (x + 1.57).sin(), (3,))) == []
    assert recognised(spelled(lambda x, y: x.exp2() * y.exp2(), (3,), (3,))) == []
    assert recognised(spelled(lambda x, y: (x > y).where(x, 0.0), (3,), (3,))) == []
