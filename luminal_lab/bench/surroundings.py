"""What libraries find when they start: threads, places for caches, a compiler for tinygrad."""

from __future__ import annotations

import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

CLANG = """#!{python}
# clang by zig's, for one C file from stdin to an object on stdout.
import pathlib, subprocess, sys, tempfile
given = [a for a in sys.argv[1:] if a not in ("-", "-o") and not a.startswith("--target=")]
given += ["-fno-sanitize=all", "-fno-stack-protector", "-g0"]
given += ["-target", "{machine}-freestanding-none"]
with tempfile.TemporaryDirectory() as folder:
    source, made = pathlib.Path(folder, "kernel.c"), pathlib.Path(folder, "kernel.o")
    source.write_bytes(sys.stdin.buffer.read())
    command = [sys.executable, "-m", "ziglang", "cc", *given, str(source), "-o", str(made)]
    done = subprocess.run(command)
    if done.returncode:
        sys.exit(done.returncode)
    sys.stdout.buffer.write(made.read_bytes())
"""


def surroundings(threads: int, folder: Path) -> dict[str, str]:
    """Return the variables that set libraries to a number of threads, with caches in a folder."""
    variables = dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "VECLIB_MAXIMUM_THREADS",
            "NUM_CPU_THREADS",
            "NPROC",  # XLA's
        ),
        str(threads),
    )
    variables |= {
        "DEV": "CPU",
        "CACHEDB": str(folder / "tinygrad.db"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    if shutil.which("clang") is None and find_spec("ziglang") is not None:
        variables["CC"] = str(clang(folder))
    return variables


def own_home(surroundings: dict[str, str], home: Path) -> dict[str, str]:
    """Return the same with a home of its own, in which no library finds its earlier caches."""
    home.mkdir(exist_ok=True)
    names = "HOME", "USERPROFILE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"
    return {
        **surroundings,
        **dict.fromkeys(names, str(home)),
        "CACHEDB": str(home / "tinygrad.db"),
        "JAX_COMPILATION_CACHE_DIR": str(home / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def clang(folder: Path) -> Path:
    """Write a script that calls zig's compiler as clang, and return its path."""
    path = folder / "clang"
    if not path.exists():
        machine = "aarch64" if _is_arm() else "x86_64"
        path.write_text(CLANG.format(python=sys.executable, machine=machine), encoding="utf-8")
        path.chmod(0o755)
    return path


def _is_arm() -> bool:
    return platform.machine().lower() in ("arm64", "aarch64")
