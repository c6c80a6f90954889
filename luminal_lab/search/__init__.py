"""Search: from what was written to programs that compute it, by rules that know no layer."""

from luminal_lab.search.proof import counterexample, rule
from luminal_lab.search.rules import RULES
from luminal_lab.search.space import Space, space_of

__all__ = ["RULES", "Space", "counterexample", "rule", "space_of"]
