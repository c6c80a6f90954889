"""Losses, modules, optimisers, schedules and methods of graphs with arguments that do not fit."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab import nn
from tests.wrong import WRONG, fault

FUNCTIONS: dict[str, Any] = {
    name: getattr(nn, name) for name in nn.__all__ if inspect.isfunction(getattr(nn, name))
}
FUNCTIONS |= {
    name: getattr(ll, name)
    for name in "concat stack einsum where grad stop_gradient custom_gradient quantise".split()  # noqa: SIM905
}
CLASSES: dict[str, Any] = {
    name: getattr(nn, name)
    for name in nn.__all__
    if inspect.isclass(getattr(nn, name)) and issubclass(getattr(nn, name), nn.Module)
}
METHODS = """tensor zeros ones full constant arange linspace eye rand randn randint parameter dim
    set_dim transfer swap carry retrieve keep drop downstream delete_inputs function compile time
    execute scope""".split()  # noqa: SIM905
SHAPES: list[tuple[int, ...]] = [(), (4,), (0, 4), (2, 4), (2, 4, 4), (2, 4, 4, 4), (1, 4, 4, 4, 4)]


def tensor(shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> Any:
    return ll.Graph().tensor(shape, dtype, name="x")


def pair() -> tuple[Any, Any]:
    """Return a prediction and a target."""
    x = tensor()
    return x, x


def keywords(function: Any) -> list[str]:
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    known = inspect.signature(function).parameters.values()
    return [p.name for p in known if p.kind in kinds and p.name != "self"]


def judge(calls: Iterator[tuple[str, Any]]) -> None:
    """Fail if a call answers with anything but a result or an error of ours."""
    found = [(told, fault(call)) for told, call in calls]
    wrong = [f"{told}: {said}" for told, said in found if said]
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.share("name", list(FUNCTIONS), 12)
@pytest.mark.filterwarnings("ignore")  # NumPy's, of wrong data
def test_functions(torch, name):
    function, theirs = FUNCTIONS[name], getattr(torch.nn.functional, name, None)
    theirs = theirs if inspect.isfunction(theirs) else None

    def calls() -> Iterator[tuple[str, Any]]:
        for wrong in WRONG:
            yield f"{wrong!r}", partial(function, wrong)
            yield f"x, {wrong!r}", partial(function, tensor(), wrong)
            yield f"x, x, {wrong!r}", partial(function, *pair(), wrong)
            for key in keywords(function)[1:]:
                yield f"x, {key}={wrong!r}", partial(function, tensor(), **{key: wrong})
                yield f"x, x, {key}={wrong!r}", partial(function, *pair(), **{key: wrong})
        yield "nothing", function
        yield "nine", partial(function, *[tensor()] * 9)
        for key in [*(keywords(theirs) if theirs else []), "nonsense"]:
            yield f"x, x, {key}=1", partial(function, *pair(), **{key: 1})

    judge(calls())


@pytest.mark.share("name", list(CLASSES), 16)
@pytest.mark.filterwarnings("ignore")
def test_modules_and_optimisers(torch, name):
    cls, theirs = CLASSES[name], getattr(torch.nn, name, None)
    needed = [
        p.name
        for p in inspect.signature(cls.__init__).parameters.values()
        if p.default is p.empty and p.name in keywords(cls.__init__)
    ]
    base = dict.fromkeys(needed, 4)

    def calls() -> Iterator[tuple[str, Any]]:
        yield "nothing", cls
        yield "twenty", partial(cls, *[3] * 20)
        keys = {*keywords(cls.__init__), *(keywords(theirs.__init__) if theirs else []), "nonsense"}
        for key in sorted(keys):
            for wrong in WRONG:
                yield f"{key}={wrong!r}", partial(cls, **{**base, key: wrong})
        try:
            made = cls(**base)
        except ll.LabError:
            return
        for wrong in WRONG:
            yield f"called with {wrong!r}", partial(made, wrong)
            yield f"called with x, {wrong!r}", partial(made, tensor(), wrong)
            if isinstance(made, nn.Optimiser):
                yield f"minimise x, {wrong!r}", partial(made.minimise, tensor().sum(), wrong)
                yield f"minimise {wrong!r}", partial(made.minimise, wrong, wrong)
                yield f"step {wrong!r}", partial(made.step, wrong)
            for method in ("train", "load_state_dict", "load"):
                yield f"{method} {wrong!r}", partial(getattr(made, method), wrong)
        for shape in SHAPES:
            for dtype in ("float32", "int64", "bool"):
                yield f"called with {dtype}{shape}", partial(made, tensor(shape, dtype))
        yield "called with nonsense", partial(made, tensor(), nonsense=1)

    judge(calls())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore")
def test_methods_of_graphs(name):
    def method() -> Any:
        return getattr(ll.Graph(), name)

    def calls() -> Iterator[tuple[str, Any]]:
        for wrong in WRONG:
            yield f"{wrong!r}", partial(method(), wrong)
            yield f"x, {wrong!r}", partial(method(), tensor(), wrong)
            yield f"(2,), {wrong!r}", partial(method(), (2,), wrong)
            yield f"1, 5, {wrong!r}", partial(method(), 1, 5, wrong)
            for key in keywords(method()):
                yield f"{key}={wrong!r}", partial(method(), **{key: wrong})
        yield "nonsense", partial(method(), nonsense=1)
        yield "many", partial(method(), *[1] * 12)

    judge(calls())
