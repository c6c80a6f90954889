"""Attention of few rows in pieces: which it is good for, and that it is the same."""

import numpy as np
import pytest

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.dims import evaluate as size_of
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.pieces import in_pieces
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import gpu_of
from luminal_lab.kernels.make import make_gpu_kernel
from tests.kernels.judging import check_same

DECODE = """\
kernel decode(q: f32[2, 4], k: f32[2, n, 4], v: f32[2, n, 4], z: f32[n]) -> (O: f32[2, 4])
  s[h < 2, j < n] = (sum d < 4: q[h, d] * k[h, j, d]) + z[j]
  t[h < 2] = max j < n: s[h, j]
  l[h < 2] = sum j < n: exp2((s[h, j] - t[h]) * 1.442695)
  O[h < 2, d < 4] = sum j < n: exp2((s[h, j] - t[h]) * 1.442695) * recip(l[h]) * v[h, j, d]"""
H100 = gpu_of("sm_90")


def pieces(text: str) -> tuple[Definition, Definition]:
    before = one_pass(parse_definition(text))
    return before, in_pieces(before, H100.cores)


def test_a_line_for_each_part_of_it() -> None:
    _, made = pieces(DECODE)
    assert str(made).splitlines()[1:] == [
        "  t[i < 2, j < (n + 255)//256, o < 256] = where(i64[256*j + o] < i64[n], "
        "[256*j + o < n: (sum p < 4: fused(q[i, p] * k[i, 256*j + o, p])) + z[256*j + o]], -inf)",
        "  m[i < 2, j < (n + 255)//256] = math.maximum(max o < 256: t[i, j, o], -3.4028235e+38)",
        "  w[i < 2, j < (n + 255)//256, o < 256] = exp2((t[i, j, o] - m[i, j]) * 1.442695)",
        "  l[i < 2, j < (n + 255)//256] = sum o < 256: w[i, j, o]",
        "  a[i < 2, j < (n + 255)//256, p < 4] = "
        "sum o < 256: fused(w[i, j, o] * [256*j + o < n: v[i, 256*j + o, p]])",
        "  top[i < 2] = max j < (n + 255)//256: m[i, j]",
        "  c[i < 2, j < (n + 255)//256] = exp2((m[i, j] - top[i]) * 1.442695)",
        "  whole[i < 2] = sum j < (n + 255)//256: fused(l[i, j] * c[i, j])",
        "  O[i < 2, p < 4] = "
        "recip(whole[i]) * (sum j < (n + 255)//256: fused(a[i, j, p] * c[i, j]))",
    ]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
@pytest.mark.parametrize("hidden", ["none", "the first", "all"])
def test_it_is_the_same(n: int, hidden: str) -> None:
    before, made = pieces(DECODE)
    random = np.random.default_rng(n)
    given = {
        name: random.standard_normal([size_of(dim, {"n": n}) for dim in type.shape]).astype("f4")
        for name, type in before.inputs
    }
    if hidden != "none":
        given["z"][: n if hidden == "all" else n // 2] = -np.inf
    want = evaluate(before, given, {"n": n})["O"]
    assert np.isnan(want).all() == (hidden == "all")
    check_same(evaluate(made, given, {"n": n})["O"], want, exactly=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[2, n, 4]", "[2, 300, 4]"),  # two pieces would not be full
        ("< n: ", "< 300: "),
        ("h < 2", "h < 133"),  # there is a head for each core
        ("] + z[j]", "] + z[j] + q[h, 0]"),
    ],
)
def test_others_are_left_as_they_are(old: str, new: str) -> None:
    text = DECODE.replace(old, new)
    if new == "h < 133":
        text = text.replace("[2, ", "[133, ")
    if "300" in new:
        text = DECODE.replace("n]", "300]").replace(" n,", " 300,").replace("< n", "< 300")
    before, made = pieces(text)
    assert (made is before) is ("q[h, 0]" not in new)


def test_rows_that_share_their_keys_are_no_pieces() -> None:
    before, made = pieces("""\
kernel prefill(q: f32[2, 64, 4], k: f32[2, n, 4], v: f32[2, n, 4]) -> (O: f32[2, 64, 4])
  s[h < 2, r < 64, j < n] = sum d < 4: q[h, r, d] * k[h, j, d]
  t[h < 2, r < 64] = max j < n: s[h, r, j]
  l[h < 2, r < 64] = sum j < n: exp2((s[h, r, j] - t[h, r]) * 1.442695)
  O[h < 2, r < 64, d < 4] = sum j < n: \
exp2((s[h, r, j] - t[h, r]) * 1.442695) * recip(l[h, r]) * v[h, j, d]""")
    assert made is before


def test_a_kernel_by_another_schedule_has_the_same_pieces() -> None:
    made = make_gpu_kernel(parse_definition(DECODE), "decode", H100)
    assert made.schedule is not None
    again = made.rescheduled(made.schedule)
    assert (again.source, again.definition) == (made.source, made.definition)
    assert made.steps.end == made.nest
