"""Passes: what changes a graph, and what shows how."""
