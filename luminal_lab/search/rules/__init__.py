"""The rules of search: equations between elements, none of which knows a layer's name."""

from luminal_lab.search.rules.cascade import CASCADE
from luminal_lab.search.rules.change import CHANGE
from luminal_lab.search.rules.folds import FOLDS, REGROUPING
from luminal_lab.search.rules.scalar import SCALAR

STRATA = (SCALAR, FOLDS, (*CHANGE, *CASCADE), REGROUPING)
"""The rules in the order in which they are tried, each group until nothing is new."""
