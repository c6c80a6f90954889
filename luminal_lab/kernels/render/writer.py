"""Statements of a nest as source, as all languages share them: loops, conditions, sets, updates."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from contextlib import AbstractContextManager

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.terms import Term
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.nest.nest import (
    Block,
    Fetch,
    Local,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    arrays_in,
    arrays_written,
)
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.exact import exact_terms
from luminal_lab.kernels.render.index import PRODUCT, SUM
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.rendered import buffers_of
from luminal_lab.kernels.render.terms import Terms, Text

FOLDED = {"=": (), "+=": ("sum_reduce",), "max=": ("max_reduce",)}
"""The ops behind the ways to assign."""
IN_PLACE = tuple(dtype for dtype in DType if dtype.itemsize >= 4)
"""The dtypes whose sums C's own += makes."""


class Writer:
    """Writes the statements of a nest; loops of some kinds may be written elsewhere."""

    def __init__(self, arrays: Arrays, exact: AbstractSet[str]) -> None:
        self.arrays, self.code = arrays, arrays.code
        self.nest: Nest = arrays.nest
        self.types = arrays.types
        self.dialect: Dialect = self.code.dialect
        self.terms = Terms(self.code, arrays)
        self.exact = exact
        """The arrays for whose elements each op rounds."""
        self.first = ""
        """The condition for the one thread, of several alike, that sets what others see."""

    def statements(self, block: Block) -> None:
        """Write statements in order."""
        for statement in block:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        """Write a statement."""
        match statement:
            case Loop(position=position) if position:
                self.at(statement, position)
            case Loop():
                self.loop(statement)
            case When(holds=holds, body=body):
                with self.code.branch(self.code.condition(holds)):
                    self.statements(body)
            case Local():
                self.local(statement)
            case Set():
                self.set(statement)
            case Fetch():
                self.fetch(statement)

    def at(self, loop: Loop, position: Term) -> None:
        """Write what is done at a position that is a value, and note a value out of range."""
        code, name, size = self.code, c_name(loop.name), self.code.index(loop.size, SUM)
        value = self.terms.text(position)
        code.constant("lab_i64", name, value.text, value.ops)
        with code.branch(f"{name} < 0 || {name} >= {size}"):
            code.assign("lab_wrong", "1")
        with code.branch(f"{name} >= 0 && {name} < {size}"):
            self.statements(loop.body)

    def in_place(self, block: Block) -> None:
        """Write an early return that skips the copy if the result is already in place."""
        alike = self.nest.alike
        if self.dialect.has_pointers and alike and arrays_in(block).issuperset(alike):
            self.code.raw(f"if ({' == '.join(map(c_name, alike))}) return;")

    def buffers(self, block: Block) -> Mapping[str, str]:
        """Return a function's parameter for each buffer that it gets."""
        given, written = dict[str, str](), arrays_written(block)
        for number, name in enumerate(buffers_of(self.nest)):
            const, type = "const " * (name not in written), C_TYPES[self.types[name].dtype]
            is_alone = name not in self.nest.shared
            given[name] = self.dialect.buffer(c_name(name), type, number, const, is_alone=is_alone)
        return given

    def counter(self, loop: Loop) -> str:
        """Return the type of a loop's index."""
        raise NotImplementedError

    def local(self, local: Local) -> None:
        """Write the declaration of a local array."""
        raise NotImplementedError

    def fetch(self, fetch: Fetch) -> None:
        """Write what fetches an element, where that helps."""

    def loop(self, loop: Loop) -> None:
        """Write a loop."""
        with self.head(loop):
            self.statements(loop.body)

    def head(self, loop: Loop) -> AbstractContextManager[None]:
        """Write the head of a loop; what is added next goes inside."""
        start, size = map(self.code.index, loop.ends)
        name, pragma = c_name(loop.name), self.pragma(loop)
        return self.code.repeat(self.counter(loop), name, size, pragma, start)

    def pragma(self, loop: Loop) -> tuple[str, str] | None:
        """Return the pragma for a loop: a word of the dialect's, and its argument."""
        return ("unroll", str(loop.size)) if loop.kind == "unroll" else None

    def set(self, update: Set) -> None:
        """Write an assignment."""
        code, is_wide = self.code, self.arrays.is_wide(update.name)
        dtype, ops = self.types[update.name].dtype, FOLDED[update.how]
        with code.branch("" if is_wide else self.first):
            target, how, since = self.arrays.place(update.name, update.index), "=", len(code.block)
            exact = exact_terms(update, self.exact)
            if (value := self.terms.added(update, target, exact)) is not None:
                pass
            elif update.how == "=" and not is_wide:
                value = self.terms.stored(update.term, dtype, exact)
            else:
                value = self.terms.text(update.term, exact)
                if update.how == "+=" and dtype in IN_PLACE:
                    how = "+="
                elif update.how != "=":
                    joined = self.joined(update, dtype, value)
                    value = value._replace(text=joined if is_wide else code.stored(joined, dtype))
            type = code.undeclared(target, since) if is_wide and update.how == "=" else ""
            if type:
                code.declare(type, target, value.text, value.ops)
            else:
                code.assign(target, value.text, how, (*value.ops, *ops))

    def joined(self, update: Set, dtype: DType, value: Text) -> str:
        """Return a target and a value joined: added up, or the larger of the two."""
        near = DType.float32 if dtype.is_half else dtype
        old = self.arrays.element(update.name, update.index)
        if update.how == "+=" and near.is_float:
            return f"{old} + {value.at(PRODUCT)}"
        which = "max" if update.how == "max=" else "add"
        return self.code.call(f"lab_{which}_{near.short}", old, value.text)
