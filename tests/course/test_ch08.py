"""The exercises of notebook 08: right answers pass, others are told what is not right yet."""

from typing import Any

import pytest

from luminal_lab.course.chapters.ch08 import EXERCISES
from tests.course.answering import ODD, answer_of, by_id, said, text_of

BY_ID = by_id(EXERCISES)
TURNED = '''answer = ll.kernel("""
// kernel turned(x: f32[64, 32]) -> (y: f32[32, 64])
extern "C" __global__ void turned(const float *x, float *y) {
    BODY
}
""", dialect="cuda", blocks=2, threads=128)'''
TILE = """__shared__ float tile[32][33];
    const int column = threadIdx.x % 32, row = threadIdx.x / 32, first = 32 * blockIdx.x;
    for (int k = row; k < 32; k += 4) tile[k][column] = x[32 * (first + k) + column];
    __syncthreads();
    for (int k = row; k < 32; k += 4) y[64 * k + first + column] = tile[column][k];"""
DIRECT = """for (int k = threadIdx.x + 128 * blockIdx.x; k < 2048; k += 256)
        y[k] = x[32 * (k % 64) + k / 64];"""
AFFINE = '''answer = ll.kernel("""
// kernel affine(x: f32[n]) -> (y: f32[n])
kernel void affine(device const float *x, device float *y, constant int &n,
                   uint i [[thread_position_in_grid]]) {
    BODY
}
""", dialect="metal", blocks="(n + 63) // 64", threads=64)'''
SOFTMAX = """cx = ll.Graph("softmax")
cx.tensor((64, 256), name="x").softmax(-1).retrieve()
cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90a"))
"""
PRODUCT = """cx = ll.Graph()
a = cx.tensor(({n}, {n}), name="a")
(a @ cx.tensor(({n}, {n}), name="b")).retrieve()
answer = cx"""
OTHERS = {
    "08.1": (TURNED.replace("BODY", TILE.replace("33", "37")),),
    "08.2": (AFFINE.replace("BODY", "if (int(i) >= n) return; y[i] = x[i] + x[i] + 1.0f;"),),
    "08.4": (PRODUCT.format(n=512), PRODUCT.format(n=2048)),
}
WRONG = {
    "08.1": (
        (
            TURNED.replace("BODY", TILE.replace("33", "32")),
            "expected no turns of waiting, got 1,984",
        ),
        (TURNED.replace("BODY", DIRECT), "got 2,304"),
        (TURNED.replace("BODY", TILE.replace("__syncthreads();", "")), "race: "),
        (TURNED.replace("BODY", TILE.replace("tile[column][k]", "tile[k][column]")), "expected "),
        ("answer = lambda x: x.T", "expected a kernel, got a function"),
    ),
    "08.2": (
        (AFFINE.replace("BODY", "y[i] = 2 * x[i] + 1;"), "out of bounds"),
        (AFFINE.replace("BODY", "if (i < uint(n)) y[i] = 2 * x[i];"), "expected "),
        (TURNED.replace("BODY", TILE), "expected metal, got cuda"),
    ),
    "08.3": (
        (f"{SOFTMAX}answer = cx.kernels[0]", "expected 64, got 256"),
        (f"{SOFTMAX}answer = str(cx.kernels[0].schedule)", "expected a kernel, got a text"),
        (
            SOFTMAX.replace("softmax(-1)", "relu()") + "answer = cx.kernels[0]",
            "not yet: it computes the softmax of 64 rows of 256",
        ),
        (
            SOFTMAX.replace('CUDACompiler(arch="sm_90a")', "CPUCompiler()")
            + "answer = cx.kernels[0]",
            "it is not a kernel that a schedule made for a GPU",
        ),
    ),
    "08.4": (
        (f"{SOFTMAX}answer = cx", "expected compute, got launch"),
        (
            "cx = ll.Graph()\n(cx.tensor((1 << 14, 256)) * 2).retrieve()\nanswer = cx",
            "expected compute, got memory",
        ),
        (PRODUCT.format(n=4096), "expected at most 64 MiB, got 192 MiB"),
        (
            'cx = ll.Graph()\ncx.tensor(("n", 4)).softmax(-1).retrieve()\nanswer = cx',
            "the check could not run: ",
        ),
    ),
}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_its_solution_is_right(exercise):
    assert exercise.check(answer_of(exercise.solution)).right


@pytest.mark.parametrize(("id", "code"), [(id, one) for id, all_ in OTHERS.items() for one in all_])
def test_other_right_answers_are_right(id, code):
    verdict = BY_ID[id].check(answer_of(code))
    assert verdict.right, text_of(verdict)


@pytest.mark.parametrize(
    ("id", "code", "words"),
    [(id, code, words) for id, all_ in WRONG.items() for code, words in all_],
)
def test_wrong_answers_are_told_why(id, code, words):
    assert words in said(BY_ID[id], code)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.id)
def test_odd_answers_get_a_sentence(exercise, odd):
    answer: Any = ODD[odd]
    verdict = exercise.check(answer)
    assert not verdict.right
    assert any(line.startswith("not yet: ") for line in verdict.said)
