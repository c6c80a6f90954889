"""What tests of the session share: all of its state, and the error that a call ends in."""

import gc
import signal
import threading
from typing import Any

import pytest

from luminal_lab.errors import Interrupted, LabError


def state(cx: Any) -> Any:
    """Everything that an error must leave as it was."""
    values = {id: value.tobytes() for id, value in cx._values.items()}
    data = {id: array.tobytes() for id, array in cx._data.items()}
    return (
        str(cx),
        cx.ir,
        cx.ir.next_id,
        values,
        data,
        cx.step,
        dict(cx._dims),
        dict(cx._names),
        list(cx._inputs),
        dict(cx._bound),
        dict(cx._set_dims),
        {id: set(cells) for id, cells in cx._outputs.items()},
        set(cx._kept),
        dict(cx._carries),
        dict(cx._parameters),
        dict(cx._functions),
        {id: len(calls) for id, calls in cx._probes.items()},
        set(cx._providers),
        cx._streams,
        cx._scope,
    )


def error_of(call: Any, kind: Any = LabError) -> Any:
    """Return the error that a call ends in."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def stopped_at_work(call: Any) -> Any:
    """Return how Ctrl-C ended a call that goes on without an end.

    On a busy machine the signal can come before the work has begun; then it comes again, later.
    """
    main = threading.main_thread().ident
    assert main is not None
    for delay in (0.2, 1.0, 5.0):
        gc.collect()  # Python loses an interrupt that comes while what is dead is put away
        timer = threading.Timer(delay, signal.pthread_kill, [main, signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            call()
        timer.join()
        if isinstance(caught.value, Interrupted):
            return caught.value
    raise AssertionError("it was stopped, and did not say so")
