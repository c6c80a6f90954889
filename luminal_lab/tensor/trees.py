"""Tensors in nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from luminal_lab.errors import GraphError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Lazy

Tree: TypeAlias = "Tensor | Iterable[Tree] | Mapping[str, Tree]"
DEEPEST = 1_000
"""How many levels deep lists, tuples and dicts of tensors may be nested."""


def leaves(what: str, *trees: Tree) -> Iterator[tuple[Tensor, ...]]:
    """Yield the tensors in nested lists, tuples and dicts, of several trees those at one place."""
    levels: list[Iterator[tuple[Tree, ...]]] = [iter([trees])]
    while levels:
        places = next(levels[-1], None)
        if places is None:
            levels.pop()
            continue
        tensors = tuple(place for place in places if isinstance(place, Tensor))
        if len(tensors) == len(places):
            yield tensors
            continue
        branches: list[Mapping[Any, Tree]] = []
        for place in places:
            branch = _branches(place)
            if branch is not None:
                branches.append(branch)
            elif not isinstance(place, Tensor):
                raise GraphError(
                    f"{what}: {place!r} is not a tensor", hint="nest lists, tuples and dicts"
                )
        keys = branches[0].keys()
        if len(branches) < len(places) or any(keys != branch.keys() for branch in branches):
            raise GraphError(
                f"{what}: the two sides differ: {' and '.join(map(_outline, places))}",
                hint="give both sides the same structure of lists, tuples and dicts",
            )
        if len(levels) > DEEPEST:
            raise GraphError(
                f"{what}: what is given is nested more than {DEEPEST} levels deep",
                hint="a list that contains itself has no end",
            )
        levels.append(iter([tuple([branch[key] for branch in branches]) for key in keys]))


def _branches(tree: Tree) -> Mapping[Any, Tree] | None:
    """Return what a list, tuple, dict or iterator holds, by index or key; None for all else."""
    given = cast("Any", tree)
    if isinstance(tree, (str, bytes, type)) or hasattr(given, "dtype"):
        return None
    if not hasattr(given, "__iter__"):
        return None
    return given if hasattr(given, "keys") else dict(enumerate(cast("Iterable[Tree]", tree)))


def _outline(tree: Tree) -> str:
    branches = _branches(tree)
    if branches is None:
        return tree.label if isinstance(tree, Lazy) else repr(tree)
    if isinstance(tree, Mapping):
        return f"a dict of {', '.join(map(repr, branches))}"
    return f"a {type(tree).__name__} of {len(branches)}"
