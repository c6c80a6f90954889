"""Whether passes keep values: both graphs are interpreted on drawn inputs; bisection finds why."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints, tuple_text
from luminal_lab.core.ops import Gather, Scatter
from luminal_lab.core.printer import print_node
from luminal_lab.errors import LabError, PassError, TrustError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.rule import Rule
from luminal_lab.passes.snapshot import Firing, Snapshot

if TYPE_CHECKING:
    from luminal_lab.passes.compilation import Compilation

TOLERANCE = {
    DType.float64: 1e-9,
    DType.float32: 1e-4,
    DType.float16: 2e-2,
    DType.bfloat16: 1e-1,
}
"""How far two values may be apart, of the larger one: passes may round in another order."""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-30, -1e-30, 1e30, 1e-3]
NOT_FINITE = [np.inf, -np.inf, np.nan]


@dataclass(frozen=True)
class Given:
    """What a session knows that the inputs of a check should be like."""

    data: Mapping[int, Array] = field(default_factory=dict[int, Array])
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    functions: Mapping[str, Callable[..., object]] = field(
        default_factory=dict[str, Callable[..., object]]
    )
    weights: Mapping[int, str] = field(default_factory=dict[int, str])
    """The inputs that are parameters, and the form that each is marked to be stored in."""


@dataclass(frozen=True)
class Draw:
    """Inputs for one run, and what the graph as written makes of them."""

    data: Mapping[int, Array]
    dims: Mapping[str, int]
    values: tuple[Array, ...]
    """The outputs."""
    scaled: bool
    """Whether differences are measured against the size of typical values, not only each's own."""


class Checker:
    """The inputs drawn for a graph, on which every later version must give the same outputs."""

    def __init__(self, ir: IR, given: Given) -> None:
        self.given = given
        self.draws: list[Draw] = []
        failure: LabError | None = None
        dims = _sizes(ir, given.dims)
        for kind, data in _drawn(ir, dims, given.data):
            try:
                values = self._outputs(ir, data, dims)
            except LabError as error:
                failure = error
                continue
            self.draws.append(Draw(data, dims, values, scaled=kind == "normal"))
        if not self.draws:
            raise PassError(
                f"check: no inputs could be drawn for {ir.name}: {failure and failure.message}",
                hint="give the inputs data with set(...): the check uses it",
            ) from failure

    def _outputs(
        self, ir: IR, data: Mapping[int, Array], dims: Mapping[str, int]
    ) -> tuple[Array, ...]:
        found = self._values(ir, data, dims, ir.output_ids)
        return tuple(found[id] for id in ir.output_ids)

    def _values(
        self, ir: IR, data: Mapping[int, Array], dims: Mapping[str, int], wanted: tuple[int, ...]
    ) -> dict[int, Array]:
        def data_of(node: Node) -> Array:
            return data[node.id]

        environment = Environment(data_of, dims, 0, self.given.functions)
        return interpret(ir, environment, wanted=wanted)

    # -- one pass ----------------------------------------------------------------------------------

    def check(self, snapshot: Snapshot, by: Pass) -> None:
        """Raise a PassError that names the first wrong firing, if the pass has changed values."""
        for draw in self.draws:
            if self._differs(snapshot.ir, draw):
                number = self._first_wrong(snapshot, draw)
                raise self._report(snapshot, number, draw, by)

    def begin_anew(self, ir: IR) -> None:
        """Compare from here on with what a graph computes whose values were rounded on purpose."""
        self.draws = [
            replace(draw, values=self._outputs(ir, draw.data, draw.dims)) for draw in self.draws
        ]

    # -- what a device computes --------------------------------------------------------------------

    def check_device(self, compiled: Compilation) -> None:
        """Raise a PassError that names the first wrong kernel, if a device gives other values."""
        ir, draw = compiled.ir, self.draws[0]
        coarse = max(
            (TOLERANCE.get(n.dtype, 0.0) for one in _all_graphs(ir) for n in one), default=0
        )
        asked = dict.fromkeys(ir.output_ids)
        right = self._values(ir, draw.data, draw.dims, tuple(asked))
        found = self._on_device(compiled, draw, asked)
        if not any(self._wrong(right[id], found[id], draw, coarse).size for id in asked):
            return
        # With all that is launched asked for, the first one that is wrong is the culprit.
        launched = [node for node in ir.nodes if node.op.body_of() is not None]
        made = {user.id: n for n in launched if n.extra for user in ir.users(n)}
        made |= {n.id: n for n in launched if not n.extra}
        wanted = dict.fromkeys(id for id in sorted(made) if id in ir.ancestors(asked)) | asked
        right = self._values(ir, draw.data, draw.dims, tuple(wanted))
        later = self._on_device(compiled, draw, wanted)
        for values in (later, found):
            for id in wanted:
                if id not in values:
                    continue
                wrong = self._wrong(right[id], values[id], draw, coarse)
                if wrong.size:
                    place = tuple(int(k) for k in wrong[0])
                    raise self._wrong_kernel(
                        compiled, draw, made.get(id, ir[id]), ir[id], place, right[id], values[id]
                    )

    def _on_device(
        self, compiled: Compilation, draw: Draw, wanted: Iterable[int]
    ) -> dict[int, Array]:
        def data_of(node: Node) -> Array:
            return draw.data[node.id]

        environment = Environment(data_of, draw.dims, 0, self.given.functions)
        try:
            return compiled.values(environment, set(wanted), {}, None)
        except TrustError:  # nothing was run, so that nothing is wrong
            raise
        except LabError as error:
            raise PassError(
                f"pass {_device(compiled)}: what it compiled fails on drawn inputs: "
                f"{error.message}",
                where=error.where,
                hint="NumPy's interpreter computes the same graph on them; error.inputs has them",
            ) from error

    def _wrong(self, right: Array, found: Array, draw: Draw, coarse: float) -> Array:
        return np.argwhere(differences(right, found, scaled=draw.scaled, least=coarse))

    def _wrong_kernel(
        self,
        compiled: Compilation,
        draw: Draw,
        node: Node,
        value: Node,
        place: tuple[int, ...],
        right: Array,
        found: Array,
    ) -> PassError:
        body = node.op.body_of()
        kernel = node.op.name if body is None else body.name
        for launch in getattr(compiled.runner, "launches", ()):
            kernel = launch.kernel.name if launch.node == node.id else kernel
        at = f" at {tuple_text(place)}" if place else ""
        inputs = {one.name: draw.data[one.id] for one in compiled.ir.inputs}
        shown = ", ".join(f"%{name} = {_text(array)}" for name, array in inputs.items())
        where = print_node(compiled.ir, node)
        where += "".join(f"\n{line}" for line in compiled.trace(node).lines)
        error = PassError(
            f"pass {_device(compiled)}: the kernel {kernel} computes another value than its graph "
            f"says: {value} is {right[place]!s}{at}, but the kernel makes it {found[place]!s}; the "
            f"inputs were {shown or 'none'}",
            where=where,
            hint=f"error.inputs has the inputs; without check= print(cx.kernels[{kernel!r}]) shows "
            "the kernel's source",
        )
        error.inputs = inputs
        return error

    # -- comparing ---------------------------------------------------------------------------------

    def _differs(self, ir: IR, draw: Draw) -> bool:
        try:
            values = self._outputs(ir, draw.data, draw.dims)
        except LabError:
            return True
        pairs = zip(draw.values, values, strict=True)
        return any(differences(a, b, scaled=draw.scaled).any() for a, b in pairs)

    def _first_wrong(self, snapshot: Snapshot, draw: Draw) -> int:
        """Return a firing before which the values are right and after which they are not."""
        steps = snapshot.steps()
        right, wrong = 0, len(steps) - 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._differs(steps[middle], draw):
                wrong = middle
            else:
                right = middle
        return right

    def _report(self, snapshot: Snapshot, number: int, draw: Draw, by: Pass) -> PassError:
        steps = snapshot.steps()
        firing, count = snapshot.firings[number], len(snapshot.firings)
        before, after = steps[number], steps[number + 1]
        inputs = {node.name: draw.data[node.id] for node in before.inputs if node.id in draw.data}
        told = self._difference(firing, before, after, draw)
        rule = next((r for r in by.rules() if isinstance(r, Rule) and r.name == firing.rule), None)
        shown = ", ".join(f"%{name} = {_text(value)}" for name, value in inputs.items())
        old = firing.before[0] if firing.before else None
        where = "" if old is None else print_node(before, old)
        if old is not None and old.meta.origin is not None:
            where += f"\n{old.meta.origin}"
        error = PassError(
            f"pass {by}: the rule {firing.rule!r} changes what the graph computes (firing "
            f"{number + 1} of {count}): {told}; the inputs were {shown or 'none'}",
            where=where or None,
            hint=f"the rule is {rule}" if rule else "error.inputs has the inputs that show it",
        )
        error.inputs = inputs
        return error

    def _difference(self, firing: Firing, before: IR, after: IR, draw: Draw) -> str:
        """Return where and how the values of what a firing replaced differ."""
        pairs = [(c.node, c.into) for c in firing.changes if c.into is not None]
        pairs += list(zip(before.output_ids, after.output_ids, strict=True))
        for old, new in pairs:
            if before.table.get(old) is None or after.table.get(new) is None:
                continue
            try:
                one = self._values(before, draw.data, draw.dims, (old,))[old]
                other = self._values(after, draw.data, draw.dims, (new,))[new]
            except LabError as error:
                return f"{after[new]} cannot be computed: {error.message}"
            wrong = np.argwhere(differences(one, other, scaled=draw.scaled))
            if len(wrong):
                place = tuple(int(k) for k in wrong[0])
                at = f" at {tuple_text(place)}" if place else ""
                return (
                    f"{before[old]} is {one[place]!s}{at}, but {after[new]}, which takes its "
                    f"place, is {other[place]!s}"
                )
        return "the outputs differ"


def _device(compiled: Compilation) -> str:
    return ", ".join(map(str, compiled.pipeline.devices()))


def _all_graphs(ir: IR) -> Iterator[IR]:
    """Yield a graph and the bodies of its calls."""
    yield ir
    for node in ir.nodes:
        body = node.op.body_of()
        if body is not None:
            yield from _all_graphs(body)


def differences(a: Array, b: Array, *, scaled: bool, least: float = 0.0) -> Array:
    """Return where two arrays differ by more than another order of rounding explains.

    With `least`, a share, what was rounded to a coarser dtype on the way explains that much.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.ones(a.shape, bool)
    dtype = DType(a.dtype.name)
    if not dtype.is_float:
        return np.asarray(a != b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.maximum(abs(x), abs(y))
        if scaled:
            finite = size[np.isfinite(size)]
            size = np.maximum(size, np.sqrt(np.mean(finite**2)) if finite.size else 0.0)
        near = abs(x - y) <= max(TOLERANCE[dtype], least) * size
    return np.asarray(~(near | (x == y) | (np.isnan(x) & np.isnan(y))))


# -- drawing ---------------------------------------------------------------------------------------


def drawn(ir: IR, given: Given, needed: Container[int]) -> tuple[dict[int, Array], dict[str, int]]:
    """Return data for the needed inputs, ordinary numbers where none is given, and all sizes."""
    rng, dims = np.random.default_rng(0), _sizes(ir, given.dims)
    indices = _smallest_indexed(ir, dims)
    data: dict[int, Array] = {}
    for node in ir.inputs:
        if node.id in needed:
            shape = bound_shape(f"check: {node}", node.shape, dims)
            one = given.data.get(node.id)
            if one is None or one.shape != shape:
                one = _array(node, shape, "normal", indices, rng)
            data[node.id] = one
    return data, dims


def _sizes(ir: IR, given: Mapping[str, int]) -> dict[str, int]:
    """Return small sizes within the bounds of the dims, different ones where that can be."""
    sizes = dict(given)
    for place, symbol in enumerate(ir.symbols.values()):
        if symbol.name not in sizes:
            sizes[symbol.name] = _size(symbol, 2 + place)
    return sizes


def _size(symbol: Symbol, wanted: int) -> int:
    step, high = symbol.multiple_of, symbol.high
    size = -(-max(symbol.low, wanted) // step)
    return step * (min(size, high // step) if isinstance(high, int) else size)


def _drawn(
    ir: IR, dims: Mapping[str, int], given: Mapping[int, Array]
) -> Iterator[tuple[str, dict[int, Array]]]:
    rng = np.random.default_rng(0)
    shapes = {node.id: bound_shape(f"check: {node}", node.shape, dims) for node in ir.inputs}
    fitting = {id: a for id, a in given.items() if shapes.get(id) == a.shape}
    indices = _smallest_indexed(ir, dims)
    for kind in ("normal", "special", "not finite"):
        yield (
            kind,
            {
                node.id: fitting[node.id]
                if node.id in fitting and kind == "normal"
                else _array(node, shapes[node.id], kind, indices, rng)
                for node in ir.inputs
            },
        )


def _array(
    node: Node, shape: tuple[int, ...], kind: str, indices: int, rng: np.random.Generator
) -> Array:
    if node.dtype is DType.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if not node.dtype.is_float:
        return rng.integers(0, indices, shape).astype(node.dtype.numpy)
    if kind == "normal":
        return rng.standard_normal(shape).astype(node.dtype.numpy)
    values = SPECIAL if kind == "special" else SPECIAL[:7] + NOT_FINITE
    with np.errstate(all="ignore"):
        return rng.choice(values, shape).astype(node.dtype.numpy)


def _smallest_indexed(ir: IR, dims: Mapping[str, int]) -> int:
    """Return below which number an integer is an index wherever one is used as such."""
    smallest = 8
    for node in ir.nodes:
        if isinstance(node.op, (Gather, Scatter)):
            shape = bound_shape(f"check: {node}", ir[node.sources[0]].shape, dims)
            smallest = min(smallest, *ints(shape)[node.op.axis : node.op.axis + 1])
    return max(1, smallest)


def _text(value: Array) -> str:
    if value.size > 8:
        return f"{value.dtype}{tuple_text(value.shape)}"
    return np.array2string(value, separator=", ").replace("\n", "")
