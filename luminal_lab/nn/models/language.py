"""The common parts of language models: published sizes by name, and first weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from luminal_lab.core.op import ints
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.embedding import Embedding
from luminal_lab.nn.init import normal, zeros
from luminal_lab.nn.linear import Linear
from luminal_lab.nn.module import Module
from luminal_lab.tensor.parameter import Draw, Parameter

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")


def config_of(kind: str, name: str, published: Mapping[str, C], changes: Mapping[str, object]) -> C:
    """Return the published configuration with a name, with all changes that are not None."""
    if name not in published:
        near = nearest(str(name).lower(), published)
        raise at_user(
            ArgumentError(
                f"{kind}: no published model is called {name!r}",
                hint=near or f"the names are {', '.join(published)}",
            )
        )
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(published[name], **given)


def draw_as_published(model: Module, layers: int, residual: str | None = None) -> None:
    """Draw the matrices of a new model with GPT-2's small variance, and set biases to 0.

    Weights that end in `residual` add to the stream twice per layer, so they are scaled down.
    """
    for path, module in model.named_modules().items():
        if not isinstance(module, (Linear, Embedding)):
            continue
        adds = residual is not None and path.endswith(residual)
        std = 0.02 / math.sqrt(2 * layers) if adds else 0.02
        module.weight = _drawn(module.weight, partial(normal, std=std))
        if isinstance(module, Linear) and module.bias is not None:
            module.bias = _drawn(module.bias, zeros)


def _drawn(parameter: Parameter, init: Draw) -> Parameter:
    return Parameter(ints(parameter.shape), parameter.dtype, init=init)
