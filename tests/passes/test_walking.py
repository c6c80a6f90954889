"""Why a pass written as code found nothing: the step at which it stopped, the node, and why."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.core.parse import parse
from luminal_lab.errors import DefinitionError, GraphError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.constant_folding import ConstantFolding
from luminal_lab.passes.pattern import variables
from luminal_lab.passes.push_views import PushViews
from tests.expect import error_of

x = variables("x")


def graph(text: str) -> IR:
    """Return a graph given by its inputs, if it has some, and its lines."""
    inputs, _, lines = text.strip().partition("\n")
    if " = " in inputs:
        inputs, lines = "", text
    return parse(f"graph g[m: 0..8]({inputs}) -> (%y) {{\n{lines}\n}}")


def asked(text: str, passes: Any, name: str, node: str, **how: Any) -> str:
    """Return why a search found nothing at a node of a graph given by its lines."""
    ir = graph(text)
    compilation = compile_ir(ir, passes, **how)
    before = [str(shot.ir) for shot in compilation.snapshots]
    told = str(compilation.why_not(name, node))
    assert [str(shot.ir) for shot in compilation.snapshots] == before
    return told


SUM = """
%x: f32[4]
%c = constant{value = 2.0} : f32[4]
%d = constant{value = 3.0} : f32[4]
%p = mul %c, %d : f32[4]
%y = add %p, %x : f32[4]
"""


def test_fold_says_which_source_is_no_constant():
    assert asked(SUM, "fold", "fold", "%y") == (
        "fold gets through 1 step: %5 is the number 6.0.\n"
        "It stops there: %x is input, not a constant."
    )
    assert asked(SUM, "fold", "fold", "%p") == (
        "fold did fire: Pass 1, fold, firing 1: mul-of-constants."
    )
    assert asked(SUM, "fold", "fold", "%c") == "fold stops at once: %c is a constant already."
    assert asked(SUM, "fold", "fold", "%x") == (
        "fold stops at once: %x is input, and reads no constant."
    )


def test_the_name_of_a_step_that_has_fired_means_its_search():
    assert asked(SUM, "fold", "mul-of-constants", "%y") == asked(SUM, "fold", "fold", "%y")
    error = error_of(lambda: asked(SUM, "fold", "add-of-constants", "%y"))
    assert isinstance(error, DefinitionError)
    assert error.message.endswith(
        "no pass of this compile has a rule or a search 'add-of-constants'"
    )


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("%y = random{seed = 0, stream = 0} : f32[4]", "%y is random, and reads no constant"),
        ("%y = iota : i64[4]", "%y counts to 4, and only a count to 1 is a constant"),
        (
            "%c = constant{value = 0.1} : f32[5]\n%y = sum_reduce{axis = 0} %c : f32[1]",
            "the sum of 5 times 0.1 depends on the order of its roundings",
        ),
        (
            "%c = constant{value = 2.0} : f32[4]\n%y = pad{before = [1], after = [0]} %c : f32[5]",
            "zeros stand around 2.0",
        ),
        (
            "%c = constant{value = 1.0} : f32[n]\n"
            "%y = slice{start = [0], stop = [4], step = [1]} %c : f32[4]",
            "slice of f32[n] fails for some sizes",
        ),
        (
            "%c = constant{value = 0.5} : f32[n]\n%y = sum_reduce{axis = 0} %c : f32[1]",
            "not every sum of n times 0.5 is exact in float32",
        ),
        (
            "%c = constant{value = 1.0} : f32[m]\n%y = max_reduce{axis = 0} %c : f32[1]",
            "its axis of m may be empty",
        ),
    ],
)
def test_fold_says_what_is_not_sure(lines: str, why: str):
    assert asked(lines, "fold", "fold", "%y").endswith(f"{why}.")


def test_what_the_licence_would_bring_is_said():
    text = "\n%c = constant{value = -0.0} : f32[4]\n%y = sum_reduce{axis = 0} %c : f32[1]"
    assert asked(text, "fold", "fold", "%y", licence=[]) == (
        "fold assumes no_signed_zero (the sign of a zero does not matter) at %y, which the licence "
        "does not grant."
    )
    assert asked(text, "fold", "fold", "%y").startswith("fold did fire: ")


VIEWED = """
%x: f32[4, 8]
%p = permute{axes = [1, 0]} %x : f32[8, 4]
%s = sin %p : f32[8, 4]
%y = reshape{shape = [32]} %s : f32[32]
"""


def test_the_rules_of_a_pass_that_come_nearest_are_told():
    assert asked(VIEWED, "views", "views", "%p") == (
        "views gets through 1 step: %p is permute.\n"
        "It stops there: permute-in-order, as its condition does not hold for a = (1, 0), "
        "x = f32[4, 8]; permute-ones, as it has nothing to put there for a = (1, 0), x = f32[4, 8];"
        " permute-permute, as %x is input, where the pattern has permute: permute(x, axes=a)."
    )
    assert asked(VIEWED, "views", "views", "%s").startswith(
        "views stops at once: %s is sin, and its rules are about contiguous, expand, "
    )
    told = asked(SUM.replace("%p, %x", "%x, %c"), "simplify", "simplify", "%y")
    assert told.startswith(
        "simplify gets through 1 step: %y is add.\nIt stops there: add-zero, as "
    )
    assert told.endswith("; 1 more rule likewise.")


def test_rules_of_ones_own_are_asked_by_the_name_of_their_set():
    mine = ll.RuleSet("mine", ll.Rule("twice", x + x, x * 2))
    assert asked(SUM, mine, "mine", "%y").startswith("mine gets through 1 step: %y is add.\n")
    zero = ll.RuleSet("zero", ll.Rule("mul-self", x * (x * 0), x * 0, assumes={"no_nan"}))
    text = """%x: f32[4]
%c = constant{value = 0.0} : f32[4]
%p = mul %x, %c : f32[4]
%y = mul %x, %p : f32[4]"""
    assert asked(text, zero, "zero", "%y") == (
        "zero gets through 2 steps: %y is mul; %p is mul.\nIt stops there: mul-self, as it assumes "
        "no_nan (no value is NaN), which the licence does not grant."
    )


def test_a_pass_that_ended_before_says_so():
    text = """%x: f32[4]
%c = constant{value = 0.0} : f32[4]
%p = add %x, %c : f32[4]
%q = sin %p : f32[4]
%y = add %q, %c : f32[4]"""
    for name, why in (
        ("simplify", "it assumes no_signed_zero (the sign of a zero does not matter), which the "),
        ("simplify", "licence does not grant, if the limit of 1 has not ended the pass"),
    ):
        assert why in asked(text, "simplify{limit = 1}", name, "%y")


PRODUCT = """
%a: f32[4, 1, 8], %b: f32[1, 4, 8]
%e = expand{shape = [4, 4, 8]} %a : f32[4, 4, 8]
%f = expand{shape = [4, 4, 8]} %b : f32[4, 4, 8]
%y = mul %e, %f : f32[4, 4, 8]
"""


def test_push_views_tells_the_step_that_gets_furthest():
    assert asked(PRODUCT, "push-views", "push-views", "%y") == (
        "expand-later gets through 2 steps: %e is expand; %f is expand.\n"
        "It stops there: its sources are repeated along no axis that they have in common."
    )
    assert asked(PRODUCT, "push-views", "view-later", "%y") == (
        "view-later stops at once: %e is expand, not permute, reshape or flip."
    )
    assert asked(VIEWED, "push-views", "push-views", "%y") == (
        "view-earlier gets through 1 step: it may pass %s.\n"
        "It stops there: %p is permute, not elementwise."
    )
    assert asked(PRODUCT, "push-views", "push-views", "%a") == (
        "push-views stops at once: %a is input, not elementwise; %a is input, and no view."
    )


@pytest.mark.parametrize(
    ("lines", "search", "node", "why"),
    [
        (
            "%s = sin %x : f32[4, 8]\n"
            "%v = slice{start = [0, 0], stop = [2, 8], step = [1, 1]} %s : f32[2, 8]\n"
            "%u = slice{start = [2, 0], stop = [4, 8], step = [1, 1]} %s : f32[2, 8]\n"
            "%y = add %u, %v : f32[2, 8]",
            "slice-earlier",
            "%v",
            "%s has more than one reader",
        ),
        (
            "%p = permute{axes = [1, 0]} %x : f32[8, 4]\n"
            "%f = flip{axes = [0]} %z : f32[8, 4]\n"
            "%y = mul %p, %f : f32[8, 4]",
            "view-later",
            "%y",
            "%f is another view than %p",
        ),
        (
            "%e = expand{shape = [4, 2, 8]} %a : f32[4, 2, 8]\n"
            "%y = reshape{shape = [64]} %e : f32[64]",
            "expand-last",
            "%y",
            "%y does to axes that %e repeats what it cannot do before",
        ),
        (
            "%p = permute{axes = [1, 0]} %x : f32[8, 4]\n"
            "%s = add %p, %z : f32[8, 4]\n"
            "%t = mul %s, %o : f32[8, 4]\n"
            "%y = permute{axes = [1, 0]} %t : f32[4, 8]",
            "view-earlier",
            "%y",
            "%s reads 2 values on the way to another permute",
        ),
        ("%y = sin %x : f32[4, 8]", "view-later", "%y", "%y reads one value, and no two views"),
        ("%y = sin %x : f32[4, 8]", "expand-last", "%y", "%y is sin, and no view"),
    ],
)
def test_push_views_says_what_stands_in_the_way(lines: str, search: str, node: str, why: str):
    inputs = "%x: f32[4, 8], %z: f32[8, 4], %o: f32[8, 4], %a: f32[4, 1, 8]"
    assert asked(f"{inputs}\n{lines}", "push-views", search, node).endswith(f"{why}.")


def test_what_another_step_took_is_gone():
    text = """%a: f32[4, 1]
%e = expand{shape = [4, 8]} %a : f32[4, 8]
%s = sin %e : f32[4, 8]
%y = sqrt %s : f32[4, 8]"""
    assert asked(text, "push-views", "push-views", "%s").startswith(
        "push-views did fire: Pass 1, push-views, firing 1: expand-later, because sin works on "
    )
    assert " is gone by then: expand-later: " in asked(text, "push-views", "expand-last", "%e")


def attention(read: bool) -> ll.Graph:
    cx = ll.Graph()
    q, k, v = (cx.tensor((9, 8), name=name) for name in "qkv")
    scores = (q @ k.transpose(0, 1)).named("scores")
    weights = scores.softmax(-1).named("weights")
    (weights @ v).named("y").retrieve()
    if read:
        scores.sum().named("z").retrieve()
    return cx


def test_chains_say_who_reads_what_is_inside():
    compilation = attention(read=True).compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    assert str(compilation.why_not("fuse-chains", "%y")) == (
        "one-pass gets through 1 step: %weights → %y would be a chain.\n"
        "It stops there: %z reads %scores, too."
    )
    assert str(compilation.why_not("one-pass", "%q")) == (
        "one-pass stops at once: %q is input, and no kernel."
    )
    made = attention(read=False).compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    assert str(made.why_not("fuse-chains", "%scores")).startswith("one-pass did fire: Pass ")


def test_chains_say_that_they_are_no_pass():
    cx = ll.Graph()
    x, up, down = (cx.tensor((8, 8), name=name) for name in ("x", "up", "down"))
    ((x @ up).relu() @ down).named("y").retrieve()
    compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    assert str(compilation.why_not("one-pass", "%y")).endswith(
        "It stops there: %y ends no sum of products that follows a maximum of such sums."
    )


def test_a_recording_answers_as_the_compile_did(tmp_path: Path):
    cx = ll.Graph()
    a = cx.tensor((4, 8), name="a")
    ((a.permute(1, 0) + 1) * (cx.full((8, 4), 2.0) * 3)).named("y").retrieve()
    compilation = cx.compile()
    cx.save(tmp_path / "run.lab")
    opened = ll.open(tmp_path / "run.lab").compilation
    for name in ("fold", "views", "push-views", "simplify"):
        assert opened.why_not(name, "%y") == compilation.why_not(name, "%y")
    facts = ll.open(tmp_path / "run.lab").facts
    assert {"fold", "views", "push-views", "simplify", "recognise"} <= {*facts.askable}
    assert "expand-later" in facts.rules
    assert not {"fold", "views", "simplify"} & {*facts.rules}


def test_a_pass_is_asked_directly_about_a_graph_that_it_has_not_changed():
    ir = graph(SUM)
    assert ConstantFolding().why_not(ir, "fold", ir["%y"]).endswith("%x is input, not a constant.")
    assert ConstantFolding().why_not(ir, "fold", ir["%p"]).startswith("fold leaves %p to dce")
    assert PushViews().searches()[0] == "expand-later"


def test_hostile_questions():
    error_of(lambda: asked(SUM, "fold", "fold", "%nothing"), GraphError)
    error_of(lambda: asked(SUM, "fold", "", "%y"), DefinitionError)
