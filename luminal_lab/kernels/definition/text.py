"""Text to definition: the inverse of printing a `Definition`, whose file shows the grammar."""

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Expr, Symbol, symbols
from luminal_lab.core.dtypes import SHORT, DType
from luminal_lab.core.op import OPS, Elementwise, Op, TensorType, fields_of
from luminal_lab.core.ops import Add, Cast, Constant, LessThan, MaxReduce, Mod, Mul, SumReduce
from luminal_lab.core.ops.intrinsic import FlushedMul, FusedMul
from luminal_lab.core.parse import TYPE, TypeReader
from luminal_lab.errors import ParseError, nearest
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.substitution import counted
from luminal_lab.kernels.definition.terms import (
    Apply,
    Draw,
    Fold,
    FoldKind,
    FoldState,
    Guarded,
    Lookup,
    Number,
    Read,
    States,
    Term,
    axis_of,
)
from luminal_lab.scanner import GAP, Piece

T = TypeVar("T", bound=Term)
WORD = r"[A-Za-z_]\w*+"
TERM = rf"{WORD}(?:(?:\.{WORD})++(?=[{{(]))?"
"""A part, an array, or an op, whose name may have dots."""
SUFFIX = rf"(?:{'|'.join(SHORT)})\b"
NUMBER = re.compile(
    rf"(-?(?:[0-9]++(?:\.[0-9]*+)?(?:e[-+]?[0-9]++)?|(?:inf|nan)(?:\b|(?=_{SUFFIX})))|(?:true|false)\b)"
    rf"(?:_({SUFFIX}))?"
)
LET = re.compile(rf"let\b{GAP}({WORD}){GAP}={GAP}")
FOLD = re.compile(rf"(sum|max)\s++(?={WORD}\s*+<)")
PASS = re.compile(
    rf"(?P<open>[(\[])|(?P<close>[)\]])|(?P<end>[,;:\n])"
    rf"|\bwhere{GAP}\({GAP}(?P<names>{WORD}{GAP}(?:,{GAP}{WORD}{GAP})*+)\){GAP}={GAP}fold\b{GAP}"
)
"""The text between the result of a pass and the names of its values, which follow."""
DEEPEST = 100
"""The most nested terms in a text, and blocks; the limit comes before Python's own stack ends."""
DEEPEST_TERM = 200
"""The most nested terms, counting each summand of a long sum, which contains the sum before it."""
MOST_LETTERS = 1 << 22
"""The longest definition or nest as text: 4 million characters."""


def parse_definition(text: str) -> Definition:
    """Read a definition from its text form.

    >>> definition = parse_definition('''
    ... kernel norm(x: f32[n, 64]) -> (y: f32[n])
    ...   y[i < n] = sqrt(sum j < 64: x[i, j] * x[i, j])
    ... ''')
    >>> print(definition)
    kernel norm(x: f32[n, 64]) -> (y: f32[n])
      y[i < n] = sqrt(sum j < 64: x[i, j] * x[i, j])
    """
    return DefinitionReader(text).definition()


class Header(NamedTuple):
    """The inputs and outputs of a kernel, and its bounded dims by name."""

    name: str
    dims: Mapping[str, Symbol]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]


def parse_header(text: str) -> Header:
    """Read the first line of a definition alone.

    >>> parse_header("kernel scale(x: f32[n]) -> (y: f32[n])").outputs
    (Buffer(name='y', type=f32[n]),)
    """
    reader = DefinitionReader(text)
    name, inputs, outputs = reader.signature()
    if reader.pos < len(text):
        reader.fail(Piece(reader.pos, ""), "the header should end here")
    buffers = [Buffer(piece.text, type) for piece, type in outputs]
    return Header(name, reader.dims, tuple(inputs), tuple(buffers))


class DefinitionReader(TypeReader):
    """Reads definitions, and the terms of nests."""

    kind: ClassVar[str] = "definition"

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
            raise ParseError(
                f"parse_{self.kind}: needs a text, and not a {text.__class__.__name__}",
                hint=f"str({self.kind}) writes one",
            )
        if len(text) > MOST_LETTERS:
            raise ParseError(f"a kernel's text has more than {MOST_LETTERS:,} letters")
        super().__init__(text)
        self.has_passes = " fold" in text
        self.depth = 0
        self.types: dict[str, TensorType] = {}
        """The types of readable arrays: inputs and the locals so far."""
        self.axes: dict[str, Symbol] = {}
        """The axes of the line and the folds that are being read."""
        self.parts: dict[str, Term] = {}
        """The meanings of the names of terms."""
        self.depths: dict[int, tuple[Term, int]] = {}
        """How deep the parts of a term are, by identity."""

    # -- the definition ----------------------------------------------------------------------------

    def signature(
        self, word: str = "kernel"
    ) -> tuple[str, list[Buffer], list[tuple[Piece, TensorType]]]:
        """Read the name, the dims with bounds, the inputs and the outputs."""
        name = self.header(word, f"a line such as: {word} name(x: f32[2]) -> (y: f32[2])")
        inputs = self.buffers("inputs")
        self.take("->", "'->' and the outputs")
        given = [Buffer(piece.text, type) for piece, type in inputs]
        self.types = dict(given)
        return name, given, self.buffers("outputs")

    def definition(self) -> Definition:
        """Read a definition."""
        name, given, outputs = self.signature()
        wanted = {piece.text: type for piece, type in outputs}
        lines_by_name: dict[str, Output] = {}
        while self.pos < len(self.text):
            line = self.line(wanted, lines_by_name)
            lines_by_name[line.name] = line
        for piece, _ in outputs:
            if piece.text not in lines_by_name:
                hint = "each output has a line that says what its elements are"
                self.fail(piece, f"the output {piece.text!r} has no line", hint)
        inner = [line for name, line in lines_by_name.items() if name not in wanted]
        ordered = [lines_by_name[output] for output in wanted]
        return Definition(name, tuple(given), tuple(ordered), tuple(inner))

    def buffers(self, kind: str) -> list[tuple[Piece, TensorType]]:
        """Read the arrays in a header's parentheses."""
        self.take(r"\(", f"'(' and the {kind}")
        buffers: list[tuple[Piece, TensorType]] = []
        names: set[str] = set()
        for _ in self.until(")"):
            name = self.take(WORD, "the name of a buffer")
            if name.text in self.types or name.text in names:
                self.fail(name, f"the buffer {name.text!r} is listed twice")
            names.add(name.text)
            self.take(":", "':' and the type")
            buffers.append((name, self.type(self.take(TYPE, "a type such as f32[4, 8]"))))
        return buffers

    def line(self, wanted: Mapping[str, TensorType], known_lines: Mapping[str, Output]) -> Output:
        """Read the definition of one array."""
        name = self.take(WORD, "a line such as y[i < 4] = x[i], or an operator,")
        if name.text in known_lines or name.text in self.types:
            self.fail(name, f"{name.text!r} is there already")
        self.take(r"\[", "'[' and the axes")
        self.axes, axes, sizes = {}, list[Symbol](), list[Dim]()
        for _ in self.until("]"):
            axis, size = self.axis()
            axes.append(axis)
            sizes.append(size)
        self.take("=", "'=' and the term")
        start = self.here
        term = self.term()
        type = TensorType(term.dtype, tuple(sizes))
        if name.text in wanted and wanted[name.text] != type:
            message = f"{name.text} is {wanted[name.text]}, but its line makes {type}"
            self.fail(name if wanted[name.text].shape != type.shape else start, message)
        if name.text not in wanted:
            self.types[name.text] = type
        return Output(name.text, type, tuple(axes), term)

    def axis(self, end: str = ",]") -> tuple[Symbol, Dim]:
        """Read `i < n`, and make the axis known from here on."""
        name = self.take(WORD, "an axis such as i < 4")
        self.take("<", "'<' and the size of the axis")
        piece = self.until_mark(end)
        size = self.checked_dim(piece, self.dims, declare=False)
        for kind, names in (("a dim", self.dims), ("an axis", self.axes), ("a term", self.parts)):
            if name.text in names:
                self.fail(name, f"{name.text!r} is the name of {kind} already")
        with self.blaming(name):
            self.axes[name.text] = axis = axis_of(name.text, size)
        return axis, size

    # -- terms -------------------------------------------------------------------------------------

    def term(self) -> Term:
        """Read a term as far as it goes."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(self.here, f"terms are nested more than {DEEPEST} deep")
        lets: list[str] = []
        while match := self.take_if(LET):
            lets.append(self.let(match))
        term = self.fold() or self.folded_pass() or self.comparison()
        for name in lets:
            del self.parts[name]
        self.depth -= 1
        return term

    def let(self, match: re.Match[str]) -> str:
        """Read a term that has a name from here on, and return that."""
        name = Piece(match.start(1), match[1])
        if any(name.text in known for known in (self.axes, self.dims, self.parts)):
            self.fail(name, f"{name.text!r} is a name already")
        part = self.term()
        self.take(";", "';' and the term that the name stands in")
        self.parts[name.text] = part
        return name.text

    def noted(self, term: T, piece: Piece) -> T:
        """Note how deep a term is, and return it unless it is too deep."""
        deep = 1 + max((self.depths.get(id(part), (part, 1))[1] for part in term.parts), default=0)
        if deep > DEEPEST_TERM:
            hint = "a line of its own for a part of it makes an array of that"
            self.fail(piece, f"a term has more than {DEEPEST_TERM} within one another", hint)
        self.depths[id(term)] = term, deep
        return term

    def fold(self) -> Term | None:
        """Read a fold, if one begins here."""
        match = self.take_if(FOLD)
        if match is None:
            return None
        kind: FoldKind = "sum" if match[1] == "sum" else "max"
        word = Piece(match.start(), match[1])
        axis, size = self.axis(":")
        self.take(":", "':' and the term that is folded")
        body = self.term()
        del self.axes[axis.name]
        op = SumReduce(0) if kind == "sum" else MaxReduce(0)
        with self.blaming(word):
            op.infer(TensorType(body.dtype, (size,)))
        return self.noted(Fold(kind, axis, size, body, body.dtype), word)

    def folded_pass(self) -> Term | None:
        """Read a pass, whose result comes before its values, if one begins here."""
        match = self.values_ahead()
        if match is None:
            return None
        begin, outer = self.here, self.parts
        words = re.finditer(WORD, match["names"])
        names = [Piece(match.start("names") + word.start(), word[0]) for word in words]
        self.skip(match.end() - self.pos)
        axis, size = self.axis("f")
        self.take(r"from\b", "'from' and what the values are at first")
        start = self.tuple(names)
        self.take(":", "':' and what follows from each")
        own = self.states(names, start)
        self.parts = {**outer, **own}
        while let := self.take_if(LET):
            self.let(let)
        here = self.here
        following = self.tuple(names)
        states = States(tuple(own.values()), start, following)
        for name, state, term in zip(*states, strict=True):
            if term.dtype is not state.dtype:
                self.fail(here, f"{name.name} is {state.dtype} at first, and then {term.dtype}")
        del self.axes[axis.name]
        end, self.pos, self.parts = self.pos, begin.at, {**outer, **own}
        body = self.comparison()
        self.take("(?=where)", "'where' and the values")
        self.pos, self.parts = end, outer
        return self.noted(Fold("pass", axis, size, body, body.dtype, states), begin)

    def values_ahead(self) -> re.Match[str] | None:
        """Return the names of the values in the term that begins here, if there are any."""
        depth = 0
        for match in PASS.finditer(self.text, self.pos) if self.has_passes else ():
            depth += (match["open"] is not None) - (match["close"] is not None)
            if depth == 0 and match["names"]:
                return match
            if depth < 0 or (depth == 0 and match["end"]):
                break
        return None

    def states(self, names: Sequence[Piece], start: Sequence[Term]) -> dict[str, FoldState]:
        """Return the values of a pass by their names, which must be free."""
        states: dict[str, FoldState] = {}
        for name, term in zip(names, start, strict=True):
            if any(name.text in known for known in (self.axes, self.dims, self.parts, states)):
                self.fail(name, f"{name.text!r} is a name already")
            states[name.text] = FoldState(name.text, term.dtype)
        return states

    def tuple(self, names: Sequence[Piece]) -> tuple[Term, ...]:
        """Read a term for each name, in parentheses."""
        start = self.take(r"\(", "'(' and a term for each value")
        terms = tuple([self.term() for _ in self.until(")")])
        if len(terms) != len(names):
            self.fail(start, f"there are {len(names)} values, and {len(terms)} terms")
        return terms

    def comparison(self) -> Term:
        """Read sums, and comparisons of two sums."""
        left = self.total()
        sign = self.maybe("<")
        return left if sign is None else self.apply(sign, LessThan(), left, self.total())

    def total(self) -> Term:
        """Read products that are added."""
        left = self.product()
        while sign := self.maybe("[-+]"):
            right = self.product()
            if sign.text == "-" and isinstance(right, Number):
                right = self.number(sign, -right.value, right.dtype)
            elif sign.text == "-":
                minus = self.number(sign, -1, right.dtype)
                right = self.apply(sign, Mul(), right, minus)
            left = self.apply(sign, Add(), left, right)
        return left

    def product(self) -> Term:
        """Read factors."""
        left = self.atom()
        while sign := self.maybe("[*%]"):
            op = Mul() if sign.text == "*" else Mod()
            left = self.apply(sign, op, left, self.atom())
        return left

    def atom(self) -> Term:
        """Read an operand of an operator."""
        term = self.fold()
        if term is not None:
            return term
        match = self.take_if(NUMBER)
        if match is not None:
            return self.numeral(match)
        if self.accept("("):
            term = self.term()
            self.take(r"\)", "')' or an operator")
            return term
        begin = self.here
        if self.accept("["):
            holds = self.dim(self.until_mark(":"))
            self.take(":", "':' and the term")
            term = self.term()
            self.take(r"\]", "']' or an operator")
            return self.noted(Guarded(holds, term), begin)
        name = self.take(TERM, "a term")
        if name.text in self.parts and not self.is_at(("[", "(")):
            return self.parts[name.text]
        if self.accept("["):
            return self.element(name)
        return self.call(name)

    def numeral(self, match: re.Match[str]) -> Term:
        """Read a number."""
        piece = Piece(match.start(), match[0])
        text, suffix = match.groups()
        if text in ("true", "false"):
            return self.number(piece, text == "true", DType.bool_)
        whole = re.fullmatch(r"-?[0-9]+", text) is not None
        with self.blaming(piece):
            value = int(text) if whole else float(text)
        return self.number(piece, value, SHORT[suffix or ("i64" if whole else "f32")])

    def number(self, piece: Piece, value: bool | int | float, dtype: DType) -> Number:
        """Return a number of a dtype."""
        with self.blaming(piece):
            Constant(value, dtype, ()).infer()
        return Number(value, dtype)

    def element(self, name: Piece) -> Term:
        """Read the index in brackets after the name of a buffer or a dtype."""
        positions: list[Dim | Term] = []
        pieces: list[Piece] = []
        for _ in self.until("]"):
            pieces.append(self.here)
            positions.append(self.position(name))
        if name.text in SHORT:
            return self.counted(name, positions)
        if name.text not in self.types:
            hint = nearest(name.text, self.types)
            self.fail(name, f"there is no buffer {name.text!r} before this line", hint)
        type = self.check_places(name, len(positions), "read")
        values = [axis for axis, at in enumerate(positions) if isinstance(at, Term)]
        index = tuple([0 if isinstance(at, Term) else at for at in positions])
        if not values:
            return Read(name.text, index, type.dtype)
        (axis, *more), position = values, positions[values[0]]
        if more:
            self.fail(pieces[more[0]], "a lookup has one place that is a value")
        assert isinstance(position, Term)
        if position.dtype.kind != "int":
            self.fail(pieces[axis], f"a place is a whole number, and not a {position.dtype}")
        lookup = Lookup(name.text, index, axis, position, type.shape[axis], type.dtype)
        return self.noted(lookup, name)

    def check_places(self, name: Piece, count: int, what: str) -> TensorType:
        """Return the type of an array after checking the number of its indices."""
        type = self.types[name.text]
        if count != len(type.shape):
            message = f"{name.text} is {type}, so that it is {what} at {len(type.shape)} places"
            self.fail(name, f"{message}, and not at {count}")
        return type

    def counted(self, name: Piece, index: list[Dim | Term]) -> Term:
        """Return an index as a value, of the dtype before the brackets."""
        hint = None
        match index:
            case [Term()]:
                message = f"{name.text}[…] holds an index, and not a term"
                hint = f"{name.text}(…) converts a term"
            case [int() | Expr() as at]:
                return counted(at, SHORT[name.text])
            case _:
                message = f"{name.text}[…] holds one index, and not {len(index)}"
        return self.fail(name, message, hint)

    def position(self, name: Piece) -> Dim | Term:
        """Read one index."""
        if self.take_if(r"at\b(?!\s*[\],+*/%<>-])"):
            return self.term()
        piece = self.until_mark("[,]")
        if self.text.startswith("[", piece.at + len(piece.text)):
            self.pos = piece.at
            return self.term()
        return self.dim(piece)

    def call(self, name: Piece) -> Term:
        """Read an op on terms."""
        fields = self.take(r"(?:\{[^{}]*+\})?", "").part(1, -1).split()
        if name.text == "random" and len(fields) == 2:
            with self.blaming(name):
                seed, stream = (int(piece.text) for piece in fields)
            self.take(r"\[", "'[' and the position")
            at = self.dim(self.until_mark("]"))
            self.take(r"\]", "']'")
            return Draw(seed, stream, at)
        if name.text in ("fused", "flushed"):
            return self.fused(name)
        known = {key for key, cls in OPS.items() if issubclass(cls, Elementwise)}
        if name.text not in known and name.text not in SHORT:
            hint = f"an element is {name.text}[…]" if name.text in self.types else None
            hint = hint or nearest(name.text, known)
            self.fail(name, f"there is no elementwise op {name.text!r}", hint)
        op = Cast(SHORT[name.text]) if name.text in SHORT else self.op(name, fields)
        self.take(r"\(", "'(' and the terms")
        args = [self.term() for _ in self.until(")")]
        return self.apply(name, op, *args)

    def fused(self, name: Piece) -> Term:
        """Read a product that is rounded together with its sum."""
        self.take(r"\(", "'(' and a product")
        product = self.term()
        self.take(r"\)", "')'")
        if not isinstance(product, Apply) or product.op != Mul():
            self.fail(
                name,
                f"{name.text}({product}) is not a product",
                f"as in sum k < 8: {name.text}(a[k] * b[k])",
            )
        op = FusedMul() if name.text == "fused" else FlushedMul()
        return self.apply(name, op, *product.args)

    def op(self, name: Piece, fields: list[Piece]) -> Elementwise:
        """Return the op for a name and fields."""
        cls, values = OPS[name.text], dict[str, object]()
        hints = fields_of(cls)
        for piece in fields:
            field, _, _ = piece.text.partition("=")
            if field.strip() not in hints:
                hint = nearest(field.strip(), hints)
                self.fail(piece, f"{field.strip()!r} is not a field of {name.text}", hint)
            values[field.strip()] = self.literal(hints[field.strip()], piece.part(len(field) + 1))
        with self.blaming(name):
            op: Op = cls(**values)
        assert isinstance(op, Elementwise)
        return op

    def apply(self, piece: Piece, op: Elementwise, *args: Term) -> Term:
        """Return an op on terms, if it accepts them."""
        with self.blaming(piece):
            type = op.infer(*[TensorType(arg.dtype, ()) for arg in args])
        return self.noted(Apply(op, args, type.dtype), piece)

    # -- tokens ------------------------------------------------------------------------------------

    @override
    def size(self, piece: Piece) -> Dim:
        dim = self.checked_dim(piece, ChainMap(self.axes, self.dims), declare=True)
        self.dims.update({symbol.name: symbol for symbol in symbols(dim)})
        return dim

    @override
    def dim(self, piece: Piece) -> Dim:
        return self.checked_dim(piece, ChainMap(self.axes, self.dims), declare=False)

    def until_mark(self, marks: str) -> Piece:
        """Read up to the first of some marks outside parentheses."""
        depth, end = 0, self.pos
        while end < len(self.text):
            letter = self.text[end]
            depth += (letter == "(") - (letter == ")")
            if (depth == 0 and letter in marks) or depth < 0 or letter in "\n#":
                break
            end += 1
        piece = Piece(self.pos, self.text[self.pos : end].rstrip())
        if not piece.text:
            self.fail(piece, "a dim should be here")
        self.skip(end - self.pos)
        return piece
