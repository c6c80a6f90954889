"""When a kernel's result can have the memory of an input: under another name, or in its place."""

from luminal_lab.core.dims import Shape
from luminal_lab.core.op import size_of
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.terms import Fold, Lookup, Read, walk
from luminal_lab.kernels.nest.nest import Nest, accesses


def same_bytes(definition: Definition) -> int | None:
    """Return which input a kernel's only result equals bit for bit, as with a reshape.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> same_bytes(parse_definition('''kernel flat(x: f32[n, 4]) -> (y: f32[n, 4, 1])
    ...   y[i < n, j < 4, k < 1] = x[i, j]'''))
    0
    """
    if len(definition.lines) != 1:
        return None
    (line,) = definition.lines
    term = line.term
    if not isinstance(term, Read):
        return None
    type = definition.types[term.buffer]
    whole = size_of(type.shape) == size_of(line.type.shape) and type.dtype is line.type.dtype
    offset = row_major(line.type.shape, _axes(line))
    if not whole or row_major(type.shape, term.index) != offset:
        return None
    names = [buffer.name for buffer in definition.inputs]
    return names.index(term.buffer)


def overwritable(definition: Definition, nest: Nest | None = None) -> tuple[int, ...]:
    """Return the inputs that a kernel may write its only result over: no element is needed twice.

    With its nest, also those that are read where the result is written, after sums of others.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> overwritable(parse_definition('''kernel add(x: f32[4], b: f32[1]) -> (y: f32[4])
    ...   y[i < 4] = x[i] + b[0]'''))
    (0,)
    """
    if len(definition.outputs) != 1:
        return ()
    (output,) = definition.outputs
    safe = _by_nest(nest) if nest is not None else _by_terms(definition)
    return tuple(
        position
        for position, (name, type) in enumerate(definition.inputs)
        if type.shape == output.type.shape
        and type.dtype.itemsize == output.type.dtype.itemsize
        and name in safe
    )


def _by_terms(definition: Definition) -> set[str]:
    """Return the inputs of which the term of an element reads only that element, and no fold."""
    if len(definition.lines) != 1:
        return set()
    (line,) = definition.lines
    indices: dict[str, set[object]] = {}
    for term in walk(line.term):
        if isinstance(term, Fold):
            return set()
        if isinstance(term, Read):
            axes_and_sizes = zip(term.index, line.type.shape, strict=False)
            index = tuple(0 if size == 1 else dim for dim, size in axes_and_sizes)
            indices.setdefault(term.buffer, set()).add(index)
        elif isinstance(term, Lookup):
            indices.setdefault(term.buffer, set()).add(None)
    return {name for name, indices_read in indices.items() if indices_read == {_axes(line)}}


def _axes(line: Output) -> Shape:
    """Return an element's index by axis; along axes of size 1 it is 0."""
    return tuple(
        0 if size == 1 else axis for axis, size in zip(line.axes, line.type.shape, strict=True)
    )


def _by_nest(nest: Nest) -> set[str]:
    """Return the inputs that are read only where the result is written, at the same element."""
    safe = {access.name for access in accesses(nest.body) if access.how == "read"}
    results = {name for name, _ in nest.outputs}
    for access in accesses(nest.body):
        if access.name in results and access.how != "=":
            return set()
        if access.how == "read":
            set_ = access.statement
            if set_.name not in results or access.index != set_.index:
                safe.discard(access.name)
    return safe
