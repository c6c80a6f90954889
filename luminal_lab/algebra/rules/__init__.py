"""The rules of search: equations between elements, none of which knows the name of a layer."""

from luminal_lab.algebra.rules.cascade import CASCADE
from luminal_lab.algebra.rules.change import CHANGE
from luminal_lab.algebra.rules.folds import FOLDS, REGROUPING
from luminal_lab.algebra.rules.rule import Rules
from luminal_lab.algebra.rules.scalar import SCALAR

RULES = Rules([*SCALAR, *FOLDS, *CHANGE, *CASCADE, *REGROUPING])
"""All rules; those that may go on for ever are tried when nothing else brings anything new."""
