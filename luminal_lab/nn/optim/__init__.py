"""Optimisers: each run of a graph makes one step, and the weights' next values are carried."""

from luminal_lab.nn.optim.adam import Adam, AdamW
from luminal_lab.nn.optim.base import Number, Optimiser, State
from luminal_lab.nn.optim.lamb import LAMB
from luminal_lab.nn.optim.muon import Muon
from luminal_lab.nn.optim.sgd import SGD

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Muon", "Number", "Optimiser", "State"]
