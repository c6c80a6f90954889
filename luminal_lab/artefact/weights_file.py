"""The weights of an exported model as a safetensors file, whose offsets the C knows.

The format: eight bytes with the length of the header, the header in JSON, the data. It is written
here since the C needs offsets that are aligned, and a large file is written piece by piece.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from luminal_lab.artefact.contents import Weight
from luminal_lab.artefact.source import Header
from luminal_lab.core.dtypes import BY_NUMPY
from luminal_lab.interrupts import held
from luminal_lab.nn.weights import FILE_DTYPES

NAMES = {ours: theirs for theirs, ours in FILE_DTYPES.items()}
LINE = 64
"""The data begins at a multiple of this."""


def header_of(weights: Sequence[Weight]) -> Header:
    """Return the header of a file with these weights, and where each begins."""
    at, entries, places = 0, dict[str, object](), dict[str, int]()
    for weight in weights:
        value = weight.value
        dtype = NAMES[BY_NUMPY[value.dtype]]
        offsets = [at, at + value.nbytes]
        entries[weight.name] = {"dtype": dtype, "shape": value.shape, "data_offsets": offsets}
        places[weight.name], at = at, at + value.nbytes
    text = json.dumps(entries).encode()
    text += b" " * (-(len(text) + 8) % LINE)
    head = len(text).to_bytes(8, "little") + text
    return Header(len(head) + at, head, {name: len(head) + at for name, at in places.items()})


def write_weights(path: Path, header: Header, weights: Sequence[Weight]) -> None:
    """Write the file; an old one stays until the new one is complete."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with held():
        try:
            with draft.open("wb") as file:
                file.write(header.header)
                for weight in weights:
                    file.write(np.ascontiguousarray(weight.value).reshape(-1).view(np.uint8).data)
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
