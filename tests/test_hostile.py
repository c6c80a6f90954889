"""Bad arguments for what is new: breakpoints, searches, boards, stories, places, quizzes, advice.

Each ends in an error of ours with a hint, or works; none hangs, runs something, or leaves a
process.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError
from luminal_lab.io.opened import Opened
from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure
from tests import processes, wrong
from tests.io import recorded

DEVICE = ll.CUDACompiler(arch="sm_90")
"""One that compiles nothing until it is asked."""
GIVEN: list[Any] = [
    *(None, "", b"x", "\x00", "\u202e%y", "é", "漢字", "%" * 500, "x" * 50_000, "%y\n%x", -1, 0),
    *(10**30, 2.5, float("nan"), float("inf"), float("-inf"), 1j, True, [], [1], (), {}, {"a": 1}),
    *({1, 2}, wrong.Thing(), len, np.ones(3), np.array("a"), slice(1), Ellipsis, "rule", "rule "),
    *(
        "rule nope",
        "rule %y",
        "cell 1, line",
        "cell 1, line -1",
        "cell \u0661, line \u0662",
        ":1",
        "%99",
    ),
    *("%x/%y", "*", "(?:", "(" * 50, "../x", np.float32("nan"), [None], ["%y"] * 1_000),
]


def is_empty(value: object) -> bool:
    """Return whether a value is a schedule of no steps, which may be tried."""
    return isinstance(value, (str, list, tuple)) and not value


def written() -> ll.Graph:
    cx = ll.Graph("g")
    x = cx.tensor((4, 8), name="x").set(np.ones((4, 8)))
    (x * 1 + 0).softmax(-1).named("y").retrieve()
    return cx


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Callable[[Any], object]]:
    """What is asked of a graph, a compile, times, a board and a recording, each of one value."""
    folder = tmp_path_factory.mktemp("hostile")
    cx, plain = written(), written()
    compilation = plain.compile("simplify, dce")
    cx.compile(ll.GenericCompiler(), DEVICE)
    cx.save(folder / "run.lab")
    run = ll.open(folder / "run.lab")
    times = cx.time(model=PeakRates.stated("a machine", gflops=100, gbytes=10))
    board = cx.board()
    return {
        "compile until": lambda value: plain.compile("simplify, dce", until=value),
        "compile_ir until": lambda value: ll.compile_ir(plain.ir, "simplify", until=value),
        "stops": compilation.stops,
        "stops rule": lambda value: compilation.stops(rule=value),
        "stops[]": lambda value: compilation.stops("%y")[value],
        "Search": ll.Search,
        "Search budget": lambda value: ll.Search(DEVICE, budget=value),
        "Search seed": lambda value: ll.Search(DEVICE, seed=value),
        "Search cached": lambda value: ll.Search("cached", seed=value),
        "Budget": lambda value: ll.Budget(value, value),
        "story": lambda value: ll.story(cx, value),
        "story of": lambda value: ll.story(value, [("simplify", "x")]),
        "story at": lambda value: ll.story(cx, [(value, "x")]),
        "story text": lambda value: ll.story(cx, [("simplify", value)]),
        "workbench at": lambda value: cx.workbench(at=value),
        "predict": lambda value: ll.predict(cx, value),
        "predict of": lambda value: ll.predict(value, "simplify"),
        "by": times.by,
        "by depth": lambda value: times.by("scope", depth=value),
        "by[]": lambda value: times.by("line")[value],
        "cached": ll.devices.cached,
        "cached older": lambda value: ll.devices.cached(older=value),
        "minimise": lambda value: ll.minimise(value, fires="mul-one"),
        "minimise fires": lambda value: ll.minimise(plain, fires=value),
        "minimise misses": lambda value: ll.minimise(plain, misses=value, at="%y"),
        "minimise at": lambda value: ll.minimise(plain, misses="softmax", at=value),
        "minimise raises": lambda value: ll.minimise(plain, raises=value),
        "minimise shows": lambda value: ll.minimise(plain, value),
        "minimise most": lambda value: ll.minimise(plain, fires="mul-one", most=value),
        "beside": lambda value: ll.beside(cx, value),
        "beside names": lambda value: ll.beside(cx, plain, names=value),
        "board": cx.board,
        "board dims": lambda value: cx.board(dims=value),
        "board add": lambda value: None if is_empty(value) else board.add(value),
        "board seconds": lambda value: board.add("split q by 2", name="q", seconds=value),
        "board[]": lambda value: board[value],
        "board keep": board.keep,
        "board rename": lambda value: board.rename("nobody", value),
        "board drop": board.drop,
        "board diff": board.diff,
        "run.board": run.board,
        "open limit": lambda value: ll.open(folder / "run.lab", limit=value),
        "open trust": lambda value: None if value is True else ll.open(folder, trust=value),
        "why_not": cx.kernels[0].why_not,
    }


NAMES = """
compile until;compile_ir until;stops;stops rule;stops[];Search;Search budget;Search seed
Search cached;Budget;story;story of;story at;story text;workbench at;predict
predict of;by;by depth;by[];cached
cached older;minimise;minimise fires;minimise misses;minimise at;minimise raises;minimise shows
minimise most;beside;beside names;board;board dims;board add;board seconds;board[];board keep
board rename;board drop;board diff;run.board;open limit;open trust;why_not
"""


def test_all_are_asked(asked: Mapping[str, Callable[[Any], object]]):
    assert [*asked] == NAMES.strip().replace("\n", ";").split(";")


@pytest.mark.filterwarnings("ignore")  # a breakpoint that no firing touches
@pytest.mark.parametrize("name", NAMES.strip().replace("\n", ";").split(";"))
def test_a_bad_argument_is_answered_in_our_words(
    asked: Mapping[str, Callable[[Any], object]], name: str
):
    before = processes.children()
    told: list[str] = []
    for value in GIVEN:
        try:
            with wrong.limited(20):
                asked[name](value)
        except LabError as error:
            if not error.hint or len(str(error)) > 4_200:
                told.append(f"{value!r:.60}: {error}")
        except Exception as error:
            told.append(f"{value!r:.60}: {type(error).__name__}: {error}")
    assert told == []
    assert processes.children() == before


@pytest.mark.parametrize(
    "budget", [None, "a", -1, float("nan"), float("inf"), np.ones(2), True, []]
)
def test_the_budget_of_advice(budget: Any, monkeypatch: pytest.MonkeyPatch):
    rates = PeakRates.stated("a machine", gflops=100, gbytes=10)
    monkeypatch.setattr(measure, "peak_rates", lambda: rates)
    with pytest.raises(ll.ArgumentError, match=r"^advise: budget is "):
        written().advise(budget=budget)


# -- boards that a file brings along ---------------------------------------------------------------

EVIL = "import os; os.system('touch evil')"
TRIES: Mapping[str, Any] = {
    "name": ["\x1b[2J\u202e", "../../etc", "x" * 100_000, ""],
    "schedule": [EVIL, "split i by " + "9" * 5_000, '"""; ' + EVIL, "(" * 20_000, "\\", "é" * 99],
    "state": ["", "great", "first", "wrong"],
    "why": ["\x1b[2J", "x" * 100_000],
    "place": [[-5, -5], [10**18, 3], [1], [1, 2, 3]],
    "seconds": [[3, 2, 1], [-1, -1, -1], [1e308] * 3, [0, 0, 0], [1, 2], ["a", 1, 2], [1e400] * 3],
    "ratio": [[-1, -1, -1], [1e308] * 3, [float("nan")] * 3, []],
    "rounds": [-1, 10**300, 1.5, True],
    "modelled": [-1, 1e308, 10**300, 10**400, "1"],
    "modelled_ratio": [-1, 1e308],
    "kept": [1, None, "yes"],
    "python": [EVIL, "x" * 100_000],
}
"""Values of a try that nobody here has written."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    cx = written()
    cx.compile(ll.GenericCompiler(), DEVICE)
    cx.board().add("split q by 2", name="a slip")
    path = tmp_path_factory.mktemp("boards") / "run.lab"
    cx.save(path)
    return path.read_bytes()


def changes() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Yield changes of the facts of a recording, and what each is called."""
    for field, values in TRIES.items():
        for value in values:
            yield (
                f"{field}={value!r:.30}",
                lambda facts, f=field, v=value: facts["boards"][0]["tries"][1].update({f: v}),
            )
    for field in ("kernel", "device", "how", "sizes", "model", "tries"):
        for value in (None, -1, 99, 10**30, "\x1b[2J", [], {}, True, EVIL):
            yield (
                f"board {field}={value!r:.30}",
                lambda facts, f=field, v=value: facts["boards"][0].update({f: v}),
            )
    for field in ("name", "definition", "schedule"):
        for value in (EVIL, "x" * 100_000, "", "(" * 20_000):
            yield (
                f"kernel {field}={value!r:.30}",
                lambda facts, f=field, v=value: facts["kernels"][0].update({f: v}),
            )
    yield (
        "many tries",
        lambda facts: facts["boards"][0].update(tries=facts["boards"][0]["tries"] * 5_000),
    )
    yield "many boards", lambda facts: facts.update(boards=facts["boards"] * 2_000)


def look(run: Opened, folder: Path) -> None:
    """Look at all that a recording shows of its boards."""
    assert "\x1b" not in f"{run}{run!r}"
    for board in run.boards[:3]:
        assert "\x1b" not in f"{board}{board!r}"
        assert "\x1b" not in board.display().html
        for one in list(board)[:3]:
            assert "\x1b" not in f"{one}{one!r}"
            # What people paste reschedules a kernel, and does nothing else.
            parts = [*ast.walk(ast.parse(one.python))]
            calls = [part for part in parts if isinstance(part, ast.Call)]
            assert [ast.unparse(call.func).rpartition(".")[2] for call in calls] == ["rescheduled"]
            assert not any(isinstance(part, ast.Import | ast.ImportFrom) for part in parts)
            board.diff(0, one.name)
    run.workbench().export(folder / "page.html")
    run.save(folder / "again.lab")


@pytest.mark.parametrize(("change"), dict(changes()).values(), ids=[*dict(changes())])
def test_a_board_that_somebody_changed_is_shown_or_refused_and_nothing_runs(
    recording: bytes,
    change: Callable[[Any], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("luminal_lab.search.board.answer_of", lambda _: pytest.fail("it ran"))
    path = tmp_path / "run.lab"
    path.write_bytes(recording)
    recorded.rewrite(path, lambda document: change(document["subjects"][0]["facts"]))
    before, said = processes.children(), "opened"
    try:
        with wrong.limited(60):
            look(ll.open(path), tmp_path)
    except LabError as error:
        said = f"{error}" if error.hint else ""
    assert said
    assert len(said) < 4_200
    assert processes.children() == before
    assert not (tmp_path / "evil").exists()
