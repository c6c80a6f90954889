"""`online-softmax`: what it finds, what it leaves, and the proof: a fold is what it was before."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.cost import flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.online import online_softmax, scores_inlined
from luminal_lab.kernels.definition.terms import Fold, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower

SCORES = "s[i < n, j < t] = sum k < 4: Q[i, k] * K[j, k]"
HEADER = "kernel attention(Q: f32[n, 4], K: f32[t, 4], V: f32[t, 3]) -> (O: f32[n, 3])"
PLAIN = f"""{HEADER}
  {SCORES}
  top[i < n] = max j < t: s[i, j]
  all[i < n] = sum j < t: exp2((s[i, j] - top[i]) * 1.442695)
  O[i < n, d < 3] = sum j < t: exp2((s[i, j] - top[i]) * 1.442695) * recip(all[i]) * V[j, d]"""


def softmaxes(definition: Definition) -> int:
    """Return how many folds of several values a definition has."""
    terms = walk(*(line.term for line in definition.lines))
    return sum(isinstance(term, Fold) and term.kind == "pass" for term in terms)


def test_it_is_written_as_what_it_does_and_reads_back() -> None:
    found = online_softmax(parse_definition(PLAIN))
    assert str(found) == (
        f"{HEADER}\n"
        "  s[i < n, j < t] = sum k < 4: Q[i, k] * K[j, k]\n"
        "  O[i < n, o < 3] = acc * recip(l) where (m, l, acc) = "
        "fold j < t from (-3.4028235e+38, 0.0, 0.0): "
        "let a = math.maximum(m, s[i, j]); let b = exp2((m - a) * 1.442695); "
        "let c = exp2((s[i, j] - a) * 1.442695); (a, l * b + c, acc * b + c * V[j, o])"
    )
    assert parse_definition(str(found)) == found
    assert online_softmax(found) == found


def test_what_it_adds_is_fused_if_the_sum_of_values_was() -> None:
    start, end = PLAIN.rsplit("sum j < t: ", 1)
    found = online_softmax(parse_definition(f"{start}sum j < t: fused({end})"))
    assert str(found).endswith("; (a, l * b + c, acc * b + fused(c * V[j, o]))")
    assert parse_definition(str(found)) == found
    sums = [line.strip() for line in str(lower(found)).splitlines() if "+= fused(" in line]
    assert sums == ["acc[o_mix] += fused(s[j_mix] * V[64*j.block + j_mix, o_mix])"]


def test_names_that_are_taken_get_a_number() -> None:
    text = """kernel f(m: f32[4], l: f32[4]) -> (acc: f32[])
  acc[] = z * recip(y) where (x, y, z) = fold j < 4 from (-3.4028235e+38, 0.0, 0.0): \
let a = math.maximum(x, m[j]); let b = exp2((x - a) * 0.5); let c = exp2((m[j] - a) * 0.5); \
(a, y * b + c, z * b + c * l[j])"""
    found = canonical(parse_definition(text))
    assert parse_definition(str(found)) == found
    assert "acc_2 * recip(l_2) where (m_2, l_2, acc_2) = fold" in str(found)
    assert canonical(found) == canonical(canonical(found))


def test_its_cost_counts_scores_and_weights_once() -> None:
    found = online_softmax(parse_definition(PLAIN))
    n, t = 10, 20
    scores, weights, values = n * t * 8, n * t * 4, n * 3 * (2 * t + 2) + n * 3 * t
    assert abs(flops(found, {"n": n, "t": t}) - (scores + weights + values)) <= n * 3 * t


def test_scores_that_only_it_reads_are_inlined() -> None:
    found = scores_inlined(online_softmax(parse_definition(PLAIN)))
    assert [line.name for line in found.lines] == ["O"]
    shared = PLAIN.replace("-> (O", "-> (P: f32[n, t], O") + "\n  P[i < n, j < t] = s[i, j] * 2.0"
    found = scores_inlined(online_softmax(parse_definition(shared)))
    assert [line.name for line in found.lines] == ["s", "P", "O"]


NEAR = {
    "another maximum": ("max j < t: s[i, j]", "max j < t: s[i, j] * 2.0"),
    "another sum": ("(s[i, j] - top[i]) * 1.442695)\n", "(s[i, j] - top[i]) * 1.44)\n"),
    "no division": (" * recip(all[i])", ""),
    "another row": ("recip(all[i])", "recip(all[n - 1 - i])"),
    "a sum for a maximum": ("max j < t: s[i, j]", "sum j < t: s[i, j]"),
    "less than nothing": ("1.442695", "-1.442695"),
    "only one is guarded": ("recip(all[i])", "recip(where(0.0 < all[i], all[i], 1.0))"),
    "the keys may be none": ("attention(", "attention[t: 0..9]("),
    "a part of the keys": ("max j < t: s[i, j]", "max j < 1: s[i, j]"),
    "another score": (
        "exp2((s[i, j] - top[i]) * 1.442695) * recip",
        "exp2((s[i, t - 1 - j] - top[i]) * 1.442695) * recip",
    ),
}


@pytest.mark.parametrize("which", NEAR)
def test_what_is_nearly_one_is_left(which: str) -> None:
    old, new = NEAR[which]
    assert old in PLAIN
    found = parse_definition(PLAIN.replace(old, new))
    assert online_softmax(found) == found
    assert softmaxes(online_softmax(parse_definition(PLAIN))) == 1


@st.composite
def definitions(draw: Any) -> str:
    """Draw a softmax that weighs values, in one of the ways in which it may be written."""
    guards = draw(st.booleans())
    top = draw(st.sampled_from(["top[i]", "(max p < t: s[i, p])"]))
    base = f"where({top} * 0.0 < 1.0, {top}, 0.0)" if guards else top
    power = draw(
        st.sampled_from(["exp2(({}) * 1.442695)", "exp2({})", "exp2(0.3 * ({}))", "math.exp({})"])
    )
    weight = power.format(f"s[i, {{}}] - {base}")
    total = f"(sum q < t: {weight.format('q')})" if draw(st.booleans()) else "all[i]"
    share = f"recip(where(0.0 < {total}, {total}, 1.0))" if guards else f"recip({total})"
    factors = [
        weight.format("k"),
        share,
        *draw(st.sampled_from([["V[k, d]"], ["V[k, d]", "W[k]"]])),
    ]
    factors = draw(st.permutations(factors))
    score = draw(
        st.sampled_from(["S[i, j]", "where(i64[i] < i64[j], -inf, S[i, j])", "S[i, j] * W[j]"])
    )
    end = draw(st.sampled_from(["", " * 2.0", " + V[0, d]"]))
    return f"""kernel f(S: f32[n, t], V: f32[t, 2], W: f32[t]) -> (O: f32[n, 2])
  s[i < n, j < t] = {score}
  top[i < n] = max j < t: s[i, j]
  all[i < n] = sum j < t: {weight.format("j")}
  O[i < n, d < 2] = (sum k < t: {" * ".join(factors)}){end}"""


NUMBERS = st.one_of(
    st.sampled_from([-np.inf, -np.inf, 0.0, 1.0, 1.0, -3e38, 3e38, 1e30, np.inf, np.nan, 88.0]),
    st.floats(-20, 20, width=32),
)


@settings(max_examples=40, deadline=None)
@given(st.data(), definitions(), st.integers(1, 3), st.integers(1, 6))
def test_the_fold_is_what_it_was(data: Any, text: str, n: int, t: int) -> None:
    before = parse_definition(text)
    after = online_softmax(before)
    assert softmaxes(after) == 1, text
    assert parse_definition(str(after)) == after
    numbers = data.draw(st.lists(NUMBERS, min_size=n * t, max_size=n * t))
    draw = np.random.default_rng(0)
    inputs = {
        "S": np.array(numbers, np.float32).reshape(n, t),
        "V": draw.standard_normal((t, 2)).astype(np.float32),
        "W": draw.uniform(0.5, 1.5, t).astype(np.float32),
    }
    sizes = {"n": n, "t": t}
    results: list[Any] = [evaluate(one, inputs, sizes)["O"] for one in (before, after)]
    wanted, found = results
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
