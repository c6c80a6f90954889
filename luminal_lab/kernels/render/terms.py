"""Terms as C expressions: brackets only where C needs them, names for what is long or used twice.

    a[i] + b[i] * -1.0          →    a[i] - b[i]
    exp2(x[i] - t) * recip(l)   →    lab_exp2_f32(x[i] - t) * lab_recip_f32(l)

16-bit floats are computed in float32, and rounded when they are stored or cast, from or to.
"""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from typing import NamedTuple

import numpy as np

from luminal_lab.core.dims import Symbol, bounds
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Add, BitAnd, Bitcast, BitOr, BitXor, Cast, LessThan, Mul, Where
from luminal_lab.core.ops.intrinsic import FusedMul
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Draw,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
)
from luminal_lab.kernels.nest.nest import Set
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.code import Code
from luminal_lab.kernels.render.index import ATOM, LEAST, LESS, PRODUCT, SUM, UNARY
from luminal_lab.kernels.render.values import c_type, function_of, functions_in, key_word, number

SIGNS: Mapping[type[Op], tuple[str, int, int]] = {
    LessThan: ("<", SUM, LESS),
    BitAnd: ("&", UNARY, LEAST),
    BitOr: ("|", UNARY, LEAST),
    BitXor: ("^", UNARY, LEAST),
}
"""The ops with an operator in C: how tightly its operands must bind, and how tightly it binds.

Compilers warn about bitwise operators beside other operators without brackets.
"""
WIDTH = 72
"""How long an expression may grow before its parts get names."""
SPECIAL = {"inf": "LAB_INF", "-inf": "LAB_INF", "nan": "LAB_NAN"}


class Text(NamedTuple):
    """An expression in C: how tightly it binds, and the names of the ops in it."""

    text: str
    level: int = ATOM
    ops: tuple[str, ...] = ()
    is_plain: bool = False
    """Whether it is a name or a number."""

    def at(self, least: int) -> str:
        """Return it as an operand of something that binds this tightly."""
        return self.text if self.level >= least else f"({self.text})"


Known = dict[Term, Text]
"""Terms that already have a name."""
Uses = Mapping[Term, int]
"""How often terms occur in what is written."""


class Terms:
    """Writes terms of a nest; what they need first goes into the code."""

    def __init__(self, code: Code, arrays: Arrays) -> None:
        self.code, self.arrays = code, arrays
        self.exact: AbstractSet[Term] = frozenset()
        """The terms, in what is being written, in which each op rounds."""

    def text(self, term: Term, exact: AbstractSet[Term] = frozenset()) -> Text:
        """Write what a term needs first, and return it as an expression.

        In its `exact` parts each op rounds.
        """
        return self.worked_out(term, {}, self.uses(term, exact))

    def added(self, update: Set, old: str, exact: AbstractSet[Term]) -> Text | None:
        """Return a sum with a product added that need not be rounded first; otherwise None."""
        product = fused(update, self.arrays.types[update.name].dtype)
        if product is None:
            return None
        return self.applied(product, {}, self.uses(product, exact), onto=old)

    def stored(self, term: Term, dtype: DType, exact: AbstractSet[Term]) -> Text:
        """Return a term in its form in memory; a rounded value is not rounded again."""
        if dtype.is_half:
            bits = self.arrays.bits(term)
            if bits is not None:
                return Text(bits)
            if isinstance(term, Apply) and term.op in (Cast(dtype), Bitcast(dtype)):
                return self.applied(term, {}, self.uses(term, exact), as_bits=True)
        value = self.text(term, exact)
        return value._replace(text=self.code.stored(value.text, dtype))

    def uses(self, term: Term, exact: AbstractSet[Term]) -> Uses:
        """Begin to write a term: return how often each part occurs in it."""
        self.exact = exact
        uses: dict[Term, int] = {}
        seen: set[Term] = set()
        todo = [term]
        while todo:
            part = todo.pop()
            if part not in seen:
                seen.add(part)
                todo += part.parts
                for inner in part.parts:
                    uses[inner] = uses.get(inner, 0) + 1
        return uses

    def named(self, text: Text, dtype: DType) -> Text:
        """Give a value a name, and return that."""
        if text.is_plain:
            return text
        name = self.code.fresh()
        self.code.constant(c_type(dtype), name, text.text, text.ops)
        return Text(name, is_plain=True)

    def value(self, term: Term, known: Known, uses: Uses) -> Text:
        """Return a term as an expression; if it is used again, it gets a name."""
        if term in known:
            return known[term]
        text = self.worked_out(term, known, uses)
        if term in self.exact:
            text = self.rounded(term, text)
        if uses.get(term, 0) > 1:
            text = known[term] = self.named(text, term.dtype)
        return text

    def worked_out(self, term: Term, known: Known, uses: Uses) -> Text:
        """Return a term as an expression, whether it has a name or not."""
        code = self.code
        match term:
            case Number(value=value, dtype=dtype):
                return number_c(value, dtype, code.uses)
            case Read(buffer=buffer, index=index):
                is_plain = self.arrays.is_scalar(buffer)
                return Text(self.arrays.element(buffer, index), is_plain=is_plain)
            case Lookup():
                return self.looked_up(term, known, uses)
            case Count(at=at, dtype=dtype):
                index_text = code.index(at)
                text = code.cast(index_text, DType.int64, dtype)
                return Text(text, LEAST if text == index_text else ATOM, ("iota",))
            case Draw(seed=seed, stream=stream, at=at):
                keys = f"{seed & 0xFFFFFFFF}u", f"{key_word(seed, stream)}u"
                text = code.call("lab_random", *keys, code.index(at), "lab_step")
                return Text(text, ATOM, ("random",))
            case Apply():
                return self.applied(term, known, uses)
            case Guarded():
                return self.guarded(term, known, uses)
            case _:
                raise AssertionError(term)

    # -- elements ----------------------------------------------------------------------------------

    def looked_up(self, term: Lookup, known: Known, uses: Uses) -> Text:
        """Read at a position given by a value, and note a position out of range."""
        code = self.code
        position = self.value(term.position, known, uses)
        name, size = code.fresh(), code.index(term.size, SUM)
        wrong = f"{name} < 0 || {name} >= {size}"
        code.declare("lab_i64", name, position.text, position.ops)
        code.assign("lab_wrong", wrong, "|=")
        code.assign(name, f"{wrong} ? 0 : {name}")
        at = Symbol(name, 0)
        index = (*term.index[: term.axis], at, *term.index[term.axis + 1 :])
        read = self.arrays.element(term.buffer, index)
        low, _ = bounds(term.size)
        if low is not None and low > 0:
            return Text(read, ATOM, ("gather",))
        # An empty axis has nothing to read.
        return Text(f"{size} > 0 ? {read} : 0", LEAST, ("gather",))

    def guarded(self, term: Guarded, known: Known, uses: Uses) -> Text:
        """Return a term where a condition holds, else 0; elsewhere none of it is evaluated."""
        inner = term.term
        if self.arrays.is_zero_elsewhere(term):
            return self.worked_out(inner, {}, uses)
        holds = self.code.condition(self.arrays.asked(term.holds))
        if isinstance(inner, (Read, Number)):
            # It has no name of its own, which would be read everywhere.
            return Text(f"{holds} ? {self.worked_out(inner, {}, uses).at(LESS)} : 0", LEAST)
        name = self.code.fresh()
        self.code.declare(c_type(term.dtype), name, "0")
        with self.code.branch(holds):
            value = self.value(inner, dict(known), uses)
            self.code.assign(name, value.text, ops=value.ops)
        return Text(name, is_plain=True)

    # -- ops ---------------------------------------------------------------------------------------

    def applied(
        self, term: Apply, known: Known, uses: Uses, *, onto: str = "", as_bits: bool = False
    ) -> Text:
        """Return an op on values; if that gets too long, the longest of them get names.

        With `onto` it is a product that is added to that; a cast may be needed as its 16 bits.
        """
        op, sign, args = term.op, "", list(term.args)
        near = self.arrays.converted(term)
        if near is not None:
            return Text(near, ops=(op.name,))
        dtype = DType.float32 if term.dtype.is_half else term.dtype
        if dtype.is_float and isinstance(op, (Add, Mul)) and not onto:
            sign, args = self.signed(op, args, uses)
        bits = self.arrays.bits(args[0]) if isinstance(op, Bitcast) else None
        if bits is not None:
            values = [Text(bits, is_plain=True)]
        else:
            values = [self.value(arg, known, uses) for arg in args]
        if isinstance(op, Cast):
            values = [
                value if arg in self.exact else self.rounded(arg, value)
                for arg, value in zip(args, values, strict=True)
            ]
        # Bits are as long as the float that they represent.
        room = WIDTH - len(f"lab_cast_{term.dtype.short}_f32()") * as_bits
        while True:
            text = self.written(term, sign, values, onto, as_bits=as_bits)
            longest = max(range(len(values)), key=lambda at: len(values[at].text))
            if len(text.text) <= room or values[longest].is_plain:
                break
            if not values[longest].ops and len(values[longest].text) <= WIDTH // 2:
                break
            values[longest] = self.named(values[longest], args[longest].dtype)
        # The graph has a product, whether a sum takes it rounded or not.
        own = Mul.name if isinstance(op, Mul) else op.name
        ops = dict.fromkeys([*(name for value in values for name in value.ops), own])
        return text._replace(ops=tuple(ops))

    def rounded(self, term: Term, value: Text) -> Text:
        """Return a value as its dtype holds it: in float32 a 16-bit float has excess precision."""
        if not term.dtype.is_half or self.is_exact(term):
            return value
        return Text(self.code.cast(value.text, DType.float32, term.dtype), ATOM, value.ops)

    def is_exact(self, term: Term) -> bool:
        """Return whether a 16-bit float was rounded when it was read, written down or cast."""
        match term:
            case Read(buffer=buffer):
                return not self.arrays.is_wide(buffer)
            case Guarded(term=inner):
                return self.is_exact(inner)
            case Apply(op=Where(), args=(_, *results)):
                return all(value in self.exact or self.is_exact(value) for value in results)
            case Apply(op=Mul(), args=(value, Number(value=-1))):
                return value in self.exact or self.is_exact(value)
            case Apply(op=Cast() | Bitcast()) | Lookup() | Number() | Count():
                return True
            case _:
                return False

    def signed(self, op: Add | Mul, args: list[Term], uses: Uses) -> tuple[str, list[Term]]:
        """Return how a sum or product of floats is written: a + b * -1 as a - b, to the bit."""
        left, right = args
        if isinstance(op, Mul):
            for term, other in ((left, right), (right, left)):
                if isinstance(other, Number) and other.value == -1:
                    return "-", [term]
            return "*", args
        for term, other in ((left, right), (right, left)):
            once = isinstance(other, Number) or uses.get(other, 0) <= 1
            taken = _taken(other) if once else None
            if taken is not None:
                return "-", [term, taken]
        return "+", args

    def written(
        self, term: Apply, sign: str, values: list[Text], onto: str, *, as_bits: bool
    ) -> Text:
        """Return an op on values in C."""
        op, dtype = term.op, DType.float32 if term.dtype.is_half else term.dtype
        texts = [value.text for value in values]
        if onto:
            return Text(self.code.call(f"lab_fma_{dtype.short}", *texts, onto))
        if sign:
            if len(values) == 1:
                is_plain = values[0].is_plain and values[0].level == ATOM
                return Text(f"-{values[0].at(ATOM)}", UNARY, is_plain=is_plain)
            level = PRODUCT if sign == "*" else SUM
            return Text(f"{values[0].at(level)} {sign} {values[1].at(level + 1)}", level)
        if type(op) in SIGNS:
            between, inner, level = SIGNS[type(op)]
            return Text(f" {between} ".join(value.at(inner) for value in values), level)
        match op:
            case Where():
                test, chosen, other = (value.at(LESS) for value in values)
                return Text(f"{test} ? {chosen} : {other}", LEAST)
            case Cast() | Bitcast():
                return self.converted(term, values[0], as_bits=as_bits)
            case _:
                function = op.name if isinstance(op, (Add, Mul)) else function_of(op)
                if function is not None:
                    return Text(self.code.call(f"lab_{function}_{dtype.short}", *texts))
                # The user's own form may do anything with a number, which has its type there.
                forms = [
                    number(arg.value, arg.dtype) if isinstance(arg, Number) else value.at(ATOM)
                    for arg, value in zip(term.args, values, strict=True)
                ]
                self.code.uses |= functions_in(op.c_form)
                return Text(op.c_form.format(*forms), LEAST)

    def converted(self, term: Apply, value: Text, *, as_bits: bool) -> Text:
        """Return a value in another dtype, or as its bits read as that."""
        code, source, target = self.code, term.args[0].dtype, term.dtype
        if isinstance(term.op, Cast):
            if as_bits:
                return Text(code.narrowed(value.text, source, target))
            text = code.cast(value.text, source, target)
            return value if text == value.text else Text(text)
        lies = self.arrays.bits(term.args[0]) is not None
        bits = value.text if lies else code.stored(value.text, source)
        text = code.call(f"lab_bitcast_{source.short}_{target.short}", bits)
        return Text(text if as_bits else code.widened(text, target))


def fused(update: Set, dtype: DType) -> Apply | None:
    """Return the product that a statement adds to a sum, if it need not be rounded first."""
    if update.how != "+=" or dtype not in (DType.float32, DType.float64):
        return None
    term = update.term
    return term if isinstance(term, Apply) and isinstance(term.op, FusedMul) else None


def _taken(term: Term) -> Term | None:
    """Return b for b * -1, and 2 for -2: adding these is subtracting."""
    match term:
        case Apply(op=Mul(), args=(factor, Number(value=-1))):
            return factor
        case Number(value=value, dtype=dtype) if repr(value).startswith("-"):
            return Number(-value, dtype)
        case _:
            return None


def number_c(value: bool | int | float, dtype: DType, uses: set[str] | None = None) -> Text:
    """Return a number in C; if it is a macro, that is added to `uses`.

    >>> number_c(0.5, DType.float32).text, number_c(-2, DType.int64).text
    ('0.5f', '-2')
    """
    if not dtype.is_float and abs(int(value)) >> 31:
        return Text(number(value, dtype))
    near = np.float64 if dtype is DType.float64 else np.float32
    text = str(near(value)) if dtype.is_float else str(int(value))
    level = UNARY if text.startswith("-") else ATOM
    if text in SPECIAL:
        macro = SPECIAL[text]
        if uses is not None:
            uses.add(macro)
        text = f"-{macro}" if level == UNARY else macro
    elif dtype.is_float and dtype is not DType.float64:
        text = f"{text}f"
    return Text(text, level, is_plain=True)
