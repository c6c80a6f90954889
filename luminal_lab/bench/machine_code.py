"""The machine code of libraries, without the names in it: is it the same as before?"""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from luminal_lab.errors import DeviceError

FUNCTION = re.compile(r"^[0-9a-f]+ <.+>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s*(.*)$")
TARGET = re.compile(r"\b([0-9a-f]+) <[^>]+>")
DISTANCE = re.compile(r"-?(?:0x)?[0-9a-f]+(?=\(%rip\))")
REMARK = re.compile(r"\s+(?:#|//).*$")
FILLING = re.compile(r"(?:data16|cs|nop[lw]?|int3)\b|xchg +%ax,%ax")
"""What only moves the next instruction to a multiple of 16."""


def machine_code(libraries: Iterable[Path]) -> Counter[str]:
    """Return the functions of libraries, each as its instructions, and how often there is each.

    Names do not count, nor where in a library a function or a number lies.
    """
    found: Counter[str] = Counter()
    for path in libraries:
        found += Counter(functions(disassembled(path)))
    return found


def disassembled(path: Path) -> str:
    """Return a library as assembly."""
    command = ["objdump", "--disassemble", "--section=.text", "--no-show-raw-insn", str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise DeviceError(
            f"bench: the machine code of {path.name} cannot be read: {error}",
            hint="install objdump, which is in binutils, beside the compiler",
        ) from error
    return done.stdout


def functions(assembly: str) -> list[str]:
    r"""Return the functions in the text that objdump makes of a library.

    >>> functions("0010 <f>:\n 10:  call 20 <g>\n 15:  jmp 17 <f+0x7>\n 17:  lea 0x9(%rip)")
    ['call *\njmp 2\nlea *(%rip)']
    """
    found: list[list[tuple[int, str]]] = []
    for line in assembly.splitlines():
        if FUNCTION.match(line):
            found.append([])
        elif found and (text := INSTRUCTION.match(line)) and not FILLING.match(text[2]):
            found[-1].append((int(text[1], 16), REMARK.sub("", text[2])))
    return ["\n".join(_named_by_order(body)) for body in found]


def _named_by_order(body: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield instructions; the target of a jump is its number among them, or * in another place."""
    places = [place for place, _ in body]

    def target(match: re.Match[str]) -> str:
        place = int(match[1], 16)
        return str(bisect_left(places, place)) if places[0] <= place <= places[-1] else "*"

    for _, text in body:
        yield " ".join(DISTANCE.sub("*", TARGET.sub(target, text)).split())
