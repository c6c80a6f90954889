"""What is measured: a computation with its sizes, its data, and its least cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from luminal_lab.passes.pipeline import LICENCE

Arrays: TypeAlias = dict[str, Any]
"""NumPy arrays by name, each of its own dtype."""
Sizes: TypeAlias = Mapping[str, int]
USUAL = "usual sizes"
"""The family of rows in the sizes that benchmarks have; the others are what users run besides."""
GRAPHS = "writing graphs"
"""The family of rows in which nothing is computed, which no mean counts."""


class Cost(NamedTuple):
    """What a computation needs at least, on any machine."""

    flops: int
    """Operations on numbers; a multiply-add counts as two."""
    read: int
    """Bytes that must come from memory, each once."""
    written: int
    """Bytes that must go there."""


@dataclass(frozen=True)
class Workload:
    """One line of the table: a kind of computation, which every peer spells, at some sizes."""

    name: str
    kind: str
    about: str
    """What is computed, in words that hold on any machine."""
    sizes: Sizes
    data: Callable[[Sizes, np.random.Generator], Arrays]
    cost: Cost
    tolerance: float = 1e-5
    """How far two libraries may be apart, as a share of a value and of the values' size."""
    calls: int = 1
    """How many runs are compared: several for a training step, since the weights move."""
    variants: tuple[str, ...] = ()
    """Other forms of ours that are timed besides the first, such as specialised kernels."""
    seconds: float = 0.6
    """How long a turn of one library lasts."""
    is_model: bool = False
    """Whether it has many kernels, which some libraries take long to compile."""
    has_peers: bool = True
    """Whether other libraries have anything like it."""
    licence: tuple[str, ...] = LICENCE
    """What ours may assume about values."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Peers that are left out, and why."""
    family: str = USUAL
    """Which rows it is counted with in the means."""
    is_call: bool = False
    """Whether ours is called as a function of arrays: a run of a session costs much beside it."""
    is_alone: bool = False
    """Whether each run has a process of its own, in which nothing has been done before."""
    form: str = ""
    """The form of the weights in a GGUF file, if the workload is of a model in one."""
    path: str = ""
    """The file, once it is written."""
    tokens: int = 0
    """How many tokens a run of a language model computes."""
    goals: Mapping[str, float] = field(default_factory=dict[str, float])
    """The least ratio to a library, or the least share of the `limit`, or the most `ms`."""


class Unable(Exception):  # noqa: N818  # not an error: an answer
    """A library cannot do a workload, and the text says why."""
