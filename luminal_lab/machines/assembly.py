"""Assembly of a kernel, its lines beside those of the source.

    vfmadd231ps (%rax), %ymm0, %ymm1     line 12:  sum += a[i] * b[i];

Compilers name lines by `.loc`, as in `.loc 1 57 9`: file 1, line 57. What was inlined belongs to
the line that called it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from luminal_lab.core.printer import as_text

LABEL = re.compile(r"^([A-Za-z_.$][\w.$]*):")
LOCATION = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
DIRECTIVE = re.compile(r"^\s*(\.[a-zA-Z_]|[#;/]|//|@ )")
LOCAL = re.compile(r"\.?L[\w.$]*")
END = re.compile(r"^\s*(\.cfi_endproc|\.size\s|\.seh_endproc)")


@dataclass(frozen=True)
class Assembly:
    """What a machine runs for a kernel: text, and the source lines of its lines."""

    text: str
    lines: tuple[tuple[int, int], ...] = ()
    """Lines of the text, and the line of the source that each comes from; both from 1."""
    by: str = ""
    """What made it: a compiler or a disassembler."""

    @override
    def __str__(self) -> str:
        return self.text

    @override
    def __repr__(self) -> str:
        many = len(self.text.splitlines())
        return f"<Assembly: {many} lines by {self.by}; print(…) shows it>"

    _repr_mimebundle_ = as_text

    def of(self, line: int) -> tuple[int, ...]:
        """Return the lines of the assembly that come from a line of the source."""
        return tuple(number for number, source in self.lines if source == line)


def assembly_of(
    text: str, functions: Iterable[str], first: int, count: int, by: str = ""
) -> Assembly:
    """Return some functions of a compiler's assembly.

    The kernel's source is `count` lines of the whole, from the line `first` on.

    >>> text = '''f:
    ... \\t.loc 1 12 3
    ... \\taddl\\t$1, %eax
    ... \\tret
    ... \\t.cfi_endproc'''
    >>> assembly_of(text, ["f"], 10, 5).lines
    ((2, 3), (3, 3))
    """
    lines: list[str] = []
    known: list[tuple[int, int]] = []
    for line, source in _instructions(text, tuple(functions)):
        lines.append(line)
        if source is not None and first <= source < first + count:
            known.append((len(lines), source - first + 1))
    used = {name for line in lines if not LABEL.match(line) for name in LOCAL.findall(line)}
    kept = [_is_needed(line, used) for line in lines]
    places = [at for at, is_kept in enumerate(kept, 1) if is_kept]
    number = {at: line for line, at in enumerate(places, 1)}
    shown = "\n".join(line for line, is_kept in zip(lines, kept, strict=True) if is_kept)
    return Assembly(shown, tuple((number[at], of) for at, of in known if at in number), by)


def _is_needed(line: str, used: Iterable[str]) -> bool:
    label = LABEL.match(line)
    return label is None or not label[1].lstrip(".").startswith("L") or label[1] in used


def _instructions(text: str, functions: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Yield the lines of functions that are not directives, each with its line of the source."""
    is_inside, source = False, None
    for line in text.splitlines():
        label = LABEL.match(line)
        if label is not None and not label[1].lstrip(".").startswith("L"):
            # Compilers split functions: kernel_x, kernel_x.cold, kernel_x.part.0
            is_inside = label[1].partition(".")[0].lstrip("_") in {f.lstrip("_") for f in functions}
            source = None
        if not is_inside:
            continue
        location = LOCATION.match(line)
        if location is not None:
            source = int(location[2])
        elif END.match(line):
            is_inside = False
        elif label is not None:
            yield line.rstrip(), None
        elif line.strip() and not DIRECTIVE.match(line):
            yield line.rstrip().expandtabs(8), source


def disassembly_of(text: str, functions: Iterable[str], by: str = "") -> Assembly:
    """Return some functions from the output of `objdump -d`, which knows nothing about lines.

    >>> print(disassembly_of('''0000000000001119 <f>:
    ...     1119:\\tlea 0x1(%rdi),%eax
    ...     111c:\\tret
    ...
    ... 0000000000001120 <g>:
    ...     1120:\\tret''', ["f"]))
    f:
        1119: lea 0x1(%rdi),%eax
        111c: ret
    """
    lines: list[str] = []
    wanted = set(functions)
    is_inside = False
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <([^>]+)>:", line)
        if head is not None:
            is_inside = head[1].partition(".")[0].lstrip("_") in {f.lstrip("_") for f in wanted}
            lines += [f"{head[1]}:"] if is_inside else []
        elif is_inside and line.strip():
            lines.append(re.sub(r"\t", " ", line.rstrip()))
    return Assembly("\n".join(lines), (), by)
