"""The machine code of libraries, without the names in it: is it the same as before?"""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from luminal_lab.errors import DeviceError

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
KERNEL = "kernel_"
"""How the names of kernels' functions begin; threads and launches differ by library."""
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s*(.*)$")
TARGET = re.compile(r"\b([0-9a-f]+) <[^>]+>")
DISTANCE = re.compile(r"-?(?:0x)?[0-9a-f]+(?=\(%rip\))")
REMARK = re.compile(r"\s+(?:#|//).*$")
FILLING = re.compile(r"(?:data16|cs|nop[lw]?|int3)\b|xchg +%ax,%ax")
"""Filler that only aligns the next instruction to a multiple of 16."""


def machine_code(libraries: Iterable[Path], prefix: str = KERNEL) -> Counter[str]:
    """Return some functions of libraries as their instructions, each with a count.

    Names and positions of functions or numbers in a library do not count.
    """
    counts: Counter[str] = Counter()
    for path in libraries:
        counts += Counter(functions(disassembled(path), prefix))
    return counts


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


def functions(assembly: str, prefix: str = "") -> list[str]:
    r"""Return the functions with these names in the text that objdump makes of a library.

    >>> functions("0010 <f>:\n 10:  call 20 <g>\n 15:  jmp 17 <f+0x7>\n 17:  lea 0x9(%rip)")
    ['call *\njmp 2\nlea *(%rip)']
    """
    bodies: list[list[tuple[int, str]]] = []
    is_wanted = False
    for line in assembly.splitlines():
        if name := FUNCTION.match(line):
            bodies.append([])
            is_wanted = name[1].startswith(prefix)
        elif not is_wanted:
            continue
        elif (text := INSTRUCTION.match(line)) and not FILLING.match(text[2]):
            bodies[-1].append((int(text[1], 16), REMARK.sub("", text[2])))
    return ["\n".join(_named_by_order(body)) for body in bodies if body]


def _named_by_order(body: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield instructions; a jump's target is its number among them, or * if it is elsewhere."""
    addresses = [address for address, _ in body]

    def target(match: re.Match[str]) -> str:
        address = int(match[1], 16)
        return (
            str(bisect_left(addresses, address))
            if addresses[0] <= address <= addresses[-1]
            else "*"
        )

    for _, text in body:
        yield " ".join(DISTANCE.sub("*", TARGET.sub(target, text)).split())
