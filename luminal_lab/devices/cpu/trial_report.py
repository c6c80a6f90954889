"""The fate of a child in words: what a kernel did, where, and what would help."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Final, NamedTuple

from luminal_lab.devices.build.toolchain import PROGRAM
from luminal_lab.devices.cpu.trial import FAULTS, Access, Death, TrialProcess

LINE: Final = re.compile(rf"\b{re.escape(PROGRAM)}:(\d+)")
ADDRESS: Final = re.compile(r"AddressSanitizer: ([\w-]+) on (?:unknown )?address (0x[0-9a-f]+)")
ACCESS: Final = re.compile(r"\b(READ|WRITE) (?:of size|memory access)")
LOCAL: Final = re.compile(r"'(\w+)'(?: \(line \d+\))? <== Memory access")
UNDEFINED: Final = re.compile(r"(?:runtime error|panic): (.*)")
FREED: Final = re.compile(r"AddressSanitizer: attempting (?:double-)?free ")
TOO_LARGE: Final = re.compile(r"allocation-size-too-big|out-of-memory|rss limit|calloc-overflow")
INDEX: Final = "an index is out of the array; loops end at the dims"
ALONE: Final = "an input may only be read; others read it, too"
ENDLESS: Final = "a loop may never end; look at its condition and at what it counts"
LEFT: Final = {
    1: ("it starts another process", "a kernel may only compute and return"),
    2: (
        "it changes how floats are rounded",
        "a kernel restores what it sets: everything that runs after it would be rounded that way",
    ),
    3: ("it closes files that are not its own", "a kernel may only compute and return"),
}
"""What a kernel can leave behind, by the numbers of trial.c, and what would help."""
RAISED: Final = {
    "ABRT": ("it aborts", "a kernel returns"),
    "ILL": ("it reaches an instruction that ends the process", "a kernel returns"),
    "FPE": ("it divides in a way that ends the process", "a divisor may be 0"),
    "stack-overflow": (
        "it needs more stack than there is",
        "large arrays belong in outputs",
    ),
}
"""AddressSanitizer's names for signals, in words, and what would help."""
SMALLER: Final = "keep what it needs on the way in its outputs, or use less memory"


class ArrayName(NamedTuple):
    """An array as a launch knows it."""

    name: str
    itemsize: int
    is_input: bool


class Words(NamedTuple):
    """The report on a kernel: what it did, in which line of the source, and what would help."""

    event: str
    line: int | None
    hint: str


def words(trial: TrialProcess, death: Death, names: Mapping[int, ArrayName]) -> Words:
    """Say what a death means; `names` are the arrays of its launch, by their areas."""
    line = LINE.search(death.said) if death.cause in ("report", "seconds") else None
    event, hint = _meant(trial, death, names)
    return Words(event, int(line[1]) if line else None, hint)


def _meant(trial: TrialProcess, death: Death, names: Mapping[int, ArrayName]) -> tuple[str, str]:
    number = death.number
    match death.cause:
        case "seconds":
            return f"it was ended after {number:g} s", ENDLESS
        case "bytes":
            return f"it was ended when it took more than {number:,} bytes", SMALLER
        case "status":
            return f"it ended its process with status {number}", "a kernel returns"
        case "left":
            return LEFT[int(number)]
        case "report":
            return _reported(trial, death, names)
        case "signal":
            pass
    if death.area is not None:
        return _touched(trial, death.access, death.area, death.offset, names)
    if death.is_null:
        hint = "a pointer is not set; malloc returns null when memory is short"
        return f"it {death.access} memory by a null pointer", hint
    name = signal.Signals(int(number)).name
    is_fault = number in (signal.SIGILL, signal.SIGFPE, *FAULTS)
    more = "a compiler with sanitizers, such as gcc, would say more"
    return f"it was ended by {name}", more if is_fault else "a kernel may only compute and return"


def _reported(trial: TrialProcess, death: Death, names: Mapping[int, ArrayName]) -> tuple[str, str]:
    """Say what a sanitizer has found."""
    said = death.said
    if TOO_LARGE.search(said):
        return "it asks for more memory than it may have", SMALLER
    undefined = UNDEFINED.search(said)
    if undefined:
        return f"it does what C leaves undefined: {undefined[1].strip()}", "fix the marked line"
    how = ACCESS.search(said)
    access: Access = {"READ": "reads", "WRITE": "writes"}[how[1]] if how else "reaches"  # pyright: ignore[reportAssignmentType]  # one of the two
    local = LOCAL.search(said)
    if local:
        return f"it {access} beside its local array {local[1]}", INDEX
    fault = ADDRESS.search(said)
    kind = fault[1] if fault else "an error that AddressSanitizer found"
    if kind in RAISED:
        return RAISED[kind]
    if FREED.search(said):
        return "it frees memory that is not its own", "free only what malloc returned, and once"
    if fault:
        _, area, offset = trial.located(int(fault[2], 16), 0)
        if area is not None:
            return _touched(trial, access, area, offset, names)
        if int(fault[2], 16) < 1 << 12:
            return f"it {access} memory by a null pointer", "a pointer is not set"
    if access == "reads" and (fault is None or kind == "SEGV"):
        access = "reaches"  # the sanitizer itself reads, to see whether it may be written
    return f"it {access} memory that belongs to no array ({kind})", INDEX


def _touched(
    trial: TrialProcess, access: Access, area: int, offset: int, names: Mapping[int, ArrayName]
) -> tuple[str, str]:
    """Say that a launch touched memory outside an array, or wrote one that it may only read."""
    size = trial.job.areas[area].bytes
    if area not in names:
        return f"it {access} memory of another value", INDEX
    name, itemsize, is_input = names[area]
    if 0 <= offset < size:
        if is_input:
            return f"it changes its input {name}", ALONE
        return f"it {access} {name}, which is not its own", INDEX
    count = size // itemsize
    elements = "1 element" if count == 1 else f"{count:,} elements"
    return f"it {access} {name}[{offset // itemsize}], and {name} has {elements}", INDEX
