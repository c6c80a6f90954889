"""Passes, which change a graph, and the tools that show their changes."""
