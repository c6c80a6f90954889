"""The examples of docs/cli.md show what the commands print."""

import re
import shlex

import pytest

from luminal_lab import cli
from tests.cli.asking import GRAPH, ROOT, ask, recording

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = [
    example.partition("\n")
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for example in re.split(r"^\$ luminal-lab ", block, flags=re.MULTILINE)[1:]
]


@pytest.mark.parametrize(("words", "shown"), [(first, rest) for first, _, rest in EXAMPLES])
def test_an_example_shows_what_is_written(capsys, tmp_path, monkeypatch, words, shown):
    assert GRAPH in PAGE
    (tmp_path / "graph.ir").write_text(GRAPH)
    recording(tmp_path / "run.lab")
    monkeypatch.chdir(tmp_path)
    _, out, err = ask(capsys, *shlex.split(words))
    assert out + err == shown


def test_the_page_has_every_command():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert dict(rows).keys() == cli.COMMANDS.keys()
    assert len(EXAMPLES) > 3
