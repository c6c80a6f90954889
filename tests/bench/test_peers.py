"""Every workload in our form gives what NumPy's form gives, or PyTorch's where NumPy has none."""

import warnings

import numpy as np
import pytest

from luminal_lab.bench.measure import apart
from luminal_lab.bench.peers.numpy import NumPy
from luminal_lab.bench.peers.ours import Ours
from luminal_lab.bench.peers.torch import Torch
from luminal_lab.bench.workloads import workloads

CHOSEN = [one for one in workloads(quick=True) if one.has_peers and one.kind != "compile_gpt2"]


def results(peer, workload, data):
    ready = peer.prepare(workload, data)
    return [array for _ in range(workload.calls) for array in ready.read(ready.run())]


@pytest.mark.share(8)
@pytest.mark.parametrize("workload", CHOSEN, ids=lambda one: one.name)
def test_ours_agrees(workload, request):
    data = workload.data(workload.sizes, np.random.default_rng(0))
    for array in data.values():
        array.flags.writeable = False  # as in a run, where others read it too
    if NumPy.spells(workload.kind):
        witness = NumPy(1)
    else:
        request.getfixturevalue("torch")
        witness = Torch(1)
    with warnings.catch_warnings(action="ignore"):  # torch warns of arrays that it may not write
        theirs = results(witness, workload, data)
    for variant in ("", *workload.variants):
        ours = results(Ours(1, variant), workload, data)
        assert apart("the witness", theirs, ours, workload.tolerance) == []
