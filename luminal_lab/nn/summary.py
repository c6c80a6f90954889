"""The text of a module: a tree of its parts, with shapes and counts of parameters."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

from luminal_lab.core.op import tuple_text
from luminal_lab.errors import counted

if TYPE_CHECKING:
    from luminal_lab.nn.module import Module
    from luminal_lab.tensor.parameter import Parameter


def summary(module: Module) -> str:
    """Return the tree of a module; equal parts beside each other are shown once."""
    return "\n".join(_lines(module, "", {}, ()))


def _lines(
    module: Module, path: str, seen: dict[Parameter, str], outer: tuple[Module, ...]
) -> list[str]:
    # Through the class, since a user's attribute may have the name of a method.
    kind = type(module)
    if any(module is parent for parent in outer):
        return [f"{kind.__name__}, which this is a part of"]
    heading = kind._heading(module)  # pyright: ignore[reportPrivateUsage]  # a user's class may have any public name
    lines = ["  ".join(filter(None, [heading, _count(module)]))]
    for name, parameter in kind.own(module).items():
        first = seen.setdefault(parameter, here := f"{path}{name}")
        more = "" if parameter.trainable else ", not trained"
        more += "" if first == here else f", shared: {first}"
        form = parameter.dtype if parameter.blocks is None else parameter.blocks.form.name
        lines.append(f"  {name} {tuple_text(parameter.shape)} {form}{more}")
    blocks = [
        (name, _lines(child, f"{path}{name}.", seen, (*outer, module)))
        for name, child in kind.children(module).items()
    ]
    for block, same in groupby(blocks, key=_alike):
        names = [name for name, _ in same]
        first, *rest = block[1]
        if len(names) > 1:
            first = f"{names[-1]}: {len(names)} × {first}" + " each" * ("  " in first)
            first = f"{names[0]} … {first}"
        else:
            first = f"{names[0]}: {first}"
        lines += [f"  {first}", *(f"  {line}" for line in rest)]
    return lines


def _alike(block: tuple[str, list[str]]) -> tuple[str, list[str]]:
    """Return the key that equal numbered parts, as "blocks.0" and "blocks.1", share."""
    stem, _, last = block[0].rpartition(".")
    return (stem if last.isdigit() else block[0]), block[1]


def _count(module: Module) -> str:
    total = sum(math.prod(p.shape) for p in type(module).parameters(module).values())
    return counted(total, "parameter") if total else ""
