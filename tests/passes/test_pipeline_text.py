"""Texts of pipelines that end too early, are nested too deep, or hold odd numbers."""

import warnings

import pytest

from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.errors import ParseError
from luminal_lab.passes.pipeline import DEEPEST, MOST_LETTERS, MOST_PASSES, parse_pipeline
from luminal_lab.passes.simplify import Simplify
from tests.counting import steps

KNOWN = CUDACompiler, Simplify


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cuda{arch =", "column 12: the value of arch is missing: there is the end"),
        ("cuda{arch = [", "column 14: the value of arch is missing: there is the end"),
        ("cuda{arch = }", "column 13: the value of arch is missing: there is '}'"),
        ("cuda{arch", "column 10: expected '=', but found the end"),
        ("cuda{", "column 6: cuda has no option ''"),
        ("inline{only = [", "column 16: the value of only is missing: there is the end"),
        ("inline{only = [a, ,]}", "column 19: the value of only is missing: there is ','"),
        ("(" * 5_000, f"column {DEEPEST + 2}: pipelines are nested more than {DEEPEST} deep"),
        ("simplify{limit = 1e400}", "column 18: limit is int, and not '1e400'"),
        ("simplify{limit = \u0661}", "column 18: limit is int, and not '\u0661'"),
        ("simplify{limit = 1_0}", "column 19: expected ',', but found '_'"),
        (f"simplify{{limit = {'9' * 5_000}}}", "column 18: limit is int, and not '99999"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, said: str):
    with warnings.catch_warnings(action="error"), pytest.raises(ParseError) as caught:
        parse_pipeline(text)
    assert caught.value.message.startswith(f"pipeline, {said}")
    assert len(str(caught.value)) < 6_000


def test_a_long_text_is_read_in_linear_time_or_not_at_all():
    small, large = (
        steps(lambda n=n: parse_pipeline(", ".join(["simplify{limit = 3}"] * n))) for n in (50, 100)
    )
    assert large < 2.2 * small
    with pytest.raises(ParseError, match="pipeline: it has 100,008 letters, and may have 100,000"):
        parse_pipeline("simplify" + " " * MOST_LETTERS)


@pytest.mark.parametrize("name", ["cuda", "cpu", "generic", "(cse)"])
def test_a_text_of_many_passes_takes_no_minutes(name: str):
    """Each device is a pipeline of thirty passes: 60 kB of them took 12 s and more."""
    with pytest.raises(ParseError, match=f"it has more than {MOST_PASSES:,} passes"):
        parse_pipeline(", ".join([name] * (MOST_LETTERS // (len(name) + 2))))
    parse_pipeline(name)
    assert steps(lambda: parse_pipeline(name)) < 5_000
