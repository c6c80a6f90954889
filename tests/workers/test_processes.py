"""Workers as processes that talk by something of the user's: the example of the page."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import luminal_lab as ll
from tests.workers.faulty import ROWS

END = "dist.destroy_process_group()"
PIPED = (
    END,
    f"""\
cp = ll.Graph("piped")
h = cp.tensor((4, 3), name="x").set(np.arange(12).reshape(4, 3))
with cp.scope("first"):
    h = h * 2
with cp.scope("second"):
    y = (h + 1).sum().retrieve()
stages = {{"first": 0, "second": 1}}
cp.compile(ll.Pipelined(stages, ll.CPUCompiler(), batch="x", microbatches=2, engine=engine))
cp.execute()
print(y.item())
{END}""",
)
"""The end of the page's script, and a pipeline on the same engine before it."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.needs("torch", "cc")
def test_torch_distributed_as_the_page_has_it(tmp_path: Path) -> None:
    page = (ROOT / "docs/sharding.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n# file: by_torch\.py\n(.*?)```", page, re.DOTALL)
    assert found is not None
    script = tmp_path / "by_torch.py"
    script.write_text(found[1].replace(*PIPED), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    how = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    how |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, **how, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    x = np.arange(12.0).reshape(4, 3)
    for process in started:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert [*map(json.loads, said.splitlines())] == [
            [(x * x).sum(0).tolist(), (x + 1).tolist()],
            (1 + 2 * x).sum().item(),
        ]


def test_as_many_processes_as_workers() -> None:
    engine = ll.engines.Processes(0, 1, lambda mesh: pytest.fail(f"{mesh} is not talked about"))
    plan = ll.sharding(ll.Mesh(data=2), ROWS)
    message = r"^Mesh\(data=2\) has 2 workers, and there is 1 process\n.*plan = ll\.sharding"
    with pytest.raises(ll.errors.ArgumentError, match=message):
        ll.Sharded(plan, engine=engine)


def test_an_mpi_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise RuntimeError("cannot load MPI library\nlibmpi.so.12: no such file")

    monkeypatch.setitem(sys.modules, "mpi4py", Without("mpi4py"))
    message = r"^mpi: mpi4py finds no MPI: cannot load MPI library\n"
    with pytest.raises(ll.DeviceError, match=message) as caught:
        ll.engines.MPI()
    assert "LD_LIBRARY_PATH" in str(caught.value.hint)


def test_wrong_ranks_and_talks_are_told() -> None:
    for rank, size in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ll.errors.ArgumentError, match=r"^Processes: "):
            ll.engines.Processes(rank, size, object)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ll.errors.ArgumentError, match=r"^Processes: talk is 3"):
        ll.engines.Processes(0, 1, 3)  # pyright: ignore[reportArgumentType]
    engine = ll.engines.Processes(0, 1, lambda mesh: object())  # pyright: ignore[reportArgumentType]
    cx = ll.Graph("g")
    cx.tensor((2,), name="x").set([1, 2]).sum().retrieve()
    cx.compile(ll.Sharded(ll.sharding(ll.Mesh(data=1)), engine=engine))
    message = "^processes: object has no all_reduce, no all_gather, no all_to_all"
    with pytest.raises(ll.DeviceError, match=message):
        cx.execute()


def test_pipelines_need_letters() -> None:
    class Silent:
        def all_reduce(self, x: object, axis: str, kind: str) -> object:
            return x

        all_gather = all_to_all = all_reduce

    engine = ll.engines.Processes(0, 1, lambda mesh: Silent())  # pyright: ignore[reportArgumentType]
    cx = ll.Graph("g")
    cx.tensor((2,), name="x").set([1, 2]).exp().sum().retrieve()
    cx.compile(ll.Pipelined({"": 0}, batch="x", microbatches=2, engine=engine))
    with pytest.raises(ll.DeviceError, match=r"^pipelines need letters, and Silent has no send"):
        cx.execute()
