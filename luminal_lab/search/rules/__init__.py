"""The rules of search: equations between elements, none of which knows a layer's name."""

from luminal_lab.search.rules.cascade import CASCADE
from luminal_lab.search.rules.change import CHANGE
from luminal_lab.search.rules.folds import FOLDS, REGROUPING
from luminal_lab.search.rules.rule import Rules
from luminal_lab.search.rules.scalar import SCALAR

RULES = Rules([*SCALAR, *FOLDS, *CHANGE, *CASCADE, *REGROUPING])
"""All rules; those that may go on for ever are tried once nothing else is new."""
