"""The width of text, from our own table, so that pictures have the same sizes on every machine.

The widths are those of Helvetica, in thousandths of its size, with room for wider fonts; the
picture also states each text's width, so that other fonts are fitted to it.
"""

import unicodedata
from functools import lru_cache

_ROWS = {
    222: "ijl'",
    260: "|",
    278: " !,./:;I[]ft\\",
    334: '()-`r{}"',
    389: "*",
    469: "^",
    500: "Jckjsvxyz",
    556: "0123456789#$?L_abdeghnopqu·–",
    584: "+<=>~×−→%&",
    611: "FTZ",
    667: "ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    944: "W",
    1000: "@…∇",
}
_WIDTHS = {char: width for width, chars in _ROWS.items() for char in chars}
ROOM = 1.06
"""The allowance for fonts wider than Helvetica."""


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """Return the width of a text in pixels, in a font of this size."""
    total = 0
    for char in text:
        known = _WIDTHS.get(char)
        if known is None:
            known = 1000 if unicodedata.east_asian_width(char) in "WF" else 620
        total += known
    return round(total * size * ROOM / 1000, 1)


def shortened(text: str, most: int) -> str:
    """Return a text with its middle cut out if it is longer than `most` characters.

    >>> shortened("h.0.attn.c_attn.weight", 14)
    'h.0.att…weight'
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"
