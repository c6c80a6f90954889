"""Nests as C."""
