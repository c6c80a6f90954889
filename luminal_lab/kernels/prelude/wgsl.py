"""C as kernels and the prelude are written in, as WGSL: line by line, with the type of each part.

    float t = 0.0f;                          var t: f32 = 0.0f;
    for (int k = 0; k < 64; k++) {           for (var k: i32 = 0; k < 64; k++) {
        t += x[64*i + k] * 2.0f;       →         t += x[64 * i + k] * 2.0f;
    }                                        }
    y[i] = t < 1.0f ? t : 1.0f;              y[i] = select(1.0f, t, t < 1.0f);

WGSL converts nothing by itself, so every expression is read with its type. Numbers of fewer than 32
bits are words in variables; in buffers they lie as everywhere, and a thread that writes one changes
only its bits of the word. Numbers of 64 bits are pairs of words, whose operators are functions of
`webgpu.wgsl`. Positions are i32.

Where an adapter has f16, 16-bit floats are a type like the others, which lie in buffers by
themselves. What is rounded to it after one operator is computed in it:

    O[i] = lab_cast_f32_f16(lab_cast_f16_f32(x[i]) * 2.0f);    O[i] = x[i] * 2.0h;
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np

WORDS: Final = {
    "float": "f32",
    "int": "i32",
    "uint": "u32",
    **{f"lab_{kind}{bits}": f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64)},
    "lab_f16": "u16",
    "lab_bf16": "u16",
    "lab_bool": "u8",
}
"""The types of C, by what they are here; 16-bit floats are their bits."""
HELD: Final = {"i8": "i32", "i16": "i32", "u8": "u32", "u16": "u32"} | {
    "i64": "vec2<u32>",
    "u64": "vec2<u32>",
}
"""The types of variables, where they differ."""
WIDE: Final = ("i64", "u64")
NARROW: Final = ("i8", "i16", "u8", "u16")
FUNCTIONS: Final = {
    **{f"__builtin_{name}": name for name in ("fabs", "floor", "ceil", "trunc", "sqrt", "rint")},
    "fabs": "abs",
    "rint": "round",
    "nearbyint": "round",
    "pow": "pow",
    "fmin": "min",
    "fmax": "max",
    "copysign": "lab_copysign",
    "__builtin_copysign": "lab_copysign",
    "__builtin_inf": "lab_infinity",
    "__builtin_nan": "lab_no_number",
    "rsqrt": "inverseSqrt",
}
"""The functions of C that have another name in WGSL, without the f of floats."""
NUMBERS: Final = {"LAB_INF": "lab_infinity()", "LAB_NAN": "lab_no_number()"}
ROUNDED_UP, LARGEST = "3.4028235e+38f", "0x1.fffffep+127f"
"""The largest number as C has it, which is above it by less than rounding, and exactly."""
KEPT: Final = "0x1.8p23f", "0x1.26p+1f"
"""The sizes to which numbers are added to be rounded, in functions that take them off again."""
RESERVED: Final = frozenset(
    """
    alias as async await become binding_array array atomic bitcast bool case const const_assert
    continuing default diagnostic discard else enable fallthrough false fn for from get global if
    impl import in let layout loop macro match mod module move mut nil null of override package
    pass ptr pub ref regardless requires resource sampler select self set shader storage struct
    super switch target texture this trait true type uniform unless use var vec2 vec3 vec4 wgsl
    where with workgroup write yield f16 f32 i32 u32 abs all any ceil clamp cos cross distance dot
    exp exp2 floor fma fract length log log2 mix normalize pow round sign sin sqrt step tan tanh
    transpose trunc filter final finally handle meta precise common demote expression external
    instanceof interface line noinline partition point priority protected self sized smooth std
    """.split()  # noqa: SIM905  # a list of words reads better so
)
"""Words that WGSL keeps for itself, and functions of its own that kernels call."""
TOKEN: Final = re.compile(
    r"\s*(0[xX][\da-fA-F.]+[pP][+-]?\d+f?|0[xX][\da-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+(?=[eE]))"
    r"(?:[eE][+-]?\d+)?f?|\d+[uUlL]*|\w+|\"\"|<<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\S)"
)
BINARY: Final = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "==": 6,
    "!=": 6,
    "<": 7,
    ">": 7,
    "<=": 7,
    ">=": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
"""The operators of C, by how tightly they bind."""
SUM, UNARY, ATOM = 9, 11, 12
SIGNATURE: Final = re.compile(r"^static inline (\w+) (\w+)\(([^)]*)\)", re.MULTILINE)
NATIVE: Final = re.compile(r"^fn (\w+)\(([^)]*)\)(?: -> ([\w<>]+))?", re.MULTILINE)
DECLARED: Final = re.compile(r"(static )?(const )?(shared )?(\w+) (\w+)(\[|\s*=|;|,)")


class NeedsBitsError(Exception):
    """A function wants the bits of a 16-bit float, which WGSL does not hand out alone."""


class Typed(NamedTuple):
    """An expression: its text, its type, and how tightly it binds."""

    text: str
    type: str
    level: int = ATOM
    half: str = ""
    """The same value in f16, as an operand, if it is one of f16."""
    rounded: str = ""
    """Its value rounded to f16, if f16 can compute it."""

    def at(self, least: int) -> str:
        """Return it as an operand of something that binds this tightly."""
        return self.text if self.level >= least else f"({self.text})"


class Array(NamedTuple):
    """An array: what its elements are, and whether it is a buffer in which they lie packed."""

    type: str
    is_buffer: bool = False
    is_written: bool = False


Signature: TypeAlias = tuple[str, tuple[str, ...]]
"""The type that a function returns, and those that it takes."""


@cache
def signatures(text: str) -> Mapping[str, Signature]:
    """Return the functions that a text defines, in C or in WGSL.

    >>> signatures("static inline lab_u32 lab_bits_f32(float x) { return 0; }")
    {'lab_bits_f32': ('u32', ('f32',))}
    """
    found: dict[str, Signature] = {}
    for made, name, given in SIGNATURE.findall(text):
        types = [part.split()[-2] for part in given.split(",") if part.strip()]
        named = tuple(WORDS.get(type, type) for type in types)
        found[name] = WORDS.get(made, str(made)), named
    for name, given, made in NATIVE.findall(text):
        types: list[str] = re.findall(r": ([\w<>]+)", given)
        found[str(name)] = f"{made or ''}", tuple(types)
    return found


def held(type: str) -> str:
    """Return the type of a variable in WGSL."""
    return HELD.get(type, type)


def renamed(name: str) -> str:
    """Return a name of C's as WGSL may have it; names in C never end in an underscore alone."""
    return f"{name}_" if name in RESERVED or name.startswith("__") else name


def statements(text: str) -> Iterator[str]:
    """Yield the lines of C code, each a statement, a head with its bracket, or a closing one."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|LAB_UNROLL\(\w+\)", " ", text, flags=re.DOTALL)
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if (letter in "{}" or (letter == ";" and not depth)) and text[begin : at + 1].strip():
            yield " ".join(text[begin : at + 1].split())
            begin = at + 1


class Wgsl:
    """Translates a function; `known` finds the signatures of others."""

    def __init__(
        self, known: Callable[[str], Signature | None], *, has_float16: bool = False
    ) -> None:
        self.known = known
        self.words = WORDS | {"lab_f16": "f16"} if has_float16 else WORDS
        """The types of C in this function."""
        self.names: dict[str, str | Array] = {"lab_thread": "u32", "lab_block": "i32"}
        self.shared: dict[str, str] = {}
        """The arrays that threads share, by name, as WGSL declares them."""
        self.halves = set[str]()
        """The names of floats that are numbers of f16."""
        self.returns = ""
        self.tokens: list[str] = []
        self.at = 0
        self.is_position = False
        """Whether an index is read, whose 64-bit parts are small."""

    # -- functions and lines -----------------------------------------------------------------------

    def paragraph(self, text: str) -> str:
        """Return functions in WGSL; those that are in it already stay as they are."""
        notes, *functions = re.split(r"^(?=static inline)", text, flags=re.MULTILINE)
        return notes + "\n".join(map(self.function, functions))

    def function(self, text: str) -> str:
        """Return a function of C's in WGSL."""
        head, *lines = statements(text)
        match = re.fullmatch(r"static inline (\w+) (\w+)\((.*)\) \{", head)
        assert match is not None, head
        made, name, given = match.groups()
        self.returns = WORDS.get(made, "")
        body = " ".join(lines)
        params, copies = list[str](), list[str]()
        for part in filter(None, map(str.strip, given.split(","))):
            type, param = WORDS[part.split()[-2]], part.split()[-1]
            self.names[param] = type
            own = renamed(param)
            if re.search(rf"(?<![\w.]){param} (?:[-+*/|&^]|<<|>>)?= ", body):
                copies.append(f"    var {own}: {held(type)} = {own}_in;")
                own = f"{own}_in"
            params.append(f"{own}: {held(type)}")
        returned = f" -> {held(self.returns)}" if self.returns else ""
        result, depth = [f"fn {name}({', '.join(params)}){returned} {{", *copies], 1
        for line in lines:
            depth -= line.startswith("}")
            result += ["    " * depth + part for part in self.line(line)]
            depth += line.endswith("{")
        return "\n".join(result)

    def line(self, line: str) -> list[str]:
        """Return a line of C as lines of WGSL."""
        if line == "}":
            return [line]
        if match := re.fullmatch(r"for \((.*); (.*); (.*)\) \{", line):
            (start,) = self.line(f"{match[1]};")
            step = re.sub(r"(\w+)\+\+", r"\1 += 1", match[3])
            (step,) = self.line(f"{step};")
            return [f"for ({start} {self.condition(match[2])}; {step.rstrip(';')}) {{"]
        if match := re.fullmatch(r"if \((.*)\) \{", line):
            return [f"if ({self.condition(match[1])}) {{"]
        if line.startswith("if ("):
            end = _closing(line, 3)
            inner = self.line(line[end + 1 :].strip())
            return [f"if ({self.condition(line[4:end])}) {{", *(f"    {x}" for x in inner), "}"]
        if line.startswith("return "):
            return [f"return {self.value(line[7:-1], self.returns)};"]
        if (match := DECLARED.match(line)) and match[4] in self.words:
            return self.declared(line, match)
        return self.assigned(line)

    def declared(self, line: str, match: re.Match[str]) -> list[str]:
        """Return a declaration, of one name or of several."""
        _, const, shared, word, name, sign = match.groups()
        type = self.words[word]
        if sign == "[":
            size = line[match.end() : line.index("]")]
            self.names[name] = Array(type)
            text = f"{renamed(name)}: array<{held(type)}, {size}>;"
            if shared:
                self.shared[name] = f"var<workgroup> {text}"
                return []
            return [f"var {text}"]
        lines: list[str] = []
        for part in _split(line[match.start(5) : -1]):
            name, _, value = (word.strip() for word in part.partition("="))
            given = self.typed(value) if value else None
            start = "" if given is None else f" = {converted(given, type).text}"
            if const and given is not None and given.half:
                self.halves.add(name)
            if type == "f32" and any(size in value for size in KEPT):
                start = f" = lab_kept({start[3:]})"
            self.names[name] = type
            kind = "let" if const else "var"
            lines.append(f"{kind} {renamed(name)}: {held(type)}{start};")
        return lines

    def assigned(self, line: str) -> list[str]:
        """Return an assignment, or a call whose result is not used."""
        self.read(line.rstrip(";"))
        if self.peek() == "*":  # the one element that a pointer has
            name = self.tokens[1]
            self.tokens = [name, "[", "lab_numbers", "]", *self.tokens[2:]]
        name = self.peek()
        target = self.names.get(name) or self.exchanged(name)
        if target is None:
            return [f"{self.expression().text};"]
        index = ""
        self.at += 1
        if isinstance(target, Array):
            index = self.index()
        how = self.tokens[self.at]
        self.at += 1
        value, type = self.expression(), target.type if isinstance(target, Array) else target
        sign = how.rstrip("=")
        if sign and (type in HELD or type == "u8"):
            value = self.joined(self.element(name, index), sign, value)
        elif sign:
            value = promoted(value)
            return [f"{self.place(name, index)} {how} {converted(value, type).text};"]
        text = converted(value, type).text
        if isinstance(target, Array) and target.is_buffer and is_packed(type):
            return self.packed(name, index, type, text)
        return [f"{self.place(name, index)} = {text};"]

    def packed(self, name: str, index: str, type: str, text: str) -> list[str]:
        """Return how a thread sets its bits of a word, of which others set the rest."""
        bits = bits_of(type)
        mask, per = f"0x{(1 << bits) - 1:x}u", 32 // bits
        return [
            "{",
            f"    let lab_at = u32({index});",
            f"    let lab_by = {bits}u * (lab_at % {per}u);",
            f"    let lab_bits = (u32({held(type)}({text})) & {mask}) << lab_by;",
            f"    atomicAnd(&{renamed(name)}[lab_at / {per}u], ~({mask} << lab_by));",
            f"    atomicOr(&{renamed(name)}[lab_at / {per}u], lab_bits);",
            "}",
        ]

    # -- elements ----------------------------------------------------------------------------------

    def exchanged(self, name: str) -> Array | None:
        """Return the array through which threads exchange values of a type."""
        match = re.fullmatch(r"lab_(?:shared|slots)_(\w+)", name)
        return None if match is None else Array(match[1])

    def place(self, name: str, index: str) -> str:
        """Return a variable or an element that lies by itself."""
        return f"{renamed(name)}[{index}]" if index else renamed(name)

    def element(self, name: str, index: str) -> Typed:
        """Return the value of a variable or an element."""
        kind = self.names.get(name) or self.exchanged(name)
        if not isinstance(kind, Array):
            assert kind is not None, name
            half = f"f16({renamed(name)})" if name in self.halves else ""
            return Typed(renamed(name), kind, half=half)
        type, bits = kind.type, bits_of(kind.type)
        if not kind.is_buffer or not is_packed(type):
            return Typed(self.place(name, index), type)
        word = f"{renamed(name)}[u32({index}) / {32 // bits}u]"
        word = f"atomicLoad(&{word})" if kind.is_written else word
        word = f"i32({word})" if type[0] == "i" else word
        by = f"{bits}u * (u32({index}) % {32 // bits}u)"
        return Typed(f"extractBits({word}, {by}, {bits}u)", type)

    def index(self) -> str:
        """Read an index in brackets."""
        assert self.tokens[self.at] == "["
        self.at += 1
        if self.tokens[self.at] == "lab_numbers":
            self.at += 2
            return "lab_numbers.lab_fault_at"
        outer, self.is_position = self.is_position, True
        value = self.expression()
        self.is_position = outer
        self.at += 1
        return value.text if value.type == "u32" else converted(value, "i32").text

    # -- expressions -------------------------------------------------------------------------------

    def read(self, text: str) -> None:
        """Begin to read an expression."""
        self.tokens, self.at = [*TOKEN.findall(text), ""], 0

    def peek(self) -> str:
        """Return the next token."""
        return self.tokens[self.at]

    def value(self, text: str, type: str) -> str:
        """Return an expression as a value of a type."""
        return converted(self.typed(text), type).text

    def typed(self, text: str) -> Typed:
        """Return an expression with its type."""
        self.read(text)
        value = self.expression()
        assert not self.peek(), f"{text}: {self.tokens[self.at :]}"
        return value

    def condition(self, text: str) -> str:
        """Return an expression as a condition."""
        return self.value(text, "bool")

    def expression(self, least: int = 0) -> Typed:
        """Read an expression of operators that bind at least this tightly."""
        left = self.unary()
        while True:
            sign = self.peek()
            if sign == "?" and least == 0:
                self.at += 1
                chosen = self.expression()
                assert self.tokens[self.at] == ":"
                self.at += 1
                left = self.selected(left, chosen, self.expression())
            elif BINARY.get(sign, -1) > least:
                self.at += 1
                left = self.joined(left, sign, self.expression(BINARY[sign]))
            else:
                return left

    def selected(self, test: Typed, chosen: Typed, other: Typed) -> Typed:
        """Return one of two values; both are computed, which does no harm."""
        type = common(chosen, other)
        type = "i32" if type == "number" else type
        parts = [converted(part, type) for part in (other, chosen)]
        texts = [f"{held(type)}({p.text})" if _is_plain(p.text) else p.text for p in parts]
        return Typed(f"select({texts[0]}, {texts[1]}, {converted(test, 'bool').text})", type)

    def joined(self, left: Typed, sign: str, right: Typed) -> Typed:
        """Return two values with an operator between them."""
        level = BINARY[sign]
        if sign in ("&&", "||"):
            sides = [converted(side, "bool").at(6) for side in (left, right)]
            return Typed(f" {sign} ".join(sides), "bool", level)
        if sign in ("<<", ">>"):
            left, by = promoted(left), converted(right, "u32")
            if left.type in WIDE:
                kind = "left_64" if sign == "<<" else f"right_{left.type}"
                return Typed(f"lab_{kind}({left.text}, {by.text})", left.type)
            left = converted(left, "i32") if left.type == "number" else left
            amount = f"{by.text}u" if by.text.isdigit() else by.at(ATOM)
            return Typed(f"{left.at(UNARY)} {sign} {amount}", left.type, level)
        type = common(left, right)
        if type == "bool" and sign not in ("&", "|", "==", "!="):
            type = "i32"
        is_test = level in (6, 7)
        if is_test and type == "f32" and left.text == right.text and sign in ("==", "!="):
            return Typed(f"{'!' * (sign == '!=')}lab_is_number({left.text})", "bool", UNARY)
        left, right = converted(left, type), converted(right, type)
        if type in WIDE:
            return self.joined_wide(left, sign, right, type)
        if level in (3, 4, 5) or is_test:
            least = SUM if is_test else ATOM
            if sign == "!=" and type == "f32":
                return Typed(f"!({left.at(least)} == {right.at(least)})", "bool", UNARY)
            text = f"{left.at(least)} {sign} {right.at(least)}"
            return Typed(text, "bool" if is_test else type, level)
        can_round = left.half and right.half and sign in "+-*"
        rounded = f"{left.half} {sign} {right.half}" if can_round else ""
        text = f"{left.at(level)} {sign} {right.at(level + 1)}"
        return Typed(text, type, level, rounded=rounded)

    def joined_wide(self, left: Typed, sign: str, right: Typed, type: str) -> Typed:
        """Return two numbers of 64 bits with an operator between them."""
        a, b = left.text, right.text
        match sign:
            case "==" | "!=":
                return Typed(f"{'all' if sign == '==' else 'any'}({a} {sign} {b})", "bool")
            case "<" | ">":
                return Typed(
                    f"lab_less_{type}({', '.join((a, b) if sign == '<' else (b, a))})", "bool"
                )
            case "<=" | ">=":
                order = (b, a) if sign == "<=" else (a, b)
                return Typed(f"!lab_less_{type}({', '.join(order)})", "bool", UNARY)
            case "&" | "|" | "^":
                return Typed(f"({left.at(ATOM)} {sign} {right.at(ATOM)})", type)
            case "%":
                return Typed(f"lab_rest_{type}({a}, {b})", type)
            case _:
                word = {"+": "add", "-": "sub", "*": "mul"}[sign]
                return Typed(f"lab_{word}_64({a}, {b})", type)

    def unary(self) -> Typed:
        """Read an operand, with what stands before it."""
        token = self.peek()
        if token in ("-", "!", "~"):
            self.at += 1
            value = self.unary()
            if token == "!":
                return Typed(f"!{converted(value, 'bool').at(ATOM)}", "bool", UNARY)
            value = promoted(value)
            if value.type == "bool":
                value = converted(value, "i32")
            if token == "-" and value.type == "u32":
                return Typed(f"0u - {value.at(UNARY)}", "u32", SUM)
            if token == "-" and value.type in WIDE:
                return Typed(f"lab_sub_64(vec2<u32>(0u, 0u), {value.text})", value.type)
            return Typed(f"{token}{value.at(ATOM)}", value.type, UNARY)
        if (
            token == "("
            and self.tokens[self.at + 1] in self.words
            and self.tokens[self.at + 2] == ")"
        ):
            type = self.words[self.tokens[self.at + 1]]
            self.at += 3
            return converted(self.unary(), type)
        return self.operand()

    def operand(self) -> Typed:
        """Read a number, a name, an element, a call, or something in brackets."""
        token = self.peek()
        self.at += 1
        if token == "(":
            value = self.expression()
            self.at += 1
            return (
                value if value.level == ATOM else value._replace(text=f"({value.text})", level=ATOM)
            )
        if token[0].isdigit() or token[0] == ".":
            return number(token)
        if token in NUMBERS:
            return Typed(NUMBERS[token], "f32")
        if self.peek() == "(":
            return self.called(token)
        if self.peek() == "[":
            return self.element(token, self.index())
        value = self.element(token, "")
        if self.is_position and value.type in WIDE:
            return Typed(f"i32({value.text}.x)", "i32")
        return value

    def called(self, name: str) -> Typed:
        """Read the arguments of a function, and return its call."""
        args: list[Typed] = []
        self.at += 1
        while self.peek() != ")":
            if self.peek() == '""':
                self.at += 1
                continue
            outer, self.is_position = self.is_position, False
            args.append(self.expression())
            self.is_position = outer
            self.at += self.peek() == ","
        self.at += 1
        if (match := re.fullmatch(r"lab_cast_i64_(\w+)", name)) and args[0].type != "i64":
            to = {"bool": "bool", "f32": "f32"}.get(match[1], match[1])
            if to not in ("f16", "bf16", "f64"):
                return converted(args[0], "u8" if to == "bool" else to)
        if name in self.words:
            return converted(args[0], self.words[name])
        if "f16" in self.words.values() and name in ("lab_cast_f16_f32", "lab_cast_f32_f16"):
            return self.widened(args[0]) if name.endswith("f32") else self.halved(args[0])
        known = self.known(name)
        if known is not None:
            made, takes = known
            texts = [converted(arg, type).text for arg, type in zip(args, takes, strict=True)]
            return Typed(f"{name}({', '.join(texts)})", made)
        word = FUNCTIONS.get(name) or FUNCTIONS.get(name.removesuffix("f"))
        word = word or name.removesuffix("f")
        word = FUNCTIONS.get(word, word)
        texts = [converted(arg, "f32").text for arg in args]
        return Typed(f"{word}({', '.join(texts)})", "f32")

    def widened(self, value: Typed) -> Typed:
        """Return a 16-bit float as one of 32 bits."""
        half = converted(value, "f16")
        return Typed(f"f32({half.text})", "f32", half=half.at(ATOM))

    def halved(self, value: Typed) -> Typed:
        """Return a float rounded to 16 bits, computed in 16 if that is the same."""
        if value.half or value.rounded:
            return Typed(value.half or value.rounded, "f16", ATOM if value.half else SUM)
        return Typed(f"lab_half({value.text})", "f16")


# -- types -----------------------------------------------------------------------------------------


def converted(value: Typed, type: str) -> Typed:
    """Return a value in another type, as C converts it."""
    source = value.type
    if source == type or not type:
        return value
    if source == "number":
        return literal(value, type)
    if "f16" in (source, type) and type != "f32":
        raise NeedsBitsError
    if type == "bool":
        return _truth(value)
    if type in WIDE:
        return _widened(value, type)
    if source in WIDE:
        if type == "f32":
            return Typed(f"lab_float_{source}({value.text})", type)
        value = Typed(f"{value.at(ATOM)}.x", "u32")
    if source == "bool":
        one, zero = {"f32": ("1.0f", "0.0f"), "u32": ("1u", "0u")}.get(held(type), ("1", "0"))
        return Typed(f"select({zero}, {one}, {value.text})", type)
    return _resized(value, type)


def _truth(value: Typed) -> Typed:
    """Return whether a value is not 0; NaN is true in C, and WGSL leaves `!=` of it open."""
    if value.type in WIDE:
        return Typed(f"any({value.text} != vec2<u32>(0u, 0u))", "bool")
    if value.type == "f32":
        return Typed(f"!({value.at(SUM)} == 0.0f)", "bool", UNARY)
    zero = "0" if held(value.type) == "i32" else "0u"
    return Typed(f"{value.at(SUM)} != {zero}", "bool", 6)


def _widened(value: Typed, type: str) -> Typed:
    """Return a value in 64 bits."""
    if value.type in WIDE:
        return value._replace(type=type)
    if value.type == "f32":
        return Typed(f"lab_words_{type}({value.text})", type)
    value = converted(value, "u32") if value.type == "bool" else value
    return Typed(f"lab_wide_{held(value.type)}({value.text})", type)


def _resized(value: Typed, type: str) -> Typed:
    """Return a float or a whole number as another; one of fewer bits loses its first ones."""
    now, then, bits = held(value.type), held(type), bits_of(type)
    if now != then:
        value = Typed(f"{then}({value.text})", value.type)
    if type in HELD and (bits < bits_of(value.type) or value.type[0] != type[0]):
        return Typed(f"extractBits({value.text}, 0u, {bits}u)", type)
    return value._replace(type=type)


def common(left: Typed, right: Typed) -> str:
    """Return the type in which two values meet."""
    types = {promoted(left).type, promoted(right).type}
    if types == {"number"}:
        return "number"
    return next(t for t in ("f32", "f16", "u64", "i64", "u32", "i32", "bool") if t in types)


def promoted(value: Typed) -> Typed:
    """Return a value of few bits as an int."""
    return converted(value, "i32") if value.type in NARROW else value


def is_packed(type: str) -> bool:
    """Return whether elements lie in buffers as parts of words."""
    return bits_of(type) < 32 and type != "f16"


def bits_of(type: str) -> int:
    """Return how many bits a number has."""
    return int(type[1:]) if type[1:].isdigit() else 32


def number(token: str) -> Typed:
    """Return a number as it is written in C, with its type."""
    if (token.endswith("f") and not token.startswith("0x")) or "p" in token or "." in token:
        text = token if token.endswith("f") else f"{token}f"
        with np.errstate(over="ignore"):
            value = np.float32(float.fromhex(text[:-1]) if "x" in text else float(text[:-1]))
            is_half = np.isfinite(value) and value == np.float16(value)
        half = f"{float(value)!r}h" if is_half else ""
        return Typed(LARGEST if text == ROUNDED_UP else text, "f32", half=half)
    digits = token.rstrip("uUlL")
    value = int(digits, 0)
    if value >> 32:
        return Typed(f"vec2<u32>({value & 0xFFFFFFFF}u, {value >> 32}u)", "i64")
    if "u" in token.lower() or value >> 31:
        return Typed(f"{digits}u", "u32")
    return Typed(digits, "number")


def literal(value: Typed, type: str) -> Typed:
    """Return a whole number that has no type yet."""
    text = value.text
    if type == "bool":
        return Typed(f"{value.at(SUM)} != 0", "bool", 6)
    if type in WIDE:
        return Typed(f"lab_wide_i32({text})", type)
    if _is_plain(text):
        if held(type) == "u32":
            return Typed(f"{text}u", type)
        if type == "f32":
            return Typed(f"{int(text, 0)}.0f", type)
    return Typed(text if held(type) == "i32" else f"{held(type)}({text})", type, value.level)


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"\d+|0x[\da-fA-F]+", text) is not None


def _closing(text: str, at: int) -> int:
    """Return where the bracket that opens at a place is closed."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    raise AssertionError(text)


def _split(text: str) -> Sequence[str]:
    """Return the parts of a declaration that commas outside brackets separate."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
