"""Kernels in CUDA and Metal on the CPU: each thread a fiber, each access seen where that is asked.

emulate(source, "cuda", [Call("scale", 4, 256, [x, y, 1024])], trace=True)
"""

from luminal_lab.emulator.emulate import Call, Matrix, emulate
from luminal_lab.emulator.trace import Finding, Trace

__all__ = ["Call", "Finding", "Matrix", "Trace", "emulate"]
