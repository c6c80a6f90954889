"""Kernels: what is computed together, and the code that does it."""
