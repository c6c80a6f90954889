"""Nests as source: what all dialects share."""
