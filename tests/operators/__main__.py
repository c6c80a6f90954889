"""Run PyTorch's table of operators on the interpreter, and write docs/operators.md.

    python -m tests.operators              the whole table: some minutes
    python -m tests.operators add index_put    these names; what is known of others stays

What differs is printed.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.operators.page import PAGE, Row, known, page
from tests.operators.sweep import outcome, spelling, table, torch_as_witness


def row(name: str) -> Row:
    """Return what becomes of the samples of a name."""
    torch = torch_as_witness()
    found = outcome(torch, table(torch)[name])
    return Row(name, found.text, found.agree, sum(found.differ.values()), list(found.differ)[:3])


def main() -> None:
    """Write the page."""
    names = list(table(torch_as_witness()))
    wanted = sys.argv[1:] or names
    rows = {name: Row(name, spelling(name), 0, 0, ()) for name in names}
    if sys.argv[1:]:
        rows |= known(PAGE.read_text(encoding="utf-8"), rows)
    with ProcessPoolExecutor() as pool:
        for found in pool.map(row, wanted):
            rows[found.name] = found
            if found.differ:
                print(json.dumps(found._asdict()), flush=True)
    PAGE.write_text(page(rows.values()), encoding="utf-8")


if __name__ == "__main__":
    main()
