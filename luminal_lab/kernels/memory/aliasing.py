"""When a kernel's result can have the memory of an input: under another name, or in its place."""

from luminal_lab.core.dims import Shape
from luminal_lab.core.op import size_of
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.terms import Fold, Lookup, Read, walk
from luminal_lab.kernels.nest.nest import Nest


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


def overwritable(definition: Definition, nest: Nest | None = None) -> tuple[tuple[int, int], ...]:
    """Return each result that may be written over an input: no element is needed after that.

    With a kernel's nest, also over those that are read where a result is written, after sums of
    others. Of several results each may have the memory of one input.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> overwritable(parse_definition('''kernel add(x: f32[4], b: f32[1]) -> (y: f32[4])
    ...   y[i < 4] = x[i] + b[0]'''))
    ((0, 0),)
    """
    if nest is not None:
        safe = nest.overwritable
    elif len(definition.outputs) == 1:
        safe = {(definition.outputs[0].name, name) for name in _by_terms(definition)}
    else:
        return ()
    return tuple(
        (result, position)
        for result, output in enumerate(definition.outputs)
        for position, (name, type) in enumerate(definition.inputs)
        if type.shape == output.type.shape
        and type.dtype.itemsize == output.type.dtype.itemsize
        and (output.name, name) in safe
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
