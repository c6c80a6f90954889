"""Try a user's kernel alone: it compiles, writes only its outputs, and fits its meaning.

    ll.devices.check_kernel(scale, np.arange(10.0))

runs C in a child process (trial.py), between pages that nobody may touch, with outputs that are
filled before, and its tasks in both orders: once with the compiler's sanitizers, and once as it
will run. Kernels for GPUs run in the emulator, which checks each access.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from luminal_lab.core.binding import as_array, fit
from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import TensorType, ints, size_of, tuple_text
from luminal_lab.core.ops import UserKernel
from luminal_lab.core.origin import here
from luminal_lab.devices.build.toolchain import (
    PROGRAM,
    Compiler,
    compile_library,
    find_compiler,
    function_of,
    load,
    window,
)
from luminal_lab.devices.cpu.trial import (
    FILLS,
    FLOPS,
    SECONDS,
    Area,
    Died,
    TrialJob,
    TrialProcess,
    difference,
)
from luminal_lab.devices.cpu.trial_build import Builds, builds
from luminal_lab.devices.cpu.trial_report import ALONE, INDEX, ArrayName, words
from luminal_lab.emulator.kernels import emulate_kernel
from luminal_lab.errors import ArgumentError, DefinitionError, DeviceError, Interrupted, expect
from luminal_lab.kernels.prelude.files import whole
from luminal_lab.kernels.user.call import Draft, KernelCall
from luminal_lab.kernels.user.gpu import gpu_user_kernel, outputs_of
from luminal_lab.kernels.user.kernel import (
    alone,
    header_of,
    operations_of,
    tasks_of,
    use_dims,
)
from luminal_lab.passes.judge import differences
from luminal_lab.trust import admit_kernels

ENTRY = "lab_alone"
GUARD: Final = 4096
"""The bytes before and after each array, which a kernel must leave alone."""
EMULATED: Final = 60.0
"""The seconds that a kernel for a GPU may take in the emulator."""
TRIED: Final = f"""
typedef __INT32_TYPE__ lab_i32;
typedef __UINT32_TYPE__ lab_u32;
typedef long long lab_i64;
{whole("run.h")}
void lab_tried(lab_run *run, lab_i64 at, lab_i64 backwards, volatile lab_i64 *told) {{
    for (lab_i64 turn = 0; turn < run->tasks[0]; turn++) {{
        told[1] = backwards ? run->tasks[0] - 1 - turn : turn;
        lab_alone(run->values, run->dims, told[1]);
    }}
}}
"""
"""What a child calls: one kernel, task by task."""


def check_source(op: UserKernel, compiler: Compiler) -> None:
    """Compile a user's kernel in C by itself, or say in its own lines why that fails."""
    if op.dialect != "c":
        return
    admit_kernels([op])
    name = header_of(op.header).name
    try:
        compile_library(alone(op), compiler, entries=[ENTRY])
    except DeviceError as error:
        message = error.message.removeprefix("compile: ").replace(PROGRAM, f"{name}.c")
        raise DeviceError(
            f"kernel {name}: its C does not compile\n  {message}",
            where=_own_lines(error.where or "", op.source),
            hint="fix the marked line; lines are counted from the first of the source",
        ) from error


def _own_lines(where: str, source: str) -> str:
    """Return a window of C without the lines after the user's, unless one of those is meant."""
    last = source.rstrip("\n").count("\n") + 1
    lines = where.splitlines()
    numbers = [re.match(r"[> ] +(\d+) \|", line) for line in lines]
    own = [line for line, n in zip(lines, numbers, strict=True) if n is None or int(n[1]) <= last]
    return "\n".join(own if any(line.startswith(">") for line in own) else lines)


def check_kernel(
    call: KernelCall,
    *arrays: object,
    compiler: str | None = None,
    seconds: float = SECONDS,
    **dims: int,
) -> tuple[Array, ...]:
    """Run a user's kernel on data, check it against its header and its meaning; return its outputs.

    C may take `seconds`, in addition to the time for the operations of its meaning.

    >>> from luminal_lab.kernels.user.call import kernel
    >>> half = kernel('''
    ... // kernel half(x: f32[n]) -> (y: f32[n])
    ... void half(const float *x, float *y, long n) {
    ...     for (long i = 0; i < n - 1; i++) y[i] = x[i] / 2;
    ... }''', meaning=lambda x: x / 2)
    >>> check_kernel(half, [1.0, 2.0, 3.0])
    Traceback (most recent call last):
        ...
    luminal_lab.errors.DefinitionError: kernel half: y[2] is not written
    hint: each call of the function writes its part of all outputs
    """
    hint = "give what ll.kernel(...) returns, and then the arrays"
    expect(call, KernelCall, "check_kernel: {} is not a kernel", hint)
    try:
        op, given = _use(call, arrays, dims)
        if call.dialect != "c":
            return _emulated(call, op, given)
        chosen = find_compiler(compiler)
        check_source(op, chosen)
        run = _CheckedRun(op, given)
        build = builds(chosen)
        ways = [run.here(chosen)] if build is None else run.apart(build, chosen, seconds)
        first: tuple[Array, ...] = ()
        for first, second in ways:
            for name, earlier, other in zip(run.names, first, second, strict=True):
                _check_written(call.name, name, earlier, other)
        # At most one of the two gives its meaning.
        meant = outputs_of(op.body, given, {}) if call.meaning else _by_numpy(call, op, given)
        for name, mine, expected in zip(run.names, first, meant, strict=False):
            _check_meant(call.name, name, mine, expected)
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(
            f"check_kernel: stopped by Ctrl-C; nothing of kernel {call.name} goes on",
            where=str(here() or "") or None,
        ) from None
    return first


def _emulated(call: KernelCall, op: UserKernel, given: list[Array]) -> tuple[Array, ...]:
    """Return the results of a GPU's kernel in the emulator, or raise for what is wrong in it."""
    kernel = gpu_user_kernel(op, call.name)
    names = [name for name, _ in header_of(call.header).inputs]
    data = dict(zip(names, given, strict=True))
    run = emulate_kernel(kernel, data, {}, trace=True, limit=EMULATED, step=0)
    for finding in run.findings:
        raise DefinitionError(
            f"kernel {call.name}: {str(finding).partition(': ')[2]}",
            hint="lines are counted from the first of the source; kernel.emulate() shows all",
        )
    again = emulate_kernel(
        kernel, data, {}, trace=False, limit=EMULATED, step=0, fill=FILLS[1], order="early"
    )
    for name, mine in run.outputs.items():
        _check_written(call.name, name, mine, again.outputs[name], "each block")
    outputs = tuple(run.outputs.values())
    expected = list(run.expected.values()) or _by_numpy(call, op, given)
    for name, mine, meant in zip(run.outputs, outputs, expected, strict=False):
        _check_meant(call.name, name, mine, meant)
    return outputs


def _check_meant(kernel: str, name: str, mine: Array, meant: Array) -> None:
    wrong: Any = differences(meant, mine, scaled=True)
    if wrong.any():
        at = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise DefinitionError(
            f"kernel {kernel}: {name}{list(at)} is {mine[at]}, and its meaning has {meant[at]}",
            hint="the source and the meaning compute the same, up to rounding",
        )


def _by_numpy(call: KernelCall, op: UserKernel, given: list[Array]) -> list[Array]:
    """Return the results of the function of arrays that is a kernel's meaning; or nothing."""
    if call.numpy is None:
        return []
    returned = call.numpy(*given)
    several = isinstance(returned, (tuple, list))
    results = list(cast("Sequence[object]", returned)) if several else [returned]
    pairs = zip(results, op.body.outputs, strict=True)
    return [fit(f"kernel {call.name}", r, o.type, {}, copy=False) for r, o in pairs]


def _use(
    call: KernelCall, arrays: Sequence[object], dims: Mapping[str, int]
) -> tuple[UserKernel, list[Array]]:
    """Return the op for the shapes of some data, and the data in the types of its inputs."""
    inputs = header_of(call.header).inputs
    if len(arrays) != len(inputs):
        raise ArgumentError(
            f"kernel {call.name}: it takes {len(inputs)} array{'s' * (len(inputs) != 1)}, and is "
            f"given {len(arrays)}",
            hint=f"it is {call.header}",
        )
    read = [
        np.array(as_array(array, f"kernel {call.name}: {name}"), type.dtype.numpy, order="C")
        for (name, type), array in zip(inputs, arrays, strict=True)
    ]
    types = [
        TensorType(type.dtype, array.shape) for (_, type), array in zip(inputs, read, strict=True)
    ]
    labels = [f"array {k} {tuple_text(array.shape)}" for k, array in enumerate(read)]
    return call.use(Draft(call.name, 0), types, labels, dims), read


class _CheckedRun:
    """A kernel with its data, run between guards."""

    def __init__(self, op: UserKernel, given: list[Array]) -> None:
        self.op = op
        self.given = given
        header = header_of(op.header)
        self.name = header.name
        self.inputs = [name for name, _ in header.inputs]
        self.names = [name for name, _ in header.outputs]
        dims = use_dims(op)
        self.tasks = evaluate(tasks_of(op, dims), {})
        self.dims = [evaluate(dim, {}) for dim in dims.values()]
        self.types = [output.type for output in op.body.outputs]
        self.sizes = [array.nbytes for array in given]
        self.sizes += [evaluate(size_of(t.shape), {}) * t.dtype.itemsize for t in self.types]

    def _error(self, event: str, hint: str, line: int | None = None) -> DefinitionError:
        own = line is not None and line <= self.op.source.rstrip("\n").count("\n") + 1
        where = window(self.op.source, line) if line is not None and own else None
        return DefinitionError(f"kernel {self.name}: {event}", where=where, hint=hint)

    def _outputs(self, raw: Sequence[Any]) -> tuple[Array, ...]:
        """Return the outputs from their bytes."""
        return tuple(
            np.frombuffer(bytes(raw_bytes), type.dtype.numpy).reshape(ints(type.shape)).copy()
            for raw_bytes, type in zip(raw, self.types, strict=True)
        )

    # -- in a child process ------------------------------------------------------------------------

    def apart(
        self, build: Builds, compiler: Compiler, seconds: float
    ) -> Iterator[tuple[tuple[Array, ...], ...]]:
        """Yield a child's results in two runs: with a library that checks itself, and as it is."""
        source = alone(self.op) + TRIED
        seconds += evaluate(operations_of(self.op.body), {}) / FLOPS
        if build.sanitizers:
            yield self._tried(build, build.library(source), seconds, checked=True)
        yield self._tried(build, compile_library(source, compiler), seconds, checked=False)

    def _tried(
        self, build: Builds, library: Path, seconds: float, *, checked: bool
    ) -> tuple[tuple[Array, ...], ...]:
        inputs = len(self.given)
        areas = [Area(size, at >= inputs) for at, size in enumerate(self.sizes)]
        types = [
            *(array.dtype.itemsize for array in self.given),
            *(t.dtype.itemsize for t in self.types),
        ]
        named = zip((*self.inputs, *self.names), types, strict=True)
        names = {at: ArrayName(name, size, at < inputs) for at, (name, size) in enumerate(named)}
        values = [(at, 0) for at in range(len(areas))]
        job = TrialJob(library, areas, values, [0], [self.tasks], self.dims, seconds=seconds)
        results: list[tuple[Array, ...]] = []
        with TrialProcess(build, job, checked=checked) as trial:
            for fill in FILLS:
                trial.prepare(fill, enumerate(self.given))
                try:
                    trial.run(0, 1, backwards=fill == FILLS[1])
                except Died as died:
                    event, line, hint = words(trial, died.death, names)
                    raise self._error(event, hint, line) from None
                before = trial.overwritten(fill)
                if before is not None:
                    raise self._error(f"it writes before {names[before].name}", INDEX)
                results.append(self._outputs([trial.raw(at) for at in range(inputs, len(areas))]))
        return tuple(results)

    # -- in this process, where there is no other --------------------------------------------------

    def here(self, compiler: Compiler) -> tuple[tuple[Array, ...], ...]:
        """Return the kernel's results in two runs, in this process."""
        library = load(compile_library(alone(self.op), compiler, entries=[ENTRY]), ENTRY)
        pointer = ctypes.c_void_p
        function = function_of(library, ENTRY, None, pointer, pointer, ctypes.c_longlong)
        return tuple(self._made(function, fill) for fill in FILLS)

    def _made(self, function: Callable[..., object], fill: int) -> tuple[Array, ...]:
        """Return the kernel's results in outputs that hold one byte everywhere."""
        # Guards differ, so that a value read from one shows if it is written into another.
        guards = [(fill ^ 0x11) - number % 16 for number in range(len(self.sizes))]
        pairs = zip(self.sizes, guards, strict=True)
        areas = [np.full(size + 2 * GUARD, guard, np.uint8) for size, guard in pairs]
        inner = [area[GUARD:-GUARD] for area in areas]
        for bytes_, array in zip_longest(inner, self.given):
            bytes_[:] = fill if array is None else array.reshape(-1).view(np.uint8)
        pointers = (ctypes.c_void_p * len(inner))(*(bytes_.ctypes.data for bytes_ in inner))
        dims = (ctypes.c_longlong * (len(self.dims) or 1))(*self.dims)
        for task in range(self.tasks)[:: -1 if fill == FILLS[1] else 1]:
            function(pointers, dims, task)
        for name, area, guard in zip((*self.inputs, *self.names), areas, guards, strict=True):
            for side, bytes_ in (("before", area[:GUARD]), ("behind", area[-GUARD:])):
                if (bytes_ != guard).any():
                    raise self._error(f"it writes {side} {name}", INDEX)
        for name, bytes_, array in zip(self.inputs, inner, self.given, strict=False):
            if bytes_.tobytes() != array.tobytes():
                raise self._error(f"it changes its input {name}", ALONE)
        return self._outputs(inner[len(self.given) :])


def _check_written(
    kernel: str, name: str, first: Array, other: Array, part: str = "each call of the function"
) -> None:
    """Raise unless two runs on outputs that held different bytes have the same results."""
    told = difference(name, first, other, part)
    if told is not None:
        event, hint = told
        raise DefinitionError(f"kernel {kernel}: {event}", hint=hint)
