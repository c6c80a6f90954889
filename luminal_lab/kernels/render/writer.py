"""Statements of a nest as source, as all languages have them: loops, conditions, sets, updates."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
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
)
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.exact import exact_terms
from luminal_lab.kernels.render.index import PRODUCT, SUM
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.terms import Terms, Text

FOLDED = {"=": (), "+=": ("sum_reduce",), "max=": ("max_reduce",)}
"""The ops behind the ways to assign."""
IN_PLACE = DType.float32, DType.float64, DType.int32, DType.int64
"""The dtypes whose sums C's own += makes."""


class Writer:
    """Writes the statements of a nest; loops of a kind may be written by others."""

    def __init__(self, arrays: Arrays, exact: AbstractSet[str]) -> None:
        self.arrays, self.code = arrays, arrays.code
        self.nest: Nest = arrays.nest
        self.types = arrays.types
        self.dialect: Dialect = self.code.dialect
        self.terms = Terms(self.code, arrays)
        self.exact = exact
        """The arrays of whose elements each op rounds."""
        self.first = ""
        """What holds of the one thread among several alike that sets what others see."""

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
        """Write what is done at a position that is a value, and note one that is none."""
        code, name, size = self.code, c_name(loop.name), self.code.index(loop.size, SUM)
        value = self.terms.text(position)
        code.constant("lab_i64", name, value.text, value.ops)
        with code.branch(f"{name} < 0 || {name} >= {size}"):
            code.assign("lab_wrong", "1")
        with code.branch(f"{name} >= 0 && {name} < {size}"):
            self.statements(loop.body)

    def in_place(self, block: Block) -> None:
        """Write the end of a function that copies what it need not where the result lies there."""
        alike = self.nest.alike
        if alike and arrays_in(block).issuperset(alike):
            self.code.raw(f"if ({' == '.join(map(c_name, alike))}) return;")

    def counter(self, loop: Loop) -> str:
        """Return the type of a loop's index."""
        raise NotImplementedError

    def local(self, local: Local) -> None:
        """Write the declaration of a local array."""
        raise NotImplementedError

    def fetch(self, fetch: Fetch) -> None:
        """Write what brings an element near, where that helps."""

    def loop(self, loop: Loop) -> None:
        """Write a loop."""
        with self.head(loop):
            self.statements(loop.body)

    def head(self, loop: Loop) -> AbstractContextManager[None]:
        """Write the head of a loop; what is added next stands in it."""
        size = self.code.index(loop.size)
        return self.code.repeat(self.counter(loop), c_name(loop.name), size, self.pragma(loop))

    def pragma(self, loop: Loop) -> tuple[str, str] | None:
        """Return what the compiler is told of a loop: a word of the dialect's, and more."""
        return ("unroll", str(loop.size)) if loop.kind == "unroll" else None

    def set(self, update: Set) -> None:
        """Write an assignment."""
        code, is_wide = self.code, self.arrays.is_wide(update.name)
        dtype, ops = self.types[update.name].dtype, FOLDED[update.how]
        with code.branch("" if is_wide else self.first):
            target, exact = (
                self.arrays.place(update.name, update.index),
                exact_terms(update, self.exact),
            )
            if (fused := self.terms.added(update, target, exact)) is not None:
                code.assign(target, fused.text, ops=(*fused.ops, *ops))
                return
            if update.how == "=":
                since = len(code.block)
                if is_wide:
                    value = self.terms.text(update.term, exact)
                else:
                    value = self.terms.stored(update.term, dtype, exact)
                type = code.undeclared(target, since) if is_wide else ""
                if type:
                    code.declare(type, target, value.text, value.ops)
                else:
                    code.assign(target, value.text, ops=value.ops)
                return
            value = self.terms.text(update.term, exact)
            if update.how == "+=" and dtype in IN_PLACE:
                code.assign(target, value.text, "+=", (*value.ops, *ops))
                return
            joined = self.joined(update, dtype, value)
            text = joined if is_wide else code.stored(joined, dtype)
            code.assign(target, text, ops=(*value.ops, *ops))

    def joined(self, update: Set, dtype: DType, value: Text) -> str:
        """Return what is in a place and a value, added up or the larger of both."""
        near = DType.float32 if dtype.is_half else dtype
        old = self.arrays.element(update.name, update.index)
        if update.how == "+=" and near.is_float:
            return f"{old} + {value.at(PRODUCT)}"
        which = "max" if update.how == "max=" else "add"
        return self.code.call(f"lab_{which}_{near.short}", old, value.text)
