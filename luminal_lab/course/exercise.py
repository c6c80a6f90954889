"""An exercise of the course, and the verdict on an answer to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from luminal_lab.errors import Explained
from luminal_lab.tensor.arguments import is_function

RIGHT, OPEN, FAULT = "right: ", "not yet: ", "  "
LONGEST = 200
"""The most characters of an error shown."""
Finding: TypeAlias = bool | str
"""Whether a claim holds, or a sentence that says what is wrong, empty if nothing is."""
Claim: TypeAlias = (
    tuple[str, Finding | Callable[[], Finding]] | tuple[str, Finding | Callable[[], Finding], str]
)
"""A claim about an answer, its finding, and a hint in case it fails."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and why.

    Lines of `said` begin with `right:` or `not yet:`; a line with two spaces before it says what
    is wrong, as `WHERE: expected …, got …` wherever something else was expected.

    >>> from luminal_lab.course import Verdict
    >>> Verdict.all(("it is a number", True), ("it is even", lambda: 3 % 2 == 0)).said
    ('right: it is a number', 'not yet: it is even')
    """

    right: bool
    said: tuple[str, ...] = ()
    hint: str = ""

    @classmethod
    def all(cls, *claims: Claim) -> Verdict:
        """Return the verdict on an answer for which all claims must hold.

        A finding may be a function, called only if all earlier claims hold, so that it may rely on
        them; an error in it makes the answer wrong, and is shown.

        >>> Verdict.all(("it is a number", True), ("it is even", lambda: 3 % 2 == 0, "halve it"))
        Verdict(right=False, said=('right: it is a number', 'not yet: it is even'), hint='halve it')
        >>> Verdict.all(("it is even", lambda: "the last bit: expected 0, got 1")).said
        ('not yet: it is even', '  the last bit: expected 0, got 1')
        """
        said: list[str] = []
        hint, right = "", True
        for claim in claims:
            text, finding, *hints = claim
            if is_function(finding):
                if not right:
                    continue
                finding = _asked(finding)
            holds = not finding if isinstance(finding, str) else bool(finding)
            said.append(f"{RIGHT}{text}" if holds else f"{OPEN}{text}")
            if not holds:
                said += [f"{FAULT}{finding}"] if isinstance(finding, str) else []
                hint = hint or (hints[0] if hints else "")
            right = right and holds
        return cls(right, tuple(said), hint)

    @classmethod
    def no(cls, text: str, hint: str = "") -> Verdict:
        """Return the verdict on a wrong answer with a single reason.

        >>> Verdict.no("expected a tensor, got a number").said
        ('not yet: expected a tensor, got a number',)
        """
        return cls(False, (f"{OPEN}{text}",), hint)


@dataclass(frozen=True, slots=True)
class Exercise:
    """A task, its hints from gentle to nearly the answer, a solution, and a check.

    >>> from luminal_lab.course import Exercise, Verdict
    >>> double = Exercise("99.1", "Give 42.", (), "answer = 42", lambda x: Verdict(x == 42))
    >>> double.check(42).right
    True
    """

    id: str
    task: str
    hints: tuple[str, ...]
    solution: str
    """The text of a cell that answers it, and ends in `answer = …`."""
    check: Callable[[object], Verdict]
    forks: bool = True
    """Whether a forked process can check it; none can where JAX's threads are needed."""


def is_open(answer: object) -> bool:
    """Return whether an exercise is unanswered, as `...` and None mean."""
    return answer is ... or answer is None


def error_text(error: BaseException) -> str:
    """Return an error's message and hint as one line of limited length.

    >>> error_text(ValueError("it is odd"))
    'ValueError: it is odd'
    """
    is_ours = isinstance(error, Explained)
    try:
        words = error.message if is_ours else str(error)
    except Exception:  # a student's own error may do anything
        words = ""
    lines = [" ".join(line.split()) for line in words.splitlines()]
    words = " ".join(filter(None, lines))
    if len(words) > LONGEST and (faults := [line for line in lines[1:] if "error: " in line]):
        words = f"{lines[0]}: {faults[0]}"  # the first error in a compiler's output
    elif is_ours and error.hint and len(words) + len(error.hint) < LONGEST:
        words = f"{words} ({error.hint})"
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _asked(ask: Callable[[], Finding]) -> Finding:
    try:
        return ask()
    except Exception as error:  # the answer's, of whatever kind
        return f"the check could not run: {error_text(error)}"
