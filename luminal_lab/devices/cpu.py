"""The CPU: kernels in C, compiled by the machine's own compiler, called from Python.

    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())

fuses what came out of the passes before it into kernels and compiles all of them as one library.
What no kernel can be (scatter, update, calls to the host) NumPy does, as in the interpreter.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, Step, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import TensorType, ints
from luminal_lab.core.ops import Call, Input
from luminal_lab.devices.toolchain import compile_library, find_compiler, load
from luminal_lab.errors import DefinitionError, RangeError
from luminal_lab.kernels.c_program import ENTRY, distinct, program_source
from luminal_lab.kernels.define import define
from luminal_lab.kernels.definition import Definition
from luminal_lab.kernels.fusion import Fusion
from luminal_lab.passes.base import spec_text
from luminal_lab.passes.pipeline import Pipeline

MOST_SIZES = 100
"""For how many sizes of dims what was worked out is remembered."""


@dataclass(frozen=True, init=False, repr=False)
class CPUCompiler(Pipeline):
    """Fuse into kernels, and run them as C.

    >>> print(CPUCompiler(compiler="gcc"))
    cpu{compiler = gcc}
    """

    name: ClassVar[str] = "cpu"
    compiler: str | None = None
    """The C compiler to use, by its name or path; None: the first that is found."""

    def __init__(self, *, compiler: str | None = None) -> None:
        super().__init__(["(inline){rounds = 50}", "cse, dce", Fusion(), "dce"])
        object.__setattr__(self, "compiler", compiler)

    @override
    def __str__(self) -> str:
        return spec_text(self.name, {} if self.compiler is None else {"compiler": self.compiler})

    @override
    def runner(self, ir: IR) -> CPUProgram:
        return CPUProgram(ir, self.compiler)


class CPUProgram:
    """A graph of kernels, compiled."""

    def __init__(self, ir: IR, compiler: str | None = None) -> None:
        self.ir = ir
        definitions: dict[IR, Definition] = {}
        for node in ir:
            if isinstance(node.op, Call) and node.op.body not in definitions:
                try:
                    definitions[node.op.body] = define(node.op.body)
                except DefinitionError:  # an op of the user's that C does not know
                    continue
        self.kernels = distinct(definitions.values())
        self.definitions = definitions
        self.source = program_source(self.kernels)
        """The C source of the whole program."""
        self._bound: dict[tuple[tuple[str, int], ...], dict[int, Launch]] = {}
        self._compiler = find_compiler(compiler)
        _ = self._entry  # now, so that what cannot be compiled is said by compile

    @cached_property
    def _entry(self) -> ctypes._NamedFuncPointer:  # pyright: ignore[reportPrivateUsage]  # ctypes has no public name for it
        library = load(compile_library(self.source, self._compiler), ENTRY)
        entry = library[ENTRY]
        entry.restype = None
        entry.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_uint32, ctypes.c_void_p]
        return entry

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[Step] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        return _Run(self, environment, set(wanted), known, trace).run()

    def bound(self, dims: Mapping[str, int]) -> dict[int, Launch]:
        """Return the launches of the program for some sizes of its dims, by their nodes."""
        key = tuple(sorted(dims.items()))
        if key not in self._bound:
            if len(self._bound) >= MOST_SIZES:
                self._bound.clear()
            self._bound[key] = {
                node.id: self._launch_of(self.definitions[node.op.body], dims)
                for node in self.ir
                if isinstance(node.op, Call) and node.op.body in self.definitions
            }
        return self._bound[key]

    def _launch_of(self, definition: Definition, dims: Mapping[str, int]) -> Launch:
        made = tuple(
            (ints(bound_shape(definition.name, line.type.shape, dims)), line.type.dtype.numpy)
            for line in definition.lines
        )
        sizes = [dims[name] for name in definition.dims]
        return Launch(self.kernels[definition], made, (ctypes.c_int64 * (len(sizes) or 1))(*sizes))

    def launch(self, launch: Launch, sources: list[Array], step: int) -> tuple[Array, bool]:
        """Run one kernel; return what it made, and whether an index was out of range."""
        made = [np.empty(shape, dtype) for shape, dtype in launch.made]
        buffers = [array.ctypes.data for array in (*sources, *made)]
        fault = ctypes.c_int64(0)
        self._entry(
            launch.kernel,
            (ctypes.c_void_p * len(buffers))(*buffers),
            launch.dims,
            step & 0xFFFFFFFF,
            ctypes.byref(fault),
        )
        return made[-1], bool(fault.value)


class Launch(NamedTuple):
    """One use of a kernel, for sizes that are known."""

    kernel: int
    made: tuple[tuple[tuple[int, ...], np.dtype[np.generic]], ...]
    """The shapes and dtypes of what it makes, the result last."""
    dims: ctypes.Array[ctypes.c_int64]


class _Run:
    def __init__(
        self,
        program: CPUProgram,
        environment: Environment,
        wanted: set[int],
        known: Mapping[int, Array],
        trace: list[Step] | None,
    ) -> None:
        self.program = program
        self.environment = environment
        self.wanted = wanted
        self.trace = trace
        self.values = dict(known)
        self.launches = program.bound(environment.dims)
        self.nodes = self._needed()
        self.uses: dict[int, int] = {}
        for node in self.nodes:
            for id in node.sources:
                self.uses[id] = self.uses.get(id, 0) + 1

    def _needed(self) -> list[Node]:
        found: set[int] = set()
        todo = list(self.wanted)
        while todo:
            id = todo.pop()
            if id not in found and id not in self.values:
                found.add(id)
                todo += self.program.ir[id].sources
        return [node for node in self.program.ir if node.id in found]

    def run(self) -> dict[int, Array]:
        for node in self.nodes:
            start = perf_counter()
            value = self.values[node.id] = self._value(node)
            for probe in self.environment.probes.get(node.id, ()):
                view = value.view()
                view.flags.writeable = False
                probe(view)
            if self.trace is not None:
                self.trace.append(Step(node, perf_counter() - start, value.nbytes))
            for id in node.sources:
                self.uses[id] -= 1
                if not self.uses[id] and id not in self.wanted:
                    self.values.pop(id, None)
        return {id: self._own(self.values[id]) for id in self.wanted}

    def _own(self, value: Array) -> Array:
        """Return a value that shares no memory with an input or with another value."""
        return value if value.flags.owndata and value.flags.writeable else value.copy()

    def _value(self, node: Node) -> Array:
        if isinstance(node.op, Input):
            return np.ascontiguousarray(self.environment.data(node)).reshape(self._shape(node.type))
        launch = self.launches.get(node.id)
        if launch is None:
            return self._by_numpy(node)
        sources = [self.values[id] for id in node.sources]
        value, is_wrong = self.program.launch(launch, sources, self.environment.step)
        if is_wrong:
            self._by_numpy(node)  # which says where, and what the index is
            raise RangeError(f"{node}: an index is out of range")
        return value

    def _shape(self, type: TensorType) -> tuple[int, ...]:
        return ints(bound_shape("run", type.shape, self.environment.dims))

    def _by_numpy(self, node: Node) -> Array:
        """Compute one node as the interpreter does."""
        known = {id: self.values[id] for id in node.sources}
        environment = self.environment._replace(probes={})
        found = interpret(self.program.ir, environment, wanted=[node.id], known=known)
        return np.ascontiguousarray(found[node.id]).reshape(self._shape(node.type))
