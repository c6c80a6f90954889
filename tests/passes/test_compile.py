"""The pass manager: what it hands on, what it refuses, and that a failure changes nothing."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from luminal_lab.cli.passes import described
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Add, Cast, Constant, Exp2, Input, Mul, Permute, Sin
from luminal_lab.core.parse import parse
from luminal_lab.core.verify import verify
from luminal_lab.errors import ArgumentError, DefinitionError, GraphError, PassError, VerifyError
from luminal_lab.passes import compile as manager
from luminal_lab.passes.base import Pass, graph_pass
from luminal_lab.passes.pattern import fields, op, sum_reduce, variables
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.rule import Rule, RuleSet, rule
from tests.expect import error_of
from tests.passes import running

x, y = variables("x y")
TEXT = """graph g(%x: f32[2, 3]) -> (%r) {
  %one = constant{value = 1.0} : f32[2, 3]
  %p = mul %x, %one : f32[2, 3]
  %q = sin %p : f32[2, 3]
  %r = mul %q, %one : f32[2, 3]
}"""

assert running  # imports all passes
compile_ir: Any = manager.compile_ir  # which is also given what it does not take


def graph() -> IR:
    return parse(TEXT)


MUL_ONE = Rule("mul-one", x * 1, x)


# -- what it leaves --------------------------------------------------------------------------------


def test_one_snapshot_a_pass_and_the_graph_as_written_before_them():
    ir = graph()
    compiled = compile_ir(ir, MUL_ONE, "dce")
    assert [s.title for s in compiled.snapshots] == ["written", "mul-one", "dce"]
    assert [s.index for s in compiled.snapshots] == [0, 1, 2]
    assert compiled.written is ir
    assert [s.before for s in compiled.snapshots[1:]] == [s.ir for s in compiled.snapshots[:-1]]
    assert all(s.verified for s in compiled.snapshots)
    assert all(s.seconds >= 0 for s in compiled.snapshots)
    assert [str(f) for s in compiled.snapshots for f in s.firings] == [
        "mul-one: %p → %x",
        "mul-one: %r → %q",
        "unused: erased %r",
        "unused: erased %p",
        "unused: erased %one",
    ]
    assert str(compiled.ir) == ("graph g(%x: f32[2, 3]) -> (%q) {\n  %q = sin %x : f32[2, 3]\n}")


def test_untouched_records_are_the_same_objects():
    ir = graph()
    compiled = compile_ir(ir, Rule("sin-is-odd", op(Sin, x * -1), op(Sin, x) * -1))
    assert compiled.ir is ir
    compiled = compile_ir(ir, MUL_ONE)
    assert compiled.ir["one"] is ir["one"]
    assert compiled.ir["q"] is not ir["q"]


def test_pipelines_nest_and_loop_to_a_fixpoint():
    calls = []

    @graph_pass
    def count_down(ir: IR, edit: Edit) -> None:
        """Replace the first product by its first factor, one product a run."""
        calls.append(len(ir))
        for node in ir:
            if node.op.name == "mul" and edit.users(node):
                edit.replace(node, node.sources[0], rule="first")
                return

    text = TEXT.replace("(%r)", "(%s)").replace("\n}", "\n  %s = sin %r : f32[2, 3]\n}")
    compiled = compile_ir(parse(text), Pipeline([count_down, ["dce"]], rounds=10))
    assert [(s.name, s.round) for s in compiled.snapshots[1:]] == [
        ("count-down", 1),
        ("dce", 1),
        ("count-down", 2),
        ("dce", 2),
        ("count-down", 3),
        ("dce", 3),
    ]
    assert [len(s.firings) for s in compiled.snapshots[1:]] == [1, 1, 1, 2, 0, 0]
    assert len(calls) == 3
    assert len(compile_ir(parse(text), Pipeline([count_down], rounds=1)).snapshots) == 2


def test_a_licence_is_the_inmost_that_is_given():
    zero = Rule("mul-zero", x * 0, 0, assumes={"no_nan"})
    ir = parse(TEXT.replace("1.0", "0.0"))

    def fired(*passes, **options):
        compiled = compile_ir(ir, *passes, **options)
        return [len(s.firings) for s in compiled.snapshots[1:]]

    assert fired(zero) == [0]
    assert fired(zero, licence={"no_nan"}) == [2]
    assert fired(zero, [zero], Pipeline([zero], licence=())) == [0, 0, 0]
    assert fired(Pipeline([zero], licence=()), zero, licence={"no_nan"}) == [0, 2]
    assert fired(Pipeline([[zero]], licence=["no_nan"]), zero) == [2, 0]
    snapshot = compile_ir(ir, zero).snapshots[1]
    assert snapshot.refused == {"mul-zero": 2}
    assert str(snapshot).endswith("no change; refused: mul-zero ×2; well-formed")


def test_a_pass_in_one_cell_is_one_among_the_others():
    @dataclass(frozen=True)
    class SinToExp(Pass):
        """Replace sines by powers of two."""

        name: ClassVar[str] = "sin-to-exp"
        most: int = 1

        def run(self, ir, edit):
            for node in ir:
                if isinstance(node.op, Sin):
                    with edit.firing("sin-to-exp", "it looks nicer"):
                        new = edit.insert(Exp2(), node.sources[0], like=node)
                        edit.replace(node, new)

    compiled = compile_ir(graph(), SinToExp(most=2), "sin-to-exp{most = 3}")
    snapshot = compiled.snapshots[1]
    assert snapshot.title == "sin-to-exp{most = 2}"
    assert str(snapshot.firings[0]) == "sin-to-exp: %q → %5, because it looks nicer"
    assert snapshot.counts == {"sin-to-exp": 1}
    assert [len(step) for step in snapshot.steps()] == [5, 6]
    assert compiled.ir["5"].meta.derivation.rule == "sin-to-exp"
    assert compiled["sin-to-exp"] is compiled.snapshots[2]


def test_each_pass_leaves_a_record_in_the_log(caplog):
    with caplog.at_level("DEBUG", "luminal_lab"):
        compiled = compile_ir(graph(), MUL_ONE, "dce")
    assert [record.snapshot for record in caplog.records] == list(compiled.snapshots[1:])
    assert caplog.messages[0] == "mul-one: 5 → 5 nodes; mul-one ×2; well-formed"


def test_a_step_without_a_rule_has_the_name_of_the_pass():
    @graph_pass
    def quiet(ir: IR, edit: Edit) -> None:
        """Change something, and do not say by which rule."""
        if edit.users("p"):
            edit.replace("p", "x")

    assert str(compile_ir(graph(), quiet).snapshots[1]) == (
        "quiet: 5 → 5 nodes; quiet ×1; well-formed"
    )


def test_a_snapshot_says_whether_values_were_compared():
    assert str(compile_ir(graph(), "dce", check="values").snapshots[1]) == (
        "dce: 5 → 5 nodes; no change; well-formed; values equal"
    )


def test_what_is_shown_as_the_last_line_of_a_cell_is_its_text():
    compiled = compile_ir(graph(), MUL_ONE)
    for shown in (compiled, compiled.ir):
        assert shown._repr_mimebundle_(include=None, exclude=None) == {"text/plain": str(shown)}


def test_a_snapshot_and_a_diff_have_a_picture_beside_their_text():
    snapshot = compile_ir(graph(), MUL_ONE).snapshots[1]
    for shown in (snapshot, snapshot.diff()):
        bundle = shown._repr_mimebundle_(include=None, exclude=None)
        assert list(bundle) == ["text/html", "image/svg+xml", "text/plain"]
        assert bundle["text/plain"] == str(shown)
        assert bundle["image/svg+xml"] == shown.display().svg


# -- what it refuses -------------------------------------------------------------------------------


def wrong_pass(change):
    """Return a pass that fires a good rule, and then does what is asked."""

    @graph_pass
    def wrong(ir: IR, edit: Edit) -> None:
        """Do something wrong."""
        edit.replace("p", "x", rule="mul-one")
        return change(ir, edit)

    return wrong


def retyped(edit):
    node = edit["r"]
    edit.table.set(node.id, node._replace(type=TensorType(node.dtype, (3, 2))))


def new_output(edit):
    cast = edit.insert(Cast(DType.float64), edit["q"])
    edit.signature = edit.signature._replace(outputs=(cast.id,))


def other_input(edit):
    node = edit["x"]
    new = edit.insert(Input(node.dtype, node.shape), name="z")
    edit.replace("x", new)


def fails(edit):
    raise KeyError("lost")


BROKEN = {
    "a record that is not there": (
        lambda ir, edit: edit.table.set(edit["q"].id, None),
        "pass wrong after the rule 'mul-one': verify: g, %r: its source 3 is not in the graph\n"
        "  %r = mul %3?, %one : f32[2, 3]",
    ),
    "a type that is not so": (
        lambda ir, edit: retyped(edit),
        "pass wrong after the rule 'mul-one': verify: g, %r: its type is f32[3, 2], but its op "
        "makes f32[2, 3]\n  %r = mul %q, %one : f32[3, 2]",
    ),
    "an output dropped": (
        lambda ir, edit: setattr(edit, "signature", edit.signature._replace(outputs=())),
        "pass wrong after the rule 'mul-one': it has changed the number of outputs from 1 to 0\n"
        "hint: replace an output by another node; never drop one",
    ),
    "an output erased": (
        lambda ir, edit: edit.erase("r"),
        "pass wrong after the rule 'mul-one': erase: %r is still needed: it is an output",
    ),
    "an output of another dtype": (
        lambda ir, edit: new_output(edit),
        "pass wrong: it has changed output 0, %r, from f32[2, 3] to f64[2, 3]\n"
        "  %5 = cast{dtype = f64} %q : f64[2, 3]\n"
        "hint: an output keeps its shape and dtype",
    ),
    "a replacement of another shape": (
        lambda ir, edit: edit.replace("q", edit.insert(Permute((1, 0)), "q", rule="turn")),
        "pass wrong after the rule 'turn': replace: %q is f32[2, 3], but %5 is f32[3, 2]\n"
        "  %5 = permute{axes = [1, 0]} %q : f32[3, 2]\n"
        "hint: insert a cast or a view first, so that the types are equal",
    ),
    "an input added": (
        lambda ir, edit: other_input(edit),
        "pass wrong: it has added or changed the input %z: f32[2, 3]\n"
        "hint: the inputs are the user's; a pass may only read them",
    ),
    "a result": (
        lambda ir, edit: ir,
        "pass wrong after the rule 'mul-one': its run returned <IR g: 5 nodes> instead of None\n"
        "hint: change the graph with edit.insert, replace and erase",
    ),
    "an exception": (
        lambda ir, edit: fails(edit),
        "pass wrong after the rule 'mul-one': it failed with KeyError: 'lost'\n"
        "  %p = mul %x, %one : f32[2, 3]",
    ),
    "a cycle": (
        lambda ir, edit: edit.replace("x", "r", rule="loop"),
        "pass wrong after the rule 'mul-one': replace: %r cannot take the place of %x: it is "
        "computed from %q",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_pass_that_breaks_the_graph_is_named_with_rule_and_node(name):
    change, message = BROKEN[name]
    ir = graph()
    text = str(ir)
    error: Any = error_of(
        lambda: compile_ir(ir, MUL_ONE.__class__("r", x + 0, x), wrong_pass(change))
    )
    assert isinstance(error, PassError)
    # The line of the pass stands above the node's, if an error was raised there.
    found = [line for line in str(error).split("\n") if "test_compile.py" not in line]
    assert "\n".join(found).startswith(message), str(error)
    assert [s.title for s in error.snapshots] == ["written", "r"]
    assert error.__cause__ is not None
    assert str(ir) == text
    verify(ir)


def test_an_error_in_a_pass_shows_the_line_of_the_pass():
    def one_lost(ir, edit):
        edit.replace("q", edit.insert(Mul(), "x"))

    error = error_of(lambda: compile_ir(graph(), wrong_pass(one_lost)), PassError)
    place = error.where.split("\n")[0]
    assert place.endswith('edit.replace("q", edit.insert(Mul(), "x"))')
    assert 'test_compile.py", line ' in place


SLIPS: dict[str, Any] = {
    "a node's sources are ids: ir[id].op is that of the node": (
        lambda ir, edit: ir["q"].sources[0].op
    ),
    "ir is the graph as it was; edit.replace(…) changes it": lambda ir, edit: ir.replace("q", "x"),
    "did you mean 'replace'?": lambda ir, edit: edit.replcae("q", "x"),
    "an editor has insert, replace, erase, reorder, firing": lambda ir, edit: edit.delete("q"),
    "nodes never change: edit.replace(node, edit.insert(…)) puts another one there": (
        lambda ir, edit: setattr(ir["q"], "op", Mul())
    ),
    "give nodes one by one, and not in a list": lambda ir, edit: edit.insert(Mul(), ["x", "x"]),
    "a node that was inserted is in edit, and not in ir": (
        lambda ir, edit: ir[edit.insert(Mul(), "x", "x").id]
    ),
    "a number has a node of its own: insert(Constant(0.0, node.dtype, node.shape))": (
        lambda ir, edit: edit.replace("q", 0.0)
    ),
    "write Mul(…)": lambda ir, edit: edit.insert(Mul, "x", "x"),
}


@pytest.mark.parametrize("hint", SLIPS)
def test_a_slip_that_many_make_is_told_what_is_meant(hint):
    error = error_of(lambda: compile_ir(graph(), wrong_pass(SLIPS[hint])), PassError)
    assert error.hint == hint


def test_a_notebook_shows_the_traceback_of_a_pass_without_our_frames():
    error = error_of(lambda: compile_ir(graph(), wrong_pass(lambda ir, edit: 1 / 0)), PassError)
    [shown] = error._render_traceback_()
    assert "ZeroDivisionError: division by zero" in shown
    assert "luminal_lab/passes/compile.py" not in shown


def test_rules_that_chase_each_other_are_named():
    there = Rule("there", x * y, x + y)
    back = Rule("back", x + y, x * y)
    error = error_of(lambda: compile_ir(graph(), RuleSet("chase", there, back)), PassError)
    assert str(error) == (
        "pass chase after the rule 'there': it has fired 1,001 times on a graph of 5 nodes, and "
        "does not end; its last changes were by back, there\n"
        "hint: one of them makes what they match again"
    )


def test_what_is_no_pass():
    ir = graph()
    assert str(error_of(lambda: compile_ir(ir, 3), PassError)) == (
        "pipeline: 3 is not a pass\n"
        "hint: give passes, rules, lists of them, or text such as 'simplify, cse, dce'"
    )

    def my_pass(ir, edit): ...

    assert str(error_of(lambda: compile_ir(ir, my_pass), PassError)) == (
        "pipeline: my_pass is a function, and no pass yet\n"
        "hint: write @ll.graph_pass above def my_pass(ir, edit)"
    )
    made: Any = graph_pass
    assert error_of(lambda: made(lambda ir: None), DefinitionError).message == (
        "graph_pass: <lambda>(ir) is not a function of a graph and an editor"
    )

    @dataclass(frozen=True)
    class Nothing(Pass):
        """Do nothing."""

        name: ClassVar[str] = "nothing"

    told = str(error_of(lambda: compile_ir(ir, Nothing), PassError))
    assert told == "pipeline: Nothing is the class of a pass\nhint: write Nothing()"
    told = str(error_of(lambda: compile_ir(ir, Nothing()), PassError))
    assert told == "pass nothing: pass 'nothing': it has no run\nhint: define run(self, ir, edit)"
    told = str(error_of(lambda: compile_ir(ir, check="value"), ArgumentError))
    assert told == ("compile: check is 'value'\nhint: use check=\"values\", or leave it out")
    told = str(error_of(lambda: compile_ir(ir, MUL_ONE, licence={"no_nans"}), PassError))
    assert told.startswith("licence: there is no fact 'no_nans'")
    told = str(error_of(lambda: compile_ir("graph", MUL_ONE), GraphError))
    assert told.startswith("compile: needs an IR, not a str")


def test_a_graph_that_is_broken_already_is_not_compiled():
    ir = graph()
    ir.table.set(ir["q"].id, None)
    error_of(lambda: compile_ir(ir, MUL_ONE), VerifyError)


# -- values ----------------------------------------------------------------------------------------

a, b = fields("a b")


@rule("permute-permute", op(Permute, op(Permute, x, axes=a), axes=b))
def permute_permute(x, a, b):
    """Compose two permutations in the wrong order."""
    return op(Permute, x, axes=tuple(b[k] for k in a))


WRONG = {
    "scalar algebra": (
        Rule("add-one", x + 1, x),
        """graph g(%x: f32[2]) -> (%r, %s) {
          %one = constant{value = 1.0} : f32[2]
          %p = add %x, %one : f32[2]
          %r = sin %p : f32[2]
          %s = mul %x, %one : f32[2]
        }""",
        "pass many: the rule 'add-one' changes what the graph computes (firing 1 of 2): %p is "
        "1.3455842 at (0,), but %x, which takes its place, is 0.34558418; the inputs were %x = "
        "[0.34558418, 0.82161814]\n"
        "  %p = add %x, %one : f32[2]\n"
        "hint: the rule is add-one: x + 1 → x",
    ),
    "views": (
        permute_permute,
        """graph g(%x: f32[2, 2, 2]) -> (%r) {
          %p = permute{axes = [1, 2, 0]} %x : f32[2, 2, 2]
          %q = permute{axes = [1, 0, 2]} %p : f32[2, 2, 2]
          %one = constant{value = 1.0} : f32[2, 2, 2]
          %r = mul %q, %one : f32[2, 2, 2]
        }""",
        "pass many: the rule 'permute-permute' changes what the graph computes (firing 1 of 2): "
        "%q is",
    ),
    "reductions": (
        Rule("sum-twice", sum_reduce(sum_reduce(x, axis=a), axis=a), sum_reduce(x, axis=a) * 2),
        """graph g(%x: f32[2, 2]) -> (%r) {
          %p = sum_reduce{axis = 1} %x : f32[2, 1]
          %q = sum_reduce{axis = 1} %p : f32[2, 1]
          %one = constant{value = 1.0} : f32[2, 1]
          %r = mul %q, %one : f32[2, 1]
        }""",
        "pass many: the rule 'sum-twice' changes what the graph computes (firing 1 of 2): %q is",
    ),
    "special values": (
        Rule("sub-self", x - x, 0),
        """graph g(%x: f32[4]) -> (%r) {
          %minus = constant{value = -1.0} : f32[4]
          %p = mul %x, %minus : f32[4]
          %r = add %x, %p : f32[4]
        }""",
        "pass many: the rule 'sub-self' changes what the graph computes (firing 1 of 1): %r is nan",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_of_each_stratum_is_named(name):
    wrong, text, message = WRONG[name]
    ir = parse(text)
    many = RuleSet("many", MUL_ONE, wrong)
    assert len(compile_ir(ir, many, "dce").snapshots) == 3  # nobody sees it without the check
    error = error_of(lambda: compile_ir(ir, "dce", many, check="values"), PassError)
    assert str(error).startswith(message), str(error)
    assert list(error.inputs) == ["x"]
    assert [s.name for s in error.snapshots] == ["written", "dce"]


def test_a_wrong_body_of_a_call_is_found():
    inner = parse("graph double(%x: f32[2]) -> (%r) { %r = add %x, %x : f32[2] }")

    @graph_pass
    def recognise_double(ir: IR, edit: Edit) -> None:
        """Call what triples a double."""
        from luminal_lab.core.ops import Call  # noqa: PLC0415

        for node in ir:
            if isinstance(node.op, Add):
                new = edit.insert(Call(inner), node.sources[0], like=node, rule="double")
                edit.replace(node, new, rule="double")

    ir = parse("graph g(%x: f32[2]) -> (%r) { %s = sin %x : f32[2] %r = add %x, %s : f32[2] }")
    error = error_of(lambda: compile_ir(ir, recognise_double, check="values"), PassError)
    assert "the rule 'double' changes what the graph computes (firing 1 of 1): %r is" in str(error)


def test_what_rounds_otherwise_is_let_through_and_what_is_given_is_used():
    text = """graph g(%x: f32[64]) -> (%r) {
      %c = constant{value = 0.1} : f32[64]
      %d = constant{value = 0.7} : f32[64]
      %p = mul %x, %c : f32[64]
      %r = mul %p, %d : f32[64]
    }"""
    licence = {"reassociate", "no_inf", "no_nan"}
    compiled = compile_ir(parse(text), "reassociate", check="values", licence=licence)
    assert len(compiled.snapshots[1].firings) == 1


def test_a_graph_with_indices_and_dims_can_be_drawn_for():
    text = """graph g[n: 2..8 by 2](%x: f32[3, 4], %i: i64[n, 4]) -> (%r) {
      %r = gather{axis = 0} %x, %i : f32[n, 4]
    }"""
    assert len(compile_ir(parse(text), "dce", check="values").snapshots) == 2


def test_what_cannot_be_drawn_for_says_what_to_do():
    text = """graph g(%x: f32[3]) -> (%r) {
      %r = host_call{function = "f"} %x : f32[3]
    }"""
    error = error_of(lambda: compile_ir(parse(text), MUL_ONE, check="values"), PassError)
    assert str(error).startswith("check: no inputs could be drawn for g: ")
    assert error.hint == "give the inputs data with set(...): the check uses it"


def test_constants_are_compared_too():
    @graph_pass
    def forget(ir: IR, edit: Edit) -> None:
        """Replace what is computed by zeros."""
        node = ir.outputs[0]
        zero = edit.insert(Constant(0.0, node.dtype, node.shape), like=node, rule="zero")
        edit.replace(node, zero, rule="zero")

    error = error_of(lambda: compile_ir(graph(), forget, check="values"), PassError)
    assert "the rule 'zero' changes" in str(error)
    assert np.shape(error.inputs["x"]) == (2, 3)


def test_a_function_that_exec_has_made_is_a_pass_like_any_other():
    namespace: dict[str, Any] = {"graph_pass": graph_pass}
    exec("@graph_pass\ndef of_no_module(ir, edit):\n    'Do nothing.'", namespace)
    made = namespace["of_no_module"]
    assert type(made).__module__ == "__main__"
    assert described("of-no-module", type(made)).startswith("of-no-module: Do nothing.")
