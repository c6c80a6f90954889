"""Text to IR: the inverse of the printer, whose file shows the grammar."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Literal, NoReturn, get_args, get_origin

from luminal_lab.core.dims import Dim, Shape, Symbol, parse_dim
from luminal_lab.core.dtypes import SHORT, DType
from luminal_lab.core.ir import IR, NO_META, Derivation, Meta, Node, Table, in_order
from luminal_lab.core.op import OPS, Op, Scalar, TensorType, fields_of, result_types
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import dim_declaration
from luminal_lab.core.verify import verify_signature
from luminal_lab.errors import LabError, ParseError, nearest

# No token gives back what it has taken, so that a wrong text costs no more than a right one.
GAP = r"(?:\s|#[^\n]*+)*+"
NAME = r"[A-Za-z_][A-Za-z0-9_.]*+"
VALUE = r"%[A-Za-z0-9_.]++"
STRING = r'"(?:[^"\\\n]|\\.)*+"'
TYPE = r"[A-Za-z_]\w*\[[^\]\n]*+\]"
OP = rf'{NAME}(?:[ \t]*\{{(?:[^{{}}"\n]|{STRING})*+\}})?'
LINE_PARTS = (
    (VALUE, "a line such as %y = sin %x : f32[4], or '}',"),
    ("=", "'='"),
    (OP, "the name of an op"),
    (f"(?:{VALUE}(?:{GAP},{GAP}{VALUE})*+)?", ""),
    (":", "':' and the type, or another source,"),
    (rf"{TYPE}|\({GAP}{TYPE}(?:{GAP},{GAP}{TYPE})*+{GAP}\)", "a type such as f32[4, 8]"),
)
SPACE = re.compile(GAP)
LINE = re.compile("".join(f"({part}){GAP}" for part, _ in LINE_PARTS))
ORIGIN = re.compile(
    rf"@{GAP}(?:(\d{{1,7}})\b{GAP})?(?:((?!via{GAP}{STRING}{GAP}\(){NAME}){GAP})?"
    rf"(?:({STRING}){GAP}:{GAP}(-?\d{{1,9}}){GAP}({STRING}){GAP})?"
    rf"(?:via{GAP}({STRING}){GAP}\({GAP}((?:\d{{1,7}}[, ]*+)*+)\){GAP})?"
)
GRAPH = re.compile(rf"^[ \t]*(graph)[ \t]+({NAME})", re.MULTILINE)
HEADER_DIM = re.compile(
    rf"({NAME})\s*:\s*(-?\d{{1,18}})\s*\.\.\s*(-?\d{{1,18}})?\s*(?:\bby\s+(\d{{1,18}}))?"
)
SOURCE = re.compile(rf"#[^\n]*+|{VALUE}")
NAMES = re.compile(NAME)
QUOTED = re.compile(STRING)
MARK = re.compile(rf"{STRING}|[()\[\],]")
INTEGER = re.compile(r"-?\d{1,40}")
FLOAT = re.compile(r"-?(?:\d+(?:\.\d*|(?=e))(?:e[-+]?\d+)?|inf|nan)")
Ints = tuple[int, ...]
LISTS: tuple[object, ...] = Shape, Ints
WANTED: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    Shape: "a list such as [1, n]",
    Ints: "a list of numbers such as [1, 2]",
}
START = "a text starts with a line such as: graph name(%x: f32[2]) -> (%y) {"
LARGEST_ID = 9_999_999
DEEPEST = 64
"""Calls within calls; the limit keeps Python's own stack from ending first."""


def parse(text: str) -> IR:
    """Read a graph from its text form.

    >>> ir = parse('''
    ... graph double(%x: f32[4]) -> (%y) {
    ...   %y = add %x, %x : f32[4]
    ... }
    ... ''')
    >>> print(ir)
    graph double(%x: f32[4]) -> (%y) {
      %y = add %x, %x : f32[4]
    }
    <BLANKLINE>
    """
    starts: dict[str, int] = {}
    for match in GRAPH.finditer(text):
        at, name = match.start(1), match[2]
        if name in starts:
            fail(text, at, f"graph {name!r} is defined twice", length=len(match[0].rstrip()))
        starts[name] = at
    at = skip(text, 0)
    if at not in starts.values():
        fail(text, at, "a graph should stand here", hint=START)
    bodies: dict[str, IR | None] = {}
    ir = _Reader(text, next(iter(starts)), starts, bodies).graph()
    for name in starts.keys() - bodies.keys():
        message = f"graph {name!r} is not called by the first graph, nor by what it calls"
        fail(text, starts[name], message, hint="parse it as a text of its own")
    return ir


def fail(text: str, at: int, message: str, *, length: int = 1, hint: str | None = None) -> NoReturn:
    """Raise a ParseError that shows the place in its line, with a caret below it."""
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    number, column = text.count("\n", 0, at) + 1, at - start + 1
    if not text[at:].strip():
        message += ", but the text ends"
    left = max(0, column - 80)  # what is shown of a very long line
    before = re.sub(r"[^\t]", " ", line[left : column - 1])
    where = (
        f"{line[left : column + 60]}\n{before}{'^' * max(1, min(length, len(line) - column + 1))}"
    )
    raise ParseError(f"line {number}, column {column}: {message}", where=where, hint=hint)


def skip(text: str, at: int) -> int:
    """Return where the next token is."""
    match = SPACE.match(text, at)
    return at if match is None else match.end()


def pieces(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield what stands between commas that are not in brackets or quotes, and each one's place."""
    depth, start = 0, 0
    commas: list[int] = []
    for mark in MARK.finditer(text):
        depth += (mark[0] in "([") - (mark[0] in ")]")
        if mark[0] == "," and depth == 0:
            commas.append(mark.start())
    for end in (*commas, len(text)):
        part = text[start:end]
        if part.strip() or end < len(text):
            yield part.strip(), at + start + len(part) - len(part.lstrip())
        start = end + 1


def words_of(hint: object) -> Mapping[str, object]:
    """Return the words that stand for the values of a type, where it has such words."""
    if get_origin(hint) is Literal:
        return {str(word): word for word in get_args(hint)}
    if hint in (bool, Scalar):
        return {"true": True, "false": False}
    return SHORT if hint is DType else {}


class _Reader:
    """One graph of a text."""

    def __init__(
        self, text: str, name: str, starts: Mapping[str, int], bodies: dict[str, IR | None]
    ) -> None:
        self.text = text
        self.name = name
        self.starts = starts
        self.bodies = bodies
        """What has been read; None for the graphs that are being read."""
        self.pos = starts[name]
        self.table = Table()
        self.nodes: dict[str, Node] = {}
        self.dims: dict[str, Symbol] = {}
        # What equal texts stand for, so that each is read once.
        self.types: dict[str, tuple[TensorType, ...]] = {}
        self.made: dict[tuple[object, ...], tuple[Op, tuple[TensorType, ...]]] = {}
        self.metas: dict[str, Meta] = {}
        end = min((at for at in starts.values() if at > self.pos), default=len(text))
        taken = set(map(int, re.findall(r"(?:%|@ )(\d{1,7})\b", text[self.pos : end])))
        self.free_ids = (id for id in count() if id not in taken)

    # -- the graph -----------------------------------------------------------------------------

    def graph(self) -> IR:
        self.bodies[self.name] = None
        self.take(f"graph[ \t]+{NAME}", "a graph")
        at, dims = self.take(r"(?:\[[^\]]*+\])?", "")
        for part, place in pieces(dims[1:-1], at + 1):
            self.declare(part, place)
        self.take(r"\(", "'(' and the inputs, or '[' and dims,")
        inputs = [self.input() for _ in self.until(")")]
        self.take("->", "'->' and the outputs")
        self.take(r"\(", "'(' and the outputs")
        outputs_at = self.pos
        outputs: list[tuple[int, str]] = []
        carries: list[tuple[tuple[int, str], tuple[int, str]]] = []
        for _ in self.until(")"):
            outputs.append(self.take(VALUE, "an output such as %y"))
            if self.accept("=>"):
                carries.append((outputs[-1], self.take(VALUE, "the input that it is carried to")))
        self.take(r"\{", "'{' and the lines of the graph")
        lines: list[int] = []
        while not self.accept("}"):
            lines.append(self.line())
        if self.pos < len(self.text) and self.pos not in self.starts.values():
            hint = "each graph starts on a line of its own"
            self.fail(self.pos, "a graph or the end of the text should stand here", hint=hint)
        natural = [id for node in in_order(self.table, ()) if (id := node.id) not in inputs]
        ir = IR(
            self.table,
            inputs,
            [self.end(*output) for output in outputs],
            name=self.name,
            carries=[(self.end(*new), self.end(*old)) for new, old in carries],
            schedule=() if lines == natural else tuple(lines),
        )
        try:
            verify_signature(ir)
        except LabError as error:
            self.fail(outputs_at, error.message.removeprefix("verify: "))
        self.bodies[self.name] = ir
        return ir

    def declare(self, text: str, at: int) -> None:
        match = HEADER_DIM.fullmatch(text)
        if match is None:
            hint = "write it as in seq: 1..4096 by 8"
            self.fail(at, f"{text!r} is not a dim with bounds", length=len(text), hint=hint)
        name, low, high, multiple = match.groups()
        if name in self.dims:
            self.fail(at, f"the dim {name!r} is declared twice", length=len(text))
        try:
            limit = None if high is None else int(high)
            self.dims[name] = Symbol(name, int(low), limit, int(multiple or 1))
        except LabError as error:
            self.fail(at, error.message, length=len(text), hint=error.hint)

    def input(self) -> int:
        at, value = self.take(VALUE, "an input such as %x")
        self.take(":", "':' and the type of the input")
        type_at, text = self.take(TYPE, "a type such as f32[4, 8]")
        type = self.read_types(text, type_at)[0]
        op = self.checked(Input(type.dtype, type.shape), [], (type,), type_at, type_at)
        return self.add(at, value, op, (), (type,))

    def line(self) -> int:
        match = LINE.match(self.text, self.pos)
        if match is None:
            for pattern, what in LINE_PARTS:
                self.take(pattern, what)
            raise AssertionError("the parts of a line do not make a line")
        self.pos = match.end()
        value, _, op_text, sources_text, _, types_text = match.groups()
        sources = [
            self.nodes.get(m[0]) or self.source(match.start(4) + m.start(), m[0])
            for m in SOURCE.finditer(sources_text)
            if m[0][0] == "%"
        ]
        # What several results are made of is in the node, and not only in its type.
        key = (op_text, types_text, *[node if node.extra else node.type for node in sources])
        made = self.made.get(key)
        if made is None:
            op_at, types_at = match.start(3), match.start(6)
            types = self.read_types(types_text, types_at)
            op = self.checked(self.op(op_text, op_at, types[0]), sources, types, op_at, types_at)
            made = self.made[key] = op, types
        return self.add(match.start(), value, made[0], tuple([n.id for n in sources]), made[1])

    def source(self, at: int, value: str, where: str = "before this line") -> Node:
        if value not in self.nodes:
            message = f"{value} is not defined {where}"
            self.fail(at, message, length=len(value), hint=nearest(value, self.nodes))
        return self.nodes[value]

    def end(self, at: int, value: str) -> int:
        return self.source(at, value, "in this graph").id

    def checked(
        self,
        op: Op,
        sources: list[Node],
        types: tuple[TensorType, ...],
        op_at: int,
        types_at: int,
    ) -> Op:
        try:
            wanted = result_types(op, sources)
        except LabError as error:
            self.fail(op_at, error.message, length=len(op.name), hint=error.hint)
        if wanted != types:
            shown = ", ".join(map(str, wanted))
            message = f"the type does not match: {op.name} makes {shown} here"
            self.fail(types_at, message, length=len(", ".join(map(str, types))))
        return op

    def add(
        self,
        at: int,
        value: str,
        op: Op,
        sources: tuple[int, ...],
        types: tuple[TensorType, ...],
    ) -> int:
        name = value[1:]
        number = int(name) if name.isdigit() and len(name) < 8 else None
        if value in self.nodes:
            self.fail(at, f"{value} is defined twice", length=len(value))
        if str(number) != name and not NAMES.fullmatch(name):
            hint = f"a name starts with a letter or '_', or is a number up to {LARGEST_ID}"
            self.fail(at, f"{value} is not a name", length=len(value), hint=hint)
        meta = NO_META if number is not None else Meta(name)
        if self.text.startswith("@", self.pos):
            number, meta = self.origin(number, meta)
        id = next(self.free_ids) if number is None else number
        if self.table.get(id) is not None:
            self.fail(at, f"the id {id} is taken by {self.table.get(id)}", length=len(value))
        self.nodes[value] = node = Node(id, op, sources, types[0], types[1:], meta)
        self.table.set(id, node)
        return id

    def origin(self, number: int | None, meta: Meta) -> tuple[int | None, Meta]:
        match = ORIGIN.match(self.text, self.pos)
        assert match is not None  # all that follows the "@" may be absent
        known = self.metas.get(match[0])
        if known is None:
            _, scope, file, line, text, rule, parents = match.groups()
            origin = made = None
            if file is not None:
                origin = Origin(
                    self.string(file, match.start(3)), int(line), self.string(text, match.start(5))
                )
            if rule is not None:
                made = Derivation(
                    self.string(rule, match.start(6)), tuple(map(int, re.findall(r"\d+", parents)))
                )
            known = self.metas[match[0]] = Meta(None, origin, scope or "", made)
        self.pos = match.end()
        if not re.match(r"[%}),]|$", self.text[self.pos : self.pos + 1]):
            hint = '@ id scope "file":line "text" via "rule"(ids), in this order, where known'
            self.fail(self.pos, "this is not part of an origin", hint=hint)
        id = number if match[1] is None else int(match[1])
        if number not in (None, id):
            self.fail(match.start(1), f"%{number} has the id {number}", length=len(match[1]))
        return id, known if meta.name is None else known._replace(name=meta.name)

    # -- types and ops -------------------------------------------------------------------------

    def read_types(self, text: str, at: int) -> tuple[TensorType, ...]:
        found = self.types.get(text)
        if found is None:
            inner = text[1:-1] if text[0] == "(" else text
            parts = pieces(inner, at + (text[0] == "("))
            found = self.types[text] = tuple(self.read_type(part, place) for part, place in parts)
        return found

    def read_type(self, text: str, at: int) -> TensorType:
        dtype, _, dims = text.partition("[")
        if dtype not in SHORT:
            hint = nearest(dtype, SHORT) or f"one of {', '.join(SHORT)}"
            if dtype in DType.__members__:
                hint = f"did you mean {DType(dtype).short!r}?"
            self.fail(at, f"there is no dtype {dtype!r}", length=len(dtype), hint=hint)
        return TensorType(SHORT[dtype], self.shape(dims[:-1], at + len(dtype) + 1))

    def shape(self, text: str, at: int) -> Shape:
        return tuple([self.dim(part, place) for part, place in pieces(text, at)])

    def dim(self, text: str, at: int) -> Dim:
        try:
            dim = int(text) if INTEGER.fullmatch(text) else parse_dim(text, self.dims, declare=True)
        except LabError as error:
            self.fail(at, error.message, length=len(text), hint=error.hint)
        except RecursionError:
            self.fail(at, "this dim is nested too deeply", length=len(text))
        if isinstance(dim, int) and abs(dim) >> 63:
            self.fail(at, "this is too large for a dim", length=len(text))
        return dim

    def op(self, text: str, at: int, type: TensorType) -> Op:
        fields = text.partition("{")[2]
        name = text[: len(text) - len(fields)].rstrip("{ \t")
        cls = OPS.get(name)
        if cls is None or cls is Input:
            hint = "inputs stand in the first line" if cls else nearest(name, OPS)
            self.fail(at, f"there is no op {name!r}", length=len(name), hint=hint)
        hints = {f: hint for f, hint in fields_of(cls).items() if f not in cls.in_type}
        values: dict[str, object] = {field: getattr(type, field) for field in cls.in_type}
        for part, place in pieces(fields[:-1], at + len(text) - len(fields)):
            field, equals, literal = part.partition("=")
            field = field.rstrip()
            if field not in hints or field in values:
                what = "is given twice" if field in values else f"is not a field of {name}"
                hint = nearest(field, hints.keys() - values) or f"its fields: {', '.join(hints)}"
                self.fail(place, f"{field!r} {what}", length=len(field), hint=hint)
            if not equals:
                self.fail(place, f"the value of {field!r} is missing", length=len(field))
            begin = place + len(part) - len(literal.lstrip())
            values[field] = self.literal(field, hints[field], literal.strip(), begin)
        missing = [field for field in hints if field not in values]
        if missing:
            what = f"{name} needs the field {missing[0]!r}"
            self.fail(at, what, length=len(name), hint=f"its fields: {', '.join(hints)}")
        try:
            return cls(**values)
        except Exception as error:  # what the class of a user checks
            self.fail(at, f"{name} cannot be made: {error}", length=len(text))

    def literal(self, field: str, hint: object, text: str, at: int) -> object:
        """Return the value of a field, whose type says how it is written."""
        words = words_of(hint)
        if text in words:
            return words[text]
        if hint == Dim:
            return self.dim(text, at)
        if hint in (int, Scalar) and INTEGER.fullmatch(text):
            return int(text)
        if hint in (float, Scalar) and (FLOAT.fullmatch(text) or INTEGER.fullmatch(text)):
            return float(text)
        if hint == Scalar:
            return self.dim(text, at)
        if hint in LISTS and text[:1] == "[" and text[-1:] == "]":
            shape = self.shape(text[1:-1], at + 1)
            if hint == Shape or all(isinstance(dim, int) for dim in shape):
                return shape
        if hint is IR:
            return self.body(text, at)
        if hint is str and QUOTED.fullmatch(text):
            return self.string(text, at)
        wanted = WANTED.get(hint) or f"one of {', '.join(words)}"
        message = f"{text!r} is not a value of {field!r}, which is {wanted}"
        return self.fail(at, message, length=len(text), hint=nearest(text, words))

    def string(self, text: str, at: int) -> str:
        try:
            return json.loads(text)
        except ValueError:
            hint = r"the escapes are those of JSON: \" \\ \n \t \u00e9"
            self.fail(at, "this text has an escape that is not known", length=len(text), hint=hint)

    def body(self, name: str, at: int) -> IR:
        if name not in self.starts:
            hint = nearest(name, self.starts)
            message = f"there is no graph {name!r} in this text"
            self.fail(at, message, length=len(name), hint=hint)
        if name not in self.bodies:
            if list(self.bodies.values()).count(None) == DEEPEST:
                self.fail(at, f"calls are nested more than {DEEPEST} deep", length=len(name))
            _Reader(self.text, name, self.starts, self.bodies).graph()
        found = self.bodies[name]
        if found is None:
            self.fail(at, f"graph {name!r} calls itself", length=len(name))
        for symbol in found.symbols.values():
            here = self.dims.get(symbol.name, Symbol(symbol.name))
            if here != symbol:
                there = f"{dim_declaration(symbol)} in {name}, and {dim_declaration(here)} here"
                hint = "the headers of both graphs must declare it alike"
                self.fail(at, f"a dim is {there}", length=len(name), hint=hint)
        return found

    # -- tokens --------------------------------------------------------------------------------

    def take(self, pattern: str, what: str) -> tuple[int, str]:
        """Read one token; return its place and its text."""
        match = re.compile(f"({pattern}){GAP}").match(self.text, self.pos)
        if match is None:
            self.expect(what, pattern)
        self.pos = match.end()
        return match.start(), match[1]

    def expect(self, what: str, pattern: str) -> NoReturn:
        at, hint = self.pos, None
        if self.text.startswith("{", at):
            self.fail(at, "the fields of an op end with '}' on the same line")
        word = NAMES.match(self.text, at)
        if word is not None and (pattern == VALUE or f"%{word[0]}" in self.nodes):
            hint = "the name of a value begins with '%'"
        end = len(self.text[:at].rstrip())
        if "\n" in self.text[end:at] and re.match(rf"{VALUE}|\}}|graph\b", self.text[at:]):
            at = end  # what is missing is missing on the line before
        self.fail(at, f"{what} should stand here", hint=hint)

    def accept(self, mark: str) -> bool:
        if self.text.startswith(mark, self.pos):
            self.pos = skip(self.text, self.pos + len(mark))
            return True
        return False

    def until(self, end: str) -> Iterator[None]:
        """Yield before each item of a list, and read the commas and the end."""
        while not self.accept(end):
            yield
            if not self.accept(",") and not self.text.startswith(end, self.pos):
                self.expect(f"',' or '{end}'", end)

    def fail(self, at: int, message: str, *, length: int = 1, hint: str | None = None) -> NoReturn:
        fail(self.text, at, message, length=length, hint=hint)
