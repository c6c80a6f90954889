"""What examples begin with: `ll`, a new graph `cx`, an empty `folder`, a language model `lm`."""

import functools
import os
import re
import signal
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Witnesses compute on one thread each: workers share the cores, and threads of OpenMP and OpenBLAS
# that wait for one another burn them. Read when a library is loaded, so before the first import.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import pytest

import luminal_lab as ll
from luminal_lab import trust
from luminal_lab.devices.build import cache, toolchain
from tests.language.decoders import published_decoder
from tests.needs import NEEDING, missing, need, needed

collect_ignore = [
    f"{module.replace('.', '/')}.py" for module, name in NEEDING.items() if missing(name)
]


@pytest.fixture(scope="session", autouse=True)
def _libraries(pytestconfig: pytest.Config) -> Iterator[None]:
    """Keep what tests compile for other workers and the next run; a test may have another home."""
    usual, at_home = cache.user_folder, cache.user_folder()
    name = "optimised" if pytestconfig.getoption("long", default=False) else "libraries"
    ours = pytestconfig.rootpath / "build" / "tests" / name

    def folder() -> Path | None:
        return ours if usual() == at_home else usual()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_folder", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def _signatures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests sign from the user who runs them; a test may have another home."""
    usual, at_home = trust.trusted_file, trust.trusted_file()
    ours = tmp_path_factory.mktemp("signatures") / "trusted"

    def file() -> Path | None:
        return ours if usual() == at_home else usual()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust, "trusted_file", file)
        yield


OPTIMISED = 6
"""One source of so many is optimised as a user's is; with --long, all are."""
VALUES = "tests/kernels/", "tests/devices/"
"""The tests to which this applies: they ask for values and faults, and never for speed."""


@pytest.fixture(scope="session", autouse=True)
def _levels(pytestconfig: pytest.Config) -> Iterator[None]:
    """Leave out what takes most of a C compiler's time, and changes no value that C defines.

    The seed draws the sources that are optimised, of those that this checkout has not compiled yet.
    """
    usual, seed = toolchain.run_programs, pytestconfig.getoption("seed", default=0) or 0

    def level(call: list[str], folder: Path) -> list[str]:
        program = folder / toolchain.PROGRAM
        if not os.environ.get("PYTEST_CURRENT_TEST", "").startswith(VALUES):
            return call
        if "-shared" not in call or {"-S", "-O2"}.intersection(call) or not program.is_file():
            return call
        if zlib.crc32(program.read_bytes(), seed) % OPTIMISED == 0:
            return call
        return ["-O0" if word == "-O3" else word for word in call]

    @functools.wraps(usual)
    def run(calls: Sequence[tuple[list[str], Path]], *args: Any, **options: Any):  # noqa: ANN202
        return usual([(level(call, folder), folder) for call, folder in calls], *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        if not pytestconfig.getoption("long", default=False):
            patch.setattr(toolchain, "run_programs", run)
        yield


@pytest.fixture(scope="session", autouse=True)
def _can_be_interrupted() -> Iterator[None]:
    """Take the signal of Ctrl-C, which what a shell starts in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _begun(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if not isinstance(request.node, pytest.DoctestItem):
        return
    source = "".join(example.source for example in request.node.dtest.examples)
    need(*needed(source))
    doctest_namespace.update(ll=ll, cx=ll.Graph())
    if re.search(r"\blm\b", source):
        folder = request.getfixturevalue("tmp_path_factory").mktemp("tiny")
        doctest_namespace["lm"] = ll.load(published_decoder(folder))
    if "folder" in source:
        doctest_namespace["folder"] = request.getfixturevalue("tmp_path")
