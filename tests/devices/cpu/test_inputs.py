"""Where inputs are: found again wherever they have changed, and only there."""

import gc
import weakref

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment
from luminal_lab.core.parse import parse
from luminal_lab.devices.cpu.inputs import InputPointers
from luminal_lab.tensor.versions import Versions, tell_of_change
from tests.needs import need

GRAPH = parse("graph main(%a: f32[2], %b: f32[2]) -> (%1) {\n  %1 = add %a, %b : f32[2]\n}\n")
INPUTS = {node.name: node for node in GRAPH.inputs}


class Session:
    """Two inputs with versions, and a count of how often each was asked for."""

    def __init__(self, **arrays: np.ndarray) -> None:
        self.arrays, self.asked = arrays, ""
        self.versions = dict.fromkeys([INPUTS[name].id for name in arrays], 0)

    def data(self, node):
        self.asked += node.name
        return self.arrays[node.name]

    def set(self, name: str, array: np.ndarray) -> None:
        self.arrays[name] = array
        self.versions[INPUTS[name].id] += 1

    def environment(self) -> Environment:
        return Environment(self.data, versions=dict(self.versions))

    def addresses(self) -> list[int]:
        return [array.ctypes.data for array in self.arrays.values()]


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.fixture
def pointers() -> InputPointers:
    return InputPointers([(INPUTS[name], slot) for slot, name in enumerate("ab")])


def test_inputs_that_have_not_changed_are_not_asked_for(pointers):
    session = Session(a=floats(1, 2), b=floats(3, 4))
    for asked in ("ab", "ab"):
        pointers.find(session.environment())
        assert session.asked == asked
        assert pointers.addresses.tolist() == session.addresses()
    session.set("b", floats(5, 6))
    owners = pointers.find(session.environment())
    assert session.asked == "abb"
    assert pointers.addresses.tolist() == session.addresses()
    assert owners[1] is session.arrays["b"]


def test_an_input_without_a_version_is_asked_for_each_time(pointers):
    session = Session(a=floats(1, 2), b=floats(3, 4))
    for _ in range(2):
        pointers.find(session.environment()._replace(versions={}))
    assert session.asked == "abab"


def test_versions_of_one_session_mean_nothing_in_another(pointers):
    first, second = (Session(a=floats(1, 2), b=floats(3, 4)) for _ in range(2))
    pointers.find(first.environment())
    pointers.find(second.environment())
    assert pointers.addresses.tolist() == second.addresses()


def test_a_value_that_was_forgotten_is_asked_for_again(pointers):
    session = Session(a=floats(1, 2), b=floats(3, 4))
    pointers.find(session.environment())
    session.arrays["a"] = floats(1, 2)  # as a provider returns it anew, at the same version
    gc.collect()
    pointers.find(session.environment())
    assert session.asked == "aba"
    assert pointers.addresses.tolist() == session.addresses()


def test_a_copy_for_one_run_is_made_again_for_the_next(pointers):
    session = Session(a=floats(1, 2), b=floats(3, 0, 4, 0)[::2])
    for value in (4.0, 7.0):
        session.arrays["b"][1] = value
        _, copy = pointers.find(session.environment())
        assert copy is not None
        assert copy.tolist() == [3.0, value]
        assert pointers.addresses[1] == copy.ctypes.data
    assert session.asked == "abb"


def steadily(session: Session, steady: object = 0) -> Environment:
    """Return an environment in which the input a is a parameter."""
    versions = Versions(session.versions)
    versions.lent, versions.steady = {INPUTS["a"].id: ll.Parameter((2,))}, steady
    return session.environment()._replace(versions=versions)


def test_parameters_are_not_looked_at_until_one_changes(pointers):
    session = Session(a=floats(1, 2), b=floats(3, 4))
    for _ in range(3):
        pointers.find(steadily(session))
    session.set("b", floats(5, 6))
    pointers.find(steadily(session))
    assert session.asked == "abb"
    assert pointers.addresses.tolist() == session.addresses()
    tell_of_change()
    session.set("a", floats(7, 8))
    pointers.find(steadily(session, 1))
    assert session.asked == "abba"
    assert pointers.addresses.tolist() == session.addresses()


@pytest.mark.parametrize("change", ["set", "unload"])
def test_a_weight_that_changes_is_kept_by_nobody(change):
    need("cc")
    layer = ll.nn.Linear(2, 1, bias=False)
    layer.weight.set(lambda: np.ones((1, 2), np.float32))
    cx = ll.Graph()
    x = cx.tensor((1, 2), name="x").set([[1, 2]])
    y = layer(x).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    for value in (1, 2, 3):
        x.set([[value, 2]])
        cx.execute()
    old = weakref.ref(layer.weight.value.base)
    if change == "set":
        layer.weight.set([[2, 2]])
    else:
        layer.weight.unload()
    gc.collect()
    assert old() is None
    x.set([[1, 1]])
    cx.execute()
    assert y.item() == (4 if change == "set" else 2)


def test_a_run_sees_each_change_of_an_input_or_a_weight():
    need("cc")
    layer = ll.nn.Linear(2, 1, bias=False)
    cx = ll.Graph()
    x = cx.tensor((1, 2), name="x")
    y = layer(x).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    for weight in ([1, 2], [3, 4]):
        layer.weight.set(np.array([weight]))
        for value in ([1.0, 0.0], [0.0, 1.0]):
            x.set([value])
            cx.execute()
            assert y.item() == np.dot(weight, value)
    borrowed = floats(1, 1).reshape(1, 2)
    x.borrow(borrowed)
    cx.execute()
    assert y.item() == 7
    x.borrow(np.asfortranarray(floats(2, 0, 1, 0).reshape(1, 4))[:, ::2])
    cx.execute()
    assert y.item() == 10
