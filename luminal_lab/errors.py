"""Every error that luminal_lab raises on purpose, as one tree.

LabError
├── ShapeError          (ValueError)         shapes that do not fit, an axis that is not there
│   ├── DimError        (ValueError)         a symbolic dim: unbound, out of bounds, contradicting
│   └── AxisError       (IndexError)         an unknown axis, or one given twice
├── UnknownNameError    (AttributeError)     a method or attribute that is not there
├── DTypeError          (TypeError)          a dtype that the op or the data does not allow
├── ArgumentError       (TypeError, ValueError)  an argument of the wrong kind
├── RangeError          (IndexError)         an index in data that is out of range or not a number
├── InputError          (ValueError)         an input never set, or set to a misfit
├── GraphError          (ValueError)         a tensor of another graph, or one misused
├── NotComputedError    (RuntimeError)       a value read before it exists
├── DefinitionError     (TypeError)          an op, pass or rule that cannot be accepted
├── ParseError          (ValueError)         text that is not in the grammar
├── VerifyError         (ValueError)         a graph that breaks a law of the IR
├── PassError           (RuntimeError)       a pass that failed or returned a forbidden result
├── ScheduleError       (ValueError)         a step that a kernel's loops do not allow
├── DeviceError         (RuntimeError)       a device or a toolchain that is missing or failed
├── RecordingError      (ValueError)         a recording that is damaged or of another version
├── ModelError          (ValueError)         a model from elsewhere that cannot be imported
└── TrustError          (RuntimeError)       code from a file without permission to run

KeyboardInterrupt
└── Interrupted         (KeyboardInterrupt)  Ctrl-C while a graph was running

Interrupted is neither a LabError nor an Exception: code that handles errors must not mistake Ctrl-C
for one.

The text has a fixed form: what is wrong with both values, then where, then one `hint:`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from numbers import Real
from operator import index
from types import UnionType
from typing import Any

UNSEEN = re.compile(
    "\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that a terminal obeys or that a reader cannot see: controls, changes of direction."""


def visible(text: str) -> str:
    r"""Return a text that a terminal only shows: control characters are escaped as in JSON.

    Names and texts from elsewhere go through here before they are printed.

    >>> print(visible("run \x1b[2J \u202e.lab"))
    run \u001b[2J \u202e.lab
    """
    return text if text.isprintable() else UNSEEN.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    words = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{words[at : at + 4]}" for at in range(0, len(words), 4))


PACKAGE = __file__.removesuffix("errors.py")
LONGEST_WORD = 200
CLOSEST, LETTERS_AN_ERROR, LEAST_BEGINNING = 8, 3, 2
"""The most words from which a hint is chosen, and what counts as near: one error in this many
letters, or a word that abbreviates the other."""
LONGEST = 4_000
LONGEST_LINES = 2_000, 500, 100
"""The most characters of an error, which may quote a foreign file, and of each of its lines.

Lines are cut shorter and shorter until the error is not too long.
"""


def cut(text: str) -> str:
    """Return a text with the middle of long lines left out.

    >>> cut("it is 'xxxx" + "x" * 5_000 + "x', no dim").replace("x" * 900, "…").replace("x", "")
    "it is '… […] …', no dim"
    """
    shown = text
    for longest in LONGEST_LINES:
        shown = "\n".join(_cut_line(line, longest) for line in text.split("\n"))
        if len(shown) <= LONGEST:
            break
    return shown


def _cut_line(line: str, longest: int) -> str:
    return line if len(line) <= longest else f"{line[: longest // 2]} […] {line[-longest // 2 :]}"


class Explained(BaseException):
    """An exception with `message`, `where` (the user's line, or a window of text) and `hint`."""

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = self.message
        if self.where:
            text += "".join(f"\n  {line}" for line in self.where.splitlines())
        if self.hint:
            text += f"\nhint: {self.hint}"
        return visible(cut(text))

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the message, with the user's line, without our own frames.

        A foreign cause, as in a user's own pass, is shown with its traceback from there on.
        """
        cause = self.__cause__
        lines: list[str] = []
        if cause is not None and not isinstance(cause, Explained):
            trace = whole = cause.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
                trace = trace.tb_next
            from traceback import format_exception  # noqa: PLC0415  # most processes need none

            lines = format_exception(type(cause), cause, trace or whole)
        text = f"{type(self).__name__}: {self}"
        notes: list[str] = getattr(self, "__notes__", [])
        return ["".join(lines) + "\n".join([text, *map(visible, notes)])]


class LabError(Explained, Exception):
    """The root of all errors that luminal_lab raises on purpose."""

    @classmethod
    def unless_known(
        cls, name: object, known: Iterable[str], message: str, hint: str | None = None
    ) -> None:
        """Raise this error unless a name is known; the hint names the nearest one, if one is near.

        >>> UnknownNameError.unless_known("sofmax", ["softmax"], "there is no kernel 'sofmax'")
        Traceback (most recent call last):
            ...
        luminal_lab.errors.UnknownNameError: there is no kernel 'sofmax'
        hint: did you mean 'softmax'?
        """
        names = [*known]
        if name not in names:
            raise cls(message, hint=nearest(name, names) or hint)

    @classmethod
    def unless_number(
        cls, value: object, message: str, hint: str, low: int = 0, high: float = float("inf")
    ) -> int:
        """Return a whole number within bounds, both included, or raise this error.

        >>> ll.RangeError.unless_number(8, "8 is no count of heads", "give a whole number", low=1)
        8
        """
        number = whole_number(value)
        if number is None or not low <= number <= high:
            raise cls(message, hint=hint)
        return number


class ShapeError(LabError, ValueError):
    """Shapes that do not fit together."""


class DimError(ShapeError):
    """A symbolic dim that is not bound, is out of its bounds, or has two values at once."""


class AxisError(ShapeError, IndexError):
    """An axis that the tensor does not have, or one given twice."""


class UnknownNameError(LabError, AttributeError):
    """A method or attribute that is not there; the nearest one is named."""


class DTypeError(LabError, TypeError):
    """A dtype that an op or some data does not allow."""


class ArgumentError(LabError, TypeError, ValueError):
    """An argument of the wrong kind, such as an array instead of a flag."""


class RangeError(LabError, IndexError):
    """An index in data that is out of range or not a number."""

    node: int | None = None
    """The node of the compiled graph whose kernel met it."""


class InputError(LabError, ValueError):
    """An input that was never set, or was set to a value that does not fit."""


class GraphError(LabError, ValueError):
    """A tensor of another graph, or one misused."""


class NotComputedError(LabError, RuntimeError):
    """A value that was read before it was computed."""


class DefinitionError(LabError, TypeError):
    """An op, a pass or a rule that cannot be accepted."""


class ParseError(LabError, ValueError):
    """Text that is not in the grammar."""


class VerifyError(LabError, ValueError):
    """A graph that breaks a law of the IR."""


class PassError(LabError, RuntimeError):
    """A pass that failed or returned a forbidden result; `snapshots` are those before it."""

    snapshots: Sequence[Any] = ()
    inputs: Mapping[str, object] = {}
    """For a pass that changes values: inputs, by name, that show the change."""


class ScheduleError(LabError, ValueError):
    """A step of a schedule that a dependence or a size forbids, or that names no loop."""

    snapshots: Sequence[Any] = ()
    """For a compile that ends with this error: the snapshots of its passes."""


class DeviceError(LabError, RuntimeError):
    """A device or toolchain that is missing or failed."""

    snapshots: Sequence[Any] = ()
    """For a compile that ends with this error: the snapshots of its passes."""


class RecordingError(LabError, ValueError):
    """A recording that is damaged or of another version."""


class ModelError(LabError, ValueError):
    """A model from elsewhere that cannot be imported, or a step of one that cannot be written."""

    missing: Sequence[str] = ()
    """The ops that there is nothing to write with."""
    needs: Sequence[str] = ()
    """The inputs whose values would have to be known at import."""


class TrustError(LabError, RuntimeError):
    """Code from a file without permission to run here."""

    carried: Sequence[Any] = ()
    """The pieces of code: digest, description and first line of each."""
    snapshots: Sequence[Any] = ()
    """For a compile that ends with this error: the snapshots of its passes."""


class Interrupted(Explained, KeyboardInterrupt):  # not an error
    """Ctrl-C while a graph was running; the session is as it was before."""


def is_circumstance(error: BaseException) -> bool:
    """Return whether an error says nothing about what was tried: memory, stack or disk ran out."""
    full = MemoryError, RecursionError
    return isinstance(error, full) or isinstance(error.__cause__, (*full, OSError))


class LabWarning(UserWarning):
    """Something done that the user should know about, such as replacing an op class."""

    def __str__(self) -> str:
        return visible(super().__str__())


def whole_number(like: object) -> int | None:
    """Return an argument as an int, accepting Python's and NumPy's integers, or None.

    >>> whole_number(3), whole_number(2.5), whole_number(True)
    (3, None, None)
    """
    if isinstance(like, bool):
        return None
    try:
        return index(like)  # pyright: ignore[reportArgumentType]  # it is tried
    except TypeError:
        return None


def real_number(like: object) -> float | None:
    """Return an argument as a float, where Python's and NumPy's real numbers count, or None.

    >>> real_number(3), real_number(2.5), real_number(True), real_number("3")
    (3.0, 2.5, None, None)
    """
    if isinstance(like, bool) or not isinstance(like, Real):
        return None
    try:
        return float(like)
    except OverflowError:  # a whole number, which no float holds
        return inf


def counted(count: int, noun: str, many: str | None = None) -> str:
    """Return a count with its noun, and `many` instead if that is no "s" at its end.

    >>> counted(1, "step"), counted(1200, "step"), counted(2, "axis", "axes")
    ('1 step', '1,200 steps', '2 axes')
    """
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def flag(what: str, value: object) -> bool:
    """Return an argument that is yes or no."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{what} is {value!r}", hint="give True or False")
    return value


def expect(value: object, kind: type | UnionType, message: str, hint: str) -> None:
    """Raise unless an argument is of a kind; the message shows it in place of its first `{}`.

    Type checkers would say so sooner, but nobody runs them on notebooks.

    >>> expect(3, str | None, "metal: the chip is {}", 'give its name, as in "m3-max"')
    Traceback (most recent call last):
        ...
    luminal_lab.errors.ArgumentError: metal: the chip is 3
    hint: give its name, as in "m3-max"
    """
    if not isinstance(value, kind):
        raise ArgumentError(message.replace("{}", repr(value), 1), hint=hint)


def position(which: object, count: int, missing: str, hint: str = "they count from 0") -> int:
    """Return a position among `count` things, where -1 is the last, or say that there is none.

    >>> position(5, 2, "compare: there is no segment")
    Traceback (most recent call last):
        ...
    luminal_lab.errors.RangeError: compare: there is no segment 5; there are 2
    hint: they count from 0
    """
    number = whole_number(which)
    if number is None or not -count <= number < count:
        shown = repr(which) if number is None else number
        raise RangeError(f"{missing} {shown}; there are {count}", hint=hint)
    return number


def nearest(word: object, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return a hint with the known word that is only a typing error away from `word`, or None.

    >>> nearest("sofmax", ["softmax", "slice"]), nearest("ones_like", ["softmax", "slice"])
    ("did you mean 'softmax'?", None)
    """
    # A long word is not a typing error, and comparing it is slow.
    if not isinstance(word, str) or len(word) > LONGEST_WORD:
        return None
    from difflib import get_close_matches  # noqa: PLC0415  # most processes need none

    close = get_close_matches(word, list(known), n=CLOSEST, cutoff=cutoff)
    # The last part of a path counts, unless more of it was written.
    ends = [path if "/" in word else path.rpartition("/")[2] for path in close]
    by_distance = sorted((_distance(word, end), at) for at, end in enumerate(ends))
    for errors, at in by_distance:
        letters = max(len(word), len(ends[at]))
        if errors <= max(1, letters // LETTERS_AN_ERROR) or _is_short_for(word, close[at]):
            return f"did you mean {close[at]!r}?"
    return None


def _is_short_for(word: str, other: str) -> bool:
    """Return whether one of two words begins with the other, or leaves out some of its letters."""
    short, long = sorted((word.lower(), other.lower()), key=len)
    if len(short) < LEAST_BEGINNING or short[0] != long[0]:
        return False
    letters = iter(long)
    return long.startswith(short) or all(letter in letters for letter in short)


def _distance(word: str, other: str) -> int:
    """Return how many typing errors lie between two words; a part left out counts as one."""
    cuts = ((word[:at], word[at:]) for at in range(1, len(word)))
    if any(other.startswith(start) and other.endswith(end) for start, end in cuts):
        return min(1, len(other) - len(word))
    return _typing_errors(word, other)


def _typing_errors(word: str, other: str) -> int:
    """Return how many letters are missing, added, wrong, or swapped with the next one."""
    before: list[int] = []
    row = [*range(len(other) + 1)]
    for i, letter in enumerate(word, 1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == wanted:
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return row[-1]
