"""Execute the notebooks anew and store what they show: `make notebooks`, or some by name.

What is stored has the same ids and metadata each time, no execution times, no state of widgets,
and no outputs that show nothing without a kernel.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
WIDGET = "application/vnd.jupyter.widget-view+json"
LIMIT = 180
"""Seconds for a cell."""


def main(names: list[str]) -> int:
    """Refresh the notebooks that are named, or all; return how many could not be."""
    paths = [FOLDER / Path(name).name for name in names] or sorted(FOLDER.glob("*.ipynb"))
    failed = 0
    for path in paths:
        try:
            print(f"{path.name}: {refreshed(path)}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{path.name}: it stays as it was: {error}", file=sys.stderr)
    return failed


def refreshed(path: Path) -> str:
    """Execute a notebook and write it; say how large it has become."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=LIMIT, record_timing=False, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    clean(notebook, path.stem[:2])
    text = nbformat.writes(notebook) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    return f"{len(notebook.cells)} cells, {len(text.encode()) / 1e3:.0f} kB"


def clean(notebook: Any, number: str) -> None:
    """Take out what differs from run to run, and name cells that have no name of ours."""
    title = notebook.metadata.get("title")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": KERNEL,
            "language_info": {"name": "python"},
            **({"title": title} if title else {}),
        }
    )
    notebook.nbformat_minor = 5
    taken: set[str] = set()
    fresh = (f"{number}-{place:02}" for place in range(1000))
    for cell in notebook.cells:
        if not re.fullmatch(rf"{number}-\d{{2,3}}", cell.id) or cell.id in taken:
            known = taken | {other.id for other in notebook.cells}
            cell.id = next(id for id in fresh if id not in known)
        taken.add(cell.id)
        kept = {key: cell.metadata[key] for key in ("tags", "nbgrader") if key in cell.metadata}
        cell.metadata = nbformat.from_dict(kept)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        cell.execution_count = count
        cell.outputs = [_counted(one, count) for one in cell.outputs if _is_kept(one)]


def _counted(output: Any, count: int) -> Any:
    if output.output_type == "execute_result":
        output.execution_count = count
    return output


def _is_kept(output: Any) -> bool:
    """Say whether a reader without a kernel sees anything of an output."""
    if "data" not in output:
        return True
    return WIDGET not in output.data and any(str(one).strip() for one in output.data.values())


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
