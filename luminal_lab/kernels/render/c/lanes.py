"""Terms in vector loops: all lanes at once, in the vector types of gcc and clang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from typing_extensions import override

from luminal_lab.core.dims import Dim, substitute
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Add, Cast, Mul
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.terms import Apply, Number, Read, Term, walk
from luminal_lab.kernels.nest.nest import Block, Fetch, Loop, Nest, Set, arrays_in
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.prelude.rows import COMPUTED
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.code import Code
from luminal_lab.kernels.render.index import PRODUCT, SUM
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.terms import Text, fused, number_c
from luminal_lab.kernels.render.writer import FOLDED


class CArrays(Arrays):
    """The arrays of a nest on a CPU: some in registers are vectors."""

    def __init__(self, nest: Nest, code: Code) -> None:
        super().__init__(nest, code)
        self.hidden: dict[str, Dim] = {}
        """For axes of loops around: the same place, as the compiler does not know it."""
        self.floats: dict[Read, str] = {}
        """The reads that have been made floats ahead of a loop, and where these are."""

    @cached_property
    def as_vectors(self) -> Mapping[str, int]:
        """The arrays in registers that vector loops use, with the width."""
        widths: dict[str, int] = {}
        for loop in self.nest.loops.values():
            if loop.kind == "vector" and isinstance(loop.size, int):
                for name in arrays_in(loop.body):
                    local = self.nest.locals.get(name)
                    if local is None or local.space != "registers" or not local.type.shape:
                        continue
                    if widths.setdefault(name, loop.size) != loop.size:
                        raise ScheduleError(
                            f"vector {loop.name}: it has {loop.size} lanes, and {name} is in "
                            f"vectors of {widths[name]}"
                        )
        return widths

    def vector(self, dtype: DType, width: int) -> str:
        """Return the name of a vector type."""
        return self.code.use(f"lab_{dtype.short}x{width}")

    @override
    def place(self, name: str, index: Iterable[Dim]) -> str:
        width = self.as_vectors.get(name)
        if width is None:
            return super().place(name, index)
        # One lane of an array of vectors.
        flat = self.nest.flat(name, index)
        return f"{c_name(name)}[{self.code.index(flat // width)}][{self.code.index(flat % width)}]"

    @override
    def element(self, name: str, index: Iterable[Dim]) -> str:
        index = tuple(index)
        found = self.floats.get(Read(name, index, self.types[name].dtype)) if self.floats else None
        return super().element(name, index) if found is None else found

    @override
    def converted(self, term: Apply) -> str | None:
        is_widened = self.floats and term.op == Cast(DType.float32)
        read = term.args[0]
        return self.floats.get(read) if is_widened and isinstance(read, Read) else None

    @override
    def asked(self, holds: Dim) -> Dim:
        return substitute(holds, self.hidden)


class VectorWriter:
    """Writes a vector loop: its statements for all lanes."""

    def __init__(self, arrays: CArrays, loop: Loop) -> None:
        assert isinstance(loop.size, int)
        self.arrays, self.code = arrays, arrays.code
        self.types = arrays.types
        self.axis, self.width = loop.axis, loop.size

    def statements(self, block: Block, fetch: Callable[[Fetch], None]) -> None:
        """Write statements; an element that is fetched is that of the first lane."""
        for statement in block:
            match statement:
                case Set():
                    self.set(statement)
                case Fetch(index=index):
                    first = tuple(substitute(dim, {self.axis.name: 0}) for dim in index)
                    fetch(replace(statement, index=first))
                case _:
                    raise self.refuse("lanes can only be assigned and added to")

    def refuse(self, why: str) -> ScheduleError:
        """Return the error that says why a loop cannot be one of vectors."""
        return ScheduleError(
            f"vector {self.axis}: {why}", hint="a simd loop leaves it to the compiler"
        )

    def set(self, update: Set) -> None:
        """Write an assignment to all lanes."""
        dtype, ops = self.types[update.name].dtype, FOLDED[update.how]
        target = self.lanes_at(update.name, update.index, write=True)
        if target is None:
            raise self.refuse(f"neighbours along it do not lie side by side in {update.name}")
        if update.how == "max=":
            raise self.refuse(f"the maximum in {update.name} has no form for vectors")
        if dtype.is_half and not (update.how == "=" and isinstance(update.term, Read)):
            raise self.refuse(f"{update.name} is {dtype.short}, and is computed in f32")
        product = fused(update, dtype)
        if product is not None:
            left, right = (self.lanes(arg) for arg in product.args)
            kind = self.arrays.vector(dtype, self.width)
            text = self.code.call("LAB_FMA", kind, left.text, right.text, target)
            self.code.assign(target, text, ops=(*left.ops, *right.ops, Mul.name, *ops))
            return
        value = self.lanes(update.term)
        text = value.text
        if update.how == "=" and not self.varies(update.term):
            zeros = f"({self.arrays.vector(dtype, self.width)}){{0}}"
            # Less zeros, as -0.0 plus zero would be another.
            text = zeros if update.term == Number(0, dtype) else f"{value.at(SUM)} - {zeros}"
        self.code.assign(target, text, update.how, (*value.ops, *ops))

    def varies(self, term: Term) -> bool:
        """Return whether a term is a vector, and not one value for all lanes."""
        return any(
            isinstance(part, Read)
            and (part.buffer in self.arrays.as_vectors or self.stride(part.buffer, part.index) != 0)
            for part in walk(term)
        )

    def lanes(self, term: Term) -> Text:
        """Return a term for all lanes at once: a vector, or one value for all."""
        match term:
            case Number(value=value, dtype=dtype):
                return number_c(value, dtype, self.code.uses)
            case Read(buffer=buffer, index=index):
                elements = self.lanes_at(buffer, index)
                if elements is not None:
                    return Text(elements)
            case Apply(op=Add() | Mul() as op, args=(a, b), dtype=dtype) if dtype in COMPUTED:
                sign, level = ("+", SUM) if isinstance(op, Add) else ("*", PRODUCT)
                left, right = self.lanes(a), self.lanes(b)
                text = f"{left.at(level)} {sign} {right.at(level + 1)}"
                return Text(text, level, (*left.ops, *right.ops, op.name))
            case _:
                pass
        raise self.refuse(f"{term} has no form for vectors")

    def stride(self, name: str, index: Iterable[Dim]) -> Dim:
        """Return how far apart in an array neighbours along the lanes are."""
        return slope(self.arrays.nest.flat(name, index), self.axis)

    def lanes_at(self, name: str, index: Iterable[Dim], *, write: bool = False) -> str | None:
        """Return the elements of an array along the axis of lanes, or one that all read."""
        if self.arrays.is_scalar(name):
            return None if write else c_name(name)
        type, dims = self.types[name], tuple(index)
        stride = self.stride(name, dims)
        start = substitute(self.arrays.nest.flat(name, dims), {self.axis.name: 0})
        if stride == 0 and not write:
            one = f"{c_name(name)}[{self.code.index(start)}]"
            return one if name not in self.arrays.as_vectors and not type.dtype.is_half else None
        if stride != 1:
            return None
        if name in self.arrays.as_vectors:
            return f"{c_name(name)}[{self.code.index(start // self.width)}]"
        kind = self.arrays.vector(type.dtype, self.width)
        at = f"{c_name(name)} + {self.code.index(start, PRODUCT)}"
        return self.code.call("LAB_LANES", kind, at)
