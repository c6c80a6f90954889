"""An optimiser's state of weights in a graph, and the services that it needs from the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType, ints
from luminal_lab.errors import DefinitionError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.init import zeros
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter

Number: TypeAlias = float | Tensor
"""A setting that is the same for all weights: known now, or a scalar of the graph."""


class Session(Protocol):
    """The services that an optimiser needs from its graph."""

    @property
    def ir(self) -> IR:
        """The graph as written."""
        ...

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that the graph borrows, by name."""
        ...

    def parameter(self, parameter: Parameter) -> Tensor:
        """Return the input that borrows a parameter's value."""
        ...

    def carry(self, new: Tensor, old: Tensor) -> Tensor:
        """Carry an output to an input for the next run."""
        ...


class State:
    """An optimiser's state as tensors of a graph: reading gives the old, setting the new value.

    Values that were never set are 0.
    """

    def __init__(
        self, session: Session, kept: dict[str, Parameter], path: str, type: TensorType
    ) -> None:
        self._session = session
        self._kept = kept
        self._path = path
        self._type = type
        self.decay = 0.0
        """The decay of the state's weight."""
        self.numbers: Mapping[str, Number] = {}
        """The result of `begin`: numbers shared by all weights."""

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._kept:
            self._kept[name] = Parameter(
                ints(self._type.shape),
                self._type.dtype,
                init=zeros,
                name=f"{self._path}.{name}",
                trainable=False,
            )
        if self._kept[name].dtype is not self._type.dtype:  # after `to`
            self._kept[name] = self._kept[name].cast(self._type.dtype)
        return self._session.parameter(self._kept[name])

    def __setitem__(self, name: str, new: Tensor) -> None:
        old = self[name]
        if not isinstance(new, Tensor) or new.type != self._type:  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise at_user(
                DefinitionError(
                    f"{old.name} is set to {said(new)}, and must be a tensor of {self._type}",
                    hint="what is remembered of a weight has its shape, and what is shared is one "
                    "number",
                )
            )
        self._session.carry(new, old)


def said(value: object) -> str:
    """Return a value's name in errors."""
    return f"{value.label} of {value.type}" if isinstance(value, Tensor) else repr(value)
