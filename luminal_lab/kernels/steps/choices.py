"""Open numbers of a schedule: the values that a plan may choose from, and the value it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.errors import RangeError, ScheduleError, UnknownNameError, position as place_of
from luminal_lab.tensor.arguments import told_object

NO_CHOICES: Mapping[str, int] = {}


@dataclass(frozen=True, init=False)
class Choice:
    """A number that a plan takes from several; the first unless there is a reason for another.

    >>> print(Choice("rows", 64, 128, 256))
    rows: 64, 128 or 256
    """

    name: str
    values: tuple[int, ...]

    def __init__(self, name: str, *values: int) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", values)

    def first(self, value: int) -> Choice:
        """Return the same choice where one of its values is the usual one."""
        return Choice(self.name, value, *(other for other in self.values if other != value))

    def within(self, most: int) -> Choice:
        """Return the choice without the values beyond a limit of a machine.

        >>> print(Choice("threads", 256, 64, 512).within(256))
        threads: 256 or 64
        """
        return Choice(self.name, *(value for value in self.values if value <= most))

    @override
    def __str__(self) -> str:
        *others, last = map(str, self.values)
        return f"{self.name}: {', '.join(others)} or {last}" if others else f"{self.name}: {last}"


class Taken(NamedTuple):
    """A choice, and the value taken."""

    choice: Choice
    value: int
    default: int
    """The value taken unless another is asked for."""

    @override
    def __str__(self) -> str:
        note = "" if self.value == self.default else f", where {self.default} is usual"
        return f"{self.choice}; {self.value} is taken{note}"


@told_object("choices")
@dataclass(frozen=True, repr=False)
class Choices(Sequence[Taken]):
    """All open numbers of a schedule, in the order in which its plan takes them."""

    taken: tuple[Taken, ...] = ()
    source: str = ""
    """The source of the usual values, if a plan names one."""

    @property
    def values(self) -> Mapping[str, int]:
        """The values taken, by name."""
        return {taken.choice.name: taken.value for taken in self.taken}

    def check(self, asked: Mapping[str, int], kernel: str) -> None:
        """Refuse a number that the plan does not leave open, or a value that it does not offer."""
        known = {taken.choice.name: taken.choice for taken in self.taken}
        for name, value in asked.items():
            hint = f"its choices are {', '.join(known) or 'none: it leaves nothing open'}"
            fault = f"kernel {kernel}: there is no choice {name!r}"
            UnknownNameError.unless_known(name, known, fault, hint)
            if value not in known[name].values:
                raise RangeError(
                    f"kernel {kernel}: {name} cannot be {value!r}",
                    hint=f"take one of {', '.join(map(str, known[name].values))}",
                )

    @override
    def __len__(self) -> int:
        return len(self.taken)

    @overload
    def __getitem__(self, position: int) -> Taken: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Taken]: ...
    @override
    def __getitem__(self, position: int | slice) -> Taken | Sequence[Taken]:
        if isinstance(position, slice):
            return self.taken[position]
        hint = "give its place; choices.values has names"
        return self.taken[place_of(position, len(self), "choices: there is no choice", hint)]

    @override
    def __str__(self) -> str:
        source = (f"usual values: {self.source}",) if self.source else ()
        return "\n".join(map(str, (*self.taken, *source) if self.taken else ("nothing is open",)))

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Choices: {len(self)} open; print(…) shows them>"


def misfit(kernel: str, asked: Mapping[str, int], why: str) -> ScheduleError:
    """Return the error for choices that do not fit a kernel or its machine."""
    values = ", ".join(f"{name} = {value}" for name, value in asked.items())
    return ScheduleError(
        f"kernel {kernel}: {values} does not fit: {why}",
        hint="take smaller numbers; print(kernel.choices) shows which are open",
    )
