"""Devices that get whole programs: what one is, what stays on the device, what is written over."""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

import luminal_lab as ll
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.devices.runtime.whole import WholeProgram, divide
from luminal_lab.errors import DeviceError, RangeError
from tests.expect import error_of

MISSING = ("host_call",)


def has_form(op) -> bool:
    return op.name not in MISSING


class Toy(WholeProgram):
    """A device that is the interpreter, and notes what it is asked for."""

    dialect = "toy"

    def __init__(self, ir, sizes):
        super().__init__(ir, has_form, sizes)
        self.put_there: list[int] = []
        self.written: list[tuple[bool, ...]] = []

    def put(self, values):
        self.put_there.append(len(values))
        return values

    def launch(self, body, exits, given, over, step):
        self.written.append(tuple(over))
        data = dict(zip(body.input_ids, given, strict=True))
        environment = Environment(lambda node: data[node.id], self.sizes, step)
        try:
            made = interpret(body, environment, wanted=exits)
        except RangeError:
            return [np.zeros(0)] * len(exits), True
        return [made[id] for id in exits], False

    def text_of(self, body):
        return f"program of {len(body)} nodes"


@dataclass(frozen=True)
class ToyPrograms(ll.Pass):
    """Make one call of everything that the toy can compute at once."""

    name: ClassVar[str] = "toy-programs"

    def run(self, ir, edit):
        divide(ir, edit, has_form, "toy")


@dataclass(frozen=True, init=False, repr=False)
class ToyCompiler(ll.Pipeline):
    """Give a toy whole programs."""

    name: ClassVar[str] = "toy"

    def __init__(self):
        super().__init__(["inline", "cse", "dce", ToyPrograms(), "dce"])

    def runner(self, ir, specialise=None):
        return Toy(ir, specialise)


def compiled(cx: ll.Graph) -> Toy:
    """Compile a graph for the toy, and return its program."""
    return cast("Toy", cx.compile(ToyCompiler()).program)


def test_programs_are_divided_by_what_has_no_form():
    cx = ll.Graph("g")
    x = cx.tensor((3,), name="x").set([3, 1, 2])
    host = cx.function(np.sort, x * 2, shape=(3,))
    (host * 2).named("y").retrieve()
    (x + 1).named("z").retrieve()
    toy = compiled(cx)
    cx.execute()
    assert [cx[name].tolist() for name in "yz"] == [[4, 8, 12], [4, 2, 3]]
    assert [node.op.name for node in toy.ir if node.op.name != "pick"] == [
        *("input", "call", "host_call", "call")
    ]
    assert [kernel.source for kernel in toy.kernels] == ["program of 5 nodes", "program of 3 nodes"]
    error = error_of(lambda: toy.unless_whole("toy: it"), DeviceError)
    assert error.message == "toy: it has no form of host_call, which NumPy computes here"


def test_inputs_stay_and_what_is_carried_may_be_written_over():
    cx = ll.Graph()
    weight, total = cx.tensor((2,), name="w").set([1, 2]), cx.tensor((2,), name="t").set([0, 0])
    new = cx.carry(total + weight, total)
    toy = compiled(cx)
    for _ in range(3):
        cx.execute()
    assert new.tolist() == [3, 6]
    assert toy.put_there == [2, 0, 0]
    assert [sorted(over) for over in toy.written] == [[False, True]] * 3
    total.set([5, 5])
    cx.execute()
    assert new.tolist() == [6, 7]
    assert toy.put_there == [2, 0, 0, 1]


def test_an_index_out_of_range_is_told_by_the_interpreter():
    cx = ll.Graph()
    table, rows = cx.tensor((2, 2), name="table"), cx.tensor((1,), "int64", "rows").set([5])
    table.set(np.ones((2, 2))).take(rows, 0).retrieve()
    wanted = error_of(cx.execute, RangeError)
    cx.compile(ToyCompiler())
    assert error_of(cx.execute, RangeError).message == wanted.message
