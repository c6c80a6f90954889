"""Tables: aligned lines of text, and pandas tables for `to_pandas()` methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from luminal_lab.errors import DeviceError, visible

if TYPE_CHECKING:
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs]  # it has none

Table: TypeAlias = "pd.DataFrame"


def heads(text: str) -> list[tuple[str, str]]:
    """Return the heads of columns for `aligned`: the side and the word of each.

    >>> heads("< kernel > ms")
    [('<', 'kernel'), ('>', 'ms')]
    """
    words = text.split()
    return list(zip(words[::2], words[1::2], strict=True))


def frame(
    subject: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    about: Mapping[str, object] | None = None,
) -> Table:
    """Return rows as a pandas table, with these columns even if there are no rows.

    `subject` names the thing in the error if pandas is missing; `about`, which holds for the whole
    table, becomes its `attrs`.
    """
    try:
        import pandas as pd  # pyright: ignore[reportMissingTypeStubs]  # optional
    except ImportError as error:
        raise DeviceError(
            f"{subject}: a table needs pandas, which is not installed",
            hint="pip install pandas; print(…) shows the rows without it",
        ) from error
    table = pd.DataFrame([[*map(_shown, row)] for row in rows], columns=list(columns))
    table.attrs.update(about or {})
    return table


def _shown(cell: object) -> object:
    return visible(cell) if isinstance(cell, str) else cell


def aligned(header: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, each column aligned as its header says, `<` or `>`."""
    table = [[head for _, head in header], *rows]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]
    sides = [side for side, _ in header]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in table
    ]
