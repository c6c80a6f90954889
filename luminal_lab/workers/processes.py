"""Workers that are processes, each of which runs the whole script: mpiexec's, torchrun's, Slurm's.

All of them have a session of their own, and it is the same one: each gets the whole values of a
run, to the bit. What they talk by is given: a class with the three methods of a `Communicator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ArgumentError
from luminal_lab.workers.job import Job, where
from luminal_lab.workers.layout import Layout
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Communicator, Worker


class Processes:
    """Run the workers of a mesh in as many processes, of which this is one.

    `talk` makes what they talk by: it is called with a mesh, by all of them, and returns an object
    with three methods, `all_reduce`, `all_gather` and `all_to_all`.
    """

    name = "processes"

    def __init__(self, rank: int, size: int, talk: Callable[[Mesh], Communicator]) -> None:
        self.rank, self.size, self.talk = rank, size, talk
        self._talks: dict[str, Communicator] = {}

    def unless_enough(self, mesh: Mesh) -> None:
        """Raise unless there are as many processes as workers."""
        if mesh.workers != self.size:
            many = "is 1 process" if self.size == 1 else f"are {self.size} processes"
            raise ArgumentError(
                f"{mesh} has {mesh.workers} workers, and there {many}",
                hint=f"start as many, as mpiexec -n {mesh.workers} python … does",
            )

    def run(self, mesh: Mesh, job: Job) -> Sequence[Mapping[int, Array]]:
        """Return what all workers compute of what is asked for."""
        if str(mesh) not in self._talks:
            self._talks[str(mesh)] = self.talk(mesh)
        talk = self._talks[str(mesh)]
        token = WORKER.set(Worker(self.rank, mesh.coordinates(self.rank), talk))
        try:
            return results(talk, job, self.rank)
        finally:
            WORKER.reset(token)


def results(talk: Communicator, job: Job, rank: int) -> list[dict[int, Array]]:
    """Return what all workers compute of what is asked for, here this one computes its parts."""
    own = job(rank)
    made: list[dict[int, Array]] = [{} for _ in range(job.mesh.workers)]
    for local, part in job.wanted.items():
        whole = gathered(talk, job.mesh, part.layout, own[local])
        for other, values in enumerate(made):
            if job.gives(other, part.layout):
                place = job.mesh.coordinates(other)
                values[local] = whole[where(job.mesh, part.layout, whole.shape, place)]
    return made


def gathered(talk: Communicator, mesh: Mesh, layout: Layout, x: Array) -> Array:
    """Return a whole value: the parts of all workers along each axis of the mesh that cuts it."""
    for dim, word in enumerate(layout.dims):
        if word in mesh.sizes:
            x = np.concatenate(talk.all_gather(x, word), dim)
    return x


__all__ = ["Processes", "results"]
