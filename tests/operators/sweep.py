"""PyTorch's table of operators, and what becomes of each of its samples here.

The table (`op_db`) is what PyTorch tests itself with: an entry for each operator, with sample
arguments. A sample agrees if our spelling of the call gives the same shapes, dtypes and values,
and, where PyTorch derives it, the same gradients of all float arguments.
"""

from __future__ import annotations

import random
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from tests.operators.spelling import SPELLED, drawn

RTOL, ATOL = 2e-5, 2e-5
"""The second is times the largest value, or 1 if that is larger; gradients get five times both."""
ABOUT_PLACES = ("device", "layout", "requires_grad", "pin_memory", "memory_format", "non_blocking")
"""Arguments about where and how PyTorch stores a tensor, which have no counterpart: left out."""

SMALL = 160
"""The most nodes of a graph, with its gradients, that is compiled if there is a choice."""


class Entry(NamedTuple):
    """An operator of the table, in one or several variants."""

    name: str
    variants: tuple[Any, ...]


class Sample(NamedTuple):
    """A call: the operator's variant, and its arguments."""

    variant: Any
    input: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class NoAnswerError(Exception):
    """PyTorch itself refuses a sample, or it is of complex or sparse tensors."""


@cache
def table(torch: ModuleType) -> dict[str, Entry]:
    """Return the operators that PyTorch has for float32 on a CPU, by name."""
    try:
        import_module("expecttest")
    except ModuleNotFoundError:  # PyTorch's tests compare texts with it, the table does not
        stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # pyright: ignore[reportAttributeAccessIssue]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings(action="ignore"):
        listed = import_module("torch.testing._internal.common_methods_invocations").op_db
    entries: dict[str, list[Any]] = {}
    for variant in listed:
        if variant.supports_dtype(torch.float32, "cpu"):
            entries.setdefault(variant.name, []).append(variant)
    return {name: Entry(name, tuple(variants)) for name, variants in entries.items()}


def samples(torch: ModuleType, entry: Entry) -> Iterator[Sample]:
    """Yield the samples of an operator in float32, the same ones each time."""
    for variant in entry.variants:
        torch.manual_seed(0)
        np.random.seed(0)  # some samples are drawn with it
        random.seed(0)
        derived = bool(variant.supports_autograd)
        with warnings.catch_warnings(action="ignore"):
            for sample in variant.sample_inputs("cpu", torch.float32, requires_grad=derived):
                yield Sample(variant, sample.input, tuple(sample.args), dict(sample.kwargs))


def torch_as_witness() -> ModuleType:
    """Return PyTorch with its own kernels, as the tests have it, on one thread."""
    with warnings.catch_warnings(action="ignore"):
        torch = import_module("torch")
    torch.backends.mkldnn.set_flags(_enabled=False)
    torch.set_num_threads(1)
    return torch


def spelling(name: str) -> str | None:
    """Return how the call is written here, or None."""
    if name in SPELLED:
        return SPELLED[name]
    method = name.removeprefix("nn.functional.").removeprefix("special.")
    if hasattr(ll.Tensor, method):
        return f"x.{method}(*a, **k)"
    if name.startswith("nn.functional.") and method in nn.__all__:
        return f"nn.{method}(x, *a, **k)"
    room, _, word = name.partition(".")
    if room in ("linalg", "fft") and word in getattr(ll, room).__all__:
        return f"ll.{name}(x, *a, **k)"
    return None


# -- one sample ------------------------------------------------------------------------------------


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a tree with each leaf replaced."""
    if isinstance(value, (tuple, list)):
        items = [mapped(item, leaf) for item in value]
        return items if type(value) is list else tuple(items)
    if isinstance(value, dict):
        return {key: mapped(item, leaf) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(mapped(part, leaf) for part in (value.start, value.stop, value.step)))
    return leaf(value)


def leaves(value: Any) -> list[Any]:
    """Return the leaves of a tree in order."""
    found: list[Any] = []
    mapped(value, found.append)
    return found


def weights(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return what result `number` is multiplied with in the loss that gradients are of."""
    drawn = np.random.default_rng(number).uniform(0.5, 1.5, shape)
    return drawn.astype(np.float32)


class Answer(NamedTuple):
    """PyTorch's results, and the gradients of its float arguments: None for those not reached."""

    values: list[Any]
    through: tuple[int, ...]
    """Which results have gradients."""
    slopes: list[Any]


def answer(torch: ModuleType, sample: Sample) -> Answer:
    """Return what PyTorch makes of a sample, or raise NoAnswerError if it refuses."""
    torch.manual_seed(1)
    with warnings.catch_warnings(action="ignore"):
        try:
            result = sample.variant.op(sample.input, *sample.args, **sample.kwargs)
        except Exception as error:
            raise NoAnswerError(f"PyTorch: {error}") from None
        values: list[Any] = []
        for item in leaves(result):
            if not isinstance(item, torch.Tensor):
                values += [] if item is None else [torch.tensor(item)]
            elif item.layout is not torch.strided:
                raise NoAnswerError("its result is sparse")
            else:
                values += [item.real, item.imag] if item.is_complex() else [item]
        through = tuple(k for k, value in enumerate(values) if value.requires_grad)
        by = derived(torch, sample)
        if not through or not by:
            return Answer(values, (), [])
        loss = sum(
            (values[k] * torch.tensor(weights(k, tuple(values[k].shape)))).sum() for k in through
        )
        try:
            return Answer(values, through, list(torch.autograd.grad(loss, by, allow_unused=True)))
        except Exception:  # it has none
            return Answer(values, (), [])


def derived(torch: ModuleType, sample: Sample) -> list[Any]:
    """Return the arguments that have gradients, each once."""
    found: dict[int, Any] = {}
    for value in leaves((sample.input, sample.args, sample.kwargs)):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            found.setdefault(id(value), value)
    return list(found.values())


def exactly(torch: ModuleType, sample: Sample) -> Sample:
    """Return a sample with float64 for float32."""

    def wide(value: Any) -> Any:
        if value is torch.float32:
            return torch.float64
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.detach().double().requires_grad_(value.requires_grad)
        return value

    given, args, kwargs = (mapped(p, wide) for p in (sample.input, sample.args, sample.kwargs))
    return Sample(sample.variant, given, args, kwargs)


class Call:
    """A sample in a graph of ours."""

    def __init__(self, torch: ModuleType, cx: ll.Graph, sample: Sample, theirs: Answer) -> None:
        self.torch, self.cx, self.sample, self.theirs = torch, cx, sample, theirs
        self.tensors: dict[int, ll.Tensor] = {}
        """Our inputs, by the ids of PyTorch's."""

    def ours(self, value: Any) -> Any:
        """Return an argument as we take it."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            if id(value) not in self.tensors:
                if value.is_complex() or value.layout is not torch.strided:
                    raise NoAnswerError("an argument is complex or sparse")
                array = value.detach().resolve_conj().resolve_neg().numpy()
                name = str(value.dtype).removeprefix("torch.")
                self.tensors[id(value)] = self.cx.tensor(array.shape, name).set(array)
            return self.tensors[id(value)]
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        return value

    def count(self, axis: int | None = None) -> int:
        """Return how many there are in PyTorch's result, where data decide that."""
        return int(self.theirs.values[0].shape[axis or 0])

    def results(self, text: str) -> list[ll.Tensor]:
        """Write the call into the graph, and return its results."""
        given = self.sample
        kwargs = {key: v for key, v in given.kwargs.items() if key not in ABOUT_PLACES}
        x, a, k = (mapped(part, self.ours) for part in (given.input, given.args, kwargs))
        space = {"cx": self.cx, "ll": ll, "nn": nn, "count": self.count, **HELP}
        written = eval(f"lambda x, *a, **k: {text}", space)
        found = [item for item in leaves(written(x, *a, **k)) if item is not None]
        return [item if isinstance(item, ll.Tensor) else self.cx.constant(item) for item in found]

    def slopes(self, results: list[ll.Tensor]) -> list[ll.Tensor | None]:
        """Return our gradients where PyTorch has some."""
        theirs = self.theirs
        if not theirs.slopes:
            return []
        by = [self.tensors[id(value)] for value in derived(self.torch, self.sample)]
        parts = [
            (
                results[k]
                * self.cx.tensor(tuple(theirs.values[k].shape)).set(
                    weights(k, tuple(theirs.values[k].shape))
                )
            ).sum()
            for k in theirs.through
        ]
        found = ll.grad(sum(parts[1:], parts[0]), by)
        return [f if t is not None else None for f, t in zip(found, theirs.slopes, strict=True)]


class Trial(NamedTuple):
    """A call of an operator, with our spelling of it."""

    name: str
    text: str
    sample: Sample


class Written(NamedTuple):
    """A trial in a graph: PyTorch's answer, and our results and gradients, which are retrieved."""

    trial: Trial
    theirs: Answer
    results: list[ll.Tensor]
    slopes: list[ll.Tensor | None]
    by_chance: bool


def disagreement(torch: ModuleType, trial: Trial) -> str | None:
    """Return what is different about a sample on the interpreter, or None.

    Raise NoAnswerError if PyTorch has no answer to it.
    """
    cx = ll.Graph()
    made = written(torch, cx, trial)
    if isinstance(made, str):
        return made
    try:
        cx.execute()
    except Exception as error:
        return fault(error)
    return judged(torch, made)


def disagreements(torch: ModuleType, trials: Sequence[Trial]) -> dict[str, str]:
    """Return what is different about samples that are one program on the CPU, by name.

    Where that does not run, its halves are tried.
    """
    cx, wrong, right = ll.Graph(), dict[str, str](), list[Written]()
    for trial in trials:
        try:
            made = written(torch, cx, trial)
        except NoAnswerError:
            continue
        if isinstance(made, str):
            wrong[trial.name] = made
        else:
            right.append(made)
    try:
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
    except Exception as error:
        left = [made.trial for made in right]
        if len(left) == 1:
            return wrong | {left[0].name: fault(error)}
        half = len(left) // 2
        return wrong | disagreements(torch, left[:half]) | disagreements(torch, left[half:])
    found = ((made.trial.name, judged(torch, made)) for made in right)
    return wrong | {name: text for name, text in found if text is not None}


def small_sample(torch: ModuleType, entry: Entry, seed: int) -> Sample:
    """Return one of the samples that are small graphs, drawn by a seed, or else the smallest."""
    found = list(samples(torch, entry))
    random.Random(f"{seed} {entry.name}").shuffle(found)
    sizes: list[int] = []
    for sample in found:
        cx = ll.Graph()
        with suppress(NoAnswerError):
            written(torch, cx, Trial(entry.name, spelling(entry.name) or "", sample))
        sizes.append(len(cx.ir.nodes))
        if sizes[-1] <= SMALL:
            return sample
    return found[sizes.index(min(sizes))]


def fault(error: Exception) -> str:
    """Return the words of an error; one that is not of ours is to be seen."""
    if isinstance(error, ll.LabError):
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return f"INTERNAL {type(error).__name__}: {error}"


def written(torch: ModuleType, cx: ll.Graph, trial: Trial) -> Written | str:
    """Write a call into a graph, or return why it cannot be PyTorch's."""
    theirs = answer(torch, trial.sample)
    by_chance = drawn(trial.name, dict(trial.sample.kwargs), trial.sample.args)
    call = Call(torch, cx, trial.sample, theirs)
    try:
        results = call.results(trial.text)
        if len(results) != len(theirs.values):
            return f"{len(results)} results, and {len(theirs.values)} of PyTorch"
        if any(not results[k].dtype.is_float for k in theirs.through):
            return "no gradient: a result is no float, and PyTorch's is"
        slopes = [] if by_chance else call.slopes(results)
    except NoAnswerError as error:
        return str(error)
    except Exception as error:
        return fault(error)
    for tensor in [*results, *slopes]:
        if tensor is not None:
            tensor.retrieve()
    return Written(trial, theirs, results, slopes, by_chance)


def judged(torch: ModuleType, made: Written) -> str | None:
    """Return how a trial's values, after a run, differ from PyTorch's, or None."""
    _, theirs, results, slopes, by_chance = made
    wrong = different(results, slopes, theirs, drawn=by_chance)
    if wrong is None:
        return None
    try:  # PyTorch's float32 may be the one that is off: its float64 decides
        exact = answer(torch, exactly(torch, made.trial.sample))
    except NoAnswerError:
        return wrong
    return wrong if different(results, slopes, exact, like=theirs) else None


def different(
    results: list[ll.Tensor],
    slopes: list[ll.Tensor | None],
    theirs: Answer,
    *,
    drawn: bool = False,
    like: Answer | None = None,
) -> str | None:
    """Return how our values differ from an answer, or None; the dtypes may be those of another."""
    dtypes = [value.dtype for value in (like or theirs).values]
    if len(theirs.values) != len(dtypes) or bool(theirs.slopes) != bool(slopes):
        return None if drawn else "PyTorch's answers in float32 and float64 differ in kind"
    for ours, value, dtype in zip(results, theirs.values, dtypes, strict=True):
        wrong = compared(ours.numpy(), value, dtype, drawn=drawn)
        if wrong:
            return wrong
    for ours, value in zip(slopes, theirs.slopes, strict=True):
        if ours is not None and value is not None:
            wrong = compared(ours.numpy(), value, None, times=5)
            if wrong:
                return f"gradient: {wrong}"
    return None


def compared(
    ours: np.ndarray, theirs: Any, dtype: Any, *, drawn: bool = False, times: float = 1
) -> str | None:
    """Return how a value of ours differs from PyTorch's, or None."""
    theirs = theirs.detach().resolve_conj().resolve_neg()
    name = str(ours.dtype) if dtype is None else str(dtype).removeprefix("torch.")
    if ours.shape != tuple(theirs.shape):
        return f"shape {ours.shape}, and PyTorch's is {tuple(theirs.shape)}"
    if str(ours.dtype) != name:
        return f"dtype {ours.dtype}, and PyTorch's is {name}"
    if drawn:
        return None
    with np.errstate(all="ignore"):
        a = ours.astype(np.float64)
        b = theirs.double().numpy()
        b = b.astype(np.float32).astype(np.float64) if name == "float32" else b
        finite = np.abs(b[np.isfinite(b)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        scale *= {"float32": 1, "float64": 1, "float16": 1e3, "bfloat16": 1e3}.get(name, 0)
        near = np.isclose(a, b, rtol=RTOL * times, atol=ATOL * times * scale, equal_nan=True)
    if near.all():
        return None
    at = tuple(map(int, np.argwhere(~near)[0]))
    return f"{(~near).sum()} of {near.size} values: {a[at]} at {at}, and PyTorch's is {b[at]}"


# -- one name --------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What became of the samples of an operator."""

    name: str
    text: str | None
    """Our spelling."""
    agree: int
    differ: Mapping[str, int]
    """What is different, and of how many samples."""


def outcome(torch: ModuleType, entry: Entry) -> Outcome:
    """Return what becomes of all samples of an operator, on the interpreter."""
    text, agree, differ = spelling(entry.name), 0, Counter[str]()
    for sample in samples(torch, entry) if text is not None else ():
        assert text is not None
        try:
            wrong = disagreement(torch, Trial(entry.name, text, sample))
        except NoAnswerError:
            continue
        if wrong is None:
            agree += 1
        else:
            differ[wrong] += 1
    return Outcome(entry.name, text, agree, differ)


# -- what the spellings are written with -----------------------------------------------------------


def without(kwargs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return keyword arguments but for some."""
    return {key: value for key, value in kwargs.items() if key not in names}


def words(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under our names of axes."""
    return {key.replace("dim", "axis"): value for key, value in kwargs.items()}


def each(x: Any, more: tuple[Any, ...], one: Callable[[Any], Any]) -> Any:
    """Return a function of one tensor, or of each of several."""
    several = (*x, *more) if isinstance(x, list | tuple) else (x, *more)
    return tuple(map(one, several)) if len(several) > 1 or isinstance(x, list | tuple) else one(x)


def last(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the last axes, as many as there are sizes."""
    return tuple(range(-len(sizes), 0))


def margins(x: Any, ends: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return PyTorch's margins, which begin with the last axis, as pairs from the first on."""
    pairs = [(ends[k], ends[k + 1]) for k in range(0, len(ends), 2)]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


def host(value: Any) -> Any:
    """Return a tensor's data as numbers: what PyTorch reads when it is called."""
    return value.tolist() if isinstance(value, ll.Tensor) else value


def positions(x: Any, name: str, a: tuple[Any, ...], k: Mapping[str, Any]) -> Any:
    """Return an extreme: of all, of two, or along an axis with its positions."""
    if any(isinstance(v, ll.Tensor) for v in (*a, *k.values())):
        return getattr(x, f"{name}imum")(*a, *k.values())
    if a or k:
        return getattr(x, name)(*a, **k), getattr(x, f"arg{name}")(*a, **k)
    return getattr(x, name)()


def dtype_in(a: tuple[Any, ...], k: Mapping[str, Any]) -> Any:
    """Return the dtype among the arguments."""
    for value in (*a, *k.values()):
        if isinstance(value, ll.Tensor):
            return value.dtype
        if isinstance(value, str) and value != "cpu":
            return value
    return "float32"


def renamed(kwargs: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Return keyword arguments, some under other names."""
    return {names.get(key, key): value for key, value in kwargs.items()}


def lu_of(x: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return the factors that `torch.lu` returns."""
    both = ll.linalg.lu_factor_ex(x, pivot=pivot)
    return both if get_infos else both[:2]


def bounds(x: Any, a: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the bounds of `randint`, of which the first may be left out."""
    return (0, x) if len(a) == 1 else (x, a[0])


HELP: dict[str, Any] = {
    f.__name__: f
    for f in (
        lu_of,
        renamed,
        without,
        words,
        each,
        last,
        margins,
        host,
        positions,
        dtype_in,
        bounds,
    )
}
HELP |= {
    "shape": lambda x, a: a[-1],
    "double": lambda x: x.double() if isinstance(x, ll.Tensor) else float(x),
    "WAYS": ("bilinear", "nearest", "bicubic"),
    "EDGES": ("zeros", "border", "reflection"),
}
