"""The same seed and the same answers: the same candidates, by any hashes and in any Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = "import numpy, ml_dtypes, typing_extensions"
PROGRAM = """
import luminal_lab as ll
from luminal_lab.search.graph import search_program
from luminal_lab.search.loops import search_kernel
from tests.search.planted import guess, matmul, tiles
from tests.search.written import attention

cx = attention()
for program in ll.search.judged_programs(ll.search.space_of(cx.ir)):
    print(program.definition, *(firing.rule for firing in program.derivation), sep="\\n")
cx = ll.Graph()
(cx.tensor((70, 60), name="a") @ cx.tensor((60, 50), name="b")).retrieve()
device = ll.CPUCompiler(threads=2)
fused = ll.compile_ir(cx.ir, ll.GenericCompiler(), ll.Pipeline(device.passes, rounds=1)).ir
search = search_program(fused, device, budget=ll.Budget(candidates=20), worker=guess)
print(*search.candidates, sep="\\n")
budget = ll.Budget(candidates=72)  # so that the ranker is asked, too
search = search_kernel(matmul(70, 60, 50), device, plan=tiles, budget=budget, worker=guess)
print(*search.candidates, sep="\\n")
"""


def told_by(python: str, hashes: str) -> str:
    """Return what a search tells in another process."""
    return subprocess.run(
        [python, "-c", PROGRAM],
        env=os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def told() -> str:
    return told_by(sys.executable, "0")


@pytest.mark.parametrize("hashes", ["1", "2"])
def test_hashes_change_nothing(told: str, hashes: str):
    assert "cascade" in told
    assert told.count("candidate ") == 21 + 73
    assert told_by(sys.executable, hashes) == told


def test_another_python_finds_the_same(told: str):
    names = [f"python3.{minor}" for minor in range(11, 20) if minor != sys.version_info.minor]
    others = [
        python
        for name in (str(Path("build/other/bin/python").absolute()), *names)
        if (python := shutil.which(name))
        and not subprocess.run([python, "-c", NEEDED], capture_output=True).returncode
    ]
    if not others:
        pytest.skip("there is no other Python that has numpy and ml_dtypes: make other makes one")
    for python in others:
        assert told_by(python, "3") == told
