"""Text to IR: the inverse of the printer, whose file shows the grammar."""

import json
import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Literal, NoReturn, get_args, get_origin

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, free_name, parse_dim
from luminal_lab.core.dtypes import SHORT, DType
from luminal_lab.core.ir import IR, NO_META, Derivation, Meta, Node, Table, in_order
from luminal_lab.core.op import OPS, Op, Scalar, TensorType, fields_of, result_types
from luminal_lab.core.ops import Input, user_kernels
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import dim_declaration
from luminal_lab.core.verify import verify_signature
from luminal_lab.errors import ParseError, nearest
from luminal_lab.scanner import GAP, STRING, Piece, Scanner
from luminal_lab.trust import allow, asked, foreign_of

NAME = r"[A-Za-z_][A-Za-z0-9_.]*+"
VALUE = r"%[A-Za-z0-9_.]++"
TYPE = r"[A-Za-z_]\w*\[[^\]\n]*+\]"
LINE_PARTS = (
    (VALUE, "a line such as %y = sin %x : f32[4], or '}',"),
    ("=", "'='"),
    (rf'{NAME}(?:[ \t]*\{{(?:[^{{}}"\n]|{STRING})*+\}})?', "the name of an op"),
    (f"(?:{VALUE}(?:{GAP},{GAP}{VALUE})*+)?", ""),
    (":", "':' and the type, or another source,"),
    (rf"{TYPE}|\({GAP}{TYPE}(?:{GAP},{GAP}{TYPE})*+{GAP}\)", "a type such as f32[4, 8]"),
)
LINE = re.compile("".join(f"({part}){GAP}" for part, _ in LINE_PARTS))
ORIGIN = re.compile(
    rf"@{GAP}(?:([0-9]{{1,7}})\b{GAP})?(?:((?!via{GAP}{STRING}{GAP}\(){NAME}){GAP})?"
    rf"(?:({STRING}){GAP}:{GAP}(-?[0-9]{{1,9}}){GAP}({STRING}){GAP})?"
    rf"(?:via{GAP}({STRING}){GAP}\({GAP}((?:[0-9]{{1,7}}[, ]*+)*+)\){GAP})?"
)
GRAPH = re.compile(rf"^[ \t]*(graph[ \t]+({NAME}))", re.MULTILINE)
SIZE = r"-?[0-9]{1,18}"
HEADER_DIM = re.compile(rf"({NAME})\s*:\s*({SIZE})\s*\.\.\s*({SIZE})?\s*(?:\bby\s+({SIZE}))?")
SOURCE = re.compile(rf"#[^\n]*+|{VALUE}")
INTEGER = re.compile(r"-?[0-9]{1,40}")
NUMBER = re.compile(r"-?(?:[0-9]{1,40}(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|inf|nan)")
LARGEST_ID = 9_999_999
DEEPEST = 64
"""The deepest nesting of calls, below the limit of Python's own stack."""
MOST_LETTERS = 1 << 26
"""The most letters of a text: 64 million."""


def _number(text: str) -> int | float:
    return int(text) if INTEGER.fullmatch(text) else float(text)


LISTS: dict[object, str] = {
    Shape: "a list such as [1, n]",
    tuple[int, ...]: "a list such as [1, 2]",
}
# The word for the values of a type, their pattern, and their reader.
LITERALS: dict[object, tuple[str, re.Pattern[str], Callable[[str], object]]] = {
    int: ("a whole number", INTEGER, int),
    float: ("a number", NUMBER, float),
    str: ("a text in quotes", re.compile(STRING), json.loads),
    Scalar: ("a number or a dim", NUMBER, _number),
}


def parse(text: str, *, trust: bool = False) -> IR:
    """Read a graph from its text form.

    User kernels in it run on devices with `trust=True`, or once they are signed.

    >>> ir = parse('''
    ... graph double(%x: f32[4]) -> (%y) {
    ...   %y = add %x, %x : f32[4]
    ... }
    ... ''')
    >>> print(ir)
    graph double(%x: f32[4]) -> (%y) {
      %y = add %x, %x : f32[4]
    }
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
        raise ParseError(f"parse: needs a text, not a {text.__class__.__name__}")
    if len(text) > MOST_LETTERS:
        raise ParseError(f"parse: the text has more than {MOST_LETTERS:,} letters")
    scanner, starts = Scanner(text), dict[str, Piece]()
    for match in GRAPH.finditer(text):
        start, name = Piece(match.start(1), match[1]), match[2]
        if name in starts:
            scanner.fail(start, f"graph {name!r} is defined twice")
        starts[name] = start
    if scanner.pos not in [start.at for start in starts.values()]:
        hint = "a text starts with a line such as: graph name(%x: f32[2]) -> (%y) {"
        scanner.fail(scanner.here, "a graph should be here", hint)
    bodies: dict[str, IR | None] = {}
    ir = Reader(text, next(iter(starts)), starts, bodies).graph()
    for name in starts.keys() - bodies.keys():
        message = f"graph {name!r} is not called by the first graph, nor by what it calls"
        scanner.fail(starts[name], message, "parse it as a text of its own")
    if asked("parse", trust):
        allow(map(foreign_of, user_kernels(ir)))
    return ir


class TypeReader(Scanner):
    """A reader of dims, types and the fields of ops."""

    def __init__(self, text: str, pos: int = 0) -> None:
        super().__init__(text, pos)
        self.dims: dict[str, Symbol] = {}

    def header(self, word: str, what: str) -> str:
        """Read a name after a word, and the dims with bounds; return the name."""
        self.take(rf"{word}\b", what)
        name = self.take(NAME, f"the name of the {word}")
        for piece in self.take(r"(?:\[[^\]]*+\])?", "").part(1, -1).split():
            self.declare(piece)
        return name.text

    def declare(self, piece: Piece) -> None:
        """Record a dim and its bounds."""
        match = HEADER_DIM.fullmatch(piece.text)
        if match is None:
            hint = "write it as in seq: 1..4096 by 8"
            self.fail(piece, f"{piece.text!r} is not a dim with bounds", hint)
        name, low, high, multiple = match.groups()
        if name in self.dims:
            self.fail(piece, f"the dim {name!r} is declared twice")
        limit = None if high is None else int(high)
        with self.blaming(piece):
            self.dims[name] = Symbol(free_name(name), int(low), limit, int(multiple or 1))

    def type(self, piece: Piece) -> TensorType:
        """Return a dtype and a shape."""
        dtype, _, _ = piece.text.partition("[")
        if dtype not in SHORT:
            hint = nearest(dtype, SHORT) or f"one of {', '.join(SHORT)}"
            if dtype in DType.__members__:
                hint = f"did you mean {DType(dtype).short!r}?"
            self.fail(Piece(piece.at, dtype), f"there is no dtype {dtype!r}", hint)
        sizes = piece.part(len(dtype) + 1, -1).split()
        return TensorType(SHORT[dtype], tuple([self.size(size) for size in sizes]))

    def size(self, piece: Piece) -> Dim:
        """Return a dim of a type, whose symbols may be new."""
        return self.checked_dim(piece, self.dims, declare=True)

    def shape(self, piece: Piece) -> Shape:
        """Return the dims with commas between."""
        return tuple([self.dim(part) for part in piece.split()])

    def dim(self, piece: Piece) -> Dim:
        """Return an expression over dims."""
        return self.size(piece)

    def checked_dim(self, piece: Piece, known: Mapping[str, Symbol], *, declare: bool) -> Dim:
        """Return an expression over some symbols."""
        if INTEGER.fullmatch(piece.text):
            dim: Dim = int(piece.text)
        else:
            with self.blaming(piece):
                dim = parse_dim(piece.text, known, declare=declare)
        if isinstance(dim, int) and abs(dim) >> 63:
            self.fail(piece, "this is too large for a dim")
        return dim

    def literal(self, hint: object, piece: Piece, of: str = "") -> object:
        """Read a value of a type; `of` names its owner in errors."""
        text, words = piece.text, _words(hint)
        what, pattern, read = LITERALS.get(hint, (f"one of {', '.join(words)}", None, str))
        if text in words:
            return words[text]
        if pattern is not None and pattern.fullmatch(text):
            with self.blaming(piece):
                return read(text)
        if hint in (Dim, Scalar):
            return self.dim(piece)
        if hint in LISTS and text[:1] == "[" and text[-1:] == "]":
            shape = self.shape(piece.part(1, -1))
            if hint == Shape or all(isinstance(dim, int) for dim in shape):
                return shape
        message = f"{text!r} is not {of}{LISTS.get(hint, what)}"
        return self.fail(piece, message, nearest(text, words))


class Reader(TypeReader):
    """A reader of one graph of a text."""

    def __init__(
        self, text: str, name: str, starts: Mapping[str, Piece], bodies: dict[str, IR | None]
    ) -> None:
        super().__init__(text, starts[name].at)
        self.name = name
        self.starts = starts
        self.bodies = bodies
        """The graphs read so far; None for those still under way."""
        self.deep = 1
        self.table = Table()
        self.nodes: dict[str, Node] = {}
        # Caches by text, so that equal texts are read once.
        self.types: dict[str, tuple[TensorType, ...]] = {}
        self.ops: dict[tuple[object, ...], tuple[Op, tuple[TensorType, ...]]] = {}
        self.metas: dict[str, Meta] = {}
        following = GRAPH.search(text, self.pos + 1)
        own = text[self.pos : following.start() if following else len(text)]
        taken = set(map(int, re.findall(r"(?:%|@ )([0-9]{1,7})\b", own)))
        self.free_ids = (id for id in count() if id not in taken)

    # -- the graph -----------------------------------------------------------------------------

    def graph(self) -> IR:
        self.bodies[self.name] = None
        self.header("graph", "a graph")
        self.take(r"\(", "'(' and the inputs, or '[' and dims,")
        inputs = [self.input() for _ in self.until(")")]
        self.take("->", "'->' and the outputs")
        ends = self.take(r"\(", "'(' and the outputs")
        outputs: list[Piece] = []
        carries: list[tuple[Piece, Piece]] = []
        for _ in self.until(")"):
            outputs.append(self.take(VALUE, "an output such as %y"))
            if self.accept("=>"):
                carries.append((outputs[-1], self.take(VALUE, "the input that it is carried to")))
        self.take(r"\{", "'{' and the lines of the graph")
        lines: list[int] = []
        while not self.accept("}"):
            lines.append(self.line())
        following = GRAPH.match(self.text, self.text.rfind("\n", 0, self.pos) + 1)
        if self.pos < len(self.text) and (following is None or following.start(1) != self.pos):
            hint = "each graph starts on a line of its own"
            self.fail(self.here, "a graph or the end of the text should be here", hint)
        given = set(inputs)
        natural = [id for node in in_order(self.table, ()) if (id := node.id) not in given]
        ir = self.bodies[self.name] = IR(
            self.table,
            inputs,
            [self.end(output) for output in outputs],
            name=self.name,
            carries=[(self.end(new), self.end(old)) for new, old in carries],
            schedule=() if lines == natural else tuple(lines),
        )
        with self.blaming(ends):
            verify_signature(ir)
        return ir

    def input(self) -> int:
        value = self.take(VALUE, "an input such as %x")
        self.take(":", "':' and the type of the input")
        piece = self.take(TYPE, "a type such as f32[4, 8]")
        (type,) = types = self.read_types(piece)
        op = Input(type.dtype, type.shape)
        self.check(op, piece, [], piece, types)
        return self.add(value, op, (), types)

    def line(self) -> int:
        match = LINE.match(self.text, self.pos)
        if match is None:
            for pattern, what in LINE_PARTS:
                self.take(pattern, what)
            raise AssertionError("the parts of a line do not make a line")
        self.pos = match.end()
        value, _, op_text, sources_text, _, types_text = match.groups()
        sources = [
            self.nodes.get(m[0]) or self.source(Piece(match.start(4) + m.start(), m[0]))
            for m in SOURCE.finditer(sources_text)
            if m[0][0] == "%"
        ]
        # The types of several results are in the node, not only in its type.
        key = (op_text, types_text, *[node if node.extra else node.type for node in sources])
        entry = self.ops.get(key)
        if entry is None:
            piece, types_piece = Piece(match.start(3), op_text), Piece(match.start(6), types_text)
            types = self.read_types(types_piece)
            entry = self.ops[key] = self.op(piece, types[0]), types
            self.check(entry[0], piece, sources, types_piece, types)
        return self.add(
            Piece(match.start(), value), entry[0], tuple([node.id for node in sources]), entry[1]
        )

    def source(self, piece: Piece, where: str = "before this line") -> Node:
        if piece.text not in self.nodes:
            hint = nearest(piece.text, self.nodes)
            self.fail(piece, f"{piece.text} is not defined {where}", hint)
        return self.nodes[piece.text]

    def end(self, piece: Piece) -> int:
        return self.source(piece, "in this graph").id

    def check(
        self, op: Op, piece: Piece, sources: list[Node], given: Piece, types: tuple[TensorType, ...]
    ) -> None:
        with self.blaming(Piece(piece.at, op.name)):
            wanted = result_types(op, sources)
        if wanted != types:
            shown = ", ".join(map(str, wanted))
            self.fail(given, f"the type does not match: {op.name} makes {shown} here")

    def add(
        self, value: Piece, op: Op, sources: tuple[int, ...], types: tuple[TensorType, ...]
    ) -> int:
        name = value.text[1:]
        number = int(name) if name.isdigit() and len(name) < 8 else None
        if value.text in self.nodes:
            self.fail(value, f"{value.text} is defined twice")
        if str(number) != name and not re.fullmatch(NAME, name):
            hint = f"a name starts with a letter or '_', or is a number up to {LARGEST_ID}"
            self.fail(value, f"{value.text} is not a name", hint)
        meta = NO_META if number is not None else Meta(name)
        if self.text.startswith("@", self.pos):
            number, meta = self.origin(number, meta)
        id = next(self.free_ids) if number is None else number
        if self.table.get(id) is not None:
            self.fail(value, f"the id {id} is taken by {self.table.get(id)}")
        self.nodes[value.text] = node = Node(id, op, sources, types[0], types[1:], meta)
        self.table.set(id, node)
        return id

    def origin(self, number: int | None, meta: Meta) -> tuple[int | None, Meta]:
        match = ORIGIN.match(self.text, self.pos)
        assert match is not None  # everything after the "@" is optional
        known = self.metas.get(match[0])
        if known is None:
            _, scope, file, line, text, rule, parents = match.groups()
            with self.blaming(Piece(self.pos, match[0].rstrip())):
                origin = file and Origin(json.loads(file), int(line), json.loads(text))
                ids = map(int, re.findall(r"[0-9]+", parents or ""))
                derivation = rule and Derivation(json.loads(rule), tuple(ids))
            known = self.metas[match[0]] = Meta(
                None, origin or None, scope or "", derivation or None
            )
        self.pos = match.end()
        if not re.match(r"[%}),]|$", self.text[self.pos : self.pos + 1]):
            hint = '@ id scope "file":line "text" via "rule"(ids), in this order, where known'
            self.fail(self.here, "this is not part of an origin", hint)
        id = number if match[1] is None else int(match[1])
        if number not in (None, id):
            self.fail(Piece(match.start(1), match[1]), f"%{number} has the id {number}")
        return id, known if meta.name is None else known._replace(name=meta.name)

    # -- types and ops -------------------------------------------------------------------------

    def read_types(self, piece: Piece) -> tuple[TensorType, ...]:
        types = self.types.get(piece.text)
        if types is None:
            inner = piece.part(1, -1) if piece.text[0] == "(" else piece
            types = self.types[piece.text] = tuple([self.type(p) for p in inner.split()])
        return types

    def op(self, piece: Piece, type: TensorType) -> Op:
        name, brace, _ = re.split(r"[ \t]*(\{|$)", piece.text, maxsplit=1)
        cls, word = OPS.get(name), Piece(piece.at, name)
        if cls is None or cls is Input:
            hint = "inputs belong in the first line" if cls else nearest(name, OPS)
            self.fail(word, f"there is no op {name!r}", hint)
        hints = {field: hint for field, hint in fields_of(cls).items() if field not in cls.in_type}
        values: dict[str, object] = {field: getattr(type, field) for field in cls.in_type}
        start = piece.text.find("{") + 1 if brace else len(piece.text)
        for part in piece.part(start, -1).split():
            field, equals, _ = part.text.partition("=")
            field, known = Piece(part.at, field.rstrip()), hints.keys() - values
            if field.text not in known:
                what = "is given twice" if field.text in values else f"is not a field of {name}"
                hint = nearest(field.text, known) or f"its fields: {', '.join(hints)}"
                self.fail(field, f"{field.text!r} {what}", hint)
            if not equals:
                self.fail(field, f"the value of {field.text!r} is missing")
            literal = part.part(part.text.index("=") + 1)
            kind, of = hints[field.text], f"a value of {field.text!r}, which is "
            values[field.text] = (
                self.body(literal) if kind is IR else self.literal(kind, literal, of)
            )
        missing = [field for field in hints if field not in values]
        if missing:
            hint = f"its fields: {', '.join(hints)}"
            self.fail(word, f"{name} needs the field {missing[0]!r}", hint)
        with self.blaming(piece):
            return cls(**values)

    def body(self, piece: Piece) -> IR:
        name = piece.text
        if name not in self.starts:
            hint = nearest(name, self.starts)
            self.fail(piece, f"there is no graph {name!r} in this text", hint)
        if name not in self.bodies:
            if self.deep == DEEPEST:
                self.fail(piece, f"calls are nested more than {DEEPEST} deep")
            inner = Reader(self.text, name, self.starts, self.bodies)
            inner.deep += self.deep
            inner.graph()
        body = self.bodies[name]
        if body is None:
            self.fail(piece, f"graph {name!r} calls itself")
        for symbol in body.symbols.values():
            here = self.dims.get(symbol.name, Symbol(symbol.name))
            if here != symbol:
                there = f"{dim_declaration(symbol)} in {name}, and {dim_declaration(here)} here"
                hint = "the headers of both graphs must declare it alike"
                self.fail(piece, f"a dim is {there}", hint)
        return body

    # -- tokens --------------------------------------------------------------------------------

    @override
    def expect(self, what: str, pattern: str) -> NoReturn:
        at, hint = self.pos, None
        if self.text.startswith("{", at):
            self.fail(self.here, "the fields of an op end with '}' on the same line")
        word = re.compile(NAME).match(self.text, at)
        if word is not None and (pattern == VALUE or f"%{word[0]}" in self.nodes):
            hint = "the name of a value begins with '%'"
        end = len(self.text[:at].rstrip())
        if "\n" in self.text[end:at] and re.match(rf"{VALUE}|\}}|graph\b", self.text[at:]):
            at = end  # a missing piece is reported at the line before
        self.fail(Piece(at, ""), f"{what} should be here", hint)


def _words(hint: object) -> Mapping[str, object]:
    """Return the words for the values of a type, if it has any."""
    if get_origin(hint) is Literal:
        return {str(word): word for word in get_args(hint)}
    if hint in (bool, Scalar):
        return {"true": True, "false": False}
    return SHORT if hint is DType else {}
