"""`luminal-lab lab`: the notebooks of the course, in JupyterLab."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import luminal_lab
from luminal_lab.cli.command import Command, Reader
from luminal_lab.errors import ArgumentError, DeviceError

FIRST = "00_quickstart.ipynb"
FOLDER = Path("luminal-lab-notebooks")
ABOUT = f"""\
Open the notebooks of the course in JupyterLab. In a checkout these are its own; else they are
copied into FOLDER (default: {FOLDER}) first, where a file that is there
already stays as it is: nobody's answers are lost."""
EXAMPLES = """\
luminal-lab lab                          begin with the first notebook
luminal-lab lab my-course                copies of them, in a folder of your own
luminal-lab lab --copy                   only copy them
luminal-lab lab -- --no-browser          what is behind -- is JupyterLab's"""


def options(one: Reader) -> None:
    """Say what may be asked for."""
    one.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", help="where the copies are")
    one.add_argument("--copy", action="store_true", help="copy the notebooks, and open nothing")


def run(given: argparse.Namespace) -> int:
    """Open the notebooks."""
    if not given.copy and find_spec("jupyterlab") is None:
        raise DeviceError(
            "lab: JupyterLab is not installed",
            hint='pip install "luminal-lab[lab]"',
        )
    package = Path(luminal_lab.__file__).resolve().parent
    source = stored(package)
    folder: Path | None = given.folder
    if folder is None and (given.copy or source is None or source.parent == package):
        folder = FOLDER
    if folder is not None:
        copied(source, folder)
        source = folder
    assert source is not None, "a folder was named, or they are the checkout's"
    return 0 if given.copy else opened(source, given.rest)


def stored(package: Path) -> Path | None:
    """Return where the notebooks are that came with the package: in it, or in its checkout."""
    places = package / "notebooks", package.parent / "notebooks"
    return next((one for one in places if (one / FIRST).is_file()), None)


def copied(source: Path | None, folder: Path) -> None:
    """Copy the notebooks into a folder, those that it does not have yet."""
    if source is None:
        if (folder / FIRST).is_file():
            return
        raise ArgumentError(
            f"lab: there are no notebooks with this installation, and none in {folder}",
            hint="copy the folder notebooks of luminal_lab's repository there",
        )
    if folder.resolve() == source.resolve():
        return
    names = [path.name for path in sorted(source.glob("*.ipynb"))]
    missing = [name for name in names if not (folder / name).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in missing:
            shutil.copyfile(source / name, folder / name)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise ArgumentError(
            f"lab: {error.filename or folder} cannot be written: {why}",
            hint="name a folder of your own",
        ) from None
    kept = len(names) - len(missing)
    told = f"{len(missing)} notebook{'s' * (len(missing) != 1)} copied to {folder}"
    print(told + (f"; {kept} were there already, and stay as they are" if kept else ""))


def opened(folder: Path, arguments: list[str]) -> int:
    """Run JupyterLab until it ends."""
    # Ctrl-C is JupyterLab's, which asks whether it is meant; not ignored, which it would inherit.
    before = signal.signal(signal.SIGINT, _left_to_it)
    try:
        command = [sys.executable, "-m", "jupyterlab", FIRST, *arguments]
        return 1 if subprocess.run(command, cwd=folder, check=False).returncode else 0
    finally:
        signal.signal(signal.SIGINT, before)


def _left_to_it(number: int, frame: object) -> None:
    """Do nothing."""


COMMAND = Command("lab", ABOUT, EXAMPLES, options, run, rest="JupyterLab")
