"""The shape of a nest, by which a table chooses the default numbers of its plan.

    for i < 17: for j < 999: c[i, j] = sum k < 1000: a[i, k] * b[k, j]
    →  f32 ik,kj, 17 × 1000 × 999

For each input of a sum it says along which axes its elements lie, with neighbours along the last.
The axis j is that of the innermost loop of the result, and k that of the sum; b is common to all
inputs, and i is the rest. What is done with the sum afterwards does not matter.
"""

from __future__ import annotations

from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import Loop, Nest, accesses
from luminal_lab.kernels.nest.sizes import innermost, is_plain, iterations, perfect, stride, work_of
from luminal_lab.machines.defaults import Shape


def shape_of(nest: Nest) -> Shape | None:
    """Return what a nest reads and how large it is; None if its sizes are not known.

    Of several loops in a row, the ones with the most work count: those that read inputs and have
    sums.
    """
    given = {buffer.name: buffer.type.dtype for buffer in nest.inputs}

    def reads_in(loop: Loop) -> list[Read]:
        uses = [(use.name, use.index) for use in accesses((loop,)) if use.name in given]
        return list(dict.fromkeys(Read(name, at, given[name]) for name, at in uses if at))

    def weight(loop: Loop) -> tuple[bool, bool, float]:
        return bool(reads_in(loop)), not is_plain(innermost(loop)), work_of((loop,))

    tops = [statement for statement in nest.body if isinstance(statement, Loop)]
    if not tops:
        return None
    top = max(tops, key=weight)
    *around, last = perfect(top)
    sums = [loop for loop in last.body if isinstance(loop, Loop)]
    folds = [*perfect(max(sums, key=weight))] if sums else []
    reads = reads_in(folds[0] if folds else top)
    roles: dict[str, list[Loop]] = {"b": [], "i": [], "j": [], "k": folds}
    for loop in around:
        users = [stride(nest, read, loop.name) != 0 for read in reads]
        is_like_last = users == [stride(nest, read, last.name) != 0 for read in reads]
        roles["i" if is_like_last == all(users) else "j" if is_like_last else "b"].append(loop)
    roles["j"].append(last)
    ends = {axis: loops[-1] for axis, loops in roles.items() if loops}
    orders = dict.fromkeys(_order(nest, read, ends) for read in reads)
    dtypes = "+".join(dict.fromkeys(read.dtype.short for read in reads))
    sizes = [iterations(roles[axis]) for axis in "ikj"]
    known = [size for size in sizes if isinstance(size, int)]
    return Shape(f"{dtypes} {','.join(orders)}", *known) if len(known) == len(sizes) else None


def _order(nest: Nest, read: Read, ends: dict[str, Loop]) -> str:
    """Return the axes of an input, that of neighbours last; with * if that is not clear."""
    strides = {axis: by for axis in ends if (by := stride(nest, read, ends[axis].name)) != 0}
    known = {axis: by for axis, by in strides.items() if isinstance(by, int)}
    mark = "*" if len({*known.values()}) < len(strides) else ""
    return "".join(sorted(known, key=lambda axis: -known[axis])) + mark
