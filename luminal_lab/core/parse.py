"""Text to IR: the inverse of the printer, whose file shows the grammar."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn, get_args, get_origin

from luminal_lab.core.dims import Dim, Shape, Symbol, parse_dim
from luminal_lab.core.dtypes import SHORT, DType
from luminal_lab.core.ir import IR, Derivation, Meta, Node, Table
from luminal_lab.core.op import OPS, Op, Scalar, TensorType, fields_of
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin
from luminal_lab.errors import LabError, ParseError, nearest

GAP = r"(?:[ \t\r\n]|#[^\n]*)*"
NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
STRING = r'"(?:[^"\\\n]|\\.)*"'


def _token(pattern: str) -> re.Pattern[str]:
    return re.compile(f"({pattern}){GAP}")


SPACE = re.compile(GAP)
VALUE = _token(r"%[A-Za-z0-9_.]+")
WORD = _token(NAME)
NUMBER = _token(r"-?[0-9]+")
QUOTED = _token(STRING)
OP = _token(rf'{NAME}[ \t]*(?:\{{(?:[^{{}}"\n]|{STRING})*\}})?')
TYPE = _token(r"[a-z]+[0-9]*\[[^\]\n]*\]")
DIMS = _token(r"\[[^\]\n]*\]")
GRAPH = re.compile(rf"^[ \t]*graph[ \t]+({NAME})", re.MULTILINE)
HEADER_DIM = re.compile(
    rf"\s*({NAME})\s*(?::\s*(-?\d+)\s*\.\.\s*(-?\d+)?\s*(?:by\s+(\d+))?)?\s*$"
)


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
    starts = {m.group(1): m.start() for m in reversed(list(GRAPH.finditer(text)))}
    reader = _Reader(text, starts)
    reader.skip()
    name = reader.peek_graph()
    ir = reader.body(name)
    for other in starts:
        reader.body(other)
    return ir


class _Reader:
    """One text: where each graph starts in it, and those that have been read."""

    def __init__(self, text: str, starts: Mapping[str, int]) -> None:
        self.text = text
        self.starts = starts
        self.pos = 0
        self.bodies: dict[str, IR] = {}
        self.open: list[str] = []
        self.ends: dict[int, int] = {}

    # -- tokens --------------------------------------------------------------------------------

    def skip(self) -> None:
        match = SPACE.match(self.text, self.pos)
        assert match is not None  # it matches nothing as well
        self.pos = match.end()

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        match = pattern.match(self.text, self.pos)
        if match is None:
            self.fail(f"{what} is expected here")
        self.pos = match.end()
        return match.group(1)

    def sees(self, mark: str) -> bool:
        return self.text.startswith(mark, self.pos)

    def mark(self, mark: str, after: str) -> None:
        if not self.accept(mark):
            self.fail(f"'{mark}' is expected {after}")

    def accept(self, mark: str) -> bool:
        if self.text.startswith(mark, self.pos):
            self.pos += len(mark)
            self.skip()
            return True
        return False

    def fail(
        self, message: str, *, at: int | None = None, length: int = 1, hint: str | None = None
    ) -> NoReturn:
        at = self.pos if at is None else at
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[start : end if end >= 0 else len(self.text)]
        number, column = self.text.count("\n", 0, at) + 1, at - start + 1
        if not line[column - 1 :].strip() and at >= len(self.text.rstrip()):
            message += ", but the text ends"
        where = f"{line}\n{' ' * (column - 1)}{'^' * max(length, 1)}"
        raise ParseError(f"line {number}, column {column}: {message}", where=where, hint=hint)

    # -- graphs --------------------------------------------------------------------------------

    def peek_graph(self) -> str:
        match = GRAPH.match(self.text, self.text.rfind("\n", 0, self.pos) + 1)
        if match is None:
            self.fail("a graph is expected here", hint="a text starts with: graph name(")
        return match.group(1)

    def body(self, name: str) -> IR:
        """Return the graph of this name, reading it if it has not been read."""
        if name not in self.bodies:
            back = self.pos
            self.pos = self.starts[name]
            self.open.append(name)
            self.bodies[name] = _GraphReader(self, name).read()
            self.open.pop()
            self.skip()
            if self.pos < len(self.text) and not GRAPH.match(self.text, self.pos):
                self.fail("a graph or the end of the text is expected here")
            self.pos = back
        return self.bodies[name]


class _GraphReader:
    """One graph of a text."""

    def __init__(self, reader: _Reader, name: str) -> None:
        self.r = reader
        self.name = name
        self.dims: dict[str, Symbol] = {}
        self.nodes: dict[str, Node] = {}
        self.ops: dict[str, Callable[[TensorType], Op]] = {}
        self.types: dict[str, TensorType] = {}
        self.inferred: dict[tuple[object, ...], tuple[TensorType, ...]] = {}

    def read(self) -> IR:
        r = self.r
        r.skip()
        match = GRAPH.match(r.text, r.pos)
        assert match is not None  # the reader found it here
        r.pos = match.end()
        r.skip()
        if r.sees("["):
            self.read_dims()
        r.mark("(", "after the graph's name")
        lines: list[Node] = []
        inputs = [self.input() for _ in self.until(")")]
        r.mark("->", "after the inputs")
        r.mark("(", "before the outputs")
        outputs: list[tuple[int, str, tuple[int, str] | None]] = []
        for _ in self.until(")"):
            at, output = r.pos, r.take(VALUE, "an output such as %y")
            carried = None
            if r.accept("=>"):
                carried = r.pos, r.take(VALUE, "the input that is carried")
            outputs.append((at, output, carried))
        r.mark("{", "before the lines of the graph")
        while not r.accept("}"):
            lines.append(self.line())
        return self.finish(inputs, lines, outputs)

    def until(self, end: str) -> Any:
        """Yield once for each item of a list, reading the commas and the end."""
        if self.r.accept(end):
            return
        while True:
            yield
            if self.r.accept(","):
                if self.r.accept(end):
                    return
                continue
            self.r.mark(end, "or ',' after this")
            return

    def read_dims(self) -> None:
        at = self.r.pos
        text = self.r.take(DIMS, "a list of dims")
        for part in text[1:-1].split(","):
            match = HEADER_DIM.match(part)
            if match is None:
                self.r.fail(
                    f"{part.strip()!r} is not a dim with bounds",
                    at=at + 1 + text[1:].index(part),
                    length=len(part),
                    hint="write it as in seq: 1..4096 by 8",
                )
            name, low, high, multiple = match.groups()
            self.dims[name] = Symbol(
                name,
                1 if low is None else int(low),
                None if high is None else int(high),
                int(multiple or 1),
            )

    def input(self) -> Node:
        at, value = self.r.pos, self.r.take(VALUE, "an input such as %x")
        self.r.mark(":", "after the input's name")
        type = self.read_type()
        return self.add(at, value, Input(type.dtype, type.shape), (), (type,))

    def line(self) -> Node:
        r = self.r
        at, value = r.pos, r.take(VALUE, "a line such as %y = sin %x : f32[4], or '}',")
        r.mark("=", "after the value's name")
        op_at, make = r.pos, self.op()
        sources: list[Node] = []
        if r.sees("%"):
            while True:
                sources.append(self.source())
                if not r.accept(","):
                    break
        r.mark(":", "before the type")
        type_at = r.pos
        types = (
            tuple(self.read_type() for _ in self.until(")")) if r.accept("(") else (self.read_type(),)
        )
        op = make(types[0])
        key = (op, *[(s.type, s.extra) for s in sources])
        wanted = self.inferred.get(key)
        if wanted is None:
            try:
                wanted = self.inferred[key] = op.types(sources)
            except LabError as error:
                r.fail(error.message, at=op_at, length=len(op.name), hint=error.hint)
            except (TypeError, ValueError):
                r.fail(
                    f"{op.name} does not take {len(sources)} sources",
                    at=op_at,
                    length=len(op.name),
                )
        if wanted != types:
            shown = ", ".join(map(str, wanted))
            length = r.text.find("\n", type_at) - type_at
            r.fail(
                f"the type does not match: {op.name} makes {shown} here", at=type_at, length=length
            )
        return self.add(at, value, op, tuple(s.id for s in sources), types)

    def source(self) -> Node:
        at, value = self.r.pos, self.r.take(VALUE, "a value such as %x")
        node = self.nodes.get(value[1:])
        if node is None:
            self.unknown(at, value)
        return node

    def unknown(self, at: int, value: str) -> NoReturn:
        self.r.fail(
            f"{value} is not defined before this line",
            at=at,
            length=len(value),
            hint=nearest(value, [f"%{name}" for name in self.nodes]),
        )

    def add(
        self, at: int, value: str, op: Op, sources: tuple[int, ...], types: tuple[TensorType, ...]
    ) -> Node:
        name = value[1:]
        if name in self.nodes:
            self.r.fail(f"{value} is defined twice", at=at, length=len(value))
        if not (name.isdigit() or WORD.fullmatch(name)):
            self.r.fail(f"{value} is not a name", at=at, length=len(value))
        meta = self.meta(None if name.isdigit() else name)
        # Numbers are ids; named nodes take what is left, which `finish` knows.
        id = int(name) if name.isdigit() else -1 - len(self.nodes)
        node = Node(id, op, sources, types[0], types[1:], meta)
        self.nodes[name] = node
        return node

    def meta(self, name: str | None) -> Meta:
        r = self.r
        if not r.accept("@"):
            return Meta(name)
        scope = ""
        origin: Origin | None = None
        made: Derivation | None = None
        if not r.sees('"') and not r.sees("via "):
            scope = r.take(WORD, "a scope")
        if r.sees('"'):
            file = json.loads(r.take(QUOTED, "a file name"))
            r.mark(":", "after the file name")
            line = int(r.take(NUMBER, "a line number"))
            origin = Origin(file, line, json.loads(r.take(QUOTED, "the text of the line")))
        if r.accept("via "):
            rule = json.loads(r.take(QUOTED, "the name of a rule"))
            r.mark("(", "after the rule")
            made = Derivation(
                rule, tuple(int(r.take(NUMBER, "a node's id")) for _ in self.until(")"))
            )
        return Meta(name, origin, scope, made)

    def finish(
        self,
        inputs: list[Node],
        lines: list[Node],
        outputs: list[tuple[int, str, tuple[int, str] | None]],
    ) -> IR:
        used = {node.id for node in self.nodes.values()}
        new: dict[int, int] = {}
        free = 0
        for node in self.nodes.values():
            if node.id < 0:
                while free in used:
                    free += 1
                new[node.id] = free
                free += 1
            else:
                new[node.id] = node.id
        table = Table()
        for node in self.nodes.values():
            sources = tuple(new[id] for id in node.sources)
            table.set(new[node.id], node._replace(id=new[node.id], sources=sources))
        output_ids: list[int] = []
        carries: list[tuple[int, int]] = []
        for at, value, carried in outputs:
            if value[1:] not in self.nodes:
                self.unknown(at, value)
            output_ids.append(new[self.nodes[value[1:]].id])
            if carried is not None:
                at, target = carried
                if target[1:] not in self.nodes:
                    self.unknown(at, target)
                carries.append((output_ids[-1], new[self.nodes[target[1:]].id]))
        order = tuple(new[node.id] for node in lines)
        input_ids = [new[node.id] for node in inputs]
        ir = IR(table, input_ids, output_ids, name=self.name, carries=carries)
        given = set(input_ids)
        if order != tuple(n.id for n in ir.nodes if n.id not in given):
            ir = IR(
                table, input_ids, output_ids, name=self.name, carries=carries, schedule=order
            )
        return ir

    # -- ops and types -------------------------------------------------------------------------

    def read_type(self) -> TensorType:
        at, text = self.r.pos, self.r.take(TYPE, "a type such as f32[4, 8]")
        found = self.types.get(text)
        if found is None:
            dtype, _, dims = text[:-1].partition("[")
            if dtype not in SHORT:
                self.r.fail(
                    f"there is no dtype {dtype!r}",
                    at=at,
                    length=len(dtype),
                    hint=nearest(dtype, SHORT) or f"one of {', '.join(SHORT)}",
                )
            offset = at + len(dtype) + 1
            shape = tuple(self.dim(part, offset + k) for k, part in split(dims))
            found = self.types[text] = TensorType(SHORT[dtype], shape)
        return found

    def dim(self, text: str, at: int) -> Dim:
        text = text.strip()
        if text.lstrip("-").isdigit():
            return int(text)
        try:
            dim = parse_dim(text, self.dims, declare=True)
        except LabError as error:
            self.r.fail(error.message, at=at, length=len(text), hint=error.hint)
        return dim

    def op(self) -> Callable[[TensorType], Op]:
        """Return what makes the op once the type of its result is read."""
        at, text = self.r.pos, self.r.take(OP, "the name of an op")
        make = self.ops.get(text)
        if make is None:
            name, brace, fields = text.partition("{")
            name = name.strip()
            cls = OPS.get(name)
            if cls is None or name == Input.name:
                self.r.fail(
                    f"there is no op {name!r}", at=at, length=len(name), hint=nearest(name, OPS)
                )
            offset = at + len(text) - len(fields)
            values = self.fields(cls, fields[:-1] if brace else "", offset)
            missing = [f for f in fields_of(cls) if f not in values and f not in cls.in_type]
            if missing:
                self.r.fail(f"{name} needs the field {missing[0]!r}", at=at, length=len(name))
            make = self.ops[text] = _maker(cls, values)
        return make

    def fields(self, cls: type[Op], text: str, offset: int) -> dict[str, Any]:
        known = fields_of(cls)
        values: dict[str, Any] = {}
        for start, part in split(text):
            name, equals, literal = part.partition("=")
            at = offset + start + len(part) - len(part.lstrip())
            name = name.strip()
            if name not in known or not equals:
                self.r.fail(
                    f"{cls.name} has no field {name!r}",
                    at=at,
                    length=len(name),
                    hint=nearest(name, known) or f"its fields: {', '.join(known) or 'none'}",
                )
            begin = offset + start + part.index("=") + 1
            begin += len(literal) - len(literal.lstrip())
            values[name] = self.literal(cls, name, known[name], literal.strip(), begin)
        return values

    def literal(self, cls: type[Op], field: str, hint: object, text: str, at: int) -> object:
        if hint is IR:
            return self.call_body(text, at)
        if get_origin(hint) is Literal:
            allowed = [str(value) for value in get_args(hint)]
            if text not in allowed:
                self.r.fail(
                    f"{field} is one of {', '.join(allowed)}",
                    at=at,
                    length=len(text),
                    hint=nearest(text, allowed),
                )
            return text
        if hint in (Dim, Shape, tuple[int, ...]):
            if hint == Dim:
                return self.dim(text, at)
            if text[:1] != "[" or text[-1:] != "]":
                self.r.fail(f"{field} is a list such as [1, 2]", at=at, length=len(text))
            return tuple(self.dim(part, at + 1 + k) for k, part in split(text[1:-1]))
        reader = READERS.get(hint)
        try:
            if reader is not None:
                return reader(text)
            if hint == Scalar:
                return self.scalar(text, at)
        except (ValueError, KeyError):
            pass
        self.r.fail(
            f"{text!r} is not a value of {field} in {cls.name}", at=at, length=len(text)
        )

    def scalar(self, text: str, at: int) -> Scalar:
        if text in ("true", "false"):
            return text == "true"
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if re.fullmatch(r"-?(\d+\.?\d*(e[-+]?\d+)?|inf|nan)", text):
            return float(text)
        return self.dim(text, at)

    def call_body(self, name: str, at: int) -> IR:
        r = self.r
        if name not in r.starts:
            r.fail(
                f"there is no graph {name!r} in this text",
                at=at,
                length=len(name),
                hint=nearest(name, r.starts),
            )
        if name in r.open:
            r.fail(f"graph {name!r} calls itself", at=at, length=len(name))
        return r.body(name)


def _maker(cls: type[Op], values: dict[str, Any]) -> Callable[[TensorType], Op]:
    if cls.in_type:
        return lambda type: cls(**values, **{field: getattr(type, field) for field in cls.in_type})
    op = cls(**values)
    return lambda type: op


def split(text: str) -> list[tuple[int, str]]:
    """Split at the commas that are not inside brackets or quotes, with the place of each part."""
    parts: list[tuple[int, str]] = []
    depth, start, quoted = 0, 0, False
    for k, char in enumerate(text):
        if char == '"' and text[k - 1 : k] != "\\":
            quoted = not quoted
        elif not quoted and char in "([":
            depth += 1
        elif not quoted and char in ")]":
            depth -= 1
        elif char == "," and not depth and not quoted:
            parts.append((start, text[start:k]))
            start = k + 1
    if text[start:].strip():
        parts.append((start, text[start:]))
    return parts


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text]


READERS: dict[object, Callable[[str], object]] = {
    int: int,
    float: float,
    bool: _bool,
    str: json.loads,
    DType: SHORT.__getitem__,
}
