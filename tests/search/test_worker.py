"""A batch at work: what hangs, crashes, computes wrong or does not compile costs itself alone."""

import shutil
from collections.abc import Iterator

import pytest

from luminal_lab.devices.build import cache
from luminal_lab.errors import DeviceError
from luminal_lab.search import measure, worker
from luminal_lab.search.driver import WRONG, Answer
from luminal_lab.search.loops import begun
from luminal_lab.search.worker import answered
from tests.processes import children
from tests.search.planted import faulty, job_of, matmul, tiles


@pytest.fixture(scope="module", autouse=True)
def _a_compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile into a folder of this run's own, and measure little."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: install gcc or clang")
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_folder", lambda: folder)
        patch.setattr(worker, "spare_folder", lambda: folder)
        patch.setattr(measure, "MEASURING", 0.0)
        yield


def answer(faults: dict[int, str], count: int = 5, **more: object) -> Answer:
    search = begun(matmul(13, 17, 40), plan=tiles)
    batch = search.driver.ask(count)
    assert batch is not None
    return answered(job_of(search.job(batch)), faulty(faults))


def test_faults_are_results_and_the_others_have_times():
    before = children()
    told = answer(
        {
            1: "for (volatile int x = 1; x;) {}",
            2: "*(volatile int *)0 = 1;",
            3: "((float *)lab_buffers[2])[0] = 7; return;",
            4: "no C;",
        }
    )
    hang, crash, wrong, broken, right = told.outcomes
    assert hang.why == "it was ended after 1 s"
    assert crash.why == "it writes memory by a null pointer"
    assert wrong.is_wrong
    assert wrong.why.startswith(f"{WRONG}c[0, 0] is ")
    assert broken.why.startswith("it does not compile: program.c:")
    assert {o.state for o in (hang, crash, wrong, broken)} == {"failed"}
    assert right.state in ("measured", "stopped")
    assert right.samples
    assert told.reference.samples
    assert len(told.machine) == 16
    assert children() == before


def test_what_reaches_beyond_its_arrays_is_found():
    told = answer(
        {
            1: "((float *)lab_buffers[2])[13 * 40] = 7;",
            2: "((float *)lab_buffers[2])[-1] = 7;",
            3: "((float *)lab_buffers[0])[0] = 7;",
        },
        3,
    )
    assert [outcome.why for outcome in told.outcomes] == [
        "it writes behind c",
        "it writes before c",
        "it changes its input a",
    ]


def test_a_default_that_fails_ends_the_search():
    def make(definition: object, name: str, schedule: str) -> object:
        raise DeviceError("compile: no")

    search = begun(matmul(3, 4, 5), plan=tiles)
    batch = search.driver.ask(1)
    assert batch is not None
    with pytest.raises(DeviceError, match="search: the default kernel fails"):
        answered(job_of(search.job(batch)), make)  # pyright: ignore[reportArgumentType]  # planted
