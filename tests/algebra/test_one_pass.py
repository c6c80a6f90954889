"""One pass for several: what becomes one, what is left, and that it is what it was before."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.cost import flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.running import scores_inlined
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
    found = one_pass(parse_definition(PLAIN))
    assert str(found) == (
        f"{HEADER}\n"
        "  s[i < n, j < t] = sum k < 4: fused(Q[i, k] * K[j, k])\n"
        "  O[i < n, o < 3] = recip(l) * acc where (m, l, acc) = "
        "fold j < t from (-3.4028235e+38, 0.0, 0.0): "
        "let a = math.maximum(m, s[i, j]); let b = exp2((m - a) * 1.442695); "
        "let c = exp2((s[i, j] - a) * 1.442695); (a, l * b + c, acc * b + fused(c * V[j, o]))"
    )
    assert parse_definition(str(found)) == found
    assert one_pass(found) == found
    sums = [line.strip() for line in str(lower(found)).splitlines() if "V[" in line]
    assert sums == ["acc[o_mix] += fused(s[j_mix] * V[64*j.block + j_mix, o_mix])"]


def test_it_has_the_name_of_what_it_is_made_of() -> None:
    plain = parse_definition(PLAIN)
    other = parse_definition(PLAIN.replace("kernel attention", "kernel decode"))
    assert str(one_pass(other)) == str(one_pass(plain)).replace("attention", "decode")


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
    found = one_pass(parse_definition(PLAIN))
    n, t = 10, 20
    scores, weights, values = n * t * 8, n * t * 4, n * 3 * (2 * t + 2) + n * 3 * t
    assert abs(flops(found, {"n": n, "t": t}) - (scores + weights + values)) <= n * 3 * t


def test_scores_that_only_it_reads_are_inlined() -> None:
    found = scores_inlined(one_pass(parse_definition(PLAIN)))
    assert [line.name for line in found.lines] == ["O"]


def test_scores_that_are_a_result_too_are_stored_anyway() -> None:
    shared = PLAIN.replace("-> (O", "-> (P: f32[n, t], O") + "\n  P[i < n, j < t] = s[i, j] * 2.0"
    found = parse_definition(shared)
    assert one_pass(found) == found
    assert [line.name for line in scores_inlined(found).lines] == ["s", "top", "all", "P", "O"]


def test_masks_may_mention_dims() -> None:
    masked = "s[i < n, j < t] = where(i64[j] < i64[i + n], sum k < 4: Q[i, k] * K[j, k], -inf)"
    assert softmaxes(one_pass(parse_definition(PLAIN.replace(SCORES, masked)))) == 1


PROJECTED = {
    "queries": ("Q: f32[n, 4]", "Q: f32[n, 5], W: f32[5, 4]", "Q[i, k]", "Q[i, p] * W[p, k]"),
    "keys": ("K: f32[t, 4]", "K: f32[t, 5], W: f32[5, 4]", "K[j, k]", "K[j, p] * W[p, k]"),
    "values": ("V: f32[t, 3]", "V: f32[t, 5], W: f32[5, 3]", "V[j, d]", "V[j, p] * W[p, d]"),
}
"""What is a sum itself: the input as it is declared then, and what is read and summed."""


@pytest.mark.parametrize("which", PROJECTED)
def test_sums_that_it_would_do_again_for_each_row_are_not_in_it(which: str) -> None:
    declared, then, read, summed = PROJECTED[which]
    text = PLAIN.replace(declared, then).replace(read, f"(sum p < 5: {summed})")
    assert softmaxes(one_pass(parse_definition(text))) == 0


ALSO = {
    "another sum": ("(s[i, j] - top[i]) * 1.442695)\n", "(s[i, j] - top[i]) * 1.44)\n"),
    "scores that are sums": ("= sum k < 4: Q", "= Q[i, 0] + 0.5 + sum k < 4: Q"),
    "a factor for each row": ("recip(all[i])", "recip(all[i]) * Q[i, 1]"),
}
"""What is no softmax that weighs a mean, but one pass as well."""


def test_what_a_row_is_multiplied_by_stays_in_the_sum() -> None:
    """The sum may be too large without it."""
    found = one_pass(parse_definition(PLAIN.replace("recip(all[i])", "recip(all[i]) * Q[i, 1]")))
    assert str(found).endswith("acc * b + fused(c * Q[i, 1] * V[j, o]))")


@pytest.mark.parametrize("which", ALSO)
def test_it_need_be_no_softmax(which: str) -> None:
    old, new = ALSO[which]
    assert old in PLAIN
    before = parse_definition(PLAIN.replace(old, new))
    after = one_pass(before)
    assert softmaxes(after) == 1
    rng = np.random.default_rng(0)
    shapes = {"Q": (5, 4), "K": (70, 4), "V": (70, 3)}
    inputs = {name: rng.standard_normal(shapes[name]).astype("f4") for name in shapes}
    results: list[Any] = [
        evaluate(each, inputs, {"n": 5, "t": 70})["O"] for each in (before, after)
    ]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


NEAR = {
    "another maximum": ("max j < t: s[i, j]", "max j < t: s[i, j] * 2.0"),
    "no division": (" * recip(all[i])", ""),
    "only one is guarded": ("recip(all[i])", "recip(where(0.0 < all[i], all[i], 1.0))"),
    "what the largest score gives": (" * recip(all[i])", " * recip(all[i]) * exp2(top[i])"),
    "another row": ("recip(all[i])", "recip(all[n - 1 - i])"),
    "a sum for a maximum": ("max j < t: s[i, j]", "sum j < t: s[i, j]"),
    "less than nothing": ("1.442695", "-1.442695"),
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
    assert one_pass(found) == found
    assert softmaxes(one_pass(parse_definition(PLAIN))) == 1


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
    after = one_pass(before)
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
