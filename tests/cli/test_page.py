"""The examples of docs/cli.md show what the commands print."""

import argparse
import re
import shlex
from collections.abc import Iterator
from importlib import import_module

import pytest

from luminal_lab import cli
from luminal_lab.cli.command import Command, OptionReader
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
    rows = re.findall(r"^\| `(\w[\w-]*)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert dict(rows).keys() == cli.COMMANDS.keys()
    assert len(EXAMPLES) > 3


def options_of(reader: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yield the lines of a command's options, and of those of its own commands."""
    for action in reader._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, part in action.choices.items():
                yield from options_of(part, f"{name} {word}")
        elif action.option_strings and "--help" not in action.option_strings:
            given = action.metavar or ", ".join(map(str, action.choices or ()))
            several = " …" if action.nargs in ("*", "+") else ""
            words = f"{', '.join(action.option_strings)} {given}{several}".strip()
            help_text = (action.help or "").replace("|", "\\|")
            yield f"| `{name}` | `{words}` | {help_text} |"


def test_the_page_has_every_option_of_every_command():
    lines: list[str] = []
    for name in cli.COMMANDS:
        command: Command = import_module(f"luminal_lab.cli.{name.replace('-', '_')}").COMMAND
        reader = OptionReader(name, command.about, "")
        command.options(reader)
        lines += options_of(reader, name)
    _, _, rest = PAGE.partition("| command | option | what it does |\n|---|---|---|\n")
    assert rest.splitlines() == lines, "the page should end with:\n" + "\n".join(lines)
