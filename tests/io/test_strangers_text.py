"""A recording's texts are texts: whatever they say, no generated code has them as code."""

import json
import re
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu.program import CPUSource
from luminal_lab.errors import LabError, RecordingError
from luminal_lab.io.recording import contents_of, recording_bytes
from luminal_lab.kernels.user.c_text import bare
from luminal_lab.viz.live.backed import backed_compile

ATTACKS = [
    "\nHIT();\n//",
    "*/ HIT(); /*",
    "\\\nHIT();",
    '"; HIT(); "',
    "\\ ",
    "\rHIT();//",
    "\u2028HIT();",
    "??/\nHIT();",
    "\x0cHIT();",
    "\x00HIT();",
]
HEAD = b"luminal_lab recording 1\n"
DEVICES = {"cuda": ll.CUDACompiler(arch="sm_80"), "metal": ll.MetalCompiler()}


@cache
def document() -> str:
    """Return what a recording of all kinds of kernels holds."""
    cx = ll.Graph("subject")
    rows = cx.dim("rows", 1, 64)
    x = cx.tensor((rows, 8), name="given")
    with cx.scope("block.inner"):
        x.softmax(-1).named("result").retrieve()
    z = (x.sum(0) * 2 + 1).named("other").retrieve()
    cx.function(lambda a: a, z, shape=(8,), name="hosted").retrieve()
    made = ll.compile_ir(cx.ir, "generic", DEVICES["cuda"])
    data = recording_bytes([backed_compile(made).subject])
    return zlib.decompress(data.removeprefix(HEAD)).decode()


def texts(given: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of all texts in a document, but for what is shown and never read."""
    if isinstance(given, str):
        yield place
    elif isinstance(given, (list, dict)):
        pairs = given.items() if isinstance(given, dict) else enumerate(given)
        for name, part in pairs:
            if name != "facts":
                yield from texts(part, (*place, name))


def attacked(place: tuple[str | int, ...], attack: str, how: int) -> bytes:
    """Return a recording in which one text has become an attack."""
    found: Any = json.loads(document())
    at = found
    for name in place[:-1]:
        at = at[name]
    old = at[place[-1]]
    middle = len(old) // 2
    at[place[-1]] = [old + attack, attack + old, old[:middle] + attack + old[middle:]][how]
    return HEAD + zlib.compress(json.dumps(found).encode(), 1)


def sources(ir: Any) -> Iterator[str]:
    """Yield a graph as code, for all devices."""
    yield CPUSource(ir).source
    for device in DEVICES.values():
        made: Any = ll.compile_ir(ir, device)
        yield made.runner.source


CASES = [
    (place, attack, how)
    for place in texts(json.loads(document()))
    for attack in ATTACKS
    for how in range(3)
]


@pytest.mark.share("place, attack, how", CASES, 60, ids=[str(n) for n in range(len(CASES))])
def test_no_text_becomes_code(place: tuple[str | int, ...], attack: str, how: int):
    try:
        (subject,) = contents_of(attacked(place, attack, how), "attacked.lab").subjects
    except RecordingError:
        return
    try:
        for code in sources(subject.snapshots[-1].ir):
            assert "HIT" not in bare(code)
            # What ends a comment's line with a backslash takes the next line away.
            assert not re.search(r"//[^\n]*\\[ \t\r\f\v]*$", code, re.MULTILINE)
    except LabError:
        return


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_graph_is_not_called_what_is_no_word(attack: str):
    """The names of bodies stand in comments of generated code."""
    found: Any = json.loads(document())
    for one in found["subjects"][0]["graphs"]:
        one["name"] += attack
    data = HEAD + zlib.compress(json.dumps(found).encode(), 1)
    with pytest.raises(RecordingError, match="cannot be the name of a graph"):
        contents_of(data, "attacked.lab")
