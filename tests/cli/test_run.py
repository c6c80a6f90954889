"""`luminal-lab run` and `passes`: graphs as text, and what there is to run on them."""

import json
import re

import pytest

import luminal_lab as ll
from luminal_lab.cli.passes import load_all
from luminal_lab.core.parse import parse
from luminal_lab.passes.pipeline import parse_pipeline
from tests.cli.asking import GRAPH, ask

OWN = """\
from dataclasses import dataclass
from typing import ClassVar
import luminal_lab as ll


@dataclass(frozen=True)
class CliNegated(ll.Pass):
    "Take the sine twice, which is wrong."

    name: ClassVar[str] = "cli-twice"

    def run(self, ir, edit):
        node = ir.outputs[0]
        new = edit.insert(node.op, [node], rule="twice")
        edit.replace(node, new, rule="twice")
"""


@pytest.fixture
def graph(tmp_path):
    """A file with a graph."""
    path = tmp_path / "g.ir"
    path.write_text(GRAPH)
    return path


def test_text_goes_in_and_comes_out(capsys, graph):
    status, out, err = ask(capsys, "run", graph, "--passes", "simplify")
    assert (status, err) == (0, "")
    assert out == GRAPH.replace("sin %z", "sin %x")
    assert (
        ask(capsys, "run", graph)[1] == "graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}\n"
    )


def test_each_graph_between_is_shown_and_reads_back(capsys, graph):
    asked = "run", graph, "--passes", "simplify, cse, dce", "--each", "--summary", "--check"
    status, out, err = ask(capsys, *asked)
    parts = out.split("\n\n")
    assert status == 0
    assert [part.partition("\n")[0] for part in parts] == [
        "# as written",
        "# 1 simplify",
        "# 3 dce",
    ]
    assert [len(parse(part)) for part in parts] == [4, 4, 2]
    assert "cse" not in out
    assert "3  dce" in err


@pytest.mark.parametrize(
    ("text", "passes", "said"),
    [
        (
            GRAPH.replace("sin", "sni"),
            "dce",
            "{}, line 4, column 8: there is no op 'sni'\n    %y = sni %z : f32[2]\n         ^^^\n"
            "hint: did you mean 'sin'?\n",
        ),
        (
            GRAPH,
            "dec",
            "pipeline, column 1: there is no pass 'dec'\n  dec\n  ^\nhint: did you mean 'dce'?\n",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(capsys, graph, text, passes, said):
    graph.write_text(text)
    assert ask(capsys, "run", graph, "--passes", passes) == (2, "", said.format(graph))


def test_files_that_are_none(capsys, graph):
    missing, folder, binary = graph.with_name("h.ir"), graph.parent, graph.with_name("b.ir")
    binary.write_bytes(b"graph\n\xff")
    assert ask(capsys, "run", missing)[2] == (
        f"run: {missing} cannot be read: there is no such file\nhint: did you mean 'g.ir'?\n"
    )
    assert ask(capsys, "run", folder)[2] == (
        f"run: {folder} cannot be read: it is a folder\nhint: give a file in it\n"
    )
    assert ask(capsys, "run", folder / "quite-another.txt")[2].endswith(
        "there is no such file\nhint: give one that is there\n"
    )
    assert ask(capsys, "run", binary)[2] == (
        f"run: {binary} is not text: byte 6, in line 2, is not UTF-8\n"
    )


def test_a_pass_that_changes_values_fails(capsys, graph, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(OWN)
    asked = "run", graph, "--load", own, "--passes", "cli-twice"
    status, out, err = ask(capsys, *asked, "--check")
    assert (status, out) == (1, "")
    assert "cli-twice" in err


def test_a_wrong_kernel_is_told_without_all_of_its_source(capsys, tmp_path):
    halves = ll.kernel(
        """// kernel halves(x: f32[n]) -> (y: f32[n])
        void halves(const float *x, float *y, long n) {
            for (long i = 0; i < n; i++) y[i] = x[i] / 3;
        }""",
        meaning=lambda x: x / 2,
    )
    cx = ll.Graph()
    halves(cx.tensor((3,), name="x")).retrieve()
    path = tmp_path / "graph.ir"
    path.write_text(str(cx))
    status, _, err = ask(capsys, "run", path, "--trust", "--passes", "cpu", "--check")
    assert (status, "void" in err, "cx.kernels" in err) == (1, False, False)
    assert 'source = "// kernel halves(x: f32[n]) -> (y: f32[n]) […]", dialect = c' in err
    assert err.endswith(
        "hint: in Python, ll.compile_ir(ll.parse(text, trust=True), 'cpu', check=\"values\") "
        "raises it with the inputs that show it, error.inputs\n"
    )


def test_passes_are_listed(capsys):
    status, out, _ = ask(capsys, "passes")
    assert status == 0
    assert re.search(r"^  dce +Keep the ancestors of outputs, and the inputs\.$", out, re.MULTILINE)
    assert "\n  cpu " in out.partition("pipelines of passes:")[2]


def test_passes_are_listed_for_programs(capsys):
    found = json.loads(ask(capsys, "passes", "--json")[1])["passes"]
    assert [one["name"] for one in found] == list(load_all())
    assert all(one["does"].endswith(".") for one in found)
    simplify = next(one for one in found if one["name"] == "simplify")
    assert simplify["options"]
    for option in simplify["options"]:
        parse_pipeline(f"simplify{{{option['name']} = 3}}")


def test_a_pass_is_described(capsys):
    out = ask(capsys, "passes", "dce")[1]
    assert out.startswith("dce: Keep the ancestors of outputs, and the inputs.\n\n")
    assert "→" in out
    assert out.endswith("It has no options.\n")
    assert (
        "options:\n  dtype: str = bfloat16\n  weights: bool = true\n"
        in ask(capsys, "passes", "half")[1]
    )
    assert ask(capsys, "passes", "dec") == (
        2,
        "",
        "passes: there is no pass 'dec'\nhint: did you mean 'dce'?\n",
    )


def test_a_region_that_a_pass_recognises_is_described(capsys):
    status, out, err = ask(capsys, "passes", "softmax")
    assert (status, err) == (0, "")
    head, second, *_ = out.splitlines()
    assert head == "softmax: a region that the pass recognise turns into a call."
    assert parse_pipeline(second.removeprefix("To find it alone: "))
    assert "%m = max_reduce{axis = 1} %x" in out


def test_changes_of_layout_are_read(capsys, tmp_path):
    path = tmp_path / "cut.ir"
    path.write_text(
        'graph g(%x: f32[4]) -> (%1) {\n  %1 = reshard{old = "data", new = "-"} %x : f32[4]\n}\n'
    )
    status, out, err = ask(capsys, "run", path, "--passes", "dce")
    assert (status, err) == (0, "")
    assert out == path.read_text()
