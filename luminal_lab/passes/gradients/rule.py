"""The table of gradients: for each op, the gradients of its sources from `g`, that of its result.

A rule is a function. It takes the forward node, whose sources are `node[0]`, `node[1]`, …,
and `g`, the gradient of its result; it returns a gradient for each source (a single one if there is
one source), None for a source without gradient, and a function without arguments for a gradient to
be written only on demand:

    @gradient(Mul)
    def mul(node, g):
        return lambda: g * node[1], lambda: g * node[0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import Node
from luminal_lab.core.op import Op, Scalar, TensorType
from luminal_lab.core.ops import Mul
from luminal_lab.core.origin import here
from luminal_lab.errors import DefinitionError, DTypeError, RangeError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

O_co = TypeVar("O_co", bound=Op, covariant=True)
O = TypeVar("O", bound=Op)  # noqa: E741  # an op
C = TypeVar("C")
Part: TypeAlias = "Tensor | Callable[[], Tensor | None] | None"
Given: TypeAlias = "Part | Sequence[Part]"

MUL = Mul()


class Forward(Generic[O_co]):
    """The node whose gradient is written; its values are computed only where they are used."""

    __slots__ = ("_value", "node", "op", "types")

    def __init__(
        self,
        op: O_co,
        node: Node,
        types: tuple[TensorType, ...],
        value: Callable[[int], Tensor],
    ) -> None:
        self.op: Final[O_co] = op
        self.node = node
        self.types = types
        """The types of the sources."""
        self._value = value

    def __getitem__(self, index: int) -> Tensor:
        """Return the value of a source."""
        sources = self.node.sources
        if not -len(sources) <= index < len(sources):
            count = "1 source" if len(sources) == 1 else f"{len(sources)} sources"
            raise RangeError(
                f"grad: {self.op.name} has {count} here, and its gradient asks for number {index}",
                hint="node[0] is the value of the first source, node.result that of the node",
            )
        return self._value(sources[index])

    @property
    def result(self) -> Tensor:
        """The value of the node itself."""
        return self._value(self.node.id)

    @override
    def __repr__(self) -> str:
        return f"the forward node of {self.op.name}, whose value is node.result"

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to be a value: the node has one."""
        raise DTypeError(
            f"grad: the gradient of {self.op.name} computes with the node itself, which is not a "
            "tensor",
            where=str(here() or "") or None,
            hint="node.result is its value, and node[0] that of its first source",
        )

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of the sources: equal ones are one value."""
        return self.node.sources


class GradientRule(NamedTuple):
    """The rule that writes the gradient of an op."""

    write: Callable[..., Given]
    wide: bool
    """Whether 16-bit floats are computed in float32, as several steps would round too often."""

    def parts(self, node: Forward[Any], g: Tensor, *settings: object) -> list[Part]:
        """Return the result of the rule as a list."""
        given: Any = self.write(node, g, *settings)
        return [*given] if isinstance(given, (tuple, list)) else [given]


RULES: dict[str, GradientRule] = {}
"""The rule of each op, by the name of the op."""


def gradient(
    op: type[O], *, wide: bool = False
) -> Callable[[Callable[[Forward[O], Tensor], Given]], Callable[[Forward[O], Tensor], Given]]:
    """Mark a function as the gradient of an op, which may be the user's own.

    With `wide`, the function gets 16-bit floats as float32; its results are converted back.

    >>> import luminal_lab as ll
    >>> from luminal_lab.core.ops import Recip
    >>> @gradient(Recip)
    ... def recip(node, g):
    ...     return -g * node.result * node.result
    """
    name = getattr(op, "name", None)
    if not (isinstance(op, type) and issubclass(op, Op) and isinstance(name, str)):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
        raise DefinitionError(
            f"gradient: {said(op)} is not an op class",
            where=str(here() or "") or None,
            hint="write @gradient(MyOp) above the function",
        )

    def register(write: Callable[[Forward[O], Tensor], Given]) -> Callable[..., Given]:
        what = f"gradient of {name}"
        rule = GradientRule(function_of(what, write), wide)
        try:
            signature(write).bind(None, None)
        except ValueError:  # a function of C's does not say what it takes
            pass
        except TypeError:
            raise DefinitionError(
                f"{what}: its function takes {signature(write)}, and is called with the forward "
                "node and the gradient of its result",
                where=str(here() or "") or None,
                hint="write def f(node, g), and node[0] for the value of its first source",
            ) from None
        RULES[name] = rule
        return write

    return register


def function_of(what: str, given: C) -> C:
    """Return a decorator's argument, or raise if it is not a function."""
    if is_function(given):
        return given
    raise DefinitionError(
        f"{what}: {said(given)} is not a function",
        where=str(here() or "") or None,
        hint="write the decorator above a function",
    )


def said(value: object) -> str:
    """Return one line of text that describes a wrong value in an error."""
    if isinstance(value, Tensor):
        return value.label
    lines = repr(value).splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{type(value).__name__} {lines[0]} …"


def emit(op: Op, *sources: Tensor) -> Tensor:
    """Add a node with an op on tensors of one graph."""
    graph, type = sources[0].graph, op.infer(*[source.type for source in sources])
    return Tensor(graph, graph.append(op, tuple([source.id for source in sources]), type), type)


def scaled(x: Tensor, factor: Scalar) -> Tensor:
    """Return x times a number."""
    return emit(MUL, x, x.full_like(factor))


def narrowed(x: Tensor, dtype: DType) -> Tensor:
    """Return x in a dtype."""
    return x if x.dtype is dtype else x.cast(dtype)
