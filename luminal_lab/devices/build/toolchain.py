"""From C source to functions: find the machine's compiler, compile a library once, load it."""

import ctypes
import functools
import importlib.util
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import ENOMEM
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any, TypeAlias

from typing_extensions import override

from luminal_lab.devices.build.cache import (
    LIBRARY,
    Cache,
    Check,
    is_full,
    key_of,
    temporary_folder,
)
from luminal_lab.devices.build.located import device_error
from luminal_lab.errors import DeviceError, Interrupted
from luminal_lab.interrupts import held, look
from luminal_lab.progress import Progress, progress
from luminal_lab.trust import admit

USUAL = "cc", "gcc", "clang"
"""The usual names of a machine's compiler."""
ABSENT = "it is not there"
PROGRAM = "program.c"
PATIENCE = 300.0
"""The seconds a compiler may take; on first use zig builds its C library, in 10 to 150."""
ANSWER = 10.0
"""The seconds in which a compiler must identify itself; a silent one is not asked again."""
WAITING = 0.05
"""The seconds between two checks of a compiler that runs."""
DOUBT = 5.0
"""The seconds after which a compiler that is still at work must compile a test line."""
SAID = 1 << 20
"""How many bytes of a compiler's messages are kept, from the start."""
LONGEST = 400
"""How much of a line of a compiler's messages an error shows."""
SHOWN = 12
"""How many lines of a kernel's definition an error shows."""
KERNEL = re.compile(r"[a-z][\w ]* (kernel_\w+)\([^;]*\{$")
"""How a function of a kernel begins."""
Behind: TypeAlias = Callable[[str], str]
"""Says what a function of the source is made from: ops, and the user's lines."""
STILL = "without a compiler graphs run in NumPy's interpreter, slowly"
KILLED = 9
"""The signal with which a system ends programs when memory runs out."""
ROOM = f"end other programs that take memory, or compile a smaller graph; {STILL}"
FULL = "the disk of {} is full; make room there"
NO_MEMORY = re.compile(
    r"out of memory|cannot allocate memory|(virtual )?memory exhausted|std::bad_alloc"
    r"|Killed signal terminated program",
    re.IGNORECASE,
)
"""How compilers and linkers report that memory ran out."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler: its command, its version, the machine it compiles for, our flags."""

    command: tuple[str, ...]
    version: str
    target: str
    flags: tuple[str, ...]

    @override
    def __str__(self) -> str:
        return self.version

    def call(self, source: str, library: str) -> list[str]:
        """Return the command that makes a library of a source file."""
        return [*self.command, source, *self.flags, "-o", library]


# -- finding one -----------------------------------------------------------------------------------


def find_compiler(asked: str | None = None, *, patience: float | None = None) -> Compiler:
    """Return the compiler with a name or path, or else the first that this machine has.

    The candidates are cc, gcc, clang, and zig's, which is a Python package: `pip install ziglang`.
    One that did not answer for `patience` seconds is asked again only with more patience.
    """
    if asked is not None:
        command = _command(asked)
        if command is None:
            known = [name for name in USUAL if _command(name)]
            raise device_error(
                f"compiler: there is no {asked!r}, neither on the PATH nor as a file",
                hint=f"this machine has {', '.join(known)}" if known else "pip install ziglang",
            )
        try:
            return _probe(command, patience)
        except UnfitError as why:
            hint = "name a compiler that is called like gcc and clang, or none"
            hint = _more_patience(f"{asked!r}, ", patience) if why.hangs else hint
            raise device_error(f"compiler: {asked!r} cannot be used: {why}", hint=hint) from None
    return _first_compiler("C", lambda compiler: compiler, patience)


class UnfitError(Exception):
    """A compiler cannot be used, and why; `hangs` if it did not answer."""

    def __init__(self, why: str, *, hangs: bool = False) -> None:
        super().__init__(why)
        self.hangs = hangs


def _first_compiler(
    language: str, use: Callable[[Compiler], Compiler], patience: float | None
) -> Compiler:
    """Return the first compiler of this machine that can be used for a language."""
    reasons: list[str] = []
    hangs = False
    for name in (*USUAL, "ziglang"):
        try:
            return use(_probe(_command(name), patience))
        except UnfitError as why:
            hangs |= why.hangs
            reasons.append(f"{name}: {why}")
    hint = "pip install ziglang"
    if language == "C":
        hint = f"{_more_patience('', patience) if hangs else hint}; {STILL}"
    raise device_error(
        f"compiler: no {language} compiler was found; looked for cc, gcc and clang on the PATH, "
        "and for the package ziglang\n  " + "\n  ".join(reasons),
        hint=hint,
    )


def find_cpp_compiler() -> Compiler:
    """Return the first C compiler of this machine that also compiles C++, or else zig's.

    Its flags are for a library that needs nothing of C++'s own, whose headers may be missing.
    """
    return _first_compiler("C++", _with_cpp, None)


def _with_cpp(compiler: Compiler) -> Compiler:
    """Return a C compiler as a C++ compiler, or raise: that half is often not installed."""
    command = (*compiler.command, "-x", "c++")
    _try(command, "template <class T> T lab_try(T x) { return x; }\n", "C++", ANSWER)
    flags = ["-std=gnu++17", "-w", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
    if "zig" in compiler.version:  # which checks for undefined behaviour unless told otherwise
        flags.append("-fno-sanitize=undefined")
    if not re.search("msvc|mingw|windows", compiler.target):
        flags.append("-fPIC")
    return Compiler(command, compiler.version, compiler.target, tuple(flags))


def _command(name: str) -> tuple[str, ...] | None:
    """Return the command for a compiler, valid in any folder."""
    if name == "ziglang":
        spec = None
        with suppress(ImportError, ValueError):  # a module finder may refuse
            spec = importlib.util.find_spec("ziglang")
        available = sys.executable and spec is not None
        return (sys.executable, "-m", "ziglang", "cc") if available else None
    is_path = len(Path(name).parts) > 1 or name.startswith((".", "~"))
    path = shutil.which(str(Path(name).expanduser().absolute()) if is_path else name)
    if path is None:
        return None
    command = str(Path(path).absolute())
    return (command, "cc") if Path(path).stem == "zig" else (command,)


_HANGING: dict[tuple[object, ...], float] = {}
"""The compilers that did not answer in this process, as they were, and for how many seconds."""
_KNOWN: dict[tuple[object, ...], Compiler] = {}
"""The compilers that have identified themselves in this process, as they were then."""


def _probe(command: tuple[str, ...] | None, patience: float | None) -> Compiler:
    """Return how a compiler identifies itself; it is asked once, and again if its file changes."""
    if command is None:
        raise UnfitError(ABSENT)
    try:
        key = (os.environ.get("PATH"), command, _file_of(command))
    except OSError as error:
        raise UnfitError(error.strerror or str(error)) from None
    if key not in _KNOWN:
        _KNOWN[key] = _answers(command, patience)
    return _KNOWN[key]


def _file_of(command: tuple[str, ...]) -> tuple[int, ...]:
    """Return the file of a compiler and its date; for a Python package, how it begins."""
    path = command[0]
    if command[1:2] == ("-m",) and (spec := importlib.util.find_spec(command[2])) is not None:
        path = spec.origin or path
    file = Path(path).stat()
    return file.st_dev, file.st_ino, file.st_mtime_ns, file.st_size


def _answers(command: tuple[str, ...], patience: float | None) -> Compiler:
    """Ask a compiler to identify itself."""
    zig = command[-1] == "cc" and len(command) > 1
    questions = [(*command, "--version")]
    questions += [(*command[:-1], "version")] if zig else [(*command, "-dumpmachine")]
    waits, folder = ANSWER if patience is None else patience, temporary_folder()
    about, more = (
        _asked(command, question, question[-1], folder, waits).strip() for question in questions
    )
    version = about.splitlines()[0].strip()
    stated = re.search(r"^Target: (\S+)", about, re.MULTILINE)
    if zig:  # its --version is clang's, and its -dumpmachine is not its target
        version = f"zig {more} ({version})"
    target = stated[1] if stated else more.splitlines()[0]
    return Compiler(command, version, target, flags_for(target))


def _asked(
    command: tuple[str, ...], question: tuple[str, ...], subject: str, folder: Path, patience: float
) -> str:
    """Return a compiler's answer to a question; it is not asked if it did not answer before."""
    key: tuple[object, ...] = command
    try:
        key = (_file_of(command), *command[1:])  # the program itself, whatever its name here
        waited = _HANGING.get(key)
        if waited is not None and waited >= patience:
            why = f"it gave no answer within {waited:g} s, and is not asked again"
            raise UnfitError(why, hangs=True)
        code, said = run_program(list(question), folder, patience)
    except subprocess.TimeoutExpired:
        _HANGING[key] = patience
        raise UnfitError(f"{subject} had no answer within {patience:g} s", hangs=True) from None
    except OSError as error:
        raise UnfitError(error.strerror or str(error)) from None
    if code or (not said.strip() and "-S" not in question):
        words = "".join(f", and says: {line[:LONGEST]}" for line in said.strip().splitlines()[:1])
        raise UnfitError(f"{subject} ends with status {code}{words}")
    return said


def _try(command: tuple[str, ...], source: str, language: str, patience: float) -> None:
    """Raise unless a compiler compiles a line."""
    try:
        with _folder() as folder:
            (folder / PROGRAM).write_text(source)
            question = (*command, "-S", PROGRAM, "-o", "try.s")
            _asked(command, question, language, folder, patience)
    except OSError as error:
        raise UnfitError(error.strerror or str(error)) from None


def _more_patience(asked: str, patience: float | None) -> str:
    seconds = 4 * (ANSWER if patience is None else patience)
    return f"find_compiler({asked}patience={seconds:g}) waits longer, and may find that it works"


def flags_for(target: str) -> tuple[str, ...]:
    """Return the flags for a library for a target: fast, and made for this very machine."""
    arch, *_ = target.split("-")
    flags = ["-std=gnu11", "-O3"]
    if re.fullmatch(r"x86_64|amd64|i[3-6]86", arch):
        flags.append("-march=native")
    elif re.match(r"aarch64|arm|powerpc|ppc", arch):
        flags.append("-mcpu=native")
    flags += ["-fopenmp-simd", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    flags.append("-fwrapv")  # integers wrap around, as NumPy's do
    # Warnings about generated code help nobody; without them, the first message is the error.
    flags += ["-w", "-shared"]
    if "msvc" in target:
        return tuple(flags)
    if "mingw" in target or "windows" in target:
        return (*flags, "-static-libgcc", "-lm")
    # Outside Linux, an undefined function is an error anyway.
    missing = ["-Wl,--no-undefined"] if "linux" in target else []
    return (*flags, "-fPIC", *missing, "-lm")


@functools.cache
def machine() -> str:
    """Return what code for this very machine depends on: its processor and its C library."""
    parts = [platform.machine(), *platform.libc_ver()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        telling = r"(model name|flags|features|cpu|cpu (implementer|part|variant)|isa)\s*:.*"
        lines = info.read_text("utf-8", "replace").splitlines()
        parts += sorted({line for line in lines if re.fullmatch(telling, line, re.IGNORECASE)})
    elif sys.platform == "darwin":  # where platform.processor() says "arm" for all of them
        names = ["brand_string", "features", "leaf7_features"]
        ask = ["/usr/sbin/sysctl", "-n", *(f"machdep.cpu.{name}" for name in names)]
        parts.append(run_program(ask, Path("/"), 10)[1])
    else:
        parts.append(platform.processor())
    return "\n".join(parts)


# -- compiling -------------------------------------------------------------------------------------


def library_key(source: str, compiler: Compiler) -> str:
    """Return the key of the library that a compiler makes of a source on this machine."""
    flags = "\0".join(compiler.flags)
    return key_of(encoded(source), compiler.version, compiler.target, flags, machine())


def encoded(source: str) -> bytes:
    """Return the bytes of a source, whatever its comments hold."""
    return source.encode("utf-8", "backslashreplace")


def check_of(compiler: Compiler, entries: Sequence[str]) -> Check:
    """Return a function that raises an error about a library that lacks functions."""

    def check(path: Path) -> None:
        fault = unusable(path, entries)
        path.stat()  # a file that somebody has removed is not the compiler's fault
        if fault:
            raise device_error(
                f"compile: {compiler} ended with status 0, and what it made {fault}",
                hint=f'find_compiler("clang") would ask another compiler; {STILL}',
            )

    return check


def cached_library(cache: Cache, key: str, text: bytes, entries: Sequence[str]) -> Path | None:
    """Return the library with a key if it is sound and can be used; what is of no use goes."""
    library = cache.find(key, text)
    if library is not None and unusable(library, entries):
        cache.drop(library)
        return None
    return library


def compile_library(
    source: str,
    compiler: Compiler,
    *,
    entries: Sequence[str] = (),
    folder: str | Path | None = None,
    timeout: float | None = None,
    behind: Behind | None = None,
) -> Path:
    """Return a shared library for some C source: the cached one if it is sound, or a new one.

    `entries` are functions that it must have: a library that cannot be loaded with them is not
    kept. `behind` says what a function of the source is made from, should it be refused.
    """
    admit(source)
    text, key, cache = encoded(source), library_key(source, compiler), Cache(folder)
    library = cached_library(cache, key, text, entries)
    if library is None:
        data = build(source, compiler, timeout=timeout, behind=behind)
        library = cache.store(key, text, data, compiler.version, check_of(compiler, entries))
    return library


def build(
    source: str, compiler: Compiler, *, timeout: float | None = None, behind: Behind | None = None
) -> bytes:
    """Return the bytes of a shared library of some C source."""
    (library,) = build_all([source], compiler, timeout=timeout, behind=behind)
    return library


def build_all(
    sources: Sequence[str],
    compiler: Compiler,
    *,
    at_once: int = 1,
    timeout: float | None = None,
    behind: Behind | None = None,
    stop: Event | None = None,
) -> list[bytes]:
    """Return the bytes of shared libraries of some C sources, compiled several at once.

    If some are refused, the error is about the first of them, whichever was refused earlier. With
    `stop`, an event that ends it early, it is done in the background and shows no bar.
    """
    for source in sources:
        admit(source)
    patience = PATIENCE if timeout is None else timeout

    def hangs() -> bool:
        """Return whether that was too much for it, or whether it has stopped working."""
        try:
            _try(compiler.command, "int lab_try;\n", "C", min(patience, ANSWER))
        except UnfitError as why:
            return why.hangs
        return False

    try:
        with ExitStack() as stack:
            folders = [stack.enter_context(_folder()) for _ in sources]
            for folder, source in zip(folders, sources, strict=True):
                (folder / PROGRAM).write_bytes(encoded(source))
            call = compiler.call(PROGRAM, LIBRARY)
            calls = [(call, folder) for folder in folders]
            ended = run_programs(calls, patience, hangs, at_once, stop)
            libraries: list[bytes] = []
            for folder, source, end in zip(folders, sources, ended, strict=False):
                if isinstance(end, subprocess.TimeoutExpired):
                    raise _too_slow(source, compiler, end, hangs)
                code, said = end
                library = folder / LIBRARY
                if code or not library.is_file():
                    full = shutil.disk_usage(folder).free < 1 << 20
                    where = folder.parent if full else None
                    raise _refusal(source, compiler, code, said, where, behind)
                libraries.append(library.read_bytes())
            return libraries
    except OSError as error:
        folder_name = temporary_folder()
        again = f"find_compiler() looks for a compiler again; {STILL}"
        out = "out of memory: " * (error.errno == ENOMEM)
        raise device_error(
            f"compile: {out}{compiler} could not be run in {folder_name}: {error}",
            hint=ROOM if out else FULL.format(folder_name) if is_full(error) else again,
        ) from error


def _too_slow(
    source: str, compiler: Compiler, error: subprocess.TimeoutExpired, hangs: Callable[[], bool]
) -> DeviceError:
    """Return the error about a compiler that took too long for a source."""
    lines = source.count("\n") + 1
    has_hung = hangs()
    return device_error(
        f"compile: {compiler} was ended after {error.timeout:.3g} s, with {lines:,} lines of "
        "source" + ", and had no answer for a single line either" * has_hung,
        hint=f'find_compiler("clang") would ask another compiler; {STILL}'
        if has_hung
        else f"allow it more time with timeout=; {STILL}",
    )


@contextmanager
def _folder() -> Generator[Path, None, None]:
    """Make a temporary folder, which is removed after the block, with Ctrl-C held off."""
    with (
        held(),
        tempfile.TemporaryDirectory(prefix="luminal_lab-", ignore_cleanup_errors=True) as name,
    ):
        yield Path(name)


def _refusal(
    source: str, compiler: Compiler, code: int, said: str, full: Path | None, behind: Behind | None
) -> DeviceError:
    """Return the error about a compiler that made no library."""
    # The compiler's own excerpts and carets are indented; our excerpt has more lines.
    lines = [line[:LONGEST] for line in said.splitlines()]
    said = "\n".join(lines)
    words = [line for line in lines if line.strip() and not line[0].isspace()]
    shown = words[:12] + [f"and {len(words) - 12} lines more"] * (len(words) > 12)
    line = _culprit(source, said)
    out = code == -KILLED or (NO_MEMORY.search(said) and code)
    if full is not None:
        hint = FULL.format(full)
    elif out:
        hint = ROOM
    elif re.search(r"[\w/]\.h\W.*(no such file|not found)", said, re.IGNORECASE):
        hint = "the compiler lacks this file; pip install ziglang brings the C library's headers"
    elif line is None:
        hint = f'find_compiler("clang") would ask another compiler; {STILL}'
    else:
        hint = f"fix the marked line, if it is yours; {STILL}"
    status = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
    message = f"compile: {'out of memory: ' if out else ''}{compiler} made no library, and {status}"
    return device_error(
        "\n  ".join([message, *shown]),
        where=source_excerpt(source, line, behind) if line else None,
        hint=hint,
    )


def source_excerpt(
    source: str, line: int, behind: Behind | None, head: re.Pattern[str] = KERNEL
) -> str:
    """Return a line among its neighbours, the kernel it belongs to, and what that is made from."""
    shown = [window(source, line)]
    function, comment = kernel_at(source, line, head)
    if function:
        shown.append(f"in {function}" + (", which computes" if comment else ""))
        shown += [f"  {text}" for text in comment[:SHOWN]]
        shown += [f"  and {len(comment) - SHOWN} lines more"] * (len(comment) > SHOWN)
        origins = behind(function) if behind is not None else ""
        shown += [f"from {text}" if n == 0 else text for n, text in enumerate(origins.splitlines())]
    return "\n".join(shown)


def kernel_at(source: str, line: int, head: re.Pattern[str] = KERNEL) -> tuple[str, list[str]]:
    """Return the function of a kernel that contains a line, and the lines of the comment above it.

    Only the first of a kernel's functions has the comment, and the others share it.

    >>> kernel_at("// kernel a(x)\\nvoid kernel_a(int x) {\\n  y;\\n}", 3)
    ('kernel_a', ['kernel a(x)'])
    """
    lines = source.split("\n")[:line]
    heads = [(at, match[1]) for at, text in enumerate(lines) if (match := head.match(text))]
    at, name = heads[-1] if heads else (0, "")
    if any(text.startswith("}") for text in lines[at:-1]):  # the line is not in a function
        return "", []
    end = at
    while end and not lines[end - 1].startswith("//"):
        end -= 1
    start = end
    while start and lines[start - 1].startswith("//"):
        start -= 1
    return name, [text[2:].removeprefix(" ") for text in lines[start:end]]


def _culprit(source: str, said: str) -> int | None:
    """Return the number of the first line that a compiler or linker complains about."""
    position = re.search(rf"{re.escape(PROGRAM)}:(\d+)", said)
    if position:
        return int(position[1])
    # A linker names what is missing, but no line.
    missing = re.search(r"undefined (?:reference to|symbol)[^\w]*?([A-Za-z_]\w*)", said)
    missing = missing or re.search(r"[Uu]ndefined symbols[^\n]*\n\s*\"_(\w+)\"", said)
    if missing:
        for number, line in enumerate(source.split("\n"), 1):
            if re.search(rf"\b{missing[1]}\b", line):
                return number
    return None


def window(source: str, line: int, around: int = 3) -> str:
    """Return a line of source, counted from 1, marked and among its neighbours.

    >>> print(window("int f(void) {\\n  return y;\\n}", 2))
      1 | int f(void) {
    > 2 |   return y;
      3 | }
    """
    lines = source.removesuffix("\n").split("\n")  # as in C: a form feed ends no line
    line = min(line, len(lines))
    first, last = max(1, line - around), min(len(lines), line + around)
    width = len(str(last))
    return "\n".join(
        f"{'>' if number == line else ' '} {number:>{width}} | {lines[number - 1][:120]}".rstrip()
        for number in range(first, last + 1)
    )


def run_program(command: list[str], folder: Path, timeout: float) -> tuple[int, str]:
    """Run a program, and return its status and the beginning of its output.

    Nothing that it starts outlives it; its temporary files go into the folder too.
    """
    (end,) = run_programs([(command, folder)], timeout)
    if isinstance(end, subprocess.TimeoutExpired):
        raise end
    return end


def run_programs(
    commands: Sequence[tuple[list[str], Path]],
    timeout: float,
    hangs: Callable[[], bool] | None = None,
    at_once: int = 1,
    stop: Event | None = None,
) -> list[tuple[int, str] | subprocess.TimeoutExpired]:
    """Run programs in their folders, and return how each of them ended, as `run_program` does.

    Once one has failed, those after it are ended, and the list ends with it. If `stop` is set, all
    are ended. After some seconds `hangs` is asked whether to keep waiting.
    """
    runs: list[_Running] = []
    shown = progress("the compiler") if stop is None else Progress()
    with held(), ExitStack() as stack, shown as bar:
        while True:
            active = [run for run in runs if run.end is None]
            failed = next((n for n, run in enumerate(runs) if run.is_failure), None)
            if failed is None and len(runs) < len(commands) and len(active) < at_once:
                run = _Running(*commands[len(runs)])
                stack.callback(run.close)
                runs.append(run)
                continue
            if all(run.end is not None for run in runs[:failed]):
                return [run.end for run in runs if run.end is not None][: len(runs[:failed]) + 1]
            if sys.platform != "win32":
                _wait(active)
            for run in active:
                run.listen()
                waited = monotonic() - run.begin
                has_hung = run.end is None and waited >= timeout
                if not has_hung and run.end is None and hangs is not None and waited > DOUBT:
                    hangs, has_hung = None, hangs()
                if has_hung:
                    waited = min(timeout, monotonic() - run.begin)
                    run.end = subprocess.TimeoutExpired(run.process.args, waited)
                    run.close()
            look()
            if stop is not None and stop.is_set():
                raise Interrupted("compile: the compilers were ended")
            bar.now("the compiler")


class _Running:
    """A program that runs, and the beginning of what it has said."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self.begin = monotonic()
        self.said = bytearray()
        self.end: tuple[int, str] | subprocess.TimeoutExpired | None = None
        """Its status and its output, once it has ended, or that it took too long."""

    @property
    def is_failure(self) -> bool:
        """Whether it has ended, and not well."""
        return self.end is not None and (not isinstance(self.end, tuple) or self.end[0] != 0)

    def listen(self) -> None:
        """Take what it has printed, up to SAID, and note its end."""
        if self._has_ended():
            self.close()
            self.end = self.process.returncode, self.said.decode("utf-8", "replace")

    def _has_ended(self) -> bool:
        process = self.process
        assert process.stdout is not None
        if sys.platform == "win32":
            with suppress(subprocess.TimeoutExpired):
                self.said += process.communicate(timeout=WAITING)[0][:SAID]
            return process.returncode is not None
        # The end of its output is not its end: processes that it started may keep it open.
        ended = has_ended(process.pid)
        output = select.poll()
        output.register(process.stdout, select.POLLIN)
        while output.poll(0):
            part = os.read(process.stdout.fileno(), 1 << 16)
            self.said += part[: SAID - len(self.said)]
            if not ended and not part:
                sleep(WAITING / 50)  # it is ending, or has closed its output and goes on
            if not (ended and part and len(self.said) < SAID):
                break
        return ended

    def close(self) -> None:
        """End it, with everything that it has started."""
        end_with_children(self.process)
        if self.process.stdout is not None:
            self.process.stdout.close()


def _wait(active: Sequence[_Running]) -> None:
    """Wait a moment for any of some programs to print something, or to end."""
    if not any(has_ended(run.process.pid) for run in active):
        output = select.poll()
        for run in active:
            if run.process.stdout is not None:
                output.register(run.process.stdout, select.POLLIN)
        output.poll(WAITING * 1000)


def end_with_children(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session of its own, and everything that it has started."""
    if process.returncode is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        # Those that have left its group; the group keeps its number while one process is in it.
        end_children(process.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_children(process: int) -> None:
    """End everything that a process has started; nobody can list that once it has ended."""
    for started in [*_started_by(process)]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(started, signal.SIGKILL)


def _started_by(process: int) -> Iterator[int]:
    """Yield the processes started by one, directly or not, if Linux lists them."""
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text("ascii").split()):
                yield child
                yield from _started_by(child)


def has_ended(process: int) -> bool:
    """Return whether a child has ended; its number stays reserved."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


# -- loading ---------------------------------------------------------------------------------------


def unusable(path: Path, entries: Sequence[str]) -> str:
    """Return why a compiled library cannot be used, or an empty text."""
    if not entries:
        return ""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"cannot be loaded: {str(error).removeprefix(f'{path}: ')}"
    missing = [name for name in entries if not hasattr(library, name)]
    if sys.platform == "win32":  # a loaded library cannot be renamed
        ctypes.WinDLL("kernel32").FreeLibrary(ctypes.c_void_p(library._handle))  # pyright: ignore[reportPrivateUsage]  # there is no other name for it
    return f"has no function {missing[0]!r}" if missing else ""


def function_of(library: ctypes.CDLL, name: str, returns: Any, *takes: Any) -> Callable[..., Any]:  # noqa: ANN401  # of ctypes
    """Return a function of a library that knows the C types of what it returns and takes."""
    function = library[name]
    function.restype, function.argtypes = returns, takes
    return function


def load(path: str | Path, *functions: str) -> ctypes.CDLL:
    """Return a library that is loaded, and has these functions."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise device_error(
            f"load: {path} cannot be loaded: {error}",
            hint="luminal-lab cache clear --older 0 --yes has everything compiled again",
        ) from error
    for name in functions:
        if not hasattr(library, name):
            fault = f"load: {path} has no function {name!r}"
            raise device_error(fault, hint=f"the source must define {name}, and not as static")
    return library
