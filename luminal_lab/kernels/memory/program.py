"""What a memory plan is made from: steps in order, and the values that they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, final

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, symbols
from luminal_lab.errors import GraphError
from luminal_lab.kernels.memory.layout import LifeSpan

ValueKind: TypeAlias = Literal["input", "constant", "output", "temporary"]


@final
class MemoryStep(NamedTuple):
    """What one step of a program reads and writes, by the ids of values.

    A value that is read twice, say as two arguments of a kernel, is listed twice: what may be
    written over one may not be written over the other.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class MemoryValue:
    """A value of a program; one with `alias_of` is another name for that value's bytes."""

    id: int
    bytes: Dim
    kind: ValueKind = "temporary"
    alias_of: int | None = None
    name: str = ""

    @override
    def __str__(self) -> str:
        return f"%{self.name or self.id}"


@dataclass(frozen=True)
class MemoryProgram:
    """Steps in order, their values, and the outputs that are inputs' values in the next run."""

    values: tuple[MemoryValue, ...]
    steps: tuple[MemoryStep, ...]
    donated: Mapping[int, int] = field(default_factory=dict[int, int])
    """Inputs by outputs, as the `carries` of a graph pair them."""

    def __post_init__(self) -> None:
        if len(self.by_id) < len(self.values):
            seen: set[int] = set()
            again = next(v for v in self.values if v.id in seen or seen.add(v.id))
            raise _fault(f"two values have the id {again.id}")
        for value in self.values:
            if value.alias_of is not None and value.kind in ("input", "constant"):
                raise _fault(f"{value} is {_a(value.kind)} and another name of %{value.alias_of}")
        self._check_steps()
        for id, root in self.roots.items():
            if self.by_id[id].kind == "output":
                self._check_output(self.by_id[id], self.by_id[root])
        self._check_donated()

    def _check_steps(self) -> None:
        written: dict[int, int] = {}
        for at, step in enumerate(self.steps):
            for id in step.reads:
                value = self._known(id, at)
                root = self.by_id[self.roots[id]]
                if root.kind in ("output", "temporary") and root.id not in written:
                    raise _fault(
                        f"step {at} reads {value}, which no step before it writes",
                        hint="steps come in the order in which they run",
                    )
            for id in step.writes:
                value = self._known(id, at)
                if value.alias_of is not None:
                    source = self.by_id[value.alias_of]
                    raise _fault(f"step {at} writes {value}, which is a view of {source}")
                if value.kind in ("input", "constant"):
                    raise _fault(f"step {at} writes {value}, which is {_a(value.kind)}")
                if id in written:
                    raise _fault(f"{value} is written by step {written[id]} and by step {at}")
                written[id] = at

    def _known(self, id: int, step: int) -> MemoryValue:
        if id not in self.by_id:
            raise _fault(f"step {step} names the value {id}, and there is none with this id")
        return self.by_id[id]

    def _check_output(self, value: MemoryValue, root: MemoryValue) -> None:
        """Raise if an output given to the user would change with an input, or with the next run."""
        copy = "let a step copy it into a value of its own"
        given = self.donated.get(value.id)
        if root.kind == "input" and given != root.id:
            raise _fault(f"the output {value} is a view of the input {root}", hint=copy)
        if root.kind == "constant" and given is not None:
            message = f"the output {value}, which is donated, is a view of the constant {root}"
            raise _fault(message, hint=copy)
        if root.kind in ("output", "temporary") and root.id not in self.born:
            raise _fault(f"no step writes the output {value}")
        other = next((id for id in self.outputs[root.id] if id != value.id), None)
        if given is not None and other is not None:
            message = f"the output {value}, which is donated, has the bytes of the output"
            raise _fault(f"{message} {self.by_id[other]}", hint=copy)

    def _check_donated(self) -> None:
        for output, given in self.donated.items():
            for id, kind in ((output, "output"), (given, "input")):
                kind_found = self.by_id[id].kind if id in self.by_id else "no value"
                if kind_found != kind:
                    name = str(self.by_id.get(id, f"%{id}"))
                    message = f"{name} is donated as an {kind}, but it is {_a(kind_found)}"
                    raise _fault(message, hint="donated gives inputs by outputs")
            output_value, input_value = self.by_id[self.roots[output]], self.by_id[given]
            if output_value.bytes != input_value.bytes:
                raise _fault(
                    f"{self.by_id[output]} is donated to {input_value}, but their places have "
                    f"{output_value.bytes} and {input_value.bytes} bytes",
                    hint="what grows is an input of its full size, whose rows are updated",
                )
        if len({*self.donated.values()}) < len(self.donated):
            raise _fault("two outputs are donated to one input")

    @cached_property
    def by_id(self) -> Mapping[int, MemoryValue]:
        """The values by their ids."""
        return {value.id: value for value in self.values}

    @cached_property
    def roots(self) -> Mapping[int, int]:
        """For each value, the one whose bytes it uses: itself, or for a view its root."""
        roots: dict[int, int] = {}
        for value in self.values:
            path = [value]
            while path[-1].alias_of is not None and path[-1].id not in roots:
                source = self.by_id.get(path[-1].alias_of)
                if source is None or source in path:
                    target = "no value" if source is None else "a view of it"
                    raise _fault(f"{path[-1]} is another name of {target}: %{path[-1].alias_of}")
                path.append(source)
            root = roots.get(path[-1].id, path[-1].id)
            roots.update((viewed.id, root) for viewed in path)
        return roots

    @cached_property
    def born(self) -> Mapping[int, int]:
        """The step that writes a value."""
        return {id: at for at, step in enumerate(self.steps) for id in step.writes}

    @cached_property
    def outputs(self) -> Mapping[int, Sequence[int]]:
        """For each value, the outputs that use its bytes, itself and views, if there are any."""
        outputs: dict[int, list[int]] = {}
        for value in self.values:
            if value.kind == "output":
                outputs.setdefault(self.roots[value.id], []).append(value.id)
        return outputs

    @cached_property
    def reads(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """The steps that read a value's bytes, in order, each with the name that it reads."""
        reads: dict[int, list[tuple[int, int]]] = {}
        for at, step in enumerate(self.steps):
            for id in step.reads:
                reads.setdefault(self.roots[id], []).append((at, id))
        return reads

    @cached_property
    def lives(self) -> Mapping[int, LifeSpan]:
        """The steps between which bytes are needed, by the values that are not views."""
        end = max(len(self.steps) - 1, 0)
        lives: dict[int, LifeSpan] = {}
        for value in self.values:
            if value.kind in ("input", "constant"):
                lives[value.id] = LifeSpan(0, end)
            elif value.id in self.born:
                first = self.born[value.id]
                last = self.reads[value.id][-1][0] if value.id in self.reads else first
                lives[value.id] = LifeSpan(first, end if value.id in self.outputs else last)
        return lives

    @cached_property
    def symbols(self) -> Mapping[str, Symbol]:
        """The symbolic dims that sizes mention, by name."""
        mentioned = {symbol for value in self.values for symbol in symbols(value.bytes)}
        return {symbol.name: symbol for symbol in sorted(mentioned, key=str)}

    def names(self, ids: Iterable[int]) -> str:
        """Return the names of values, separated by commas."""
        return ", ".join(str(self.by_id[id]) for id in ids)


def _a(kind: str) -> str:
    return kind if kind.startswith("no ") else f"{'an' if kind[0] in 'io' else 'a'} {kind}"


def _fault(event: str, hint: str | None = None) -> GraphError:
    return GraphError(f"memory plan: {event}", hint=hint)
