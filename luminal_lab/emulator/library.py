"""A source as a library that runs on this machine; for a trace, with a line for each access.

The compiler's instrumentation for the thread sanitizer calls functions of ours at each load and
store. The compiler's assembly says which line a call belongs to: each call gets a label there, and
a table of them goes into the library.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from luminal_lab.devices.build.cache import Cache, key_of
from luminal_lab.devices.build.toolchain import (
    PROGRAM,
    Compiler,
    compile_library,
    find_cpp_compiler,
    function_of,
    load,
    window,
)
from luminal_lab.emulator.reading import DYNAMIC, DialectName, KernelParameter, PreparedSource, read
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.trust import admit

HERE: Final = Path(__file__).parent
UNITS: Final = ("hopper.h", "units.h")
"""The stand-ins for functions of the prelude in PTX."""
CASTS: Final = {f"lab_cast_{cast}" for cast in ("f16_f32", "f32_f16", "bf16_f32", "f32_bf16")}
BUILTIN: Final = {
    "thread_position_in_threadgroup": "lab_place(lab_now->at_thread)",
    "threadgroup_position_in_grid": "lab_place(lab_now->at_block)",
    "threads_per_threadgroup": "lab_place(lab_now->block_size)",
    "dispatch_threads_per_threadgroup": "lab_place(lab_now->block_size)",
    "threadgroups_per_grid": "lab_place(lab_now->grid_size)",
    "thread_position_in_grid": "lab_place_in_grid()",
    "threads_per_grid": "lab_grid()",
    "thread_index_in_threadgroup": "lab_place(lab_now->number)",
    "thread_index_in_simdgroup": "lab_place(lab_now->number % 32)",
    "simdgroup_index_in_threadgroup": "lab_place(lab_now->number / 32)",
    "threads_per_simdgroup": "lab_place(32)",
    "thread_execution_width": "lab_place(32)",
    "simdgroups_per_threadgroup": "lab_place(lab_simdgroups())",
    "dispatch_simdgroups_per_threadgroup": "lab_place(lab_simdgroups())",
}
"""The value of each Metal attribute that a parameter may have."""
CALL: Final = re.compile(r"\s+(?:callq?|bl|blr)\s")


Build: TypeAlias = Literal["plain", "traced", "unset as zero"]
"""How kernels are compiled: plainly; with each access reported and uninitialised locals filled with
a pattern; or with such locals zero and accesses unreported."""


class ParameterKind(ctypes.Structure):
    """How a kernel takes an argument: `kind` is a letter from interface.h."""

    _fields_ = (("kind", ctypes.c_char), ("size", ctypes.c_uint), ("alignment", ctypes.c_uint))


@dataclass(frozen=True)
class TypedParameter:
    """A parameter of a kernel and how it is taken; `is_shared` if the threadgroup has it."""

    name: str
    kind: str
    size: int
    is_shared: bool = False
    alignment: int = 1


@dataclass(frozen=True)
class KernelSource:
    """The source of kernels, and how many lines of it come before the user's."""

    whole: str
    dialect: DialectName
    above: int = 0

    def line(self, counted: int) -> int:
        """Return a line of the source as the user counts it; 0 if it is above the user's."""
        return max(0, counted - self.above)

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """The user's lines."""
        return tuple(self.whole.split("\n")[self.above :])

    def text(self, line: int) -> str:
        """Return one of the user's lines, stripped."""
        return self.texts[line - 1].strip() if 0 < line <= len(self.texts) else ""

    @functools.cached_property
    def prepared(self) -> PreparedSource:
        """The source as the compiler gets it."""
        return read(
            self.whole, self.dialect, stand_ins() if self.dialect == "cuda" else frozenset()
        )


@dataclass(frozen=True)
class KernelLibrary:
    """Kernels that can be run: the loaded library, and what each takes."""

    loaded: ctypes.CDLL
    takes: Mapping[str, tuple[TypedParameter, ...]]
    shared: Mapping[int, str]
    lines: tuple[int, int]
    """The address of the table of lines, and its length; zeros without a trace."""
    source: KernelSource
    build: Build


@dataclass(frozen=True)
class LaunchedGrid:
    """What was launched: the kernel, its sizes, the seconds that it may take."""

    library: KernelLibrary
    kernel: str
    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    limit: float

    @property
    def grid(self) -> int:
        """How many blocks there are."""
        return math.prod(self.blocks)

    @property
    def block(self) -> int:
        """How many threads a block has."""
        return math.prod(self.threads)

    def error(
        self, who: str, what: str, *, hint: str | None, where: str | None = None
    ) -> DeviceError:
        """Return the error about a fault in the kernel."""
        return DeviceError(f"emulator: kernel {self.kernel}{who}: {what}", where=where, hint=hint)


@functools.cache
def compiler() -> Compiler:
    """Return the compiler that the emulator uses on this machine."""
    return find_cpp_compiler()


@functools.cache
def headers(dialect: DialectName) -> str:
    """Return all stand-ins of a dialect, as one text."""
    more = UNITS if dialect == "cuda" else ()
    return _interface() + _texts("stand_in.h", f"{dialect}.h", *more)


def _interface() -> str:
    """Return what both sides know about each other, and C's casts of 16-bit floats."""
    return f"{_texts('interface.h')}namespace lab_c {{\n{prelude('c', CASTS)}\n}}\n"


def _texts(*names: str) -> str:
    """Return files of this folder as one text."""
    return "".join((HERE / name).read_text("utf-8") for name in names)


@functools.cache
def stand_ins() -> frozenset[str]:
    """Return the names of the prelude's functions that have stand-ins."""
    names = re.findall(r"^static inline [\w ]+? (lab_\w+)\(", _texts(*UNITS), re.MULTILINE)
    return frozenset(names)


class Runtime:
    """The library that runs fibers, and its functions with their types."""

    def __init__(self, library: ctypes.CDLL) -> None:
        void, long, size = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_ulonglong
        address = ctypes.POINTER
        function = functools.partial(function_of, library)
        self.table = function("lab_table", void)
        self.launch = function("lab_launch", ctypes.c_int, void)
        self.stop = function("lab_stop", None)
        self.clear = function("lab_clear", None)
        self.lane = function("lab_lane", None, ctypes.c_uint, void)
        self.standing = function("lab_standing", None, void)
        self.watch = function("lab_watch", ctypes.c_int, void, ctypes.c_int, void, long, long, size)
        self.unwatch = function("lab_unwatch", None)
        self.events = function("lab_events", void, address(long))
        self.findings = function("lab_findings", void, address(ctypes.c_int))
        self.element = function("lab_element", ctypes.c_int, ctypes.c_int)
        self.last_line = function("lab_last_line", ctypes.c_int)
        self.memory = function("lab_map", void, size)
        self.close = function("lab_forbid", None, void, size)
        self.release = function("lab_unmap", None, void, size)


@functools.cache
def runtime() -> Runtime:
    """Return the library that runs fibers."""
    source = _interface() + _texts("fibers.h", "runtime.cpp")
    for name in ("watch.h", "bulk.h"):
        source = source.replace(f'#include "{name}"\n', _texts(name))
    base = compiler()
    flags = (*base.flags, "-O2", "-U_FORTIFY_SOURCE", "-shared")
    return Runtime(load(compile_library(source, replace(base, flags=flags)), "lab_launch"))


UNSET: Final = {"traced": "pattern", "unset as zero": "zero"}


@functools.lru_cache(maxsize=256)
def library_of(source: KernelSource, build: Build) -> KernelLibrary:
    """Return a source's kernels, compiled and loaded."""
    admit(source.whole)
    reading = source.prepared
    loaded = load(_compiled(source, build), "lab_bind")
    function_of(loaded, "lab_bind", None, ctypes.c_void_p)(runtime().table())
    shared = dict(reading.shared)
    for parameters in reading.kernels.values():
        shared |= {DYNAMIC + p.index: p.name for p in parameters if p.bound == "threadgroup"}
    takes = {
        name: tuple(_taken(loaded, name, parameters))
        for name, parameters in reading.kernels.items()
    }
    lines = 0, 0
    if build == "traced":
        count = ctypes.c_longlong.in_dll(loaded, "lab_line_count").value
        lines = ctypes.addressof(ctypes.c_char.in_dll(loaded, "lab_lines")), count
    return KernelLibrary(loaded, takes, shared, lines, source, build)


def _taken(
    loaded: ctypes.CDLL, name: str, parameters: tuple[KernelParameter, ...]
) -> list[TypedParameter]:
    given = [p for p in parameters if p.bound not in BUILTIN and p.name not in ("", "void")]
    kinds = (ParameterKind * (len(given) + 1)).in_dll(loaded, f"lab_takes_{name}")
    return [
        TypedParameter(p.name, k.kind.decode(), k.size, p.bound == "threadgroup", k.alignment)
        for p, k in zip(given, kinds, strict=False)
    ]


def _entries(source: KernelSource) -> str:
    """Return C++ that calls each kernel with a list of arguments and describes its parameters."""
    reading, lines = source.prepared, list[str]()
    for name, parameters in reading.kernels.items():
        type = f"decltype(&{name})"
        values: list[str] = []
        kinds: list[str] = []
        for position, parameter in enumerate(p for p in parameters if p.name not in ("", "void")):
            if source.dialect == "metal" and parameter.bound in BUILTIN:
                values.append(BUILTIN[parameter.bound])
                continue
            value = f"lab_value<{position}, {type}>"
            if parameter.bound == "threadgroup":
                element = f"lab_pointed<{value}>"
                values.append(f'lab_dynamic<{element}>({parameter.index}, "{parameter.name}", 0)')
            else:
                values.append(f"*({value} *)lab_given_[{len(kinds)}]")
            kinds.append(f"lab_told<{value}>::value")
        lines.append(
            f"LAB_EXPORT LAB_UNCHECKED void lab_entry_{name}(void **lab_given_) "
            f"{{ {name}({', '.join(values)}); }}"
        )
        lines.append(
            f"LAB_EXPORT const lab_parameter lab_takes_{name}[] = {{{', '.join([*kinds, '{}'])}}};"
        )
    rows = (f"{{{a}, {b}, {n}, {str(w).lower()}}}" for a, b, n, w in reading.subscripts)
    lines.append(f"const lab_subscript lab_subscripts[] = {{{', '.join([*rows, '{}'])}}};")
    return "\n".join(lines) + "\n"


# -- compiling -------------------------------------------------------------------------------------


def _compiled(source: KernelSource, build: Build, given: tuple[str, ...] | None = None) -> Path:
    text = source.prepared.text + "\n" + _entries(source)
    base = compiler() if given is None else replace(compiler(), flags=given)
    header = headers(source.dialect)
    # The header comes from a file, so that the source's lines are counted from its first.
    path = _kept(header)
    using = " ".join(f"using lab_units::{name};" for name in source.prepared.stand_ins)
    flags = [*base.flags, "-include", str(path), f"-DLAB_DIGEST={key_of(header)}"]
    flags += [f"-DLAB_USING={using}"] * bool(using)
    flags += ["-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"]
    more = "array-bounds" if is_clang(base) else "bounds,object-size"  # clang's needs -O1
    flags += [f"-fsanitize=alignment,{more}"]
    link = ["-shared"] + ["-lm"] * ("windows" not in base.target)
    if build in UNSET and can_fill():
        flags += [f"-ftrivial-auto-var-init={UNSET[build]}"]
    try:
        if build != "traced":
            level = "-O1" if build == "plain" else "-O0"
            return compile_library(text, replace(base, flags=(*flags, level, *link)))
        flags += ["-DLAB_TRACED", "-O0", "-g1", "-S", *_announcing(base)]
        assembly = compile_library(text, replace(base, flags=tuple(flags)))
    except DeviceError as error:
        raise _explained(error, source) from error
    command = (*base.command[:-1], "assembler")
    return compile_library(
        with_lines(assembly.read_text("utf-8"), base.target, source.above),
        replace(base, command=command, flags=("-w", *link)),
    )


@functools.cache
def can_fill() -> bool:
    """Return whether the compiler can fill locals that nothing sets, as gcc 12 and clang 16 can."""
    base = compiler()
    fills = [f"-ftrivial-auto-var-init={value}" for value in UNSET.values()]
    flags = (*base.flags, *fills, "-shared")
    try:
        compile_library("void lab_nothing() {}", replace(base, flags=flags))
    except DeviceError:
        return False
    return True


def unset_line(source: KernelSource) -> int:
    """Return the line in which the compiler sees a local that may be unset; 0 if it sees none."""
    base = compiler()
    if is_clang(base):
        checks = [f"-Werror={prefix}uninitialized" for prefix in ("", "sometimes-", "conditional-")]
    else:  # gcc's warnings miss what it has folded away; its analyser does not
        checks = ["-fanalyzer", "-Werror=analyzer-use-of-uninitialized-value"]
    flags = (*(flag for flag in base.flags if flag != "-w"), *checks)
    try:
        _compiled(source, "unset as zero", flags)
    except DeviceError as error:
        line = re.search(r"\bthe kernel:(\d+):", error.message)
        return int(line[1]) if line else 0
    return 0


def is_clang(candidate: Compiler) -> bool:
    """Return whether a compiler is clang, including zig's."""
    return "clang" in candidate.version or "zig" in candidate.version


def _announcing(base: Compiler) -> list[str]:
    """Return the flags with which a compiler reports each access."""
    if not is_clang(base):
        return ["-fsanitize=thread"]
    each = ["-mllvm", "-tsan-instrument-read-before-write=1"]
    # For systems without this sanitizer, of which only the instrumentation is needed.
    return ["-Xclang", "-fsanitize=thread", *each]


def _kept(header: str) -> Path:
    """Return a file with this text; equal texts share one file."""
    key, data, cache = key_of(header, "header"), header.encode(), Cache()
    return cache.find(key, data) or cache.store(key, data, data, "the emulator")


def with_lines(assembly: str, target: str, above: int = 0) -> str:
    """Return assembly with a label after each call, and a table of their addresses and lines.

    Lines are counted after those `above`, which have none of their own.
    """
    mine = _file_numbers(assembly)
    lines: list[str] = []
    table: list[tuple[int, int]] = []
    line = 0
    for text in assembly.split("\n"):
        lines.append(text)
        words = text.split(None, 3)
        if words and words[0] == ".loc":
            number = int(words[2])
            if words[1] not in mine:
                line = 0
            elif number:  # 0 is not a line: what the compiler adds there belongs to the one before
                line = max(0, number - above)
        elif CALL.match(text):
            lines.append(f"Llab_{len(table)}:")
            table.append((len(table), line))
    prefix = "_" if re.search("macos|darwin|apple", target) else ""
    lines += ["\t.data", "\t.p2align 3"]
    rows = [f"\t.quad Llab_{number}, {line}" for number, line in table]
    for name, data in (("lab_line_count", [f"\t.quad {len(table)}"]), ("lab_lines", rows)):
        lines += [f"\t.globl {prefix}{name}", f"{prefix}{name}:", *data]
    return "\n".join(lines) + "\n"


def _file_numbers(assembly: str) -> set[str]:
    """Return the numbers that assembly uses for the kernel's file."""
    files = re.findall(r"^\s*\.file\s+(\d+)\s+(.*)$", assembly, re.MULTILINE)
    return {number for number, names in files if names.split(" md5")[0].endswith(f'{PROGRAM}"')}


def _explained(error: DeviceError, source: KernelSource) -> DeviceError:
    """Return a compiler's message about a kernel, with the lines as the user wrote them."""

    above = source.above

    def counted(match: re.Match[str]) -> str:
        return f"the kernel:{int(match[1]) - above}:" if int(match[1]) > above else match[0]

    message = error.message.replace("compile: ", "emulator: ", 1).replace(PROGRAM, "the kernel")
    message = re.sub(r"\bthe kernel:(\d+):", counted, message)
    marked = re.search(r"^\s*> +(\d+) \|", error.where or "", re.MULTILINE)
    last = source.whole.rstrip("\n").count("\n") + 1
    where = error.where
    if marked and above < int(marked[1]) <= last:
        where = window("\n".join(source.texts), int(marked[1]) - above)
    hint = "fix the marked line; lines are counted from the first of the source"
    if source.dialect == "metal" and "poisoned" in message:
        hint = "Metal has no float64: cast to float32 on this device"
    return DeviceError(message, where=where, hint=hint)
