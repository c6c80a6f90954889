"""What a notebook calls with wrong arguments: an error of ours that names no part of ours.

The methods of IR and Edit, which passes call a million times, look only at what they are given.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError

WRONG: list[Any] = [None, [], "xyz", -7, 2.5, np.zeros((2, 2)), {1: 2}, [[1], None], object()]
INTERNAL = re.compile(r"positional argument|NoneType|keyword argument|\b_[a-z]\w+\(")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a user has in hand, by the name of its class."""
    cx = ll.Graph("g")
    x = cx.tensor((2, 3), name="x").set([[1.0, 2, 3], [4, 5, 6]])
    (x * 2 + 0).softmax(1).named("y").retrieve()
    try:
        compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    except LabError as error:
        pytest.skip(f"there is no C compiler: {error.message}")
    path = tmp_path_factory.mktemp("calls") / "run.lab"
    cx.save(path)
    program: Any = compilation.runner
    timings = cx.time(rounds=2)
    return {
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


NAMES = [
    *("Comparison", "Compilation", "Diff", "Explorer", "Kernel", "Kernels", "Opened", "Picture"),
    *("SideBySide", "Schedule", "Snapshot", "Timing", "Timings", "Trace", "Workbench"),
]
SKIPPED = {"Picture.to_png", "Kernels.count", "Kernels.index"}
"""What takes a browser, and methods of Python's own tuple."""


def calls_of(name: str, subject: Any) -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """Yield wrong calls of all methods: unknown and surplus arguments, and wrong values of each."""
    for method in dir(subject):
        function = inspect.getattr_static(type(subject), method, None)
        is_method = callable(function) or isinstance(function, classmethod)
        if method[0] == "_" or not is_method or f"{name}.{method}" in SKIPPED:
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
    with pytest.raises(ll.ArgumentError, match=r"^check_kernel: .* is no kernel"):
        ll.devices.check_kernel(*given)


@pytest.mark.parametrize("nodes", [None, 3, object()])
def test_what_is_no_list_of_nodes_is_refused(nodes: Any):
    cx = ll.Graph("g")
    (cx.tensor((2,), name="x") * 2).retrieve()
    for call in (cx.ir.ancestors, cx.ir.descendants, ll.Edit(cx.ir).reorder):
        with pytest.raises(ll.GraphError, match=r"^g: .* is no list of nodes"):
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
