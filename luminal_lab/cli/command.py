"""Commands: description, options and action of each; and the reader of their words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self, cast

from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError, nearest

PROGRAM = "luminal-lab"
STATUS = """\
exit status: 0 if all went well; 1 if it ran, but with a bad result; 2 if it could not do what you
asked; 130 if Ctrl-C stopped it"""
NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)
MISSING = re.compile(r"the following arguments are required: (.*)", re.DOTALL)
CHOICE = re.compile(r"(?:argument (\S+): )?invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command of the command line."""

    name: str
    about: str
    """Its description, in a few lines."""
    examples: str
    """Example lines with their effects."""
    options: Callable[[OptionReader], None]
    """Declares its options."""
    run: Callable[[argparse.Namespace], int]
    """Runs it, and returns the exit status."""
    status: str = STATUS
    """The meaning of its exit statuses."""
    rest: str = ""
    """The program that gets the words after `--`; empty for none."""
    more: Callable[[], str] = str
    """Further help, computed only when needed."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the parsed options."""
        ours, after = list(words), list[str]()
        if self.rest and "--" in ours:
            separator = ours.index("--")
            ours, after = ours[:separator], ours[separator + 1 :]
        is_help = bool({"-h", "--help"} & set(ours))
        reader = OptionReader(
            f"{PROGRAM} {self.name}", self.about, self.epilog() if is_help else self.status
        )
        self.options(reader)
        if self.rest:
            reader.usage = f"{reader.format_usage().removeprefix('usage: ').rstrip()} [-- ...]"
        given, unknown = reader.parse_known_args(ours)
        if getattr(given, "what", "") is None and not unknown:
            reader.epilog = self.epilog()
            say(reader.format_help(), end="")
            raise SystemExit(0)
        given.named = reader.named()
        if unknown:
            behind = ""
            if self.rest:
                known = [word for word in ours if word not in unknown]
                typed = " ".join([PROGRAM, self.name, *known, "--", *unknown])
                behind = f"put {self.rest}'s own words after --: {typed}"
            reader.refuse(unknown[0], behind)
        given.rest = after
        return given

    def epilog(self) -> str:
        """Return the text below the options: examples, and the meaning of exit statuses."""
        parts = [f"examples:\n{indented(self.examples)}", self.more(), self.status]
        return "\n\n".join(filter(None, parts))


class OptionReader(argparse.ArgumentParser):
    """Reads the words of a command; an unknown one raises our own error."""

    def __init__(self, prog: str, about: str = "", epilog: str = "", **how: object) -> None:
        del how  # argparse's settings for subcommands
        super().__init__(
            prog=prog,
            description=about,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.elsewhere: dict[str, str] = {}
        """What other programs call its options, and what they are called here."""

    def named(self) -> dict[str, str]:
        """Return its options, and those of its subcommands, by their names in Python."""
        named: dict[str, str] = {}
        for action in self._actions:
            if action.option_strings:
                named[action.dest] = action.option_strings[-1]
            inner: object = action.choices
            if isinstance(inner, dict):
                for reader in cast("dict[str, OptionReader]", inner).values():
                    named |= reader.named()
        return named

    def subcommands(self) -> argparse._SubParsersAction[Self]:  # pyright: ignore[reportPrivateUsage]  # argparse has no other name for it
        """Declare that subcommands follow, as `what`; without one, the help lists them."""
        return self.add_subparsers(dest="what", metavar="WHAT", title="what")

    @property
    def subject(self) -> str:
        """The first word of errors."""
        return self.prog.removeprefix(f"{PROGRAM} ")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # ours are lists
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Read words; if some are missing, an option of pairs has taken those behind it."""
        words, given = [*(args or ())], namespace or argparse.Namespace()
        try:
            return super().parse_known_args(words, given)
        except ArgumentError:
            others = self._pairs_last(words)
            if others == words:
                raise
            return super().parse_known_args(others, given)

    def _pairs_last(self, words: Sequence[str]) -> list[str]:
        """Return words with options that take several pairs behind all others, each with its own.

        An option ends before a word that is no pair.
        """
        taking = {
            option
            for action in self._actions
            if action.nargs == "*" and "=" in str(action.metavar)
            for option in action.option_strings
        }
        first, pairs, is_taking = list[str](), list[str](), False
        for word in words:
            is_taking = word in taking or (is_taking and "=" in word and word[0] != "-")
            (pairs if is_taking else first).append(word)
        return [*first, *pairs]

    def error(self, message: str) -> NoReturn:
        """Raise our own error."""
        wrong = NUMBER.fullmatch(message)
        if wrong is not None:
            raise ArgumentError(
                f"{self.subject}: {wrong[1]} cannot be {wrong[3]!r}",
                hint=f"give a {'whole number' if wrong[2] == 'int' else 'number'}",
            )
        missing = MISSING.fullmatch(message)
        if missing is not None:
            is_one = "," not in missing[1]
            raise ArgumentError(
                f"{self.subject}: {missing[1]} {'is' if is_one else 'are'} missing",
                hint=f"{self.prog} --help says what it takes",
            )
        wrong = CHOICE.fullmatch(message)
        if wrong is None:
            raise ArgumentError(f"{self.subject}: {message}", hint=f"{self.prog} --help")
        known = re.findall(r"[\w.-]+", wrong[3])
        word = wrong[1] if wrong[1] and wrong[1].startswith("-") else "it"
        raise ArgumentError(
            f"{self.subject}: {word} cannot be {wrong[2]!r}",
            hint=nearest(wrong[2], known)
            or (f"choose from {', '.join(known)}" if known[1:] else f"write {known[0]} before it"),
        )

    def refuse(self, word: str, behind: str = "") -> NoReturn:
        """Raise an error about an unknown word."""
        name = word.partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        if name in self.elsewhere:
            near = f"here it is {self.elsewhere[name]}"
        elif name.startswith("-") and len(name) == 2:  # any two letters are alike
            near = None
        elif name.startswith("-"):
            near = nearest(name, known, 0.75 if behind else 0.5)
        else:  # an option without its dashes
            near = nearest(f"--{name}", known, 0.75)
        raise ArgumentError(
            f"{self.subject}: it does not take {word!r}",
            hint=near or behind or f"{self.prog} --help says what it takes",
        )


def in_options(text: str, named: Mapping[str, str]) -> str:
    """Return a text about arguments in Python as one about a command's options.

    >>> in_options("load: context is 0", {"context": "--context"})
    'load: --context is 0'
    >>> in_options("give at most context=64, or leave top_k out", {"context": "-c", "top_k": "-k"})
    'give at most -c 64, or leave -k out'
    """
    for name, option in named.items():
        text = re.sub(rf"\b{name}=(?=\S)", f"{option} ", text)
        text = re.sub(rf"(?<=: ){name}(?= is )", option, text)
        if "_" in name:
            text = re.sub(rf"\b{name}\b", option, text)
    return text


def indented(text: str) -> str:
    """Return lines with two spaces before each."""
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
