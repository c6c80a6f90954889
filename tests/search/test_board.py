"""A board: each state of a try, intervals by order, names, and trust for what a file says."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import trust
from luminal_lab.io.recording import save_recording
from luminal_lab.plain import plain
from luminal_lab.search import board as boards, measure, worker
from luminal_lab.search.board import Board, Interval, boards_of, place_of
from luminal_lab.search.driver import WRONG, Answer, Outcome
from luminal_lab.viz.live.backed import backed_compile
from luminal_lab.viz.live.columns import read
from luminal_lab.viz.live.workbench import Workbench
from tests.expect import error_of
from tests.needs import need
from tests.processes import children
from tests.search.planted import faulty, job_of

EIGHTS = "split i by 8 as task, own\nparallel i.task"


@pytest.fixture(autouse=True)
def _here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("spare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "spare_folder", lambda: folder)
        patch.setattr(measure, "LAST_ROUNDS", 8)
        yield


def session(device: ll.Pipeline | None = None) -> ll.Graph:
    cx = ll.Graph()
    x = cx.tensor(("n", 40), name="x").set(np.ones((64, 40)))
    (x * x).sum(-1).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), device or ll.CPUCompiler(threads=1))
    return cx


def answering(board: Board, *shares: Sequence[float]) -> list[tuple[str, ...]]:
    """Have a worker answer in place of the device's, each try a share of the first's second."""
    asked: list[tuple[str, ...]] = []
    left = [*shares]

    def work(text: str) -> str:
        job = job_of(text)
        asked.append(job.schedules)
        outcomes = tuple(Outcome("measured", tuple(left.pop(0))) for _ in job.schedules)
        return json.dumps(plain(Answer(Outcome("measured", (1.0,) * 9), outcomes)))

    board._target = replace(board._target, worker=work)
    return asked


def test_a_kernel_has_a_board_with_its_schedule_first():
    cx = session()
    board = cx.board("mul_sum")
    assert [one.name for one in board] == ["first"]
    assert board[0].schedule == cx.kernels["mul_sum"].schedule
    assert board.dims == {"n": 64}
    assert cx.board().name == cx.board(cx.kernels[0]).name == "mul_sum"
    assert cx.board(dims={"n": 100}).dims == {"n": 100}


def test_real_tries_are_checked_and_timed_beside_the_first():
    need("cc")
    cx = session()
    before, compilation = children(), cx.compilation
    board = cx.board()
    tried = board.add(EIGHTS, name="eights")
    assert tried.state in ("faster", "slower", "as fast")
    assert tried.rounds == 8
    assert tried.seconds is not None
    assert 0 < tried.seconds.low <= tried.seconds.middle <= tried.seconds.high
    assert tried.ratio is not None
    assert board[0].seconds is not None
    assert children() == before
    assert cx.compilation is compilation
    scope = {"cx": cx}
    exec(tried.python, scope)
    assert scope["kernel"].source == board.kernel("eights").source  # type: ignore[attr-defined]


def test_wrong_values_and_crashes_are_states():
    need("cc")
    board = session().board()
    for fault, state, why in (
        ("((float *)lab_buffers[1])[0] = 7; return;", "wrong", "O[0] is 7.0, and should be "),
        ("*(volatile int *)0 = 1;", "failed", "it writes memory by a null pointer"),
    ):
        make = faulty({1: fault})
        work = lambda text, make=make: json.dumps(plain(worker.answered(job_of(text), make)))  # noqa: E731
        board._target = replace(board._target, worker=work)
        tried = board.add(EIGHTS)
        assert tried.state == state
        assert tried.why.startswith(why)
        assert tried.seconds is None
    assert WRONG not in str(board)


def test_what_the_interval_says_is_the_state():
    board = session().board()
    answering(
        board, [0.5] * 9, [2.0] * 9, [1.01] * 9, [0.8, 1.3, 0.9, 0.7, 1.4, 0.6, 1.2, 0.9, 0.8]
    )
    states = [board.add(EIGHTS).state for _ in range(4)]
    assert states == ["faster", "slower", "as fast", "as fast"]
    assert [one.name for one in board[1:]] == ["try 1", "try 2", "try 3", "try 4"]


@pytest.mark.parametrize(
    ("count", "low", "high"), [(1, 0, 0), (5, 0, 4), (6, 0, 5), (9, 1, 7), (40, 13, 26)]
)
def test_intervals_are_those_of_the_sign_test(count: int, low: int, high: int):
    samples = [float(n) for n in range(count)]
    interval = Interval.of(samples[::-1])
    assert (interval.low, interval.high) == (low, high)
    assert interval.middle == (count - 1) / 2


def test_a_refused_step_is_a_state_with_its_place():
    board = session().board()
    asked = answering(board)
    tried = board.add("# one\nsplit i by 8 as task, own\n\n   parallel i.tusk\n")
    assert (tried.state, tried.place) == ("refused", (3 + 1, 4))
    assert tried.why == "parallel i.tusk: there is no loop i.tusk"
    assert asked == []
    assert place_of("split i by 8\nsimd i", 0) == (1, 1)


def test_a_text_that_is_no_schedule_is_an_error_and_no_try():
    board = session().board()
    error = error_of(lambda: board.add("split i by 8\nsplat j"))
    assert isinstance(error, ll.ParseError)
    assert error.message.startswith("kernel mul_sum: line 2, column 1: ")
    assert len(board) == 1


def test_those_that_are_kept_are_timed_again():
    board = session().board()
    asked = answering(board, [0.5] * 9, [0.6] * 9, [0.9] * 9, [0.7] * 9, [0.8] * 9)
    board.add(EIGHTS, name="a")
    board.keep("a")
    board.add("parallel i", name="b")
    assert asked == [(EIGHTS,), (EIGHTS, "parallel i")]
    assert [one.ratio and one.ratio.middle for one in board] == [None, 0.6, 0.9]
    board.keep("a", kept=False)
    board.measure()
    assert [one.ratio and one.ratio.middle for one in board] == [None, 0.7, 0.8]


def test_names_diffs_and_what_goes():
    board = session().board()
    answering(board, [0.5] * 9, [0.5] * 9)
    board.add(EIGHTS, name="eights")
    board.add(EIGHTS.replace("8", "4"))
    board.rename("try 1", "fours")
    assert str(board.diff("fours", "eights")).splitlines() == [
        "--- eights",
        "+++ fours",
        "@@ -1,2 +1,2 @@",
        "-split i by 8 as task, own",
        "+split i by 4 as task, own",
        " parallel i.task",
    ]
    assert board.diff("fours", "fours") == "fours and fours have the same steps"
    board.drop("eights")
    assert [one.name for one in board] == ["first", "fours"]
    assert error_of(lambda: board["eights"]).message == "board: no try is called 'eights'"
    assert error_of(lambda: board.drop(0)).message.startswith("board: the first try stays")
    assert error_of(lambda: board.add(EIGHTS, name="fours")).hint == (
        "give another name, or drop that one"
    )


def test_watchers_hear_of_each_change():
    board, heard = session().board(), list[int]()

    class Watching:
        def board_changed(self, board: Board) -> None:
            heard.append(len(board))

    watching = Watching()
    board.watchers.add(watching)
    answering(board, [0.5] * 9)
    board.add(EIGHTS)
    board.keep(1)
    board.drop(1)
    assert heard == [2, 2, 1]


def test_a_gpus_times_are_a_models():
    cx = session(ll.CUDACompiler(arch="sm_90"))
    board = cx.board()
    work: Callable[[str], str] = lambda text: json.dumps(  # noqa: E731
        plain(Answer(Outcome("modelled", modelled=2e-6), (Outcome("modelled", modelled=1e-6),)))
    )
    board._target = replace(board._target, worker=work)
    tried = board.add(cx.kernels[0].schedule or "")
    assert (tried.state, tried.modelled_ratio, tried.seconds) == ("faster", 0.5, None)
    assert "times are those of a model of" in str(board)
    assert "~1 µs" in str(board)


def test_without_a_device_or_a_schedule_there_is_no_board():
    cx = ll.Graph()
    cx.tensor((2,), name="x").relu().retrieve()
    cx.compile("simplify")
    assert error_of(cx.board).message.startswith("board: the kernel is None")
    kernel = session().kernels[0]
    assert error_of(lambda: cx.board(kernel)).message == (
        "board: the last compile is for no device, so it has no kernels"
    )
    assert error_of(lambda: session().board("mulsum")).hint == "did you mean 'mul_sum'?"
    error = error_of(lambda: session().board(dims={"m": 3}))
    assert error.message.endswith("has no dim 'm'")


def test_the_board_as_text_and_as_a_table():
    board = session().board()
    answering(board, [0.5] * 9)
    board.add(EIGHTS, name="eights")
    board.keep("eights")
    assert str(board).splitlines() == [
        "board of mul_sum on cpu{threads = 1}, n = 64",
        "",
        "try        time         interval  ratio       interval  state",
        "first       1 s        1 s … 1 s                        first",
        "eights*  500 ms  500 ms … 500 ms  0.500  0.500 … 0.500  faster",
    ]
    need("pandas")
    table = board.to_pandas()
    assert table["ratio"].tolist()[1] == 0.5
    assert table["name"].tolist()[0] == boards.FIRST


def test_all_boards_of_a_kernel_are_kept_on_which_something_was_tried(tmp_path: Path):
    cx = session()
    first, unused, second = cx.board(), cx.board(), cx.board()
    for board in (first, second):
        answering(board, [0.5] * 9)
    first.add(EIGHTS, name="eights")
    second.add(EIGHTS, name="the same again")
    assert boards_of(cx.compilation) == [first, unused, second]
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    third = cx.board()
    answering(third, [0.25] * 9)
    third.add(EIGHTS, name="later")
    cx.save(tmp_path / "run.lab")
    kept = ll.open(tmp_path / "run.lab").boards
    names = ["eights", "the same again", "later"]
    assert [[one.name for one in board] for board in kept] == [["first", name] for name in names]
    assert "3 boards" in str(ll.open(tmp_path / "run.lab"))


def test_a_recording_keeps_boards_and_shows_them_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cx = session()
    board = cx.board()
    answering(board, [0.5] * 9, [0.25, 0.26, 0.24] * 3)
    board.add(EIGHTS, name="eights")
    board.keep("eights")
    board.add("split i by 8\nsimd q", name="a slip")
    assert not cx.board(dims={"n": 8}).is_used
    cx.save(tmp_path / "run.lab")
    cx.compilation.save(tmp_path / "compiled.lab")
    monkeypatch.setattr(boards, "target_of", lambda _: pytest.fail("something is compiled"))
    for name in ("run.lab", "compiled.lab"):
        (saved,) = ll.open(tmp_path / name).boards
        assert str(saved).replace("°", "").split() == str(board).split()
        assert re.findall("°[0-9]+ m?s", str(saved)) == ["°1 s", "°500 ms"]
        assert [one.schedule for one in saved[:2]] == [one.schedule for one in board[:2]]
        assert saved["a slip"].why == board["a slip"].why
        assert saved["eights"].python == board["eights"].python
        assert (saved["eights"].seconds, saved["eights"].mark) == (board["eights"].seconds, "°")
        assert "°500 ms" in saved.display().html
        assert str(saved.diff("eights")) == str(board.diff("eights"))
    assert "; 1 board" in str(ll.open(tmp_path / "run.lab"))
    opened = ll.open(tmp_path / "run.lab")
    bench = opened.workbench()
    assert isinstance(bench, Workbench)
    (facts,) = read(bench.data).header["runs"][0]["facts"]["boards"]
    assert [one["name"] for one in facts["tries"]] == ["first", "eights", "a slip"]
    assert facts["how"] == "recorded"
    opened.save(tmp_path / "again.lab")
    assert str(ll.open(tmp_path / "again.lab").boards[0]) == str(opened.boards[0])
    need("script")
    opened.export(tmp_path / "page.html")


def test_the_python_of_a_recorded_try_is_never_the_files(tmp_path: Path):
    cx = session()
    board = cx.board()
    answering(board, [0.5] * 9)
    board.add(EIGHTS, name="eights")
    subject = backed_compile(cx.compilation).subject
    (facts,) = subject.facts.boards
    evil = tuple(replace(one, python="import os; os.system('evil')") for one in facts.tries)
    facts = replace(subject.facts, boards=(replace(facts, tries=evil),))
    save_recording(tmp_path / "run.lab", [replace(subject, facts=facts)])
    opened = ll.open(tmp_path / "run.lab")
    assert opened.facts.boards[0].tries[1].python == board["eights"].python
    assert opened.boards[0]["eights"].python == board["eights"].python


def test_a_file_compiles_nothing_that_nobody_has_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trust, "_HERE", {})
    cx = session()
    cx.save(tmp_path / "run.lab")
    board = ll.open(tmp_path / "run.lab").board("mul_sum", dims={"n": 64})
    asked = answering(board, [0.5] * 9)
    error = error_of(lambda: board.add(EIGHTS, name="eights"))
    assert isinstance(error, ll.TrustError)
    assert error.message == (
        "kernel mul_sum by its schedule: it comes from a file, and no user here has allowed it"
    )
    assert asked == []
    trusted = ll.open(tmp_path / "run.lab", trust=True).board("mul_sum")
    answering(trusted, [0.5] * 9)
    assert trusted.add(EIGHTS).state == "faster"
