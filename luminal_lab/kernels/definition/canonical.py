"""Names that do not depend on where a definition comes from: equal definitions get equal text.

Axes are i, j, k, … in each line, those of the array first, then those of its folds in order of
appearance; folds that compute the same share one name. A letter stands for the same size in all
lines: in attention j is a key, and k a feature, wherever they occur. Names of dims and buffers are
left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count, repeat

from luminal_lab.core.dims import Dim, Symbol, substitute
from luminal_lab.core.ops.intrinsic import Maximum
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.substitution import exchanged, rebuilt, replaced, restated
from luminal_lab.kernels.definition.terms import Apply, Fold, FoldState, States, Term, axis_of, walk

AXES = "ijklmnopqrstuvwxyzabcdefgh"
LARGEST, SUMS = "m", ("l", "acc")
"""The values of a pass: maxima, and all others."""
INPUTS, OUTPUTS, LOCALS = "ABCDEFGHIJKLMN", "OPQRSTUVWXYZ", "stuvwxyz"


def fresh(letters: str, taken: set[str]) -> Iterator[str]:
    """Yield the letters, then letters with numbers, that are not taken."""
    numbered = (f"{letter}{number}" for number in count(1) for letter in letters)
    for names in (iter(letters), numbered):
        yield from (name for name in names if name not in taken)


def canonical(definition: Definition, *, buffers: bool = False) -> Definition:
    """Return the same definition with canonical names of axes; with `buffers`, also of arrays."""
    if buffers:
        definition = renamed(definition, _plain_names(definition))
    names = [line.name for line in definition.lines]
    taken = {*definition.dims, *definition.types}
    arrays = frozenset(taken)
    if any(isinstance(part, FoldState) for line in definition.lines for part in walk(line.term)):
        taken |= {LARGEST, *SUMS}
    sizes: dict[str, Dim] = {}
    lines_by_name = dict(
        zip(names, [_line(line, taken, sizes, arrays) for line in definition.lines], strict=True)
    )
    return replace(
        definition,
        outputs=tuple(lines_by_name[line.name] for line in definition.outputs),
        locals=tuple(lines_by_name[line.name] for line in definition.locals),
    )


def renamed(definition: Definition, names: Mapping[str, str]) -> Definition:
    """Return the same definition with other names of buffers, which must be free."""

    def line(old: Output) -> Output:
        name, term = names.get(old.name, old.name), replaced(old.term, {}, names)
        return replace(old, name=name, term=term)

    return Definition(
        definition.name,
        tuple(Buffer(names.get(name, name), type) for name, type in definition.inputs),
        tuple(map(line, definition.outputs)),
        tuple(map(line, definition.locals)),
    )


def _plain_names(definition: Definition) -> dict[str, str]:
    names: dict[str, str] = {}
    groups = (definition.inputs, INPUTS), (definition.outputs, OUTPUTS), (definition.locals, LOCALS)
    for buffers, letters in groups:
        free = fresh(letters, {*definition.dims, *names.values()})
        for buffer, name in zip(buffers, free, strict=False):
            names[buffer.name] = name
    return names


class _Letters:
    """The names of the axes of one line."""

    def __init__(self, taken: set[str], sizes: dict[str, Dim]) -> None:
        self.taken = set(taken)
        self.sizes = sizes
        """The size of the axes with each name in all lines so far."""

    def axis(self, size: Dim) -> Symbol:
        """Return an axis with the first name that is free and stands for no other size."""
        names = fresh(AXES, self.taken)
        name = next(name for name in names if self.sizes.setdefault(name, size) == size)
        self.taken.add(name)
        return axis_of(name, size)


def _line(line: Output, taken: set[str], sizes: dict[str, Dim], arrays: frozenset[str]) -> Output:
    letters = _Letters(taken, sizes)
    axes = tuple([letters.axis(size) for size in line.type.shape])
    values: dict[str, Dim] = dict(zip([axis.name for axis in line.axes], axes, strict=True))
    known: dict[Term, Symbol] = {}
    return replace(line, axes=axes, term=_named(_by_height(line), values, letters, known, arrays))


def _by_height(line: Output) -> Term:
    """Return a line's term with each fold's axis named after the folds within it.

    Terms that compute the same then become the same term, wherever they occur.
    """
    bound = [part.axis.name for part in walk(line.term) if isinstance(part, Fold)]
    every = [*bound, *(axis.name for axis in line.axes)]
    mark = "_" * (1 + max((len(name) - len(name.lstrip("_")) for name in every), default=0))
    done: dict[int, tuple[Term, int]] = {}

    def part(term: Term) -> Term:
        return visit(term)[0]

    def visit(term: Term) -> tuple[Term, int]:
        if id(term) not in done:
            height = max([0, *(visit(inner)[1] for inner in term.parts)])
            if isinstance(term, Fold):
                height += 1
                axis = axis_of(f"{mark}{height}", term.size)
                values: dict[str, Dim] = {term.axis.name: axis}
                fold = term.over(axis, term.size, lambda body: replaced(part(body), values))
                if fold.states is not None:
                    count = len(fold.states.names)
                    fold = restated(fold, [f"{mark}{height}{n}" for n in range(count)])
                rebuilt_term: Term = fold
            else:
                rebuilt_term = rebuilt(term, lambda dim: dim, part)
            done[id(term)] = rebuilt_term, height
        return done[id(term)]

    return part(line.term)


def _named(
    term: Term,
    values: Mapping[str, Dim],
    letters: _Letters,
    known: dict[Term, Symbol],
    around: frozenset[str],
) -> Term:
    """Return a term with the final names of the axes and values around it, and of its own folds."""

    def fold(term: Term) -> Term | None:
        if not isinstance(term, Fold):
            return None
        same = replaced(term, values)
        if same not in known:
            known[same] = letters.axis(term.size)
        axis = known[same]
        inner = {**values, term.axis.name: axis}
        bound = around
        if term.states is not None:
            names = _names(term.states, around)
            term, bound = restated(term, names), around.union(names)
        return term.over(axis, term.size, lambda part: _named(part, inner, letters, known, bound))

    return exchanged(term, fold, lambda dim: substitute(dim, values))


def _names(states: States, around: frozenset[str]) -> list[str]:
    """Return the names of the values of a pass, all different from the names around it."""
    names: list[str] = []
    sums = chain(SUMS, repeat(SUMS[-1]))
    for term in states.next:
        is_largest = isinstance(term, Apply) and isinstance(term.op, Maximum)
        names.append(unique(LARGEST if is_largest else next(sums), {*around, *names}))
    return names
