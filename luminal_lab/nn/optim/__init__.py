"""Optimisers: each run of a graph makes one step, and the weights' next values are carried."""

from luminal_lab.nn.optim.adam import Adam, AdamW
from luminal_lab.nn.optim.base import Number, Optimiser, State
from luminal_lab.nn.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Number", "Optimiser", "State"]
