"""What every test may ask for: golden files, torch as a witness, long sweeps and drawn shares."""

import difflib
import gc
import os
import random
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any, Final

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests import no_addresses  # noqa: F401  # for what it does
from tests.needs import need

# Small and the same on every run; `--hypothesis-profile=long` searches further, and differently.
settings.register_profile("small", max_examples=30, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile("small")


COUNTED: Final = "counted"
"""The name of the section at the end that has what tests counted."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write what the golden tests got into their files"
    )
    parser.addoption(
        "--long", action="store_true", help="run every sweep whole, and not the share that is drawn"
    )
    parser.addoption(
        "--seed", type=int, default=None, help="the seed of drawn shares; the header shows it"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "share(names, cases, count, ids=None): parametrize with `count` of the cases, drawn by "
        "--seed; with --long, with all of them. share(count): so of the cases of all parametrize",
    )
    config.addinivalue_line("markers", "needs(*names): skip what tests/needs.py does not find")
    config.addinivalue_line("markers", "sweep: what `make test-long` runs, whole or by its share")
    if config.getoption("hypothesis_profile", None) != "long":
        # No module of ours is one whose numbers are drawn, too: a worker would parse them all for
        # 20 seconds, and a test alone would draw other examples than it draws in the suite.
        patch = pytest.MonkeyPatch()
        patch.setattr(providers, "is_local_module_file", lambda path: False, raising=False)
    if config.option.seed is None:
        given = getattr(config, "workerinput", {})
        config.option.seed = given.get("seed", random.SystemRandom().randrange(1_000_000))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give workers their controller's seed: all have to collect the same tests."""
    node.workerinput["seed"] = node.config.option.seed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: tests of browsers and notebooks mostly wait."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return (cores or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in tests: that imports each of them a second time."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


def pytest_collection_finish() -> None:
    """Keep the collector away from the thousands of tests, which all live until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # tests make much, and hold little of it


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep the collector away from what a file leaves behind, too: modules, and what they cache."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Say which shares are drawn, so that a failure can be had again."""
    return f"shares: {'all' if config.option.long else f'drawn by --seed {config.option.seed}'}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what was skipped, one line a reason: on a bare machine one package is missing often."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:>6,}  {reason}")

    counts = Counter(
        text
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == COUNTED and report.when == "call"
    )
    if counts:
        terminalreporter.section(COUNTED)
    for text, count in sorted(counts.items()):
        terminalreporter.write_line(f"{count:>6,}  {text}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a sweep with all of its cases, or with the share that the seed draws."""
    for mark in metafunc.definition.iter_markers("share"):
        if len(mark.args) == 1:
            continue  # drawn when all cases are there
        names, cases, count = mark.args
        cases, ids = list(cases), mark.kwargs.get("ids")
        chosen = list(range(len(cases)))
        if not metafunc.config.option.long and count < len(cases):
            # One seed draws other shares of other tests.
            rng = random.Random(f"{metafunc.config.option.seed} {metafunc.definition.nodeid}")
            chosen = sorted(rng.sample(chosen, count))
        if ids is not None and not callable(ids):
            ids = [list(ids)[place] for place in chosen]
        metafunc.parametrize(names, [cases[place] for place in chosen], ids=ids)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark drawn shares as parts of sweeps."""
    if item.get_closest_marker("share") is not None:
        item.add_marker("sweep")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the seed does not draw of a test's cases, of those that were asked for."""
    shares: dict[str, tuple[int, list[pytest.Item]]] = {}
    for item in items:
        mark = item.get_closest_marker("share")
        if mark is not None and len(mark.args) == 1 and not config.option.long:
            name = item.nodeid.partition("[")[0]
            shares.setdefault(name, (mark.args[0], []))[1].append(item)
    left_out: set[pytest.Item] = set()
    for name, (count, cases) in shares.items():
        rng = random.Random(f"{config.option.seed} {name}")
        left_out.update(rng.sample(cases, max(0, len(cases) - count)))
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose mark names what is missing, before any of its fixtures."""
    for mark in item.iter_markers("needs"):
        need(*mark.args)


@pytest.fixture(scope="session")
def playwright() -> Generator[Any]:
    """What drives browsers: there can be one in a process."""
    with need("playwright.sync_api").sync_playwright() as one:
        yield one


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether sweeps are run whole."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What draws the shares; `pytest --seed` repeats it."""
    drawn: int = request.config.option.seed
    return drawn


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Call it with what is to be counted; the run ends with a line for each such text."""
    return lambda text: request.node.user_properties.append((COUNTED, text))


class Golden:
    """Compare texts with files beside the test that asks."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.folder = request.path.parent
        self.nodeid: str = request.node.nodeid
        self.bless = bool(request.config.getoption("--bless"))

    def __call__(self, text: str, name: str) -> None:
        """Fail unless the file `name` holds `text`; with `--bless`, write it there instead."""
        path = self.folder / name
        if self.bless:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        accept = f"to accept it: pytest --bless {shlex.quote(self.nodeid)}"
        if not path.exists():
            pytest.fail(f"{name} is not there yet; what came out:\n{text}\n{accept}", pytrace=False)
        golden = path.read_bytes().decode()
        if text != golden:
            diff = unified_diff(golden, text, name)
            pytest.fail(f"{name} differs from what came out:\n{diff}\n{accept}", pytrace=False)


def unified_diff(golden: str, text: str, name: str) -> str:
    """Return the change from `golden` to `text`, a missing end of line made visible."""
    old, new = ([*t.splitlines(), *missing_end(t)] for t in (golden, text))
    names = f"{name} (golden)", f"{name} (now)"
    return "\n".join(difflib.unified_diff(old, new, *names, lineterm=""))


def missing_end(text: str) -> list[str]:
    """Return the line that stands for an absent last newline, as in git's diffs."""
    return [] if text.endswith("\n") else ["\\ no newline at the end"]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Call it as `golden(text, "name.ir")`."""
    return Golden(request)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch, the witness; without it these tests are skipped, but never in CI."""
    torch: ModuleType = need("torch")
    # PyTorch's own kernels are the witness: oneDNN's gelu of infinity is NaN.
    torch.backends.mkldnn.set_flags(_enabled=False)
    return torch
