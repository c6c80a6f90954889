"""What tests of endpoints begin with: a user who has signed nothing, and an exported model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving.endpoints import exported_mlp


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Give this process and its children another home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "USERPROFILE"):
            patch.setenv(name, str(folder))
        yield


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module", autouse=True)
def _at_home(home: Path) -> Iterator[None]:
    with at_home(home):
        yield


@pytest.fixture(scope="session")
def digits(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with at_home(home):
        return exported_mlp(tmp_path_factory.mktemp("out") / "digits")
