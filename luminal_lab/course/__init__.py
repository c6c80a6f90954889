"""The course: exercises, checked in the notebook and graded for a class.

from luminal_lab.course import check, hint, progress, solution

check("04.2", answer)  # what is right, what is not yet, and a next thought
hint("04.2")           # a hint; each call says more
solution("04.2")       # one answer of several
progress()             # the state of each chapter
recorded("product")    # a recording that a notebook shows
"""

from importlib import import_module
from typing import TYPE_CHECKING

from luminal_lab.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from luminal_lab.course.desk import check, hint, progress, solution
    from luminal_lab.course.exercise import Exercise, Verdict
    from luminal_lab.course.recordings import recorded

__all__ = ["Exercise", "Verdict", "check", "hint", "progress", "recorded", "solution"]
MODULES = {"Exercise": "exercise", "Verdict": "exercise", "recorded": "recordings"}


def __getattr__(name: str) -> object:
    """Load names on first use."""
    if name in __all__:
        module = import_module(f"luminal_lab.course.{MODULES.get(name, 'desk')}")
        return getattr(module, name)
    if name[:2] == "__":
        raise AttributeError(name)
    raise UnknownNameError(f"luminal_lab.course has no {name!r}", hint=nearest(name, __all__))


def __dir__() -> list[str]:
    """Return the public names for completion."""
    return sorted(__all__)
