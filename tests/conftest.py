"""What every test may ask for: golden files with `--bless`, torch as a witness, two profiles."""

import difflib
import importlib
import os
import shlex
import signal
import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import settings

# Small and the same on every run; `--hypothesis-profile=long` searches further, and differently.
settings.register_profile("small", max_examples=50, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile("small")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write what the golden tests got into their files"
    )


class Golden:
    """Compare texts with files beside the test that asks."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.folder = request.path.parent
        self.nodeid: str = request.node.nodeid
        self.bless = bool(request.config.getoption("--bless"))

    def __call__(self, text: str, name: str) -> None:
        """Fail unless the file `name` holds `text`; with `--bless`, write it there instead."""
        path = self.folder / name
        if self.bless:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        accept = f"to accept it: pytest --bless {shlex.quote(self.nodeid)}"
        if not path.exists():
            pytest.fail(f"{name} is not there yet; what came out:\n{text}\n{accept}", pytrace=False)
        golden = path.read_bytes().decode()
        if text != golden:
            diff = unified_diff(golden, text, name)
            pytest.fail(f"{name} differs from what came out:\n{diff}\n{accept}", pytrace=False)


def unified_diff(golden: str, text: str, name: str) -> str:
    """Return the change from `golden` to `text`, a missing end of line made visible."""
    old, new = ([*t.splitlines(), *missing_end(t)] for t in (golden, text))
    names = f"{name} (golden)", f"{name} (now)"
    return "\n".join(difflib.unified_diff(old, new, *names, lineterm=""))


def missing_end(text: str) -> list[str]:
    """Return the line that stands for an absent last newline, as in git's diffs."""
    return [] if text.endswith("\n") else ["\\ no newline at the end"]


@pytest.fixture(scope="session", autouse=True)
def _can_be_interrupted() -> Iterator[None]:
    """Take the signal of Ctrl-C, which what a shell starts in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Call it as `golden(text, "name.ir")`."""
    return Golden(request)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch, the witness; without it these tests are skipped, but never in CI."""
    try:
        with warnings.catch_warnings(action="ignore"):  # what torch warns about is not ours
            return importlib.import_module("torch")
    except ModuleNotFoundError:
        missing = "torch is not installed: .venv/bin/python -m pip install torch==2.13.0"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing} (CI must not skip what it witnesses)", pytrace=False)
        pytest.skip(missing)
