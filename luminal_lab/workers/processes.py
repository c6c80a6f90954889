"""Workers that are processes, each of which runs the whole script: mpiexec's, torchrun's, Slurm's.

All of them have a session of their own, and it is the same one: each gets the whole values of a
run, to the bit. What they talk by is given: a class with the three methods of a `Communicator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.workers.clocks import readings
from luminal_lab.workers.job import Job
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Communicator, Worker

METHODS = ("all_reduce", "all_gather", "all_to_all")
"""What a communicator must have; pipelines need more."""


class Processes:
    """Run the workers of a mesh in as many processes, of which this is one.

    `talk` makes what they talk by: it is called with a mesh, by all of them, and returns an object
    with three methods, `all_reduce`, `all_gather` and `all_to_all`; for pipelines it has two more,
    `send` and `receive`.

    >>> engine = ll.engines.Processes(rank=0, size=2, talk=lambda mesh: None)
    >>> engine.unless_enough(ll.Mesh(data=2))
    """

    name = "processes"

    def __init__(self, rank: int, size: int, talk: Callable[[Mesh], Communicator]) -> None:
        hint = "as torch.distributed says: dist.get_rank(), dist.get_world_size()"
        fault = f"Processes: {size!r} processes"
        ArgumentError.unless_number(size, fault, hint, low=1)
        fault = f"Processes: the rank is {rank!r}, of {size} processes"
        ArgumentError.unless_number(rank, fault, hint, low=0, high=size - 1)
        if not callable(talk):
            hint = "give a class that is made for a mesh"
            raise ArgumentError(f"Processes: talk is {talk!r}", hint=hint)
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

    def _talk(self, mesh: Mesh) -> Communicator:
        talk = self.talk(mesh)
        missing = [name for name in METHODS if not hasattr(talk, name)]
        if missing:
            raise DeviceError(
                f"processes: {type(talk).__name__} has no {', no '.join(missing)}",
                hint="ll.engines.Communicator lists what the methods do",
            )
        return talk

    def run(self, mesh: Mesh, job: Job) -> Sequence[Mapping[int, Array]]:
        """Return what all workers compute of what is asked for."""
        if str(mesh) not in self._talks:
            self._talks[str(mesh)] = self._talk(mesh)
        talk = self._talks[str(mesh)]
        worker = Worker(self.rank, mesh.coordinates(self.rank), talk)
        token = WORKER.set(worker)
        try:
            worker.clock = readings(talk, mesh)
            return job.shared(talk, self.rank)
        finally:
            WORKER.reset(token)


__all__ = ["Processes"]
