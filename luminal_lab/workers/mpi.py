"""The engine of processes that talk by MPI, on one machine or many.

    import ipyparallel                                                # from a notebook
    cluster = ipyparallel.Cluster(engines="mpi", n=2)
    cluster.start_cluster_sync()
    ll.Sharded(plan, ll.CPUCompiler(threads=1), engine=ll.engines.MPI(cluster))

    ll.Sharded(plan, ll.CPUCompiler(threads=1), engine=ll.engines.MPI())   # mpiexec -n 2 python …

Under mpiexec each process runs the whole script, with a session of its own: the same one, as all
get the same whole values from each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ArgumentError, DeviceError, expect, flag
from luminal_lab.tensor.versions import Later
from luminal_lab.workers.cluster import STARTING, Engines
from luminal_lab.workers.job import ANEW, Job
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.processes import Processes
from luminal_lab.workers.talk import GoneError, Post, Talk


class MPI:
    """Run the workers of a mesh as MPI processes: engines of a cluster, or those of mpiexec.

    Without a cluster this process is one of them. With `keeps=True` what is carried from run to
    run, as weights are, stays with the engines until somebody reads it: it is lost if one dies.

    >>> ll.engines.MPI(2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    luminal_lab.errors.ArgumentError: MPI: the cluster is 2...
    """

    name = "mpi"

    def __init__(self, cluster: object = None, *, keeps: bool = False) -> None:
        is_cluster = cluster is None or type(cluster).__module__.partition(".")[0] == "ipyparallel"
        if not is_cluster:
            expect(cluster, type(None), "MPI: the cluster is {}", STARTING)
        self.keeps = flag("MPI: keeps", keeps)
        if keeps and cluster is None:
            hint = "under mpiexec each process has whole values after each run"
            raise ArgumentError("MPI: keeps=True is for the engines of a cluster", hint=hint)
        self._engines = None if cluster is None else Engines(cluster)
        self._ranks = Ranks() if cluster is None else None

    @property
    def rank(self) -> int | None:
        """The rank of this process under mpiexec; None in the client of a cluster."""
        return None if self._ranks is None else self._ranks.rank

    def unless_enough(self, mesh: Mesh) -> None:
        """Raise if a mesh has more workers than there are, or they are of other versions."""
        if self._engines is not None:
            self._engines.check(mesh)
        elif self._ranks is not None:
            self._ranks.unless_enough(mesh)

    def run(self, mesh: Mesh, job: Job) -> Sequence[Mapping[int, Array | Later]]:
        """Return what each worker computes."""
        if self._engines is not None:
            return self._engines.compute(job)
        assert self._ranks is not None, "it has one or the other"
        return self._ranks.run(mesh, job)

    @override
    def __repr__(self) -> str:
        return f"MPI({'cluster' if self._engines is not None else ''})"


class Ranks(Processes):
    """The processes of an mpiexec, of which this is one: who fails is told to all."""

    name = "mpi"

    def __init__(self) -> None:
        self.post = Post()
        self.number, self.turn = 0, 0
        super().__init__(self.post.rank, self.post.comm.size, self._made)
        self._made_talks: dict[str, Talk] = {}

    def _made(self, mesh: Mesh) -> Talk:
        return Talk(self.post, mesh, self.turn)

    @override
    def run(self, mesh: Mesh, job: Job) -> Sequence[Mapping[int, Array]]:
        self.number += 1
        order = job.order(self.rank)
        try:
            if str(mesh) not in self._made_talks:
                self._made_talks[str(mesh)] = self._made(mesh)
            talk = self._made_talks[str(mesh)]
            return talk.run(self.number, job.key, order, lambda: job.shared(talk, self.rank))
        except BaseException as error:
            # Others may still be in a collective: communicators of this run are not used again.
            self._made_talks, self.turn = {}, self.turn + 1
            if not isinstance(error, GoneError):
                raise
            where = job.stretch(error.done, error.rank) if error.done >= 0 else None
            raise DeviceError(error.message, where=where, hint=ANEW) from None
