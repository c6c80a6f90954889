"""The output of commands: a terminal shows foreign names and texts, but never obeys them."""

from __future__ import annotations

import sys

from luminal_lab.errors import visible


def say(
    *texts: object,
    sep: str = " ",
    end: str = "\n",
    flush: bool = False,
    error: bool = False,
    painted: bool = False,
) -> None:
    """Print texts, by default to standard output; `painted` ones have colours of our own."""
    text = sep.join(map(str, texts))
    print(
        text if painted else visible(text),
        end=end,
        flush=flush,
        file=sys.stderr if error else sys.stdout,
    )
