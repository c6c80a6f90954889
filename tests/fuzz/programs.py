"""Programs of tensors as text: what the fuzzer draws, runs, minimises and keeps.

    x0: float32[2, 3] = [[1.0, nan, -0.0], [3.0, 4.0, 1e-45]]
    v1 = x0.softmax(-1)
    v2 = v1 + x0
    -> v2

An input may name the dims that are symbolic: `x0: float32[n = 2, 3]`. A statement is a line of
Python over the values before it, which our tensors and PyTorch's read alike, but for what
`theirs` spells otherwise.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

import luminal_lab as ll
from luminal_lab.core.dtypes import DType

Array: TypeAlias = npt.NDArray[Any]
NAME = re.compile(r"\b[xv]\d+\b")
HEAD = re.compile(r"(x\d+): (\w+)\[(.*?)\] = (.*)")


@dataclass(frozen=True)
class Given:
    """An input: its name, its values, and the names of the dims that are symbolic."""

    name: str
    array: Array
    dims: tuple[str | None, ...]

    def __str__(self) -> str:
        shape = ", ".join(
            str(size) if name is None else f"{name} = {size}"
            for name, size in zip(self.dims, self.array.shape, strict=True)
        )
        return f"{self.name}: {self.array.dtype.name}[{shape}] = {spelled(self.array)}"


@dataclass(frozen=True)
class Statement:
    """A value that is made of others: its name, and an expression."""

    name: str
    text: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The values that it reads."""
        return tuple(dict.fromkeys(NAME.findall(self.text)))

    def __str__(self) -> str:
        return f"{self.name} = {self.text}"


@dataclass(frozen=True)
class Program:
    """Inputs, statements in order, and the values that are asked for."""

    inputs: tuple[Given, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.inputs), *map(str, self.statements), self.tail]) + "\n"

    @property
    def tail(self) -> str:
        """The line of the outputs."""
        return "-> " + ", ".join(self.outputs)

    @property
    def sizes(self) -> dict[str, int]:
        """What the symbolic dims are bound to."""
        return {
            name: size
            for one in self.inputs
            for name, size in zip(one.dims, one.array.shape, strict=True)
            if name is not None
        }

    def trimmed(self) -> Program:
        """Return the program without what no output needs."""
        needed = set(self.outputs)
        kept: list[Statement] = []
        for one in reversed(self.statements):
            if one.name in needed:
                needed |= set(one.reads)
                kept.append(one)
        inputs = tuple(one for one in self.inputs if one.name in needed)
        return Program(inputs, tuple(reversed(kept)), self.outputs)


def parse(text: str) -> Program:
    """Return the program that a text says; lines that begin with # are comments."""
    inputs: list[Given] = []
    statements: list[Statement] = []
    outputs: tuple[str, ...] = ()
    for line in text.splitlines():
        head = HEAD.fullmatch(line)
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("-> "):
            outputs = tuple(line.removeprefix("-> ").split(", "))
        elif head is not None:
            inputs.append(_given(*head.groups()))
        else:
            name, _, body = line.partition(" = ")
            statements.append(Statement(name, body))
    return Program(tuple(inputs), tuple(statements), outputs)


def _given(name: str, dtype: str, shape: str, values: str) -> Given:
    dims: list[str | None] = []
    sizes: list[int] = []
    for part in filter(None, shape.split(", ")):
        known, _, size = part.rpartition(" = ")
        dims.append(known or None)
        sizes.append(int(size))
    words = re.sub(r"\bnan\b", "'nan'", re.sub(r"(-?)\binf\b", r"'\1inf'", values))
    numbers = np.asarray(ast.literal_eval(words), object).reshape(sizes)
    kind = DType(dtype)
    read = float if kind.is_float else bool if kind is DType.bool_ else int
    flat = [read(one) for one in numbers.reshape(-1).tolist()]
    array = np.asarray(flat, np.float64 if kind.is_float else kind.numpy)
    with np.errstate(all="ignore"):
        return Given(name, array.astype(kind.numpy).reshape(sizes), tuple(dims))


def spelled(array: Array) -> str:
    """Return the values of an array so that they read back to the bit, NaNs' payloads aside."""
    with np.errstate(invalid="ignore"):  # a NaN that signals
        wide = array.astype(np.float64) if array.dtype.kind in "fV" else array
    return str(wide.tolist())


# -- running ---------------------------------------------------------------------------------------


def built(program: Program, graph: ll.Graph | None = None) -> tuple[ll.Graph, dict[str, Any]]:
    """Return a session in which the program is written, and its tensors by their names."""
    cx = ll.Graph() if graph is None else graph
    found: dict[str, Any] = {}
    for one in program.inputs:
        shape = tuple(
            size if name is None else name
            for name, size in zip(one.dims, one.array.shape, strict=True)
        )
        found[one.name] = cx.tensor(shape, one.array.dtype.name, name=one.name).set(one.array)
    for one in program.statements:
        found[one.name] = ours(one.text, found)
    for name in program.outputs:
        found[name].retrieve()
    return cx, found


def ours(text: str, values: Mapping[str, Any]) -> Any:
    """Return what an expression is of our tensors."""
    return eval(text, {"ll": ll, "np": np, **values})


THEIRS: Sequence[tuple[str, str]] = (
    (r"^(\S+) / (\S+)$", r"\1 * (1.0 / torch.as_tensor(\2, dtype=(\1 / \2).dtype))"),
    (r"ll\.where", "torch.where"),
    (r"ll\.concat\(\[(.*?)\], (-?\d+)\)", r"torch.cat([\1], \2)"),
    (r"ll\.stack\(\[(.*?)\], (-?\d+)\)", r"torch.stack([\1], \2)"),
    (r'\.cast\("(\w+)"\)', r".to(torch.\1)"),
    (r'\.bitcast\("(\w+)"\)', r".view(torch.\1)"),
    (r"\.(max|min)\((-?\d+)(, keepdim=\w+)?\)", r".a\1(\2\3)"),
    (r"\.argsort\((-?\d+)\)", r".argsort(\1, stable=True)"),
    (r"\.logsumexp\(\)", ".flatten().logsumexp(0)"),
    (
        r"^(.*)\.(conv2d|softplus|gelu|silu|relu6|leaky_relu|elu|hardswish|mish|selu|celu|softsign)"
        r"\((.*)\)$",
        r"F.\2(\1, \3)",
    ),
)
"""How PyTorch spells what our tensors spell otherwise."""


def theirs(text: str) -> str:
    """Return an expression as PyTorch spells it."""
    for ours_is, theirs_is in THEIRS:
        text = re.sub(ours_is, theirs_is, text)
    return text


def in_torch(torch: Any, program: Program) -> dict[str, Any]:
    """Return PyTorch's values of the inputs and statements of a program."""
    found: dict[str, Any] = {}
    for one in program.inputs:
        array = one.array
        if array.dtype == ml_dtypes.bfloat16:
            found[one.name] = torch.tensor(array.astype(np.float32)).to(torch.bfloat16)
        else:
            found[one.name] = torch.tensor(array.copy())
    for one in program.statements:
        with warnings.catch_warnings(action="ignore"):  # what torch warns about is not ours
            found[one.name] = eval(
                theirs(one.text), {"torch": torch, "F": torch.nn.functional, **found}
            )
    return found


def from_torch(torch: Any, value: Any) -> Array:
    """Return a tensor of PyTorch's as an array of our dtype for it."""
    value = value.detach()
    if value.dtype == torch.bfloat16:
        return value.float().numpy().astype(ml_dtypes.bfloat16)
    return value.numpy()


def renamed(program: Program) -> Program:
    """Return the program with names in the order of its lines."""
    old = [*(one.name for one in program.inputs), *(one.name for one in program.statements)]
    inputs = len(program.inputs)
    new = {name: f"{'x' if at < inputs else 'v'}{at}" for at, name in enumerate(old)}

    def put(text: str) -> str:
        return NAME.sub(lambda match: new.get(match[0], match[0]), text)

    return Program(
        tuple(Given(new[one.name], one.array, one.dims) for one in program.inputs),
        tuple(Statement(new[one.name], put(one.text)) for one in program.statements),
        tuple(new[name] for name in program.outputs),
    )


def values_of(found: Mapping[str, Any], names: Iterable[str]) -> list[Array]:
    """Return the values of some tensors of a session that has run."""
    return [np.asarray(found[name].numpy()) for name in names]
