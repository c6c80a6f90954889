"""What a renderer hands over: the source, and everything known about it without rereading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from luminal_lab.core.dims import Dim
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.kernels.kernel import Kernel, Phase, WorkingArray
from luminal_lab.kernels.nest.nest import Block, Loop, Nest, Statement, mapped, substituted
from luminal_lab.kernels.render.code import Code, SourceLine, printed


@dataclass(frozen=True)
class Rendered:
    """A kernel as source."""

    text: str
    ops_of_line: tuple[tuple[str, ...], ...]
    """For each line of the text, the names of the ops that it computes."""
    phases: tuple[Phase, ...]
    locals: tuple[WorkingArray, ...]
    """The arrays that it gets between inputs and outputs, with their bytes."""
    uses: frozenset[str]
    """The names of what it uses from the prelude."""
    scratch: Dim = 0
    """The bytes that each thread lends to a task, on a CPU."""
    shared: int = 0
    """The shared bytes that a GPU's block declares, in the phase with the most."""

    def put_into(self, kernel: Kernel, top: str) -> Kernel:
        """Return a kernel with this source, below a comment."""
        return replace(
            kernel,
            source=f"{top}\n{self.text}",
            phases=self.phases,
            locals=self.locals,
            scratch=self.scratch,
            ops_of_line=(*((),) * len(top.splitlines()), *self.ops_of_line),
            uses=self.uses,
        )


class RenderedPhase(NamedTuple):
    """One phase as source: its first lines, and its body."""

    phase: Phase
    head: Sequence[str]
    code: Code

    def lines(self) -> list[SourceLine]:
        """Return its lines."""
        body = printed(self.code.block, self.code.dialect)
        return [*map(SourceLine, self.head), *body, SourceLine("}")]


def rendered(
    nest: Nest,
    functions: Sequence[RenderedPhase],
    written: Callable[[RenderedPhase], Sequence[SourceLine]] = RenderedPhase.lines,
) -> Rendered:
    """Return functions as the source of a kernel."""
    text: list[str] = []
    ops: list[tuple[str, ...]] = []
    for function in functions:
        lines = [*[SourceLine("")] * bool(text), *written(function)]
        text += [line.text for line in lines]
        ops += [line.ops for line in lines]
    return Rendered(
        "\n".join(text),
        tuple(ops),
        tuple(function.phase for function in functions),
        tuple(WorkingArray(name, bytes_of(nest.types[name])) for name in kept_in_memory(nest)),
        frozenset(name for function in functions for name in function.code.uses),
    )


def function_names(name: str, phases: Sequence[object]) -> list[str]:
    """Return the names of the functions of a kernel's phases."""
    count = len(phases)
    return [name] if count == 1 else [f"{name}__{number}" for number in range(count)]


def kept_in_memory(nest: Nest) -> list[str]:
    """Return the arrays that a kernel gets between inputs and outputs."""
    return [local.name for local in nest.locals.values() if local.space == "memory"]


def buffers_of(nest: Nest) -> list[str]:
    """Return the arrays that a kernel gets, in order."""
    inputs, outputs = ([name for name, _ in some] for some in (nest.inputs, nest.outputs))
    return [*inputs, *kept_in_memory(nest), *outputs]


def without_loops(nest: Nest, kinds: Iterable[str]) -> Nest:
    """Return a nest without loops of one iteration of these kinds."""
    kinds = {*kinds}

    def change(statement: Statement) -> Statement | Block:
        if (
            isinstance(statement, Loop)
            and statement.ends == (0, 1)
            and statement.kind in kinds
            and not statement.position
        ):
            return substituted(statement.body, {statement.name: 0})
        return statement

    return replace(nest, body=mapped(nest.body, change))


def bytes_of(type: TensorType) -> Dim:
    """Return the bytes of an array."""
    return size_of(type.shape) * type.dtype.itemsize
