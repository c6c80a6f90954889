"""Parsers for single types and ops of the text form, and stand-ins for ops not defined here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import make_dataclass
from functools import lru_cache
from typing import Final, cast

from luminal_lab.core.dims import Dim, Shape, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR
from luminal_lab.core.op import NAME, Op, TensorType
from luminal_lab.core.parse import LINE_PARTS, Reader
from luminal_lab.errors import DefinitionError, LabError
from luminal_lab.scanner import Piece

OP: Final = re.compile(LINE_PARTS[2][0])
TYPES: Final = re.compile(LINE_PARTS[5][0])


class Fragments:
    """Parses types and ops, given the dims and the graphs of calls.

    >>> parts = Fragments(["n: 1..64"])
    >>> (x,) = parts.types("f32[n, 4]")
    >>> parts.op("sum_reduce{axis = 1}", x)
    SumReduce(axis=1)
    >>> parts.op("my_op{axis = 1}", x).name
    'my_op'
    """

    def __init__(self, dims: Iterable[str]) -> None:
        self._dims: dict[str, Symbol] = {}
        for text in dims:
            self._reader(text).declare(Piece(0, text))

    def types(self, text: str) -> tuple[TensorType, ...]:
        """Return the types that a line ends in."""
        reader = self._reader(text)
        if not TYPES.fullmatch(text):
            reader.fail(Piece(0, text), "this is not a type")
        return reader.read_types(Piece(0, text))

    def op(self, text: str, type: TensorType, bodies: Mapping[str, IR] | None = None) -> Op:
        """Return the op of a line, with its fields; the type is that of the line's result.

        An op that cannot be read, the user's own or a newer version's, becomes an op in name only.
        """
        reader = self._reader(text, bodies or {})
        if not OP.fullmatch(text):
            reader.fail(Piece(0, text), "this is not an op")
        try:
            return reader.op(Piece(0, text), type)
        except LabError:
            if bodies:  # a call's body must be there
                raise
            return absent(text, type)

    def _reader(self, text: str, bodies: Mapping[str, IR] | None = None) -> Reader:
        known = dict(bodies or {})
        reader = Reader(text, "", dict.fromkeys(["", *known], Piece(0, "")), {**known})
        reader.dims = self._dims
        return reader


# -- ops in name only ------------------------------------------------------------------------------


def absent(text: str, type: TensorType) -> Op:
    """Return an op with the name, the fields and the type in a text, but without meaning.

    >>> op = absent("my_op{axis = 1}", TensorType(DType.float32, (2,)))
    >>> from luminal_lab.core.printer import op_text
    >>> op_text(op)
    'my_op{axis = 1}'
    """
    name, _, rest = text.partition("{")
    fields: dict[str, str] = {}
    for part in Piece(0, rest.rpartition("}")[0]).split():
        field, _, value = part.text.partition("=")
        fields[field.strip()] = value.strip()
    for field in fields:
        if not (field.isidentifier() and NAME.fullmatch(field)) or hasattr(Op, field):
            raise DefinitionError(f"{text}: {field!r} is not the name of a field")
    cls = _absent(name.strip(), tuple(fields))
    return cls(**fields, **{DTYPE: type.dtype, SHAPE: type.shape})


DTYPE, SHAPE = "result_dtype", "result_shape"


def is_absent(op: Op) -> bool:
    """Return whether an op is one in name only."""
    return type(op).in_type == (DTYPE, SHAPE)


@lru_cache(1024)
def _absent(name: str, fields: tuple[str, ...]) -> type[Op]:
    def infer(self: Op, *_: TensorType) -> TensorType:
        return TensorType(cast(DType, getattr(self, DTYPE)), cast(Shape, getattr(self, SHAPE)))

    def evaluate(self: Op, *_: object) -> object:
        raise DefinitionError(
            f"{self.name}: nobody has defined this op here, and what it computes is not known",
            hint="define the class of the op, as where the graph was written, and open it again",
        )

    # The value of a field is its text, printed verbatim like a dim's.
    types: Sequence[tuple[str, object]] = [*((field, Dim) for field in fields)]
    cls = make_dataclass(
        "Absent",
        [*types, (DTYPE, DType), (SHAPE, Shape)],
        bases=(Op,),
        frozen=True,
        eq=False,
        namespace={
            "__doc__": "An op in name only.",
            "in_type": (DTYPE, SHAPE),
            "infer": infer,
            "eval": evaluate,
        },
    )
    # Set last, so that it is not registered: the real op may still be defined.
    cls.name = name
    return cls
