"""Pipelines as text: what is written parses back, and what does not parse is pointed at."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest
from hypothesis import given, strategies as st

from luminal_lab.errors import DefinitionError, ParseError, PassError
from luminal_lab.passes.base import Pass, graph_pass
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.pipeline import Pipeline, as_pass, parse_pipeline
from luminal_lab.passes.rule import FACTS
from luminal_lab.passes.simplify import Simplify
from tests.expect import error_of


@dataclass(frozen=True)
class Sample(Pass):
    """Has an option of every kind."""

    name: ClassVar[str] = "sample.pass-1"
    count: int = 3
    rate: float = 0.5
    flag: bool = False
    word: str = "some"
    words: tuple[str, ...] = ()
    most: int | None = None

    def run(self, ir, edit):
        """Do nothing."""


TEXTS = [
    "dce",
    "simplify{limit = 10}, dce",
    "(simplify, dce){rounds = 3}",
    "dce, (simplify, (dce, simplify){rounds = 2})",
    "(dce, dce){rounds = 2, licence = [no_inf, no_nan]}",
    "(dce){licence = []}",
    "simplify{without = [add-zero, mul-one], limit = 3}",
    "sample.pass-1{count = -2, rate = 1e-05, flag = true, word = other, words = [a, b], most = 7}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_pipeline_are_each_other(text):
    assert str(parse_pipeline(text)) == text
    assert parse_pipeline(str(parse_pipeline(text))) == parse_pipeline(text)


@given(
    st.recursive(
        st.sampled_from([DeadCode(), Simplify(), Simplify(limit=2), Sample(flag=True)]),
        lambda inner: st.builds(
            Pipeline,
            st.lists(inner, min_size=1, max_size=3),
            rounds=st.integers(1, 3),
            licence=st.none() | st.just(["no_nan"]),
        ),
    )
)
def test_every_pipeline_parses_back(one):
    pipeline = one if isinstance(one, Pipeline) else Pipeline([one])
    assert str(parse_pipeline(str(pipeline))) == str(pipeline)


def test_what_stands_for_a_pass():
    assert as_pass("dce") == DeadCode()
    assert as_pass(["dce", Simplify()]) == Pipeline([DeadCode(), Simplify()])
    assert parse_pipeline(" dce ,\n simplify , ") == Pipeline([DeadCode(), Simplify()])
    assert parse_pipeline("") == Pipeline([])
    assert [str(one) for one in parse_pipeline("dce, (simplify, (dce))").flat()] == [
        "dce",
        "simplify",
        "dce",
    ]


def test_a_pipeline_in_a_line():
    assert repr(Pipeline(["dce"], licence=["no_nan"])) == "<Pipeline (dce){licence = [no_nan]}>"


def test_a_licence_has_the_facts_that_there_are():
    assert Pipeline(["dce"], licence="no_nan").licence == ("no_nan",)
    told = str(error_of(lambda: Pipeline(["dce"], licence={"nonan"}), PassError))
    assert told == "licence: there is no fact 'nonan'\nhint: did you mean 'no_nan'?"
    told = str(error_of(lambda: Pipeline(["dce"], licence=["x"]), PassError))
    assert told == f"licence: there is no fact 'x'\nhint: the facts: {', '.join(FACTS)}"


FAULTS = {
    "smplify": (
        "column 1: there is no pass 'smplify'\n  smplify\n  ^\nhint: did you mean 'simplify'?"
    ),
    "dce, (qqqqqq)": (
        "column 7: there is no pass 'qqqqqq'\n  dce, (qqqqqq)\n        ^\n"
        "hint: import the module that defines it first"
    ),
    "dce, simplify{limt = 3}": (
        "column 15: simplify has no option 'limt'\n  dce, simplify{limt = 3}\n"
        "                ^\nhint: did you mean 'limit'?"
    ),
    "dce{a = 1}": (
        "column 5: dce has no option 'a'\n  dce{a = 1}\n      ^\nhint: it has no options"
    ),
    "simplify{limit = x}": (
        "column 18: limit is int, and not 'x'\n  simplify{limit = x}\n                   ^"
    ),
    "simplify{limit = [1]}": (
        "column 18: limit takes no list\n  simplify{limit = [1]}\n                   ^"
    ),
    "simplify{limit = 1, limit = 2}": (
        "column 21: limit is given twice\n  simplify{limit = 1, limit = 2}\n                      ^"
    ),
    "simplify{limit 3}": (
        "column 16: expected '=', but found '3'\n  simplify{limit 3}\n                 ^"
    ),
    "generic{rounds = 2}": (
        "column 9: generic has no option 'rounds'\n  generic{rounds = 2}\n          ^\n"
        "hint: its options: licence"
    ),
    "generic{licence = no_nan}": (
        "column 19: licence is a list, as in [a, b], and not 'no_nan'\n"
        "  generic{licence = no_nan}\n                    ^"
    ),
    "rewrite": "column 1: there is no pass 'rewrite'\n  rewrite\n  ^\nhint: ",
    "(dce, dce": "column 10: expected ',' or ')'\n  (dce, dce\n           ^",
    "dce dce": "column 5: expected ',' or the end\n  dce dce\n      ^",
    "dce,\ndce cse": "column 10: expected ',' or the end\n  dce cse\n      ^",
    "dce; dce": "column 4: expected ',' or the end\n  dce; dce\n     ^",
    "(dce){rounds = 0}": (
        "column 6: pipeline: it cannot have 0 rounds\n  (dce){rounds = 0}\n       ^\n"
        "hint: give 1 or more"
    ),
    ", dce": "column 1: there is no pass ','\n  , dce\n  ^",
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_does_not_parse_is_pointed_at(text):
    told = str(error_of(lambda: parse_pipeline(text), ParseError))
    assert told.startswith(f"pipeline, {FAULTS[text]}"), told


def test_classes_of_passes_are_checked():
    def no_docstring():
        class Silent(Pass):
            name: ClassVar[str] = "silent"

        return Silent

    def no_word():
        class Wrong(Pass):
            """Has a name of two words."""

            name: ClassVar[str] = "two words"

        return Wrong

    def not_frozen():
        @dataclass
        class Loose(Pass):
            """Is not frozen."""

            name: ClassVar[str] = "loose"

        return parse_pipeline("loose")

    assert str(error_of(no_docstring, DefinitionError)) == (
        "pass 'silent': it has no docstring\nhint: say in one sentence what it does"
    )
    assert str(error_of(no_word, DefinitionError)) == (
        "pass 'two words': it has an invalid name: 'two words'\nhint: as in 'no-sines'"
    )
    assert str(error_of(not_frozen, DefinitionError)) == (
        "pass 'loose': it is not a frozen dataclass\n"
        "hint: write @dataclass(frozen=True) above the class"
    )

    class Plain(Pass):
        """Is no dataclass, which each of us forgets once."""

        name: ClassVar[str] = "plain"

    @dataclass(frozen=True)
    class Nameless(Pass):
        """Has no name."""

    assert str(error_of(lambda: Pipeline([Plain()]), DefinitionError)) == (
        "pass 'plain': it is not a frozen dataclass\n"
        "hint: write @dataclass(frozen=True) above the class"
    )
    assert str(error_of(lambda: Pipeline([Nameless()]), DefinitionError)) == (
        "pass 'Nameless': it has no name\nhint: write name: ClassVar[str] = \"my-pass\" in it"
    )
    error = error_of(lambda: graph_pass(cast("Any", len)), DefinitionError)
    assert error.hint == "write @ll.graph_pass above def my_pass(ir, edit): ..."
    told = str(error_of(lambda: Pipeline(["dce"], rounds=0), PassError))
    assert told == "pipeline: it cannot have 0 rounds\nhint: give 1 or more"


def test_of_two_passes_with_one_name_the_later_is_meant():
    def cell():
        @graph_pass
        def twice(ir, edit):
            """Do nothing."""

        return twice

    first = cell()
    assert parse_pipeline("twice").passes[0] == first
    second = cell()
    assert parse_pipeline("twice").passes[0] == second
    assert first != second


def test_text_knows_what_comes_with_the_library_before_anybody_has_used_it():
    # In a process of its own: here others have used them.
    names = "generic, half, quantised, inline, to-twelve, from-twelve, fuse-rows, cpu, cuda, metal"
    code = f"from luminal_lab.passes.pipeline import parse_pipeline as p; print(p({names!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == names


def test_spaces_at_the_end_are_read_once() -> None:
    assert str(parse_pipeline("dce" + " " * 99_000)) == "dce"
