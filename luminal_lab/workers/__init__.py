"""Sharding: one graph on many workers, as passes that can be looked at."""
