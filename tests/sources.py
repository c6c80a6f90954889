"""The package's own files: their text, read once, and the trees of those that have some words.

A tree of all of them takes seconds, and a file without a word has no node that is named by it.
"""

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import luminal_lab as ll

PACKAGE = Path(ll.__file__).parent


@functools.cache
def texts() -> Mapping[str, str]:
    """Return the text of each file of the package, by its place in it."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in paths}


def trees(words: Iterable[str]) -> Iterator[tuple[str, ast.Module]]:
    """Yield the files that have one of the words, given as regular expressions, as trees."""
    word = re.compile(rf"\b(?:{'|'.join(words)})\b")
    for place, text in texts().items():
        if word.search(text):
            yield place, ast.parse(text)
