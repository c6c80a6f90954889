"""The examples of docs/training.md run, and print what the page says that they print."""

import doctest
from pathlib import Path

from tests.readme import examples

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_examples_print_what_is_written_under_them():
    """It takes seconds: the first example trains a model."""
    text = PAGE.read_text(encoding="utf-8")
    test = doctest.DocTest(examples(text), {}, PAGE.name, str(PAGE), 0, text)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.attempted > 40
    assert not result.failed, "".join(said)
