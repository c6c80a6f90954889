"""Text to nest: the inverse of printing a `Nest`, whose file shows the grammar."""

import re
from dataclasses import replace
from typing import cast, get_args

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, known
from luminal_lab.core.op import TensorType
from luminal_lab.core.parse import TYPE
from luminal_lab.errors import nearest
from luminal_lab.kernels.definition.definition import Buffer
from luminal_lab.kernels.definition.terms import Read, Term, axis_of
from luminal_lab.kernels.definition.text import DEEPEST, FOLD, WORD, DefinitionReader
from luminal_lab.kernels.nest.nest import (
    Block,
    Fetch,
    How,
    Kind,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    When,
    extent_of,
)
from luminal_lab.scanner import Piece

SPACES = "memory, scratch, shared or registers"
LOOP = rf"{WORD}(?:\.{WORD})?+"
"""The name of a loop: its axis, and its level if the axis has several."""
HEAD = re.compile(rf"({'|'.join(get_args(Kind))})\s++(?=(?:[^\n:=]*?<=\s*+)?{LOOP}\s*+<(?!=))")
LATER = "for", "simd"
"""The kinds of loops that may begin later than at 0."""
SINCE = re.compile(rf"(?!{LOOP}\s*+<(?!=))")
"""A lookahead for a loop that says where it begins."""
AT = re.compile(r"at\b(?!\s*+(?:\[|=|\+=|max=))")
OVER = re.compile(rf"({WORD})\s++over\s++(?={WORD})")
IF = re.compile(r"if\b(?!\s*+(?:\[|=|\+=|max=))")
LOCAL = re.compile(rf"local\s++(?={WORD}\s*+:)")
FETCH = re.compile(rf"fetch\s++(?={WORD})")


def parse_nest(text: str) -> Nest:
    """Read a nest from its text form.

    >>> print(parse_nest('''
    ... nest double(x: f32[n]) -> (y: f32[n])
    ...   simd i < n:
    ...     y[i] = x[i] * 2.0
    ... '''))
    nest double(x: f32[n]) -> (y: f32[n])
      simd i < n:
        y[i] = x[i] * 2.0
    """
    return NestReader(text).nest()


class NestReader(DefinitionReader):
    """Reads nests: statements line by line, with the terms of definitions."""

    kind = "nest"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.given: set[str] = set()
        """The inputs, which are never written."""
        self.written: set[str] = set()
        """The outputs."""
        self.used: dict[str, str] = {}
        """The meaning of each name used anywhere so far."""
        self.arrays: list[str] = []
        """The locals that are known here, in order."""
        self.blocks = 0
        """The number of blocks around."""

    def nest(self) -> Nest:
        """Read the header and the statements."""
        name, inputs, returned = self.signature("nest")
        self.given = {buffer.name for buffer in inputs}
        outputs = [Buffer(piece.text, type) for piece, type in returned]
        self.written = {buffer.name for buffer in outputs}
        for what, buffers in (("an input", inputs), ("an output", outputs)):
            for buffer in buffers:
                self.array(buffer.name, buffer.type)
                self.used[buffer.name] = what
        for piece, _ in returned:
            if piece.text in self.dims:
                self.fail(piece, f"{piece.text!r} is the name of a dim already")
        self.used |= dict.fromkeys(self.dims, "a dim")
        over = self.over() if self.match(OVER) else ""
        body = self.block(-1) if self.pos < len(self.text) else ()
        return Nest(name, tuple(inputs), tuple(outputs), body, over)

    def over(self) -> str:
        """Read which input the only output may be written over."""
        output = self.take(WORD, "an output")
        self.take("over", "'over' and an input")
        name = self.take(WORD, "an input")
        if {output.text} != self.written or name.text not in self.given:
            self.fail(output, "the only output is over an input")
        if self.types[output.text] != self.types[name.text]:
            self.fail(name, f"{name.text} and {output.text} have different types")
        return name.text

    def array(self, name: str, type: TensorType) -> None:
        """Make an array known from here on."""
        self.types[name] = type
        self.arrays.append(name)
        if not type.shape:
            self.parts[name] = Read(name, (), type.dtype)

    # -- statements --------------------------------------------------------------------------------

    def indent(self) -> int:
        """Return the indent of the next token if it is the first on its line."""
        start = self.text.rfind("\n", 0, self.pos) + 1
        if self.text[start : self.pos].strip():
            self.fail(self.here, "a new line should begin here")
        return self.pos - start

    def block(self, outer: int) -> Block:
        """Read the statements indented further than those around."""
        width = self.indent()
        if width <= outer:
            message = f"a block indented by more than {outer} should be here"
            self.fail(self.here, message)
        self.blocks += 1
        if self.blocks > DEEPEST:
            self.fail(self.here, f"blocks are nested more than {DEEPEST} deep")
        outside = len(self.arrays)
        statements: list[Statement] = []
        while self.pos < len(self.text) and (here := self.indent()) > outer:
            if here != width:
                message = f"this line is indented by {here}, and those above by {width}"
                self.fail(self.here, message)
            statements.append(self.statement(width))
        for name in self.arrays[outside:]:
            del self.types[name]
            self.parts.pop(name, None)
        del self.arrays[outside:]
        self.blocks -= 1
        return tuple(statements)

    def statement(self, width: int) -> Statement:
        """Read one statement, with its block."""
        if match := self.take_if(HEAD):
            return self.loop(cast(Kind, match[1]), width)
        if self.take_if(AT):
            position = self.term()
            self.take(r"as\b", "'as' and an axis")
            if self.match(SINCE):
                self.fail(self.here, "an axis should be here")
            return replace(self.loop("for", width), position=position)
        if self.take_if(IF):
            holds = self.dim(self.until_mark(":"))
            self.take(":", "':' and a block")
            return When(holds, self.block(width))
        if self.take_if(LOCAL):
            return self.local()
        if self.take_if(FETCH):
            return self.fetch()
        return self.set()

    def new(self, name: Piece, what: str) -> None:
        """Refuse a name that stands for something else; all names of a nest differ."""
        if name.text in self.used:
            self.fail(name, f"{name.text!r} is the name of {self.used[name.text]} already")
        self.used[name.text] = what

    def loop(self, kind: Kind, width: int) -> Loop:
        """Read a loop after its kind."""
        start: Dim = 0
        if self.match(SINCE):
            piece = self.until_mark("<")
            start = self.dim(piece)
            if kind not in LATER:
                message = (
                    f"{kind} loops begin at 0; those that may begin later are {' and '.join(LATER)}"
                )
                self.fail(piece, message)
            if known(start >= 0) is not True:
                message = f"{start} may be below 0, where no loop begins"
                self.fail(piece, message, f"write max(0, {start})")
            self.take("<=", "'<=' and an axis")
        name = self.take(LOOP, "an axis")
        self.new(name, "a loop")
        self.take("<", "'<' and the size of the loop")
        piece = self.until_mark(":")
        text, of, _ = piece.text.partition(" of ")
        size = self.dim(Piece(piece.at, text.rstrip()))
        full: Dim | None = extent_of(size, self.axes)
        if of:
            full = self.dim(piece.part(len(text) + len(of)))
        if full is None:
            hint = f"write how many it has at most, as in {name.text} < {size} of 8"
            self.fail(piece, f"the size of {name.text} is another for each axis around it", hint)
        self.take(":", "':' and a block")
        with self.blaming(name):
            self.axes[name.text] = axis = axis_of(name.text, full)
        body = self.block(width)
        del self.axes[name.text]
        return Loop(axis, size, body, kind, start=start)

    def local(self) -> Local:
        """Read the declaration of an array."""
        name = self.take(WORD, "the name of the local")
        self.new(name, "a local")
        self.take(":", "':' and the type")
        type = self.type(self.take(TYPE, "a type such as f32[4, 8]"))
        self.take(r"in\b", f"'in' and {SPACES}")
        space = self.take(WORD, SPACES)
        if space.text not in get_args(Space):
            hint = nearest(space.text, get_args(Space))
            self.fail(space, f"a local is in {SPACES}", hint)
        self.array(name.text, type)
        return Local(name.text, type, cast(Space, space.text))

    def set(self) -> Set:
        """Read an assignment."""
        name = self.take(WORD, "a loop, a condition, a local, or an assignment such as y[i] = x[i]")
        if name.text not in self.types:
            hint = nearest(name.text, self.types) or "a local is declared before it is used"
            self.fail(name, f"there is no array {name.text!r} here", hint)
        if name.text in self.given:
            self.fail(name, f"{name.text} is an input, which nothing writes")
        index, type = self.index(name, "written"), self.types[name.text]
        how = self.take(r"=|\+=|max=", "'=', '+=' or 'max=' and a term")
        start = self.here
        term = self.term()
        if term.dtype is not type.dtype:
            message = f"{name.text} is {type}, but the term is {term.dtype.short}"
            self.fail(start, message, f"{type.dtype.short}(…) converts it")
        return Set(name.text, index, term, cast(How, how.text))

    def index(self, name: Piece, what: str) -> Shape:
        """Read an index of an array."""
        index: list[Dim] = []
        if self.accept("["):
            index += [self.dim(self.until_mark("[,]")) for _ in self.until("]")]
        self.check_places(name, len(index), what)
        return tuple(index)

    def fetch(self) -> Fetch:
        """Read a fetch."""
        name, known = self.take(WORD, "an input or output"), self.given | self.written
        if name.text not in known:
            self.fail(
                name,
                f"{name.text!r} is neither an input nor an output, and only those are fetched",
                nearest(name.text, known),
            )
        return Fetch(name.text, self.index(name, "fetched"))

    @override
    def call(self, name: Piece) -> Term:
        if self.used.get(name.text) == "a local" and not self.is_at("("):
            self.fail(name, f"there is no {name.text!r} here: it ended with its block")
        return super().call(name)

    # -- what nests do not have --------------------------------------------------------------------

    @override
    def fold(self) -> Term | None:
        match = self.match(FOLD)
        if match is not None:
            hint = "a loop that adds to a local with += or max= is one"
            self.fail(Piece(self.pos, match[1]), "terms of nests have no folds", hint)
        return None

    @override
    def folded_pass(self) -> Term | None:
        match = self.values_ahead()
        if match is not None:
            self.fail(Piece(match.start("names"), match["names"]), "terms of nests have no folds")
        return None
