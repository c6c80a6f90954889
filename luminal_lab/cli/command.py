"""What a command is: what it does, how it is asked for, what runs it; and what reads its words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from typing_extensions import override

from luminal_lab.errors import ArgumentError, nearest

PROGRAM = "luminal-lab"
STATUS = """\
exit status: 0 if all went well; 1 if it was done and the result is not good; 2 if it cannot be
done as asked; 130 if Ctrl-C stopped it"""
NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)
CHOICE = re.compile(r"(?:argument (\S+): )?invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command of the command line."""

    name: str
    about: str
    """What it does, in a few lines."""
    examples: str
    """Lines as they are typed, with what each does."""
    options: Callable[[Reader], None]
    """Says which words it takes."""
    run: Callable[[argparse.Namespace], int]
    """Does it, and returns the exit status."""
    status: str = STATUS
    """What its exit statuses mean."""
    rest: str = ""
    """Who gets the words behind `--`; nobody where it is empty."""
    more: Callable[[], str] = str
    """What else its help says, which takes a while to find out."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Return what was asked for."""
        ours, after = list(words), list[str]()
        if self.rest and "--" in ours:
            place = ours.index("--")
            ours, after = ours[:place], ours[place + 1 :]
        is_help = bool({"-h", "--help"} & set(ours))
        reader = Reader(
            f"{PROGRAM} {self.name}", self.about, self.epilog() if is_help else self.status
        )
        self.options(reader)
        if self.rest:
            reader.usage = f"{reader.format_usage().removeprefix('usage: ').rstrip()} [-- ...]"
        given, unknown = reader.parse_known_args(ours)
        if unknown:
            behind = ""
            if self.rest:
                known = [word for word in ours if word not in unknown]
                typed = " ".join([PROGRAM, self.name, *known, "--", *unknown])
                behind = f"what is {self.rest}'s stands behind --: {typed}"
            reader.refuse(unknown[0], behind)
        given.rest = after
        return given

    def epilog(self) -> str:
        """Return what stands below the options: examples, and what an exit status means."""
        parts = [f"examples:\n{indented(self.examples)}", self.more(), self.status]
        return "\n\n".join(filter(None, parts))


class Reader(argparse.ArgumentParser):
    """Reads the words of a command; what it does not know is an error of ours."""

    def __init__(self, prog: str, about: str = "", epilog: str = "", **how: object) -> None:
        del how  # what argparse gives the readers of commands within commands
        super().__init__(
            prog=prog,
            description=about,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    @property
    def subject(self) -> str:
        """How errors begin."""
        return self.prog.removeprefix(f"{PROGRAM} ")

    @override
    def error(self, message: str) -> NoReturn:
        wrong = NUMBER.fullmatch(message)
        if wrong is not None:
            raise ArgumentError(
                f"{self.subject}: {wrong[1]} cannot be {wrong[3]!r}",
                hint=f"give a {'whole number' if wrong[2] == 'int' else 'number'}",
            )
        wrong = CHOICE.fullmatch(message)
        if wrong is None:
            raise ArgumentError(f"{self.subject}: {message}", hint=f"{self.prog} --help")
        known = re.findall(r"[\w.-]+", wrong[3])
        what = wrong[1] if wrong[1] and wrong[1].startswith("-") else "it"
        raise ArgumentError(
            f"{self.subject}: {what} cannot be {wrong[2]!r}",
            hint=nearest(wrong[2], known) or f"there are {', '.join(known)}",
        )

    def refuse(self, word: str, behind: str = "") -> NoReturn:
        """Raise an error about a word that nobody takes, but who gets words behind `--`."""
        name = word.partition("=")[0]
        known = [one for action in self._actions for one in action.option_strings]
        near = nearest(name, known, 0.75 if behind else 0.5) if name.startswith("-") else None
        raise ArgumentError(
            f"{self.subject}: it does not take {word!r}",
            hint=near or behind or f"{self.prog} --help says what it takes",
        )


def indented(text: str) -> str:
    """Return lines with two spaces before each."""
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
