"""Names of loops for C: the dot before a level becomes an underscore, `i.block` is `i_block`."""

from __future__ import annotations

from dataclasses import replace

from luminal_lab.core.dims import Dim
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.terms import axis_of
from luminal_lab.kernels.nest.nest import Nest, substituted


def spelled(nest: Nest) -> Nest:
    """Return a nest with loop names without dots, all still different."""
    taken, axes = set(nest.names), dict[str, Dim]()
    for name, loop in nest.loops.items():
        if "." in name:
            plain = unique(name.replace(".", "_"), taken)
            taken.add(plain)
            assert loop.axis.high is not None
            axes[name] = axis_of(plain, loop.axis.high + 1)
    if not axes:
        return nest
    return replace(nest, body=substituted(nest.body, axes))
