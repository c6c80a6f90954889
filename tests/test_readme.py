"""The examples of README.md run, and print what README.md says that they print."""

import doctest
import re

import pytest

import luminal_lab as ll
from tests.readme import README, examples


def test_the_examples_print_what_is_written_under_them():
    text = README.read_text(encoding="utf-8")
    found = examples(text)
    assert found, "README.md has no `>>>` example in a ```python block; `make lab` plays them"
    said: list[str] = []
    test = doctest.DocTest(found, {}, README.name, str(README), 0, text)
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not result.failed, "".join(said)


def test_the_mistake_is_reported_in_the_words_of_the_page():
    said = re.search(r"```text\n>>> (.*)\n((?:.*\n)*?)```", README.read_text(encoding="utf-8"))
    assert said is not None
    cx = ll.Graph()
    b = cx.tensor((1, 4), name="b")
    with pytest.raises(ll.ShapeError) as caught:
        eval(said[1], {"b": b})
    caught.value.where = "cell 6, line 1:  b.matmul(b)"  # what it is in the sixth cell
    assert str(caught.value) == said[2].rstrip()


def test_an_example_keeps_its_line_and_ends_with_its_block():
    found = examples("# Title\n\n```python\n>>> 1 + 1\n2\n```\n\n```\n>>> not run\n```\n")
    assert [(e.source, e.want, e.lineno) for e in found] == [("1 + 1\n", "2\n", 3)]
