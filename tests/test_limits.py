"""The limits of all readers, as the pages say them, are those of the code."""

import re
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
ROW = re.compile(r"^\| .+ \| ([\d,]+) \| `([\w.]+)\.(\w+)` \|$", re.MULTILINE)

READERS = (
    "reading",
    "io/recording",
    "io/unpacking",
    "core/parse",
    "core/dims/text",
    "core/dims/arithmetic",
    "core/dims/expression",
    "kernels/definition/text",
    "kernels/steps/schedule",
    "passes/pipeline",
    "passes/inlining",
)
WORDS = "MOST|DEEPEST|LARGEST|LONGEST|LIMIT|LEAST|TIMES|SHARE"
LIMIT = re.compile(rf"^((?:{WORDS})\w*)\b.* =", re.MULTILINE)


@pytest.mark.parametrize(("page", "count"), [("grammar.md", 18), ("recordings.md", 15)])
def test_a_page_says_what_the_code_has(page: str, count: int):
    rows = ROW.findall((DOCS / page).read_text(encoding="utf-8"))
    assert len(rows) == count
    for said, module, name in rows:
        found = getattr(import_module(f"luminal_lab.{module}"), name)
        assert found == int(said.replace(",", "")), f"{module}.{name}"


def test_each_limit_of_a_reader_stands_on_a_page():
    named = "grammar.md", "recordings.md"
    pages = "".join((DOCS / page).read_text(encoding="utf-8") for page in named)
    folder = Path(__file__).parents[1] / "luminal_lab"
    for one in READERS:
        text = (folder / f"{one}.py").read_text(encoding="utf-8")
        for name in LIMIT.findall(text):
            if name != "MOST":  # of what JSON counts exactly
                assert f"`{one.replace('/', '.')}.{name}`" in pages, f"{one}: {name}"
