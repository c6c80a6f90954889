"""The meaning of a definition, in NumPy: slow and obvious. Every kernel is checked against it.

Each term becomes a full array over the grid of all axes around it, so it is for small sizes only. A
fold adds its axis to the grid, and removes it again with NumPy's own sum or maximum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from luminal_lab.core.binding import bound_shape, fit
from luminal_lab.core.dims import Dim, evaluate as number_of, evaluate_array
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import MaxReduce, SumReduce
from luminal_lab.core.random import uniform
from luminal_lab.errors import InputError, RangeError, nearest
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Draw,
    Fold,
    FoldState,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
)

Ints = npt.NDArray[np.int64]
NO_DIMS: Mapping[str, int] = {}


def evaluate(
    definition: Definition,
    inputs: Mapping[str, object],
    dims: Mapping[str, int] = NO_DIMS,
    *,
    step: int = 0,
) -> dict[str, Array]:
    """Return the outputs by name; `step` is the number of runs so far, for random numbers.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> kernel = parse_definition('''
    ... kernel back(x: f32[n]) -> (y: f32[n])
    ...   y[i < n] = x[n - 1 - i] * 2.0
    ... ''')
    >>> evaluate(kernel, {"x": [1.0, 2.0, 3.0]}, {"n": 3})["y"]
    array([6., 4., 2.], dtype=float32)
    """
    known: dict[str, Array] = {}
    for name, type in definition.inputs:
        subject = f"kernel {definition.name}: {name}"
        if name not in inputs:
            hint = nearest(name, inputs) or f"it is given {', '.join(inputs) or 'nothing'}"
            raise InputError(f"{subject} has no data", hint=hint)
        shape = bound_shape(subject, type.shape, dims)
        known[name] = fit(subject, inputs[name], type.with_shape(shape), {}, copy=False)
    with np.errstate(all="ignore"):
        for line in definition.lines:
            known[line.name] = _Line(definition.name, line, known, dims, step).array()
    return {output.name: known[output.name] for output in definition.outputs}


@dataclass(frozen=True)
class _Grid:
    """All positions of the axes around a term."""

    shape: tuple[int, ...]
    positions: Mapping[str, Ints | int]
    """Dims by name, and the position along each axis, for every point of the grid."""
    valid: npt.NDArray[np.bool_]
    """False where a guard keeps the term from being evaluated."""
    done: dict[int, Array] = field(default_factory=dict[int, Array])

    def at(self, dim: Dim) -> Ints:
        return np.broadcast_to(evaluate_array(dim, self.positions), self.shape)

    def along(self, name: str, size: int) -> "_Grid":
        """Return the grid with one more axis, the last."""
        positions = {
            name: position if isinstance(position, int) else position[..., None]
            for name, position in self.positions.items()
        }
        shape = (*self.shape, size)
        own = np.arange(size).reshape((1,) * len(self.shape) + (size,))
        valid = np.broadcast_to(self.valid[..., None], shape)
        return _Grid(shape, {**positions, name: own}, valid)


@dataclass
class _Line:
    kernel: str
    line: Output
    known: Mapping[str, Array]
    dims: Mapping[str, int]
    step: int
    states: dict[FoldState, Array] = field(default_factory=dict[FoldState, Array])

    def array(self) -> Array:
        subject = f"kernel {self.kernel}: {self.line.name}"
        grid = _Grid((), self.dims, np.asarray(True))
        shape = bound_shape(subject, self.line.type.shape, self.dims)
        for axis, size in zip(self.line.axes, shape, strict=True):
            grid = grid.along(axis.name, size)
        return self.value(self.line.term, grid)

    def value(self, term: Term, grid: _Grid) -> Array:
        """Return the value of a term at every point of a grid."""
        if id(term) not in grid.done:
            value = np.broadcast_to(self.computed(term, grid), grid.shape)
            # NumPy's functions may round differently if numbers are not contiguous.
            grid.done[id(term)] = np.ascontiguousarray(value).reshape(grid.shape)
        return grid.done[id(term)]

    def computed(self, term: Term, grid: _Grid) -> Array:
        match term:
            case Read(buffer=buffer, index=index):
                return self.read(term, buffer, [grid.at(dim) for dim in index], grid)
            case Lookup(buffer=buffer, index=index, axis=axis, position=position):
                gathered = [grid.at(dim) for dim in index]
                gathered[axis] = self.value(position, grid).astype(np.int64)
                return self.read(term, buffer, gathered, grid)
            case Number(value=value, dtype=dtype):
                return np.asarray(value, dtype.numpy)
            case Count(at=at, dtype=dtype):
                return grid.at(at).astype(dtype.numpy)
            case Draw(seed=seed, stream=stream, at=at):
                counters = np.where(grid.valid, grid.at(at), 0)
                return uniform(seed, stream, self.step, counters)
            case Guarded(holds=holds, term=inner):
                within = replace(grid, valid=grid.valid & (grid.at(holds) != 0), done={})
                value = self.value(inner, within)
                return np.where(within.valid, value, np.zeros((), value.dtype))
            case Apply(op=op, args=args):
                return op.bind(self.dims).eval(*[self.value(arg, grid) for arg in args])
            case Fold():
                return self.folded(term, grid)
            case FoldState():
                value = self.states[term]  # of a grid with fewer axes, if a fold is inside
                return value.reshape(value.shape + (1,) * (len(grid.shape) - value.ndim))
            case _:
                raise AssertionError(term)

    def folded(self, fold: Fold, grid: _Grid) -> Array:
        """Return the value of a fold; a pass goes along its axis in order."""
        if fold.states is None:
            inner = grid.along(fold.axis.name, number_of(fold.size, self.dims))
            last = len(grid.shape)
            op = SumReduce(last) if fold.kind == "sum" else MaxReduce(last)
            return op.eval(self.value(fold.body, inner))[..., 0]
        outer = self.states
        states, start, following = fold.states
        values = [self.computed(term, grid) for term in start]
        for position in range(number_of(fold.size, self.dims)):
            self.states = {**outer, **dict(zip(states, values, strict=True))}
            here = _Grid(grid.shape, {**grid.positions, fold.axis.name: position}, grid.valid)
            values = [self.value(term, here) for term in following]
        self.states = {**outer, **dict(zip(states, values, strict=True))}
        value = self.value(fold.body, replace(grid, done={}))
        self.states = outer
        return value

    def read(self, term: Term, buffer: str, index: Sequence[Ints], grid: _Grid) -> Array:
        array = self.known[buffer]
        chosen = [positions[grid.valid] for positions in index]
        for axis, (positions, size) in enumerate(zip(chosen, array.shape, strict=True)):
            wrong = positions[(positions < 0) | (positions >= size)]
            if wrong.size:
                raise RangeError(
                    f"kernel {self.kernel}: {self.line.name} reads {term} at {wrong[0]} along "
                    f"axis {axis}, but {buffer} is {tuple_text(array.shape)}",
                    hint="a guard keeps a term from being looked at: [0 <= i - 1: x[i - 1]]",
                )
        result = np.zeros(grid.shape, array.dtype)
        result[grid.valid] = array[tuple(chosen)]
        return result
