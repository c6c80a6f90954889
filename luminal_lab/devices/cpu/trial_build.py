"""What a trial is built from: the child process, with the compiler's sanitizers if it has any.

A trial runs a kernel that is not trusted yet (trial.py). Its library is made from the same source
as the one that Python would load, by the same compiler, with everything that finds faults switched
on: AddressSanitizer, UndefinedBehaviorSanitizer, and a pattern that fills local variables.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from luminal_lab.core.origin import warn
from luminal_lab.devices.build.cache import is_passing
from luminal_lab.devices.build.toolchain import Behind, Compiler, compile_library, run_program
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.render.c.program import pool_source

CHECKS = {"address": "AddressSanitizer", "undefined": "UndefinedBehaviorSanitizer"}
"""The sanitizers, and their names."""
FOUND = (
    *("-fsanitize=float-cast-overflow", "-fno-sanitize=object-size"),
    *("-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"),
)
"""AddressSanitizer says more about an object that is too small; integers may overflow."""
PATTERN = "-ftrivial-auto-var-init=pattern"
PATIENCE = 20.0
"""The seconds in which a child that does nothing must have ended."""


@dataclass(frozen=True)
class Builds:
    """How a compiler builds what is tried."""

    compiler: Compiler
    """The compiler for libraries that are tried."""
    plain: Path
    """The child without sanitizers, for libraries as they are; it also starts the other one."""
    child: Path
    """The child with all available sanitizers."""
    sanitizers: tuple[str, ...]
    """Their names; empty if the compiler has no runtime for them."""

    def library(self, source: str, *, behind: Behind | None = None) -> Path:
        """Return a library to be tried."""
        return compile_library(source, self.compiler, behind=behind)


def builds(compiler: Compiler) -> Builds | None:
    """Return how a compiler builds what is tried; None if there can be no child process.

    If it finds less than elsewhere, it says so.
    """
    if sys.platform == "win32" or not _starts(compiler, ()):
        warn("trial: there can be no child process here; kernels are tried in this one")
        return None
    plain = _child(compiler, ())
    checked, checks = _checked(compiler)
    if not checks:
        warn(f"trial: {compiler} has no sanitizers; kernels are tried between guard pages alone")
    return Builds(checked, plain, _child(checked, checks) if checks else plain, checks)


@cache
def _checked(compiler: Compiler) -> tuple[Compiler, tuple[str, ...]]:
    """Return a compiler with all checks that work, and their names."""
    for checks in (tuple(CHECKS), (*CHECKS,)[1:]):
        for extra in ((PATTERN,), ()):
            left = [flag for flag in compiler.flags if flag not in ("-O3", "-Wl,--no-undefined")]
            added = ("-Og", f"-fsanitize={','.join(checks)}", *FOUND, *extra)
            given = replace(compiler, flags=(*added, *left))
            if _starts(given, checks):
                return given, checks
    return compiler, ()


def _child(compiler: Compiler, checks: tuple[str, ...]) -> Path:
    """Return the program of the child."""
    text = Path(__file__).with_name("trial.c").read_text("utf-8")
    text = text.replace("LAB_POOL", pool_source(), 1)
    text = f"#define LAB_CHECKED {len(checks)}\n{text}"
    flags = tuple(flag for flag in compiler.flags if flag not in ("-shared", "-fPIC", "-O3"))
    exported = () if sys.platform == "darwin" else ("-rdynamic",)
    path = compile_library(text, replace(compiler, flags=("-O1", *flags, *exported, "-ldl")))
    if not path.stat().st_mode & 0o100:  # files in the cache are there to be loaded, not run
        path.chmod(0o700)
    return path


@cache
def _starts(compiler: Compiler, checks: tuple[str, ...]) -> bool:
    """Return whether a compiler makes a child that starts, and finds what it should."""
    try:
        status, said = run_program([str(_child(compiler, checks))], Path("/"), PATIENCE)
    except (DeviceError, OSError, subprocess.SubprocessError) as error:
        # What a full disk prevents may work the next time, so nothing is concluded from it.
        for reason in (error, error.__cause__):
            if isinstance(reason, OSError) and is_passing(reason):
                raise DeviceError(
                    f"trial: the child process could not be built: {reason.strerror or reason}",
                    hint="without check= kernels run in this process",
                ) from reason
        return False
    # Some compilers accept the flags of sanitizers whose runtime they lack.
    return "shift exponent" in said if checks else status == 0
