"""Libraries that are wrong, that crash, that refuse: what a benchmark must say of them."""

import os

from luminal_lab.bench.peers.known import Known
from luminal_lab.bench.peers.numpy import NumPy
from luminal_lab.bench.peers.peer import ReadyWorkload
from luminal_lab.bench.workload import Unable


class Wrong(NumPy):
    """Off by one in one place."""

    def gelu(self, sizes, d):
        right = super().gelu(sizes, d)

        def read(result):
            (found,) = right.read(result)
            found[1, 2] += 1
            return [found]

        return ReadyWorkload(right.run, read)


class Crashing(NumPy):
    """Its process ends at the third run."""

    def gelu(self, sizes, d):
        right, runs = super().gelu(sizes, d), iter(range(2))

        def run():
            if next(runs, None) is None:
                os.write(2, b"the end\n")
                os._exit(3)
            return right.run()

        return ReadyWorkload(run, right.read)


class Raising(NumPy):
    """It raises what nobody expects."""

    def gelu(self, sizes, d):
        raise ValueError("no such thing\nand more")


class Refusing(NumPy):
    """It says only when it has seen the data that it cannot."""

    def gelu(self, sizes, d):
        raise Unable("the data is too large for it")


def known(kind, *modules):
    return Known(kind.__name__, f"tests.bench.planted:{kind.__name__}", modules or ("numpy",))
