"""Execute the notebooks anew and store what they show: `make notebooks`, or some by name.

The list of all exercises, which every notebook ends with, is stored anew in each of them, whichever
are executed: a chapter that gets an exercise changes it everywhere.

What is stored is what a reader without a kernel sees, with the same ids and metadata each time: no
execution times, no state of widgets, no bars, and nothing of who ran it: not the name of their
processor, nor their IPython's settings, nor their progress in the exercises. A notebook that fails
or warns stays as it was.
"""

from __future__ import annotations

import os
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from luminal_lab.course.desk import Desk
from luminal_lab.course.saying import CourseProgress
from luminal_lab.devices.facts.probe import cpu_name, peak_rates
from tests.needs import need
from tests.quiet_bars import is_seen, without_bars

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
IMAGE = "data:image/svg+xml;base64,"
DRAWN = re.compile(rf"{re.escape(IMAGE)}([A-Za-z0-9+/=]+)")
PAINT = re.compile(r"\x1b\[[0-9;]*m")
LIMIT = 180
"""Seconds for a cell."""
SECONDS, KILOBYTES = 15, 300
"""What a notebook may take."""
PROGRESS = """\
from pathlib import Path

import luminal_lab.course.desk

luminal_lab.course.desk.data_folder = lambda own=Path({folder!r}): own
del Path, luminal_lab
"""
"""What runs before a notebook, so that the progress it shows is that of somebody who begins."""


def main(names: list[str]) -> int:
    """Refresh the notebooks that are named, or all; return how many could not be."""
    known = {path.name: path for path in sorted(FOLDER.glob("*.ipynb"))}
    asked = [Path(name).name for name in names] or list(known)
    for name in asked:
        if name not in known:
            print(f"there is no {name} in notebooks/; there are {', '.join(known)}")
            return 1
    print("notebooks run, one after the other, and store the times that they measure:")
    if is_busy():
        print("other things run on this machine, so that these times are no good: later, again")
    began, failed = monotonic(), 0
    list_exercises(known.values())
    for name in asked:
        try:
            print(f"  {name:38}", end="", flush=True)
            print(refreshed(known[name]), flush=True)
        except Exception as error:
            failed += 1
            print(f"it stays as it was: {PAINT.sub('', str(error))}")
    print(f"{len(asked) - failed} of {len(asked)} are stored, in {monotonic() - began:.0f} s")
    if not failed:
        print("git diff notebooks/ shows what students will see otherwise than before")
    return failed


def is_busy() -> bool:
    """Say whether other things run here; the rates that are kept for comparisons are measured."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return peak_rates(fresh=True).is_doubtful or load > 0.5


def refreshed(path: Path) -> str:
    """Execute a notebook and write it; say how long that took and how large it has become."""
    nbclient, nbformat = need("nbclient"), need("nbformat")
    notebook = nbformat.read(path, as_version=4)
    began = monotonic()
    with TemporaryDirectory() as folder:
        start = Path(folder, "profile_default", "startup")
        start.mkdir(parents=True)
        start.joinpath("progress.py").write_text(PROGRESS.format(folder=folder), encoding="utf-8")
        client = nbclient.NotebookClient(
            notebook,
            timeout=LIMIT,
            record_timing=False,
            resources={"metadata": {"path": str(FOLDER)}},
            extra_arguments=["--log-level=ERROR"],
        )
        client.execute(env={**os.environ, "IPYTHONDIR": folder})
    seconds = monotonic() - began
    clean(notebook, path.stem[:2])
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise ValueError(f"cell {cell.id} warns: {output['text'].strip()}")
    text = nameless(nbformat.writes(notebook)) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    size = len(text.encode()) / 1e3
    much = [f"more than {SECONDS} s"] if seconds > SECONDS else []
    much += [f"more than {KILOBYTES} kB"] if size > KILOBYTES else []
    said = f": {' and '.join(much)}" if much else ""
    return f"{seconds:5.1f} s, {len(notebook.cells):2} cells, {size:3.0f} kB{said}"


def list_exercises(paths: Iterable[Path]) -> None:
    """Store the list of all exercises, as somebody sees it who begins, where it is shown."""
    nbformat = need("nbformat")
    for path in paths:
        text = path.read_text("utf-8")
        notebook = nbformat.reads(text, as_version=4)
        for output in lists_in(notebook):
            output.data = nbformat.from_dict(at_first()._repr_mimebundle_())
        fresh = nbformat.writes(notebook) + "\n"
        if fresh != text:
            path.write_text(fresh, encoding="utf-8", newline="\n")


def at_first() -> CourseProgress:
    """Return the list of all exercises, none of which is right yet."""
    return replace(Desk(None).progress(), notes=())


def lists_in(notebook: Any) -> list[Any]:
    """Return the outputs that are the list of all exercises."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [o for cell in cells if cell.source.strip() == "progress()" for o in cell.outputs]


def nameless(text: str) -> str:
    """Return text in which this machine's processor has no name, in pictures neither."""

    def drawn(image: re.Match[str]) -> str:
        svg = b64decode(image[1]).decode().replace(cpu_name(), "some CPU")
        return IMAGE + b64encode(svg.encode()).decode()

    return DRAWN.sub(drawn, text.replace(cpu_name(), "some CPU"))


def clean(notebook: Any, number: str) -> None:
    """Take out what differs from run to run, and name cells that have no name of ours."""
    title = notebook.metadata.get("title")
    nbformat = need("nbformat")
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
        cell.outputs = [one for one in joined(without_bars(cell.outputs)) if is_seen(one)]
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count


def joined(outputs: Iterable[Any]) -> list[Any]:
    """Return outputs in which a stream that came in pieces is whole again."""
    found: list[Any] = []
    for output in outputs:
        last: Any = found[-1] if found else {}
        if "name" in output and output.name == last.get("name"):
            last.text += output.text
        else:
            found.append(output)
    return found


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
