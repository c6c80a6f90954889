"""Kernels are planned once for a machine, and read from the disk later."""

import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache
from luminal_lab.devices.cpu import planned
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_kernel
from luminal_lab.machines.machine import Machine

MACHINE = Machine(cores=2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A cache of each test's own; nothing is remembered from other tests."""
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "libraries")
    planned._planned.cache_clear()
    return tmp_path / "kernels"


@pytest.fixture
def makes(monkeypatch) -> list[str]:
    """Return the names of the kernels that were planned."""
    names: list[str] = []

    def noted(definition, name, machine):
        names.append(name)
        return make_kernel(definition, name, machine)

    monkeypatch.setattr(planned, "make_kernel", noted)
    return names


def definition(size: int = 8, scale: float = 2):
    """Return the definition of a small kernel."""
    cx = ll.Graph()
    ((cx.tensor((4, size), name="x") * scale).softmax(-1)).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
    kernel = cx.kernels[0].definition
    assert kernel is not None
    return kernel


def anew(written, name: str = "softmax", machine: Machine = MACHINE) -> Kernel:
    """Return a kernel as another process would get it."""
    planned._planned.cache_clear()
    return planned.planner(machine)(written, name)


def test_a_kernel_is_planned_once(makes):
    written = definition()
    first, again = anew(written), anew(written)
    assert makes == ["softmax"]
    assert again is not first
    assert again == first == make_kernel(written, "softmax", MACHINE)
    assert again.refused == first.refused
    assert again.choices.values == first.choices.values
    assert again.rescheduled("parallel i").source == first.rescheduled("parallel i").source


def test_what_a_plan_looks_at_is_in_the_key(makes):
    anew(definition())
    anew(definition(16))
    anew(definition(), name="other")
    anew(definition(), machine=Machine(cores=8))
    assert makes == ["softmax", "softmax", "other", "softmax"]


READING = """
import pickle, sys
from pathlib import Path
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Mul
from luminal_lab.kernels.definition.terms import Apply, walk

kernel = pickle.loads(Path(sys.argv[1]).read_bytes())
types = {*kernel.definition.types.values(), *kernel.nest.types.values()}
assert TensorType(DType.float32, (4, 8)) in types, types
terms = [*walk(*(line.term for line in kernel.definition.lines))]
assert Mul() in {term.op for term in terms if isinstance(term, Apply)}, terms
sys.stdout.write(kernel.source)
"""


def test_another_process_reads_what_this_one_kept(folder):
    kernel = anew(definition())
    (entry,) = folder.iterdir()
    command = [sys.executable, "-c", READING, str(entry / "kernel.pickle")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", kernel.source)


@pytest.mark.parametrize("name", ["kernel.pickle", "definition.txt", "entry.json"])
def test_a_damaged_entry_is_made_anew(makes, folder, name):
    first = anew(definition())
    (entry,) = folder.iterdir()
    (entry / name).write_bytes(b"\x80damaged")
    assert anew(definition()) == first
    assert anew(definition()) == first
    assert makes == ["softmax", "softmax"]


def test_an_entry_that_others_may_have_written_is_not_read(makes, folder):
    anew(definition())
    folder.chmod(0o777)
    anew(definition())
    assert makes == ["softmax", "softmax"]


def test_a_kernel_that_cannot_be_kept_is_made(makes, folder):
    folder.write_bytes(b"no folder")
    assert anew(definition()) == anew(definition())
    assert makes == ["softmax", "softmax"]


@dataclass(frozen=True, slots=True)
class Halved(ll.Unary):
    """x / 2."""

    name: ClassVar[str] = "halved"
    c_form: ClassVar[str] = "({0} * 0.5f)"

    def eval(self, x):
        return x * np.float32(0.5)


def test_kernels_of_users_ops_are_not_kept(makes, folder):
    cx = ll.Graph()
    cx.tensor((4,), name="x").apply(Halved()).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
    written = cx.kernels[0].definition
    for _ in range(2):
        anew(written, "halved")
    assert makes == ["halved", "halved"]
    assert not folder.exists()


def test_nothing_is_read_or_kept_once_a_file_has_changed(makes, folder, monkeypatch):
    anew(definition())
    monkeypatch.setattr(planned, "STAMP", "of other files")
    anew(definition())
    assert makes == ["softmax", "softmax"]
    assert len([*folder.iterdir()]) == 1


@pytest.mark.needs("cc")
def test_a_compile_takes_its_kernels_from_there(makes):
    sources = []
    for _ in range(2):
        planned._planned.cache_clear()
        cx = ll.Graph()
        x = cx.tensor((4, 8), name="x").set(np.ones((4, 8), np.float32))
        y = x.softmax(-1).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
        np.testing.assert_allclose(y.numpy(), 1 / 8)
        sources.append(cx.kernels[0].source)
        assert "softmax" in cx.kernels[0].assembly.text
    assert makes == ["softmax"]
    assert sources[0] == sources[1]


def test_a_kernel_is_stored_without_hashes():
    kernel = replace(make_kernel(definition(), "softmax", MACHINE), make=None)
    hash(kernel.definition)
    plain, own = pickle.dumps(kernel), planned.pickled(kernel)
    assert b"_hash" in plain
    assert b"_hash" not in own
