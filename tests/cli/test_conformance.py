"""`luminal-lab conformance`: devices by name and of one's own, what is wrong, what is not here."""

import re
import sys
import textwrap

import pytest

from tests.cli.asking import ask

MINE = textwrap.dedent("""\
    class Counter:
        shift = 0

        def run(self, ir, inputs):
            values = {}
            for node in ir:
                values[node.id] = (
                    node.op.eval(*(values[id] for id in node.sources))
                    if node.sources
                    else inputs[node.name]
                )
            return [values[id] + self.shift for id in ir.output_ids]

    wrong = Counter()
    wrong.shift = 1
""")


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_a_device_of_ours_by_its_name(capsys):
    words = "conformance", "dce", "--only", "sqrt*,exp2*", "--dtypes", "float32"
    said = "conformance of dce: all 4 cases passed\n  exp2   2\n  sqrt   2\n"
    assert ask(capsys, *words) == (0, said, "")


def test_a_device_of_ones_own_is_a_class_or_a_value(capsys, mine):
    words = "--load", mine, "--only", "sqrt*", "--dtypes", "float32"
    assert ask(capsys, "conformance", "Counter", *words) == (
        *(0, "conformance of Counter: all 2 cases passed\n  sqrt   2\n", ""),
    )
    status, out, _ = ask(capsys, "conformance", "wrong", *words)
    assert status == 1
    assert out.startswith("conformance of Counter: 0 of 2 cases passed, 2 failed\n")
    assert "hint: sqrt needs fixing" in out


def test_failures_that_are_not_shown_are_named(capsys, mine):
    words = "--load", mine, "--only", "elementwise", "--dtypes", "float32"
    _, out, _ = ask(capsys, "conformance", "wrong", *words)
    counted = re.fullmatch(r"and (\d+) more, in \.failed: (.*)", out.splitlines()[-1])
    assert counted is not None
    parts = [part.split(" of ") for part in counted[2].split(", ")]
    assert int(counted[1]) == sum(int(count) for count, _ in parts) > len(parts)
    assert {"sin", "add"} <= {op for _, op in parts}


def test_a_device_that_is_not_here(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    status, out, err = ask(capsys, "conformance", "xla")
    assert (status, out) == (2, "")
    assert err.startswith("xla: JAX cannot be imported: ")
    assert "hint: pip install" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["xal"], "hint: did you mean 'xla'?\n"),
        (
            ["cpu", "--only", "modle"],
            "conformance: no case is chosen\nhint: did you mean 'model'?\n",
        ),
        (["cpu", "--dtypes", "flaot32"], "hint: did you mean 'float32'?\n"),
        (
            ["cpu", "--load", "none.py"],
            "conformance: none.py cannot be read: there is no such file",
        ),
    ],
)
def test_words_that_are_wrong_are_told(capsys, words, said):
    status, out, err = ask(capsys, "conformance", *words)
    assert (status, out) == (2, "")
    assert said in err
