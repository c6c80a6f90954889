"""Weights of modules in few bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from luminal_lab.core.dtypes import DType
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.module import Module
from luminal_lab.nn.packing import PACKERS, fitting, packed
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.parameter import Parameter


@told
def quantise(
    what: Module | Parameter | Iterable[Parameter], form: str | None = "q8_0"
) -> dict[str, Parameter]:
    """Pack the matrices of a module, as `Linear` and `Embedding` have them; return them by path.

    The forms are GGUF's "q8_0", "q4_0", "q4_k" and "q6_k". Each parameter then holds blocks, which
    take the place of its float32 values: graphs that are written from now on read them. Rows that
    are no whole blocks of 256 become "q8_0", and those that are none of 32 stay float32. None makes
    blocks float32 again, with the values that they have.

    >>> from luminal_lab import nn
    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
    >>> list(quantise(model)), model.parameters()["0.weight"].blocks
    (['0.weight'], <Blocks q8_0 (32, 64): 2,176 bytes>)
    """
    if form is not None and form not in PACKERS:
        raise at_user(
            ArgumentError(
                f"quantise: there is no form {form!r}",
                hint=nearest(str(form), PACKERS) or f"the forms: {', '.join(PACKERS)}",
            )
        )
    changed: dict[str, Parameter] = {}
    for name, parameter in _weights(what).items():
        if form is None and parameter.blocks is not None:
            parameter.set(parameter.value, copy=False)
            changed[name] = parameter
        elif form is not None and parameter.dtype is DType.float32:
            wanted = fitting(form, parameter.shape)
            if wanted and parameter.form != wanted:
                parameter.set(packed(wanted, parameter.value))
            if wanted:
                changed[name] = parameter
    return changed


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
