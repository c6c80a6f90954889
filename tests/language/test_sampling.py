"""The next token: what each option means, drawn as often as it should be, and who says so too."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from luminal_lab.errors import ArgumentError
from luminal_lab.language.sampling import Sampler
from tests.expect import error_of
from tests.needs import need

NAN, INF = math.nan, math.inf
OPTIONS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.3, 0.7, 1.0, 1.9]),
        "top_k": st.none() | st.integers(1, 40),
        "top_p": st.none() | st.floats(0.02, 1.0),
        "min_p": st.none() | st.floats(0.0, 1.0),
        "repetition_penalty": st.sampled_from([0.7, 1.0, 1.3]),
        "presence_penalty": st.sampled_from([0.0, 0.6]),
        "frequency_penalty": st.sampled_from([0.0, 0.4, -0.2]),
        "logit_bias": st.none() | st.dictionaries(st.integers(0, 29), st.floats(-4, 4), max_size=3),
    }
)
LOGITS = st.lists(st.floats(-6, 6, width=32), min_size=30, max_size=30)
TEXT = st.lists(st.integers(0, 29), max_size=12)


def naive(logits, text, prompt, options):
    """Return probabilities by the words of the documentation, one token at a time."""
    x = list(map(float, logits))
    for id, bias in (options["logit_bias"] or {}).items():
        x[id] += bias
    for id in set(text):
        penalty = options["repetition_penalty"]
        x[id] = x[id] / penalty if x[id] > 0 else x[id] * penalty
    for id, count in Counter(text[prompt:]).items():
        x[id] -= options["presence_penalty"] + options["frequency_penalty"] * count
    x = [value / options["temperature"] for value in x]
    order = sorted(range(len(x)), key=lambda id: (-x[id], id))
    if options["top_k"] is not None:
        least = x[order[min(options["top_k"], len(x)) - 1]]
        order = [id for id in order if x[id] >= least]
    weights = {id: math.exp(x[id] - x[order[0]]) for id in order}
    if options["top_p"] is not None and options["top_p"] < 1:
        whole, before, kept = math.fsum(weights.values()), 0.0, []
        for id in order:
            if before / whole < options["top_p"]:
                kept.append(id)
            before += weights[id]
        order = kept
    order = [id for id in order if weights[id] >= (options["min_p"] or 0) * weights[order[0]]]
    whole = math.fsum(weights[id] for id in order)
    return [weights[id] / whole if id in order else 0.0 for id in range(len(x))]


@given(logits=LOGITS, text=TEXT, prompt=st.integers(0, 12), options=OPTIONS)
@example(
    logits=[0.0] * 29 + [4.4e-27],
    text=[],
    prompt=0,
    options=dict.fromkeys(["top_k", "min_p", "logit_bias"])
    | {"temperature": 0.3, "top_p": 0.5, "repetition_penalty": 0.7}
    | dict.fromkeys(["presence_penalty", "frequency_penalty"], 0.0),
)
def test_chances_are_what_the_options_say(logits, text, prompt, options):
    chances = Sampler(**options).chances(np.array(logits), text, prompt=prompt)
    expected = np.array(naive(logits, text, prompt, options))
    border = options["top_p"] or 0.5
    if np.abs(np.sort(expected)[::-1].cumsum() - border).min() > 1e-9:
        near, far = 1e-9, 1e-12
        np.testing.assert_allclose(np.sort(chances), np.sort(expected), near, far)
        # Which of the last ones is kept may hang on how a difference of 1e-26 was rounded.
        others = ~np.isclose(chances, expected, near, far)
        least = expected[expected > 0].min()
        np.testing.assert_allclose(np.maximum(chances, expected)[others], least, near, far)


@given(logits=LOGITS, text=TEXT.filter(bool), options=OPTIONS)
def test_chances_are_those_of_transformers(logits, text, options):
    torch = need("torch")
    t = need("transformers")
    options |= {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    biases = {(id,): bias for id, bias in (options["logit_bias"] or {}).items()}
    steps = t.LogitsProcessorList([t.SequenceBiasLogitsProcessor(biases)] if biases else [])
    steps.append(t.RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]))
    steps.append(t.TemperatureLogitsWarper(options["temperature"]))
    if options["top_k"] is not None:
        steps.append(t.TopKLogitsWarper(options["top_k"]))
    if options["top_p"] is not None:
        steps.append(t.TopPLogitsWarper(options["top_p"]))
    if options["min_p"] is not None:
        steps.append(t.MinPLogitsWarper(options["min_p"]))
    scores = torch.tensor([logits], dtype=torch.float64)
    expected = steps(torch.tensor([text]), scores).softmax(-1)[0].numpy()
    chances = Sampler(**options).chances(np.array(logits), text)
    # Equal logits have no order there; here the first ones stay.
    if len(set(logits)) == len(logits):
        np.testing.assert_allclose(chances, expected, rtol=1e-6, atol=1e-7)


CASES = [
    {"temperature": 1.0},
    {"temperature": 0.6, "top_k": 7},
    {"temperature": 1.4, "top_p": 0.8},
    {"temperature": 1.0, "min_p": 0.02},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.4},
    {"temperature": 1.0, "presence_penalty": 0.5, "frequency_penalty": 0.3, "top_p": 0.95},
]


@pytest.mark.share("options", CASES, 1)
def test_draws_are_as_frequent_as_their_chances(options, monkeypatch):
    drawn = np.random.default_rng(3)
    logits, text = drawn.normal(0, 2, 30), [1, 1, 5]
    sampler = Sampler(seed=11, **options)
    # What the options leave is the same each time, and tested above: it is worked out once.
    given = logits, text, 0
    left = sampler._left(*given)
    asked: list[bool] = []

    def same(*now: Any) -> object:
        asked.append(np.array_equal(now[0], logits) and now[1:] == given[1:])
        return left

    monkeypatch.setattr(sampler, "_left", same)
    counts = np.zeros(30)
    total = 100_000
    for _ in range(total):
        counts[sampler.pick(logits, text)[0]] += 1
    assert asked == [True] * total
    usual = dict.fromkeys(("top_k", "top_p", "min_p", "logit_bias"))
    usual |= {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    expected = total * np.array(naive(logits, text, 0, usual | options))
    likely = expected >= 5
    assert not counts[expected == 0].any()
    counts = [*counts[likely], counts[~likely].sum()]
    expected = [*expected[likely], expected[~likely].sum()]
    pairs = [pair for pair in zip(counts, expected, strict=True) if pair[1]]
    statistic = sum((count - usual) ** 2 / usual for count, usual in pairs)
    free = len(pairs) - 1
    # Wilson and Hilferty's: χ² is normal by its cube root.
    far = ((statistic / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))
    assert abs(far) < 5


def test_temperature_0_takes_the_likeliest_and_of_equals_the_first():
    assert Sampler().pick(np.array([0.0, 2.0, 2.0, 1.0], "float16"), [])[0] == 1


def test_a_low_temperature_is_nearly_that():
    sampler = Sampler(temperature=1e-300, seed=0)
    assert sampler.pick(np.array([-INF, 2.0, 2.1, -1e300]), [])[0] == 2


def test_the_probability_is_the_models_own():
    logits = np.log(np.array([0.2, 0.5, 0.3]))
    sampler = Sampler(temperature=2, top_k=1, logit_bias={2: 9})
    assert sampler.pick(logits, []) == (2, pytest.approx(math.log(0.3)))


def test_the_same_seed_draws_the_same():
    logits = np.zeros(1000)
    first, second, other = (Sampler(temperature=1, seed=seed) for seed in (4, 4, 5))
    a, b, c = ([s.pick(logits, [])[0] for _ in range(8)] for s in (first, second, other))
    assert a == b != c


def test_what_is_impossible_is_never_drawn():
    logits = np.full(5000, -INF)
    logits[[7, 4000]] = 0
    sampler = Sampler(temperature=1, seed=0)
    assert {sampler.pick(logits, [])[0] for _ in range(200)} == {7, 4000}


def test_a_large_share_of_many_equal_tokens_is_found():
    chances = Sampler(temperature=1, top_p=0.5).chances(np.zeros(30_000), [])
    assert np.flatnonzero(chances).tolist() == list(range(15_000))


def test_a_bias_can_exclude_a_token():
    assert Sampler(logit_bias={1: -INF}).pick(np.array([0.0, 9.0]), [])[0] == 0


def test_the_prompt_counts_as_repeated_alone():
    logits = np.array([3.0, 2.5])
    assert Sampler(presence_penalty=1).pick(logits, [0], prompt=1)[0] == 0
    assert Sampler(presence_penalty=1).pick(logits, [0])[0] == 1
    assert Sampler(repetition_penalty=2).pick(logits, [0], prompt=1)[0] == 1


def test_what_was_asked_for_is_shown():
    assert repr(Sampler()) == "Sampler()"
    assert repr(Sampler(0.7, top_k=40, seed=3)) == "Sampler(temperature=0.7, top_k=40, seed=3)"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"temperature": -1}, "temperature is -1", "0 or more; 0 is the likeliest"),
        ({"temperature": NAN}, "temperature is nan", "0 or more; 0 is the likeliest"),
        ({"temperature": "1"}, "temperature is '1'", "0 or more; 0 is the likeliest"),
        ({"top_k": 0}, "top_k is 0", "a whole number, 1 or more; leave it out for none"),
        ({"top_k": 2.5}, "top_k is 2.5", "a whole number, 1 or more; leave it out for none"),
        ({"top_p": 0}, "top_p is 0", "above 0, up to 1"),
        ({"top_p": 1.1}, "top_p is 1.1", "above 0, up to 1"),
        ({"min_p": -0.1}, "min_p is -0.1", "from 0 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0", "above 0; 1 changes nothing"),
        ({"presence_penalty": INF}, "presence_penalty is inf", "a number"),
        ({"frequency_penalty": None}, "frequency_penalty is None", "a number"),
        (
            {"logit_bias": [1]},
            "logit_bias is [1]",
            "a number by the id of a token, as in {50256: -100}",
        ),
        (
            {"logit_bias": {"a": 1}},
            "logit_bias is 'a'",
            "a number by the id of a token; this is no id",
        ),
        ({"logit_bias": {1: NAN}}, "logit_bias of token 1 is nan", "a number, or -inf"),
        ({"seed": -1}, "seed is -1", "a whole number, 0 or more; leave it out for none"),
    ],
)
def test_a_wrong_option_is_told(options, message, hint):
    error = error_of(lambda: Sampler(**options), ArgumentError)
    assert str(error) == f"generate: {message}\nhint: it is {hint}"


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([0.0, NAN], "1 of 2 logits are NaN or inf; that of token 1 is NaN"),
        ([INF, NAN, 1.0], "2 of 3 logits are NaN or inf; that of token 0 is inf"),
        ([-INF, -INF], "no token is left: all logits are -inf"),
        ([[0.0]], "logits are (1, 1), and must be one number a token"),
        ([], "logits are (0,), and must be one number a token"),
        (["a"], "logits are of <U1"),
    ],
)
def test_wrong_logits_are_told(logits, message):
    error = error_of(lambda: Sampler().pick(np.array(logits), []), ArgumentError)
    subject = "generate" if message.startswith("logit_bias") else "pick"
    assert error.message == f"{subject}: {message}"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ([2], {"presence_penalty": 1}, "text has the token 2, and there are 2"),
        ([-1], {"presence_penalty": 1}, "text has the token -1, and there are 2"),
        ([0.5], {"presence_penalty": 1}, "text is [0.5]"),
        ([], {"logit_bias": {7: 1}}, "logit_bias has the token 7, and the model knows 2"),
        ([], {"logit_bias": {0: -INF, 1: -INF}}, "no token is left: all logits are -inf"),
    ],
)
def test_tokens_that_are_not_there_are_told(text, options, message):
    error = error_of(lambda: Sampler(**options).pick(np.zeros(2), text), ArgumentError)
    subject = "generate" if message.startswith("logit_bias") else "pick"
    assert error.message == f"{subject}: {message}"


def test_a_list_is_no_array():
    error = error_of(lambda: Sampler().pick([0.0], []), ArgumentError)  # pyright: ignore[reportArgumentType]  # so it is told
    assert error.message == "pick: logits are [0.0]"
