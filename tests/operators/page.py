"""The page docs/operators.md: PyTorch's table of operators, and what is here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.operators.reasons import ABSENT, DIFFERS

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
BEGIN = """
# PyTorch's table of operators

Made by `python -m tests.operators`, which runs all samples of the table that PyTorch tests itself
with (`op_db`, in float32 on a CPU) by the interpreter. `make test-long` runs them as well, and
`make test` a share of them. On the CPU `make test` compiles one sample of each name that is here,
drawn from those that are small graphs, with its gradients: they have to agree as well.

A sample agrees if our spelling of the call has the same shapes, dtypes and values, and, where
PyTorch has gradients, the same gradients of all float arguments: within 2e-5 of the largest value,
gradients within 1e-4. Where PyTorch's float32 differs, its float64 decides. A name is *here* if all
of its samples agree, and *here in part* if some differ or are refused.

- Of what is drawn (`rand_like`, `dropout`) and of `empty` only shapes and dtypes are compared.
- A complex result is a pair of tensors.
- What PyTorch reads from a tensor when it is called (`tensor_split`) is given as numbers, and where
  data decide how many results there are (`nonzero`, `unique`), `size=` says it.
- `device`, `layout` and other arguments about storage are left out.
""".strip()
BESIDE = """
`x` is the first argument, `a` are the further ones and `k` those given by name. A name with nothing
beside it is a method of `x`, a function of `ll.linalg` or `ll.fft`, or a loss of `ll.nn`, with the
same arguments.
""".strip()


class Row(NamedTuple):
    """What became of the samples of a name."""

    name: str
    text: str | None
    agree: int
    differ: int
    examples: Sequence[str]


def page(rows: Iterable[Row]) -> str:
    """Return the text of the page."""
    rows = sorted(rows)
    spelled = [row for row in rows if row.text is not None]
    here = [row for row in spelled if not row.differ and row.agree]
    part = [row for row in spelled if row.differ]
    agree, differ = (sum(getattr(row, kind) for row in spelled) for kind in ("agree", "differ"))
    lines = [
        BEGIN,
        "",
        "| | |",
        "|---|---|",
        f"| names in the table | {len(rows)} |",
        f"| here | {len(here)} |",
        f"| here in part | {len(part)} |",
        f"| not here | {len(rows) - len(spelled)} |",
        f"| samples of the names that are here, or in part | {agree + differ:,} |",
        f"| of these agree | {agree:,} ({agree / (agree + differ):.1%}) |",
        "",
        "## Here in part",
        "",
        "| name | samples that agree | what differs |",
        "|---|---|---|",
        *(
            f"| `{row.name}` | {row.agree} of {row.agree + row.differ} | "
            f"{DIFFERS.get(row.name, ', '.join(row.examples))} |"
            for row in part
        ),
        "",
        "## Not here",
        "",
        "| why | names |",
        "|---|---|",
        *(
            f"| {why} | {' '.join(f'`{n}`' for n in names.split())} |"
            for why, names in ABSENT.items()
        ),
        "",
        "## Here",
        "",
        BESIDE,
        "",
        "| name | samples | spelling |",
        "|---|---|---|",
        *(f"| `{row.name}` | {row.agree} | {spelled_otherwise(row)} |" for row in here),
        "",
    ]
    return "\n".join(lines)


def quoted(names: str) -> str:
    """Return names as code, with spaces between."""
    return " ".join(f"`{name}`" for name in names.split())


def spelled_otherwise(row: Row) -> str:
    """Return the spelling, if it is not the usual one."""
    word = re.escape(row.name.rpartition(".")[2])
    text = row.text or ""
    usual = rf"(x|nn|ll\.linalg|ll\.fft|ll)\.{word}\((x, )?\*a, \*\*k\)"
    if re.fullmatch(usual, text):
        return ""
    return f"`{text}`".replace("|", "\\|")


def known(text: str, rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return rows with the numbers that a page has of them."""
    found: dict[str, Row] = {}
    pattern = r"^\| `([^`]+)` \| (\d+)(?: of (\d+))? \|"
    for name, agree, total in re.findall(pattern, text, re.MULTILINE):
        if name in rows:
            differ = int(total or agree) - int(agree)
            found[name] = rows[name]._replace(agree=int(agree), differ=differ)
    return found


def listed(text: str) -> dict[str, set[str]]:
    """Return the names on a page, by section."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    found: dict[str, set[str]] = {}
    for section in sections:
        title, _, body = section.partition("\n")
        column = 1 if title == "Not here" else 0
        rows = re.findall(r"^\| (.*) \|$", body, re.MULTILINE)[1:]
        cells = [row.split(" | ")[column] for row in rows if not row.startswith("---")]
        found[title] = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    return found
