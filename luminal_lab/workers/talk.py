"""Workers that are MPI processes: how they meet, and how they notice that one of them is gone.

Collectives are MPI's own, begun without blocking and tested until they are done. Who waits longer
than a moment asks the others what they do; a thread of each process answers, while it computes too:

    waits at an all_reduce  ── ASK ─→  computes a kernel
                            ←─ TELL ─  (computes, 3.1 s of the processor's time, 2 collectives)

One that answers, and takes the processor's time, is waited for however long it takes. One that
stands still has hung; one that is silent has died. What failed is told to all (`FAIL`), so that all
of them end. Communicators of a run that failed are not used again.
"""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Callable, Mapping
from time import process_time, sleep
from typing import Any, Final, Literal, TypeVar

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import DeviceError
from luminal_lab.workers.clocks import readings
from luminal_lab.workers.job import place_text
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import WORKER, Worker
from luminal_lab.workers.patience import Doing, Patience, Seen

T = TypeVar("T")
SUMMED: Final = "bBhHiIlLqQfd"
"""The dtypes that MPI adds."""
LEAST: Final = 1 << 15
"""The bytes up to which MPI's own all_reduce of two is the faster one."""
ASK, TELL, FAIL = 101, 102, 103
"""What messages are, apart from collectives."""
SPINS: Final = 2_000
"""How often a collective is tested without a pause: about a millisecond."""
PAUSE: Final = 5e-5
ASKED: Final = 1.0
"""The seconds of waiting before others are asked, and between two questions."""
ANSWERED: Final = 0.1
"""The seconds between two looks for questions."""
LONGEST: Final = 4_000
"""The most bytes of a message about a failure."""
DOING: Final[tuple[Doing, ...]] = ("idle", "computes", "waits")
LEFT: Final[list[object]] = []
"""Requests that nobody waits for any more, with their arrays, which MPI may still write to."""


def mpi() -> Any:  # noqa: ANN401  # a library without types
    """Return mpi4py's MPI, or raise if it, or the library of an MPI, is not installed."""
    try:
        from mpi4py import MPI  # noqa: PLC0415  # it starts MPI
    except ImportError as error:
        raise DeviceError(
            f"mpi: mpi4py cannot be loaded: {error}", hint='pip install "luminal-lab[mpi]"'
        ) from error
    except RuntimeError as error:  # a list of all files that it looked for
        said = str(error).partition("\n")[0]
        raise DeviceError(
            f"mpi: mpi4py finds no MPI: {said}",
            hint='pip install "luminal-lab[mpi]" brings one; for another one, put the '
            "folder of its libmpi.so into LD_LIBRARY_PATH",
        ) from error
    return MPI


class GoneError(DeviceError):
    """What a worker raises because another one has failed, or is gone."""

    rank: int = -1
    """The worker that failed."""
    done: int = -1
    """The number of collectives that it had come to, where known."""


class Post:
    """The letters of one process, apart from collectives, and the thread that answers them."""

    def __init__(self) -> None:
        self.mpi = mpi()
        self.comm: Any = self.mpi.COMM_WORLD.Dup()
        self.rank: int = self.comm.rank
        self.run = 0
        """The number of the run under way; 0 between runs."""
        self.talk: Talk | None = None
        self._sent: list[tuple[Any, Array]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="answers", daemon=True)
        if self.mpi.Query_thread() == self.mpi.THREAD_MULTIPLE:
            self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """End the thread, before MPI ends."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _answer(self) -> None:
        status, given = self.mpi.Status(), np.zeros(1, np.int64)
        while not self._stop.wait(ANSWERED):
            while self.comm.Iprobe(self.mpi.ANY_SOURCE, ASK, status):
                self.comm.Recv(given, status.source, ASK)
                self._send(self.seen(int(given[0])), status.source, TELL)

    def seen(self, run: int) -> Array:
        """Return what this process does in a run."""
        talk = self.talk if run == self.run else None
        doing = 0 if talk is None else 2 if talk.worker.waits else 1
        return np.array([run, doing, process_time(), talk.done if talk else 0], np.float64)

    def ask(self, rank: int) -> None:
        """Ask a process what it does."""
        self._send(np.array([self.run], np.int64), rank, ASK)

    def told(self) -> list[tuple[int, Seen]]:
        """Return the answers that have come."""
        answers: list[tuple[int, Seen]] = []
        status, given = self.mpi.Status(), np.zeros(4, np.float64)
        while self.comm.Iprobe(self.mpi.ANY_SOURCE, TELL, status):
            self.comm.Recv(given, status.source, TELL)
            run, doing, seconds, done = given.tolist()
            if run == self.run:
                answers.append((status.source, Seen(DOING[int(doing)], seconds, int(done))))
        return answers

    def fail(self, ranks: range, worker: int, done: int, message: str) -> None:
        """Tell others that a worker of this run has failed."""
        letter = [self.run, worker, done, message[: LONGEST // 4]]
        data = np.frombuffer(json.dumps(letter).encode(), np.uint8)
        for rank in ranks:
            if rank != self.rank:
                self._send(data, rank, FAIL)

    def failure(self) -> GoneError | None:
        """Return what another worker has told about a failure in this run."""
        status = self.mpi.Status()
        while self.comm.Iprobe(self.mpi.ANY_SOURCE, FAIL, status):
            data = np.empty(status.Get_count(self.mpi.BYTE), np.uint8)
            self.comm.Recv(data, status.source, FAIL)
            run, rank, done, message = json.loads(data.tobytes())
            if run == self.run:
                error = GoneError(str(message))
                error.rank, error.done = int(rank), int(done)
                return error
        return None

    def _send(self, data: Array, rank: int, tag: int) -> None:
        self._sent.append((self.comm.Isend(data, rank, tag), data))
        self._sent = [entry for entry in self._sent if not entry[0].Test()]


class Talk:
    """What one worker of a mesh calls; see `Communicator` and `Letters`. All make it together."""

    def __init__(self, post: Post, mesh: Mesh, turn: int) -> None:
        self.post, self.mesh, self.rank = post, mesh, post.rank
        world = post.mpi.COMM_WORLD.Get_group()

        def among(ranks: tuple[int, ...]) -> Any:  # noqa: ANN401  # of a library without types
            return post.mpi.COMM_WORLD.Create_group(world.Incl(ranks), turn)

        self.all = among(tuple(range(mesh.workers)))
        self.members = {axis: mesh.group(self.rank, axis) for axis in mesh.sizes}
        self.comms = {axis: among(members) for axis, members in self.members.items()}
        self.worker = Worker(self.rank, mesh.coordinates(self.rank), self)
        self.note: Callable[[int, int], None] | None = None
        """Takes the number of the run, and how far this worker has come, at each collective."""
        self._order: Mapping[int, int] = {}
        self._memory: dict[str, Array] = {}
        self._letters: list[tuple[Any, Array]] = []

    @property
    def done(self) -> int:
        """The number of collectives that this worker has come to."""
        met = self.worker.met
        return 0 if met is None else self._order.get(met, -1) + 1

    # -- a run -------------------------------------------------------------------------------------

    def run(self, number: int, digest: str, order: Mapping[int, int], work: Callable[[], T]) -> T:
        """Return what this worker computes, once all have begun the same and have ended well.

        The order is that of the collectives, by the ids of their ops.
        """
        post, token = self.post, WORKER.set(self.worker)
        self.worker.met, self.worker.waits, self._order = None, False, order
        post.run, post.talk = number, self
        try:
            self.agree(digest)
            self.worker.clock = readings(self, self.mesh)
            value = work()
            self.wait(self.all.Ibarrier(), tuple(range(self.mesh.workers)))
        except GoneError:
            raise
        except BaseException as error:
            told = f"{type(error).__name__}: {error}".partition("\n")[0]
            failed = f"worker {self.rank} ({place_text(self.worker.place)}) has failed: {told}"
            post.fail(range(self.mesh.workers), self.rank, self.done, failed)
            raise
        finally:
            post.run, post.talk = 0, None
            WORKER.reset(token)
        return value

    def agree(self, digest: str) -> None:
        """Raise unless all workers begin the same run: 8 bytes are sent."""
        number = int(digest[:15], 16)
        given, most = np.array([number, -number]), np.zeros(2, np.int64)
        everybody = tuple(range(self.mesh.workers))
        self.wait(self.all.Iallreduce(given, most, self.post.mpi.MAX), everybody)
        if most[0] != -most[1]:
            raise DeviceError(
                "the workers were given different graphs, passes or meshes",
                hint="under mpiexec all processes run the same script to the same line",
            )

    def wait(self, request: Any, members: tuple[int, ...], *held: Array) -> None:  # noqa: ANN401  # of a library without types
        """Wait until a collective is done, or raise because one of its members is gone."""
        self.worker.waits = True
        if self.note is not None:
            self.note(self.post.run, self.done)
        try:
            for _ in range(SPINS):
                if request.Test():
                    return
            patience = Patience()
            asked = 0.0
            while not request.Test():
                sleep(PAUSE)
                if patience.tick() - asked > ASKED:
                    asked = patience.now
                    self._look(patience, members)
                elif failed := self.post.failure():
                    raise failed
        except BaseException:
            LEFT.extend([(request, *held), *self._letters])
            raise
        finally:
            self.worker.waits = False

    def _look(self, patience: Patience, members: tuple[int, ...]) -> None:
        """Ask the others, and raise if one of them will not come."""
        for rank, seen in self.post.told():
            patience.saw(rank, seen)
        others = [rank for rank in members if rank != self.rank]
        limit = f"for {patience.limit:g} s"
        for rank in others:
            if patience.silent(rank):
                raise self._gone(rank, f"has died, or was stopped: no answer {limit}")
            if patience.still(rank, "computes"):
                why = f"has hung: it has computed nothing {limit}, and others wait"
                raise self._gone(rank, why, patience.met(rank))
        if others and all(patience.still(rank, "waits") for rank in others):
            why = "waits at another collective than others"
            raise self._gone(others[0], why, patience.met(others[0]))
        for rank in others:
            self.post.ask(rank)

    def _gone(self, rank: int, why: str, done: int = -1) -> GoneError:
        error = GoneError(f"worker {rank} ({place_text(self.mesh.coordinates(rank))}) {why}")
        error.rank, error.done = rank, done
        self.post.fail(range(self.mesh.workers), rank, done, error.message)
        return error

    # -- collectives -------------------------------------------------------------------------------

    def all_reduce(self, x: Array, axis: str, kind: Literal["sum", "max"]) -> Array:
        """Join what all give: MPI does, but for dtypes that it has no numbers for, and of two.

        Two send no more if each gets the other's, and both add the same two numbers.
        """
        members, given = self.members[axis], np.ascontiguousarray(x).reshape(x.shape)
        is_pair = len(members) == 2 and x.nbytes > LEAST
        if is_pair or x.dtype.char not in SUMMED:
            join = np.add if kind == "sum" else np.maximum
            first, *others = self._gathered(given, axis, self._scratch(axis, x))
            joined = join(first, others[0]) if others else np.array(first)
            for other in others[1:]:
                joined = join(joined, other)
            return np.asarray(joined)
        joined = np.empty(x.shape, x.dtype)
        op = self.post.mpi.SUM if kind == "sum" else self.post.mpi.MAX
        self.wait(self.comms[axis].Iallreduce(given, joined, op), members, given, joined)
        return joined

    def send(self, x: Array, to: int, tag: int) -> None:
        """Send a copy; MPI reads it until it has gone."""
        copy = np.array(x)
        self._letters = [letter for letter in self._letters if not letter[0].Test()]
        self._letters.append((self.all.Isend(copy, to, tag), copy))

    def receive(self, into: Array, source: int, tag: int) -> None:
        """Wait for what another worker sends; any of them may be the one that all wait for."""
        everybody = tuple(range(self.mesh.workers))
        self.wait(self.all.Irecv(into, source, tag), everybody, into)

    def _scratch(self, axis: str, x: Array) -> Array:
        """Return memory for what all give, which is read before the call is over."""
        size = len(self.members[axis]) * x.nbytes
        if axis not in self._memory or self._memory[axis].size < size:
            self._memory[axis] = np.empty(size, np.uint8)
        return self._memory[axis][:size].view(x.dtype).reshape(len(self.members[axis]), *x.shape)

    def _gathered(self, x: Array, axis: str, into: Array) -> list[Array]:
        request = self.comms[axis].Iallgather(_sent(x), _sent(into))
        self.wait(request, self.members[axis], x, into)
        return [*into]

    def all_gather(self, x: Array, axis: str) -> list[Array]:
        """Return what all give."""
        gathered = np.empty((len(self.members[axis]), *x.shape), x.dtype)
        return self._gathered(np.ascontiguousarray(x), axis, gathered)

    def all_to_all(self, parts: list[Array], axis: str) -> list[Array]:
        """Return what all give for this worker."""
        members, given = self.members[axis], np.stack(parts)
        gathered = np.empty(given.shape, given.dtype)
        sent, got = _sent(given), _sent(gathered)
        self.wait(self.comms[axis].Ialltoall(sent, got), members, given, gathered)
        return [*gathered]


def _sent(x: Array) -> Array:
    """Return what MPI is given: bytes, of a dtype that it does not know."""
    return x if x.dtype.char in SUMMED else x.reshape(-1).view(np.uint8)
