"""What the fuzzer holds a program to: every way to compute it gives what the interpreter gives.

How far two ways may differ is not guessed: the graph is read a few times more in other ways that
its licence grants (`passes/judge.py`), and what an element then moves is what roundings explain.
The judge itself is held to it here: a kernel that is right and that it accuses is a finding, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from random import Random
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.core.dtypes import BY_NUMPY
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Exp2, Mul, Recip, SumReduce
from luminal_lab.errors import LabError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.judge import Freedom, Readings, differences, limits_of, unexplained
from tests.fuzz.programs import Array, Program, built, from_torch, in_torch, values_of

TIMES = 200
"""In how many ways a graph is read before a fault is one: of many programs some are at an edge."""
WHOLE = 1.0
"""What is smaller is compared as a part of it: there terms of PyTorch's cancel, as in gelu."""
CUTS, COMPILED = 12, 0.001
"""The ways in which each program is cut, and the share of them that a device computes."""
PLACES = 4.0
"""How many units in the last place a result may be off by itself."""


class Difference(AssertionError):  # noqa: N818  # it is a finding
    """Two ways to compute a program differ; or one of them fails as it must not."""


class Case:
    """A program with what the interpreter makes of it, and how far roundings move that."""

    def __init__(self, program: Program, *, has_workers: bool = False) -> None:
        self.program, self.has_workers = program, has_workers
        self.cx, self.tensors = built(program)
        self.cx.execute()
        self.right = values_of(self.tensors, program.outputs)

    @cached_property
    def readings(self) -> Readings:
        """The outputs in other readings of the graph, as good as the first."""
        ids = [self.tensors[name].id for name in self.program.outputs]
        free = Freedom(True, True, True, True, self.has_workers)
        return Readings(self.cx.ir, self.environment, ids, free, most=TIMES)

    @cached_property
    def underflows(self) -> bool:
        """Whether a number on the way is too small for a normal one, or zero for that reason."""
        found: list[bool] = []

        def noted(node: Node, value: Array, sources: Sequence[Array | None]) -> Array:
            dtype = BY_NUMPY[value.dtype]
            if dtype.is_float:
                size = abs(value.astype(np.float64))
                is_small = (size > 0) & (size < limits_of(dtype).normal)
                if isinstance(node.op, (Exp2, Mul, Recip)):
                    is_number = [source != 0 for source in sources if source is not None]
                    is_small |= (size == 0) & np.logical_and.reduce(is_number)
                found.append(bool(is_small.any()))
            return value

        interpret(self.cx.ir, self.environment._replace(altered=noted))
        return any(found)

    @property
    def environment(self) -> Environment:
        data = {one.name: one.array for one in self.program.inputs}
        return Environment(lambda node: data[node.name], self.program.sizes)

    def compare(self, found: list[Array], what: str, share: Mapping[int, float] = {}) -> None:
        """Raise where a result differs by more than roundings explain.

        By the bytes of a float, `share` of a value is what other functions may be off.
        """
        for name, right, one in zip(self.program.outputs, self.right, found, strict=True):
            if one.shape != right.shape or one.dtype != right.dtype:
                raise Difference(
                    f"{what}: {name} is {one.dtype}{one.shape}, not {right.dtype}{right.shape}"
                )
            wrong = differences(right, one, exact=True)
            if not wrong.any():
                continue
            wrong = unexplained(wrong, right, one, self.readings.of(self.tensors[name].id))
            places = np.argwhere(wrong & ~_near(right, one, share))
            if len(places):
                at = tuple(int(k) for k in places[0])
                raise Difference(
                    f"{what}: {name}{list(at)} is {one[at]!s} and not {right[at]!s} "
                    f"({len(places)} of {right.size})"
                )


def _near(right: Array, found: Array, share: Mapping[int, float]) -> Array:
    """Return where numbers are as near as the last places of functions, or as a share."""
    if right.dtype.kind in "iub":
        return np.zeros(right.shape, bool)
    limits = limits_of(BY_NUMPY[right.dtype])
    x, y = right.astype(np.float64), found.astype(np.float64)
    other = share.get(right.dtype.itemsize, 0.0)
    with np.errstate(all="ignore"):
        near = abs(x - y) <= PLACES * limits.step * np.maximum(abs(x), limits.normal)
        near |= abs(x - y) <= other * np.maximum(abs(x), WHOLE)
    return np.asarray(near & np.isfinite(x) & np.isfinite(y))


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


def sharded(case: Case, seed: str) -> None:
    """Workers on threads compute the values, however some of them are cut: in several ways each.

    To draw a program and to interpret it takes longer than to cut it.
    """
    pick = Random(seed)
    program = case.program
    if pick.random() < 0.8:  # most axes that could be cut have numbers then
        inputs = [replace(one, dims=(None,) * one.array.ndim) for one in program.inputs]
        program = Program(tuple(inputs), program.statements, program.outputs)
    try:
        # A product of a known number of factors is another graph.
        case = Case(program, has_workers=True)
    except LabError:
        return  # with these numbers there is no such program
    ir, ids = case.cx.ir, [case.tensors[name].id for name in program.outputs]
    needed = ir.ancestors(ids)
    named = {name: tensor for name, tensor in case.tensors.items() if tensor.id in needed}
    # A worker's term of a sum of 16-bit floats is such a float, rounded at the size of its terms.
    is_coarse = any(isinstance(node.op, SumReduce) and node.dtype.is_half for node in ir)
    for _ in range(CUTS):
        mesh = _mesh(pick, [dim for node in ir for dim in node.shape])
        annotations = {
            tensor: _cut(pick, mesh, tensor.shape)
            for name, tensor in named.items()
            if pick.random() < (0.8 if name[0] == "x" else 0.15)
        }
        device = ll.CPUCompiler(threads=1) if pick.random() < COMPILED else None
        plan = ll.sharding(mesh, annotations)
        how = ll.Sharded(plan, device, bucket=pick.random() < 0.5)
        compiled = compile_ir(ir, how)
        into = dict(zip(ir.output_ids, compiled.ir.output_ids, strict=True))
        values = compiled.values(case.environment, {*into.values()}, {}, None)
        if not is_coarse:
            case.compare([values[into[id]] for id in ids], f"sharded {plan}")


def _mesh(pick: Random, dims: Sequence[object]) -> ll.Mesh:
    """Draw a mesh of at most 8 workers, whose axes divide some sizes."""
    parts = [n for n in (2, 3, 4, 5, 8) if any(isinstance(d, int) and d % n == 0 for d in dims)]
    first = pick.choice(parts or [2])
    second = [n for n in parts if first * n <= 8]
    return ll.Mesh(a=first, b=pick.choice([1, *second]))


def _cut(pick: Random, mesh: ll.Mesh, shape: Sequence[object]) -> list[str | None]:
    """Draw how a value is cut: most axes that an axis of the mesh divides are cut over it."""
    left, words = list(mesh.sizes.items()), list[str | None]()
    pick.shuffle(left)
    for dim in shape:
        fitting = [(name, n) for name, n in left if isinstance(dim, int) and dim % n == 0]
        taken = pick.choice(fitting) if fitting and pick.random() < 0.7 else None
        words.append(None if taken is None else taken[0])
        left = [axis for axis in left if axis != taken]
    return words


def cuda(case: Case, seed: str) -> None:
    """Kernels for CUDA compute the values in the emulator."""
    _compiled(case, "cuda", ll.GenericCompiler(), ll.CUDACompiler(emulate=True))


def metal(case: Case, seed: str) -> None:
    """Kernels for Metal compute the values in the emulator."""
    if all(one.array.dtype != np.float64 for one in case.program.inputs):
        _compiled(case, "metal", ll.GenericCompiler(), ll.MetalCompiler(emulate=True))


def torch(case: Case, seed: str) -> None:
    """PyTorch has the same values; what it refuses it does not witness."""
    witness = import_module("torch")  # optional, and not there where types are checked

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
    try:
        case.compare(found, "torch", share={8: 1e-12, 4: 4e-6})
    except Difference:
        # PyTorch's functions take other ways, on which other numbers are too small.
        if not case.underflows:
            raise


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
    check.__name__: check for check in (text, generic, passes, cpu, sharded, cuda, metal, torch)
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
