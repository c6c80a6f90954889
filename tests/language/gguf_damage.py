"""GGUF files that are cut off, changed or made to harm, and what becomes of each."""

from __future__ import annotations

import random
import resource
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.errors import LabError
from luminal_lab.nn.gguf import ARRAY, GGUF, NUMBERS, STRING
from tests.damage import bytes_damaged, check_error

MOST_SECONDS, MOST_MB = 10, 256
"""What a case may take, in seconds of this process, whatever else the machine does."""
HUGE = (0, 1, 2, 7, 31, 63, 255, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 40, 10**18, (1 << 64) - 1)
WORDS = ("", "llama", "gpt2", "bert", "t5", "gemma4", "qwen2", "mamba", "llama3", "\x1b[2J", "zz",
         "a" * 2000, "Ġ", "<0x0A>", "▁", "é\u202e", "z  z", " ", "{% for %}", "{{ 1/0 }}",
         "{{ messages.__class__ }}", "{{ raise_exception('no') }}", "</s>")  # fmt: skip


@dataclass
class Document:
    """What a file says: keys with their types, tensors with their places, and the data."""

    keys: list[list[Any]] = field(default_factory=list[list[Any]])
    """Name, type, type of entries, value."""
    tensors: list[list[Any]] = field(default_factory=list[list[Any]])
    """Name, sizes, form, offset."""
    data: bytes = b""
    version: int = 3

    def written(self) -> bytes:
        """Return the bytes of the file."""
        word = "<I" if self.version == 1 else "<Q"
        most = (1 << 8 * struct.calcsize(word)) - 1

        def text(value: str) -> bytes:
            data = value.encode("utf-8", "surrogatepass")
            return struct.pack(word, len(data)) + data

        def plain(kind: int, value: Any) -> bytes:
            if kind == STRING:
                return text(str(value))
            if kind not in NUMBERS:
                return b"\x00" * 4
            dtype = np.dtype(NUMBERS[kind])
            if dtype.kind in "iu" and isinstance(value, int):
                return (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
            try:
                return np.asarray(value, dtype).tobytes()
            except (ValueError, TypeError, OverflowError):
                return bytes(dtype.itemsize)

        head = b"GGUF" + struct.pack("<I", self.version)
        head += struct.pack(word, len(self.tensors)) + struct.pack(word, len(self.keys))
        for name, kind, each, value in self.keys:
            head += text(name) + struct.pack("<I", kind)
            if kind == ARRAY:
                entries = value if isinstance(value, list) else [value]
                head += struct.pack("<I", each) + struct.pack(word, len(entries))
                head += b"".join(plain(each, entry) for entry in entries)
            else:
                head += plain(kind, value)
        for name, sizes, form, offset in self.tensors:
            head += text(name) + struct.pack("<I", len(sizes))
            head += b"".join(struct.pack(word, min(size, most)) for size in sizes)
            head += struct.pack("<I", form & 0xFFFFFFFF) + struct.pack("<Q", offset)
        return head + bytes(-len(head) % 32) + self.data


def document_of(path: Path) -> Document:
    """Return what a whole file says."""
    file = GGUF(path)
    made = Document(version=file.version)
    for name, entry in file.entries.items():
        value = file.key(name)
        value = value.tolist() if isinstance(value, np.ndarray) else value
        made.keys.append([name, entry.kind, entry.each, value])
    begin = min(tensor.start for tensor in file.tensors.values())
    forms = {"float32": 0, "float16": 1}
    for tensor in file.tensors.values():
        number = forms[tensor.form] if tensor.blocks is None else tensor.blocks.number
        made.tensors.append([tensor.name, [*tensor.shape[::-1]], number, tensor.start - begin])
    made.data = bytes(file.data[begin:])
    return made


def damaged(drawn: random.Random, path: Path) -> bytes:
    """Return a file with some of what it says changed, or some of its bytes, or cut off."""
    whole = path.read_bytes()
    head = len(whole) - len(document_of(path).data)
    kind = drawn.random()
    if kind < 0.06:
        return whole[: drawn.randrange(len(whole))]
    if kind < 0.18:
        return bytes_damaged(drawn, whole[:head]) + whole[head:]
    made = document_of(path)
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        if drawn.random() < 0.65:
            _key_changed(drawn, made)
        else:
            _tensor_changed(drawn, made)
    if drawn.random() < 0.05:
        made.version = drawn.choice((0, 1, 2, 4, 3 << 24))
    return made.written()


def _key_changed(drawn: random.Random, made: Document) -> None:
    if not made.keys:
        return
    at = drawn.randrange(len(made.keys))
    key = made.keys[at]
    match drawn.randrange(7):
        case 0:
            del made.keys[at]
        case 1:
            key[0] = drawn.choice((drawn.choice(made.keys)[0], key[0] + "x", *WORDS))
        case 2:
            key[1] = drawn.randrange(14)
        case 3:
            key[2] = drawn.randrange(14)
        case 4:
            more = [f"llama.{drawn.choice(('rope.scaling.type', 'expert_count', 'twist'))}", 4, 0]
            made.keys.insert(at, [*more, drawn.choice(HUGE)])
        case _:
            key[3] = _value(drawn, key[1] if key[1] != ARRAY else key[2], key[3])


def _value(drawn: random.Random, kind: int, value: Any) -> Any:
    if isinstance(value, list):
        entries = list(value)
        at = drawn.randrange(len(entries) + 1)
        match drawn.randrange(5):
            case 0:
                return entries[:at]
            case 1:
                return entries[:at] + entries[at + 1 :]
            case 2:
                return entries[:at] + entries[:1] * drawn.choice((1, 2, 999)) + entries[at:]
            case 3:
                drawn.shuffle(entries)
                return entries
            case _:
                return [*entries[:at], _value(drawn, kind, entries[at - 1]), *entries[at + 1 :]]
    if kind == STRING:
        return drawn.choice(WORDS)
    numbers = (*HUGE, -1, float("nan"), float("inf"), 1e-30, -1e30)
    near = [value + 1, value - 1, 2 * value] if type(value) is int else []
    return drawn.choice((*numbers, *near, *near))


def _tensor_changed(drawn: random.Random, made: Document) -> None:
    if not made.tensors:
        return
    at = drawn.randrange(len(made.tensors))
    tensor, other = made.tensors[at], drawn.choice(made.tensors)
    match drawn.randrange(8):
        case 0:
            del made.tensors[at]
        case 1:
            tensor[0] = drawn.choice((other[0], tensor[0] + "x", *WORDS))
        case 2:
            tensor[1] = list(other[1])
        case 3:
            tensor[1] = tensor[1][::-1]
        case 4:
            tensor[1] = [drawn.choice(HUGE) for _ in range(drawn.randrange(10))]
        case 5 if tensor[1]:
            tensor[1] = [*tensor[1]]
            place = drawn.randrange(len(tensor[1]))
            tensor[1][place] = max(0, tensor[1][place] + drawn.choice((-1, 1, 2)))
        case 6:
            tensor[2] = drawn.choice((*range(42), 1 << 31))
        case _:
            tensor[3] = drawn.choice((other[3], tensor[3] + 1, tensor[3] + 32, *HUGE))


# -- what is done with them ------------------------------------------------------------------------


def attempt(path: Path) -> str:
    """Load a file and let it go on with a text; return what became of it."""
    try:
        model = ll.load(path)
        model.generate("a z", max_tokens=2).result()
        if model.template is not None:
            model.template.render([{"role": "user", "content": "Hi"}])
    except LabError as error:
        check_error(error, path, *THINGS)
        return "refused"
    return "works"


THINGS = ("generate: ", "the token ", "that of token ")
"""What messages name that come up when a model is in use."""


def attempts(whole: str, folder: str, seed: str, count: int) -> dict[str, int]:
    """Try damaged files, one after another; raise for the first fault."""
    path, found = Path(folder, "model.gguf"), Counter[str]()
    assert attempt(Path(whole)) == "works"
    for case in range(count):
        key = f"{seed} {case}"
        path.unlink(missing_ok=True)  # the old one may still be mapped
        path.write_bytes(damaged(random.Random(key), Path(whole)))
        before, start = _peak(), time.process_time()
        try:
            found[attempt(path)] += 1
        except BaseException as error:
            raise AssertionError(f"gguf {key}: {error!r}") from error
        took, grown = time.process_time() - start, _peak() - before
        assert took < MOST_SECONDS, f"gguf {key}: {took} s"
        assert grown < MOST_MB << 20, f"gguf {key}: {grown >> 20} MB"
    return dict(found)


def _peak() -> int:
    """Return the most bytes that this process has had in memory."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10
