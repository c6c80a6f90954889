"""Models by the names that Hugging Face gives them, found where its tools have put them.

    "Qwen/Qwen2.5-0.5B-Instruct"
    ~/.cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B-Instruct/refs/main        a commit
                                                                 snapshots/COMMIT/config.json …

Nothing is fetched: what is not there is an error that says how to fetch it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from luminal_lab.errors import InputError
from luminal_lab.importing.detect import near
from luminal_lab.reading import read_plain

NAME: Final = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
"""What names of models are made of."""
SUFFIXES: Final = (".gguf", ".json", ".onnx", ".safetensors")
COMMIT: Final = re.compile(r"[\w-]{1,64}", re.ASCII)
MOST_BYTES: Final = 1 << 10


def hub_folder() -> Path:
    """Return the folder in which Hugging Face's tools keep models, by their rules.

    >>> import pytest
    >>> with pytest.MonkeyPatch.context() as patch:
    ...     patch.setenv("HF_HUB_CACHE", "/models")
    ...     hub_folder().name
    'models'
    """
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := os.environ.get(name):
            return Path(given).expanduser()
    home = os.environ.get("HF_HOME")
    if home is None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(home).expanduser() / "hub"


def is_name(text: str) -> bool:
    """Return whether a text may be a model's name, and is no name of a file.

    >>> is_name("Qwen/Qwen2.5-0.5B"), is_name("models/qwen.gguf"), is_name("/models/qwen")
    (True, False, False)
    """
    return NAME.fullmatch(text) is not None and not text.endswith(SUFFIXES)


def published_folder(name: str, subject: str) -> Path:
    """Return the folder of a model by its name, or raise an error that says how to get it."""
    hub = hub_folder()
    folder = hub / f"models--{name.replace('/', '--')}"
    if (snapshot := _snapshot(folder)) is not None:
        return snapshot
    raise InputError(
        f"{subject}: there is no {name}: it is neither a file or folder here, nor a model in {hub}",
        hint=near(Path(name))
        or f"the current folder is {Path.cwd()}; hf download {name} fetches a model of that "
        "name, and nothing is fetched from here",
    )


def _snapshot(folder: Path) -> Path | None:
    """Return the files of the commit that is meant, or of the only one that is there."""
    with suppress(OSError, UnicodeError):
        commit = read_plain(folder / "refs" / "main", MOST_BYTES).decode().strip()
        if COMMIT.fullmatch(commit) and (folder / "snapshots" / commit).is_dir():
            return folder / "snapshots" / commit
    with suppress(OSError):
        commits = [path for path in (folder / "snapshots").iterdir() if path.is_dir()]
        return commits[0] if len(commits) == 1 else None
    return None
