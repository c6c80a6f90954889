"""Measure the search of notebook 13 anew, and keep it: `python -m tests.record_product`.

Notebook 13 makes it again from its answers; a search that asks for other schedules than it did
needs another recording.
"""

from __future__ import annotations

from typing import Any

import luminal_lab as ll
from luminal_lab.course.recordings import FOLDER
from luminal_lab.search.loops import search_kernel
from tests.needs import need
from tests.refresh_notebooks import FOLDER as NOTEBOOKS

NOTEBOOK = NOTEBOOKS / "13_attention_finds_itself.ipynb"


def plan() -> dict[str, Any]:
    """Return what the notebook's cell defines: the product, and its plan."""
    cells = need("nbformat").read(NOTEBOOK, as_version=4).cells
    (source,) = [cell.source for cell in cells if "def tiles(" in cell.source]
    defined: dict[str, Any] = {}
    exec(source, defined)  # it is ours
    return defined


if __name__ == "__main__":
    made = plan()
    search = search_kernel(
        made["PRODUCT"],
        ll.CPUCompiler(threads=1),
        plan=made["tiles"],
        seed=1,
        budget=ll.Budget(candidates=48),
    )
    search.save(FOLDER / "product.lab")
    print(search)
