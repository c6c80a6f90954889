"""Kernels as their plans made them, kept on disk: reading one takes a tenth of planning it.

    ~/.cache/luminal_lab/kernels/<key>/     readable and writable by its owner alone
        definition.txt                      what the kernel computes, to be read
        kernel.pickle                       its nest, its schedule and its C
        entry.json                          the digest of both; when the entry was last used

A plan looks at a definition and a machine, and any file of the rooms below may say what it makes of
them: the key has all of these. If a file has changed since this process read it, nothing is read or
kept. Kernels of users' ops are not kept either, since their classes are in no such file.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from luminal_lab.core.op import Op, TensorType, fields_of
from luminal_lab.devices.build import cache
from luminal_lab.devices.build.stamp import stamp_of
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.terms import Apply, walk
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_kernel, remaker
from luminal_lab.machines.machine import Machine

ROOMS: Final = ("algebra", "core", "kernels", "machines", "passes", "tensor")
"""What decides how a kernel is made."""
TEXT, PICKLE = "definition.txt", "kernel.pickle"
STAMP: Final = stamp_of(ROOMS)


class _Pickler(pickle.Pickler):
    """A pickler that leaves out hashes, which another process computes differently."""

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401  # what `pickle` asks for
        if isinstance(obj, TensorType):
            return TensorType, (obj.dtype, obj.shape)
        if isinstance(obj, Op):
            return type(obj), tuple(getattr(obj, field) for field in fields_of(type(obj)))
        return NotImplemented


def pickled(kernel: Kernel) -> bytes:
    """Return a kernel as bytes that any process can read."""
    data = io.BytesIO()
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(kernel)
    return data.getvalue()


def folder() -> Path:
    """Return the folder of planned kernels."""
    libraries = cache.user_folder() or cache.spare_folder() / "libraries"
    return libraries.with_name("kernels")


def planner(
    machine: Machine, planned: Callable[[Kernel], object] = lambda kernel: None
) -> Callable[[Definition, str], Kernel]:
    """Return what makes kernels by their default schedules, or finds them on disk.

    `planned` gets those that had to be planned.
    """
    are_kept = stamp_of(ROOMS) == STAMP

    def kernel(definition: Definition, name: str) -> Kernel:
        terms = walk(*(line.term for line in definition.lines))
        theirs = (isinstance(term, Apply) and not _is_ours(type(term.op)) for term in terms)
        if not are_kept or any(theirs):
            made = make_kernel(definition, name, machine)
            planned(made)
            return made
        missed = _planned.cache_info().misses
        made, is_new = _planned(definition.named(name), machine, folder())
        if is_new and _planned.cache_info().misses > missed:
            planned(made)
        return made

    return kernel


def _is_ours(op: type[Op]) -> bool:
    return op.__module__.startswith("luminal_lab.")


@lru_cache(maxsize=512)
def _planned(definition: Definition, machine: Machine, folder: Path) -> tuple[Kernel, bool]:
    """Return a kernel, and whether it had to be planned."""
    text = str(definition)
    path = folder / cache.key_of(STAMP, repr(machine), text)
    with suppress(OSError):
        files, _ = cache.read_files(path, (TEXT, PICKLE))
        kernel: Kernel = pickle.loads(files[PICKLE])
        return replace(kernel, make=remaker(kernel, machine)), False
    kernel = make_kernel(definition, definition.name, machine)
    files = {TEXT: text.encode(), PICKLE: pickled(replace(kernel, make=None))}
    with suppress(OSError):  # a kernel that cannot be kept is made again
        cache.write_files(path, files, {})
    return kernel, True
