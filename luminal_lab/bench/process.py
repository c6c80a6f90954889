"""One process for each library, so that threads, memory and crashes of one stay its own.

parent ── prepare, workload, where its data is ──▶ child    ◀── arrays, or why not ──
parent ── time, for so many seconds ─────────────▶ child    ◀── seconds of each run ──
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import mkstemp
from time import perf_counter
from types import SimpleNamespace
from typing import Any, BinaryIO, NamedTuple, cast

from luminal_lab.bench.peers.peer import Peer, ReadyWorkload
from luminal_lab.bench.stored import StoredArrays, opened
from luminal_lab.bench.workload import Unable, Workload
from luminal_lab.core.dtypes import Array
from luminal_lab.errors import Explained

MOST = 10_000
"""The most runs of one turn."""
SLOW = 0.3
"""From this many seconds a run has no warm-up before its turn: caches do not last that long."""
PATIENCE = 400.0
"""The seconds that a library may take to make a workload ready, or for one turn."""


class Prepared(NamedTuple):
    """A library's answer when it has made a workload ready, and run it."""

    results: list[Array]
    seconds: float
    """How long the first run took."""
    facts: dict[str, float]


class Failed(Exception):  # noqa: N818  # reported in the row
    """A library's process failed; the text says how."""


class Process:
    """A library in a process of its own, with the environment variables that it reads."""

    def __init__(
        self,
        peer_class: str,
        options: Mapping[str, Any],
        surroundings: Mapping[str, str],
        folder: Path,
        package: Path | None = None,
    ) -> None:
        """Start it; `package` is the folder of another luminal_lab, if not this one."""
        self._said = Path(mkstemp(suffix=".txt", dir=folder)[1])
        # Libraries read their number of threads once, when they are loaded.
        code = (
            f"import os, sys; os.environ.update({dict(surroundings)!r})\n"
            # An installed package has its bytecode: no row is to compile Python.
            "os.environ.pop('PYTHONDONTWRITEBYTECODE', None); sys.dont_write_bytecode = False\n"
            f"sys.path.insert(0, {str(package or Path(__file__).resolve().parents[2])!r})\n"
            "from luminal_lab.bench.process import main\n"
            f"main({peer_class!r}, {dict(options)!r})"
        )
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],  # no modules from the folder that it starts in
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )

    def prepare(self, workload: Workload, data: StoredArrays) -> Prepared:
        """Make a workload ready, and run it for the first time."""
        # The function that draws the data cannot be sent, and is not needed there.
        return self._ask("prepare", replace(workload, data=_no_data), _in_standard_classes(data))

    def time(self, seconds: float) -> list[float]:
        """Return the seconds of each run of a turn."""
        return self._ask("time", seconds)

    def release(self) -> None:
        """Forget what was made ready."""
        self._ask("release")

    def _ask(self, *question: object) -> Any:  # noqa: ANN401  # each question has its own
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A process that is silent for too long is killed, and the pipe then ends.
        watch = threading.Timer(PATIENCE, self._process.kill)
        watch.start()
        start = perf_counter()
        try:
            pickle.dump(question, self._process.stdin)
            self._process.stdin.flush()
            kind, answer = cast("tuple[str, Any]", pickle.load(self._process.stdout))
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            if perf_counter() - start >= PATIENCE:
                raise Failed(f"it gave no answer in {PATIENCE:.0f} s, and was ended") from error
            raise Failed(f"its process ended: {self._last_words()}") from error
        finally:
            watch.cancel()
        match kind:
            case "unable":
                raise Unable(answer)
            case "failed":
                raise Failed(answer)
            case _:
                return answer

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        lines = self._said.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"

    @property
    def id(self) -> int:
        """The system's number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what could no longer be sent
                    pipe.close()


def _in_standard_classes(data: StoredArrays) -> SimpleNamespace:
    """Return the data for another checkout, where our class may have another name."""
    arrays = {name: SimpleNamespace(**position._asdict()) for name, position in data.arrays.items()}
    return SimpleNamespace(path=data.path, size=data.size, arrays=arrays)


def _no_data(*given: object) -> Any:  # noqa: ANN401  # never called
    raise AssertionError("a library's process is given its data")


# -- in the other process --------------------------------------------------------------------------


def main(peer_class: str, options: Mapping[str, Any]) -> None:
    """Answer on this process's standard streams, on which libraries can then not print."""
    asked = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    faulthandler.enable()
    warnings.simplefilter("ignore")  # warnings of libraries are not ours
    serve(asked, answers, peer_class, options)


def serve(asked: BinaryIO, answers: BinaryIO, peer_class: str, options: Mapping[str, Any]) -> None:
    """Answer questions until there are no more; `peer_class` is the module and class of a peer."""
    module, _, name = peer_class.partition(":")
    peer: Peer | None = None
    ready: ReadyWorkload | None = None
    while True:
        try:
            question, *given = pickle.load(asked)
        except (EOFError, OSError):
            return
        try:
            if peer is None:
                peer = cast("Peer", getattr(import_module(module), name)(**options))
            if question == "time":
                assert ready is not None
                answer: object = timed(ready, given[0])
            else:
                ready, answer = None, None
                gc.collect()
                if question == "prepare":
                    workload, data = cast("tuple[Workload, StoredArrays]", tuple(given))
                    ready = peer.prepare(workload, opened(data))
                    answer = _first(ready, workload.calls)
            said = "done", answer
        except Unable as error:
            said = "unable", str(error)
        except (Exception, KeyboardInterrupt) as error:  # reported, and the next request goes on
            said = "failed", _told(error)
        pickle.dump(said, answers, protocol=5)
        answers.flush()


def _first(ready: ReadyWorkload, calls: int) -> Prepared:
    start = perf_counter()
    result = ready.run()
    seconds = perf_counter() - start - (ready.inner or float)()
    arrays: list[Array] = ready.read(result)
    for _ in range(calls - 1):
        arrays += ready.read(ready.run())
    return Prepared(arrays, seconds, ready.facts())


def timed(ready: ReadyWorkload, seconds: float) -> list[float]:
    """Return the seconds of each run, for `seconds` in all, but at least one run."""
    times: list[float] = []
    inner = ready.inner or float
    gc.collect()
    gc.disable()
    try:
        begin = start = perf_counter()
        ready.run()
        end, inside = perf_counter(), inner()
        if end - start > SLOW:
            times.append(end - start - inside)
        while not times or (end - begin < seconds and len(times) < MOST):
            start = perf_counter()
            ready.run()
            end = perf_counter()
            times.append(end - start - inner())
    finally:
        gc.enable()
    return times


def _told(error: BaseException) -> str:
    """Return an error's message, and where it was raised."""
    if isinstance(error, Explained):
        return f"{type(error).__name__}: {error.message}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''} ({last.name})"
