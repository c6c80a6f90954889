"""Marks on weights that compiled graphs may store in fewer bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.module import Module
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.parameter import Parameter

FORMS = ("q8_0",)
"""The known forms, by their names in GGUF."""


@told
def quantise(
    what: Module | Parameter | Iterable[Parameter], form: str | None = "q8_0"
) -> dict[str, Parameter]:
    """Mark the matrices of a module, as `Linear` and `Embedding` have them; return them by path.

    A mark changes no value: the weights stay as they are, also in files. The pass `quantised`
    makes compiled graphs read the marked weights in that form. None removes the mark.

    >>> from luminal_lab import nn
    >>> list(quantise(nn.Sequential(nn.Linear(64, 32), nn.ReLU())))
    ['0.weight']
    """
    if form is not None and form not in FORMS:
        raise at_user(
            ArgumentError(
                f"quantise: there is no form {form!r}",
                hint=nearest(str(form), FORMS) or f"the forms: {', '.join(FORMS)}",
            )
        )
    named = _weights(what)
    for parameter in named.values():
        parameter.form = form or ""
    return named


def _weights(what: Module | Parameter | Iterable[Parameter]) -> dict[str, Parameter]:
    if isinstance(what, Module):
        # Through the class, since a user's attribute may have the name of a method.
        modules = what.named_modules().values()
        matrices = [matrix for module in modules for matrix in type(module).matrices(module)]
        paths = {**what.parameters(), **what.buffers()}
        return {
            path: parameter
            for path, parameter in paths.items()
            if any(parameter is m for m in matrices)
        }
    is_many = hasattr(what, "__iter__") and not isinstance(what, (str, Mapping, Tensor))
    named: dict[str, Parameter] = {}
    for index, parameter in enumerate(cast("Iterable[object]", what if is_many else [what])):
        if not isinstance(parameter, Parameter):
            shown = parameter.label if isinstance(parameter, Tensor) else repr(parameter)
            raise at_user(
                ArgumentError(
                    f"quantise: {shown} is not a parameter",
                    hint="give a module, a parameter such as layer.weight, or a list of them",
                )
            )
        named[parameter.name or str(index)] = parameter
    return named
