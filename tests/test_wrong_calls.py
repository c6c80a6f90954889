"""What a notebook calls with wrong arguments: an error of ours that names no part of ours.

The methods of IR and Edit, which passes call a million times, look only at what they are given.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
import random
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.ops import Mul, Sin
from luminal_lab.core.origin import is_ours
from luminal_lab.errors import LabError
from luminal_lab.tensor.arguments import MARK
from tests import wrong
from tests.needs import NEEDING, missing, need

WRONG: list[Any] = [None, [], "xyz", -7, 2.5, np.zeros((2, 2)), {1: 2}, [[1], None], object()]
INTERNAL = re.compile(r"positional argument|NoneType|keyword argument|\b_[a-z]\w+\(")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a user has in hand, by the name of its class."""
    cx = ll.Graph("g")
    x = cx.tensor((2, 3), name="x").set([[1.0, 2, 3], [4, 5, 6]])
    (x * 2 + 0).softmax(1).named("y").retrieve()
    need("cc")
    compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    path = tmp_path_factory.mktemp("calls") / "run.lab"
    cx.save(path)
    program: Any = compilation.runner
    timings = cx.time(rounds=2)
    space = ll.search.space_of(cx.ir)
    search = cx.search(ll.CPUCompiler(threads=1), budget=ll.Budget(candidates=2))
    search.save(searched := path.with_name("search.lab"))
    board = cx.board()
    return {
        "Advice": cx.advise(budget=0),
        "Board": board,
        "Candidate": search.candidates[0],
        "Candidates": search.candidates,
        "Changes": program.kernels[0].steps,
        "Choices": program.kernels[0].choices,
        "Definition": program.kernels[0].definition,
        "Firing": compilation["simplify"].firings[0],
        "Folded": timings.by("line"),
        "JoinedDerivation": search.derivation,
        "Launch": cx.launches[0],
        "Launches": cx.launches,
        "MemoryPlan": cx.memory_plan,
        "Nest": program.kernels[0].nest,
        "Pipeline": compilation.pipeline,
        "Program": next(iter(ll.search.judged_programs(space))),
        "ProgramCandidate": search.best,
        "ProgramSearch": search,
        "RecordedSearch": ll.open(searched).search,
        "Rules": ll.search.RULES,
        "Space": space,
        "Stops": compilation.stops("%y"),
        "Timeline": timings.timeline,
        "Try": board[0],
        "Comparison": timings.beside(timings),
        "Compilation": compilation,
        "Diff": ll.diff(cx.ir, compilation.ir),
        "Explorer": compilation.explore(),
        "Kernel": program.kernels[0],
        "Kernels": program.kernels,
        "Opened": ll.open(path),
        "Picture": cx.display(),
        "Schedule": program.kernels[0].schedule,
        "SideBySide": ll.compare(cx, [ll.CPU(threads=1)], rounds=1),
        "Snapshot": compilation["simplify"],
        "Timing": timings[0],
        "Timings": timings,
        "Trace": compilation.trace("%y"),
        "Workbench": compilation.workbench(),
    }


NAMES = """
    Advice Board Candidate Candidates Changes Choices Comparison Compilation Definition Diff
    Explorer Firing Folded JoinedDerivation Kernel Kernels Launch Launches MemoryPlan Nest Opened
    Picture Pipeline Program ProgramCandidate ProgramSearch RecordedSearch Rules Schedule SideBySide
    Snapshot Space Stops Timeline Timing Timings Trace Try Workbench
""".split()  # noqa: SIM905  # a list of names reads better so
PYTHONS = {"count", "index"}
"""Methods of Python's own sequences."""
SKIPPED = {"Picture.to_png", "Launch.find", "Launch.follow", "Launch.chosen", "ProgramSearch.clock"}
"""What takes a browser, and functions that a launch was given."""


def calls_of(name: str, subject: Any) -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """Yield wrong calls of all methods: unknown and surplus arguments, and wrong values of each."""
    for method in dir(subject):
        function = inspect.getattr_static(type(subject), method, None)
        is_method = callable(function) or isinstance(function, classmethod)
        is_skipped = method in PYTHONS or f"{name}.{method}" in SKIPPED
        if method[0] == "_" or not is_method or is_skipped:
            continue
        call = getattr(subject, method)
        yield method, call, (), {"nonsense": 1}
        parameters = inspect.signature(call).parameters.values()
        if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            yield method, call, tuple(range(9)), {}
        for p in parameters:
            for value in WRONG if p.kind is not p.VAR_KEYWORD else ():
                if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL):
                    yield method, call, (value,), {}
                else:
                    yield method, call, (), {p.name: value}


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_call_is_answered_in_our_words(
    objects: dict[str, Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    plain: list[str] = []
    for method, call, given, named in calls_of(name, objects[name]):
        try:
            call(*given, **named)
        except LabError as error:
            if INTERNAL.search(str(error)):
                plain.append(f"{method}{given}{named}: {error}")
        except Exception as error:
            plain.append(f"{method}{given}{named}: {type(error).__name__}: {error}")
    assert plain == []


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_attribute_is_answered_in_our_words(objects: dict[str, Any], name: str):
    with pytest.raises(ll.UnknownNameError, match=r"(there is|has) no 'nonsens'"):
        _ = objects[name].nonsens


@pytest.mark.parametrize(
    ("name", "attribute", "hint"),
    [
        ("ProgramSearch", "bset", "did you mean 'best'?"),
        ("Timings", "timline", "did you mean 'timeline'?"),
        ("Kernel", "refsued", "did you mean 'refused'?"),
        ("Nest", "xyzzy", "dir(…) lists what there is"),
    ],
)
def test_the_nearest_attribute_is_named(
    objects: dict[str, Any], name: str, attribute: str, hint: str
):
    with pytest.raises(ll.UnknownNameError) as missing:
        getattr(objects[name], attribute)
    assert missing.value.hint == hint
    assert "test_wrong_calls.py" in str(missing.value.where)
    assert not hasattr(objects[name], attribute)


def test_an_error_of_an_attribute_that_is_there_stays_its_own(objects: dict[str, Any]):
    program = objects["Kernel"]
    with pytest.raises(ll.DeviceError, match="no PTX"):
        _ = program.ptx
    assert copy.deepcopy(objects["Choices"]) == objects["Choices"]


@pytest.mark.parametrize("name", ["Timeline", "Schedule", "Nest", "MemoryPlan", "Advice"])
def test_a_value_that_is_called_says_that_it_is_none_to_call(objects: dict[str, Any], name: str):
    with pytest.raises(ll.ArgumentError, match="it is no function") as refused:
        objects[name]()
    assert refused.value.hint == "it is a value: leave out the () behind it"


def shown_classes() -> Iterator[type]:
    """Yield each class of ours whose objects a notebook shows."""
    for found in pkgutil.walk_packages(ll.__path__, "luminal_lab."):
        if ".bench" in found.name or ".course" in found.name or "__main__" in found.name:
            continue
        if found.name in NEEDING and missing(NEEDING[found.name]):
            continue
        for value in vars(importlib.import_module(found.name)).values():
            is_own = inspect.isclass(value) and value.__module__ == found.name
            if is_own and value.__name__[0] != "_" and hasattr(value, "_repr_mimebundle_"):
                yield value


MIXED_IN = {"Displayed", "DrawnGraph", "Steps", "Tries", "LabWidget"}
"""Bases, whose methods answer so in the classes that have them, and a widget of traitlets'."""


def test_whatever_a_notebook_shows_answers_in_our_words():
    for name in ll.__all__:
        getattr(ll, name)
    for name in ll.devices.__all__:
        getattr(ll.devices, name)
    shown = {f"{kind.__module__}.{kind.__name__}": kind for kind in shown_classes()}
    assert len(shown) > 60
    plain = [
        f"{name}.{method}"
        for name, kind in shown.items()
        if kind.__name__ not in MIXED_IN and not getattr(kind, "_is_protocol", False)
        for method in ["__getattr__", *methods_of(kind)]
        if not _answers(kind, method)
    ]
    assert plain == []


def methods_of(kind: type) -> Iterator[str]:
    """Yield the public methods of a class that are written in Python."""
    for name in dir(kind):
        is_public = name[0] != "_" and name not in PYTHONS
        if is_public and inspect.isfunction(inspect.getattr_static(kind, name)):
            yield name


def _answers(kind: type, method: str) -> bool:
    if method == "__getattr__":
        return hasattr(kind, method)
    found = inspect.getattr_static(kind, method)
    return hasattr(found, MARK) or not is_ours(found.__code__.co_filename)


@pytest.mark.parametrize("name", sorted({*ll.__all__, "open"}))
def test_a_function_says_which_argument_it_does_not_have(name: str):
    function = getattr(ll, name)
    if not inspect.isfunction(function):
        return
    with pytest.raises(LabError, match=f"^{name}: there is no argument 'nonsense'"):
        function(nonsense=1)


@pytest.mark.parametrize("given", [{"nonsense": 1}, {"rules": 3}])
@pytest.mark.parametrize("name", ["CPU", "CUDA", "Metal", "RuleSet", "Compilation", "Snapshot"])
def test_so_does_a_class(name: str, given: dict[str, Any]):
    with pytest.raises(LabError, match=f"^{name}: "):
        getattr(ll, name)(**given)


@pytest.mark.parametrize("given", [(3,), ("scale", [1.0]), (None, None)])
def test_what_is_no_kernel_is_not_checked(given: tuple[Any, ...]):
    with pytest.raises(ll.ArgumentError, match=r"^check_kernel: .* is not a kernel"):
        ll.devices.check_kernel(*given)


@pytest.mark.parametrize("nodes", [None, 3, object()])
def test_what_is_no_list_of_nodes_is_refused(nodes: Any):
    cx = ll.Graph("g")
    (cx.tensor((2,), name="x") * 2).retrieve()
    for call in (cx.ir.ancestors, cx.ir.descendants, ll.Edit(cx.ir).reorder):
        with pytest.raises(ll.GraphError, match=r"^g: .* is not a list of nodes"):
            call(nodes)


@pytest.mark.parametrize("place", [None, "xyz", 2.5, 99, [1]])
def test_what_is_no_place_is_refused(objects: dict[str, Any], place: Any):
    kernel = objects["Kernel"]
    choices, steps = kernel.choices, kernel.steps
    for sequence in (objects["Kernels"], choices, steps, objects["Timings"], objects["SideBySide"]):
        with pytest.raises(LabError):
            sequence[place]


def test_choices_show_as_their_text(objects: dict[str, Any]):
    choices = objects["Kernel"].choices
    assert choices._repr_mimebundle_()["text/plain"] == str(choices)


def test_an_error_about_a_long_schedule_can_be_read(objects: dict[str, Any]):
    lines = "\n".join(f"parallel {'q' * 5_000}_{k}" for k in range(20))
    with pytest.raises(LabError) as refused:
        objects["Kernel"].rescheduled(lines)
    assert len(str(refused.value)) <= 4_000


anything: Any = ll
"""The package, of which no checker asks which arguments it takes."""

# -- every public class, and the objects that a graph is made of -----------------------------------


def public_classes() -> Iterator[tuple[str, type]]:
    """Yield each public class but errors, and what Python itself lets nobody call."""
    for prefix, module in {"ll": ll, "ll.devices": ll.devices, "ll.nn": ll.nn}.items():
        for name in sorted(module.__all__):
            value: Any = getattr(module, name)
            if not inspect.isclass(value) or issubclass(value, BaseException):
                continue
            if not getattr(value, "_is_protocol", False):
                yield f"{prefix}.{name}", value


def made_of(name: str) -> Any:
    """Return an object whose methods are called wrongly."""
    cx = ll.Graph("g")
    x = cx.tensor((2, 3), name="x")
    (x * 2 + 0).named("y").retrieve()
    kinds: dict[str, Callable[[], Any]] = {
        "Adam": lambda: ll.nn.Adam(0.1),
        "CPU": lambda: ll.CPU(threads=1),
        "CPUCompiler": ll.CPUCompiler,
        "DType": lambda: ll.DType.float32,
        "Edit": lambda: ll.Edit(cx.ir),
        "Expr": lambda: ll.Symbol("n") * 2 + 1,
        "Firing": lambda: ll.compile_ir(cx.ir, "simplify")[-1].firings[0],
        "GenericCompiler": ll.GenericCompiler,
        "IR": lambda: cx.ir,
        "Linear": lambda: ll.nn.Linear(2, 3),
        "Node": lambda: cx.ir["y"],
        "Parameter": lambda: ll.Parameter((2, 3)),
        "PeakRates": lambda: ll.devices.PeakRates.stated("a toy", gflops=1, gbytes=2),
        "Pipeline": lambda: ll.parse_pipeline("simplify, cse"),
        "Run": lambda: ll.Run(()),
        "Specification": lambda: ll.devices.specification("T4"),
        "Symbol": lambda: ll.Symbol("n"),
        "TensorType": lambda: cx.ir["y"].type,
    }
    return kinds[name]()


OBJECTS = [
    *("Adam", "CPU", "CPUCompiler", "DType", "Edit", "Expr", "Firing", "GenericCompiler", "IR"),
    *("Linear", "Node", "Parameter", "PeakRates", "Pipeline", "Run", "Specification", "Symbol"),
    "TensorType",
]
POOL: list[Any] = [*wrong.WRONG, [None], {"a": 1}, {1, 2}, "%nope", "%y", "x", Sin(), Mul(),
                   "float32", ll.DType.float32, ll.Symbol("n"), ll.nn.Linear(2, 3)]  # fmt: skip


def ours(subject: Any) -> list[str]:
    """Return the public methods of an object that are written in Python."""
    kinds = {name: inspect.getattr_static(type(subject), name) for name in dir(type(subject))}
    return [
        name
        for name, value in kinds.items()
        if name[0] != "_" and (inspect.isfunction(value) or isinstance(value, classmethod))
    ]


METHODS = [(name, method) for name in OBJECTS for method in ours(made_of(name))]
CLASSES = dict(public_classes())


def drawn_call(drawn: random.Random, call: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments for a call: some by place, some by name, each wrong somewhere or not."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for p in inspect.signature(call).parameters.values():
        value, is_left_out = drawn.choice(POOL), p.default is not p.empty and drawn.random() < 0.5
        if p.kind is p.VAR_POSITIONAL:
            given += [drawn.choice(POOL) for _ in range(0 if named else drawn.randrange(3))]
        elif p.kind is p.POSITIONAL_ONLY or (
            p.kind is p.POSITIONAL_OR_KEYWORD and not named and drawn.random() < 0.7
        ):
            given.append(value)
        elif p.kind is not p.VAR_KEYWORD and not is_left_out:
            named[p.name] = value
    return given, named


def told_wrong(call: Callable[..., Any], given: Any, named: Any) -> str | None:
    """Return what is wrong with the answer of a call, if anything."""
    try:
        with wrong.limited(20):
            call(*given, **named)
    except LabError as error:
        said = f"{error.message} {error.hint}"
        return f"{given} {named}: {said}" if wrong.INTERNAL.search(said) else None
    except Exception as error:
        return f"{given} {named}: {type(error).__name__}: {error}"
    return None


def plain_calls(
    drawn: random.Random, subject: Callable[[], Any], count: int
) -> Iterator[tuple[Any, Any]]:
    """Yield wrong calls: no argument, an unknown one, too many, then drawn ones."""
    yield (), {}
    yield (), {"nonsense": 1}
    yield tuple(range(20)), {}
    for _ in range(count):
        yield drawn_call(drawn, subject())


@pytest.mark.sweep
@pytest.mark.parametrize("name", CLASSES)
def test_a_constructor_answers_a_wrong_call_in_our_words(name: str, seed: int, long: bool):
    cls: Any = CLASSES[name]
    drawn = random.Random(f"{seed} {name}")
    calls = plain_calls(drawn, lambda: cls, 200 if long else 6)
    plain = [
        said
        for given, named in calls
        if not (issubclass(cls, Enum) and (len(given) != 1 or named))  # Python asks for one
        if (said := told_wrong(cls, given, named))
    ]
    assert plain == [], f"--seed {seed}"


@pytest.mark.filterwarnings("ignore")  # of NumPy's, about odd numbers
@pytest.mark.sweep
@pytest.mark.parametrize(("name", "method"), METHODS, ids=[".".join(pair) for pair in METHODS])
def test_a_method_answers_a_wrong_call_in_our_words(
    name: str,
    method: str,
    seed: int,
    long: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    drawn = random.Random(f"{seed} {name}.{method}")
    plain: list[str] = []
    for given, named in plain_calls(
        drawn, lambda: getattr(made_of(name), method), 100 if long else 4
    ):
        if said := told_wrong(getattr(made_of(name), method), given, named):
            plain.append(said)
    assert plain == [], f"--seed {seed}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: anything.TensorType(), "TensorType: the argument 'dtype' is missing"),
        (lambda: anything.Symbol("n", low="a"), "dim 'n': low is 'a', which is not a whole number"),
        (lambda: anything.Node("%y", Sin(), (0,), None), "Node: id cannot be '%y'"),
        (lambda: anything.nn.Llama3Scaling("big"), "Llama3Scaling: factor cannot be 'big'"),
        (lambda: anything.Run(steps=1), "Run: steps cannot be 1"),
        (lambda: anything.DType("float3"), "dtype: 'float3' is not a dtype that luminal_lab has"),
        (lambda: anything.IR(1, 2), "IR: the argument 'outputs' is missing"),
        (lambda: made_of("IR").users(), "users: the argument 'node' is missing"),
        (lambda: made_of("Edit").insert("sin", "x"), "'sin' is not an op"),
        (lambda: made_of("Specification").peak(), "peak: the argument 'dtype' is missing"),
    ],
)
def test_what_is_said_of_a_wrong_call(call: Callable[[], object], said: str):
    with pytest.raises(LabError, match=f"^{re.escape(said)}"):
        call()


@ll.graph_pass
def large(ir: ll.IR, edit: ll.Edit) -> None:
    """Need more memory than there is."""
    raise MemoryError


def test_a_call_that_has_no_memory_left_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cx = ll.Graph("g")
    (cx.tensor((2,), name="x") * 2).retrieve()
    cx.save(tmp_path / "run.lab")

    def none_left(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("luminal_lab.io.opened.read_bytes", none_left)
    for name, call in {
        "compile": lambda: cx.compile(large),
        "compile_ir": lambda: ll.compile_ir(cx.ir, large),
        "open": lambda: ll.open(tmp_path / "run.lab"),
    }.items():
        with pytest.raises(ll.DeviceError, match=f"^{name}: out of memory: Python had none left"):
            call()
