"""Passes with sums of products: their default schedule, and the values of what it makes in C."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.dims import evaluate as number_of
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.machines.machine import Machine
from tests.conftest import Golden
from tests.kernels.running import Running

HIDDEN = "where(i32[i] < i32[j], -inf, {})"
SEEN = "where(i32[j] < i32[i + 3], {}, -inf)"
MASKED = "where(M[i, j], {}, -inf)"
WINDOW = "where((i64[i] < i64[j]) + (i64[j] + 15 < i64[i]), -inf, {})"
AROUND = "where((i64[j] < i64[i + 9]) * (i64[i] < i64[j + 40]), {}, -inf)"
LATE = "where(i64[j] + 40 < i64[i], -inf, {})"
"""Where there are more queries than keys, the last ones see none."""


def attention(
    heads: int = 2,
    keys: int = 2,
    size: int = 16,
    wide: int = 16,
    mask: str = "{}",
    guard: bool = False,
) -> str:
    """Return the text of an attention as it comes out of a graph."""
    score = mask.format("sum k < SIZE: Q[h, i, k] * 0.25 * K[HEAD, j, k]")
    top = "where(top[h, i] * 0.0 < 1.0, top[h, i], 0.0)" if guard else "top[h, i]"
    all_ = "where(0.0 < all[h, i], all[h, i], 1.0)" if guard else "all[h, i]"
    text = f"""\
kernel attention(
  Q: f32[HEADS, n, SIZE], K: f32[KEYS, t, SIZE], V: f32[KEYS, t, WIDE], M: bool[n, t]
) -> (O: f32[HEADS, n, WIDE])
  s[h < HEADS, i < n, j < t] = {score}
  top[h < HEADS, i < n] = max j < t: s[h, i, j]
  all[h < HEADS, i < n] = sum j < t: exp2((s[h, i, j] - {top}) * 1.442695)
  O[h < HEADS, i < n, d < WIDE] = sum j < t: \
exp2((s[h, i, j] - {top}) * 1.442695) * recip({all_}) * V[HEAD, j, d]"""
    if "M[" not in mask:
        text = text.replace(", M: bool[n, t]", "")
    head = "h" if heads == keys else f"h//{heads // keys}"
    names = {"HEADS": heads, "KEYS": keys, "SIZE": size, "WIDE": wide, "HEAD": head}
    for name, value in names.items():
        text = text.replace(name, str(value)) if name != "HEAD" else text
    return text.replace("HEAD", head)


def drawn(text: str, **dims: int) -> dict[str, np.ndarray]:
    """Return drawn inputs of a definition."""
    draw = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for name, type in parse_definition(text).inputs:
        data = draw.standard_normal([number_of(size, dims) for size in type.shape])
        found[name] = data > 0 if name == "M" else data.astype(np.float32)
    return found


@pytest.mark.parametrize(("name", "mask"), {"attention": HIDDEN, "window": WINDOW}.items())
def test_its_default_schedule_and_nest(name: str, mask: str, golden: Golden) -> None:
    text = attention(size=4, wide=8, mask=mask)
    plain = lower(one_pass(parse_definition(text)))
    made = cpu_schedule(plain, Machine(vector_bytes=16, cores=2))
    golden(
        f"{text}\n# ---\n{plain}\n# ---\n{made.schedule}\n# ---\n{made.nest}\n",
        f"golden/nests/{name}.nest",
    )
    sizes = {"n": 7, "t": 66}
    inputs = drawn(text, **sizes)
    wanted: Any = evaluate(parse_definition(text), inputs, sizes)["O"]
    for nest in (plain, made.nest):
        found: Any = evaluate_nest(nest, inputs, sizes)["O"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


KINDS = {
    "plain": {},
    "hidden": {"mask": HIDDEN},
    "seen": {"mask": SEEN},
    "masked": {"mask": MASKED, "guard": True},
    "shared": {"heads": 4, "mask": HIDDEN},
    "window": {"mask": WINDOW},
    "around": {"heads": 4, "mask": AROUND},
    "none is seen": {"mask": LATE, "size": 5, "wide": 3},
    "odd": {"size": 5, "wide": 3},
    "eight": {"size": 24, "wide": 8},
}


@pytest.mark.needs("cc")
@pytest.mark.share("kind", KINDS, 4)
def test_what_it_makes_in_c(kind: str) -> None:
    text = attention(**KINDS[kind])
    definition = parse_definition(text)
    kernel = make_kernel(definition, "attention", Machine())
    assert kernel.schedule is not None
    assert "fission" in str(kernel.schedule), "the plan for passes was not followed"
    assert not any(one.name == "s" for one in kernel.locals), "the scores are in memory"
    run = Running(kernel)

    @settings(max_examples=12, deadline=None)
    @given(st.integers(1, 200), st.integers(1, 200))
    def check(n: int, t: int) -> None:
        sizes = {"n": n, "t": t}
        inputs = drawn(text, **sizes)
        wanted: Any = evaluate(definition, inputs, sizes)["O"]
        np.testing.assert_allclose(run(inputs, sizes)["O"], wanted, rtol=2e-5, atol=2e-6)

    check()


@pytest.mark.needs("cc")
def test_blocks_that_no_query_sees_are_not_read() -> None:
    text = attention(mask=HIDDEN)
    kernel = make_kernel(parse_definition(text), "attention", Machine())
    assert "stop" in str(kernel.schedule)
    sizes = {"n": 20, "t": 200}
    inputs = drawn(text, **sizes)
    run = Running(kernel)
    found = run(inputs, sizes)["O"]
    inputs["V"][:, 128:] = np.nan
    assert run(inputs, sizes)["O"].tobytes() == found.tobytes()


@pytest.mark.needs("cc")
def test_blocks_before_a_window_are_not_read() -> None:
    text = attention(mask=WINDOW)
    kernel = make_kernel(parse_definition(text), "attention", Machine())
    assert "skip" in str(kernel.schedule)
    sizes = {"n": 400, "t": 400}
    inputs = drawn(text, **sizes)
    run = Running(kernel)
    found = run(inputs, sizes)["O"]
    inputs["V"][:, :256] = np.nan
    after = run(inputs, sizes)["O"]
    # Tasks are of 96 rows, and blocks of 64 keys: that of row 288 begins at key 256.
    assert after[:, 288:].tobytes() == found[:, 288:].tobytes()
    assert np.isnan(after[:, 100:256]).all()


@pytest.mark.needs("cc")
def test_one_query_begins_where_its_window_does() -> None:
    text = attention(mask="where(i64[j] + 16 < i64[t], -inf, {})")
    text = text.replace("i < n", "i < 1").replace("n, ", "1, ")
    kernel = make_kernel(parse_definition(text), "attention", Machine())
    assert "skip k.block" in str(kernel.schedule)
    sizes = {"t": 300}
    inputs = drawn(text, **sizes)
    run = Running(kernel)
    found = run(inputs, sizes)["O"]
    expected: Any = evaluate(parse_definition(text), inputs, sizes)["O"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    inputs["V"][:, :256] = np.nan
    assert run(inputs, sizes)["O"].tobytes() == found.tobytes()


MEAN = """\
kernel rows({inputs}) -> (O: f32[n, 32])
  O[i < n, d < 32] = acc * recip(l) where (m, l, acc) = \
fold j < t from (-3.4028235e+38, 0.0, 0.0): let a = math.maximum(m, {score}); \
let b = exp2((a - m) * -1.0); let c = exp2({score} - a); \
(a, l * b + c, acc * b + fused(c * {value}))"""
POWERS = """\
kernel rows(x: f32[n, 24], w: f32[24, t]) -> (O: f32[n])
  O[i < n] = m + log2(l) where (m, l) = fold j < t from (-3.4028235e+38, 0.0): \
let a = math.maximum(m, sum k < 24: fused(x[i, k] * w[k, j])); \
(a, l * exp2((a - m) * -1.0) + exp2((sum k < 24: fused(x[i, k] * w[k, j])) - a))"""
SCORE = "(sum k < 32: fused(x[i, k] * y[j, k]))"
PASSES = {
    "given scores": MEAN.format(
        inputs="s: f32[n, t], v: f32[t, 32]", score="s[i, j]", value="v[j, d]"
    ),
    "keys that are the values": MEAN.format(
        inputs="x: f32[n, 32], y: f32[t, 32]", score=SCORE, value="y[j, d]"
    ),
    "the sum of powers of a product": POWERS,
}


@pytest.mark.needs("cc")
@pytest.mark.parametrize("kind", PASSES)
def test_any_pass_with_sums_of_products(kind: str) -> None:
    definition = parse_definition(PASSES[kind])
    kernel = make_kernel(definition, "rows", Machine())
    assert "fission" in str(kernel.schedule), "the plan for passes was not followed"
    assert not kernel.locals, "scores are in memory"
    run = Running(kernel)
    for n, t in [(1, 1), (7, 200), (100, 64), (193, 65)]:
        sizes = {"n": n, "t": t}
        inputs = drawn(PASSES[kind], **sizes)
        wanted: Any = evaluate(definition, inputs, sizes)["O"]
        np.testing.assert_allclose(run(inputs, sizes)["O"], wanted, rtol=3e-5, atol=3e-6)
