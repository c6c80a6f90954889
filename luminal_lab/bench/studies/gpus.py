"""What a search finds for GPUs that are not here: the best beside the default, both modelled.

    python -m luminal_lab.bench.studies.gpus [CANDIDATES]

Nothing is measured: the shares come from a model, registers and spills from NVRTC, and values were
checked in the emulator at small sizes.
"""

import sys
from collections.abc import Callable, Mapping

import luminal_lab as ll

ARCHS = "sm_75", "sm_80", "sm_90a"
CANDIDATES = 16


def matmul() -> ll.Graph:
    """Return a product of 1024 × 1024 × 1024 in float32."""
    cx = ll.Graph("matmul")
    (cx.tensor((1024, 1024), name="a") @ cx.tensor((1024, 1024), name="b")).retrieve()
    return cx


def softmax() -> ll.Graph:
    """Return a softmax of 4096 rows of 1000."""
    cx = ll.Graph("softmax")
    cx.tensor((4096, 1000), name="x").softmax(-1).retrieve()
    return cx


def attention() -> ll.Graph:
    """Return attention of four heads, 512 rows and keys of 64."""
    cx = ll.Graph("attention")
    q, k, v = (cx.tensor((4, 512, 64), name=name) for name in "qkv")
    (((q @ k.transpose(-1, -2)) * 0.125).softmax(-1) @ v).retrieve()
    return cx


WORKLOADS: Mapping[str, Callable[[], ll.Graph]] = {
    "matmul": matmul,
    "softmax": softmax,
    "attention": attention,
}


def main(candidates: int = CANDIDATES) -> None:
    """Print a line for each workload and architecture."""
    print("best / default by the model; what the best takes")
    for name, make in WORKLOADS.items():
        for arch in ARCHS:
            search = make().search(
                ll.CUDACompiler(arch=arch), budget=ll.Budget(candidates=candidates)
            )
            best, default = search.best.modelled, search.default.modelled
            if best is None or default is None:
                print(f"{name:<10} {arch:<7} nothing is modelled")
                continue
            kernels = "; ".join(kernel.resources for kernel in search.best.regions.values())
            print(f"{name:<10} {arch:<7} {best / default:.3f}  {kernels}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
