"""The fuzzer's own parts, and every program of its corpus by every check."""

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.checks import CHECKS, Case, Difference, failure
from tests.fuzz.drawing import drawn
from tests.fuzz.minimising import minimised
from tests.fuzz.programs import Program, built, parse, values_of
from tests.needs import need

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.txt"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("check", CHECKS)
def test_what_was_found_once_stays_mended(path: Path, check: str):
    if check == "torch":
        need("torch")
    program = parse(path.read_text(encoding="utf-8"))
    assert failure(program, check, path.stem) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_program_is_text(seed: int):
    program = drawn(f"text {seed}")
    again = parse(str(program))
    assert str(again) == str(program)
    pairs = zip(program.inputs, again.inputs, strict=True)
    assert all(a.dims == b.dims and a.array.dtype == b.array.dtype for a, b in pairs)
    wide = [
        [one.array.astype(np.float64) for one in given.inputs if one.array.dtype != np.int64]
        for given in (program, again)
    ]
    for one, other in zip(*wide, strict=True):
        np.testing.assert_array_equal(one, other)
    assert str(drawn(f"text {seed}")) == str(program)


def program_of(text: str) -> Program:
    return parse("\n".join(line.strip() for line in text.strip().splitlines()))


SUM = """
    x0: float32[4] = [1.0, 2.0, 3.0, 4.0]
    v1 = x0.exp()
    v2 = v1.sum(0)
    -> v1, v2
"""


@pytest.mark.parametrize("share", [1e-3, -1e-3, np.inf, np.nan])
def test_a_planted_difference_is_found(share: float):
    case = Case(program_of(SUM))
    first, second = (array.copy() for array in case.right)
    first[2] *= np.float32(1 + share)
    with pytest.raises(Difference, match=r"planted: v1\[2\] is "):
        case.compare([first, second], "planted")
    case.compare(case.right, "itself")


def test_roundings_are_no_difference_and_kinds_are():
    case = Case(program_of(SUM))
    first, second = case.right
    case.compare([np.nextafter(first, np.float32(0)), np.nextafter(second, np.float32(99))], "ulp")
    zero = Case(program_of("x0: float32[2] = [0.0, 3e38]\nv1 = x0 * x0\n-> v1"))
    with pytest.raises(Difference):
        zero.compare([np.array([np.nan, np.inf], np.float32)], "kind")


def test_what_depends_on_a_tie_may_be_either():
    text = (
        "x0: float32[1] = [0.30000001192092896]\nv1 = x0.exp()\nv2 = v1.log()\nv3 = v2 < x0\n-> v3"
    )
    case = Case(program_of(text))
    case.compare([~case.right[0]], "tie")


def test_a_fault_is_minimised_to_what_shows_it():
    program = program_of("""
        x0: float32[n = 3, 4] = [[1.0, 2.0, 3.0, 4.0], [5.0, -6.0, 7.0, 8.0], [1.0, 1.0, 1.0, 1.0]]
        x1: float32[n = 3, 4] = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [1.0, 1.0, 1.0, 1.0]]
        v2 = x0 * x1
        v3 = v2.exp()
        v4 = v2.abs()
        v5 = v4.sum(0)
        v6 = v3 + v4
        -> v5, v6
    """)

    def shows(candidate: Program) -> bool:
        cx, tensors = built(candidate)
        cx.execute()
        names = [one.name for one in candidate.statements if ".abs()" in one.text]
        reads = [one.reads[0] for one in candidate.statements if ".abs()" in one.text]
        tensors[reads[0]].retrieve()
        cx.execute()
        return bool(names) and bool((values_of(tensors, reads)[0] < 0).any())

    small = minimised(program, shows)
    assert str(small) == "x0: float32[1, 1] = [[-36.0]]\nv1 = x0.abs()\n-> v1\n"


@pytest.mark.parametrize(
    ("number", "expected"), [(-104.0, True), (-2.0, False), (0.0, False), (-1000.0, True)]
)
def test_it_is_known_where_a_number_becomes_too_small(number: float, expected: bool):
    case = Case(program_of(f"x0: float32[1] = [{number}]\nv1 = x0.exp()\n-> v1"))
    assert case.underflows is expected
