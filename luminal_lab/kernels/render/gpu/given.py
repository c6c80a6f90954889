"""The head of a GPU's function: what it is called, and what it is given."""

from __future__ import annotations

from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.render.code import LIMIT


class Given:
    """What a function is given, in order."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.texts: list[str] = []

    def buffer(self, name: str, type: str, const: str = "", *, is_alone: bool = True) -> None:
        """Add a buffer; nothing else points to it if it is alone."""
        self.texts.append(
            self.dialect.buffer(name, type, len(self.texts), const, is_alone=is_alone)
        )

    def dim(self, type: str, name: str) -> None:
        """Add a number."""
        self.texts.append(self.dialect.dim.format(type=type, name=name, place=len(self.texts)))

    def head(self, name: str, threads: int) -> list[str]:
        """Return the first lines of the function."""
        given = [*self.texts, *self.dialect.positions]
        start = self.dialect.head.format(name=name, threads=threads)
        whole = f"{start}({', '.join(given)}) {{"
        if len(whole) <= LIMIT:
            return [whole]
        return [f"{start}(", *(f"    {one}," for one in given[:-1]), f"    {given[-1]}", ") {"]
