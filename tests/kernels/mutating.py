"""C with one thing changed: a lexer of C, and the mutants of the functions of kernels.

Tokens are found as C finds them, so that a comment, a string or a pragma is never taken for code,
and nothing depends on how a line is broken. A mutation is a change of a few tokens; where these are
(in a subscript, in the head of a loop) says which kind it is.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>(?:0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][+-]?\d+)?
        |(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|\.\.\.|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
PAIRS = {"(": ")", "[": "]", "{": "}"}
HEAD = re.compile(r"^static (?:inline )?[\w ]*?\*?(\w+)\([^;{]*\) \{$", re.MULTILINE)
TYPES = {"void", "char", "int", "long", "float", "double", "const", "restrict", "return", "else"}
BEFORE_UNARY = {"(", "[", "{", ",", ";", "=", "?", ":", "return", "&&", "||", "!", "~"}
BEFORE_UNARY |= {"+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "<<"}
BEFORE_UNARY |= {">>", "+=", "-=", "*=", "/="}
COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
ASSIGNED = {"+=": "=", "-=": "+=", "*=": "=", "|=": "=", "^=": "="}
BITWISE = {"&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<"}


class Token(NamedTuple):
    """A word of C: its kind, its text, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.at + len(self.text)


def tokens(source: str) -> list[Token]:
    """Return the words of some C, without what is between them.

    >>> [t.text for t in tokens("a[i] += 1.5e-3f; // b")]
    ['a', '[', 'i', ']', '+=', '1.5e-3f', ';']
    """
    found = (Token(m.lastgroup or "", m.group(), m.start()) for m in TOKEN.finditer(source))
    return [token for token in found if token.kind != "space"]


@dataclass(frozen=True)
class Mutant:
    """C with one thing changed."""

    kind: str
    function: str
    line: str
    """The line as it was."""
    change: str
    """What became of what."""
    source: str

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"{self.kind}: {self.change} in {self.line} of {self.function}"


class Change(NamedTuple):
    """Text that takes the place of some other, from one letter to another."""

    kind: str
    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Function:
    """A function of some C."""

    source: str
    name: str
    first: int
    last: int
    """Where its body begins and ends."""

    @cached_property
    def tokens(self) -> list[Token]:
        """The words of its body, braces included."""
        whole = tokens(self.source[self.first : self.last])
        return [token._replace(at=token.at + self.first) for token in whole]

    @cached_property
    def partners(self) -> dict[int, int]:
        """The place of the other bracket of each."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in PAIRS:
                opened.append(at)
            elif token.kind == "sign" and token.text in PAIRS.values():
                other = opened.pop()
                found[at], found[other] = other, at
        return found

    @cached_property
    def loops(self) -> list[tuple[int, int, int, int]]:
        """The heads of loops: places of the first bracket, both semicolons and the last bracket."""
        found: list[tuple[int, int, int, int]] = []
        for at, token in enumerate(self.tokens):
            if token.text == "for":
                end = self.partners[at + 1]
                semicolons = [k for k in range(at + 2, end) if self.tokens[k].text == ";"]
                found.append((at + 1, *semicolons[:2], end))  # pyright: ignore[reportArgumentType]  # a head has two
        return found

    def is_in(self, ranges: Sequence[tuple[int, int]], at: int) -> bool:
        """Return whether a place is within one of some ranges."""
        return any(first < at < last for first, last in ranges)

    @cached_property
    def subscripts(self) -> list[tuple[int, int]]:
        """Where elements of arrays are named, and not declared."""
        found: list[tuple[int, int]] = []
        for at, token in enumerate(self.tokens):
            if token.text == "[" and self.tokens[at - 1].kind == "name":
                is_declared = at > 1 and self.tokens[at - 2].kind == "name"
                is_declared = is_declared and self.tokens[at - 2].text != "return"
                if not is_declared:
                    found.append((at, self.partners[at]))
        return found

    def statements(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last place of each simple statement."""
        heads = [(one[0], one[3]) for one in self.loops]
        start = None
        for at, token in enumerate(self.tokens):
            if self.is_in(heads, at) or token.text in ("for", "if"):
                start = None
            elif token.text in "{};" and token.kind == "sign":
                if token.text == ";" and start is not None:
                    yield start, at
                start = at + 1
            elif start is None and self.tokens[at - 1].text == ")":
                start = at  # what follows a head without a brace


def functions(source: str, wanted: Callable[[str], bool]) -> list[Function]:
    """Return the functions of some C whose names are wanted."""
    found: list[Function] = []
    for head in HEAD.finditer(source):
        if wanted(head[1]):
            end = source.index("\n}", head.end() - 1) + 2
            found.append(Function(source, head[1], head.end() - 1, end))
    return found


def mutants(source: str, wanted: Callable[[str], bool]) -> list[Mutant]:
    """Return all C that differs from some in one thing, in the functions that are wanted."""
    found: list[Mutant] = []
    for function in functions(source, wanted):
        for kind, change_all in KINDS.items():
            found += [_made(function, one._replace(kind=kind)) for one in change_all(function)]
    launches = Function(source, "the launches", 0, 0)
    found += [_made(launches, change) for change in _phases(source)]
    return [*{one.source: one for one in reversed(found)}.values()][::-1]


def _made(function: Function, change: Change) -> Mutant:
    source = function.source
    line = source[source.rfind("\n", 0, change.first) + 1 : source.find("\n", change.first)]
    before = " ".join(source[change.first : change.last].split())
    after = " ".join(change.text.split())
    made = source[: change.first] + change.text + source[change.last :]
    told = f"{before or 'nothing'} → {after or 'nothing'}"
    return Mutant(change.kind, function.name, line.strip(), told, made)


# -- kinds -----------------------------------------------------------------------------------------


def _swapped(token: Token, table: dict[str, str]) -> Change:
    return Change("", token.at, token.end, table[token.text])


def _binary(function: Function, table: dict[str, str]) -> Iterator[tuple[int, Token]]:
    """Yield the operators between two operands that are in a table."""
    for at, token in enumerate(function.tokens):
        if token.kind != "sign" or token.text not in table or at == 0:
            continue
        before = function.tokens[at - 1]
        is_type = before.text in TYPES or re.fullmatch(r"lab_\w*(?:\d|bool|x\d+_at)", before.text)
        if before.text not in BEFORE_UNARY and not is_type:
            yield at, token


def _heads(function: Function) -> list[tuple[int, int]]:
    return [(first, last) for first, _, _, last in function.loops]


def arithmetic(function: Function) -> Iterator[Change]:
    """Change an operator of what is computed, but for one that adds a hidden 0."""
    whole = function.source[function.first : function.last]
    zeros = set(re.findall(r"LAB_HIDE\((\w+)\);", whole))
    for at, token in _binary(function, ARITHMETIC):
        if function.tokens[at + 1].text in zeros and token.text in "+-":
            continue
        if not function.is_in([*function.subscripts, *_heads(function)], at):
            yield _swapped(token, ARITHMETIC)


def bits(function: Function) -> Iterator[Change]:
    """Change an operator on bits."""
    for _, token in _binary(function, BITWISE):
        yield _swapped(token, BITWISE)


def strides(function: Function) -> Iterator[Change]:
    """Change an operator within a subscript."""
    for at, token in _binary(function, ARITHMETIC):
        if function.is_in(function.subscripts, at):
            yield _swapped(token, ARITHMETIC | {"*": "+"})


def comparison(function: Function) -> Iterator[Change]:
    """Change a comparison outside of the heads of loops."""
    for at, token in _binary(function, COMPARED):
        if not function.is_in(_heads(function), at):
            yield _swapped(token, COMPARED)


def accumulation(function: Function) -> Iterator[Change]:
    """Have what adds up keep the last alone, or the other way round."""
    for token in function.tokens:
        if token.text in ASSIGNED:
            yield _swapped(token, ASSIGNED)


def fused(function: Function) -> Iterator[Change]:
    """Subtract what a fused multiply-add adds."""
    for at, token in enumerate(function.tokens):
        if re.fullmatch(r"\w*(?:FMA|fma)\w*", token.text) and function.tokens[at + 1].text == "(":
            *_, (first, last) = _arguments(function, at + 1)
            text = function.source[first:last]
            yield Change("", first, last, f"-({text})")


def _arguments(function: Function, opened: int) -> list[tuple[int, int]]:
    """Return from where to where the arguments of a call go."""
    found: list[tuple[int, int]] = []
    end, depth, start = function.partners[opened], 0, function.tokens[opened].end
    for at in range(opened + 1, end):
        token = function.tokens[at]
        if token.kind == "sign" and token.text in PAIRS:
            depth += 1
        elif token.kind == "sign" and token.text in PAIRS.values():
            depth -= 1
        elif token.text == "," and not depth:
            found.append((start, token.at))
            start = token.end
    return [*found, (start, function.tokens[end].at)]


def _bounds(function: Function, more: str) -> Iterator[Change]:
    for _, first, second, _ in function.loops:
        for at in range(first, second):
            if function.tokens[at].text in ("<", "<=", ">", ">="):
                end = function.tokens[second].at
                yield Change("", end, end, more)


def longer(function: Function) -> Iterator[Change]:
    """Run a loop once more."""
    yield from _bounds(function, " + 1")


def shorter(function: Function) -> Iterator[Change]:
    """Run a loop once less."""
    yield from _bounds(function, " - 1")


def later(function: Function) -> Iterator[Change]:
    """Begin a loop at its second round."""
    for _, first, _, _ in function.loops:
        at = function.tokens[first].at
        yield Change("", at, at, " + 1")


def earlier(function: Function) -> Iterator[Change]:
    """Begin a loop one round before its first."""
    for _, first, _, _ in function.loops:
        at = function.tokens[first].at
        yield Change("", at, at, " - 1")


def sparser(function: Function) -> Iterator[Change]:
    """Leave out every other round of a loop."""
    for _, _, second, end in function.loops:
        step = function.tokens[second + 1 : end]
        if step[-1].text == "++":
            yield Change("", step[-1].at, step[-1].end, " += 2")


def _floats(function: Function) -> Iterator[Token]:
    for token in function.tokens:
        is_float = re.fullmatch(r"(?:\d+\.\d*|\d+)(?:[eE][+-]?\d+)?f?", token.text)
        if token.kind == "number" and is_float and not token.text.isdigit():
            yield token


def sign_of_constant(function: Function) -> Iterator[Change]:
    """Negate a constant, or what is infinite."""
    for token in _floats(function):
        if float(token.text.rstrip("f")):
            yield Change("", token.at, token.end, f"(-{token.text})")
    for token in function.tokens:
        if token.text == "LAB_INF":
            yield Change("", token.at, token.end, "(-LAB_INF)")


def constant(function: Function) -> Iterator[Change]:
    """Change a constant by a twentieth; a 0 into 1."""
    for token in _floats(function):
        value = float(token.text.rstrip("f"))
        suffix = "f" if token.text.endswith("f") else ""
        yield Change("", token.at, token.end, f"{value * 1.05 if value else 1.0!r}{suffix}")


def last_place(function: Function) -> Iterator[Change]:
    """Change a constant in its last place."""
    for token in _floats(function):
        suffix = "f" if token.text.endswith("f") else ""
        text = token.text.rstrip("f")
        if float(text):
            more = "0x1.000002p0f" if suffix else "0x1.0000000000001p0"
            yield Change("", token.at, token.end, f"({token.text} * {more})")


def finite(function: Function) -> Iterator[Change]:
    """Begin a maximum with a large number in place of an infinite one."""
    for token in function.tokens:
        if token.text == "LAB_INF":
            yield Change("", token.at, token.end, "3e4f")


def whole_number(function: Function) -> Iterator[Change]:
    """Change a whole number outside of heads of loops by one."""
    for at, token in enumerate(function.tokens):
        is_declared = function.tokens[at - 1].text == "[" and not function.is_in(
            function.subscripts, at
        )
        is_call = function.tokens[at - 2].text == "LAB_UNROLL"
        is_number = token.kind == "number" and token.text.isdigit()
        if (
            is_number
            and not is_declared
            and not is_call
            and not function.is_in(_heads(function), at)
        ):
            yield Change("", token.at, token.end, str(int(token.text) + 1))


def dropped_cast(function: Function) -> Iterator[Change]:
    """Leave a conversion out."""
    for at, token in enumerate(function.tokens):
        is_call = at + 1 < len(function.tokens) and function.tokens[at + 1].text == "("
        if re.fullmatch(r"lab_cast_\w+", token.text) and is_call:
            yield Change("", token.at, token.end, "")


def narrower(function: Function) -> Iterator[Change]:
    """Have a number pass through 8 bits."""
    for at, token in enumerate(function.tokens):
        if re.fullmatch(r"lab_cast_\w+", token.text) and function.tokens[at + 1].text == "(":
            opened, closed = function.tokens[at + 1], function.tokens[function.partners[at + 1]]
            inner = function.source[opened.end : closed.at]
            yield Change("", opened.at, closed.end, f"((lab_i8)({inner}))")
    for at, token in enumerate(function.tokens):
        if token.text == "lab_i64" and function.tokens[at + 1].kind == "name":
            if function.tokens[at - 1].text == "(" and function.tokens[at - 2].text == "for":
                continue
            yield Change("", token.at, token.end, "lab_i8")


def unsigned(function: Function) -> Iterator[Change]:
    """Take a number with a sign for one without."""
    for at, token in enumerate(function.tokens):
        signed = re.fullmatch(r"lab_i(8|16|32|64)", token.text)
        if signed and function.tokens[at + 1].text in ("*", ")"):
            yield Change("", token.at, token.end, f"lab_u{signed[1]}")


def operands(function: Function) -> Iterator[Change]:
    """Exchange the operands of a subtraction or division, where these are simple."""
    for at, token in _binary(function, {"-": "-", "/": "/"}):
        before, after = _operand(function, at - 1, -1), _operand(function, at + 1, 1)
        if before is None or after is None:
            continue
        one = function.source[function.tokens[before].at : function.tokens[at - 1].end]
        other = function.source[function.tokens[at + 1].at : function.tokens[after].end]
        first, last = function.tokens[before].at, function.tokens[after].end
        yield Change("", first, last, f"{other} {token.text} {one}")


def _operand(function: Function, at: int, way: int) -> int | None:
    """Return the other end of an operand: a name, a number, an element, a call, or brackets."""
    words = function.tokens
    if way < 0:
        if words[at].text in ("]", ")"):
            at = function.partners[at]
            if words[at - 1].kind == "name" and words[at - 1].text not in TYPES:
                at -= 1
        elif words[at].kind == "sign":
            return None
        return None if words[at - 1].text in ("*", "/") else at
    if words[at].text == "(":
        at = function.partners[at]
    elif words[at].kind == "sign":
        return None
    elif words[at + 1].text in ("[", "("):
        at = function.partners[at + 1]
    return None if words[at + 1].text in ("*", "/", "[", "(") else at


def order(function: Function) -> Iterator[Change]:
    """Exchange two statements that follow each other."""
    spans = [*function.statements()]
    for (first, middle), (second, last) in pairwise(spans):
        words = function.tokens
        if middle + 1 != second or _declares(function, first) or _declares(function, second):
            continue
        one = function.source[words[first].at : words[middle].end]
        other = function.source[words[second].at : words[last].end]
        between = function.source[words[middle].end : words[second].at]
        if "#" not in between and not one.startswith("(void)"):
            yield Change("", words[first].at, words[last].end, f"{other}{between}{one}")


def _declares(function: Function, at: int) -> bool:
    words = function.tokens
    text = words[at].text
    return text == "const" or (words[at].kind == "name" and words[at + 1].kind == "name")


def removed(function: Function) -> Iterator[Change]:
    """Leave a statement out."""
    for first, last in function.statements():
        words = function.tokens[first : last + 1]
        is_plain = any(t.text in ("=", "+=") for t in words) and not _declares(function, first)
        if is_plain:
            yield Change("", words[0].at, words[-1].at, "")


def uninitialised(function: Function) -> Iterator[Change]:
    """Declare what is accumulated without a first value."""
    for first, last in function.statements():
        words = function.tokens[first : last + 1]
        texts = [token.text for token in words]
        if _declares(function, first) and "const" not in texts and "=" in texts[:4]:
            yield Change("", words[texts.index("=")].at, words[-1].at, "")


def _offsets(function: Function, more: str, *, stores: bool) -> Iterator[Change]:
    for first, last in function.subscripts:
        is_store = function.tokens[last + 1].text in ("=", "+=")
        if is_store == stores and function.tokens[first - 1].text != "lab_buffers":
            begin, end = function.tokens[first].end, function.tokens[last].at
            yield Change("", begin, end, f"({function.source[begin:end]}){more}")


def next_read(function: Function) -> Iterator[Change]:
    """Read the neighbour behind."""
    yield from _offsets(function, " + 1", stores=False)


def previous_read(function: Function) -> Iterator[Change]:
    """Read the neighbour before."""
    yield from _offsets(function, " - 1", stores=False)


def next_store(function: Function) -> Iterator[Change]:
    """Store one place behind: past the end at last."""
    yield from _offsets(function, " + 1", stores=True)


def previous_store(function: Function) -> Iterator[Change]:
    """Store one place before: before the start at first."""
    yield from _offsets(function, " - 1", stores=True)


def far_store(function: Function) -> Iterator[Change]:
    """Store far beside an array."""
    yield from _offsets(function, " + 1000003", stores=True)


def swapped_indices(function: Function) -> Iterator[Change]:
    """Exchange two names within a subscript."""
    for first, last in function.subscripts:
        names = [t for t in function.tokens[first + 1 : last] if t.kind == "name"]
        plain = [t for t in names if not t.text.startswith(("lab_", "LAB_", "floor"))]
        distinct = list({token.text: token for token in plain}.values())[:2]
        if len(distinct) == 2 and function.tokens[first - 1].text != "lab_buffers":
            begin, end = function.tokens[first].end, function.tokens[last].at
            one, other = (token.text for token in distinct)
            text = re.sub(
                rf"\b(?:{one}|{other})\b",
                lambda found, a=one, b=other: b if found[0] == a else a,
                function.source[begin:end],
            )
            yield Change("", begin, end, text)


def unguarded(function: Function) -> Iterator[Change]:
    """Take what is behind a condition in any case."""
    words = function.tokens
    for at, token in enumerate(words):
        if token.text == "if":
            end = function.partners[at + 1]
            yield Change("", words[at + 1].end, words[end].at, "1")
        elif token.text == "?":
            begin = _condition(function, at)
            yield Change("", words[begin].at, words[at].at, "1 ")


def _condition(function: Function, at: int) -> int:
    """Return where the condition before a question mark begins."""
    words = function.tokens
    begin = at
    while words[begin - 1].text not in ("(", "[", "{", ",", ";", "=", "?", ":", "return", "+="):
        begin -= 1
        if words[begin].text in (")", "]"):
            begin = function.partners[begin]
    return begin


def least_and_most(function: Function) -> Iterator[Change]:
    """Take the larger for the smaller, and the other way round."""
    for at, token in enumerate(function.tokens):
        found = re.fullmatch(r"lab_(min|max)(\w*)", token.text)
        if not found or function.tokens[at + 1].text != "(":
            continue
        if found[2] in ("", "_i64", "_i32") or found[1] == "max":
            # Spelled out: a source has no function that it does not call.
            one, two = (function.source[a:b] for a, b in _arguments(function, at + 1))
            end = function.tokens[function.partners[at + 1]].end
            sign = "<" if found[1] == "max" else ">"
            text = f"(({one}) {sign} ({two}) ? ({one}) : ({two}))"
            yield Change("", token.at, end, text)


def no_tail(function: Function) -> Iterator[Change]:
    """Take the end of a whole tile where the array ends before it."""
    for at, token in enumerate(function.tokens):
        if token.text in ("lab_min", "lab_max") and function.tokens[at + 1].text == "(":
            end = function.tokens[function.partners[at + 1]].end
            for first, last in _arguments(function, at + 1):
                yield Change("", token.at, end, f"({function.source[first:last].strip()})")


def written_input(function: Function) -> Iterator[Change]:
    """Write to an input at the end."""
    for found in re.finditer(
        r"const (\w+) \*(?:restrict )?(\w+) = lab_buffers", function.source[function.first :]
    ):
        if function.first + found.start() < function.last:
            at = function.last - 1
            yield Change("", at, at, f"    (({found[1]} *){found[2]})[0] = 1;\n")


def one_task(function: Function) -> Iterator[Change]:
    """Have all tasks do what the first does."""
    for token in function.tokens:
        if token.text == "lab_task":
            yield Change("", token.at, token.end, "0 * lab_task")


def next_step(function: Function) -> Iterator[Change]:
    """Count the runs from one on."""
    for at, token in enumerate(function.tokens):
        if token.text == "lab_step" and function.tokens[at - 1].text != ")":
            yield Change("", token.at, token.end, "(lab_step + 1)")


KINDS: dict[str, Callable[[Function], Iterator[Change]]] = {
    "arithmetic": arithmetic,
    "bits": bits,
    "stride": strides,
    "comparison": comparison,
    "accumulation": accumulation,
    "fused": fused,
    "longer loop": longer,
    "shorter loop": shorter,
    "later loop": later,
    "earlier loop": earlier,
    "sparser loop": sparser,
    "sign": sign_of_constant,
    "constant": constant,
    "last place": last_place,
    "finite": finite,
    "whole number": whole_number,
    "dropped cast": dropped_cast,
    "narrower": narrower,
    "unsigned": unsigned,
    "operands": operands,
    "order": order,
    "removed": removed,
    "uninitialised": uninitialised,
    "next read": next_read,
    "previous read": previous_read,
    "next store": next_store,
    "previous store": previous_store,
    "far store": far_store,
    "swapped indices": swapped_indices,
    "unguarded": unguarded,
    "min and max": least_and_most,
    "no tail": no_tail,
    "written input": written_input,
    "one task": one_task,
    "next step": next_step,
}
"""What is changed, by the name of its kind."""


def _phases(source: str) -> Iterator[Change]:
    """Exchange two phases, leave one out, or have the tasks of two run without a wait between."""
    for found in re.finditer(r"phases_\w+\[\] = \{([^}]*)\};", source):
        names = [name.strip() for name in found[1].split(",")]
        for at in range(len(names) - 1):
            swapped = [*names]
            swapped[at], swapped[at + 1] = names[at + 1], names[at]
            yield Change("phases", found.start(1), found.end(1), ", ".join(swapped))
            repeated = [*names]
            repeated[at] = names[at + 1]
            yield Change("phase left out", found.start(1), found.end(1), ", ".join(repeated))
    for found in re.finditer(r"LAB_LIST\((\d+), (\d+)((?:, \d+)*)\)", source):
        if found[1] != found[2]:
            text = f"{found[2]}, {found[1]}{found[3]}"
            yield Change("buffers", found.start(1), found.end(3), text)
