"""Read what this machine has: the width of its vectors, its cores, its caches."""

import functools
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from luminal_lab.machines.machine import Machine

USUAL = Machine()
"""The defaults for a machine that does not report its own."""
CPUS = Path("/sys/devices/system/cpu")
GROUPS = Path("/sys/fs/cgroup")
OLD_NAMES = "memory.limit_in_bytes", "memory.usage_in_bytes"
"""The names of memory in the first version of Linux's control groups."""
SYSCTL = {
    "l1": ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
    "l2": ("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
    "l3": ("hw.l3cachesize",),
}
"""The names of caches on a Mac; with two kinds of cores, those of the faster."""


@functools.cache
def this_machine() -> Machine:
    """Return the machine that this process runs on, with the cores that it may use."""
    caches = _sysctl_caches() if sys.platform == "darwin" else linux_caches(CPUS)
    l2, features = caches.get("l2") or USUAL.l2, _features()
    return Machine(
        vector_bytes=vector_bytes(platform.machine(), features),
        cores=usable_cores(),
        l1=caches.get("l1") or USUAL.l1,
        l2=l2,
        l3=caches.get("l3") or (max(l2, USUAL.l3) if not caches else l2),
        dot=2 if "avx512_bf16" in features.split() else 1,
    )


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform != "win32" and hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def vector_bytes(arch: str, features: str) -> int:
    """Return how wide the vectors of a processor are, in bytes.

    >>> vector_bytes("x86_64", "sse2 avx avx2"), vector_bytes("arm64", "")
    (32, 16)
    """
    if not re.fullmatch(r"x86_64|AMD64|i[3-6]86", arch, re.IGNORECASE):
        return 16  # NEON, and the least that others have
    words = set(features.lower().split())
    if "avx512f" in words:
        return 64
    return 32 if words & {"avx", "avx1.0"} or not words else 16


def _features() -> str:
    """Return the words for available instructions; none if the system does not say."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
        line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
        return line[1] if line else ""
    if sys.platform == "darwin":
        names = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
        return " ".join(_sysctl(names).values())
    return ""


def linux_caches(cpus: Path) -> dict[str, int]:
    """Return the caches of the first core that a folder of /sys describes."""
    caches: dict[str, int] = {}
    for folder in sorted(cpus.glob("cpu[0-9]*/cache"))[:1]:
        for index in folder.glob("index*"):
            with suppress(OSError, ValueError):
                level, kind, size = (
                    (index / name).read_text("utf-8").strip() for name in ("level", "type", "size")
                )
                if kind in ("Data", "Unified"):
                    caches[f"l{level}"] = _bytes(size)
    return caches


def _bytes(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    return int(text.rstrip("KMG")) << units.get(text[-1:], 0)


def _sysctl_caches() -> dict[str, int]:
    values = _sysctl([name for names in SYSCTL.values() for name in names])
    caches: dict[str, int] = {}
    for level, names in SYSCTL.items():
        known = [int(values[name]) for name in names if values.get(name, "").isdigit()]
        if known:
            caches[level] = known[0]
    return caches


def _sysctl(names: list[str] | tuple[str, ...]) -> Mapping[str, str]:
    command = ["/usr/sbin/sysctl", *names]
    with suppress(OSError, subprocess.SubprocessError):
        # It ends with an error if one name is unknown, but still prints the others.
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        pairs = (line.partition(": ") for line in done.stdout.splitlines())
        return {name: value.strip() for name, _, value in pairs}
    return {}


def available_memory() -> int | None:
    """Return how many bytes this process could still get; None if the system does not say."""
    limits: list[int] = []
    with suppress(OSError, AttributeError):
        text = Path("/proc/meminfo").read_text("utf-8")
        sizes = dict(re.findall(r"^(MemAvailable|SwapFree):\s*(\d+) kB", text, re.MULTILINE))
        if sizes:
            limits.append(sum(map(int, sizes.values())) << 10)
    with suppress(OSError):
        limits += group_memory(GROUPS, Path("/proc/self/cgroup").read_text("utf-8"))
    with suppress(OSError, ImportError, ValueError):
        limits += _limited(Path("/proc/self/statm").read_text("utf-8"))
    return max(0, min(limits)) if limits else None


def group_memory(root: Path, said: str) -> list[int]:
    """Return what the control groups of a process leave it; `said` is Linux's list of them.

    A group also has the limits of the groups around it.
    """
    remaining: list[int] = []
    for line in said.splitlines():
        number, kinds, path = line.split(":", 2)
        if number == "0":
            folder, most, taken = root, "memory.max", "memory.current"
        elif "memory" in kinds.split(","):
            folder, most, taken = root / "memory", *OLD_NAMES
        else:
            continue
        inner = folder / path.strip("/")
        for group in (inner, *inner.parents):
            # Cached pages of files count as used, but are given back on demand.
            with suppress(OSError, ValueError):
                limit = int((group / most).read_text("utf-8"))
                stat = (group / "memory.stat").read_text("utf-8")
                # The total, which the first version has, includes the groups within.
                cached = re.findall(r"^(?:total_)?inactive_file (\d+)", stat, re.MULTILINE)
                used = int((group / taken).read_text("utf-8"))
                remaining.append(limit - used + max(map(int, cached), default=0))
            if group == folder:
                break
    return remaining


def _limited(statm: str) -> list[int]:
    """Return what the limits of this process leave it; `statm` is Linux's account of its memory."""
    import resource  # noqa: PLC0415  # Windows has none

    pages = [int(word) * resource.getpagesize() for word in statm.split()]
    kinds = (resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])
    limits = [(resource.getrlimit(kind)[0], used) for kind, used in kinds]
    return [limit - used for limit, used in limits if limit != resource.RLIM_INFINITY]
