"""`inline`: one definition's terms take the place of what another reads: two kernels become one.

kernel twice(x: f32[n]) -> (y: f32[n])
  y[i < n] = x[i] * 2.0
                                              →  kernel total(x: f32[n, 4]) -> (s: f32[n])
kernel total(y: f32[n, 4]) -> (s: f32[n])          s[i < n] = sum j < 4: x[i, j] * 2.0
  s[i < n] = sum j < 4: y[i, j]
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from luminal_lab.core.dims import Shape
from luminal_lab.core.printer import unique
from luminal_lab.errors import DefinitionError, nearest
from luminal_lab.kernels.definition.canonical import canonical, renamed
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.substitution import exchanged, looked_up, replaced
from luminal_lab.kernels.definition.terms import Lookup, Read, Term, axis_of, read_by


def inline(
    producer: Definition,
    into: Definition,
    reads: Mapping[str, str] | None = None,
    *,
    keep: Iterable[str] = (),
    also: Iterable[str] = (),
) -> Definition:
    """Return a definition that computes what it used to read from a producer.

    `reads` says for inputs of `into` which output of the producer each one is: those of the same
    name, if it says nothing. Inputs of one name in both are one array. Outputs of the producer
    that are in `keep` become locals instead of terms; those in `also` are outputs of the result.
    """
    given, outputs_by_name = dict(into.inputs), {output.name: output for output in producer.outputs}
    if reads is None:
        reads = {name: name for name in given if name in outputs_by_name}
    keep, also = {*keep}, [*also]
    _check(producer, into, reads, keep, also)
    outside = {*dict(producer.inputs), *producer.dims, *also}
    into, names = _apart(into, outside, [*reads])
    reads = {names.get(name, name): output for name, output in reads.items()}
    producer, _ = _apart(producer, {*into.types, *into.dims}, [])
    producer = canonical(producer, avoid=into.dims)
    into = canonical(into, avoid=producer.dims)
    outputs_by_name = {output.name: output for output in producer.outputs}
    fused = _Fused(into, {name: outputs_by_name[output] for name, output in reads.items()}, keep)
    lines = [*map(fused.line, into.lines)]
    inner = [*producer.locals, *fused.locals, *lines[: len(into.locals)]]
    outputs = [*lines[len(into.locals) :], *(outputs_by_name[name] for name in also)]
    result = Definition(
        into.name,
        tuple(_inputs(producer, into, reads)),
        tuple(outputs),
        tuple(used(outputs, inner)),
    )
    return canonical(result)


def element(output: Output, index: Shape) -> Term:
    """Return the term of one element of an array."""
    return replaced(
        output.term,
        {axis.name: position for axis, position in zip(output.axes, index, strict=True)},
    )


def used(outputs: Iterable[Output], locals_: Sequence[Output]) -> list[Output]:
    """Return the locals that are read, in order."""
    wanted = read_by(*(output.term for output in outputs))
    reached: list[Output] = []
    for local in reversed(locals_):
        if local.name in wanted:
            reached.append(local)
            wanted |= read_by(local.term)
    return reached[::-1]


class _Fused:
    """Terms of one definition, with those of another in them."""

    def __init__(self, into: Definition, sources: Mapping[str, Output], keep: set[str]) -> None:
        self.taken = {*into.types, *into.dims}
        self.sources = sources
        self.locals: list[Output] = []
        self.done: dict[int, Term] = {}
        for name, source in sources.items():
            if source.name in keep:
                self.locals.append(replace(source, name=name))

    def line(self, line: Output) -> Output:
        return replace(line, term=self.part(line.term))

    def part(self, term: Term) -> Term:
        return exchanged(term, self.inlined, self.done)

    def inlined(self, term: Term) -> Term | None:
        match term:
            case Read(buffer=buffer, index=index) if self.inlines(buffer):
                return element(self.sources[buffer], index)
            case Lookup(buffer=buffer) if self.inlines(buffer):
                return self.looked_up(term)
            case _:
                return None

    def inlines(self, buffer: str) -> bool:
        return buffer in self.sources and buffer not in [local.name for local in self.locals]

    def looked_up(self, term: Lookup) -> Term:
        source, axis = self.sources[term.buffer], term.axis
        axis_symbol = axis_of(unique("_", self.taken), term.size)
        index = (*term.index[:axis], axis_symbol, *term.index[axis + 1 :])
        position = self.part(term.position)
        element_found = looked_up(element(source, index), axis_symbol, term.size, position)
        if element_found is not None:
            return element_found
        # No index can do arithmetic with a value: the array is computed first, then looked up.
        self.locals.append(replace(source, name=term.buffer))
        return replace(term, position=position)


def _check(
    producer: Definition,
    into: Definition,
    reads: Mapping[str, str],
    keep: Iterable[str],
    also: Iterable[str],
) -> None:
    given, types = dict(into.inputs), {output.name: output.type for output in producer.outputs}
    if not reads:
        raise DefinitionError(
            f"inline: {into.name} reads {', '.join(given) or 'nothing'}, and {producer.name} makes "
            f"{', '.join(types)}: none of them is the same",
            hint='say which is which: reads={"input": "output"}',
        )
    wanted = [(into, given, name) for name in reads]
    wanted += [(producer, types, name) for name in (*reads.values(), *keep, *also)]
    for definition, known, name in wanted:
        if name not in known:
            kind = "an input" if definition is into else "an output"
            hint = nearest(name, known) or f"it has {', '.join(known)}"
            message = f"inline: {name!r} is not {kind} of {definition.name}"
            raise DefinitionError(message, hint=hint)
    for name, output in reads.items():
        if given[name] != types[output]:
            raise DefinitionError(
                f"inline: {into.name} reads {name} as {given[name]}, but {producer.name} makes "
                f"{output} as {types[output]}",
                hint="define a view of it in between",
            )
    taken = [output.name for output in into.outputs]
    for name, type in (*producer.inputs, *((name, types[name]) for name in also)):
        other = into.types.get(name, type)
        shared = name in given and name not in reads
        if (shared and other != type) or name in taken:
            raise DefinitionError(
                f"inline: {name} is {type} in {producer.name}, and another array, {other}, in "
                f"{into.name}",
                hint="rename the buffers of one of them",
            )


def _apart(
    definition: Definition, outside: Collection[str], more: Sequence[str]
) -> tuple[Definition, Mapping[str, str]]:
    """Return a definition whose locals, and more, have names that are free, and the new names."""
    taken = {*definition.types, *definition.dims, *outside}
    names: dict[str, str] = {}
    for name in (*(line.name for line in definition.locals), *more):
        if name in outside:
            names[name] = unique(name, taken)
            taken.add(names[name])
    return renamed(definition, names), names


def _inputs(producer: Definition, into: Definition, reads: Mapping[str, str]) -> list[Buffer]:
    """Return the inputs of both, the producer's where its first output was read."""
    inputs: dict[str, Buffer] = {}
    for buffer in into.inputs:
        for given in producer.inputs if buffer.name in reads else (buffer,):
            inputs.setdefault(given.name, given)
    return [*inputs.values()]
