"""Modules built only from others, and modules that only change a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from typing_extensions import override

from luminal_lab.errors import ArgumentError, DefinitionError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

Layer: TypeAlias = "Module | Callable[..., Any]"


class Sequential(Module):
    """Layers one after the other; they are modules, or functions such as `ll.Tensor.relu`.

    >>> from luminal_lab import nn
    >>> from luminal_lab.session import Graph
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> list(model.parameters())
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *layers: Layer | Mapping[str, Layer]) -> None:
        self.layers: dict[str, Layer] = {}
        for number, layer in enumerate(layers):
            if isinstance(layer, Mapping):
                for name, module in cast("Mapping[str, Layer]", layer).items():
                    self._add(name, module)
            else:
                self._add(str(number), layer)

    def _add(self, name: str, layer: Layer) -> None:
        is_class = isinstance(layer, type)
        if is_class or not is_function(layer):
            hint = "give modules one by one, as in Sequential(a, b), or Sequential(*layers)"
            raise at_user(
                ArgumentError(
                    f"{kind_of(self)}: {layer!r} is not a module or a function",
                    hint=f"make one of the class: {layer.__name__}(...)" if is_class else hint,
                )
            )
        self.layers[name] = layer

    @override
    def members(self) -> Iterable[tuple[str, object]]:
        return self.layers.items()

    @override
    def forward(self, x: Any) -> Any:  # as its layers take and return
        for name, layer in self.layers.items():
            x = layer(x)
            if x is None:
                raise DefinitionError(
                    f"{kind_of(self)}: the layer {name!r} returned None",
                    hint="its forward must end with return",
                )
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers.values())

    def __getitem__(self, key: int | str) -> Layer:
        """Return a layer, by its number or its name."""
        names = list(self.layers)
        if isinstance(key, int) and -len(names) <= key < len(names):
            return self.layers[names[key]]
        if isinstance(key, str) and key in self.layers:
            return self.layers[key]
        # Python's iteration counts up until it gets an IndexError.
        raise IndexError(
            f"{kind_of(self)}: there is no layer {key!r} among {', '.join(names) or 'none'}"
        )


class Identity(Module):
    """The input, unchanged.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Identity()(ll.Graph().tensor((2, 3))).shape
    (2, 3)
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """A range of axes merged into one; by default all but the batch.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Flatten()(ll.Graph().tensor((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)

    @override
    def options(self) -> str:
        return f"{self.start_dim}, {self.end_dim}"


class Unflatten(Module):
    """One axis split into several.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Unflatten(1, (3, 4))(ll.Graph().tensor((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, self.unflattened_size)

    @override
    def options(self) -> str:
        return f"{self.dim}, {self.unflattened_size}"
