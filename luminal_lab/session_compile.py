"""A session's last compile: making, reading and timing it, and noticing that it is old."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Literal, Protocol, cast

from typing_extensions import override

from luminal_lab.core.binding import solve_shape
from luminal_lab.core.interpret import Environment, Probe, stoppable
from luminal_lab.core.ir import IR
from luminal_lab.core.origin import Origin, here, warn
from luminal_lab.errors import ArgumentError, GraphError, Interrupted, expect, flag, real_number
from luminal_lab.interrupts import held
from luminal_lab.listeners import LISTENERS
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told_methods
from luminal_lab.tensor.lazy import Lazy
from luminal_lab.tensor.running import Program
from luminal_lab.tensor.sizes import named_sizes, size_lists
from luminal_lab.tensor.store import Store

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from luminal_lab.advice.finding import Advice
    from luminal_lab.algebra.rules.rule import Rule
    from luminal_lab.core.dtypes import Array
    from luminal_lab.devices.runtime.compiler import DeviceCompiler
    from luminal_lab.display import Recorded
    from luminal_lab.kernels.kernel import Kernel, Kernels
    from luminal_lab.kernels.launch import Launch, Launches
    from luminal_lab.kernels.memory.plan import MemoryPlan
    from luminal_lab.machines.rates import PeakRates
    from luminal_lab.passes.compilation import Compilation, Following, Trace
    from luminal_lab.passes.draws import Given
    from luminal_lab.passes.kept import Keeper
    from luminal_lab.passes.pipeline import PassLike
    from luminal_lab.passes.snapshot import Snapshot
    from luminal_lab.passes.until import Until
    from luminal_lab.search.board import Board
    from luminal_lab.search.derived import JoinedDerivation
    from luminal_lab.search.draws import Plan
    from luminal_lab.search.graph import ProgramSearch
    from luminal_lab.search.loops import Budget
    from luminal_lab.timing.timings import Timings


class Searched(Protocol):
    """A device for which a search has found kernels."""

    @property
    def searched(self) -> Recorded | None:
        """The search."""
        ...


def _look(value: Array) -> None:
    """Do nothing with a value that a run hands to Python."""


def _graphs() -> Keeper:
    """Return where graphs are kept."""
    from luminal_lab.devices.build.graphs import GRAPHS  # noqa: PLC0415  # loaded when used

    return GRAPHS


@partial(told_methods, on="cx.", of_arguments=False)
class CompiledStore(Store):
    """A graph with its data and results, and its last compile."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self._compilation: Compilation | None = None
        self._present: IR | None = None  # the graph last found to match the compilation
        self._compiling: Callable[[], Compilation] | None = None
        self._searched: Searched | None = None  # what has the last search
        self._failed = False  # whether the last compile failed and no run has said so yet

    def compile(
        self,
        *passes: PassLike,
        check: Literal["values"] | None = None,
        licence: Iterable[str] | None = None,
        specialise: Mapping[str, int] | None = None,
        until: Tensor | Until | None = None,
        wait: bool = True,
        keep: bool = False,
    ) -> Compilation:
        """Run passes on the graph as written; later runs use the result.

        Without passes, the generic compiler runs. `check="values"` compares values before and after
        each pass, and with those that a device computes; `licence` names the facts that rules may
        assume. With `specialise`, as in {"seq": 128}, a run in which dims have these sizes uses
        kernels of its own. No data is needed.

        `until` is a breakpoint: a tensor, node, line or rule, as in "%y", "cell 1, line 4" or "rule
        add-zero". The passes run up to the first firing that touches it, and the graph stays as it
        was then.

        With `wait=False` kernels for a CPU are compiled in the background, those in the cache
        excepted. Until its library is there, NumPy's interpreter computes a kernel, slowly;
        `print(cx.launches)` and `cx.time()` say which. An error of the C compiler is raised by the
        next run.

        With `keep=True` what the passes made is kept on disk. The same compile, also in another
        process, reads it, and runs the passes only when somebody looks at them: in `snapshots`,
        `why`, a workbench.

        >>> x = cx.tensor((2,), name="x")
        >>> y = (x * 1 + 0).retrieve()
        >>> print(cx.compile("simplify, dce").ir)
        graph main(%x: f32[2]) -> (%x) {
        }
        """
        from luminal_lab.passes import compile as manager  # noqa: PLC0415  # loaded when used

        self._failed = True  # until it succeeds
        with self.whole():
            if self.running:
                raise GraphError(
                    f"compile: the graph {self.name!r} is running", hint="compile it before"
                )
            written = self._asked("compile")
            for listener in LISTENERS.get():
                listener.compiles(self, written)
            what = self._own("compile", until).id if isinstance(until, Lazy) else until
            compilation = manager.compile_ir(
                written,
                *(passes or (manager.GenericCompiler(),)),
                check=check,
                licence=manager.LICENCE if licence is None else licence,
                given=self.given(),
                specialise=specialise,
                until=what,
                wait=wait,
                keeper=_graphs() if flag("compile: keep", keep) else None,
            )
        with held():
            if compilation.rounds or (self._compilation is not None and self._compilation.rounds):
                self._values = {}  # they have another precision
            if self._compilation is not None:
                compilation.boards = [*self._compilation.boards]
            compilation.data = self
            # They can be read until the next run, which uses the new compile.
            self._unseen |= self._values.keys()
            self._compilation, self._present, self._failed = compilation, None, False
            # On the class: what was found before only becomes a search when it is asked for.
            given = [p for p in passes if hasattr(type(p), "searched")]
            self._searched = cast("Searched", given[-1]) if given else self._searched
            # Copied with the graph, to compile the copy.
            self._compiling = partial(
                self.compile,
                *passes,
                check=check,
                licence=licence,
                specialise=specialise,
                until=until,
                wait=wait,
                keep=keep,
            )
        return compilation

    def search(
        self,
        device: DeviceCompiler | None = None,
        *,
        budget: float | Budget = 60,
        seed: int = 0,
        executor: Executor | None = None,
        dims: Mapping[str, int | Sequence[int]] | None = None,
        rules: Iterable[Rule] | None = None,
        plan: Plan | None = None,
    ) -> ProgramSearch:
        """Search for the fastest programs and schedules of the graph, and return the search.

        `budget` is in seconds; `cx.compile(ll.GenericCompiler(), search.best)` uses what was found,
        which is kept for later searches on this machine. `dims` has the sizes to measure at, one or
        several for a dim; sizes of data that is set need not be named. `rules` replace
        `ll.search.RULES`, and `plan` the device's plans; what is found is then not kept. Ctrl-C
        ends a search, which keeps what it has found.
        """
        from luminal_lab.devices.cpu.compiler import CPUCompiler  # noqa: PLC0415  # loaded when used
        from luminal_lab.devices.runtime.compiler import DeviceCompiler  # noqa: PLC0415  # likewise
        from luminal_lab.passes import compile as manager  # noqa: PLC0415  # likewise
        from luminal_lab.search.assembled import apart  # noqa: PLC0415  # likewise
        from luminal_lab.search.graph import search_program  # noqa: PLC0415  # likewise
        from luminal_lab.search.target import DEVICES  # noqa: PLC0415  # likewise
        from luminal_lab.search.winners import Winners  # noqa: PLC0415  # likewise

        device = CPUCompiler() if device is None else device
        expect(device, DeviceCompiler, "search: the device is {}", DEVICES)
        try:
            with self.whole():
                written = self._asked("search")
                sizes = self._sizes(written)
                fused = manager.compile_ir(written, manager.GenericCompiler(), apart(device)).ir
            known = {n: sizes[n] for n in sizes if n in fused.symbols}
            search = search_program(
                fused,
                device,
                budget=budget,
                seed=seed,
                executor=executor,
                dims=known | size_lists("search", dims),
                rules=rules,
                plan=plan,
                winners=Winners(),
            )
        except KeyboardInterrupt:
            raise Interrupted(
                "search: stopped by Ctrl-C before anything was found; the graph is as it was"
            ) from None
        self._searched = search.best
        return search

    def board(
        self, kernel: str | Kernel | None = None, *, dims: Mapping[str, int] | None = None
    ) -> Board:
        """Return an A/B board of a kernel of the last compile, on which other schedules are tried.

        `board.add(schedule)` compiles a schedule, checks its values and times it beside the
        kernel's own; the compile does not change. `dims` has sizes that no data gives. A recording
        keeps all boards on which something was tried.

        >>> y = (cx.tensor((64, 64), name="x") * 2).retrieve()
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> cx.board("mul")
        <Board of mul: 1 try; print(…) shows them, .add(schedule) tries another>
        """
        from luminal_lab.kernels.kernel import NONE, Kernel  # noqa: PLC0415  # loaded when used
        from luminal_lab.search.board import board_of, device_of  # noqa: PLC0415  # likewise

        compilation, kernels = self.compilation, self.kernels
        if kernel is None and len(kernels) == 1:
            kernel = kernels[0]
        hint = f"name one of {', '.join(k.name for k in kernels)}" if kernels else NONE
        expect(kernel, str | Kernel, "board: the kernel is {}", hint)
        named = kernels[kernel] if isinstance(kernel, str) else cast("Kernel", kernel)
        device = device_of(compilation)
        known = {n: s for n, s in self._sizes(self._asked("board")).items() if n in named.dims}
        board = board_of(named, device, known | named_sizes("board", dims))
        compilation.boards.append(board)
        board.watchers.update(compilation.board_watchers)
        return board

    def _sizes(self, written: IR) -> dict[str, int]:
        """Return the sizes of dims that are set, or that follow from data that is set."""
        sizes = self._set_dims | self._bound
        for id, array in self._data.items():
            if id in written:
                sizes |= solve_shape(written[id].shape, array.shape, sizes)
        return sizes

    def given(self) -> Given:
        """Return the known facts about the inputs, for passes and for runs beside the session."""
        from luminal_lab.passes.draws import Given  # noqa: PLC0415  # loaded when used

        return Given(
            self._data,
            self._set_dims | self._bound,
            self._functions,
            {id: parameter.form for id, parameter in self._lent.items()},
        )

    def marked(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the ids of inputs that are parameters, and those of nodes that are kept."""
        return frozenset(self._parameters.values()), frozenset(self._kept)

    def _asked(self, caller: str) -> IR:
        """Return the graph as written, with every value that a run may need as an output."""
        self.within()  # without a call that was interrupted
        asked = dict.fromkeys([*self._outputs, *self._probes, *self._kept])
        if not asked:
            raise GraphError(
                f"{caller}: nothing is retrieved, so there is nothing to compute",
                hint="call retrieve() on the tensors whose values you want",
            )
        return self.snapshot(tuple(asked), tuple(self._carries.items()))

    @override
    def program(self) -> Compilation | None:
        """Return the compilation of the current graph, compiling again if it is old."""
        if self._compiling is None:
            self._warn_of_failure("NumPy's interpreter runs what was written")
            return None
        if not self._outputs and not self._probes:
            return None  # the run says what is missing
        if self._compilation is None:
            return self._compiling()  # a copy has not been compiled yet
        then, now = self._compilation.written, self._asked("execute")
        if now is self._present:
            self._warn_of_failure("the program of the compile before it runs")
            return self._compilation
        if then.signature != now.signature or not then.table.shares_all(now.table):
            warn(
                f"execute: the graph {self.name!r} has changed since it was compiled, and is "
                "compiled again"
            )
            return self._compiling()
        self._present = now
        self._warn_of_failure("the program of the compile before it runs")
        return self._compilation

    @override
    def is_current(self, program: Program | None) -> bool:
        if self._compiling is None:
            return program is None and not self._failed
        return program is not None and program is self._compilation and not self._failed

    def _warn_of_failure(self, instead: str) -> None:
        """Warn once, after a failed compile, about what runs instead."""
        if self._failed:
            self._failed = False
            warn(f"execute: the last compile of the graph {self.name!r} failed, and {instead}")

    @property
    def compilation(self) -> Compilation:
        """The result of the last compile; before the first, one with no passes.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> compilation = cx.compile("simplify, dce")
        >>> cx.compilation
        <Compilation of main: 2 passes, 3 → 1 nodes>
        """
        from luminal_lab.passes import compile as manager  # noqa: PLC0415  # loaded when used

        return self._compilation or manager.compile_ir(self.ir)

    @property
    def launches(self) -> Launches:
        """The launches of a run of the last compile, in order: kernels with their arguments.

        `cx.launches[0]` is the first, and `cx.launches[y]` the one that makes the tensor y; names
        of values and of kernels work too. Without a device there are none, and the interpreter
        computes node by node; if the device is missing, they can be read but not run.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> [launch.kernel.name for launch in cx.launches]
        ['softmax']
        """
        from luminal_lab.kernels.launch import Launches  # noqa: PLC0415  # loaded when used

        compilation = self.compilation
        launches: Sequence[Launch] = getattr(compilation.program, "launches", ())

        def lines(node: int) -> tuple[Origin, ...]:
            return tuple(line for line, _ in compilation.attribution.lines(node))

        def nodes(id: int) -> set[int]:
            return {node.id for node in compilation.trace(id).last}

        return Launches(replace(launch, find=lines, follow=nodes) for launch in launches)

    @property
    def kernels(self) -> Kernels:
        """The distinct kernels of the last compile; `cx.kernels["softmax"]` is one of them.

        They can be read even if they cannot run, as without a C compiler.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> print(cx.kernels["softmax"].definition)
        kernel softmax(a: f32[4, 8]) -> (O: f32[4, 8])
          s[i < 4] = max j < 8: a[i, j]
          t[i < 4, j < 8] = exp2((a[i, j] - s[i]) * 1.442695)
          u[i < 4] = recip(sum j < 8: t[i, j])
          O[i < 4, j < 8] = t[i, j] * u[i]
        """
        from luminal_lab.kernels.kernel import Kernels  # noqa: PLC0415  # loaded when used

        return cast("Kernels", getattr(self.compilation.program, "kernels", Kernels()))

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """Where the last compile's program keeps the values of a run; None without a device.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> cx.memory_plan
        <MemoryPlan: 2 values; print(…) shows it>
        """
        return cast("MemoryPlan | None", getattr(self.compilation.program, "memory_plan", None))

    @property
    def derivation(self) -> JoinedDerivation:
        """How the kernels of the last compile came from the graph: rules, then schedule steps."""
        from luminal_lab.search.derived import derivation_of_launches  # noqa: PLC0415  # loaded when used

        return derivation_of_launches(self.compilation.ir, self.launches)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The graph as written, and as each pass of the last compile left it.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> compilation = cx.compile("simplify, dce")
        >>> [snapshot.name for snapshot in cx.snapshots]
        ['written', 'simplify', 'dce']
        """
        return self.compilation.snapshots

    def trace(self, what: Tensor | Following) -> Trace:
        """Follow a tensor, a node, a launch, or a line as in "cell 3, line 7" through snapshots.

        >>> y = (cx.tensor((2,), name="x").exp2() * 1).named("y").retrieve()
        >>> compilation = cx.compile("simplify, dce")
        >>> cx.trace(y)
        <Trace: 1 → 1 nodes; print(…) shows it>
        """
        with self.whole():
            if isinstance(what, Lazy):
                what = self._own("trace", what).id
            return self.compilation.trace(what)

    def time(
        self,
        *,
        rounds: int = 10,
        warm_up: int = 2,
        model: PeakRates | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> Timings:
        """Run the graph repeatedly, and return the times of all its launches.

        Neither values nor the number of runs change. With a `model`, the rates of a machine,
        nothing runs: least times are computed from bytes and operations, and `dims` are the sizes
        that no data gives.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> [row.name for row in cx.time(rounds=3)]
        ['mul']
        """
        from luminal_lab.timing import measure  # noqa: PLC0415  # loaded when used

        measure.check_turns("time", rounds, warm_up)
        if model is not None and not hasattr(model, "limit"):
            raise ArgumentError(
                f"time: the model is {model!r}",
                where=str(here() or "") or None,
                hint="give the rates of a machine: ll.devices.peak_rates(), or "
                'll.devices.PeakRates.stated("laptop", gflops=100, gbytes=20)',
            )
        program = self.program()
        with self.whole():
            if self.running:
                raise GraphError(f"time: the graph {self.name!r} is running", hint="time it before")
            written = self._asked("time")
            if model is not None:
                sizes = {**self._set_dims, **self._bound, **named_sizes("time", dims)}
                return measure.modelled(self.compilation.ir if program else written, model, sizes)
            if named_sizes("time", dims):
                raise ArgumentError(
                    "time: dims are sizes for a model, and here the data has them",
                    hint="give data of that size, or the rates of a machine as model=",
                )
            with stoppable(lambda: None), held(), self.turn("time"):
                environment = self._environment(written, {})
                subject = written if program is None else self.compilation
                return measure.measured(subject, environment, rounds=rounds, warm_up=warm_up)

    def advise(self, *, budget: float = 30) -> Advice:
        """Look for what is slow, try what would help, and return at most five findings.

        Each has its place, the line to change, and the gain: measured by compiling a changed copy
        and timing both in turns, or modelled. Trials begin for `budget` seconds; Ctrl-C ends them
        and keeps what was found. Needs data; the session does not change.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> len(cx.advise()) <= 5
        True
        """
        from luminal_lab.advice.advise import advise  # noqa: PLC0415  # loaded when used
        from luminal_lab.advice.suspect import Case, recipe_of  # noqa: PLC0415  # likewise
        from luminal_lab.passes import compile as manager  # noqa: PLC0415  # likewise

        seconds = real_number(budget)
        if seconds is None or not 0 <= seconds < float("inf"):
            raise ArgumentError(
                f"advise: budget is {budget!r}",
                where=str(here() or "") or None,
                hint="give the seconds in which trials may begin, as in budget=30",
            )
        before, start = self._compilation, perf_counter()
        after = self.program()
        is_anew = before is not None and after is not before
        recompiled = perf_counter() - start if is_anew else None
        timings = self.time(rounds=15)
        with self.whole():
            written = self._asked("advise")
            since = written.table.size if before is None else before.written.table.size
            recipe = recipe_of(self._compiling)
            probed = tuple(self._probes)
            case = Case(
                written,
                self._compilation or manager.compile_ir(written),
                # The user's probes print, and only runs call them.
                self._environment(written, dict.fromkeys(probed, (_look,))),
                self.given(),
                recipe,
                timings,
                probed,
                tuple(dict.fromkeys([*self._outputs, *self._kept])),
                recompiled,
                tuple(node.id for node in written if node.id >= since),
            )
        return advise(case, seconds)

    def _environment(self, written: IR, probes: Mapping[int, Sequence[Probe]]) -> Environment:
        """Return what a run beside the session depends on."""
        return Environment(
            self._input_value,
            self._sized(written),
            self.step,
            self._functions,
            probes,
            versions={id: p.version for p, id in self._parameters.items()},
        )

    def _sized(self, written: IR) -> dict[str, int]:
        """Return the sizes of dims for a run of a graph, whose inputs get their data."""
        needed = frozenset(written.ancestors(written.output_ids))
        self._provide(self._reached(written).own_inputs(self._lent).values(), needed)
        return self._bind(written, needed)

    def _newest(self) -> Compilation | None:
        """Return the last compile, unless the graph has changed since."""
        newest = self._compilation
        if newest is None or not (self._outputs or self._probes or self._kept):
            return None
        then, now = newest.written, self._asked("display")
        is_same = then.signature == now.signature and then.table.shares_all(now.table)
        return newest if is_same else None
