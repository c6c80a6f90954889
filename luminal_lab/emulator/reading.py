"""A kernel's source as a C++ compiler reads it here: small changes, with every line in its place.

    __shared__ float tile[32][33];   ->   auto &tile = lab_shared<lab_same<float[32][33]>>(0, …);

Functions of the prelude written in PTX are removed: the emulator has others in their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from luminal_lab.devices.build.toolchain import window
from luminal_lab.errors import DeviceError, nearest
from luminal_lab.kernels.prelude.rows import REGISTERS, WGMMA

DialectName: TypeAlias = Literal["cuda", "metal"]
Edit: TypeAlias = tuple[int, int, str]
"""A range of a source, and the text that replaces it."""

TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|\\\n)
    |(?P<directive>\#(?:[^\n\\]|\\\n|\\.)*)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<number>(?:0[xX][\da-fA-F.]+(?:[pP][+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\w*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>\[\[|\]\]|::|->|<<<|>>>|.)""",
    re.VERBOSE | re.DOTALL,
)
INCLUDE: Final = re.compile(r"#\s*include\s*[<\"]([^>\"]*)[>\"]")
KNOWN_HEADERS: Final = {
    "cuda": {
        *("cuda_runtime.h", "cuda.h", "cuda_fp16.h", "cuda_bf16.h", "device_launch_parameters.h"),
        *("math.h", "cmath", "stdint.h", "cstdint", "math_constants.h", "float.h", "cfloat"),
    },
    "metal": {
        *("metal_stdlib", "metal_math", "metal_simdgroup", "metal_simdgroup_matrix"),
        *("metal_atomic", "metal_compute", "metal_common", "metal_integer", "simd/simd.h"),
    },
}
QUALIFIERS: Final = {"static", "const", "volatile", "constexpr", "inline"}
PLAIN_FLOAT: Final = re.compile(r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
SWIZZLE: Final = re.compile(r"[xyzw]{2,4}|[rgba]{2,4}")
SHARED, DYNAMIC = 1000, 1256
"""The first trace numbers of shared arrays, and of those sized by the call."""
PLAIN_HALF: Final = re.compile(f"(?:{PLAIN_FLOAT.pattern})[hH]")
WRITES: Final = re.compile(r"=(?!=)|[-+*/%&|^]=|\+\+|--")
MOST_SHARED = 254
MMA: Final = re.compile(r"lab_mma_(f16|bf16|tf32)")
TILE: Final = re.compile(r"lab_tile_(a|b)_b?f16")
UNITS: Final = {"f16": "LAB_OF_MMA_F16", "bf16": "LAB_OF_MMA_BF16", "tf32": "LAB_OF_MMA_TF32"}
OPENS, CLOSES = (*"([{<", "[["), (*")]}>", "]]")
MARK: Final = {"cuda": "__global__", "metal": "kernel"}


@dataclass(frozen=True)
class Token:
    """A piece of source: its kind, its text, and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the next one starts."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of a kernel: its name, and what Metal binds it to."""

    name: str
    bound: str = ""
    index: int = 0


@dataclass(frozen=True)
class PreparedSource:
    """A prepared source: its text, its kernels' parameters, the stand-ins that it needs."""

    text: str
    kernels: dict[str, tuple[KernelParameter, ...]]
    stand_ins: tuple[str, ...]
    shared: dict[int, str]
    """The shared arrays by their numbers in the runtime."""
    subscripts: tuple[tuple[int, int, int, bool], ...]
    """Subscripts that may index a local array: line, column, depth, and whether it is written."""


def tokens_of(source: str) -> list[Token]:
    """Return the pieces of a source, without comments and spaces."""
    matches = (match for match in TOKEN.finditer(source) if match.lastgroup != "space")
    return [Token(match.lastgroup or "", match[0], match.start()) for match in matches]


def line_at(source: str, offset: int) -> int:
    """Return the line of a position in a source, counted from 1."""
    return source.count("\n", 0, offset) + 1


def refused(source: str, token: Token, text: str, hint: str) -> DeviceError:
    """Return the error about a piece of a source."""
    line = line_at(source, token.start)
    return DeviceError(f"emulator: line {line}: {text}", where=window(source, line), hint=hint)


def read(source: str, dialect: DialectName, known: frozenset[str]) -> PreparedSource:
    """Return a source ready to be compiled; `known` are the functions with stand-ins."""
    tokens = tokens_of(source)
    cuts, own = _functions_in_ptx(source, tokens, known)
    declarations, shared = _shared(source, dialect, tokens)
    kernels = list(_kernels(dialect, tokens))
    edits = [*_directives(source, dialect, tokens), *cuts, *declarations]
    edits += (edit for kernel in kernels for edit in kernel.returns)
    if dialect == "metal":
        edits += [*_floats(tokens), *_swizzles(tokens), *_attributes(tokens)]
    used = {token.text for token in tokens if token.kind == "name"}
    text = _edited(source, edits)
    subscripts = tuple(_subscripts(text, frozenset(shared.values())))
    takes = {kernel.name: kernel.parameters for kernel in kernels}
    return PreparedSource(text, takes, tuple(sorted((known & used) - own)), shared, subscripts)


def _edited(source: str, edits: list[Edit]) -> str:
    """Return a source with pieces replaced; edits inside a larger one are dropped."""
    parts: list[str] = []
    at = 0
    for start, end, text in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start < at:
            continue
        lines = source.count("\n", start, end) - text.count("\n")
        parts += [source[at:start], text, "\n" * lines]
        at = end
    return "".join([*parts, source[at:]])


def _directives(source: str, dialect: DialectName, tokens: Sequence[Token]) -> Iterator[Edit]:
    for token in tokens:
        include = INCLUDE.match(token.text) if token.kind == "directive" else None
        if include and include[1] not in KNOWN_HEADERS[dialect]:
            fault = f"there is no header {include[1]!r} in the emulator"
            hint = nearest(include[1], KNOWN_HEADERS[dialect])
            raise refused(source, token, fault, hint or "a kernel that includes nothing runs in it")
        if include:
            yield token.start, token.end, ""


def _functions_in_ptx(
    source: str, tokens: Sequence[Token], known: frozenset[str]
) -> tuple[list[Edit], set[str]]:
    """Return the functions in PTX to cut, which have stand-ins, and the other names defined."""
    cut: list[Edit] = []
    own: set[str] = set()
    start, k = 0, 0
    while k < len(tokens):
        token = tokens[k]
        if token.text == "{":
            close = _closing(tokens, k)
            head, body = tokens[start:k], tokens[k:close]
            named = [a.text for a, b in pairwise(head) if b.text == "("]
            name = next((word for word in named if word in known), (*named, "")[0])
            ptx = next((t for t in body if t.text in ("asm", "__asm__", "__asm")), None)
            shaped = _shaped(name) if ptx is not None else None
            if shaped is not None:
                end = tokens[min(close, len(tokens) - 1)]
                last = max(i for i, t in enumerate(head) if t.text == ")")
                # The line of its caller counts.
                cut.append((head[last].start, head[last].start, shaped[0]))
                cut.append((token.start, end.end, shaped[1]))
                ptx = None
            if ptx is not None and (name not in known or any(t.text == "namespace" for t in head)):
                fault = f"{name or 'it'} is written in PTX, which the emulator does not run"
                hint = "write it in CUDA C++, or call a function of the prelude"
                raise refused(source, ptx, fault, hint)
            if ptx is not None:
                cut.append((head[0].start, tokens[min(close, len(tokens) - 1)].end, ""))
            elif name in known:
                own.add(name)
            # The contents of `namespace x {` or `extern "C" {` are read as well.
            is_open = bool(head) and (head[0].text == "namespace" or head[-1].kind == "string")
            k = k if is_open else close
            start = k + 1
        elif token.text in (";", "}") or token.kind == "directive":
            start = k + 1
        k += 1
    return cut, own


def _shaped(name: str) -> tuple[str, str] | None:
    """Return the extra parameters and the body of a stand-in for a function of one shape."""
    if tile := TILE.fullmatch(name):
        given = "a, at, stride" if tile[1] == "a" else "b, at, rows, columns"
        return "", f"{{ lab_units::lab_tile_{tile[1]}_16({given}); }}"
    if product := MMA.fullmatch(name):
        call = f"lab_multiply({UNITS[product[1]]}, c, a, b, lab_line)"
    elif change := REGISTERS.fullmatch(name):
        call = f"lab_registers({change[2]}, {int(change[1] == 'rise')}, lab_line)"
        return "LAB_LINE", f"{{ lab_units::{call}; }}"
    elif product := WGMMA.fullmatch(name):
        shape = f"{UNITS[product[1]]}, {product[2]}, {int(bool(product[3]))}"
        call = f"lab_wgmma(c, a, b, more, {shape}, lab_line)"
    else:
        return None
    return ", LAB_LINE", f"{{ lab_units::{call}; }}"


def _closing(tokens: Sequence[Token], opened: int) -> int:
    """Return the position of the brace or parenthesis that closes one."""
    pairs = {"{": "}", "(": ")", "[": "]", "[[": "]]"}
    first, last = tokens[opened].text, pairs[tokens[opened].text]
    depth = 0
    for k in range(opened, len(tokens)):
        depth += (tokens[k].text == first) - (tokens[k].text == last)
        if depth == 0:
            return k
    return len(tokens)


def _floats(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield Metal's literals with the suffix that they do not need there: they are floats."""
    for token in tokens:
        if token.kind == "number" and PLAIN_FLOAT.fullmatch(token.text):
            yield token.start, token.end, token.text + "f"
        elif token.kind == "number" and PLAIN_HALF.fullmatch(token.text):
            yield token.start, token.end, f"half({token.text[:-1]}f)"


def _swizzles(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield components of a vector, `v.yx`, as `v.get<1, 0>()`, or as `set` if they change."""
    for k, token in enumerate(tokens[1:-1], 1):
        if tokens[k - 1].text == "." and SWIZZLE.fullmatch(token.text):
            after = "".join(token_after.text for token_after in tokens[k + 1 : k + 3])
            is_set = after[0] == "=" and after != "=="
            is_set |= after[0] in "+-*/" and after[1:] == "="
            components = ", ".join(str("xyzwrgba".index(letter) % 4) for letter in token.text)
            if after[0] != "(":
                yield token.start, token.end, f"{'set' if is_set else 'get'}<{components}>()"


def _attributes(tokens: Sequence[Token]) -> Iterator[Edit]:
    for k, token in enumerate(tokens):
        if token.text == "[[":
            end = _closing(tokens, k)
            if end < len(tokens) and tokens[k + 1].kind == "name":
                yield token.start, tokens[end].end, ""


# -- kernels ---------------------------------------------------------------------------------------


class ReadKernel(NamedTuple):
    """A kernel of a source: its parameters, and the edits that report each early return."""

    name: str
    parameters: tuple[KernelParameter, ...]
    returns: tuple[Edit, ...]


def _kernels(dialect: DialectName, tokens: Sequence[Token]) -> Iterator[ReadKernel]:
    for k, token in enumerate(tokens):
        if token.text != MARK[dialect] or token.kind != "name":
            continue
        opened = k + 1
        while opened < len(tokens) and not (
            tokens[opened].text == "("
            and not tokens[opened - 1].text.startswith("__")  # as __launch_bounds__(256) does
            and tokens[opened - 1].kind == "name"
        ):
            opened += 1
        if opened == len(tokens):
            continue
        close = _closing(tokens, opened)
        parts = _separated(tokens[opened + 1 : close])
        body = next((i for i in range(close, len(tokens)) if tokens[i].text in ("{", ";")), close)
        end = _closing(tokens, body) if body < len(tokens) and tokens[body].text == "{" else body
        returns = (
            (word.end, word.end, " lab_return()")
            for word, after in pairwise(tokens[body:end])
            if (word.text, after.text) == ("return", ";")
        )
        yield ReadKernel(tokens[opened - 1].text, tuple(map(_parameter, parts)), tuple(returns))


def _subscripts(text: str, shared: frozenset[str]) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the first subscript of each name that is no shared array, by its end and its name."""
    tokens = tokens_of(text)
    for k, (token, after) in enumerate(pairwise(tokens)):
        is_name = token.kind == "name" and tokens[k - 1].text not in (".", "->")
        if not is_name or after.text != "[" or token.text in shared:
            continue
        first = end = _closing(tokens, k + 1)
        depth = 1
        while end + 1 < len(tokens) and tokens[end + 1].text == "[":
            end, depth = _closing(tokens, end + 1), depth + 1
        if end + 3 >= len(tokens):
            continue
        while tokens[end + 1].text == "." and end + 5 < len(tokens):
            end += 2
        signs = "".join(sign.text for sign in tokens[end + 1 : end + 3])
        is_write = WRITES.match(signs) is not None
        for offset in (tokens[first].start, token.start):
            column = offset - text.rfind("\n", 0, offset)
            yield line_at(text, offset), column, depth, is_write


def _separated(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the parts of a list between its commas."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in OPENS) - (token.text in CLOSES)
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _parameter(part: Sequence[Token]) -> KernelParameter:
    texts = [token.text for token in part]
    bound, index = "", 0
    if "[[" in texts:
        at = texts.index("[[")
        bound = texts[at + 1]
        inside = texts[at + 2 : at + 4]
        index = int(inside[1]) if inside[:1] == ["("] and inside[1].isdigit() else 0
        part = part[:at]
    names = [token.text for token in part if token.kind == "name"]
    return KernelParameter(names[-1] if names else "", bound, index)


# -- shared arrays ---------------------------------------------------------------------------------


def _shared(
    source: str, dialect: DialectName, tokens: Sequence[Token]
) -> tuple[list[Edit], dict[int, str]]:
    """Return declarations of shared arrays as references to the emulator's memory."""
    edits: list[Edit] = []
    names: dict[int, str] = {}
    word = "__shared__" if dialect == "cuda" else "threadgroup"
    for k, token in enumerate(tokens):
        if token.text != word or token.kind != "name":
            continue
        first = k
        while first and tokens[first - 1].text in ("extern", *QUALIFIERS):
            first -= 1
        end = k
        while end < len(tokens) and tokens[end].text not in (";", ")", "{"):
            end = _closing(tokens, end) + 1 if tokens[end].text == "(" else end + 1
        if end >= len(tokens) or tokens[end].text != ";":
            continue  # a parameter
        is_extern = any(t.text == "extern" for t in tokens[first:k])
        declared = _declarations(source, token, tokens[k + 1 : end])
        aligned = _alignment(tokens[first:end])
        line = line_at(source, token.start)
        references: list[str] = []
        for type, dims, name in declared:
            number = DYNAMIC if is_extern else SHARED + len([n for n in names if n < DYNAMIC])
            if number - SHARED == MOST_SHARED:
                raise refused(source, token, "there are too many shared arrays", "use fewer")
            names[number] = name
            if is_extern:
                made = f'lab_dynamic<{type}{aligned}>(0, "{name}", {line})'
                references.append(f"{type} *{name} = {made};")
                continue
            array, slot = f"lab_same<{type}{dims}>", number - SHARED
            made = f'lab_shared<{array}{aligned}>({slot}, "{name}", {line})'
            references.append(f"{array} &{name} = {made};")
        if references:
            edits.append((tokens[first].start, tokens[end].end, " ".join(references)))
    return edits, names


def _declarations(source: str, token: Token, body: Sequence[Token]) -> list[tuple[str, str, str]]:
    """Return type, dims and name of each array in a declaration; none if it declares pointers."""
    parts = _separated(_without_alignment(body))
    head = _declared(parts[0]) if parts else None
    if head is None:
        return []
    words = [t.text for t in parts[0][: head[0]]]
    type = " ".join(word for word in words if word not in QUALIFIERS)
    type = f"volatile {type}" if "volatile" in words else type
    declared = [(type, head[1], parts[0][head[0]].text)]
    for part in parts[1:]:
        head = _declared([Token("name", type, 0), *part])
        if head is None:
            raise refused(source, token, "one declaration has two types", "write two")
        declared.append((type, head[1], part[head[0] - 1].text))
    return declared


def _alignment(tokens: Sequence[Token]) -> str:
    """Return the alignment that a declaration asks for, as one more argument of a template."""
    for token, (k, after) in zip(tokens, enumerate(tokens[1:], 1), strict=False):
        if token.text in ("__align__", "alignas", "aligned") and after.text == "(":
            return f", {_joined(tokens[k + 1 : _closing(tokens, k)])}"
    return ""


def _without_alignment(tokens: Sequence[Token]) -> list[Token]:
    kept: list[Token] = []
    k = 0
    while k < len(tokens):
        if tokens[k].text in ("__align__", "alignas", "__attribute__"):
            k = _closing(tokens, k + 1) + 1
        elif tokens[k].text == "[[":
            k = _closing(tokens, k) + 1
        else:
            kept.append(tokens[k])
            k += 1
    return kept


def _declared(part: Sequence[Token]) -> tuple[int, str] | None:
    """Return which token of `type name[dims]` is the name, and the dims; None for a pointer."""
    depth = 0
    for k, token in enumerate(part):
        depth += (token.text == "<") - (token.text == ">")
        if depth or token.kind != "name" or k == 0:
            continue
        after = part[k + 1].text if k + 1 < len(part) else ""
        if part[k - 1].text in "*&":
            return None
        if after in ("[", "", "="):
            end = next((i for i, t in enumerate(part) if t.text == "=" and i > k), len(part))
            return k, _joined(part[k + 1 : end])
    return None


def _joined(tokens: Sequence[Token]) -> str:
    """Return tokens as text; adjacent tokens stay adjacent, as in `1 << 4`."""
    parts: list[str] = []
    for k, token in enumerate(tokens):
        parts += [" "] * (k > 0 and tokens[k - 1].end != token.start)
        parts.append(token.text)
    return "".join(parts)
