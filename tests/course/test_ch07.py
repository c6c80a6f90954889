"""The exercises of notebook 07: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.course.chapters import ch07
from luminal_lab.course.chapters.ch07 import EXERCISES
from luminal_lab.course.compiling import compiled
from luminal_lab.errors import DeviceError
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
HEAD = "// kernel running(x: f32[n, k]) -> (y: f32[n, k])\n"
VOID = "void running(const float *x, float *y, long n, long k) {"
EACH, LATER = (f"for (long j = {first}; j < k; j++)" for first in (0, 1))
BEFORE = "y[i*k+j] = y[i*k+j-1] + x[i*k+j];"
MEANT = ", meaning=lambda x: x.cumsum(-1)"
OTHER = "// kernel running(x: f32[n]) -> (y: f32[n])\n"
ROWS = " for (long i = 0; i < n; i++) {"


def in_c(body: str, more: str = "") -> str:
    """Return a cell whose answer is a kernel of the fourth exercise with this body."""
    return f'answer = ll.kernel("""{HEAD}{VOID}{body}}}"""{more})'


OTHERS = {
    "07.1": (
        "answer = lambda a, b: ((a @ b.T).T + 1).relu()",
        "answer = lambda a, b: b.linear(a).add(1.0).maximum(0.0)",
    ),
    "07.2": (
        "answer = lambda n, d: n * d * 8 + d * 4",
        "answer = lambda n, d: np.float64(4 * d * (2 * n + 1))",
    ),
    "07.3": (
        'answer = "split i by 16\\nparallel i.block\\nsplit j by 32\\nsimd j.own"',
        'answer = "simd j\\nsplit i by 16\\nparallel i.block"',
    ),
    "07.4": (
        in_c(ROWS + "y[i*k] = x[i*k];" + LATER + BEFORE + "}"),
        in_c(ROWS + "float s = 0;" + EACH + "y[i*k+j] = s += x[i*k+j];}", MEANT),
    ),
}  # fmt: skip
WRONG = {
    "07.1": (
        ("answer = lambda a, b: (a @ b.T + 1).relu()", "expected the shape (5, 6), got (6, 5)"),
        ("answer = lambda a, b: (b @ a.T).relu()", "expected 7.71369, got 6.71369"),
        ("answer = lambda a, b: (b @ a.T + 1)", "relu comes last"),
        ("answer = lambda a, b: (b @ a.T + 1).reshape(5, 6).relu()", "not yet: it does for other"),
    ),
    "07.2": (
        ("answer = lambda n, d: 2 * n * d + d", "for n = 1 and d = 1: expected 12, got 3"),
        ("answer = lambda n, d: 12 * n * d", "for n = 4 and d = 8: expected 288, got 384"),
        ("answer = lambda n, d: None", "what it returns: expected a number, got a NoneType"),
        ("answer = 4 * (2 * 3 * 5 + 5)", "expected a function, got a number"),
    ),
    "07.3": (
        ('answer = "split i by 16\\nparallel i.block"', "not yet: the sum runs some"),
        ('answer = "parallel i\\nsimd j"', "expected 63 tasks, got 1000"),
        (
            'answer = "split i by 16\\nparallel i.own\\nsimd j"',
            "parallel i.own: it is inside i.block",
        ),
        ('answer = "splt i by 16"', "the schedule is refused"),
        ('answer = "simd j"', "expected a parallel loop, got none"),
    ),
    "07.4": (
        (
            in_c("float s = 0;" + ROWS + EACH + "{ s += x[i*k+j]; y[i*k+j] = s; }}"),
            "not yet: it is right for several rows",
        ),
        (in_c(ROWS + LATER + BEFORE + "}"), "y[0, 0] is not written"),
        (in_c(ROWS + EACH + "y[i*k+j] = x[i*k+j];}"), "expected -0.52144, got -0.724777"),
        (
            f'answer = ll.kernel("""{OTHER}void running(const float *x, float *y, long n) {{}}""")',
            "it is kernel running(x: f32[n])",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_a_solution_is_right(exercise: Any) -> None:
    verdict = exercise.check(answer_of(exercise.solution))
    assert verdict.right, verdict
    assert len(verdict.said) >= 2


@pytest.mark.parametrize(("id", "code"), [(id, code) for id in OTHERS for code in OTHERS[id]])
def test_other_spellings_are_right(id: str, code: str) -> None:
    verdict = BY_ID[id].check(answer_of(code))
    assert verdict.right, verdict


@pytest.mark.parametrize(
    ("id", "code", "sentence"), [(id, *one) for id in WRONG for one in WRONG[id]]
)
def test_a_wrong_answer_is_told_what_is_wrong(id: str, code: str, sentence: str) -> None:
    told = said(BY_ID[id], code)
    assert sentence in told
    assert not told.endswith("\n"), "there is a hint"


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_odd_answers_get_a_sentence(exercise: Any, odd: str) -> None:
    verdict = exercise.check(ODD[odd])
    assert not verdict.right
    assert "not yet: " in text_of(verdict)


@pytest.mark.parametrize(("n", "d"), ch07.SIZES)
def test_the_count_of_bytes_is_the_kernels(n: int, d: int) -> None:
    cx = ll.Graph()
    x, scale = cx.tensor((n, d), name="x"), cx.tensor((d,), name="scale")
    (x * scale).softmax(-1).retrieve()
    assert [launch.bytes() for launch in compiled(cx).launches] == [ch07.bytes_of(n, d)]


@pytest.mark.parametrize("id", ["07.1", "07.3", "07.4"])
def test_without_a_compiler_it_is_said(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise DeviceError("compiler: none was found")

    monkeypatch.setattr("luminal_lab.course.compiling.find_compiler", none)
    monkeypatch.setattr("luminal_lab.devices.cpu.user_check.find_compiler", none)
    assert "DeviceError: compiler: none was found" in said(BY_ID[id], BY_ID[id].solution)
