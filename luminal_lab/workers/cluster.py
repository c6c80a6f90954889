"""Workers in the engines of an ipyparallel cluster, which a notebook starts.

The client, this process, sends each engine the worker's graph once, and in each run what has
changed. It waits for all of them, and notes which one failed first. Who does not end by itself is
interrupted, then killed; engines that are gone are started anew by the next run.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from mmap import mmap
from time import monotonic, sleep
from typing import Any, NamedTuple

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.tensor.versions import Later
from luminal_lab.workers import seat
from luminal_lab.workers.job import ANEW, Job, place_text
from luminal_lab.workers.layout import Layout
from luminal_lab.workers.mesh import Mesh

POLL = 0.001
"""The seconds between two looks at what engines have answered."""
START, JOIN = 60.0, 30.0
"""The seconds that engines may take to start, and to say who they are."""
GRACE = 2.0
"""The seconds that workers have to end, once by themselves, once after an interrupt."""
STARTING = (
    'ipyparallel.Cluster(engines="mpi", n=2).start_and_connect_sync() starts two of them here'
)
CLOSED = "cluster.start_cluster_sync() starts it; what engines alone had is lost"


class Engines:
    """The engines of a cluster, by their ranks."""

    def __init__(self, cluster: Any) -> None:  # noqa: ANN401  # of a library without types
        self.cluster: Any = cluster if hasattr(cluster, "restart_engines_sync") else None
        self.controller: Any = None
        """What the cluster was run by when engines were last found."""
        self.client: Any = None if self.cluster is not None else cluster
        self.ids: list[int] = []
        self.who: list[dict[str, Any]] = []
        self.run = 0
        self.turn = 0
        """How often communicators were made anew."""
        self.is_broken = False
        self.prepared: set[str] = set()
        self.last: dict[str, Last] = {}
        self.count = count(1)
        """The numbers of arrays, none of which is used twice."""
        self.ended: list[int] = []
        """The ranks of engines in the order in which they have ended a call."""
        self.marks: dict[int, mmap] = {}
        """Where engines of this machine write how far they have come."""

    # -- who is there ------------------------------------------------------------------------------

    def check(self, mesh: Mesh) -> None:
        """Raise unless there are enough engines of our version."""
        self.connect()
        if mesh.workers > len(self.ids):
            raise ArgumentError(
                f"{mesh} has {mesh.workers} workers, and the cluster {len(self.ids)} engines",
                hint=f'start more, as in Cluster(engines="mpi", n={mesh.workers}), or use a '
                "smaller mesh",
            )

    def connect(self) -> None:
        """Find the engines, and let them find each other."""
        self._unless_closed()
        if self.ids and not self.is_broken:
            return
        if self.is_broken:
            self._restart()
        if self.client is None:
            try:
                client = self.cluster.connect_client_sync()
                client.wait_for_engines(self.cluster.n or 1, timeout=START)
            except Exception as error:
                said = str(error).partition("\n")[0] or type(error).__name__
                raise DeviceError(
                    f"mpi: the engines of the cluster did not start: {said}",
                    hint="cluster.engine_set.get_output() is what they said; each needs an MPI "
                    'and mpi4py: pip install "luminal-lab[mpi]"',
                ) from error
            self.client = client
        ids = [*self.client.ids]
        if not ids:
            raise ArgumentError("mpi: the cluster has no engines", hint=STARTING)
        calling = "__import__('luminal_lab.workers.seat', fromlist=['seat']).hello()"
        answers = self._all(ids, [(eval, calling)] * len(ids), "say who they are")
        self.who = sorted((json.loads(answer) for answer in answers), key=_rank)
        by_rank = {json.loads(answer)["rank"]: id for answer, id in zip(answers, ids, strict=True)}
        self._check_versions()
        if sorted(by_rank) != [*range(len(ids))]:
            raise ArgumentError(
                f"mpi: the engines are not one MPI job: their ranks are "
                f"{sorted(who['rank'] for who in self.who)}",
                hint=f'engines="mpi" makes one of them: {STARTING}',
            )
        self.ids = [by_rank[rank] for rank in range(len(ids))]
        self._all(self.ids, [(seat.join,)] * len(ids), "join")
        marks = {
            rank: seat.opened_mark(who["host"], who["mark"]) for rank, who in enumerate(self.who)
        }
        self.marks = {rank: file for rank, file in marks.items() if file is not None}
        self.is_broken = False

    def _unless_closed(self) -> None:
        """Raise if the cluster does not run; forget its engines if it was started anew."""
        if self.cluster is None:
            return
        if self.cluster.controller is not self.controller:
            self.client, self.controller = None, self.cluster.controller
            self.ids, self.prepared, self.last, self.is_broken = [], set(), {}, False
        if self.controller is None:
            raise DeviceError("mpi: the cluster does not run", hint=CLOSED)

    def _check_versions(self) -> None:
        here = seat.versions()
        for who in self.who:
            for name, version in here.items():
                theirs = who["versions"].get(name)
                if theirs != version:
                    raise ArgumentError(
                        f"mpi: the engine with rank {who['rank']} on {who['host']} has {name} "
                        f"{theirs}, and this process {version}",
                        hint="install the same version for all of them, and start them again",
                    )

    def _all(self, ids: Sequence[int], calls: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
        """Return what engines answer to a call each, all at the same time."""
        pending = [self.client[id].apply_async(*call) for id, call in zip(ids, calls, strict=True)]
        begin = monotonic()
        for id, answer in zip(ids, pending, strict=True):
            left = max(0.1, JOIN - monotonic() + begin)
            try:
                answer.get(timeout=left)
            except Exception as error:
                said = str(error).partition("\n")[0] or type(error).__name__
                raise ArgumentError(
                    f"mpi: engine {id} could not {what}: {said}",
                    hint='each needs luminal_lab and mpi4py: pip install "luminal-lab[mpi]"',
                ) from error
        return [answer.get() for answer in pending]

    def _restart(self) -> None:
        """Start engines anew in place of those that are gone."""
        if self.cluster is None:
            raise DeviceError(
                "mpi: engines of the cluster are gone, and only who started them can start others",
                hint="give ll.engines.MPI the Cluster itself, and not a client of it",
            )
        self.ids, self.prepared, self.last = [], set(), {}
        engines = self.cluster.n
        self.cluster.restart_engines_sync()
        if self.client is not None:
            gone = monotonic() + START
            while monotonic() < gone and len(self.client.ids) < (engines or 1):
                sleep(0.05)
        self.is_broken = False
        self.turn += 1

    # -- a run -------------------------------------------------------------------------------------

    def compute(self, job: Job) -> list[Mapping[int, Array | Later]]:
        """Return what each worker computes of what it is asked for."""
        self.check(job.mesh)
        self.run += 1
        ranks, last = range(job.mesh.workers), self.last.pop(job.key, None) or Last(self.count)
        if job.key not in self.prepared:
            self._answers(job, [(seat.prepare, job.key, *job.spec(rank)) for rank in ranks])
            self.prepared.add(job.key)
        last.begin(job)
        words = {
            "run": self.run,
            "turn": self.turn,
            "mesh": dict(job.mesh.axes),
            "step": job.environment.step,
            "dims": dict(job.environment.dims),
            **last.words,
        }
        calls = [(seat.run, job.key, *last.asked(job, rank, words)) for rank in ranks]
        answers = self._answers(job, calls)
        self.last[job.key] = last
        found: list[Mapping[int, Array | Later]] = []
        for rank, (_, arrays, told) in enumerate(answers):
            job.heard(rank, told)
            sent = [local for local in last.wanted(job, rank) if local not in job.kept]
            found.append(dict(zip(sent, arrays, strict=True)) | self._kept(job, rank, last))
        return found

    def _kept(self, job: Job, rank: int, last: Last) -> dict[int, Array | Later]:
        """Return what fetches the values that stay with an engine."""

        def fetching(id: int, key: str, name: int) -> Later:
            return Later(lambda: self._fetched(id, key, name), 0)

        id, key = self.ids[rank], job.key
        mine = [local for local in last.wanted(job, rank) if local in job.kept]
        return {local: fetching(id, key, last.made[local]) for local in mine}

    def _fetched(self, id: int, key: str, name: int) -> Array:
        """Fetch an array that an engine has kept."""
        try:
            self._unless_closed()
            return self.client[id].apply_async(seat.kept, key, name).get(timeout=JOIN)
        except Exception as error:
            raise DeviceError(
                "mpi: a value that was carried has stayed with an engine, which is gone",
                hint="ll.nn.load_state(cx, path) sets all that is carried, if it was saved",
            ) from error

    def _send(self, rank: int, *call: Any) -> Any:  # noqa: ANN401  # of a library without types
        """Call something in an engine; note when it has ended, and in which order they do."""
        answer = self.client[self.ids[rank]].apply_async(*call)

        def ended(_: object) -> None:
            self.ended.append(rank)

        answer.add_done_callback(ended)
        return answer

    def _answers(self, job: Job, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what all engines answer, or end them all and raise what the first one says."""
        failed: Failure | None = None
        answers: dict[int, Any] = {}
        self.ended = []
        pending: list[Any] = []
        try:
            for rank, call in enumerate(calls):
                pending.append(self._send(rank, *call))
            while len(answers) < len(pending) and failed is None:
                sleep(POLL)
                self._unless_closed()
                failed = self._collect(job, pending, answers)
        except BaseException:  # Ctrl-C, or the cluster was closed
            if self.client is not None:
                self._end(pending, interrupt=True)
            raise
        if failed is None:
            return [answers[rank] for rank in range(len(pending))]
        killed = self._end(pending, hung=None if failed.first else failed.rank)
        while not failed.first and (other := self._collect(job, pending, answers)) is not None:
            failed = other if other.first and other.rank not in killed else failed
        raise failed.error

    def _collect(self, job: Job, pending: Sequence[Any], answers: dict[int, Any]) -> Failure | None:
        """Take the answers that have come, and return the first failure among them."""
        order = [*self.ended, *(rank for rank in range(len(pending)) if rank not in self.ended)]
        for rank in order:
            if rank in answers or not pending[rank].ready():
                continue
            try:
                answers[rank] = pending[rank].get(timeout=0)
            except Exception as error:
                answers[rank] = None
                return self._died(job, rank, error)
            report = answers[rank] if isinstance(answers[rank], str) else answers[rank][0]
            if report:
                return self._told(job, rank, json.loads(report))
        return None

    def _end(
        self, pending: Sequence[Any], *, interrupt: bool = False, hung: int | None = None
    ) -> set[int]:
        """See that all engines end what they do: interrupt them, or kill them at last.

        One that has hung is not waited for before that. Return those that were killed.
        """
        self.turn += 1
        killed = set[int]()
        for number in (None, signal.SIGINT, signal.SIGKILL):
            left = [rank for rank, answer in enumerate(pending) if not answer.ready()]
            if not left:
                break
            if number is not None:
                ids = [self.ids[rank] for rank in left if self.ids[rank] in self.client.ids]
                with suppress(Exception):  # one that has died meanwhile
                    self.client.send_signal(number, targets=ids, block=False)
            elif interrupt:
                continue
            killed = {*left} if number == signal.SIGKILL else killed
            waited = [a for rank, a in enumerate(pending) if number is not None or rank != hung]
            until = monotonic() + GRACE
            while monotonic() < until and not all(answer.ready() for answer in waited):
                sleep(POLL)
        self.is_broken = {*self.ids} - {*self.client.ids} != set() or not all(
            answer.ready() for answer in pending
        )
        return killed

    def _died(self, job: Job, rank: int, error: Exception) -> Failure:
        """Return the failure of an engine that is gone, or answers something else."""
        said = str(error).partition("\n")[0]
        if "died" not in said and self.ids[rank] in self.client.ids:
            message = f"{self._name(job, rank)} has failed: {said}"
            return Failure(DeviceError(message, hint=ANEW), rank, first=True)
        self.is_broken = True
        where = self._stretch(job, rank)
        error = DeviceError(f"{self._name(job, rank)} has died", where=where, hint=ANEW)
        return Failure(error, rank, first=True)

    def _stretch(self, job: Job, rank: int, done: int = -1) -> str | None:
        """Return where a worker is that has come to so many collectives; -1: it has not said so."""
        mark = self.marks.get(rank)
        if done < 0 and mark is not None:
            done = seat.read_mark(mark, self.run)
        return job.stretch(done, rank) if done >= 0 else None

    def _told(self, job: Job, rank: int, report: Mapping[str, Any]) -> Failure:
        """Return the failure that an engine reports: its own, or that of another one."""
        rank = report["rank"] if report["rank"] in range(len(self.who)) else rank
        if not report["first"]:
            place = self._stretch(job, rank, report["done"])
            message = str(report["text"]).replace(")", f") on {self.who[rank]['host']}", 1)
            return Failure(DeviceError(message, where=place, hint=ANEW), rank, first=False)
        message = f"{self._name(job, rank)} has failed: {report['type']}: {report['text']}"
        told = [str(report["where"] or ""), *map(str, report["notes"])]
        line = next((line for text in told for line in text.splitlines() if " = " in line), "")
        error = DeviceError(
            message, where=job.line(line.strip(), rank), hint=report["hint"] or ANEW
        )
        return Failure(error, rank, first=True)

    def _name(self, job: Job, rank: int) -> str:
        place = place_text(job.mesh.coordinates(rank))
        return f"worker {rank} ({place}) on {self.who[rank]['host']}"


class Failure(NamedTuple):
    """The error of a run, the worker that it is about, and whether that one said so itself."""

    error: DeviceError
    rank: int
    first: bool


class Last:
    """What the engines have of the last run of a job: arrays with numbers."""

    def __init__(self, count: Iterator[int]) -> None:
        self.count = count
        self.job: Job | None = None
        self.given: dict[int, tuple[Array | Later, int | None, int]] = {}
        """For each input, by the worker's id: the whole value, how often it changed, its number."""
        self.made: dict[int, int] = {}
        """The numbers of outputs that the next run may take as inputs."""
        self.has: dict[int, set[int]] = {}
        """The numbers that each engine has, by its rank."""
        self.words: dict[str, Any] = {}

    def begin(self, job: Job) -> None:
        """Find out which arrays a run reads and makes: those that engines may have keep numbers."""
        made, given = self._made(), dict[int, tuple[Array | Later, int | None, int]]()
        for part in job.parts:
            value, version = job.given[part.local], job.versions.get(part.local)
            old, before, name = self.given.get(part.local, (None, None, 0))
            array, layout, number = made.get(id(value), (None, None, 0))
            if array is value and layout == part.layout:
                name = number
            elif old is not value or version is None or version != before:
                name = self._number()
            given[part.local] = value, version, name
        self.given, self.job = given, job
        self.made = {local: self._number() for local in job.wanted}
        names = [name for _, _, name in given.values()]
        self.words = {"kept": [*names, *(self.made[local] for local in job.carried)]}

    def _made(self) -> dict[int, tuple[Array | Later, Layout, int]]:
        """Return the whole values of the last run's outputs, by what tells objects apart."""
        if self.job is None:
            return {}
        return {
            id(whole): (whole, self.job.wanted[local].layout, self.made[local])
            for local, whole in self.job.returned.items()
            if local in self.job.carried
        }

    def _number(self) -> int:
        return next(self.count)

    def wanted(self, job: Job, rank: int) -> list[int]:
        """Return which outputs a worker sends."""
        return [local for local in job.wanted if job.gives(rank, local)]

    def asked(self, job: Job, rank: int, words: Mapping[str, Any]) -> tuple[str, list[Array]]:
        """Return what a worker is told, and the arrays that it is sent: those it has not yet."""
        inputs, outputs = job.places()
        own = [part for part in job.parts if job.needs(rank, part)]
        has, sends = self.has.get(rank, set()), {*self.wanted(job, rank)} - job.kept
        names = {part.local: self.given[part.local][2] for part in own}
        new = [part for part in own if names[part.local] not in has]
        mine = [local for local in job.wanted if job.makes(rank, local)]
        versions = job.versions
        told = {
            **words,
            "inputs": [(inputs[local], name) for local, name in names.items()],
            "versions": [(inputs[id], versions[id]) for id in names if id in versions],
            "sent": [names[part.local] for part in new],
            "outputs": [(outputs[id], self.made[id], id in sends) for id in mine],
        }
        has = {*has, *names.values(), *(self.made[local] for local in mine)}
        self.has[rank] = has & {*words["kept"]}
        return json.dumps(told), [*job.inputs(rank, new)]


def _rank(who: Mapping[str, Any]) -> int:
    return who["rank"]
