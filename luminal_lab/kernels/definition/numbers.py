"""Numbers for dims: those that a plan needs, worked out together by one function of Python.

    past + seq, (past + seq)//16 and 4*past*seq become

    def numbers(sizes):
        a0 = sizes['past']
        a1 = sizes['seq']
        a2 = (1*a0 + 1*a1)//(16)
        return [1*a0 + 1*a1, 1*a2, 4*a0*a1]

`evaluate` is what they mean; it walks every expression anew, and says what is wrong where one has
no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import cast, overload

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, evaluate
from luminal_lab.core.dims.expression import Atom, products


class Numbers:
    """Dims that are worked out together, each by its place.

    >>> n, numbers = Symbol("n"), Numbers()
    >>> [numbers.place(dim) for dim in (4 * n, n // 2, 4 * n)]
    [0, 1, 0]
    >>> numbers.of({"n": 6})
    [24, 3]
    """

    def __init__(self) -> None:
        self._places: dict[Dim, int] = {}

    def place(self, dim: Dim) -> int:
        """Return the place of a dim among the numbers; a new one comes last.

        >>> Numbers().place(Symbol("n"))
        0
        """
        if dim not in self._places:
            self._places[dim] = len(self._places)
            vars(self).pop("_function", None)
        return self._places[dim]

    @property
    def dims(self) -> Sequence[Dim]:
        """The dims, in the order of their places."""
        return [*self._places]

    def of(self, sizes: Mapping[str, int]) -> Sequence[int]:
        """Return all numbers for sizes of dims; where one has none, to ask for it is an error.

        >>> numbers = Numbers()
        >>> numbers.place(Symbol("n") + 1)
        0
        >>> numbers.of({"n": 2})
        [3]
        """
        try:
            return self._function(sizes)
        except (KeyError, ZeroDivisionError):
            return _OneByOne([*self._places], sizes)

    @cached_property
    def _function(self) -> Callable[[Mapping[str, int]], Sequence[int]]:
        writer = _Writer()
        results = [writer.text(dim) for dim in self._places]
        body = "".join(f"    {line}\n" for line in writer.lines)
        named: dict[str, object] = {}
        exec(f"def numbers(sizes):\n{body}    return [{', '.join(results)}]\n", named)
        return cast("Callable[[Mapping[str, int]], Sequence[int]]", named["numbers"])


class _OneByOne(Sequence[int]):
    """Numbers that are worked out when they are asked for, since not all have a value."""

    def __init__(self, dims: Sequence[Dim], sizes: Mapping[str, int]) -> None:
        self._dims, self._sizes = dims, sizes

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    @override
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [evaluate(dim, self._sizes) for dim in self._dims[place]]
        return evaluate(self._dims[place], self._sizes)

    @override
    def __len__(self) -> int:
        return len(self._dims)


class _Writer:
    """Expressions of Python for dims; each atom is worked out once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[Atom, str] = {}

    def text(self, dim: Dim) -> str:
        """Return a dim as an expression, after the lines for its atoms."""
        terms = [
            "*".join([str(factor), *map(self._name, atoms)]) for factor, atoms in products(dim)
        ]
        return " + ".join(terms) or "0"

    def _name(self, atom: Atom) -> str:
        if atom not in self._names:
            text = f"sizes[{atom.name!r}]" if isinstance(atom, Symbol) else self._call(atom)
            self._names[atom] = f"a{len(self._names)}"
            self.lines.append(f"{self._names[atom]} = {text}")
        return self._names[atom]

    def _call(self, atom: Atom) -> str:
        given = [self.text(argument) for argument in atom.arguments]
        match atom.sign:
            case "<":
                return f"1 if {given[0]} < 0 else 0"
            case "min" | "max":
                return f"{atom.sign}({', '.join(given)})"
            case sign:
                return sign.join(f"({operand})" for operand in given)
