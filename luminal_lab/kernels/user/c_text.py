"""A user's C, read as far as needed: what it defines at the top level, and a function's arguments.

This is not a parser for C: comments and strings are dropped, and only what is outside all braces is
looked at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.MULTILINE)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
ATTRIBUTE = re.compile(
    r"\b(?:__attribute__|__attribute|__declspec)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")
WORD = re.compile(r"[A-Za-z_]\w*")
QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__", "register"}
STORAGE = {"static", "inline", "extern", "__inline", "__inline__", "_Noreturn"}


class CArgument(NamedTuple):
    """One argument of a function: its C type without qualifiers, and its name."""

    type: str
    is_pointer: bool
    is_const: bool
    name: str

    @property
    def text(self) -> str:
        """The argument as written in C."""
        const = "const " if self.is_const else ""
        return f"{const}{self.type} {'*' if self.is_pointer else ''}{self.name}".rstrip()


class CFunction(NamedTuple):
    """A function defined at the top level: what it returns, and its arguments."""

    name: str
    returns: str
    arguments: tuple[CArgument, ...]

    @property
    def prototype(self) -> str:
        """Its first line."""
        return (
            f"{self.returns} {self.name}({', '.join(argument.text for argument in self.arguments)})"
        )


def bare(source: str) -> str:
    """Return C without comments, strings, directives and attributes, with its lines in place."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n") or " "

    # A string may hold what looks like a comment, and a comment a quote: the first one counts.
    both = re.compile(f"{COMMENT.pattern}|{STRING.pattern}", re.DOTALL)
    text = DIRECTIVE.sub(blank, both.sub(blank, source)).replace("\\\n", "\n")
    return ATTRIBUTE.sub(blank, text)


def functions(source: str) -> dict[str, CFunction]:
    """Return the functions that C defines, by name.

    >>> found = functions("static int twice(int x) { return 2 * x; }")
    >>> found["twice"].prototype
    'int twice(int x)'
    """
    functions_by_name: dict[str, CFunction] = {}
    for match in re.finditer(r"([^;{}]*?)\b(\w+)\s*\(([^(){};]*)\)\s*\{", top(source)):
        before, name, inside = match.groups()
        words = [word for word in TOKEN.findall(before) if word not in STORAGE]
        if words:
            functions_by_name[name] = CFunction(
                name, " ".join(words).replace(" *", "*"), arguments(inside)
            )
    return functions_by_name


def arguments(text: str) -> tuple[CArgument, ...]:
    """Return the arguments in a function's parentheses."""
    pieces = [piece.strip() for piece in text.split(",")]
    return () if pieces in ([""], ["void"]) else tuple(map(_argument, pieces))


def _argument(text: str) -> CArgument:
    is_pointer = "*" in text or "[" in text
    # What a pointer points to is const if the word comes before the star.
    is_const = "const" in TOKEN.findall(text.partition("*")[0])
    flat = re.sub(r"\[[^\]]*\]|\*", " ", text)
    words = [word for word in WORD.findall(flat) if word not in QUALIFIERS]
    # A single word, and words that all belong to a type, include no name.
    behind = WORD.findall(text.rpartition("*")[2]) if "*" in text else []
    named = len(words) > 1 and (words[-1] not in BASIC or words[-1] in behind)
    type = words[:-1] if named else words
    return CArgument(" ".join(type), is_pointer, is_const, words[-1] if named else "")


BASIC = {"char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool"}


def top(source: str) -> str:
    """Return what is outside all braces, without what is inside."""
    outside: list[str] = []
    depth = 0
    for piece in re.split(r"([{}])", bare(source)):
        if piece == "{":
            depth += 1
            outside += ["{"] * (depth == 1)
        elif piece == "}":
            depth -= 1
            outside += ["}"] * (depth == 0)
        elif depth <= 0:
            outside.append(piece)
    return "".join(outside)


def unbalanced(source: str) -> tuple[str, int] | None:
    """Return a brace without a partner, and its line number; None if all have one.

    >>> unbalanced("void f(void) {\\n  if (1) {\\n}")
    ('{', 1)
    """
    if re.search(r"^[ \t]*#[ \t]*(else|elif)\b", source, re.MULTILINE):
        return None  # each branch may open the same block
    lines: list[int] = []
    for number, line in enumerate(bare(source).split("\n"), 1):
        for brace in re.findall(r"[{}]", line):
            if brace == "{":
                lines.append(number)
            elif not lines:
                return "}", number
            else:
                lines.pop()
    return ("{", lines[-1]) if lines else None


def marked(source: str, line: int) -> str:
    """Return a line of C, counted from 1, with its number and a mark."""
    return f"> {line} | {source.splitlines()[line - 1]}".rstrip()


def names(source: str) -> list[str]:
    """Return what C names at the top level: functions, types, variables and constants of enums.

    >>> names("typedef struct pair { int a; } pair_t; enum { N = 4 }; static float table[N];")
    ['N', 'pair', 'pair_t', 'table']
    """
    text = top(source)
    words = set(functions(source))
    words |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", text))
    # The last word before an end, a bracket or a value, outside parentheses.
    outside = re.sub(r"\([^()]*\)", "()", text)
    words |= set(re.findall(r"\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=[^;,{]*)?(?=[;,=])", outside))
    for inside in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", bare(source)):
        words |= {word for part in inside.split(",") if (word := part.partition("=")[0].strip())}
    kept = {"return", "struct", "union", "enum", "typedef", *BASIC, *QUALIFIERS, *STORAGE}
    return sorted(name for name in words if WORD.fullmatch(name) and name not in kept)
