"""The course: exercises whose answers are checked in the notebook, and graded for a class.

from luminal_lab.course import check, hint, progress, solution

check("04.2", answer)  # what is right, what is not yet, and what to think of next
hint("04.2")           # a hint; the next time one that says more
solution("04.2")       # one answer of several
progress()             # how far each chapter is
"""

from importlib import import_module
from typing import TYPE_CHECKING

from luminal_lab.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from luminal_lab.course.desk import check, hint, progress, solution
    from luminal_lab.course.exercise import Exercise, Verdict

__all__ = ["Exercise", "Verdict", "check", "hint", "progress", "solution"]


def __getattr__(name: str) -> object:
    """Load what is asked for when it is first used."""
    if name in __all__:
        place = "exercise" if name in ("Exercise", "Verdict") else "desk"
        return getattr(import_module(f"luminal_lab.course.{place}"), name)
    if name[:2] == "__":
        raise AttributeError(name)
    raise UnknownNameError(f"luminal_lab.course has no {name!r}", hint=nearest(name, __all__))


def __dir__() -> list[str]:
    """Return what completion shows."""
    return sorted(__all__)
