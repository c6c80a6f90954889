"""Every method of tensors with every argument that PyTorch documents for it, right and wrong.

What comes out is what PyTorch gives, or an error of ours at the user's line, with a hint.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, LabError
from tests.wrong import INTERNAL, WRONG, fault, limited

TOLD = ("index", "join", "other", "windows")  # what other operations are made of
NAMES = [
    name
    for name in dir(ll.Tensor)
    if name[0] != "_" and callable(getattr(ll.Tensor, name)) and name not in TOLD
]
DRAWN = (
    "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "rand_like", "randn_like",
    "randint_like", "bernoulli",
)  # fmt: skip
OTHERWISE = {
    **dict.fromkeys(("max", "min", "cummax", "cummin"), "without positions"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), "means of integers are floats"),
    **dict.fromkeys(("lp_pool1d", "lp_pool2d", "lp_pool3d"), "roots of integers are floats"),
    **dict.fromkeys(("softmax", "softmin", "log_softmax"), "None is all axes"),
    **dict.fromkeys(DRAWN, "drawn"),
    "scaled_dot_product_attention": "drawn, with dropout",
    **dict.fromkeys(("elu", "celu"), "0 times an infinite alpha"),
    "searchsorted": "of what is not sorted",
    "polygamma": "it is infinite at whole numbers below 0",
}
"""Where PyTorch's answer is another one, and why."""


class Data(NamedTuple):
    """A tensor among the arguments."""

    array: np.ndarray


def ramp(*shape: int) -> Data:
    return Data(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def ints(values: Any) -> Data:
    return Data(np.array(values, np.int64))


GIVEN: list[tuple[Any, ...]] = [
    (), (1,), (0,), (-1,), (0, 1), (1, 0), (2.0,), (0.5,), (ramp(2, 3),), (ramp(3),), (ramp(),),
    (1, ints([0, 1, 1])), (0, ints([[0, 1, 0]])), (ints([0, 1]),), (ramp(2, 3), ramp(2, 3)),
    (ramp(3, 2),), (ramp(4, 4, 3, 3),), ((1, 0),), ((2, 3),), (3, 2), (2,), (1, 2, 1),
    (ramp(2, 3), 0.5), (1, ints([[0], [1]]), 1.0), *[(wrong,) for wrong in WRONG], (1,) * 7,
    ("another graph",),
]  # fmt: skip
ARRAYS = [
    ramp(2, 3).array,
    np.float32(0.5).reshape(()),
    ramp(3).array,
    ramp(2, 3, 4).array,
    np.arange(6).reshape(2, 3),
    np.array([[True, False, True], [False, False, False]]),
    ramp(1, 4, 4, 4).array,
]
ABROAD = ll.Graph().tensor((2, 3), name="abroad")


def functions(torch: Any, name: str) -> list[Any]:
    """Return what PyTorch has by this name; what is compared with is the first."""
    places = (torch.Tensor, torch.nn.functional, torch)
    return [getattr(place, name) for place in places if hasattr(place, name)]


def documented(torch: Any, name: str) -> dict[str, Any]:
    """Return the arguments that PyTorch documents by name, with their defaults."""
    found: dict[str, Any] = {}
    stand_ins = torch.overrides.get_testing_overrides()
    for function in functions(torch, name):
        for spelled in (stand_ins.get(function), function):
            try:
                parameters = inspect.signature(spelled).parameters.values()
            except (TypeError, ValueError):
                continue
            for p in parameters:
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                    found.setdefault(p.name, p.default)
        first = re.search(rf"\b{name}\((.*?)\)\s*->", function.__doc__ or "", re.DOTALL)
        for key in re.findall(r"\b([a-z]\w*)\b(?=[=,\s]|$)", first[1] if first else ""):
            found.setdefault(key, inspect.Parameter.empty)
    return {
        key: value for key, value in found.items() if key not in ("self", "input", "tensor", "x")
    }


def ours(cx: ll.Graph, value: Any) -> Any:
    if isinstance(value, Data):
        return cx.tensor(value.array.shape, str(value.array.dtype)).set(value.array)
    return ABROAD if isinstance(value, str) and value == "another graph" else value


def theirs(torch: Any, value: Any) -> Any:
    if isinstance(value, Data):
        return torch.tensor(value.array)
    return torch.tensor(value) if isinstance(value, np.ndarray) else value


class Attempt(NamedTuple):
    """A call of a method of tensors."""

    name: str
    array: np.ndarray
    given: tuple[Any, ...]
    named: dict[str, Any]

    def result(self) -> Any:
        cx = ll.Graph()
        x = cx.tensor(self.array.shape, str(self.array.dtype), name="x").set(self.array)
        named = {key: ours(cx, value) for key, value in self.named.items()}
        return getattr(x, self.name)(*[ours(cx, value) for value in self.given], **named)

    def by_torch(self, torch: Any) -> Any:
        """Return what PyTorch makes of the same, or None if it cannot."""
        for function in functions(torch, self.name):
            try:
                given = [theirs(torch, value) for value in self.given]
                named = {key: theirs(torch, value) for key, value in self.named.items()}
                with limited(20):
                    return function(torch.tensor(self.array), *given, **named)
            except Exception:  # it has no answer of its own to compare with
                continue
        return None

    def fault(self, torch: Any) -> str | None:
        """Return what is wrong with the answer."""
        found: list[Any] = []
        wrong = fault(lambda: found.append(self.result()))
        if wrong or not found or self.name in OTHERWISE:
            return wrong
        wanted, made = tuple_of(self.by_torch(torch)), tuple_of(found[0])
        tensors = all(isinstance(x, ll.Tensor) for x in made)
        if not tensors or not all(isinstance(x, torch.Tensor) for x in wanted) or not wanted:
            return None
        if len(made) != len(wanted):
            return f"{len(made)} results, and PyTorch has {len(wanted)}"
        for x, other in zip(made, wanted, strict=True):
            if difference := differs(x, other.detach()):
                return difference
        return None


def tuple_of(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differs(x: Any, other: Any) -> str | None:
    x.retrieve()
    x.graph.execute()
    value = x.numpy()
    if value.shape != tuple(other.shape):
        return f"the shape {value.shape}, and PyTorch has {tuple(other.shape)}"
    if str(x.dtype) != str(other.dtype).removeprefix("torch."):
        return f"{x.dtype}, and PyTorch has {other.dtype}"
    near = np.isclose(
        value.astype("f8"), other.double().numpy(), rtol=1e-4, atol=1e-5, equal_nan=True
    )
    return None if near.all() else f"{value[~near][:3]}, and PyTorch has {other[~near][:3]}"


@pytest.mark.share("name", NAMES, 12)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns of much, and NumPy of wrong data
def test_every_answer_is_pytorchs_or_an_error_of_ours(torch, name):
    wrong: list[str] = []
    keys = {**documented(torch, name), "nonsense": 1, "dim": 0}
    for array in ARRAYS:
        fits: tuple[Any, ...] = ()
        attempts = [Attempt(name, array, given, {}) for given in GIVEN]
        for attempt in attempts:
            said = attempt.fault(torch)
            if said:
                wrong.append(f"{attempt.given}: {said}")
            elif not fits and attempt.given and fault_free(attempt):
                fits = attempt.given
        for key, default in keys.items():
            values = [1, None, "none", True, -3, 0.5]
            values += [default] if default is not inspect.Parameter.empty else []
            for value in values:
                said = Attempt(name, array, fits, {key: value}).fault(torch)
                if said:
                    wrong.append(f"{fits}, {key}={value!r}: {said}")
    assert not wrong, "\n".join([f"{name}:", *wrong[:10]])


def fault_free(attempt: Attempt) -> bool:
    """Return whether a call has a result."""
    try:
        attempt.result()
    except Exception:  # then it has none
        return False
    return True


@pytest.mark.share("name", NAMES, 30)
def test_an_argument_that_there_is_not_is_said_by_name(torch, name):
    known = inspect.signature(getattr(ll.Tensor, name)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    for key in {*documented(torch, name), "nonsense"} - {*known}:
        attempt = Attempt(name, ARRAYS[0], (), {key: 1})
        if key in ("dim", "dims", "keepdims") or key.startswith("dim") or "_dim" in key:
            continue  # PyTorch's words for ours
        with pytest.raises(LabError) as caught:
            attempt.result()
        error = caught.value
        if isinstance(error, ArgumentError):  # and not about the tensor
            assert error.message.startswith(f"{name}: "), error.message
            assert f"'{key}'" in error.message or "is missing" in error.message, error.message
            assert not INTERNAL.search(f"{error.message} {error.hint}"), error.message
