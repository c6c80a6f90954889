"""Tensors in nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from luminal_lab.errors import GraphError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Lazy

Tree: TypeAlias = "Tensor | Iterable[Tree] | Mapping[str, Tree]"
DEEPEST = 1_000
"""The deepest nesting of lists, tuples and dicts of tensors."""


def leaves(what: str, *trees: Tree) -> Iterator[tuple[Tensor, ...]]:
    """Yield the tensors in nested lists, tuples and dicts; for several trees, those in parallel."""
    levels: list[Iterator[tuple[Tree, ...]]] = [iter([trees])]
    while levels:
        parts = next(levels[-1], None)
        if parts is None:
            levels.pop()
            continue
        tensors = tuple(part for part in parts if isinstance(part, Tensor))
        if len(tensors) == len(parts):
            yield tensors
            continue
        branches: list[Mapping[Any, Tree]] = []
        for part in parts:
            branch = _branches(part)
            if branch is not None:
                branches.append(branch)
            elif not isinstance(part, Tensor):
                raise GraphError(
                    f"{what}: {part!r} is not a tensor", hint="nest lists, tuples and dicts"
                )
        keys = branches[0].keys()
        if len(branches) < len(parts) or any(keys != branch.keys() for branch in branches):
            raise GraphError(
                f"{what}: the two sides differ: {' and '.join(map(_outline, parts))}",
                hint="give both sides the same structure of lists, tuples and dicts",
            )
        if len(levels) > DEEPEST:
            raise GraphError(
                f"{what}: the argument is nested more than {DEEPEST} levels deep",
                hint="a list that contains itself has no end",
            )
        levels.append(iter([tuple([branch[key] for branch in branches]) for key in keys]))


def _branches(tree: Tree) -> Mapping[Any, Tree] | None:
    """Return the entries of a list, tuple, dict or iterator by index or key; None for others."""
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
