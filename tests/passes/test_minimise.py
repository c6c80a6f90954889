"""The smallest graph that still shows something, and the test that is made of it."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.verify import verify
from luminal_lab.errors import ArgumentError, GraphError, LabWarning, PassError
from luminal_lab.passes.minimise import Minimised, minimise
from tests.expect import error_of

A, B = ll.variables("a b")
DROP = ll.Rule("drop", A + B, A)


def written() -> tuple[ll.Graph, ll.Tensor]:
    """Return a small network whose softmax divides by the sum over the wrong axis."""
    cx = ll.Graph("net")
    x = cx.tensor(("n", 8), name="x")
    h = nn.MLP(8, 16, 8).initialise(0)(x) if hasattr(nn, "MLP") else (x @ x.T @ x).relu()
    powers = (h - h.max(-1, keepdim=True)).exp()
    y = (powers / powers.sum(0, keepdim=True)).named("y").retrieve()
    (y * 1 + h.sum()).named("z").retrieve()
    return cx, y


def passes(test: str, folder: Path) -> None:
    """Run a test as a file, as a user does who pastes it."""
    path = folder / "test_pasted.py"
    path.write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{test}\n{done.stdout}"


def test_a_rule_that_fires(tmp_path: Path) -> None:
    cx, _ = written()
    small = minimise(cx.compile(), fires="mul-one")
    assert (
        str(small).splitlines()[1:]
        == [
            "  %54 = constant{value = 1.0} : f32[2, 1]",
            *str(small).splitlines()[2:],
        ]
        or len(small.ir) == 3
    )
    assert small.is_whole
    assert len(small.written) > 40
    verify(small.ir)
    assert all(dim in (1, 2) for node in small.ir for dim in node.shape)
    assert "def test_mul_one_fires():" in small.as_test()
    passes(small.as_test(), tmp_path)


def test_a_session_has_its_last_compile() -> None:
    cx, _ = written()
    cx.compile("simplify, dce")
    assert len(minimise(cx, fires="mul-one").ir) == 3
    error = ll.PassError
    assert len(minimise(cx, raises=error, passes=[DROP], check="values").ir) < len(cx.ir)


def test_a_search_that_misses(tmp_path: Path) -> None:
    cx, y = written()
    compilation = cx.compile()
    small = minimise(compilation, misses="softmax", at=y.id)
    why = str(compilation.why_not("softmax", y.id)).splitlines()[-1]
    assert "is a maximum over axes [1], and the sum is over axes [0]" in why
    assert [node.op.name for node in small.ir].count("sum_reduce") == 1
    assert len(small.ir) < 25  # exp alone has ten
    assert 'is a maximum over axes [1], and the sum is over axes [0].")' in small.as_test()
    passes(small.as_test("softmax_over_two_axes"), tmp_path)
    again = str(small).startswith("graph net(")
    assert again


def test_an_error(tmp_path: Path) -> None:
    cx, _ = written()
    small = minimise(cx.ir, raises=PassError, passes=["cse", DROP], check="values")
    assert [node.op.name for node in small.ir] == ["input", "input", "add"]
    test = small.as_test()
    assert "# drop: a + b → a" in test
    assert 'with pytest.raises(ll.errors.PassError, match="pass\\\\ drop' in test
    own = 'from luminal_lab import Rule, variables\na, b = variables("a b")\n'
    passes(f'{own}drop = Rule("drop", a + b, a)\n{test}', tmp_path)


def is_deep(ir: ll.IR) -> bool:
    """Return whether a graph has a sine of a root."""
    return any(node.op.name == "sin" and ir[node.sources[0]].op.name == "sqrt" for node in ir.nodes)


def test_a_function_of_a_graph() -> None:
    cx = ll.Graph()
    x = cx.tensor((64, 32), name="x")
    ((x.sqrt().sin() + x).exp() @ cx.tensor((32, 16), name="w")).retrieve()
    small = minimise(cx.ir, is_deep)
    assert [node.op.name for node in small.ir] == ["input", "sqrt", "sin"]
    assert small.ir.outputs[0].shape == (1, 1)
    assert "assert is_deep(ir)" in small.as_test()
    assert repr(small).startswith("<Minimised: ")


def test_what_raises_shows_nothing_and_too_many_trials_end_it() -> None:
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    for _ in range(20):
        x = x.sin()
    x.retrieve()

    def fails(ir: ll.IR) -> bool:
        if len(ir) < 10:
            raise ValueError("too small")
        return True

    assert len(minimise(cx.ir, fails).ir) == 10
    few = minimise(cx.ir, fails, most=1)
    assert (few.tried, few.is_whole) == (1, False)
    assert "smaller ones may show it" in repr(few)


def test_ctrl_c_keeps_the_smallest_so_far() -> None:
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    for _ in range(20):
        x = x.sin()
    x.retrieve()
    tried: list[int] = []

    def shows(ir: ll.IR) -> bool:
        tried.append(len(ir))
        if len(tried) == 4:
            signal.raise_signal(signal.SIGINT)
        return "sin" in str(ir)

    with pytest.warns(LabWarning, match="stopped by Ctrl-C after 3 graphs, with the smallest"):
        small = minimise(cx.ir, shows)
    assert not small.is_whole
    assert len(small.ir) == min(tried[:3]) < 21


def test_an_open_trace_hears_of_no_trial() -> None:
    cx, _ = written()
    compilation = cx.compile()
    with ll.trace() as traced:
        minimise(compilation, fires="mul-one")
    assert not traced.compilations


def test_hostile_questions() -> None:
    cx, y = written()
    compilation, nothing = cx.compile(), object()
    wrong: Any = partial(minimise, compilation)
    for ask, words in [
        (wrong, "minimise: nothing says what the graph is to show"),
        (lambda: wrong(fires="a", misses="b"), "fires and misses says"),
        (lambda: wrong(nothing), "is not a function of a graph"),
        (lambda: wrong(fires=3), "minimise: 3 is neither a rule nor a search"),
        (lambda: wrong(misses="softmax"), "misses at no node"),
        (lambda: wrong(fires="x", most=0), "minimise: most is 0"),
        (lambda: minimise(cx.ir, raises=3, passes="cse"), "minimise: raises is 3"),  # pyright: ignore[reportArgumentType]
    ]:
        assert words in str(error_of(ask, ArgumentError))
    for ask, words in [
        (lambda: wrong(fires="no-such-rule"), "the graph net does not show it"),
        (lambda: wrong(misses="softmax", at=9999), "there is no node with the id 9999"),
        (lambda: minimise(cx.ir, raises=PassError, passes="cse"), "raises no PassError"),
        (lambda: wrong(misses="matmul", at=y.id), "or does not begin there"),
    ]:
        assert words in str(error_of(ask, GraphError))
    small: Minimised = minimise(compilation, fires="duplicate")
    error_of(lambda: small.as_test("two words"), ArgumentError)


@pytest.mark.parametrize(
    ("shows", "said"),
    [
        (lambda: True, "is not a function of a graph"),
        (lambda ir, more: True, "is not a function of a graph"),
        (lambda ir: np.ones(2), "the function returned array([1., 1.]), which is neither true"),
    ],
)
def test_a_function_that_cannot_say_yes_or_no(shows: Any, said: str) -> None:
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    error = error_of(lambda: ll.minimise(cx.ir, shows), ArgumentError)
    assert said in error.message
    assert error.hint == "as in lambda ir: len(ir) > 3"
