"""An exercise of the course, and the verdict on an answer to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from luminal_lab.errors import Explained

RIGHT, OPEN = "right: ", "not yet: "
LONGEST = 200
"""How many letters of an error are told."""
Found: TypeAlias = bool | str
"""Whether a claim holds, or a sentence of what is wrong with it, empty if nothing is."""
Claim: TypeAlias = (
    tuple[str, Found | Callable[[], Found]] | tuple[str, Found | Callable[[], Found], str]
)
"""What is claimed of an answer, whether it holds, and a hint for when it does not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of an answer: is it right, and why; `said` begins with right: or not yet:."""

    right: bool
    said: tuple[str, ...] = ()
    hint: str = ""

    @classmethod
    def all(cls, *claims: Claim) -> Verdict:
        """Return the verdict on an answer of which all of this must hold.

        Whether it does may be a function, which is called only if all claims before it hold, so
        that it may rely on them; an error in it is an answer that is not right, and is told.

        >>> Verdict.all(("it is a number", True), ("it is even", lambda: 3 % 2 == 0, "halve it"))
        Verdict(right=False, said=('right: it is a number', 'not yet: it is even'), hint='halve it')
        """
        said: list[str] = []
        hint, right = "", True
        for claim in claims:
            text, found, *hints = claim
            if callable(found):
                if not right:
                    continue
                found = _asked(found)
            holds = not found if isinstance(found, str) else bool(found)
            fault = f", but {found}" if isinstance(found, str) and found else ""
            said.append(f"{RIGHT}{text}" if holds else f"{OPEN}{text}{fault}")
            if not holds:
                hint = hint or (hints[0] if hints else "")
            right = right and holds
        return cls(right, tuple(said), hint)

    @classmethod
    def no(cls, text: str, hint: str = "") -> Verdict:
        """Return the verdict on an answer of which only this can be said: it is not right.

        >>> Verdict.no("the answer is a number, and a tensor is asked for").said
        ('not yet: the answer is a number, and a tensor is asked for',)
        """
        return cls(False, (f"{OPEN}{text}",), hint)


@dataclass(frozen=True, slots=True)
class Exercise:
    """A task, its hints from gentle to nearly the answer, one answer, and what any must pass."""

    id: str
    task: str
    hints: tuple[str, ...]
    solution: str
    """The text of a cell that answers it, and ends in `answer = …`."""
    check: Callable[[object], Verdict]


def is_open(answer: object) -> bool:
    """Return whether an exercise was left as it was given, which `...` and None say."""
    return answer is ... or answer is None


def told(error: BaseException) -> str:
    """Return what an error says, in one line that is not too long, and what it advises.

    >>> told(ValueError("it is odd"))
    'ValueError: it is odd'
    """
    is_ours = isinstance(error, Explained)
    try:
        words = error.message if is_ours else str(error)
    except Exception:  # whatever a student's own error does
        words = ""
    lines = [" ".join(line.split()) for line in words.splitlines()]
    words = " ".join(filter(None, lines))
    if len(words) > LONGEST and (found := [line for line in lines[1:] if "error: " in line]):
        words = f"{lines[0]}: {found[0]}"  # of all that a compiler says, what is wrong
    elif is_ours and error.hint and len(words) + len(error.hint) < LONGEST:
        words = f"{words} ({error.hint})"
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _asked(found: Callable[[], Found]) -> Found:
    try:
        return found()
    except Exception as error:  # the answer's, of whatever kind
        return f"this could not be seen, for {told(error)}"
