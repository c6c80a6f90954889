"""`ll.kernel`: calls become nodes with a meaning, which runs, is derived, printed and read back."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.ops import UserKernel
from luminal_lab.core.parse import parse
from luminal_lab.errors import (
    ArgumentError,
    DefinitionError,
    DeviceError,
    DimError,
    DTypeError,
    GraphError,
    ParseError,
    ShapeError,
)
from tests.expect import error_of

kernel: Any = ll.kernel
"""For calls that a type checker would not let pass."""
SCALE = """
// kernel scale(x: f32[n]) -> (y: f32[n])
void scale(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++) y[i] = 2 * x[i];
}
"""
TABLE = "void table(const float *x, float *y, float *z, long n, long m) { }"
TABLE_HEADER = "table(x: f32[n]) -> (y: f32[n, m], z: f32[n])"


def test_a_call_is_a_node_with_its_meaning():
    scale = ll.kernel(SCALE, meaning=lambda x: 2 * x)
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1, 2, 3, 4])
    y = scale(x).retrieve()
    assert isinstance(y.node.op, UserKernel)
    cx.execute()
    assert y.tolist() == [2, 4, 6, 8]
    assert y.node.meta.origin.text == "y = scale(x).retrieve()"
    assert str(scale) == SCALE.strip()
    assert repr(scale) == (
        "<kernel scale(x: f32[n]) -> (y: f32[n]) in c; print(…) shows its source>"
    )


def test_text_round_trip():
    cx = ll.Graph()
    x = cx.tensor(("seq",), name="x")
    ll.kernel(SCALE, meaning=lambda x: 2 * x)(x).retrieve()
    text = str(cx)
    assert 'header = "kernel scale(x: f32[n]) -> (y: f32[n])"' in text
    assert parse(text) == cx.ir
    assert str(parse(text)) == text


def test_the_gradient_is_that_of_the_meaning_or_what_is_given():
    for options, wanted in (
        ({"meaning": lambda x: x * x}, [2.0, 4.0]),
        ({"meaning": lambda x: x * x, "gradient": lambda g, x: g * 5}, [5.0, 5.0]),
        ({"numpy": lambda x: x * x, "gradient": lambda g, x: g * x}, [1.0, 2.0]),
    ):
        cx = ll.Graph()
        x = cx.tensor((2,), name="x").set([1, 2])
        slope = ll.grad(kernel(SCALE, **options)(x).sum(), x).retrieve()
        cx.execute()
        assert slope.tolist() == wanted


def test_several_outputs_and_dims_that_are_given():
    table = ll.kernel(TABLE, TABLE_HEADER, numpy=lambda x: (np.stack([x] * 3, 1), x + 1))
    cx = ll.Graph()
    x = cx.tensor(("seq",), name="x").set([1, 2])
    y, z = table(x, m=3)
    assert (str(y.shape), str(z.shape)) == ("(seq, 3)", "(seq,)")
    both = (y.sum(1) + z).retrieve()
    cx.execute()
    assert both.tolist() == [5.0, 9.0]
    assert parse(str(cx.ir)) == cx.ir


def test_generic_passes_keep_it():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1, 2, 3, 4])
    y = (ll.kernel(SCALE, meaning=lambda x: 2 * x)(x * 1) + 0).retrieve()
    ir = cx.compile(ll.GenericCompiler(), check="values").ir
    assert [n.op.name for n in ir if not isinstance(n.op, ll.Source)] == ["user_kernel"]
    cx.execute()
    assert y.tolist() == [2, 4, 6, 8]


def test_without_a_meaning_numpy_cannot_run_it():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1, 2, 3, 4])
    ll.kernel(SCALE)(x).retrieve()
    error = error_of(cx.execute, DeviceError)
    assert error.message == (
        "kernel scale: NumPy cannot run it: it is in c, and nothing says what it means"
    )
    assert error.hint == (
        "ll.CPUCompiler() runs it; or give meaning= or numpy=, a function that computes the same"
    )


def test_two_kernels_of_one_name_keep_their_functions_apart():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    a = ll.kernel(SCALE, numpy=lambda x: x + 1)(x).retrieve()
    b = ll.kernel(SCALE, numpy=lambda x: x + 2)(x).retrieve()
    cx.execute()
    assert (a.tolist(), b.tolist()) == ([2, 3], [3, 4])


CALLS = {
    "none": (
        lambda cx, scale: scale(),
        GraphError,
        "kernel scale: it takes x, and is called with 0 tensors",
    ),
    "number": (
        lambda cx, scale: scale(3),
        GraphError,
        "kernel scale: its input x is 3, and no tensor",
    ),
    "rank": (
        lambda cx, scale: scale(cx.tensor((2, 3), name="x")),
        ShapeError,
        "kernel scale: x is f32[n], but it is given %x (2, 3)",
    ),
    "dtype": (
        lambda cx, scale: scale(cx.tensor((2,), "int64", name="x")),
        DTypeError,
        "kernel scale: x is f32[n], but %x (2,) is int64",
    ),
    "dim": (
        lambda cx, scale: scale(cx.tensor((2,), name="x"), m=4),
        ArgumentError,
        "kernel scale: it has no dim 'm'",
    ),
    "contradiction": (
        lambda cx, scale: scale(cx.tensor((2,), name="x"), n=4),
        ShapeError,
        "kernel scale: x is f32[n] with n = 4, which is (4,), but it is given %x (2,)",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_that_do_not_fit(case):
    call, kind, message = CALLS[case]
    cx = ll.Graph()
    error = error_of(lambda: call(cx, ll.kernel(SCALE, meaning=lambda x: 2 * x)), kind)
    assert error.message == message
    assert "test_call.py" in error.where
    assert error.hint
    assert not [node for node in cx.ir if isinstance(node.op, UserKernel)]


def test_a_dim_that_nothing_says_and_one_out_of_its_bounds():
    cx = ll.Graph()
    x = cx.tensor((6,), name="x")
    error = error_of(lambda: ll.kernel(TABLE, TABLE_HEADER)(x), DimError)
    assert error.message == "kernel table: no input says what the dim 'm' is"
    assert error.hint == "give it at the call, as in table(…, m=4)"
    bounded = SCALE.replace("scale(x:", "scale[n: 4..8 by 4](x:")
    error = error_of(lambda: ll.kernel(bounded)(x), DimError)
    assert error.message == "kernel scale: n is 4..8 by 4, and here it is 6"
    even = cx.dim("even", 4, 8, multiple_of=4)
    assert ll.kernel(bounded)(cx.tensor((even,))).shape == (even,)
    assert error_of(lambda: ll.kernel(bounded)(cx.tensor(("s",))), DimError)


MEANINGS = {
    "count": (
        lambda x: (x, x),
        "kernel scale: its meaning returns 2 results, and the header has 1 output",
    ),
    "type": (
        lambda x: x.sum(),
        "kernel scale: its meaning makes f32[] for y, which is f32[2]",
    ),
    "value": (
        lambda x: 3,
        "kernel scale: its meaning returns 3 for y, not a tensor made from those it is given",
    ),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_a_meaning_that_is_not_of_the_header(case):
    meaning, message = MEANINGS[case]
    x = ll.Graph().tensor((2,), name="x")
    error = error_of(lambda: ll.kernel(SCALE, meaning=meaning)(x), DefinitionError)
    assert error.message == message


MAKING = {
    "no header": (
        lambda: ll.kernel("void f(void) { }"),
        DefinitionError,
        "kernel: nothing says what it takes and returns",
    ),
    "source": (lambda: kernel(3), ArgumentError, "kernel: the source is a int"),
    "dialect": (
        lambda: kernel(SCALE, dialect="cud"),
        ArgumentError,
        "kernel: there is no dialect 'cud'",
    ),
    "both": (
        lambda: ll.kernel(SCALE, meaning=abs, numpy=abs),
        ArgumentError,
        "kernel scale: both meaning and numpy say what it computes",
    ),
    "function": (
        lambda: kernel(SCALE, meaning=3),
        DefinitionError,
        "kernel scale: its meaning is 3",
    ),
    "gradient": (
        lambda: ll.kernel(TABLE, TABLE_HEADER, gradient=abs),
        ArgumentError,
        "kernel table: it has 2 outputs, and a gradient= is of one",
    ),
    "header": (
        lambda: ll.kernel(SCALE, "scale(x: f33[n]) -> (y: f32[n])"),
        ParseError,
        "line 1, column 17: there is no dtype 'f33'",
    ),
    "tasks": (
        lambda: ll.kernel(SCALE, tasks="k"),
        DefinitionError,
        "kernel scale: its tasks are 'k', and its dims are n",
    ),
    "no tasks": (
        lambda: ll.kernel(SCALE, tasks=0),
        DefinitionError,
        "kernel scale: its tasks are 0: nothing would write y",
    ),
    "fewer": (
        lambda: ll.kernel(SCALE, tasks="-n"),
        DefinitionError,
        "kernel scale: its tasks are -n: nothing would write y",
    ),
    "no outputs": (
        lambda: ll.kernel("// kernel f(x: f32[n]) -> ()\nvoid f(const float *x, long n) {}"),
        DefinitionError,
        "kernel f: it has no outputs, so it returns no tensor",
    ),
}


@pytest.mark.parametrize("case", MAKING)
def test_kernels_that_cannot_be_made(case):
    make, kind, message = MAKING[case]
    error = error_of(make, kind)
    assert error.message == message
    assert error.where


def test_other_dialects_are_computed_by_their_meaning_here():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    source = 'extern "C" __global__ void scale(const float *x, float *y, long long n) { }'
    header = "scale(x: f32[n]) -> (y: f32[n])"
    launch = {"dialect": "cuda", "blocks": "n", "threads": 1}
    y = ll.kernel(source, header, **launch, meaning=lambda x: 2 * x)(x).retrieve()
    cx.execute()
    assert y.tolist() == [2, 4]


@pytest.mark.parametrize("given", [{}, {"numpy": lambda x: 2 * x}])
def test_a_kernel_without_a_gradient_says_how_to_give_it_one(given):
    x = ll.Graph().tensor((4,), name="x")
    error = error_of(lambda: ll.grad(kernel(SCALE, **given)(x).sum(), x), GraphError)
    assert error.message.endswith("is made by the kernel scale, which has no gradient")
    assert error.hint == (
        "give ll.kernel a meaning=, whose gradient is taken, or a gradient=; or cut it off with "
        "detach()"
    )


def test_a_kernel_is_called_with_tensors():
    error = error_of(lambda: kernel(SCALE)(np.ones(3)), GraphError)
    assert error.message == "kernel scale: its input x is array([1., 1., 1.]), and no tensor"
    assert error.hint == (
        "make one with cx.tensor(shape).set(data) or cx.constant(data); "
        "ll.devices.check_kernel(kernel, data) tries it on arrays"
    )
    x = ll.Graph().tensor((2, 2))
    assert error_of(lambda: kernel(SCALE)(x)).hint.startswith("give it 1 axis, with reshape")


SPARSE = """
// kernel sparse(x: f32[n]) -> (y: f32[n])
void sparse(const float *x, float *y, long n, long task) { y[task] = x[task]; }
"""


def test_a_call_of_a_kernel_without_tasks_is_refused():
    call = ll.kernel(SPARSE, tasks="n - 8")
    error = error_of(lambda: call(ll.Graph().tensor((5,), name="x")), DimError)
    assert error.message == (
        "kernel sparse: its tasks are n - 8, which with n = 5 is -3: nothing would write y"
    )
    assert error.hint == "tasks= says how often the function is called: at least once"
    assert call(ll.Graph().tensor((9,), name="x")).shape == (9,)
