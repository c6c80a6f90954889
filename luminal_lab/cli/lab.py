"""`luminal-lab lab`: the notebooks of the course and its pages, in JupyterLab."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.installing import typed
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError, DeviceError

FIRST = "00_quickstart.ipynb"
FOLDER = Path("luminal-lab-notebooks")
PAGES = "notebooks/*.ipynb", "docs/*.md", "docs/images/*", "ARCHITECTURE.md", "CHANGELOG.md"
"""Files to copy: the notebooks, and the pages that they link to."""
SETTINGS = Path(__file__).with_name("jupyter")
"""Our default settings of JupyterLab: render pages, and do not ask for news."""
THEIRS = Path(sys.prefix, "share", "jupyter", "lab", "settings")
"""An administrator's default settings, which replace ours."""
ABOUT = f"""\
Open the notebooks of the course in JupyterLab. In a checkout these are its own; else they are
copied into FOLDER (default: {FOLDER}) first, with the pages that they link to. A
file that is there already stays as it is: nobody's answers are lost."""
EXAMPLES = """\
luminal-lab lab                          begin with the first notebook
luminal-lab lab my-course                copies of them, in a folder of your own
luminal-lab lab --copy                   only copy them
luminal-lab lab -- --no-browser          what is behind -- is JupyterLab's"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument(
        "folder", metavar="FOLDER", type=Path, nargs="?", help="where the copies are"
    )
    reader.add_argument("--copy", action="store_true", help="copy the notebooks, and open nothing")


def run(given: argparse.Namespace) -> int:
    """Open the notebooks."""
    if not given.copy and find_spec("jupyterlab") is None:
        raise DeviceError(
            "lab: JupyterLab is not installed",
            hint=typed('pip install "luminal-lab[lab]"'),
        )
    package = Path(luminal_lab.__file__).resolve().parent
    source = stored(package)
    folder: Path | None = given.folder
    if folder is None and (given.copy or source is None or package in source.parents):
        folder = FOLDER
    if folder is not None:
        source = copied(source, folder)
    assert source is not None, "a folder was named, or they are the checkout's"
    return 0 if given.copy else opened(source, given.rest)


def stored(package: Path) -> Path | None:
    """Return the folder with the package's notebooks and pages: inside it, or its checkout."""
    roots = package / "material", package.parent
    return next((root for root in roots if (root / "notebooks" / FIRST).is_file()), None)


def copied(source: Path | None, folder: Path) -> Path:
    """Copy missing notebooks and pages into a folder; return their root."""
    # A folder may have notebooks at its top: a user's own, or a checkout's.
    is_flat = (folder / FIRST).is_file()
    if source is None:
        if is_flat or (folder / "notebooks" / FIRST).is_file():
            return folder
        raise ArgumentError(
            f"lab: there are no notebooks with this installation, and none in {folder}",
            hint="copy the folder notebooks of luminal_lab's repository there",
        )
    if folder.resolve() in (source.resolve(), (source / "notebooks").resolve()):
        return source
    wanted = PAGES[:1] if is_flat else PAGES
    pages = [path for pattern in wanted for path in sorted(source.glob(pattern))]
    targets = {
        path: folder / (path.name if is_flat else path.relative_to(source)) for path in pages
    }
    missing = [path for path, target in targets.items() if not target.exists()]
    try:
        for path in missing:
            targets[path].parent.mkdir(parents=True, exist_ok=True)
            copy_whole(path, targets[path])
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise ArgumentError(
            f"lab: {folder} cannot be written to: {why}",
            hint="name a folder of your own: luminal-lab lab my-course",
        ) from None
    new = sum(path.suffix == ".ipynb" for path in missing)
    kept = sum(path.suffix == ".ipynb" for path in pages) - new
    summary = f"{new} notebook{'s' * (new != 1)} copied to {folder}"
    say(summary + (f"; {kept} were there already, and stay as they are" if kept else ""))
    return folder


def copy_whole(path: Path, target: Path) -> None:
    """Copy a file as a whole, or raise and leave nothing."""
    draft = target.with_name(f"{target.name}.part")
    try:
        shutil.copyfile(path, draft)
        draft.replace(target)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def opened(root: Path, arguments: list[str]) -> int:
    """Run JupyterLab until it ends."""
    # With this root, links from the notebooks to the pages work.
    first = next(
        notebook for notebook in ("notebooks/" + FIRST, FIRST) if (root / notebook).is_file()
    )
    # With -P a module that lies in the folder is not Python's or JupyterLab's.
    command = [sys.executable, "-P", "-m", "jupyterlab", f"--ServerApp.root_dir={root.resolve()}"]
    command += [f"--LabApp.default_url=/lab/tree/{first}"]
    if not THEIRS.is_dir():
        command += [f"--LabApp.app_settings_dir={SETTINGS}"]
    # JupyterLab handles Ctrl-C and asks for confirmation; SIG_IGN would be inherited, so a handler.
    before = signal.signal(signal.SIGINT, _left_to_it)
    try:
        done = subprocess.run([*command, *arguments], cwd=root, check=False)
        return 1 if done.returncode else 0
    finally:
        signal.signal(signal.SIGINT, before)


def _left_to_it(number: int, frame: object) -> None:
    """Do nothing."""


COMMAND = Command("lab", ABOUT, EXAMPLES, options, run, rest="JupyterLab")
