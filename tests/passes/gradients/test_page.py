"""The examples of docs/gradients.md run, and print what the page says that they print."""

import doctest
from pathlib import Path

from luminal_lab.core.ops import Mul
from luminal_lab.passes.gradients.rule import RULES
from tests.readme import examples

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gradients.md"


def test_the_examples_print_what_is_written_under_them():
    text = PAGE.read_text(encoding="utf-8")
    said: list[str] = []
    test = doctest.DocTest(examples(text), {}, PAGE.name, str(PAGE), 0, text)
    before = RULES[Mul.name]
    try:
        result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    finally:
        RULES[Mul.name] = before  # the page shows how a rule is written, by that of mul
    assert result.attempted > 20
    assert not result.failed, "".join(said)
