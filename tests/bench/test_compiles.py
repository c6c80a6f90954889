"""What the rows about compiling compile is what they say."""

from time import sleep

import pytest

from luminal_lab.bench import compiles
from luminal_lab.bench.workloads import workloads
from luminal_lab.core.ops import Call
from luminal_lab.devices.build import cache
from luminal_lab.devices.cpu import libraries

QUICK = {workload.name: workload.sizes for workload in workloads(quick=True)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")


@pytest.mark.needs("cc")
def test_all_kernels_of_the_last_graph_are_known(monkeypatch):
    *before, last = compiles.known_ops(QUICK["compile-known"])
    count = sum(len(compiles.compiled(cx, 1).kernels) for cx in before)
    monkeypatch.setattr(libraries, "build_all", None)  # nothing is compiled
    assert len(compiles.compiled(last, 1).kernels) == count


@pytest.mark.needs("cc")
def test_convolutions_are_kernels_of_their_own():
    cx = compiles.compiled(compiles.convolutions(QUICK["compile-convnet-cold"]), 1)
    calls = [node for node in cx.compilation.ir if isinstance(node.op, Call)]
    assert len(cx.kernels) == len(calls) > 6


@pytest.mark.needs("cc")
def test_a_row_says_what_the_machine_takes_for_nothing():
    facts = compiles.references()
    assert [*facts] == [compiles.NUMPY, compiles.EMPTY]
    assert all(ms > 0 for ms in facts.values())


def test_seconds_of_methods_are_added_up_while_they_are_counted():
    class Slow:
        def wait(self, seconds):
            sleep(seconds)
            return seconds

    taken = [0.0]
    with compiles.counted([(Slow, "wait")], taken):
        assert Slow().wait(0.002) + Slow().wait(0.003) == 0.005
    assert taken[0] >= 0.005
    was = taken[0]
    Slow().wait(0.001)
    assert taken[0] == was
