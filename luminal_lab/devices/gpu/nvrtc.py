"""CUDA C++ to PTX and machine code, through NVRTC's wheel and `cuda-bindings`; it needs no GPU.

    compiled = compile_cuda(source, "sm_90a")
    compiled.ptx, compiled.cubin, compiled.resources["kernel_softmax"].registers

Equal sources are compiled once per process, and kept on disk as the CPU's libraries are.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast

from luminal_lab.core.origin import here
from luminal_lab.devices.build.cache import Cache, key_of
from luminal_lab.devices.build.located import device_error
from luminal_lab.devices.build.toolchain import source_excerpt, window
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import held
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.machines.resources import CompiledCUDA, Resources
from luminal_lab.reading import read_json
from luminal_lab.trust import admit

PROGRAM = "program.cu"
OPTIONS: Final = ("--std=c++17", "-default-device", "--fmad=false", "-w", "--ptxas-options=-v")
"""The options for every source. Products are rounded before they are added, as in C, except in
lab_fma; division and square roots are correctly rounded, and subnormal numbers are kept, by
default."""
HEAD: Final = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(')
"""How a kernel's function begins."""
ENTRY: Final = re.compile(r"Compiling entry function '(\w+)' for")
STACK: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
USED: Final = re.compile(r"Used (\d+) registers.*")
SHARED: Final = re.compile(r"(\d+) bytes smem")
CONSTANT: Final = re.compile(r"(\d+) bytes cmem")
THREADS: Final = re.compile(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+), (\d+), (\d+)")
TOO_MUCH: Final = re.compile(r"'(\w+)' uses too much shared data \((\w+) bytes, (\w+) max\)")
NO_MEMORY: Final = 1
"""NVRTC_ERROR_OUT_OF_MEMORY."""
WHAT_WORKS = "the source can be read, and run in the emulator, without it"


def compile_cuda(
    source: str,
    arch: str,
    *,
    name: str = "",
    folder: str | Path | None = None,
) -> CompiledCUDA:
    """Return a source compiled for an architecture such as "sm_80" or "sm_90a".

    `name` is what an error calls it.
    """
    admit(source)
    check_arch(arch)
    answer = _known(source, arch, folder)
    if isinstance(answer, CompiledCUDA):
        return answer
    raise _refusal(source, arch, name, answer)


def compile_kernel(kernel: Kernel, arch: str, folder: str | Path | None = None) -> CompiledCUDA:
    """Return one kernel, with what it calls, compiled for an architecture.

    The shared memory that its launches request counts as taken by its functions.
    """
    compiled = compile_cuda(gpu_source([kernel]), arch, name=kernel.name, folder=folder)
    asked = {phase.function: phase.shared for phase in kernel.phases if phase.shared}
    if not asked:
        return compiled
    taken = {
        name: replace(resources, shared=resources.shared + asked.get(name, 0))
        for name, resources in compiled.resources.items()
    }
    return replace(compiled, resources=taken)


def version() -> tuple[int, int]:
    """Return NVRTC's version, as (13, 5)."""
    major, minor = _call("nvrtcVersion")
    return major, minor


@functools.cache
def architectures() -> tuple[str, ...]:
    """Return the names of the architectures for which NVRTC compiles, the oldest first."""
    (numbers,) = _call("nvrtcGetSupportedArchs")
    return tuple(f"sm_{number}" for number in numbers)


def check_arch(arch: str) -> None:
    """Raise an error about an architecture for which NVRTC does not compile."""
    plain = re.fullmatch(r"(sm_(\d+))([af]?)", arch)
    known = architectures()
    # Only from 9.0 on are there features that later cards lack: sm_90a.
    if plain is None or plain[1] not in known or (plain[3] and int(plain[2]) < 90):
        major, minor = version()
        raise device_error(
            f"compile: NVRTC {major}.{minor} does not know the architecture {arch!r}",
            hint=f"it knows {', '.join(known)}, and from sm_90 on those with an a, as sm_90a",
        )


# -- calling it ------------------------------------------------------------------------------------


@functools.cache
def _library() -> Any:  # noqa: ANN401  # it has no types
    """Return the module that calls NVRTC, with NVRTC loaded."""
    try:
        module = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError:
        raise _missing("the package cuda-bindings is not installed") from None
    try:
        module.nvrtcVersion()
    except RuntimeError as error:  # it is loaded at the first call
        reason = str(error).strip().partition("\n")[0]
        raise _missing(f"its library cannot be loaded: {reason or 'it says nothing'}") from error
    return module


def _missing(why: str) -> DeviceError:
    return device_error(
        f"nvrtc: CUDA cannot be compiled, since {why}",
        hint=f'pip install "luminal-lab[cuda]"; {WHAT_WORKS}',
    )


def _call(function: str, *given: object) -> list[Any]:
    """Return the results of one of NVRTC's functions, which must succeed."""
    status, *results = _tried(function, *given)
    if int(status):
        _, text = _tried("nvrtcGetErrorString", status)
        raise device_error(f"nvrtc: {function} failed: {text.decode()}", hint=WHAT_WORKS)
    return results


def _tried(function: str, *given: object) -> Any:  # noqa: ANN401  # it has no types
    return getattr(_library(), function)(*given)


def _read(text_name: str, program: object) -> bytes:
    """Return one of a program's texts."""
    (size,) = _call(f"nvrtcGet{text_name}Size", program)
    data = bytes(size)
    _call(f"nvrtcGet{text_name}", program, data)
    return data


def _compile(source: str, arch: str) -> CompiledCUDA | str:
    """Return what NVRTC makes of a source, or its objections."""
    text = source.encode("utf-8", "backslashreplace")
    with _program(text) as program:
        status = _made_of(program, arch)
        if status == NO_MEMORY:
            lines = source.count("\n") + 1
            fault = f"compile: out of memory: NVRTC had none left for {lines:,} lines of source"
            raise device_error(fault, hint=f"end other programs that take memory; {WHAT_WORKS}")
        lines = _text(_read("ProgramLog", program)).split("\n")
        # The time it took differs each time.
        log = "\n".join(line for line in lines if "Compile time" not in line)
        if status:
            return log or f"it ended with status {status}"
        ptx = _text(_read("PTX", program))
        return CompiledCUDA(arch, ptx, _read("CUBIN", program), log, resources_of(log, ptx))


def _made_of(program: object, arch: str) -> int:
    """Compile a program, and return NVRTC's status."""
    options = [option.encode() for option in (f"--gpu-architecture={arch}", *OPTIONS)]
    (status,) = _tried("nvrtcCompileProgram", program, len(options), options)
    return int(status)


@contextmanager
def _program(text: bytes) -> Generator[object, None, None]:
    """Make a program from a source, which is removed after the block, with Ctrl-C held off."""
    with held():
        (program,) = _call("nvrtcCreateProgram", text, PROGRAM.encode(), 0, [], [])
        try:
            yield program
        finally:
            _call("nvrtcDestroyProgram", program)


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace").rstrip()


def resources_of(log: str, ptx: str) -> dict[str, Resources]:
    """Return the resources of each function, from the assembler's messages and the PTX.

    >>> log = '''Compiling entry function 'k' for 'sm_80'
    ... Function properties for k
    ... 160 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
    ... Used 48 registers, used 1 barriers, 4096 bytes smem, 372 bytes cmem[0]'''
    >>> print(resources_of(log, "")["k"])
    48 registers, 4,096 B shared, 8 B spilled
    """
    threads = {m[1]: int(m[2]) * int(m[3]) * int(m[4]) for m in THREADS.finditer(ptx)}
    resources: dict[str, Resources] = {}
    _, *parts = ENTRY.split(log)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if used := USED.search(text):
            frame = STACK.search(text)
            stack, spills = map(int, frame.groups()) if frame else (0, 0)
            shared, constant = (sum(map(int, kind.findall(used[0]))) for kind in (SHARED, CONSTANT))
            taken = int(used[1]), shared, spills, constant, stack
            resources[name] = Resources(*taken, threads.get(name, 0))
    return resources


# -- what is compiled once -------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _known(source: str, arch: str, folder: str | Path | None) -> CompiledCUDA | str:
    """Return what was made of a source, now or before, or the objections to it."""
    text = source.encode("utf-8", "backslashreplace")
    major, minor = version()
    made_by = f"NVRTC {major}.{minor} for {arch}"
    key = key_of(text, made_by, "\0".join(OPTIONS))
    cache = Cache(folder)
    path = cache.find(key, text)
    if path is not None:
        try:
            return _unpacked(path.read_bytes())
        except (OSError, ValueError, TypeError, KeyError):
            cache.drop(path)
    answer = _compile(source, arch)
    if isinstance(answer, CompiledCUDA):
        cache.store(key, text, _packed(answer), made_by)
    return answer


def _packed(compiled: CompiledCUDA) -> bytes:
    """Return the bytes kept on disk: a line of JSON, and the machine code."""
    resources = {name: asdict(taken) for name, taken in compiled.resources.items()}
    texts = {"arch": compiled.arch, "log": compiled.log, "ptx": compiled.ptx}
    facts = {**texts, "resources": resources}
    return json.dumps(facts).encode() + b"\n" + compiled.cubin


def _unpacked(data: bytes) -> CompiledCUDA:
    head, _, cubin = data.partition(b"\n")
    facts = cast("dict[str, Any]", read_json(head))
    resources = {name: Resources(**taken) for name, taken in facts["resources"].items()}
    return CompiledCUDA(facts["arch"], facts["ptx"], cubin, facts["log"], resources)


# -- what is told of what it refuses ---------------------------------------------------------------


def _refusal(source: str, arch: str, name: str, said: str) -> DeviceError:
    """Return the error about a source that cannot be compiled."""
    major, minor = version()
    subject = f"kernel {name}" if name else "compile"
    too_much = TOO_MUCH.search(said)
    if too_much:
        function, asked, most = too_much[1], int(too_much[2], 16), int(too_much[3], 16)
        return DeviceError(
            f"{subject}: {function} declares {asked:,} bytes of shared memory, and {arch} allows "
            f"{most:,} that are declared",
            where=source_excerpt(source, _line_of(source, function), None, HEAD),
            hint="smaller tiles in its schedule; extern __shared__ memory may be larger",
        )
    # NVRTC's own excerpts and carets are indented; mere remarks are left out.
    words = [line for line in said.splitlines() if line.strip() and not line[0].isspace()]
    words = [line for line in words if not re.search(r"ptxas info|warning #|^Remark", line)]
    shown = words[:12] + [f"and {len(words) - 12} lines more"] * (len(words) > 12)
    line = re.search(rf"{re.escape(PROGRAM)}\((\d+)\)", "\n".join(words))
    assembled = re.search(r"ptx input, line (\d+)", said)
    if line is not None:
        where = source_excerpt(source, int(line[1]), None, HEAD)
    elif assembled is not None:
        where = _ptx_place(source, arch, int(assembled[1]))
    else:
        where = str(here() or "") or None
    return DeviceError(
        "\n  ".join([f"{subject}: NVRTC {major}.{minor} refuses it for {arch}", *shown]),
        where=where,
        hint=f"fix the marked line, if it is yours; {WHAT_WORKS}" if where else WHAT_WORKS,
    )


def _line_of(source: str, function: str) -> int:
    heads = (n for n, line in enumerate(source.split("\n"), 1) if f" {function}(" in line)
    return next(heads, 1)


def _ptx_place(source: str, arch: str, line: int) -> str | None:
    """Return the line of the PTX that the assembler refuses, among its neighbours."""
    text = source.encode("utf-8", "backslashreplace")
    with _program(text) as program:
        if _made_of(program, arch.replace("sm_", "compute_")):
            return None
        ptx = _text(_read("PTX", program))
    return f"in its PTX:\n{window(ptx, line)}"
