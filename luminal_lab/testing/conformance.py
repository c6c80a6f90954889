"""The kit with which a new device shows that it computes the same as the interpreter.

    print(ll.devices.conformance(ll.CPUCompiler()))

runs the table of `cases.py` and the graphs beside it. Many cases are compiled as one graph; if a
result is wrong or nothing comes out, the graph is halved until one case is left, and the first op
in it with a wrong result is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, groupby
from time import perf_counter
from typing import Protocol, TypeAlias, cast

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dtypes import Array, DType, DTypeLike, as_dtype
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, NO_META, Node, Table
from luminal_lab.core.op import OPS, Elementwise, Op, TensorType, tuple_text
from luminal_lab.core.ops import Input, MaxReduce, Scatter, SumReduce
from luminal_lab.errors import ArgumentError, LabError, nearest
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.corners import limits_of
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.judge import differences, is_subnormal
from luminal_lab.passes.pipeline import LICENCE, PassLike, Pipeline, as_pass
from luminal_lab.passes.rule import Rule, RuleSet
from luminal_lab.progress import Progress, progress
from luminal_lab.testing import cases as table
from luminal_lab.testing.cases import Case, CaseRun
from luminal_lab.testing.graphs import FUNCTIONS, chains, graphs, models, products, written
from luminal_lab.testing.result import Conformance, Row

BATCH = 100
"""How many cases are compiled as one graph."""
FAMILIES = (
    *(table.elementwise, table.casts, table.bitcasts, table.sources, table.reductions),
    *(table.indexing, table.views, table.wrong_indices, written, chains, graphs, models),
    products,
)

EITHER_ZERO = {op.name for op in (SumReduce, MaxReduce, Scatter)}
"""The ops that leave open which zero they give: the start of sums, and the larger of two zeros."""


class Device(Protocol):
    """The minimum of a device: it runs graphs.

    Calls are inlined and dims are numbers, so that a node is one op with `node.op`, `node.sources`,
    `node.dtype` and `node.shape`. Whatever is not there yet raises `NotImplementedError`.

    >>> import luminal_lab as ll
    >>> device: ll.devices.Device = ll.GenericCompiler()
    >>> ll.devices.conformance(device, only=["elementwise"], dtypes=["float32"]).ok
    True
    """

    def run(self, ir: IR, inputs: Mapping[str, Array], /) -> Sequence[Array]:
        """Return the outputs of a graph, for data by the names of its inputs."""
        ...


AnOp: TypeAlias = str | type[Op] | Op
"""An op by its name or class, or by its value if it has fields."""
Results: TypeAlias = list[list[Array]]
"""The outputs of each run of a case."""


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases of the kit."""
    with np.errstate(all="ignore"):
        return tuple(chain.from_iterable(family() for family in FAMILIES))


def conformance(
    device: Device | PassLike,
    *,
    only: str | Iterable[str] = (),
    ops: AnOp | Iterable[AnOp] = (),
    dtypes: DTypeLike | Iterable[DTypeLike] = (),
    unsupported: Mapping[str, str] | None = None,
    trial: bool = False,
) -> Conformance:
    """Run the cases on a device, and say which it gets right.

    A device is what `cx.compile` takes, which may be its name, or has a method `run(ir, inputs)`. A
    DeviceError says what is missing where this machine cannot run it. `only` takes families or
    names, as in "view" or "sum_reduce*"; `ops` and `dtypes` select cases that need no others. An
    elementwise op of your own is tried if `ops` has it: its class, or a value if it has fields.
    What is not supported is declared by words, each with a reason: an op, a dtype, a family, or
    "symbolic", here or as the device's attribute of that name. With `trial`, kernels run apart from
    this process if the device allows it, as with check="values". The signs of zeros must be right
    unless the licence grants `no_signed_zero`, as that of a pipeline does by default; a device with
    a method `run` says so with its attribute `licence`. If that grants `no_subnormal`, 0 may stand
    for numbers so small.

    >>> print(conformance("dce", only="elementwise", ops="sqrt", dtypes="float32"))
    conformance of dce: all 2 cases passed
      sqrt   2
    """
    start = perf_counter()
    tried = device
    if isinstance(device, (Pass, Pipeline, Rule, RuleSet, str)) or not hasattr(device, "run"):
        parts = as_pass(device)
        tried = parts if isinstance(parts, Pipeline) else Pipeline([parts])
        tried.unless_here()
    declared = {**_unsupported(tried), **(unsupported or {})}
    _check_words(declared)
    kit = _Kit(cast("Device | Pipeline", tried), trial=trial)
    rows: dict[Case, Row] = {}
    chosen = selected(only, ops, dtypes)
    for case in chosen:
        word = next((word for word in declared if word in case.traits), None)
        if word is not None:
            rows[case] = Row(case, "unsupported", f"{word}: {declared[word]}")
    todo = [case for case in chosen if case not in rows]
    with progress(f"conformance of {kit.name}", len(todo), "case") as kit.bar:
        for batch in _batches(todo):
            kit.bar.now(batch[0].family)
            rows.update(kit.tried(batch))
            kit.bar.reach(len(rows) - len(chosen) + len(todo))
    return Conformance(kit.name, tuple(rows[case] for case in chosen), perf_counter() - start)


def selected(
    only: str | Iterable[str] = (),
    ops: AnOp | Iterable[AnOp] = (),
    dtypes: DTypeLike | Iterable[DTypeLike] = (),
) -> list[Case]:
    """Return the selected cases; all of them if nothing is given."""
    patterns = [only] if isinstance(only, str) else list(only)
    listed = [ops] if isinstance(ops, (str, type, Op)) else list(ops)
    names = [op if isinstance(op, str) else op.name for op in listed]
    is_single = isinstance(dtypes, (str, type, np.dtype))
    kinds = {as_dtype(dtype) for dtype in ([dtypes] if is_single else dtypes)}
    for name in names:
        ArgumentError.unless_known(name, OPS, f"conformance: there is no op {name!r}")
    chosen = [
        case
        for case in (*cases(), *chain.from_iterable(map(_own, listed)))
        if (not names or set(case.ops or ("input",)) <= set(names))
        and (not kinds or set(case.dtypes) <= kinds)
        and (not patterns or any(p == case.family or fnmatchcase(case.name, p) for p in patterns))
    ]
    if not chosen:
        words = {case.family for case in cases()}
        hint = next((h for p in patterns if (h := nearest(p, words))), None)
        hint = hint or f"the families are {', '.join(sorted(words))}"
        raise ArgumentError("conformance: no case is chosen", hint=hint)
    return chosen


def _own(op: AnOp) -> Iterator[Case]:
    """Yield the cases of an op that the table does not have."""
    cls = OPS[op] if isinstance(op, str) else op if isinstance(op, type) else type(op)
    if issubclass(cls, Elementwise) and not any(case.op == cls.name for case in cases()):
        with np.errstate(all="ignore"):
            yield from table.alone(op if isinstance(op, Op) else cls())


def _check_words(declared: Mapping[str, str]) -> None:
    known = {trait for case in cases() for trait in case.traits} | set(OPS)
    for word in declared:
        fault = f"conformance: {word!r} is declared as unsupported, but is no op, dtype or family"
        ArgumentError.unless_known(word, known, fault)


def _batches(todo: Iterable[Case]) -> Iterator[list[Case]]:
    """Yield cases that can run together: with the same sizes of dims, and not meant to fail."""

    def kind(case: Case) -> tuple[object, ...]:
        alone = case.name if case.family == "error" else ""
        return alone, case.family == "model", [(sorted(r.dims.items()), r.step) for r in case.runs]

    for _, group in groupby(sorted(todo, key=kind), key=kind):
        together = list(group)
        for start in range(0, len(together), BATCH):
            yield together[start : start + BATCH]


# -- one device ------------------------------------------------------------------------------------


INLINED = Pipeline([Inlining()], rounds=50)


class _Kit:
    def __init__(self, device: Device | Pipeline, *, trial: bool = False) -> None:
        self.bar = Progress()
        self.trial = trial
        self.toy: Device | None = None
        self.pipeline: Pipeline | None = None
        licence = granted(device)
        self.signs = "no_signed_zero" not in licence
        self.flushes = "no_subnormal" in licence
        if isinstance(device, Pipeline):
            self.pipeline = device
            self.name = str(device)
        else:
            self.toy = device
            self.name = getattr(device, "name", type(device).__name__)

    # -- running -----------------------------------------------------------------------------------

    def run(self, batch: Sequence[Case]) -> list[Results]:
        """Return a device's results for some cases: the outputs of each run, in each way."""
        toy = self.toy
        if toy is None:
            return self._compiled(batch)
        return [[_by_toy(toy, case.ir, run) for run in self._runs(case)] for case in batch]

    def _runs(self, case: Case) -> list[CaseRun]:
        """Return the runs of a case; a toy has no later ones, whose random numbers differ."""
        return [run for run in case.runs if self.toy is None or run.step == 0]

    def _compiled(self, batch: Sequence[Case]) -> list[Results]:
        ir, inputs = merged([case.ir for case in batch])
        assert self.pipeline is not None
        compiled = compile_ir(ir, self.pipeline)
        outcomes: list[Results] = [[] for _ in batch]
        for number, run in enumerate(batch[0].runs):
            data = {
                id: case.runs[number].data[name].copy()
                for case, names in zip(batch, inputs, strict=True)
                for id, name in names.items()
            }
            known = {id: array.copy() for id, array in data.items()}
            environment = Environment(_reader(data), run.dims, run.step, FUNCTIONS)
            ids = compiled.ir.output_ids
            tried = compiled.tried(environment, set(ids)) if self.trial else None
            ways = tried or [compiled.values(environment, set(ids), {}, None)]
            for id, array in known.items():
                if array.tobytes() != data[id].tobytes():
                    raise _Overwritten(f"the data of the input {ir[id]} was overwritten")
            for values in ways:
                left = iter([values[id] for id in ids])
                for case, results in zip(batch, outcomes, strict=True):
                    results.append([next(left) for _ in case.ir.output_ids])
        return outcomes

    # -- judging -----------------------------------------------------------------------------------

    def tried(self, batch: Sequence[Case]) -> dict[Case, Row]:
        """Return the outcome of each case of a batch."""
        start = perf_counter()
        try:
            outcomes = self.run(batch)
        except Exception as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                return self.tried(batch[:middle]) | self.tried(batch[middle:])
            return {batch[0]: self._ended(batch[0], error)}
        seconds = (perf_counter() - start) / len(batch)
        rows: dict[Case, Row] = {}
        for case, results in zip(batch, outcomes, strict=True):
            row = self._judged(case, results, seconds)
            if row.status == "failed" and len(batch) > 1:
                row = self.tried([case])[case]
                if row.status == "passed":
                    others = f"right alone, but wrong as one of {len(batch)} in one graph"
                    row = self._judged(case, results, seconds)._replace(note=others, blamed=None)
            rows[case] = row
        return rows

    def _judged(self, case: Case, results: Results, seconds: float) -> Row:
        if case.family == "error":
            text = "it ran, and should have ended in an error: the index is out of range"
            return Row(case, "failed", text, seconds, case.op)
        runs = self._runs(case)
        ways = len(results) // len(runs)
        for number, got in enumerate(results):
            run = runs[number // ways]
            want = expected(case.ir, run)
            if len(got) != len(want):
                text = f"it has {len(want)} outputs, and {len(got)} came"
                return Row(case, "failed", text, seconds, self._blamed(case, run), run, want, got)
            for node, a, b in zip(case.ir.outputs, want, got, strict=True):
                wrong = wrong_places(case.near, a, b, signs=self._asks_signs(case.ops))
                if wrong.any() and self.flushes:
                    (zero,) = expected(case.ir, run, [node], flushes=True)
                    places = wrong_places(case.near, zero, flushed(b))
                    wrong = np.logical_and(wrong, places)
                text = difference(case.ir, node, run, a, b, wrong)
                if text:
                    blamed = self._blamed(case, run)
                    note = "" if blamed else "right where each node is an output; wrong if fused"
                    return Row(case, "failed", text, seconds, blamed, run, want, got, note)
        return Row(case, "passed", "", seconds)

    def _asks_signs(self, ops: Iterable[str]) -> bool:
        """Return whether zeros made by these ops must have the right signs."""
        return self.signs and EITHER_ZERO.isdisjoint(ops)

    def _ended(self, case: Case, error: Exception) -> Row:
        """Return the row of a case that ended in an error."""
        if isinstance(error, NotImplementedError):
            return Row(case, "unsupported", str(error) or "not implemented")
        if case.family == "error" and isinstance(error, (LabError, IndexError)):
            return Row(case, "passed", "")
        told = f"{type(error).__name__}: {error}"
        return Row(case, "failed", told, 0.0, self._blamed(case, case.runs[0]), case.runs[0])

    def _blamed(self, case: Case, run: CaseRun) -> str | None:
        """Return the first op of a graph that a device gets wrong when all values are kept."""
        if case.op is not None:
            return case.op
        ir = compile_ir(case.ir, INLINED).ir
        nodes = [node for node in ir if not isinstance(node.op, Input)]
        # How many of the first nodes come out right, and which.
        count, failing = 0, len(nodes) + 1
        got: list[Array] = []
        tried = len(nodes)
        while failing - count > 1:
            values = self._values(ir, nodes[:tried], run)
            if values is None:
                failing = tried
            else:
                count, got = tried, values
            tried = (count + failing) // 2
        near = case.near or None
        for node, a, b in zip(nodes, expected(ir, run, nodes), got, strict=False):
            signs = self._asks_signs(case.ops)
            if wrong_places(near, a, b, signs=signs).any():
                return node.op.name
        return nodes[count].op.name if count < len(nodes) else None

    def _values(self, ir: IR, nodes: Sequence[Node], run: CaseRun) -> list[Array] | None:
        """Return the values of some nodes, each an output; None if that ends in an error."""
        part = IR(ir.table, ir.input_ids, [node.id for node in nodes], name=ir.name)
        try:
            ((values, *_),) = self.run([Case("", "", part, (run,))])
        except Exception:
            return None
        return values


def _unsupported(device: object) -> dict[str, str]:
    """Return what a device declares, or the parts of its pipeline."""
    inner = device.passes if isinstance(device, Pipeline) else ()
    declared = [getattr(device, "unsupported", {}), *map(_unsupported, inner)]
    return {word: why for part in declared for word, why in part.items()}


def granted(device: object, around: Iterable[str] = LICENCE) -> frozenset[str]:
    """Return the facts that a device may assume, or a part of its pipeline."""
    licence = getattr(device, "licence", None)
    own = frozenset(around if licence is None else licence)
    inner = device.passes if isinstance(device, Pipeline) else ()
    return own.union(*(granted(part, own) for part in inner))


def _by_toy(toy: Device, ir: IR, run: CaseRun) -> list[Array]:
    plain = compile_ir(bound(ir, run.dims), INLINED).ir
    given = {name: array.copy() for name, array in run.data.items()}
    return [np.asarray(value) for value in toy.run(plain, given)]


class _Overwritten(Exception):  # noqa: N818  # what a device did
    pass


def _reader(data: Mapping[int, Array]) -> Callable[[Node], Array]:
    return lambda node: data[node.id]


# -- graphs ----------------------------------------------------------------------------------------


def expected(
    ir: IR, run: CaseRun, nodes: Sequence[Node] = (), *, flushes: bool = False
) -> list[Array]:
    """Return the interpreter's values of nodes of a graph; by default, of the outputs.

    With `flushes`, each op reads and returns 0 in place of subnormal numbers.
    """
    ids = [node.id for node in nodes] or list(ir.output_ids)
    environment = Environment(table.named(run.data), run.dims, run.step, FUNCTIONS)
    if flushes:
        environment = environment._replace(altered=_flushed)
    values = interpret(ir, environment, wanted=ids)
    return [values[id] for id in ids]


def merged(irs: Sequence[IR]) -> tuple[IR, list[dict[int, str]]]:
    """Return several graphs as one, and for each the ids of its inputs with their names."""
    whole = Table()
    inputs: list[dict[int, str]] = []
    outputs: list[int] = []
    for ir in irs:
        ids: dict[int, int] = {}
        for node in ir:
            ids[node.id] = whole.size
            read = tuple(ids[id] for id in node.sources)
            whole.set(whole.size, node._replace(id=whole.size, sources=read, meta=NO_META))
        inputs.append({ids[node.id]: node.name for node in ir.inputs})
        outputs += [ids[id] for id in ir.output_ids]
    return IR(whole, list(chain.from_iterable(inputs)), outputs, name="cases"), inputs


def bound(ir: IR, dims: Mapping[str, int]) -> IR:
    """Return a graph with its dims replaced by numbers."""
    if not ir.symbols:
        return ir
    bound_table = Table()
    for node in ir:
        body = node.op.body_of()
        op = node.op.bind(dims) if body is None else type(node.op)(bound(body, dims))
        types = [TensorType(t.dtype, bound_shape(str(node), t.shape, dims)) for t in node.types]
        bound_table.set(node.id, node._replace(op=op, type=types[0], extra=tuple(types[1:])))
    return IR(bound_table, ir.input_ids, ir.output_ids, name=ir.name)


def _flushed(node: Node, value: Array, sources: Sequence[Array | None]) -> Array:
    return flushed(value)


def flushed(value: Array) -> Array:
    """Return a value with 0 in place of subnormal numbers; their signs stay."""
    if not DType(value.dtype.name).is_float:
        return value
    return np.where(is_subnormal(value), np.copysign(0, value).astype(value.dtype), value)


# -- values ----------------------------------------------------------------------------------------


def wrong_places(near: table.Nearness, want: Array, got: Array, *, signs: bool = False) -> Array:
    """Return where a result is not as close to the right one as it must be."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return np.ones(want.shape or (1,), bool)
    if near is None:
        return differences(want, got, scaled=True, signs=signs)
    dtype = DType(want.dtype.name)
    if not dtype.is_float:
        return np.asarray(want != got)
    with np.errstate(all="ignore"):  # NaN may be a signal
        x, y = want.astype(np.float64), got.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if near:
            limits = limits_of(dtype)
            same |= abs(x - y) <= near * np.maximum(limits.eps * abs(x), limits.subnormal)
    if signs:
        same &= (x != y) | (x != 0) | (np.signbit(x) == np.signbit(y))
    return np.asarray(~same)


def difference(ir: IR, node: Node, run: CaseRun, want: Array, got: Array, wrong: Array) -> str:
    """Say how a result differs from the right one; empty if it does not."""
    if want.dtype != got.dtype or want.shape != got.shape:
        types = [f"{array.dtype}{tuple_text(array.shape)}" for array in (got, want)]
        return f"{node} is {types[0]}, and should be {types[1]}"
    positions = np.argwhere(wrong)
    if not len(positions):
        return ""
    first = tuple(int(k) for k in positions[0])
    at = f"[{', '.join(map(str, first))}]" if first else ""
    count = f" ({len(positions)} of {want.size} are wrong)" if want.size > 1 else ""
    made_of = [ir[id] for id in node.sources if ir[id].name in run.data]
    told = [
        f"{source} is {run.data[source.name][first]!s}"
        for source in made_of
        if isinstance(node.op, Elementwise) and run.data[source.name].shape == want.shape
    ]
    where = f" where {' and '.join(told)}" if told else ""
    return f"{node}{at} is {got[first]!s}, and should be {want[first]!s}{where}{count}"
