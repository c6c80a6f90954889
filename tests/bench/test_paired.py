"""An old checkout beside this one: real processes of both, their ratio and their machine code."""

import json
import shutil

import pytest

from luminal_lab.bench import paired
from luminal_lab.bench.paired import Pair, PairedReport, commit_of, compare, foot, head, line
from luminal_lab.bench.table import WIDTH
from luminal_lab.bench.workloads import workloads
from luminal_lab.errors import ArgumentError
from tests.expect import error_of

GELU = [one for one in workloads(quick=True) if one.name == "gelu"]
COMPILES = [one for one in workloads(quick=True) if one.name == "compile-known"]


@pytest.fixture
def _repository():
    if shutil.which("git") is None or not (paired.package_root() / ".git").exists():
        pytest.skip("this is not a git checkout, which has old commits")


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(paired, "ROUNDS", 6)
    monkeypatch.setattr(paired, "ALONE", 1)
    monkeypatch.setattr(paired, "TRIES", 1)
    monkeypatch.setattr(paired, "TURN", 0.0)


@pytest.mark.usefixtures("_repository", "_few")
def test_a_commit_beside_the_checkout(monkeypatch):
    """Whatever the commit calls the classes of its benchmark."""
    original = paired.check_out

    def renamed(commit, folder):
        original(commit, folder)
        for path in (folder / "luminal_lab" / "bench").rglob("*.py"):
            text = path.read_text("utf-8")
            text = text.replace("StoredArrays", "Stored").replace("ArrayPosition", "Placed")
            path.write_text(text, "utf-8")

    monkeypatch.setattr(paired, "check_out", renamed)
    seen = []
    report = compare(
        "HEAD", [*GELU, *COMPILES], 1, is_quick=True, done=lambda *row: seen.append(row)
    )
    row, alone = report.rows
    assert (row.name, row.failed, len(row.old), len(row.new)) == ("gelu", [], 6, 6)
    assert row.same_code is (True if shutil.which("objdump") else None)
    assert (alone.name, alone.failed, len(alone.old)) == ("compile-known", [], 1)
    assert report.is_good
    assert row.ratio is not None
    assert alone.ratio is not None
    assert report.mean == pytest.approx((row.ratio * alone.ratio) ** 0.5)
    assert seen == [(report, row), (report, alone)]
    given = json.loads(report.to_json())
    assert given["commit"] == commit_of("HEAD")
    assert given["rows"][0]["ratio"] == row.ratio


@pytest.mark.usefixtures("_repository", "_few")
def test_the_old_one_is_another_checkout(monkeypatch, tmp_path):
    """What the old one has compiled is its own: here it is made to compile something else."""
    original = paired.check_out

    def changed(commit, folder):
        original(commit, folder)
        path = folder / "luminal_lab" / "bench" / "peers" / "ours.py"
        text = path.read_text("utf-8")
        path.write_text(text.replace('x.gelu("tanh")', 'x.gelu("tanh") + 1'), "utf-8")

    monkeypatch.setattr(paired, "check_out", changed)
    report = compare("HEAD", GELU, 1, is_quick=True)
    (row,) = report.rows
    assert row.failed[0].startswith("the old one disagrees: at (")
    assert row.same_code in (False, None)
    assert not report.is_good


def made(name="one", old=(2.0,) * 40, new=(1.0,) * 40, **more):
    return Pair(name, list(old), list(new), **more)


def test_the_ratio_is_the_median_of_the_pairs():
    row = made(old=[1.0] * 20 + [10.0] * 20, new=[1.0] * 20 + [10.0] * 20)
    assert (row.ratio, row.bounds, row.spread) == (1.0, (1.0, 1.0), 0.0)
    rising = made(old=[k / 40 for k in range(40)], new=[1.0] * 40)
    assert rising.ratio == pytest.approx(19.5 / 40)
    assert rising.bounds == (13 / 40, 26 / 40)
    assert made(old=(), new=()).ratio is None


def test_the_table():
    report = PairedReport("0123456789abcdef", "2026-01-02", 2, is_quick=False)
    report.rows = [
        made("matmul-128x768x3072", same_code=True),
        made("slow", old=[0.9] * 40, same_code=False, busy=1.5),
        made("failed", old=(), new=(), failed=["new: it ended"]),
    ]
    assert report.mean == pytest.approx(1.8**0.5)
    text = [*head(report).splitlines(), *map(line, report.rows), *foot(report)]
    assert text == [
        "commit 0123456789ab beside this checkout, 2 threads, 40 pairs of turns",
        "a ratio above 1: this checkout is faster",
        "",
        "workload                 old, ms    new, ms   ratio  95% within    code",
        "-" * WIDTH,
        "matmul-128x768x3072            2          1   2.000  2.00 to 2.00  same",
        "slow                         0.9          1   0.900  0.90 to 0.90  other   load 1.5",
        "failed                 FAILED",
        "geometric mean of the ratios: 1.342",
        "below 0.97: slow",
        "other machine code: slow",
    ]
    assert max(map(len, text)) <= WIDTH


@pytest.mark.usefixtures("_repository")
def test_a_commit_that_is_none():
    error = error_of(lambda: commit_of("no-such-commit"), ArgumentError)
    assert str(error) == (
        "bench: there is no commit 'no-such-commit'\n"
        "hint: give what git log shows, or a branch or tag"
    )


@pytest.mark.usefixtures("_repository")
def test_a_package_that_is_no_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(paired, "package_root", lambda: tmp_path)
    error = error_of(lambda: commit_of("HEAD"), ArgumentError)
    assert str(error) == (
        f"bench: {tmp_path} is not a git checkout, and has no old commits\n"
        "hint: clone the repository, and install it with pip install --editable"
    )
