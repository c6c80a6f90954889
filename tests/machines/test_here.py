"""What the machine has is read where it says so, and guessed where it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from luminal_lab.machines import here as machine
from luminal_lab.machines.here import (
    available_memory,
    group_memory,
    linux_caches,
    this_machine,
    usable_cores,
    vector_bytes,
)
from luminal_lab.machines.machine import Machine


def test_this_machine_has_something():
    found = this_machine()
    assert found.cores == usable_cores() >= 1
    assert found.vector_bytes in (16, 32, 64)
    assert found.dot in (1, 2)
    assert 4096 <= found.l1 <= found.l2
    assert (available_memory() or 1) > 0


@pytest.mark.parametrize(
    ("arch", "features", "width"),
    [
        ("x86_64", "sse2 avx avx2 avx512f", 64),
        ("AMD64", "sse2 AVX AVX2", 32),
        ("x86_64", "sse2 sse4_2", 16),
        ("x86_64", "", 32),
        ("arm64", "", 16),
        ("aarch64", "asimd sve", 16),
    ],
)
def test_the_width_of_vectors(arch, features, width):
    assert vector_bytes(arch, features) == width


@pytest.mark.parametrize(("features", "dot"), [("avx2 avx512f", 1), ("avx512f avx512_bf16", 2)])
def test_products_that_a_lane_adds_up(monkeypatch, features, dot):
    monkeypatch.setattr(machine, "_features", lambda: features)
    this_machine.cache_clear()
    try:
        assert this_machine().dot == dot
    finally:
        this_machine.cache_clear()


def test_caches_are_those_of_one_core(tmp_path: Path):
    table = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1280K")]
    table += [("3", "Unified", "30M"), ("4", "Unified", "what")]
    for number, (level, kind, size) in enumerate(table):
        folder = tmp_path / "cpu0" / "cache" / f"index{number}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert linux_caches(tmp_path) == {"l1": 48 << 10, "l2": 1280 << 10, "l3": 30 << 20}
    assert linux_caches(tmp_path / "nothing") == {}


def test_a_mac_says_what_it_has(monkeypatch):
    said = {"hw.perflevel0.l1dcachesize": "131072", "hw.l1dcachesize": "65536"}
    said |= {"hw.l2cachesize": "4194304"}
    monkeypatch.setattr(machine, "_sysctl", lambda _: said)
    assert machine._sysctl_caches() == {"l1": 131072, "l2": 4194304}


def test_lanes():
    assert [Machine(32).lanes(size) for size in (1, 4, 8)] == [32, 8, 4]


def test_the_memory_of_groups_within_groups(tmp_path):
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    for folder, most in ((tmp_path, "max"), (tmp_path / "one", "1000"), (inner, "800")):
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text("700\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 40\nactive_file 7\n")
    assert group_memory(tmp_path, "0::/one/two\n") == [140, 340]
    assert group_memory(tmp_path, "0::/another\n") == []


def test_the_memory_of_groups_of_the_first_version(tmp_path):
    inner = tmp_path / "memory" / "one"
    inner.mkdir(parents=True)
    (inner / "memory.limit_in_bytes").write_text("1000\n")
    (inner / "memory.usage_in_bytes").write_text("300\n")
    (inner / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 20\n")
    assert group_memory(tmp_path, "5:cpu:/x\n4:cpuset,memory:/one\n0::/\n") == [720]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what a process has")
def test_a_limit_of_the_process_counts():
    script = """if True:
        import resource
        from luminal_lab.machines.here import available_memory
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.RLIM_INFINITY))
        print(available_memory() < 3 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        print(available_memory())
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "0"]
