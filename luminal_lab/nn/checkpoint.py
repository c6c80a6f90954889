"""Checkpoints: all that the next run of a session starts from, in one safetensors file.

That is what is carried from run to run, as whole values, and the count of runs, on which random
numbers depend. Nothing in it depends on who computed it: what four workers have written one reads.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from luminal_lab.core.ir import Node
from luminal_lab.errors import ArgumentError, InputError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.weights import save_file, stored_values
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.store import Store

STEP = "session.step"
"""The name of the count of runs in a file."""


def save_state(session: Store, path: str | Path) -> None:
    """Write what the next run of a session starts from; a file that is there stays until then.

    >>> from tempfile import TemporaryDirectory
    >>> def counting():
    ...     cx = ll.Graph()
    ...     count = cx.tensor((), name="count").set(0)
    ...     return cx, cx.carry(count + 1, count)
    >>> with TemporaryDirectory() as folder:
    ...     cx, total = counting()
    ...     cx.execute()
    ...     ll.nn.save_state(cx, f"{folder}/state.safetensors")
    ...     cx, total = counting()
    ...     ll.nn.load_state(cx, f"{folder}/state.safetensors")
    ...     cx.execute()
    >>> total.item()
    2.0
    """
    _check("save_state", session)
    values = {STEP: Parameter((), "int64", value=np.int64(session.step), name=STEP)}
    for name, node in _carried(session).items():
        value = session.value_of(node)
        if value is None:
            raise at_user(
                InputError(
                    f"save_state: %{node.name} has no value yet",
                    hint="give it data with set(...), and run cx.execute()",
                )
            )
        values[name] = Parameter(value.shape, node.dtype, value=value, name=name)
    save_file(path, values)


def load_state(session: Store, path: str | Path) -> None:
    """Give a session what its next run starts from, from a file that `save_state` has written.

    All of the file is checked first: the session is changed as a whole, or not at all.

    >>> from tempfile import TemporaryDirectory
    >>> cx = ll.Graph()
    >>> count = cx.tensor((), name="count").set(5)
    >>> total = cx.carry(count + 1, count)
    >>> with TemporaryDirectory() as folder:
    ...     ll.nn.save_state(cx, f"{folder}/state.safetensors")
    ...     count = count.set(0)
    ...     ll.nn.load_state(cx, f"{folder}/state.safetensors")
    >>> cx.execute()
    >>> total.item()
    6.0
    """
    _check("load_state", session)
    stored, nodes = stored_values(path), _carried(session)
    step = stored.pop(STEP, None)
    if step is None or step.shape != () or str(step.dtype) != "int64":
        raise at_user(
            InputError(
                f"load_state: {path} is no checkpoint: it has no {STEP}",
                hint="ll.nn.save_state writes one; weights alone are for module.load",
            )
        )
    faults = [f"missing: {name}" for name in nodes.keys() - stored.keys()]
    faults += [f"extra: {name}" for name in stored.keys() - nodes.keys()]
    for name in nodes.keys() & stored.keys():
        value, node = stored[name], nodes[name]
        if (value.shape, value.dtype) != (node.shape, node.dtype):
            faults.append(f"{name} is {value.dtype} {value.shape}, and here {node.type}")
    if faults:
        raise at_user(
            InputError(
                f"load_state: {path} is of another graph: {'; '.join(sorted(faults)[:5])}",
                hint="write the graph as it was when the file was written",
            )
        )
    count = int(step.value)
    if not 0 <= count < 1 << 62:
        raise at_user(InputError(f"load_state: {path} says that there were {count} runs"))
    values = {name: np.array(parameter.value) for name, parameter in stored.items()}
    for name, node in nodes.items():
        session.give(node, values[name])
    session.step = count


def _check(what: str, session: object) -> None:
    if not isinstance(session, Store):
        fault, hint = f"{what}: the session is {session!r}", f"as in ll.nn.{what}(cx, path)"
        raise at_user(ArgumentError(fault, hint=hint))


def _carried(session: Store) -> dict[str, Node]:
    """Return the inputs that runs carry values to, by the names that they have in a file."""
    ir = session.ir
    targets = [ir[into] for _, into in ir.carries]
    names = [node.name for node in targets]
    return {
        name if names.count(name) == 1 else f"{name}.{at}": node
        for at, (name, node) in enumerate(zip(names, targets, strict=True))
    }


__all__ = ["load_state", "save_state"]
