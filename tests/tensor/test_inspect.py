"""Looking at values and lowerings: probes, comparisons, text of what a value is computed by."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import GraphError, InputError, ShapeError
from luminal_lab.session import Graph
from luminal_lab.tensor.inspect import compare
from tests.expect import error_of

WRONG: Any = 3


def compared(value, wanted):
    with np.errstate(all="ignore"):
        return compare(np.asarray(value), np.asarray(wanted), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("value", "wanted", "text"),
    [
        (
            [1.0, 2.0],
            [1.0, 2.0],
            "all 2 agree; largest difference 0 at (0,): 1 and 1; mean difference 0",
        ),
        (
            [1.0, 2.0],
            [1.0, 2.0 + 1e-7],
            "all 2 agree; largest difference 1e-07 at (1,): 2 and 2.0000001; mean difference 5e-08",
        ),
        (
            [[1.0, 2.0], [3.0, 4.0]],
            [[1.0, 2.0], [3.5, 4.0]],
            "1 of 4 differ; largest difference 0.5 at (1, 0): 3 and 3.5; mean difference 0.125",
        ),
        (
            [np.inf, -np.inf, np.nan],
            [np.inf, -np.inf, np.nan],
            "all 3 agree; largest difference 0 at (0,): inf and inf; mean difference 0",
        ),
        (
            [np.inf, 1],
            [-np.inf, 1],
            "1 of 2 differ; largest difference inf at (0,): inf and -inf; mean difference inf",
        ),
        (
            [1, 1],
            [np.inf, 1],
            "1 of 2 differ; largest difference inf at (0,): 1 and inf; mean difference inf",
        ),
        (
            [np.nan, 1],
            [0, 1],
            "1 of 2 differ; largest difference inf at (0,): nan and 0; mean difference inf",
        ),
        (
            [0, 1],
            [np.nan, 1],
            "1 of 2 differ; largest difference inf at (0,): 0 and nan; mean difference inf",
        ),
        (
            [True, False],
            [True, True],
            "1 of 2 differ; largest difference 1 at (1,): 0 and 1; mean difference 0.5",
        ),
        (
            3.0,
            4.0,
            "1 of 1 differ; largest difference 1 at (): 3 and 4; mean difference 1",
        ),
        (np.zeros((0, 2)), np.zeros((0, 2)), "equal (empty)"),
        ([1.0], [1.0, 2.0], "the shapes differ: (1,) and (2,)"),
    ],
)  # fmt: skip
def test_comparisons(value, wanted, text):
    assert compared(value, wanted) == text


def test_differences_from_an_array_a_list_a_file_and_torch(tmp_path, capsys, torch):
    path = tmp_path / "wanted.npy"
    np.save(path, np.array([2.0, 4.0]))
    cx = Graph()
    y = (cx.tensor((2,)).set([1, 2]) * 2).named("y")
    wanted = np.array([2.0, 4.0])
    for reference in (
        wanted,
        [2, 4],
        path,
        str(path),
        torch.tensor([2.0, 4.0], requires_grad=True),
    ):
        assert y.diff(reference) is y
    wanted[:] = 7  # what was given then counts
    cx.execute()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert set(lines) == {
        "%y against the reference: all 2 agree; largest difference 0 at (0,): 2 and 2; mean "
        "difference 0"
    }


def test_tolerances(capsys):
    cx = Graph()
    y = cx.tensor((2,), name="y").set([1, 2])
    y.diff([1.1, 2], atol=0.2).diff([1.1, 2], rtol=0.2, atol=0).diff([1.1, 2])
    cx.execute()
    verdicts = [line.split(": ")[1].split(";")[0] for line in capsys.readouterr().out.splitlines()]
    assert verdicts == ["all 2 agree", "all 2 agree", "1 of 2 differ"]


def test_references_that_do_not_fit(tmp_path, capsys):
    cx = Graph()
    y = cx.tensor((2, 3), name="y")
    error = error_of(lambda: y.diff([1, 2]), ShapeError)
    assert error.message == "diff: %y (2, 3) cannot be compared with a reference of (2,)"
    assert error.hint == "reshape the reference"
    missing, text = tmp_path / "missing.npy", tmp_path / "text.npy"
    text.write_text("no array")
    for path in (missing, text):
        error = error_of(lambda path=path: y.diff(path), InputError)
        assert error.message.startswith(f"diff: {str(path)!r} cannot be read as a .npy file: ")
        assert error.hint == "write it with numpy.save"
    assert cx._probes == {}
    s = cx.tensor(("n",), name="s").set([1, 2, 3]).diff([1, 2])
    cx.execute()
    assert capsys.readouterr().out == "%s against the reference: the shapes differ: (3,) and (2,)\n"
    assert s.tolist() == [1, 2, 3]


def test_prints(capsys):
    cx = Graph()
    x = cx.tensor((2, 0), name="x").set(np.zeros((2, 0)))
    y = cx.tensor((), name="y").set(2.5)
    x.print()
    y.print("the number")
    cx.execute()
    assert capsys.readouterr().out == "%x: f32[2, 0]\n[] (empty)\nthe number: f32[]\n2.5\n"


def test_lowerings():
    cx = Graph()
    x, w = cx.tensor((2, 3), name="x"), cx.tensor((3,), name="w")
    y = x * w + 1
    aside = x.sin()
    assert y.lowering().splitlines() == [
        "%2 = reshape{shape = [1, 3]} %w : f32[1, 3]",
        "%3 = expand{shape = [2, 3]} %2 : f32[2, 3]",
        "%4 = mul %x, %3 : f32[2, 3]",
        "%5 = constant{value = 1.0} : f32[2, 3]",
        "%6 = add %4, %5 : f32[2, 3]",
    ]
    assert y.op_counts() == {"add": 1, "constant": 1, "expand": 1, "mul": 1, "reshape": 1}
    assert x.lowering() == ""
    assert x.op_counts() == {}
    assert aside.op_counts() == {"sin": 1}


def test_order():
    cx, other = Graph(), Graph("other")
    x = cx.tensor((2,), name="x")
    y = x.after(x * 2).graph_break()
    assert [node.op.name for node in cx.ir][-2:] == ["after", "graph_break"]
    assert y.type == x.type
    assert x.after().shape == (2,)
    assert error_of(lambda: x.after(WRONG), GraphError).message == "after: 3 is not a tensor"
    error_of(lambda: x.after(other.tensor(2)), GraphError)
