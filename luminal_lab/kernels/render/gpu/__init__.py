"""Nests as CUDA C++ and as Metal."""
