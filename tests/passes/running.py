"""What tests of passes share: running a pipeline pass by pass, and the judge of its values."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from luminal_lab import passes
from luminal_lab.core.dims import Symbol, evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Gather, HostCall, Scatter
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.judge import differences
from luminal_lab.passes.pipeline import LICENCE, PassLike, Pipeline

# The text of a pipeline knows the passes that are imported; gradients are none.
for module in pkgutil.iter_modules(passes.__path__, "luminal_lab.passes."):
    if module.name != "luminal_lab.passes.gradients":
        importlib.import_module(module.name)

FLOATS = [0.0, 1, -1, 2, -0.0, 3, 100, 0.5, 1e-38, 1e-45, -3.25, 3e38, np.inf, -np.inf, np.nan]


def run_passes(ir: IR, *what: PassLike, licence: Iterable[str] = LICENCE) -> Compilation:
    """Run passes as `cx.compile` does: verified after each."""
    return compile_ir(ir, *what, licence=licence)


def notes_of(compilation: Compilation) -> list[str]:
    """Return the reasons that steps gave, and what was refused, each once, as comments."""
    found: list[str] = []
    for snapshot in compilation.snapshots:
        found += [f"# {f.rule}: {f.because}" for f in snapshot.firings if f.because]
        found += [
            f"# refused {refusal.rule}: it assumes {', '.join(sorted(refusal.facts))}"
            for refusal in snapshot.refusals
        ]
    return list(dict.fromkeys(found))


def facts_of(pipeline: Pipeline, outer: Iterable[str] = ()) -> set[str]:
    """Return all facts that are granted to any pass of a pipeline."""
    granted = outer if pipeline.licence is None else pipeline.licence
    inner = [facts_of(one, granted) for one in pipeline if isinstance(one, Pipeline)]
    plain = len(inner) < len(pipeline.passes)
    return set(granted if plain else ()).union(*inner)


def check_pass(
    before: IR,
    what: PassLike,
    *,
    licence: Iterable[str] = LICENCE,
    dims: Mapping[str, int] | None = None,
    again: bool = True,
) -> Compilation:
    """Check that passes keep the values of a graph, and change nothing when they run again."""
    compilation = run_passes(before, what, licence=licence)
    check_values(before, compilation.ir, licence, dims=dims)
    if again:
        second = run_passes(compilation.ir, what, licence=licence)
        assert second.ir is compilation.ir, second.snapshots[-1].firings
    return compilation


# -- the judge -------------------------------------------------------------------------------------


def dims_of(ir: IR, least: int = 3) -> dict[str, int]:
    """Return a value for each symbol: the first from `least` on that its bounds allow."""
    return {symbol.name: _value_of(symbol, least) for symbol in ir.symbols.values()}


def _value_of(symbol: Symbol, least: int) -> int:
    by, high = symbol.multiple_of, symbol.high
    value = -(-max(symbol.low, least) // by) * by
    return min(value, high // by * by) if isinstance(high, int) else value


def data_of(
    ir: IR, dims: Mapping[str, int], seed: int = 0, facts: Iterable[str] = (), *, few: bool = False
) -> dict[str, Array]:
    """Return values for the inputs by their names; special ones, unless facts exclude them.

    With `few`, integers are 0 and 1, so that they are indices wherever they come to be used.
    """
    rng = np.random.default_rng(seed)
    numbers = np.array(FLOATS)
    if {"no_nan", "no_inf"} & set(facts):
        numbers = numbers[np.abs(np.nan_to_num(numbers, nan=np.inf)) < 1e6]
    if "non_negative" in facts:
        numbers = numbers[~(numbers < 0)]
    if "nonzero" in facts:
        numbers = numbers[np.abs(numbers) != 0]
    data: dict[str, Array] = {}
    for node in sorted(ir.inputs, key=str):
        shape = [evaluate(dim, dims) for dim in node.shape]
        low, high = node.dtype.limits if node.dtype.kind != "float" else (0, 1)
        whole = [0, 1] if few else [0, 1, 2, 3, low, high]
        drawn = rng.choice(numbers if node.dtype.is_float else np.array(whole), shape)
        with np.errstate(all="ignore"):
            data[node.name] = np.asarray(drawn).astype(node.dtype.numpy)
    return data


def _all_nodes(ir: IR) -> Iterable[Node]:
    for node in ir:
        yield node
        body = node.op.body_of()
        if body is not None:
            yield from _all_nodes(body)


def values_of(ir: IR, data: Mapping[str, Array], dims: Mapping[str, int]) -> list[Array]:
    """Return what the outputs of a graph are; functions of the host are made up."""
    functions: dict[str, Callable[..., Array]] = {}
    for node in _all_nodes(ir):
        if isinstance(node.op, HostCall):
            functions[node.op.function] = _made_up(node, dims)
    found = interpret(ir, Environment(lambda node: data[node.name], dims, 0, functions))
    return [found[id] for id in ir.output_ids]


def _made_up(node: Node, dims: Mapping[str, int]) -> Callable[..., Array]:
    shape = [evaluate(dim, dims) for dim in node.shape]

    def call(*sources: Array) -> Array:
        flat = [np.asarray(source, np.float64).ravel() for source in sources]
        all_of_them = np.nan_to_num(np.concatenate([np.ones(1), *flat])) % 7
        return np.resize(all_of_them, shape).astype(node.dtype.numpy)

    return call


def check_values(
    before: IR,
    after: IR,
    licence: Iterable[str] = LICENCE,
    *,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Check that two graphs compute the same values; a licence allows for what it grants.

    Symbols are 3 and 4, or as near as their bounds allow, unless `dims` says otherwise.
    """
    facts = frozenset(licence)
    assert [n.id for n in before.inputs] == [n.id for n in after.inputs]
    ops = [node.op for ir in (before, after) for node in _all_nodes(ir)]
    few = any(isinstance(op, (Gather, Scatter)) for op in ops)
    for seed in range(2):
        sizes = dims_of(before, 3 + seed % 2) if dims is None else dims
        data = data_of(before, sizes, seed, facts, few=few)
        ours, theirs = (values_of(ir, data, sizes) for ir in (before, after))
        for place, (old, new) in enumerate(zip(ours, theirs, strict=True)):
            what = f"output {place} of {before.name}, draw {seed}: {old!r} has become {new!r}"
            assert (old.dtype, old.shape) == (new.dtype, new.shape), what
            assert same_values(old, new, facts), what


def same_values(old: Array, new: Array, facts: Iterable[str] = ()) -> bool:
    """Return whether two arrays hold the same values, NaN for NaN."""
    rounded = "reassociate" in facts
    signs = not rounded and "no_signed_zero" not in facts
    return not differences(old, new, scaled=rounded, exact=not rounded, signs=signs).any()
