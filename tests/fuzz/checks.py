"""What the fuzzer holds a program to: every way to compute it gives what the interpreter gives.

How far two ways may differ is not guessed. The graph is interpreted a few times more with each
rounding nudged by an ulp or so, and each sum by as much as another order may change it: what an
element then moves is what rounding explains. Where it moves between kinds (a number, an infinity,
NaN), or an integer or a bool moves at all, any value will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

import luminal_lab as ll
from luminal_lab.core.dtypes import DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import (
    Add,
    Cast,
    Exp2,
    Input,
    Log2,
    Mod,
    Mul,
    Recip,
    Scatter,
    Sin,
    Sqrt,
    SumReduce,
)
from luminal_lab.errors import LabError
from tests.fuzz.programs import Array, Program, built, from_torch, in_torch, values_of

TIMES = 8
"""How often the graph is interpreted with other roundings."""
WIDER = 12.0
"""How much further than these runs a result may be."""
ULPS = {Add: 1, Mul: 1, Recip: 2, Sqrt: 2, Exp2: 8, Log2: 8, Sin: 8, Mod: 1, Cast: 1}
NARROW = 2.0**-8
"""A rounding of bfloat16: kernels may keep narrow values wide in between, or not."""


class Difference(AssertionError):  # noqa: N818  # it is a finding
    """Two ways to compute a program differ; or one of them fails as it must not."""


class Case:
    """A program with what the interpreter makes of it, and how far roundings move that."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.cx, self.tensors = built(program)
        self.cx.execute()
        self.right = values_of(self.tensors, program.outputs)

    @cached_property
    def moved(self) -> list[tuple[Array, Array]]:
        """For each output how far it moves, and where any value will do."""
        ids = [self.tensors[name].id for name in self.program.outputs]
        runs = [self._nudged(k, ids) for k in range(TIMES)]
        return [
            _spread(right, [run[place] for run in runs]) for place, right in enumerate(self.right)
        ]

    def _nudged(self, number: int, wanted: Iterable[int]) -> list[Array]:
        rng = np.random.default_rng(number)
        ir, dims = self.cx.ir, self.program.sizes
        data = {one.name: one.array for one in self.program.inputs}
        environment = Environment(lambda node: data[node.name], dims)
        values: dict[int, Array] = {}
        for node in ir.nodes:
            if node.extra:
                raise LabError("fuzz: nodes with several results are not nudged")
            values |= interpret(ir, environment, wanted=[node.id], known=values)
            values[node.id] = np.asarray(_nudge(ir, node, values, rng, number))
        return [values[id] for id in wanted]

    def compare(self, found: list[Array], what: str, share: Mapping[int, float] = {}) -> None:
        """Raise where a result differs by more than roundings explain.

        By the bytes of a float, `share` of a value is what other functions may be off.
        """
        for name, right, one, place in zip(
            self.program.outputs, self.right, found, range(len(found)), strict=True
        ):
            if one.shape != right.shape or one.dtype != right.dtype:
                raise Difference(
                    f"{what}: {name} is {one.dtype}{one.shape}, not {right.dtype}{right.shape}"
                )
            if _equal(right, one).all():
                continue
            reach, free = self.moved[place]
            if right.dtype.kind == "f":
                reach = reach + share.get(right.dtype.itemsize, 0.0) * np.nan_to_num(abs(right))
            wrong = np.argwhere(~(_near(right, one, reach) | free))
            if len(wrong):
                at = tuple(int(k) for k in wrong[0])
                raise Difference(
                    f"{what}: {name}{list(at)} is {one[at]!s} and not {right[at]!s} "
                    f"({len(wrong)} of {right.size}; roundings move it by {reach[at]:.3g})"
                )


def _nudge(
    ir: IR, node: Node, values: Mapping[int, Array], rng: np.random.Generator, number: int
) -> Array:
    """Return a node's value as another way to round would have made it."""
    value, op = values[node.id], node.op
    if not node.dtype.is_float or isinstance(op, Input):
        return value
    wide = value.astype(np.float64)
    eps = float(np.finfo(np.float64).eps) if node.dtype is DType.float64 else 2.0**-23
    if node.dtype.itemsize == 2:
        eps = NARROW if node.dtype is DType.bfloat16 else 2.0**-10
    with np.errstate(all="ignore"):
        if isinstance(op, (SumReduce, Scatter)):
            parts = [abs(values[id].astype(np.float64)) for id in node.sources]
            if isinstance(op, SumReduce):
                total = parts[0].sum(op.axis, keepdims=True)
            else:
                total = parts[0] + parts[-1].sum() if op.mode == "add" else np.zeros_like(wide)
            most = float(ml_dtypes.finfo(node.dtype.numpy).max)
            reach = np.where(np.isfinite(total), eps * total, 0)
            nudged = wide + reach * rng.uniform(-4, 4, wide.shape)
            # A sum of numbers on whose way there may be an infinity, or not: the order says which.
            over = np.isfinite(total) & (total >= most / 2) | np.isinf(total) & _all_finite(
                op, parts
            )
            nudged = np.where(over, rng.choice([np.inf, -np.inf, most / 1024], wide.shape), nudged)
        elif type(op) in ULPS:
            tiny = float(ml_smallest(node.dtype))
            nudged = wide * (1 + ULPS[type(op)] * eps * rng.uniform(-1, 1, wide.shape))
            nudged = nudged + np.where(
                abs(wide) < tiny * 2**24, tiny * rng.integers(-1, 2, wide.shape), 0
            )
            # What is exact stays: zeros, and what needs no rounding.
            nudged = np.where((wide == 0) | ~np.isfinite(wide), wide, nudged)
            # A product that is fused with a sum overflows with that alone, and kernels keep what
            # is on the way to a 16-bit float in 32 bits.
            if isinstance(op, Mul) or node.dtype.is_half:
                finite = np.all(
                    [np.isfinite(values[id].astype(float)) for id in node.sources], axis=0
                )
                most = np.copysign(float(ml_dtypes.finfo(node.dtype.numpy).max) / 1024, wide)
                side = (wide > 0, wide < 0, rng.random(wide.shape) < 0.5)[rng.integers(3)]
                spared = np.isinf(wide) & finite & side
                nudged = np.where(spared, most, nudged)
        else:
            nudged = wide
        # The licence grants that nobody asks for the sign of a zero; some ops do.
        signs = 1 - 2 * number if number < 2 else rng.choice([1, -1], wide.shape)
        nudged = np.where(nudged == 0, np.copysign(nudged, signs), nudged)
        return np.asarray(nudged).astype(value.dtype)


def _all_finite(op: SumReduce | Scatter, parts: list[Array]) -> Array:
    """Return where a sum is one of numbers alone."""
    if isinstance(op, SumReduce):
        return np.asarray(np.isfinite(parts[0]).all(op.axis, keepdims=True))
    return np.asarray(np.isfinite(parts[0]) & np.isfinite(parts[-1]).all())


def ml_smallest(dtype: DType) -> float:
    """Return the smallest subnormal number of a dtype."""
    sizes = {DType.float64: 5e-324, DType.float32: 1e-45, DType.float16: 6e-8}
    return sizes.get(dtype, 9.2e-41)


def _spread(right: Array, runs: list[Array]) -> tuple[Array, Array]:
    if right.dtype.kind in "iub":
        free = np.any([run != right for run in runs], axis=0)
        return np.zeros(right.shape), np.asarray(free)
    with np.errstate(all="ignore"):
        wide = right.astype(np.float64)
        others = [run.astype(np.float64) for run in runs]
        kind = _kind(wide)
        free = np.any([_kind(one) != kind for one in others], axis=0)
        moves = np.max(
            [np.where(np.isfinite(one - wide), abs(one - wide), 0) for one in others], axis=0
        )
        smallest = np.spacing(
            abs(right).astype(np.float32 if right.dtype.itemsize < 4 else right.dtype)
        ).astype(np.float64)
        ulp = np.where(np.isfinite(smallest), smallest, 0)
        if right.dtype.itemsize == 2:
            ulp = np.maximum(abs(wide) * NARROW, 1e-7)
        return np.asarray(WIDER * moves + 4 * np.where(np.isfinite(ulp), ulp, 0)), np.asarray(free)


def _kind(wide: Array) -> Array:
    """Return 0 for numbers, 1 and 2 for the infinities, 3 for NaN."""
    return np.select([np.isnan(wide), wide == np.inf, wide == -np.inf], [3, 1, 2], 0)


def _equal(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iub":
        return np.asarray(a == b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return np.asarray((x == y) | (np.isnan(x) & np.isnan(y)))


def _near(right: Array, found: Array, reach: Array) -> Array:
    if right.dtype.kind in "iub":
        return np.asarray(right == found)
    x, y = right.astype(np.float64), found.astype(np.float64)
    with np.errstate(all="ignore"):
        near = (_kind(x) == _kind(y)) & (abs(x - y) <= reach)
    return np.asarray(near | _equal(right, found))


# -- the ways --------------------------------------------------------------------------------------


def text(case: Case, seed: str) -> None:
    """The text of the graph reads back, and means the same."""
    ir = case.cx.ir
    again = ll.parse(str(ir))
    if again != ir or str(again) != str(ir):
        raise Difference("text: the graph that is read back is another one")


def generic(case: Case, seed: str) -> None:
    """The generic passes keep the values."""
    _compiled(case, "generic", ll.GenericCompiler())


PASSES = [
    "simplify",
    "push-views",
    "inline",
    "cse",
    "depth-first",
    "dce",
    "fold",
    "merge-reductions",
    "views",
    "single-reductions",
    "recognise",
    "intrinsics",
]


def passes(case: Case, seed: str) -> None:
    """Some passes in some order keep the values."""
    pick = Random(seed)
    chosen = [pick.choice(PASSES) for _ in range(pick.randint(1, 6))]
    _compiled(case, f"passes {', '.join(chosen)}", ", ".join(chosen))


def cpu(case: Case, seed: str) -> None:
    """Kernels of the CPU compute the values, behind the generic passes or without them."""
    if Random(seed).random() < 0.8:
        _compiled(
            case, "cpu", ll.GenericCompiler(), ll.CPUCompiler(threads=Random(seed).choice([1, 2]))
        )
    else:
        _compiled(case, "cpu alone", ll.CPUCompiler(threads=1))


def cuda(case: Case, seed: str) -> None:
    """Kernels for CUDA compute the values in the emulator."""
    _compiled(case, "cuda", ll.GenericCompiler(), ll.CUDACompiler(emulate=True))


def metal(case: Case, seed: str) -> None:
    """Kernels for Metal compute the values in the emulator."""
    if all(one.array.dtype != np.float64 for one in case.program.inputs):
        _compiled(case, "metal", ll.GenericCompiler(), ll.MetalCompiler(emulate=True))


def torch(case: Case, seed: str) -> None:
    """PyTorch has the same values; what it refuses it does not witness."""
    import torch as witness  # optional

    if _is_by_design(case.program):
        return
    try:
        values = in_torch(witness, case.program)
    except (
        RuntimeError,
        TypeError,
        NotImplementedError,
        AttributeError,
        IndexError,
        ValueError,
        ArithmeticError,
    ):
        return
    found = [from_torch(witness, values[name]) for name in case.program.outputs]
    case.compare(found, "torch", share={8: 1e-12, 4: 4e-6})


BY_DESIGN = re.compile(r'cast\("(u?int|float16|bfloat16)|signbit|copysign')
"""What docs/pytorch.md says is not as in PyTorch, or depends on the sign of a NaN."""
USUAL = 1e-4, 1e4
"""Sizes of numbers whose reciprocals are numbers: a quotient is a product with one."""


def _is_by_design(program: Program) -> bool:
    if any(BY_DESIGN.search(one.text) for one in program.statements):
        return True
    # PyTorch's functions of halves round once where ours round each op.
    if any(
        one.array.dtype.itemsize == 2 and one.array.dtype.kind in "fV" for one in program.inputs
    ):
        return True
    floats = [
        one.array.astype(np.float64) for one in program.inputs if one.array.dtype.kind in "fV"
    ]
    sizes = [abs(array[np.isfinite(array) & (array != 0)]) for array in floats]
    return any((size < USUAL[0]).any() or (size > USUAL[1]).any() for size in sizes)


def _compiled(case: Case, what: str, *compilers: Any) -> None:
    cx, tensors = built(case.program)
    try:
        cx.compile(*compilers)
        cx.execute()
    except LabError as error:
        if _is_refusal(error):
            return
        raise
    case.compare(values_of(tensors, case.program.outputs), what)


def _is_refusal(error: LabError) -> bool:
    """Return whether a device says that it has not what a program asks for."""
    return isinstance(error, ll.errors.DTypeError) or "float64" in error.message


CHECKS: dict[str, Callable[[Case, str], None]] = {
    check.__name__: check for check in (text, generic, passes, cpu, cuda, metal, torch)
}
OFTEN = {"cuda": 0.08, "metal": 0.05, "passes": 0.5}
"""How many of the programs a check is tried on, where it is not all."""


def failure(program: Program, check: str, seed: str) -> str | None:
    """Return what is wrong with a program by a check, or None."""
    try:
        case = Case(program)
    except LabError:
        return None  # with these sizes there is no such program
    except Exception as error:
        return f"interpreter: {told(error)}"
    try:
        CHECKS[check](case, seed)
    except Difference as error:
        return str(error)
    except Exception as error:
        return f"{check}: {told(error)}"
    return None


def told(error: BaseException) -> str:
    """Return an error's type and its first line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
