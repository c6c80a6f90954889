"""Kernels in CUDA and Metal on the CPU: each thread a fiber, and each access recorded if requested.

emulate(source, "cuda", [Call("scale", 4, 256, [x, y, 1024])], trace=True)
"""

from luminal_lab.emulator.emulate import Call, Matrix, emulate
from luminal_lab.emulator.trace import Finding, Trace

__all__ = ["Call", "Finding", "Matrix", "Trace", "emulate"]
