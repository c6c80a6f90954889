"""What a process of the fuzzer does: programs one after another, each by every check."""

from __future__ import annotations

import signal
import tempfile
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from unittest import mock

from luminal_lab.devices.build import cache
from tests.fuzz.checks import OFTEN, failure, told
from tests.fuzz.drawing import drawn
from tests.fuzz.minimising import minimised
from tests.fuzz.programs import Program


def work(seed: str, until: float, most: float, checks: list[str], pipe: Connection) -> None:
    """Draw programs and check them; say before each what is done, and behind it what was found."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(cache, "user_folder", return_value=Path(folder)),
    ):
        count = 0
        while time.monotonic() < until and count < most:
            count += 1
            key = f"{seed} {count}"
            pipe.send(("begins", key, "drawing"))
            try:
                program = drawn(key)
            except Exception as error:
                pipe.send(("found", key, "drawing", told(error), ""))
                continue
            pick = Random(key)
            for check in checks:
                if pick.random() < OFTEN.get(check, 1.0) and time.monotonic() < until:
                    pipe.send(("begins", key, check))
                    wrong = failure(program, check, key)
                    if wrong is not None:
                        pipe.send(("begins", key, f"{check}, minimising"))
                        pipe.send(("found", key, check, *smaller(program, check, key, wrong)))
        pipe.send(("over", count))


def smaller(program: Program, check: str, key: str, wrong: str) -> tuple[str, str]:
    """Return a minimised program's fault and its text."""
    kind = wrong.partition(":")[0], "Error:" in wrong

    def shows(candidate: Program) -> bool:
        said = failure(candidate, check, key)
        return said is not None and (said.partition(":")[0], "Error:" in said) == kind

    small = minimised(program, shows)
    return failure(small, check, key) or wrong, str(small)
