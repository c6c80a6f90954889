"""What tests of endpoints begin with: a user who has signed nothing, and an exported model."""

from pathlib import Path

import pytest

from tests.serving.endpoints import exported_mlp


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        home = str(tmp_path_factory.mktemp("home"))
        patch.setenv("HOME", home)
        patch.setenv("USERPROFILE", home)
        yield


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_mlp(tmp_path_factory.mktemp("out") / "digits")
