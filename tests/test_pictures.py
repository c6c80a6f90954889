"""The pictures of the README: `docs/pictures.py` makes them, and they load in a moment."""

import importlib.util
import re
import struct
import zlib
from base64 import b64encode
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_readme_shows_two_of_the_ten(pictures):
    assert len(pictures.PICTURES) == 10
    assert set(pictures.SHOWN) <= pictures.PICTURES.keys()
    shown = re.findall(r"!\[.*\]\(docs/images/(.*)\.png\)", (ROOT / "README.md").read_text("utf-8"))
    assert shown == list(pictures.SHOWN)
    assert sorted(one.stem for one in (ROOT / "docs" / "images").glob("*.png")) == sorted(shown)


def test_each_has_a_palette_and_loads_in_a_moment(pictures):
    for name in pictures.SHOWN:
        data = (ROOT / "docs" / "images" / f"{name}.png").read_bytes()
        width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert (depth, kind) == (8, 3)
        assert width >= 2 * 1280
        assert height >= 2 * 640
        assert len(data) < pictures.MOST


def test_pixels_become_a_png(pictures):
    pixels = bytes([0, 1, 1, 0, 0, 1])
    found = {"width": 3, "height": 2, "colours": [255, 0, 0, 0, 0, 255]}
    data = pictures.packed({**found, "bytes": b64encode(pixels).decode()})
    assert b"PLTE\xff\x00\x00\x00\x00\xff" in data
    at = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[at - 4 : at])
    assert zlib.decompress(data[at + 4 : at + 4 + length]) == b"\0\0\1\1\0\0\0\1"
    assert data.endswith(b"IEND" + struct.pack(">I", zlib.crc32(b"IEND")))
