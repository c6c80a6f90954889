"""Jobs sent to an executor of any library, and the error when its workers are gone.

An executor that has lost its workers waits for new ones, for ever and without a word. If a library
says how many there are, as Dask and ipyparallel do, it is asked while an answer is awaited.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from typing import Any, TypeAlias

from luminal_lab.errors import DeviceError, is_circumstance
from luminal_lab.interrupts import look

SILENT = 300.0
"""The seconds without an answer after which an executor is given up."""
ALONE = 10.0
"""The seconds that an executor may be without workers: another one may be starting."""
POLL = 0.1
COUNTED = 1.0
"""The seconds between two checks of how many workers there are."""
Clock: TypeAlias = Callable[[], float]


def _of_ipyparallel(executor: Any) -> int:  # noqa: ANN401  # of a library without types
    return len(executor.view.client.ids)


def _of_dask(executor: Any) -> int:  # noqa: ANN401  # likewise
    return len(executor._client.scheduler_info(n_workers=-1)["workers"])


COUNTS: dict[tuple[str, str], Callable[[Any], int]] = {
    ("ipyparallel", "ViewExecutor"): _of_ipyparallel,
    ("distributed", "ClientExecutor"): _of_dask,
}
"""How many workers an executor has, by its library and class."""


def workers_of(executor: Executor) -> int | None:
    """Return how many workers an executor has now; None if its library does not say."""
    kind = type(executor)
    count = COUNTS.get((kind.__module__.partition(".")[0], kind.__name__))
    if count is None:
        return None
    try:
        return count(executor)
    except Exception as error:  # each library raises its own error for a lost connection
        if is_circumstance(error):
            raise
        return None


def sent(executor: Executor, worker: Callable[[str], str], job: str) -> Future[str]:
    """Send a job."""
    try:
        return executor.submit(worker, job)
    except Exception as error:  # it has been shut down, or its workers have died
        raise unmeasured(error) from error


def awaited(future: Future[str], executor: Executor, clock: Clock, until: float) -> str | None:
    """Return the answer to a job; None if there is none by the end of the budget.

    Ctrl-C is noticed meanwhile.
    """
    begin = counted = peopled = clock()
    while not future.done():
        look()
        now = clock()
        if now > until:
            return None
        if now - begin > SILENT:
            raise DeviceError(
                f"the executor has not answered for {SILENT:g} s",
                hint="check whether it has workers",
            )
        if now - counted >= COUNTED:
            counted = now
            peopled = now if workers_of(executor) != 0 else peopled
            if now - peopled > ALONE:
                raise DeviceError(
                    f"the executor has had no workers for {ALONE:g} s",
                    hint="start some; search.resume(executor=…) goes on with them, or without",
                )
        wait([future], timeout=POLL)
    return future.result()


def check_workers(executor: Executor) -> None:
    """Raise if an executor has no worker to begin with."""
    if workers_of(executor) == 0:
        raise DeviceError(
            "search: the executor has no workers",
            hint="start some, or leave the executor out: the search then runs here",
        )


def unmeasured(error: Exception) -> DeviceError:
    """Return the error for an executor that fails."""
    said = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0])))
    return DeviceError(
        f"the executor could not measure a batch: {said}",
        hint="search.resume(executor=…) goes on with another one, or without",
    )
