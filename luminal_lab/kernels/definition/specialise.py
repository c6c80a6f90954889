"""A definition for known sizes of dims."""

from collections.abc import Mapping
from dataclasses import replace

from luminal_lab.core.dims import Dim, Symbol, substitute
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.running import factors
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import Fold, Term, axis_of, read_by, walk


def specialised(definition: Definition, dims: Mapping[str, Dim]) -> Definition:
    """Return a definition in which some dims are numbers, or have narrower bounds.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> print(specialised(parse_definition('''kernel dot(x: f32[n, 4]) -> (y: f32[n])
    ...   y[i < n] = sum j < 4: x[i, j]'''), {"n": 2}))
    kernel dot(x: f32[2, 4]) -> (y: f32[2])
      y[i < 2] = sum j < 4: x[i, j]
    """
    given: dict[str, Dim] = dict(dims)

    def type_of(type: TensorType) -> TensorType:
        return type.with_shape(tuple(substitute(dim, given) for dim in type.shape))

    def line_of(line: Output) -> Output:
        type = type_of(line.type)
        axes = tuple(axis_of(a.name, n) for a, n in zip(line.axes, type.shape, strict=True))
        values = given | {axis.name: axis for axis in axes}
        return Output(line.name, type, axes, replaced(line.term, values))

    return replace(
        definition,
        inputs=tuple(Buffer(name, type_of(type)) for name, type in definition.inputs),
        locals=tuple(map(line_of, definition.locals)),
        outputs=tuple(map(line_of, definition.outputs)),
    )


def rows_of_products(definition: Definition) -> dict[str, Symbol]:
    """Return the dims that count the rows or images of products, where there may be a single one.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> rows_of_products(parse_definition('''kernel m(x: f32[n, k], w: f32[k, 8]) -> (y: f32[n, 8])
    ...   y[i < n, j < 8] = sum l < k: x[i, l] * w[l, j]'''))
    {'n': n}
    """
    found: dict[str, Symbol] = {}
    for line in definition.lines:
        folds = [term for term in walk(line.term) if isinstance(term, Fold)]
        if any(len([*filter(read_by, _operands(fold.body))]) > 1 for fold in folds):
            rows = [size for size in line.type.shape[:-1] if isinstance(size, Symbol)]
            found |= {size.name: size for size in rows if size.low <= 1 == size.multiple_of}
    return found


def _operands(term: Term) -> list[Term]:
    """Return the factors of a sum's terms, of sums within sums too."""
    while isinstance(term, Fold):
        term = term.body
    return [*factors(term)]
