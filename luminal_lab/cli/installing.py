"""Install commands as typed here: into the Python that runs this."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import luminal_lab

PIP = "pip install "


def typed(command: str) -> str:
    """Return a `pip install …` for this very Python; a checkout installs itself.

    A bare `pip` may belong to another Python, such as the system's if no environment is active.
    """
    if not command.startswith(PIP):
        return command
    words = shlex.split(command.removeprefix(PIP))
    root = Path(luminal_lab.__file__).resolve().parents[1]
    if (root / "pyproject.toml").is_file():
        words = [argument for word in words for argument in _from(root, word)]
    return _joined([_near(Path(sys.executable)), "-m", "pip", "install", *words])


def _from(root: Path, word: str) -> list[str]:
    """Return pip's arguments for a package; ours comes from the checkout."""
    own = re.fullmatch(r"luminal-lab(\[.*\])?", word)
    return ["-e", f"{_near(root)}{own[1] or ''}"] if own else [word]


def _near(path: Path) -> str:
    """Return a path relative to the current folder, if it is inside."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _joined(words: list[str]) -> str:
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
