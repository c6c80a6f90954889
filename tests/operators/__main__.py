"""Run PyTorch's whole table of operators on the interpreter, and write docs/operators.md.

python -m tests.operators          some minutes, and a few times that on a busy machine
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.operators.page import PAGE, Row, page
from tests.operators.sweep import outcome, table, torch_as_witness

SHARES = 64
"""The parts in which the table is worked off: more than there are processes."""


def share(number: int) -> list[Row]:
    """Return a part of the table's outcomes."""
    torch = torch_as_witness()
    entries = list(table(torch).values())[number::SHARES]
    found = [outcome(torch, entry) for entry in entries]
    return [Row(o.name, o.text, o.agree, sum(o.differ.values()), list(o.differ)[:3]) for o in found]


def main() -> None:
    """Write the page, and what differs to the standard output."""
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else None
    rows: list[Row] = []
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(share, range(SHARES)):
            rows += found
    for row in rows:
        if row.differ:
            print(json.dumps(row._asdict()))
    Path(PAGE).write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
