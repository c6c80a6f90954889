"""What an op class must be, what happens when it is not, and ops as values."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dims import Shape, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import (
    OPS,
    Op,
    Scalar,
    TensorType,
    fields_of,
    ints,
    result_types,
    size_of,
    tuple_text,
)
from luminal_lab.core.ops import Add, Constant, Mul, Permute, Reshape, Sin, Slice
from luminal_lab.core.parse import parse
from luminal_lab.core.printer import op_text
from luminal_lab.core.verify import verify
from luminal_lab.errors import DefinitionError, GraphError, LabWarning, UnknownNameError
from luminal_lab.session import Graph
from tests.expect import error_of

N = Symbol("n", 1, 64)
TYPE = TensorType(DType.float32, (2, N))


@pytest.fixture(autouse=True)
def same_ops() -> Iterator[None]:
    """Forget the op classes that a test has defined."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


# -- types -----------------------------------------------------------------------------------------


def test_types_are_values():
    assert TensorType(DType.float32, (2, N)) == TYPE
    assert hash(TYPE) == hash(TensorType(DType.float32, (2, N)))
    assert TensorType(DType.float16, (2, N)) != TYPE
    assert TensorType(DType.float32, (2, 3)) != TYPE
    assert str(TYPE) == "f32[2, n]"
    assert str(TensorType(DType.bool_, ())) == "bool[]"
    assert str(TYPE.with_dtype(DType.uint8)) == "u8[2, n]"
    assert str(TYPE.with_shape((N + 1,))) == "f32[n + 1]"
    assert str(TYPE.with_axis(1, 7)) == "f32[2, 7]"
    assert (TYPE.is_symbolic, TYPE.with_axis(1, 7).is_symbolic) == (True, False)
    assert (tuple_text((3,)), tuple_text(()), size_of((2, N, 3)), size_of(())) == (
        "(3,)",
        "()",
        6 * N,
        1,
    )
    with pytest.raises(AssertionError):
        ints((N,))


# -- ops as values ---------------------------------------------------------------------------------


def test_ops_are_compared_by_class_and_fields():
    assert Sin() == Sin()
    assert Add() != Mul()
    assert Permute((0, 1)) == Permute((0, 1)) != Permute((1, 0))
    assert Reshape((2, N)) == Reshape((2, N)) != Reshape((2, Symbol("n")))
    assert Sin() != "sin"
    assert len({Sin(), Sin(), Add(), Mul(), Permute((0,)), Permute((0,))}) == 4


@pytest.mark.parametrize("a", range(11))
@pytest.mark.parametrize("b", range(11))
def test_constants_are_equal_where_they_print_alike(a: int, b: int):
    numbers: list[Scalar] = [
        0.0,
        -0.0,
        0,
        False,
        1.0,
        1,
        True,
        float("nan"),
        -float("nan"),
        N,
        1e-45,
    ]
    one, other = (Constant(numbers[k], DType.float64, ()) for k in (a, b))
    assert (one == other) == (op_text(one) == op_text(other))
    assert one != other or hash(one) == hash(other)


def test_numbers_of_numpy_are_written_as_numbers():
    assert op_text(Constant(np.float64(1.5), DType.float32, ())) == "constant{value = 1.5}"
    assert op_text(Permute((np.int64(0),))) == "permute{axes = [0]}"  # pyright: ignore[reportArgumentType]
    assert Constant(np.float64(-0.0), DType.float32, ()) == Constant(-0.0, DType.float32, ())


def test_ops_are_matched_and_listed():
    match Permute((1, 0)):
        case Permute(axes=(1, k)):
            assert k == 0
    assert dict(fields_of(Slice)) == {"start": Shape, "stop": Shape, "step": tuple[int, ...]}
    assert repr(Permute((1, 0))) == "Permute(axes=(1, 0))"


def test_bind_puts_numbers_in_the_place_of_symbols():
    op = Slice((0, N - 1), (2, N), (1, 1))
    assert op.symbols() == (N, N)
    assert op.bind({"n": 5}) == Slice((0, 4), (2, 5), (1, 1))
    fixed = Permute((1, 0))
    assert fixed.bind({"n": 5}) is fixed
    assert Constant(N * 2, DType.int64, (N,)).bind({"n": 3}) == Constant(6, DType.int64, (3,))


# -- ops of users ----------------------------------------------------------------------------------


PRELUDE = """
from dataclasses import dataclass
from typing import ClassVar, Literal
import numpy as np
from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, Scalar, TensorType, Unary
"""


def cell(text: str, module: str = "__main__") -> dict[str, Any]:
    """Run the text of a notebook cell, and return the names that it defines."""
    scope: dict[str, Any] = {"__name__": module}
    exec(compile(PRELUDE + text, "<cell>", "exec", dont_inherit=True), scope)
    return scope


CUBE = """
@dataclass(frozen=True, slots=SLOTS)
class Cube(Unary):
    '''x to the power of 3.'''

    name: ClassVar[str] = "test.cube"
    c_form: ClassVar[str] = "({0} * {0} * {0})"
    scale: float = 1.0

    def eval(self, x):
        return x**3 * np.asarray(self.scale, x.dtype)
"""
CUBES = [CUBE.replace("SLOTS", word) for word in ("True", "False")]


@pytest.mark.parametrize("cube", CUBES)
def test_an_op_of_a_user_is_built_run_written_and_read(cube: str):
    op = cell(cube)["Cube"]
    cx = Graph()
    y = cx.tensor((2,), name="x").set([1, 2]).apply(op(2.0)).retrieve()
    cx.execute()
    assert y.numpy().tolist() == [2, 16]
    assert "%1 = test.cube{scale = 2.0} %x : f32[2]" in str(cx)
    verify(cx.ir)
    assert parse(str(cx)) == cx.ir


@pytest.mark.parametrize("cube", CUBES)
def test_a_cell_run_again_replaces_its_op_and_says_so(cube: str):
    first = cell(cube)["Cube"]
    with pytest.warns(LabWarning) as caught:
        second = cell(cube)["Cube"]
    (warning,) = caught
    assert str(warning.message) == (
        "op 'test.cube' was defined again; the new definition is used from here on"
    )
    assert warning.filename == "<cell>"
    assert OPS["test.cube"] is second is not first
    assert first(2.0) != second(2.0)
    assert second(2.0) == second(2)
    text = "graph g(%x: f32[2]) -> (%y) { %y = test.cube{scale = 2.0} %x : f32[2] }"
    assert isinstance(parse(text)["y"].op, second)


@pytest.mark.parametrize("cube", CUBES)
def test_two_places_cannot_define_ops_of_one_name(cube: str):
    first = cell(cube)["Cube"]
    with pytest.raises(DefinitionError) as caught:
        cell(cube, "elsewhere")
    assert str(caught.value) == (
        "op 'test.cube': the class Cube has the name of another op, __main__.Cube\n"
        "hint: give it another name"
    )
    assert OPS["test.cube"] is first
    with pytest.raises(
        DefinitionError, match="'add': the class Mine has the name of another op, lumi"
    ):
        cell(cube.replace("test.cube", "add").replace("class Cube", "class Mine"))
    assert OPS["add"] is Add


def test_an_op_needs_a_docstring_and_a_name_that_text_can_write():
    with pytest.raises(DefinitionError) as caught:
        cell(CUBES[0].replace("'''x to the power of 3.'''", ""))
    assert str(caught.value) == (
        "op 'test.cube': the class Cube has no docstring\n"
        "hint: say in one sentence what the op computes"
    )
    with pytest.raises(DefinitionError, match="the class Cube has an invalid name"):
        cell(CUBES[0].replace("test.cube", "my op"))
    assert "test.cube" not in OPS


FROZEN = (
    "@dataclass(frozen=True)\nclass Mine(Op):\n    DOC\n    name: ClassVar[str] = 'test.mine'\n"
)
PLAIN = FROZEN.partition("\n")[2] + "    axis: int\n"
INFER = "    def infer(self, x):\n        return x\n"
NO_DATACLASS = (
    "op 'test.mine': the class Mine is not a frozen dataclass\n"
    "hint: write @dataclass(frozen=True, slots=True) above the class"
)


def mine(text: str) -> type[Op]:
    """Run a cell that defines the class Mine, and return it."""
    return cell(text.replace("DOC", "'''An op.'''"))["Mine"]


@pytest.mark.parametrize("hint", ["list[int]", "np.ndarray", "int | None", "dict[str, int]"])
def test_a_field_that_text_cannot_write_is_named(hint: str):
    with pytest.raises(DefinitionError) as caught:
        fields_of(mine(f"{FROZEN}    what: {hint}"))
    message, advice = caught.value.message, caught.value.hint
    assert message.startswith("op 'test.mine': the class Mine has a field 'what' whose type ")
    assert advice == (
        "use int, float, bool, str, Literal names, DType, Dim, Shape, Scalar, tuple[int, ...] or IR"
    )


def test_words_of_a_literal_are_names():
    assert list(fields_of(mine(f"{FROZEN}    mode: Literal['a', 'b_c']"))) == ["mode"]
    with pytest.warns(LabWarning, match="defined again"):
        again = mine(f"{FROZEN}    mode: Literal['a', 'b c']")
    with pytest.raises(DefinitionError, match="the class Mine has a field 'mode'"):
        fields_of(again)


def test_a_type_that_cannot_be_found_is_named():
    with pytest.raises(DefinitionError, match="a field whose type is not known: name 'Shap' is no"):
        fields_of(mine(f"{FROZEN}    what: 'Shap'"))


def use(op: Op) -> None:
    """Use an op as the first lines of a user's would."""
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    x.apply(op).retrieve()
    str(cx)
    cx.execute()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        pytest.param(PLAIN + INFER, (1,), NO_DATACLASS, id="plain"),
        pytest.param(PLAIN + INFER, (), NO_DATACLASS, id="plain-without-arguments"),
        pytest.param("@dataclass\n" + PLAIN + INFER, (1,), NO_DATACLASS, id="not-frozen"),
        pytest.param(PLAIN.replace("Op", "Unary"), (), NO_DATACLASS, id="plain-of-a-family"),
        pytest.param(
            "@dataclass(frozen=True)\nclass Mine(Unary):\n    DOC\n",
            (),
            "op: the class Mine has no name of its own\n"
            'hint: write name: ClassVar[str] = "…" in the class',
            id="no-name",
        ),
        pytest.param(
            FROZEN,
            (),
            "op 'test.mine': the class Mine has no infer\n"
            "hint: define infer, which returns the result's type",
            id="no-infer",
        ),
        pytest.param(
            FROZEN + INFER,
            (),
            "op 'test.mine': the class Mine has no eval\n"
            "hint: define eval, which says in NumPy what it means",
            id="no-eval",
        ),
    ],
)
def test_what_a_class_lacks_is_said_when_it_is_first_used(
    text: str, arguments: tuple[int, ...], message: str
):
    with pytest.raises(DefinitionError) as caught:
        use(mine(text)(*arguments))
    assert f"{caught.value.message}\nhint: {caught.value.hint}" == message


@pytest.mark.parametrize(
    ("infer", "message"),
    [
        ("return None", "op 'test.mine': the class Mine has an infer that returns None"),
        ("return x.shap", "op 'test.mine': the class Mine has an infer that fails: Unkn"),
        ("return x + 1", "op 'test.mine': the class Mine has an infer that fails: TypeE"),
    ],
)
def test_a_wrong_infer_is_told_from_a_wrong_number_of_sources(infer: str, message: str):
    op = mine(f"{FROZEN}    def infer(self, x):\n        {infer}")()
    ir = ll.parse("graph g(%x: f32[2]) -> (%x) {}")
    with pytest.raises(DefinitionError, match=re.escape(message)):
        result_types(op, [ir["x"]])
    with pytest.raises(GraphError, match="it takes the sources x; 0 were given"):
        result_types(op, [])


def test_every_op_of_the_core_is_well_defined():
    for name, op in OPS.items():
        assert op.name == name
        assert isinstance(fields_of(op), dict)
        assert op.__doc__


def test_an_op_that_is_looked_for_in_the_package_is_in_the_room_of_ops():
    error = error_of(lambda: ll.Add, UnknownNameError)
    assert error.hint == "from luminal_lab.core.ops import Add"
