"""The elements of a nest's arrays as source; a language may have arrays in places of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from luminal_lab.core.dims import Dim
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.definition.terms import Apply, Guarded, Read, Term
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.render.code import Code
from luminal_lab.kernels.render.names import c_name


class Arrays:
    """The arrays of a nest, each row by row."""

    def __init__(self, nest: Nest, code: Code) -> None:
        self.nest, self.code = nest, code
        self.types: Mapping[str, TensorType] = nest.types

    def is_scalar(self, name: str) -> bool:
        """Return whether a name is a plain variable in C."""
        local = self.nest.locals.get(name)
        return local is not None and not local.type.shape and local.space != "memory"

    def is_wide(self, name: str) -> bool:
        """Return whether 16-bit floats are float32 in an array."""
        return self.is_scalar(name)

    def place(self, name: str, index: Iterable[Dim]) -> str:
        """Return an element of an array as C writes it."""
        if self.is_scalar(name):
            return c_name(name)
        flat = self.nest.flat(name, index)
        return f"{c_name(name)}[{self.code.index(flat)}]"

    def element(self, name: str, index: Iterable[Dim]) -> str:
        """Return an element of an array, as a value to compute with."""
        element = self.place(name, index)
        return element if self.is_wide(name) else self.code.widened(element, self.types[name].dtype)

    def bits(self, term: Term) -> str | None:
        """Return the 16 bits of a term that are in memory, if there are any."""
        if not isinstance(term, Read) or not term.dtype.is_half or self.is_wide(term.buffer):
            return None
        return self.place(term.buffer, term.index)

    def converted(self, term: Apply) -> str | None:
        """Return a cast that has already been made, if it has."""

    def asked(self, holds: Dim) -> Dim:
        """Return a condition in the form in which it is tested."""
        return holds

    def is_zero_elsewhere(self, term: Guarded) -> bool:
        """Return whether what a guard reads is 0 where the guard does not hold."""
        return False
