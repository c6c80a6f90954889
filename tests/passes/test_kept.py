"""What passes made is kept where a text can say it, and the passes run when somebody looks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.errors import ArgumentError, DeviceError, PassError
from luminal_lab.listeners import LISTENERS
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compile import _Compiling, compile_ir
from luminal_lab.passes.kept import Made, asked_text
from luminal_lab.passes.pattern import variables
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.rule import Rule


class Memory:
    """A keeper of this process."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Made] = {}
        self.found = 0

    def find(self, written: IR, asked: str) -> Made | None:
        made = self.kept.get((str(written), asked))
        self.found += made is not None
        return made

    def keep(self, written: IR, asked: str, made: Made) -> None:
        self.kept[str(written), asked] = made


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """Return the names of the passes that ran."""
    names: list[str] = []
    run_pass = _Compiling._run_pass

    def noted(self, pass_, licence, turn):
        names.append(pass_.name)
        return run_pass(self, pass_, licence, turn)

    monkeypatch.setattr(_Compiling, "_run_pass", noted)
    return names


def graph() -> IR:
    """Return a graph with something to do."""
    cx = ll.Graph("kept")
    x = cx.tensor(("batch", 4), name="x")
    (x * 1 + 0).softmax(-1).named("y").retrieve()
    return cx.ir


def twice(memory: Memory, *passes, **options):
    """Compile a graph two times, and return the results."""
    return [compile_ir(graph(), *passes, keeper=memory, **options) for _ in range(2)]


def test_the_passes_of_a_kept_graph_run_when_somebody_looks(memory, ran):
    first, second = twice(memory, ll.GenericCompiler())
    number = len(ran)
    assert memory.found == 1
    assert number == len(first.snapshots) - 1
    assert second.ir == first.ir
    assert second.written == first.written
    assert second.changing == first.changing == {s.name for s in first.snapshots if s.firings}
    assert len(ran) == number
    assert [str(shot) for shot in second.snapshots] == [str(shot) for shot in first.snapshots]
    assert len(ran) == 2 * number
    assert second.snapshots is second.snapshots
    assert second.ir is second.snapshots[-1].ir


@pytest.mark.parametrize(
    "look",
    [
        lambda compiled: str(compiled.why("y")),
        lambda compiled: str(compiled.trace("%x")),
        lambda compiled: repr(compiled),
        lambda compiled: str(compiled.stops(rule="mul-one")[0]),
        lambda compiled: [
            each.share for each in compiled.attribution.lines(compiled.ir.output_ids[0])
        ],
        lambda compiled: compiled.to_pandas("firings")["rule"].tolist(),
    ],
    ids=["why", "trace", "repr", "stops", "attribution", "table"],
)
def test_whatever_is_asked_of_a_kept_graph_has_the_same_answer(memory, look):
    first, second = twice(memory, ll.GenericCompiler())
    assert memory.found == 1
    assert look(second) == look(first)


def test_it_is_run_by_a_device_without_its_passes(memory, ran):
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    values = []
    for _ in range(2):
        cx = ll.Graph("kept")
        y = (cx.tensor(("batch", 4), name="x").set(x) * 1).softmax(-1).retrieve()
        compiled = compile_ir(cx.ir, ll.GenericCompiler(), ll.CPUCompiler(), keeper=memory)
        environment = cx._environment(cx.ir, {})
        values.append(compiled.values(environment, {compiled.ir.output_ids[0]}, {}, None))
        number, ran[:] = len(ran), []
        assert y.shape is not None
    assert number == 0
    assert [*values[0]] == [*values[1]]
    for a, b in zip(values[0].values(), values[1].values(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "options", [{"check": "values"}, {"until": "rule mul-one"}], ids=["check", "until"]
)
def test_passes_run_where_they_are_watched(memory, options):
    twice(memory, "simplify, dce", **options)
    assert not memory.kept


def test_a_trace_sees_the_passes(memory):
    told = []

    class Listener:
        def wrote(self, graph):
            pass

        def compiles(self, graph, written):
            pass

        def compiled(self, compilation, error):
            told.append([shot.name for shot in compilation.snapshots])

    token = LISTENERS.set((*LISTENERS.get(), Listener()))
    try:
        twice(memory, "simplify, dce")
    finally:
        LISTENERS.reset(token)
    assert told == [["written", "simplify", "dce"]] * 2


def test_a_graph_that_its_passes_do_not_make_is_told(memory):
    twice(memory, "simplify, dce")
    ((key, made),) = memory.kept.items()
    memory.kept[key] = Made(graph(), made.changing)
    compiled = compile_ir(graph(), "simplify, dce", keeper=memory)
    with pytest.raises(PassError, match="kept of kept is not what its passes make") as caught:
        print(compiled)
    assert caught.value.hint is not None
    assert 'll.devices.cached("graphs").clear()' in caught.value.hint


def test_an_error_of_a_device_has_the_passes(memory, monkeypatch):
    twice(memory, "simplify, dce", ll.CUDACompiler(arch="sm_90"))
    assert memory.found == 1

    def runner(self, ir, specialise=None, recall=None):
        raise DeviceError("cuda: not today")

    monkeypatch.setattr(ll.CUDACompiler, "runner", runner)
    with pytest.raises(DeviceError) as caught:
        compile_ir(graph(), "simplify, dce", ll.CUDACompiler(arch="sm_90"), keeper=memory)
    assert len(caught.value.snapshots) > 3


# -- what a text can say ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Mine(Pass):
    """A pass of a user's, which may change while its name stays."""

    name: ClassVar[str] = "mine-to-keep"

    def run(self, ir, edit):
        """Do nothing."""


X = variables("x")
ADD_ZERO = Rule("my-add-zero", X + 0, X)


@pytest.mark.parametrize(
    "pipeline",
    [
        Pipeline([Mine()]),
        Pipeline(["simplify", Pipeline([Mine()], rounds=2)]),
        Pipeline([ADD_ZERO]),
        Pipeline([ll.CUDACompiler(arch="sm_90", schedules={"softmax": "parallel i"})]),
    ],
    ids=["pass", "nested", "rule", "schedules"],
)
def test_what_a_user_has_written_is_not_kept(pipeline):
    assert asked_text(graph(), pipeline, (), {}) is None


def test_everything_that_decides_is_in_the_text():
    def text(pipeline, facts=("contract",), weights=None):
        return asked_text(graph(), Pipeline([*pipeline]), facts, weights or {})

    texts = [
        text(["simplify"]),
        text(["simplify", "dce"]),
        text([Pipeline(["simplify", "dce"], rounds=3)]),
        text(["simplify"], facts=()),
        text(["simplify"], weights={0: "q8_0"}),
        text([ll.GenericCompiler()]),
        text([ll.CPUCompiler(threads=1)]),
        text([ll.CPUCompiler(threads=2)]),
    ]
    assert None not in texts
    assert len({*texts}) == len(texts)


@dataclass(frozen=True, slots=True)
class Mild(ll.Unary):
    """An op of a user's."""

    name: ClassVar[str] = "mild_to_keep"

    def eval(self, x):
        """Return half of it."""
        return x / 2


def test_graphs_with_ops_of_users_are_not_kept():
    cx = ll.Graph()
    cx.tensor((2,), name="x").apply(Mild()).retrieve()
    assert asked_text(cx.ir, Pipeline(["simplify"]), (), {}) is None


def test_functions_of_the_host_are_not_kept():
    cx = ll.Graph()
    cx.function(np.sin, cx.tensor((2,), name="x"), shape=(2,)).retrieve()
    assert asked_text(cx.ir, Pipeline(["simplify"]), (), {}) is None


def test_keep_is_true_or_false():
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 1).retrieve()
    with pytest.raises(ArgumentError, match="compile: keep is 'yes'"):
        cx.compile("simplify", keep="yes")  # pyright: ignore[reportArgumentType]
